/*
 * test_ops_on_cuts.c: ops on operands that are strided, balanced, in segments or cut in another
 * order: left so where all agree, without communication, and right in any case.
 */
/* ranks: 2 4 8 */
/* mpi: 4 */
#include <stdlib.h>
#include <string.h>

#include "placement/element_map.h"
#include "support/worlds.h"
#include "tensor/tensor.h"

/* Cuts of 12 rows over (a, b). */
static const char *const cuts[] = {
    "SS(0,2),R",          "SS(0,3),S(0)",    "S(0),SS(0,2)",        "S(0)[1],S(0)[0]",
    "S(0|2,1),R",         "R,S(0|1,2,3)",    "S(0,balanced),R",     "S(0|2,1)[1],S(0|2,1)[0]",
    "S(0,balanced),S(1)", "SS(0,5),SS(1,2)", "S(0)[1],S(0|1,1)[0]", "SS(0,2),S(1,balanced)"};

enum { CUTS = sizeof cuts / sizeof cuts[0] };

static struct wt_world open_world(void) { return wt_world_open_mesh("a=2,b=%d", wt_ranks() / 2); }

static double *whole_of(weft_tensor *t)
{
    double *values = wt_values(t);

    if (!values) abort();
    return values;
}

/* The placements are as a user could have written them. */
static bool is_normal(weft_tensor *t)
{
    const struct wf_layout *l = t->layout;
    weft_placement normal[WEFT_MAX_AXES];

    return wf_placements_normalize(normal, l->placements, l->n_axes, l->desc.ndim, "test") ==
               WEFT_OK &&
           wf_placements_check_segments(normal, l->n_axes, l->desc.global, "test") == WEFT_OK &&
           memcmp(normal, l->placements, (size_t)l->n_axes * sizeof *normal) == 0;
}

/* The distributed result has the values of the plain one, on this rank and in full. */
static bool equals(weft_tensor *got, weft_tensor *plain)
{
    double *want = whole_of(plain);
    bool partial = false, near;

    for (int a = 0; got && a < weft_mesh_ndim(weft_tensor_mesh(got)); a++)
        partial |= weft_is_partial(weft_tensor_placement(got, a));
    near = got && is_normal(got) && (partial || wt_near_local(got, want, WT_WITHIN(1e-12))) &&
           wt_near_full(got, want, WT_WITHIN(1e-12));
    free(want);
    return near;
}

WT_TEST_IN(cuts__that_agree_stay_in_pointwise_ops, w, open_world())
{
    weft_tensor *x = wt_whole(WEFT_F64, 0, 12, 7), *y = wt_whole(WEFT_F64, 1, 12, 7);

    for (int i = 0; i < CUTS; i++) {
        weft_tensor *a = wt_spread(w, x, cuts[i]), *b = wt_spread(w, y, cuts[i]), *z;

        z = weft_gelu(weft_mul(weft_add(a, b), a));
        WT_ALL(wt_is_placed(z, cuts[i]));
        WT_STILL(w);
        WT_ALL(equals(z, weft_gelu(weft_mul(weft_add(x, y), x))));
        wt_moved(w, WEFT_COLL_COUNT);
    }
}

WT_TEST_IN(cuts__that_differ_are_brought_together, w, open_world())
{
    weft_tensor *x = wt_whole(WEFT_F64, 0, 12, 7), *y = wt_whole(WEFT_F64, 1, 12, 7);

    for (int i = 0; i < CUTS; i++)
        for (int j = 0; j < CUTS; j += 1 + i % 3)
            WT_ALL(equals(weft_add(wt_spread(w, x, cuts[i]), wt_spread(w, y, cuts[j])),
                          weft_add(x, y)));
}

/* Contracting a dim that both operands have cut alike leaves a sum, and moves nothing. */
WT_TEST_IN(cuts__of_a_contracted_dim_leave_a_partial_sum, w, open_world())
{
    static const char *const pairs[][2] = {{"SS(1,2),R", "SS(0,2),R"},
                                           {"S(1|2,1),R", "S(0|2,1),R"},
                                           {"S(1)[1],S(1)[0]", "S(0)[1],S(0)[0]"},
                                           {"SS(1,3),S(0)", "SS(0,3),R"},
                                           {"S(1,balanced),R", "S(0,balanced),R"}};
    weft_tensor *x = wt_whole(WEFT_F64, 0, 5, 12), *y = wt_whole(WEFT_F64, 1, 12, 7);

    for (int i = 0; i < 5; i++) {
        weft_tensor *z = weft_matmul(wt_spread(w, x, pairs[i][0]), wt_spread(w, y, pairs[i][1]));

        WT_ALL(z && weft_is_partial(weft_tensor_placement(z, 0)));
        WT_STILL(w);
        WT_ALL(equals(z, weft_matmul(x, y)));
        wt_moved(w, WEFT_COLL_COUNT);
    }
}

/* A fused projection: the output has the weight's segments. */
WT_TEST_IN(cuts__of_a_fused_weight_are_those_of_its_output, w, open_world())
{
    weft_tensor *x = wt_whole(WEFT_F64, 0, 5, 4), *weight = wt_whole(WEFT_F64, 1, 36, 4), *y;

    y = weft_linear(wt_spread(w, x, "R,R"), wt_spread(w, weight, "S(0|4,1,1),R"), NULL, 1);
    WT_ALL(wt_is_placed(y, "S(1|4,1,1),R"));
    WT_STILL(w);
    WT_ALL(equals(y, weft_linear(x, weight, NULL, 1)));
}

WT_TEST_IN(cuts__reduce_and_permute_and_slice, w, open_world())
{
    weft_tensor *x = wt_whole(WEFT_F64, 0, 12, 6);
    int rows = 0;

    for (int i = 0; i < CUTS; i++) {
        weft_tensor *t = wt_spread(w, x, cuts[i]);

        WT_ALL(equals(weft_sum(t, &rows, 1, false), weft_sum(x, &rows, 1, false)));
        WT_ALL(equals(weft_mean(t, &rows, 1, true), weft_mean(x, &rows, 1, true)));
        WT_ALL(equals(weft_amax(t, &rows, 1, false), weft_amax(x, &rows, 1, false)));
        WT_ALL(equals(weft_softmax(t, 1), weft_softmax(x, 1)));
        WT_ALL(equals(weft_softmax(t, 0), weft_softmax(x, 0)));
        WT_ALL(equals(weft_transpose(t, 0, 1), weft_transpose(x, 0, 1)));
        WT_ALL(equals(weft_slice(t, 0, 3, 10), weft_slice(x, 0, 3, 10)));
        WT_ALL(equals(weft_slice(t, 1, 1, 4), weft_slice(x, 1, 1, 4)));
        WT_ALL(equals(weft_reshape(t, (int64_t[]){3, 4, 6}, 3),
                      weft_reshape(x, (int64_t[]){3, 4, 6}, 3)));
        WT_ALL(equals(weft_reshape(t, (int64_t[]){72}, 1), weft_reshape(x, (int64_t[]){72}, 1)));
    }
}

/* Where a kernel asks which rows it has, the rows are brought to one run. */
WT_TEST_IN(cuts__of_a_vocabulary_are_brought_to_one_run, w, open_world())
{
    static const int64_t wanted[] = {0, 11, 5, 6, 7, 2};
    weft_tensor *table = wt_whole(WEFT_F64, 0, 12, 3), *logits = wt_whole(WEFT_F64, 1, 6, 12);
    weft_tensor *rows = weft_from_data(WEFT_I64, (int64_t[]){6}, 1, wanted);
    static const char *const columns[] = {"SS(1,2),R", "S(1|2,1),R", "S(1)[1],S(1)[0]",
                                          "S(1,balanced),SS(0,2)"};

    for (int i = 0; i < CUTS; i++)
        WT_ALL(equals(weft_embedding(wt_spread(w, table, cuts[i]), wt_spread(w, rows, "R,R")),
                      weft_embedding(table, rows)));
    for (int i = 0; i < 4; i++)
        WT_ALL(equals(
            weft_cross_entropy(wt_spread(w, logits, columns[i]), wt_spread(w, rows, "R,R"), -100),
            weft_cross_entropy(logits, rows, -100)));
}

WT_TEST_IN(cuts__gradients_come_in_the_leafs_cut, w, open_world())
{
    weft_tensor *x = wt_whole(WEFT_F64, 0, 12, 7), *y = wt_whole(WEFT_F64, 1, 12, 7);
    weft_tensor *plain = weft_set_requires_grad(wt_whole(WEFT_F64, 0, 12, 7), true);

    WT_ALL(weft_backward(weft_sum_all(weft_square(weft_mul(plain, y)))) == WEFT_OK);
    for (int i = 0; i < CUTS; i++) {
        weft_tensor *a = weft_set_requires_grad(wt_spread(w, x, cuts[i]), true);
        weft_tensor *b = wt_spread(w, y, cuts[(i + 1) % CUTS]);

        WT_ALL(weft_backward(weft_sum_all(weft_square(weft_mul(a, b)))) == WEFT_OK);
        WT_ALL(wt_is_placed(weft_grad(a), cuts[i]));
        WT_ALL(equals(weft_grad(a), weft_grad(plain)));
        weft_zero_grad(a);
    }
    weft_zero_grad(plain);
}

/* ---- any cuts ---- */

/* Any normal placements of a square matrix of 12 by 12 on the world's mesh, drawn until they are.
 */
static void random_cuts(struct wt_world *w, weft_placement *p, uint64_t *state)
{
    static const int64_t segments[][3] = {{1, 1, 1}, {1, 2, 3}, {4, 1, 1}};
    int n_axes = weft_mesh_ndim(w->mesh);

    do {
        weft_error_clear();
        for (int a = 0; a < n_axes; a++) {
            int dim = wt_below(state, 2);

            p[a] = weft_replicate();
            if (wt_below(state, 4) == 0) continue;
            p[a] = weft_shard(dim);
            if (wt_below(state, 4) == 0)
                p[a] = weft_shard_segments(dim, segments[wt_below(state, 3)], 3);
            p[a].cut = (uint8_t)wt_below(state, 2);
            p[a].order = (uint8_t)(wt_below(state, 2) * wt_below(state, 3));
            if (wt_below(state, 4) == 0) p[a] = weft_strided_shard(dim, 1 + wt_below(state, 5));
        }
    } while (wf_placements_normalize(p, p, n_axes, 2, "test") != WEFT_OK);
}

/* Whatever is chosen, axis by axis, is a layout that can be had, and the values are right. */
static void random_ops(const char *mesh, uint64_t seed)
{
    struct wt_world w = wt_world_open_mesh("%s", mesh);
    weft_tensor *x = wt_whole(WEFT_F64, 0, 12, 12), *y = wt_whole(WEFT_F64, 1, 12, 12);

    for (int round = 0; round < 30; round++) {
        weft_scope *scope = weft_scope_open();
        weft_placement p[WEFT_MAX_AXES], q[WEFT_MAX_AXES];
        weft_tensor *a, *b;

        random_cuts(&w, p, &seed);
        random_cuts(&w, q, &seed);
        a = weft_distribute_tensor(x, w.mesh, p, -1);
        b = weft_distribute_tensor(y, w.mesh, q, -1);
        WT_ALL(equals(weft_add(a, b), weft_add(x, y)));
        WT_ALL(equals(weft_matmul(a, b), weft_matmul(x, y)));
        WT_ALL(equals(weft_matmul(weft_transpose(a, 0, 1), b),
                      weft_matmul(weft_transpose(x, 0, 1), y)));
        WT_ALL(equals(weft_cat((weft_tensor *[]){a, b}, 2, 1),
                      weft_cat((weft_tensor *[]){x, y}, 2, 1)));
        weft_scope_close(scope);
    }
    wt_world_close(&w);
}

WT_TEST(cuts__drawn_at_random_give_right_values)
{
    static const uint64_t seeds[] = {3, 1968, 20261121};
    const char *mesh = wt_ranks() == 8 ? "a=2,b=2,c=2" : wt_ranks() == 4 ? "a=2,b=2" : "a=1,b=2";

    for (int i = 0; i < 3; i++) random_ops(mesh, seeds[i]);
}

/* ---- masked and norm partials ---- */

/* Rank r of axis a has the rows of its share of the vocabulary, the others 0. */
static weft_tensor *masked(struct wt_world *w, weft_tensor *x)
{
    weft_placement p[] = {weft_partial(WEFT_MASKED), weft_replicate()};
    weft_tensor *term = weft_mul_scalar(x, weft_mesh_coordinate(w->mesh, 0) == 1);

    return weft_from_local(term, w->mesh, p, NULL);
}

WT_TEST_IN(partial__masked_terms_stay_masked_where_they_are_only_moved, w, open_world())
{
    weft_tensor *x = wt_whole(WEFT_F64, 0, 4, 3), *m = masked(w, x), *sum;

    WT_ALL(wt_is_placed(weft_transpose(m, 0, 1), "P(masked),R"));
    WT_ALL(wt_is_placed(weft_mul_scalar(m, 3), "P,R"));
    WT_ALL(wt_is_placed(weft_add(m, weft_mul_scalar(m, 3)), "P,R")); /* terms of a sum both */
    WT_ALL(wt_is_placed(weft_add(weft_mul_scalar(m, 3), m), "P,R"));
    WT_STILL(w);
    WT_ALL(equals(weft_add(m, weft_mul_scalar(m, 3)), weft_mul_scalar(x, 4)));
    sum = weft_add(m, masked(w, x)); /* two terms may not be zero then */
    WT_ALL(equals(sum, weft_mul_scalar(x, 2)));
    WT_ALL(equals(weft_mul_scalar(m, 3), weft_mul_scalar(x, 3)));
    WT_ALL(equals(weft_gelu(m), weft_gelu(x)));
    WT_ALL(equals(weft_add(m, wt_spread(w, x, "R,R")), weft_mul_scalar(x, 2)));
}

/* Terms of a 2-norm: (3, 4) is 5; copies keep it, arithmetic reduces first. */
WT_TEST_IN(partial__norms_keep_their_power_through_views, w, open_world())
{
    weft_placement p[] = {weft_norm_partial(2), weft_replicate()};
    weft_tensor *term =
        weft_full(WEFT_F64, (int64_t[]){2, 3}, 2, weft_mesh_coordinate(w->mesh, 0) ? 4 : 3);
    weft_tensor *t = weft_from_local(term, w->mesh, p, NULL);
    weft_tensor *five = weft_full(WEFT_F64, (int64_t[]){2, 3}, 2, 5);

    WT_ALL(wt_is_placed(weft_transpose(t, 0, 1), "P(norm 2),R"));
    WT_STILL(w);
    WT_ALL(equals(weft_transpose(t, 0, 1), weft_transpose(five, 0, 1)));
    WT_ALL(equals(weft_mul_scalar(t, 2), weft_mul_scalar(five, 2)));
    WT_ALL(equals(weft_add(t, t), weft_add(five, five)));
}

/* trial 1.10: the 2-norm of the one term -3 is 3, whatever else the tensor's layout says */
WT_TEST(partial__a_norm_of_one_term_is_its_absolute_value)
{
    static const weft_dtype dtypes[] = {WEFT_F32, WEFT_F64, WEFT_BF16, WEFT_F16};
    weft_mesh *mesh = weft_mesh_new(WEFT_CPU, "a=1,b=%d,c=1", wt_ranks());

    for (int i = 0; i < 4; i++) {
        weft_placement p[] = {weft_norm_partial(2), weft_replicate(), weft_norm_partial(2)};
        weft_placement cut[] = {weft_shard(1), weft_shard(0), weft_norm_partial(2)};
        weft_scope *scope = weft_scope_open();
        weft_tensor *three = weft_full(dtypes[i], (int64_t[]){9, 5}, 2, 3);
        weft_tensor *t =
            weft_from_local(weft_full(dtypes[i], (int64_t[]){9, 5}, 2, -3), mesh, p, NULL);

        WT_ALL(equals(t, three));
        WT_ALL(equals(weft_redistribute(t, cut), three));
        WT_ALL(equals(weft_mul_scalar(t, 2), weft_mul_scalar(three, 2)));
        weft_scope_close(scope);
    }
    weft_mesh_release(mesh);
}

/* A norm over both axes has its root once; one that stays partial keeps its terms. */
WT_TEST(partial__a_norm_over_an_axis_of_one_rank_and_another)
{
    int64_t one = 1;
    weft_mesh *mesh = weft_mesh_new(WEFT_CPU, "a=1,b=%d", wt_ranks());
    weft_placement both[] = {weft_norm_partial(2), weft_norm_partial(2)};
    weft_tensor *t = weft_from_local(weft_full(WEFT_F64, &one, 1, -3), mesh, both, NULL);

    WT_ALL(equals(t, weft_sqrt(weft_full(WEFT_F64, &one, 1, 9 * wt_ranks()))));
    WT_ALL(*(double *)weft_data(weft_to_local(t, NULL)) == -3);
    weft_mesh_release(mesh);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "ops_on_cuts"); }
