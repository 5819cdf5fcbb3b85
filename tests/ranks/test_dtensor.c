/*
 * test_dtensor.c: between plain and distributed tensors, and from one layout to another: values,
 * gradients, collectives, refusals. IDs are those of the acceptance cases.
 */
#include <string.h>

#include "ranks/worlds.h"
#include "tensor/tensor.h"

static const weft_placement replicated = {WEFT_KIND_REPLICATE, 0, 0};
static const weft_placement sharded = {WEFT_KIND_SHARD, 0, 0};
static const weft_placement summed = {WEFT_KIND_PARTIAL, WEFT_SUM, 0};

static weft_tensor *constant(int64_t rows, int64_t columns, double value)
{
    return weft_full(WEFT_F32, 2, (int64_t[]){rows, columns}, value);
}

static bool is_all(weft_tensor *t, double value)
{
    weft_scope *scope = weft_scope_open();
    double *got = wt_values(t);
    bool good = got != NULL;

    for (int64_t i = 0; good && i < weft_numel(t); i++) good = got[i] == value;
    if (!good && got) wt_note("element 0 is %g, not %g", got[0], value);
    free(got);
    weft_scope_close(scope);
    return good;
}

static bool local_is_all(const weft_tensor *t, double value)
{
    double room[1024];
    bool good = t && weft_read_f64(t, room, 1024) == WEFT_OK;

    for (int64_t i = 0; good && i < weft_local_numel(t); i++) good = room[i] == value;
    if (!good && t && weft_local_numel(t)) wt_note("local element 0 is %g, not %g", room[0], value);
    return good;
}

/* ---- from_local, to_local ---- */

/* DT-05, DT-15 */
WT_TEST(from_local__multiplies_sharded_dims)
{
    struct wt_world w = wt_world_open();
    weft_placement last = weft_shard(-1);
    weft_tensor *local = constant(3, 3, 1), *t;

    WT_ALL(wt_has_shape(weft_from_local(local, w.mesh, &sharded, NULL), 2, 3 * wt_ranks(), 3));
    WT_ALL(wt_has_shape(weft_from_local(local, w.mesh, &replicated, NULL), 2, 3, 3));
    WT_ALL(wt_has_shape(weft_from_local(local, w.mesh, &summed, NULL), 2, 3, 3));
    t = weft_from_local(local, w.mesh, &last, NULL);
    WT_ALL(wt_has_shape(t, 2, 3, 3 * wt_ranks()) && wt_is_placed(t, "S(1)"));
    WT_ALL(weft_data(t) == weft_data(local));
    WT_STILL(&w);
    wt_world_close(&w);
}

/* DT-06 */
WT_TEST(from_local__passes_gradients_to_what_made_the_local_tensor)
{
    struct wt_world w = wt_world_open();
    weft_tensor *a = weft_set_requires_grad(constant(3, 3, 2), true);
    weft_tensor *t = weft_from_local(weft_mul_scalar(a, 3), w.mesh, &sharded, NULL);
    weft_tensor *ones = weft_from_local(constant(3, 3, 1), w.mesh, &sharded, NULL);

    WT_ALL(weft_backward_from(weft_mul_scalar(t, 3), ones) == WEFT_OK);
    WT_ALL(local_is_all(weft_grad(a), 9));
    WT_STILL(&w);
    weft_zero_grad(a);
    wt_world_close(&w);
}

/* DT-08, DT-09, DT-12: the gradient of a pending sum comes replicated, without communication. */
WT_TEST(from_local__gradient_needs_no_communication)
{
    const weft_placement forward[] = {sharded, replicated, summed};
    const weft_placement backward[] = {sharded, replicated, replicated};

    for (int i = 0; i < 3; i++) {
        struct wt_world w = wt_world_open();
        weft_tensor *a = weft_set_requires_grad(constant(3, 3, 2), true);
        weft_tensor *y = weft_mul_scalar(weft_from_local(a, w.mesh, &forward[i], NULL), 2);

        WT_ALL(weft_backward_from(
                   y, weft_from_local(constant(3, 3, 1), w.mesh, &backward[i], NULL)) == WEFT_OK);
        WT_ALL(local_is_all(weft_grad(a), 2));
        WT_STILL(&w);
        wt_world_close(&w);
    }
}

/* DT-07, DT-14 */
WT_TEST(from_local__refuses_what_is_no_part)
{
    struct wt_world w = wt_world_open();
    weft_tensor *local = constant(3, 3, 1);
    weft_placement far = weft_shard(2);

    WT_ALL(
        !weft_from_local(weft_from_local(local, w.mesh, &sharded, NULL), w.mesh, &sharded, NULL));
    WT_FAILED(WEFT_ERR_ARG, "distributed already");
    WT_ALL(!weft_from_local(local, w.mesh, &sharded, (int64_t[]){3 * wt_ranks() + wt_ranks(), 3}));
    WT_FAILED(WEFT_ERR_SHAPE, "from_local");
    WT_ALL(!weft_from_local(local, w.mesh, &far, NULL));
    WT_FAILED(WEFT_ERR_LAYOUT, "from_local");
    WT_STILL(&w);
    wt_world_close(&w);
}

WT_TEST(from_local__takes_uneven_parts_with_the_global_shape)
{
    struct wt_world w = wt_world_open();
    int64_t rows = weft_chunk_size(7, wt_ranks(), wt_rank()), shape[] = {7, 3};
    weft_tensor *t = weft_from_local(constant(rows, 3, wt_rank()), w.mesh, &sharded, shape);

    WT_ALL(wt_has_shape(t, 2, 7, 3));
    WT_EQ(weft_local_size(t, 0), rows);
    WT_EQ(weft_local_offset(t, 0), weft_chunk_offset(7, wt_ranks(), wt_rank()));
    wt_world_close(&w);
}

/* DT-16, DT-18 */
WT_TEST(to_local__gradient_has_the_tensors_placements)
{
    struct wt_world w = wt_world_open();
    weft_tensor *t =
        weft_set_requires_grad(weft_from_local(constant(3, 3, 2), w.mesh, &sharded, NULL), true);
    weft_tensor *local = weft_to_local(weft_mul_scalar(t, 3), NULL);

    WT_ALL(weft_tensor_mesh(local) == NULL && local_is_all(local, 6));
    WT_ALL(weft_backward(weft_sum_all(weft_add(local, constant(3, 3, 1)))) == WEFT_OK);
    WT_ALL(wt_is_placed(weft_grad(t), "S(0)") && local_is_all(weft_grad(t), 3));
    weft_no_grad_begin();
    WT_ALL(weft_data(weft_to_local(t, NULL)) == weft_data(t));
    weft_no_grad_end();
    WT_STILL(&w);
    wt_world_close(&w);
}

/* DT-17 */
WT_TEST(to_local__takes_a_strided_gradient)
{
    struct wt_world w = wt_world_open();
    weft_tensor *t = weft_from_local(wt_whole(WEFT_F64, 0, 3, 4), w.mesh, &sharded, NULL);
    weft_tensor *weights = wt_whole(WEFT_F64, 1, 4, 3), *turned;
    double want[12];

    weft_set_requires_grad(t, true);
    turned = weft_transpose(weft_to_local(t, NULL), 0, 1);
    WT_ALL(weft_backward(weft_sum_all(weft_mul(turned, weights))) == WEFT_OK);
    for (int i = 0; i < 12; i++) want[i] = wt_element(1, i % 4 * 3 + i / 4);
    WT_ALL(wt_near_full(weft_to_local(weft_grad(t), NULL), want, WT_EXACT));
    wt_world_close(&w);
}

/* DT-20, RED-05: a gradient declared pending is added up. */
WT_TEST(to_local__gradient_may_be_declared_pending)
{
    struct wt_world w = wt_world_open();
    weft_tensor *t = weft_set_requires_grad(wt_spread(&w, constant(8, 3, 1), "S(0)"), true);

    WT_ALL(weft_backward(weft_sum_all(weft_to_local(wt_to(t, "R"), &summed))) == WEFT_OK);
    WT_ALL(wt_is_placed(weft_grad(t), "S(0)") && is_all(weft_grad(t), wt_ranks()));
    t = weft_set_requires_grad(wt_spread(&w, constant(8, 3, 1), "R"), true);
    wt_moved(&w, WEFT_COLL_COUNT);
    WT_ALL(weft_backward(weft_sum_all(weft_to_local(wt_to(t, "R"), &summed))) == WEFT_OK);
    WT_ALL(is_all(weft_grad(t), wt_ranks()));
    WT_MOVED(&w, WEFT_COLL_ALL_REDUCE, 1);
    wt_world_close(&w);
}

/* DT-24 */
WT_TEST(from_local__then_to_local_is_the_identity)
{
    struct wt_world w = wt_world_open();
    weft_tensor *a = weft_set_requires_grad(constant(3, 3, 2), true);
    weft_tensor *t = weft_from_local(weft_add_scalar(a, 8), w.mesh, &sharded, NULL);
    weft_tensor *local = weft_to_local(weft_mul_scalar(t, 6), NULL);

    WT_ALL(local_is_all(local, 60));
    WT_ALL(weft_backward(weft_sum_all(weft_add(local, constant(3, 3, 1)))) == WEFT_OK);
    WT_ALL(local_is_all(weft_grad(a), 6));
    WT_STILL(&w);
    wt_world_close(&w);
}

/* DT-26 */
WT_TEST(layout__does_not_depend_on_data)
{
    struct wt_world w = wt_world_open();
    weft_tensor *a = wt_spread(&w, constant(3, 3, 1), "S(0)"),
                *b = wt_spread(&w, constant(3, 3, 2), "S(0)");
    weft_tensor *c = wt_spread(&w, constant(3, 3, 1), "R");

    WT_ALL(a->layout == b->layout && a->layout != c->layout);
    wt_world_close(&w);
}

/* ---- distribute_tensor ---- */

/* API-01, API-02, API-04, INIT-03, INIT-05 */
WT_TEST(distribute__cuts_by_the_chunk_rule)
{
    static const int64_t sizes[] = {0, 1, 3, 5, 12, 13, 14, 31};
    struct wt_world w = wt_world_open();

    for (int i = 0; i < 8; i++) {
        weft_tensor *rows = wt_whole(WEFT_F32, 0, sizes[i], 3),
                    *columns = wt_whole(WEFT_F64, 1, 3, sizes[i]);
        double *want_rows = wt_values(rows), *want_columns = wt_values(columns);
        weft_tensor *r = wt_spread(&w, rows, "S(0)"), *c = wt_spread(&w, columns, "S(-1)");

        WT_ALL(wt_is_placed(c, "S(1)"));
        WT_EQ(weft_local_size(r, 0), weft_chunk_size(sizes[i], wt_ranks(), wt_rank()));
        WT_EQ(weft_local_size(c, 1), weft_chunk_size(sizes[i], wt_ranks(), wt_rank()));
        WT_ALL(wt_near_local(r, want_rows, WT_EXACT) && wt_near_local(c, want_columns, WT_EXACT));
        WT_STILL(&w);
        WT_ALL(wt_near_full(r, want_rows, WT_EXACT) && wt_near_full(c, want_columns, WT_EXACT));
        wt_moved(&w, WEFT_COLL_COUNT);
        free(want_rows);
        free(want_columns);
    }
    wt_world_close(&w);
}

/* API-01, API-04 */
WT_TEST(distribute__takes_the_copy_of_the_source_or_its_own)
{
    struct wt_world w = wt_world_open();
    int source = wt_ranks() - 1;
    weft_tensor *mine = constant(12, 3, wt_rank());

    WT_ALL(local_is_all(weft_distribute_tensor(mine, w.mesh, &sharded, -1), wt_rank()));
    WT_ALL(local_is_all(weft_distribute_tensor(mine, w.mesh, &replicated, -1), wt_rank()));
    WT_STILL(&w);
    WT_ALL(local_is_all(weft_distribute_tensor(mine, w.mesh, &sharded, source), source));
    WT_MOVED(&w, WEFT_COLL_BROADCAST, 1);
    WT_ALL(local_is_all(mine, wt_rank()));
    wt_world_close(&w);
}

WT_TEST(distribute__leaf_stays_a_leaf)
{
    struct wt_world w = wt_world_open();
    weft_tensor *leaf = weft_set_requires_grad(constant(12, 3, 1), true);
    weft_tensor *t = wt_spread(&w, leaf, "S(0)");

    WT_ALL(weft_requires_grad(t) && t->node == NULL && weft_data(t) != weft_data(leaf));
    WT_ALL(weft_backward(weft_sum_all(t)) == WEFT_OK);
    WT_ALL(local_is_all(weft_grad(t), 1) && weft_grad(leaf) == NULL);
    wt_world_close(&w);
}

/* API-06 and the other refusals */
WT_TEST(distribute__refuses)
{
    struct wt_world w = wt_world_open();
    weft_tensor *leaf = weft_set_requires_grad(constant(12, 3, 1), true), *t = constant(12, 3, 1);
    weft_placement far = weft_shard(2), before = weft_shard(-3);

    WT_ALL(!weft_distribute_tensor(weft_mul_scalar(leaf, 2), w.mesh, &sharded, -1));
    WT_FAILED(WEFT_ERR_ARG, "leaf");
    WT_ALL(!weft_distribute_tensor(wt_spread(&w, t, "R"), w.mesh, &sharded, -1));
    WT_FAILED(WEFT_ERR_ARG, "distributed already");
    WT_ALL(!weft_distribute_tensor(t, w.mesh, &summed, -1));
    WT_FAILED(WEFT_ERR_LAYOUT, "pending");
    WT_ALL(!weft_distribute_tensor(t, w.mesh, &far, -1));
    WT_FAILED(WEFT_ERR_LAYOUT, "distribute_tensor");
    WT_ALL(!weft_distribute_tensor(t, w.mesh, &before, -1));
    WT_FAILED(WEFT_ERR_LAYOUT, "distribute_tensor");
    WT_ALL(!weft_distribute_tensor(t, w.mesh, &sharded, wt_ranks()));
    WT_FAILED(WEFT_ERR_ARG, "source");
    WT_ALL(!weft_distribute_tensor(NULL, w.mesh, &sharded, -1));
    WT_ALL(weft_error_status() == WEFT_OK);
    WT_STILL(&w);
    wt_world_close(&w);
}

/* ---- redistribute: values and counts ---- */

struct move {
    const char *from, *to;
    weft_coll forward, backward; /* WEFT_COLL_COUNT: none */
};

/* RED-01 .. RED-08, RED-11, RED-14, RED-16 */
static const struct move moves[] = {
    {"S(0)", "R", WEFT_COLL_ALL_GATHER, WEFT_COLL_COUNT},
    {"S(1)", "R", WEFT_COLL_ALL_GATHER, WEFT_COLL_COUNT},
    {"R", "R", WEFT_COLL_COUNT, WEFT_COLL_COUNT},
    {"R", "S(0)", WEFT_COLL_COUNT, WEFT_COLL_ALL_GATHER},
    {"R", "S(1)", WEFT_COLL_COUNT, WEFT_COLL_ALL_GATHER},
    {"S(0)", "S(1)", WEFT_COLL_ALL_TO_ALL, WEFT_COLL_ALL_TO_ALL},
    {"S(1)", "S(0)", WEFT_COLL_ALL_TO_ALL, WEFT_COLL_ALL_TO_ALL},
    {"S(1)", "S(-1)", WEFT_COLL_COUNT, WEFT_COLL_COUNT},
};

static void check_move(const struct move *m, int64_t rows, int64_t columns)
{
    struct wt_world w = wt_world_open();
    weft_tensor *whole = wt_whole(WEFT_F32, 0, rows, columns);
    double *want = wt_values(whole), *want_grad = wt_values(wt_whole(WEFT_F32, 1, rows, columns));
    weft_tensor *x = weft_set_requires_grad(wt_spread(&w, whole, m->from), true);
    weft_tensor *y = wt_to(x, m->to);

    WT_MOVED(&w, m->forward, m->forward != WEFT_COLL_COUNT);
    WT_ALL(wt_is_placed(y, strcmp(m->to, "S(-1)") == 0 ? "S(1)" : m->to) &&
           wt_near_local(y, want, WT_EXACT));
    WT_ALL(weft_backward_from(y, wt_spread(&w, wt_whole(WEFT_F32, 1, rows, columns), m->to)) ==
           WEFT_OK);
    WT_ALL(wt_is_placed(weft_grad(x), m->from) && wt_near_local(weft_grad(x), want_grad, WT_EXACT));
    WT_MOVED(&w, m->backward, m->backward != WEFT_COLL_COUNT);
    free(want);
    free(want_grad);
    wt_world_close(&w);
}

WT_TEST(redistribute__moves_once_and_back)
{
    static const int64_t sizes[][2] = {{12, 3}, {13, 3}, {14, 3}, {3, 13}, {8, 8}, {8, 5}, {5, 5}};

    for (size_t m = 0; m < sizeof moves / sizeof *moves; m++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            check_move(&moves[m], sizes[s][0], sizes[s][1]);
}

/* RED-08, RED-12's dtypes: one reduce-scatter or one all-reduce; the gradient comes back whole. */
WT_TEST(redistribute__pending_sums_are_added_once)
{
    static const weft_dtype dtypes[] = {WEFT_F32, WEFT_F64, WEFT_BF16, WEFT_I32, WEFT_I64};
    static const char *const to[] = {"R", "S(0)", "S(1)"};
    static const int64_t rows[] = {12, 13, 3, 1};

    for (int i = 0; i < 5 * 3 * 4; i++) {
        struct wt_world w = wt_world_open();
        const char *target = to[i % 3];
        weft_tensor *ones = weft_full(dtypes[i / 3 % 5], 2, (int64_t[]){rows[i / 15], 5}, 1);
        weft_tensor *y = wt_to(wt_pending(&w, ones, WEFT_SUM), target);

        WT_MOVED(&w, i % 3 ? WEFT_COLL_REDUCE_SCATTER : WEFT_COLL_ALL_REDUCE, 1);
        WT_ALL(wt_is_placed(y, target) && local_is_all(y, wt_ranks()));
        wt_world_close(&w);
    }
}

WT_TEST(redistribute__gradient_of_a_pending_sum_is_replicated)
{
    static const char *const to[] = {"R", "S(0)", "S(1)"};

    for (int i = 0; i < 3; i++) {
        struct wt_world w = wt_world_open();
        weft_tensor *a = weft_set_requires_grad(wt_whole(WEFT_F64, 0, 5, 7), true);
        weft_tensor *y = wt_to(wt_pending(&w, a, WEFT_SUM), to[i]);
        double *want = wt_values(wt_whole(WEFT_F64, 1, 5, 7));

        wt_moved(&w, WEFT_COLL_COUNT);
        WT_ALL(weft_backward_from(y, wt_spread(&w, wt_whole(WEFT_F64, 1, 5, 7), to[i])) == WEFT_OK);
        WT_ALL(wt_near_full(weft_grad(a), want, WT_EXACT));
        WT_MOVED(&w, i ? WEFT_COLL_ALL_GATHER : WEFT_COLL_COUNT, i > 0);
        free(want);
        wt_world_close(&w);
    }
}

/* RED-04: nothing to do, forward and backward */
WT_TEST(redistribute__pending_to_pending_is_the_tensor_itself)
{
    struct wt_world w = wt_world_open();
    weft_tensor *t = wt_pending(&w, constant(3, 5, 1), WEFT_SUM);

    WT_ALL(wt_to(t, "P") == t);
    WT_STILL(&w);
    wt_world_close(&w);
}

/* RED-18 */
WT_TEST(redistribute__reduces_as_the_placement_says)
{
    int n = wt_ranks();
    double product = 1;

    for (int r = 0; r < n; r++) product *= 2;
    const struct {
        weft_reduce reduce;
        double local, want;
    } rows[] = {{WEFT_AVG, wt_rank() + 1, (n + 1) / 2.0},
                {WEFT_MAX, wt_rank() + 1, n},
                {WEFT_MIN, wt_rank() + 1, 1},
                {WEFT_PRODUCT, 2, product}};

    for (int i = 0; i < 4; i++) {
        struct wt_world w = wt_world_open();
        weft_tensor *t = wt_pending(&w, constant(3, 5, rows[i].local), rows[i].reduce);

        WT_ALL(local_is_all(wt_to(t, "R"), rows[i].want));
        WT_MOVED(&w, WEFT_COLL_ALL_REDUCE, 1);
        WT_ALL(local_is_all(wt_to(t, "S(0)"), rows[i].want));
        wt_world_close(&w);
    }
}

/* RED-21 */
WT_TEST(redistribute__empty_tensors_keep_their_shape)
{
    struct wt_world w = wt_world_open();
    weft_tensor *t = wt_to(wt_spread(&w, constant(0, 3, 1), "S(0)"), "R");

    WT_ALL(wt_has_shape(t, 2, 0, 3) && wt_is_placed(t, "R"));
    WT_EQ(weft_local_numel(t), 0);
    t = wt_to(wt_to(t, "S(1)"), "S(0)");
    WT_ALL(wt_has_shape(weft_full_tensor(t), 2, 0, 3));
    wt_world_close(&w);
}

/* RED-30: a shard is a term of a sum when the rest is filled with zeros. */
WT_TEST(redistribute__shard_to_pending_sum_is_local)
{
    struct wt_world w = wt_world_open();
    weft_tensor *x =
        weft_set_requires_grad(wt_spread(&w, wt_whole(WEFT_F32, 0, 5, 3), "S(0)"), true);
    weft_tensor *y = wt_to(x, "P");
    double *want = wt_values(wt_whole(WEFT_F32, 0, 5, 3));

    WT_STILL(&w);
    WT_EQ(weft_local_numel(y), 15);
    WT_ALL(wt_near_full(y, want, WT_EXACT));
    wt_moved(&w, WEFT_COLL_COUNT);
    WT_ALL(weft_backward_from(y, wt_spread(&w, constant(5, 3, 1), "R")) == WEFT_OK);
    WT_ALL(wt_is_placed(weft_grad(x), "S(0)") && local_is_all(weft_grad(x), 1));
    WT_STILL(&w);
    free(want);
    wt_world_close(&w);
}

WT_TEST(redistribute__refuses)
{
    struct wt_world w = wt_world_open();
    weft_tensor *t = wt_spread(&w, constant(4, 3, 1), "S(0)");

    WT_ALL(!wt_to(t, "S(2)"));
    WT_FAILED(WEFT_ERR_LAYOUT, "redistribute");
    WT_ALL(!wt_to(constant(4, 3, 1), "S(0)"));
    WT_FAILED(WEFT_ERR_ARG, "plain");
    WT_STILL(&w);
    wt_world_close(&w);
}

/* DT-21 */
WT_TEST(full_tensor__is_the_whole_on_every_rank)
{
    static const char *const placements[] = {"R", "S(0)", "S(1)"};

    for (int i = 0; i < 3; i++) {
        struct wt_world w = wt_world_open();
        weft_tensor *whole = wt_whole(WEFT_F64, 0, 5, 7);
        weft_tensor *x = weft_set_requires_grad(wt_spread(&w, whole, placements[i]), true);
        weft_tensor *full = weft_full_tensor(x);
        double *want = wt_values(whole);

        WT_MOVED(&w, WEFT_COLL_ALL_GATHER, i > 0);
        WT_ALL(weft_tensor_mesh(full) == NULL && wt_near_full(full, want, WT_EXACT));
        WT_ALL(weft_backward(weft_sum_all(weft_mul(full, full))) == WEFT_OK);
        for (int e = 0; e < 35; e++) want[e] *= 2;
        WT_ALL(wt_near_local(weft_grad(x), want, WT_EXACT));
        WT_STILL(&w);
        free(want);
        wt_world_close(&w);
    }
}

/* ---- two mesh axes ---- */

/* RED-24 .. RED-28, DT-33: every pair of placements, sizes that split evenly and not. */
WT_TEST(redistribute__on_two_axes_keeps_the_value)
{
    static const char *const all[] = {"R,R",       "S(0),R",    "R,S(1)",    "S(0),S(0)",
                                      "S(0),S(1)", "S(1),S(0)", "S(1),S(1)", "R,S(0)"};
    static const int64_t sizes[][2] = {{8, 8}, {9, 5}, {3, 5}, {1, 3}};
    int dp = wt_ranks() % 2 == 0 ? 2 : 1;

    for (int i = 0; i < 64 * 4; i++) {
        struct wt_world w = wt_world_open_mesh("dp=%d,tp=%d", dp, wt_ranks() / dp);
        weft_tensor *whole = wt_whole(WEFT_F32, 0, sizes[i / 64][0], sizes[i / 64][1]);
        double *want = wt_values(whole);
        weft_tensor *y = wt_to(wt_spread(&w, whole, all[i % 8]), all[i / 8 % 8]);

        WT_ALL(wt_is_placed(y, all[i / 8 % 8]) && wt_near_local(y, want, WT_EXACT));
        free(want);
        wt_world_close(&w);
    }
}

/* RED-26, RED-27, RED-28: two steps suffice */
WT_TEST(redistribute__on_two_axes_takes_few_steps)
{
    static const struct {
        const char *from, *to;
        int most;
    } rows[] = {{"S(0),S(1)", "S(0),S(0)", 1}, {"S(0),S(1)", "S(1),S(0)", 2},
                {"S(0),S(0)", "S(1),S(1)", 2}, {"S(0),S(0)", "R,R", 2},
                {"S(0),R", "R,R", 1},          {"R,R", "S(0),S(1)", 0}};

    if (wt_ranks() != 4) return;
    for (int i = 0; i < 6; i++) {
        struct wt_world w = wt_world_open_mesh("dp=2,tp=2");

        WT_ALL(wt_to(wt_spread(&w, constant(8, 8, 1), rows[i].from), rows[i].to) != NULL);
        WT_ALL(wt_moved(&w, WEFT_COLL_COUNT) <= rows[i].most);
        wt_world_close(&w);
    }
}

/* RED-23, RED-31: an axis of one rank never communicates, but its placement changes. */
WT_TEST(redistribute__axis_of_one_rank_only_changes_labels)
{
    static const char *const from[] = {"S(0),S(1)", "S(0),R"}, *const to[] = {"S(0),S(0)",
                                                                              "S(0),S(1)",
                                                                              "S(0),R"};

    for (int i = 0; i < 6; i++) {
        struct wt_world w = wt_world_open_mesh("tp=%d,one=1", wt_ranks());
        weft_tensor *whole = wt_whole(WEFT_F32, 0, 5, 3);
        double *want = wt_values(whole);
        weft_tensor *y = wt_to(wt_spread(&w, whole, from[i % 2]), to[i / 2]);

        WT_ALL(wt_is_placed(y, to[i / 2]) && wt_near_local(y, want, WT_EXACT));
        WT_STILL(&w);
        free(want);
        wt_world_close(&w);
    }
}

/* DT-28 */
WT_TEST(distribute__on_two_axes_gives_each_rank_its_block)
{
    struct wt_world w;
    weft_tensor *t;
    float values[4] = {0, 1, 2, 3};

    if (wt_ranks() != 4) return;
    w = wt_world_open_mesh("dp=2,tp=2");
    t = wt_spread(&w, weft_from_data(WEFT_F32, 2, (int64_t[]){2, 2}, values), "S(0),S(1)");
    WT_ALL(local_is_all(t, wt_rank()));
    WT_STILL(&w);
    wt_world_close(&w);
}

/* DT-32: ranks outside the mesh hold nothing and take no part. */
WT_TEST(mesh__of_some_ranks_leaves_the_others_alone)
{
    struct wt_world w;
    weft_tensor *t;
    bool member = wt_rank() < 2;

    if (wt_ranks() < 3) return;
    w = wt_world_open_mesh("tp=2");
    t = wt_to(wt_spread(&w, constant(8, 3, 1), "S(0)"), "R");
    WT_EQ(weft_local_numel(t), member ? 24 : 0);
    WT_ALL(local_is_all(t, 1));
    t = weft_add(t, t);
    WT_EQ(weft_local_numel(wt_to(t, "S(0)")), member ? 12 : 0);
    WT_EQ(wt_moved(&w, WEFT_COLL_COUNT), member ? 1 : 0);
    wt_world_close(&w);
}

/* ---- mixtures ---- */

/* DT-35 */
WT_TEST(mixture__of_plain_and_distributed_is_refused_with_advice)
{
    struct wt_world w = wt_world_open();
    weft_tensor *t = wt_spread(&w, constant(4, 3, 1), "S(0)"), *plain = constant(4, 3, 1);
    weft_mesh *other = weft_mesh_new(WEFT_CPU, "other=%d", wt_ranks());

    WT_ALL(!weft_add(plain, t));
    WT_FAILED(WEFT_ERR_LAYOUT, "weft_distribute_tensor");
    WT_ALL(!weft_matmul_t(t, plain, false, true));
    WT_FAILED(WEFT_ERR_LAYOUT, "input 1 is plain");
    WT_ALL(!weft_add(t, weft_distribute_tensor(plain, other, &sharded, -1)));
    WT_FAILED(WEFT_ERR_LAYOUT, "different meshes");
    weft_mesh_release(other);
    WT_STILL(&w);
    wt_world_close(&w);
}

/* DT-36 */
WT_TEST(mixture__with_one_plain_number_is_fine)
{
    struct wt_world w = wt_world_open();
    weft_tensor *t = wt_spread(&w, constant(4, 3, 1), "S(0)");
    weft_tensor *scalar = weft_full(WEFT_F32, 0, NULL, 1),
                *one = weft_full(WEFT_F32, 1, (int64_t[]){1}, 1);

    WT_ALL(local_is_all(weft_add(t, scalar), 2) && local_is_all(weft_add(one, t), 2));
    WT_STILL(&w);
    t = weft_add(wt_pending(&w, constant(4, 3, 1), WEFT_SUM), scalar);
    WT_ALL(is_all(t, wt_ranks() + 1));
    wt_world_close(&w);
}

/* A plain number's gradient is the sum over the distributed tensor, plain on every rank. */
WT_TEST(mixture__gradient_of_a_plain_number_is_whole)
{
    struct wt_world w = wt_world_open();
    weft_tensor *t = wt_spread(&w, constant(5, 3, 2), "S(0)");
    weft_tensor *scale = weft_set_requires_grad(weft_full(WEFT_F32, 0, NULL, 3), true);

    WT_ALL(weft_backward(weft_sum_all(weft_mul(t, scale))) == WEFT_OK);
    WT_ALL(weft_grad(scale) && weft_tensor_mesh(weft_grad(scale)) == NULL);
    WT_ALL(local_is_all(weft_grad(scale), 30));
    WT_ALL(weft_backward(weft_sum_all(weft_mul(t, scale))) == WEFT_OK);
    WT_ALL(local_is_all(weft_grad(scale), 60));
    wt_world_close(&w);
}

/* Negative dims count from the end in every function; refusals are equal on all ranks. */
WT_TEST(dims__negative_ones_count_from_the_end)
{
    struct wt_world w = wt_world_open();
    weft_tensor *whole = wt_whole3(WEFT_F64, 0, 2, 5, 3), *t = wt_spread(&w, whole, "S(1)");
    int last = -1, beyond = 3;

    WT_ALL(wt_near_tensors(weft_softmax(t, -1), weft_softmax(whole, 2), WT_WITHIN(1e-14)));
    WT_ALL(wt_near_tensors(weft_sum(t, 1, &last, false), weft_sum(whole, 1, (int[]){2}, false),
                           WT_WITHIN(1e-14)));
    WT_ALL(wt_near_tensors(weft_transpose(t, -1, -2), weft_transpose(whole, 1, 2), WT_EXACT));
    WT_ALL(wt_near_tensors(weft_slice(t, -2, -3, -1), weft_slice(whole, 1, 2, 4), WT_EXACT));
    WT_ALL(!weft_sum(t, 1, &beyond, false));
    WT_FAILED(WEFT_ERR_ARG, "sum");
    WT_ALL(!weft_slice(t, 0, 1, 3));
    WT_FAILED(WEFT_ERR_ARG, "slice");
    WT_ALL(!weft_add(t, wt_spread(&w, wt_whole(WEFT_F64, 0, 4, 3), "R")));
    WT_FAILED(WEFT_ERR_SHAPE, "broadcast");
    WT_ALL(!weft_add(t, weft_cast(t, WEFT_F32)));
    WT_FAILED(WEFT_ERR_DTYPE, "dtypes differ");
    wt_world_close(&w);
}

int main(int argc, char **argv)
{
    static const struct wt_case cases[] = {
        WT_CASE(from_local__multiplies_sharded_dims),
        WT_CASE(from_local__passes_gradients_to_what_made_the_local_tensor),
        WT_CASE(from_local__gradient_needs_no_communication),
        WT_CASE(from_local__refuses_what_is_no_part),
        WT_CASE(from_local__takes_uneven_parts_with_the_global_shape),
        WT_CASE(to_local__gradient_has_the_tensors_placements),
        WT_CASE(to_local__takes_a_strided_gradient),
        WT_CASE(to_local__gradient_may_be_declared_pending),
        WT_CASE(from_local__then_to_local_is_the_identity),
        WT_CASE(layout__does_not_depend_on_data),
        WT_CASE(distribute__cuts_by_the_chunk_rule),
        WT_CASE(distribute__takes_the_copy_of_the_source_or_its_own),
        WT_CASE(distribute__leaf_stays_a_leaf),
        WT_CASE(distribute__refuses),
        WT_CASE(distribute__on_two_axes_gives_each_rank_its_block),
        WT_CASE(redistribute__moves_once_and_back),
        WT_CASE(redistribute__pending_sums_are_added_once),
        WT_CASE(redistribute__gradient_of_a_pending_sum_is_replicated),
        WT_CASE(redistribute__pending_to_pending_is_the_tensor_itself),
        WT_CASE(redistribute__reduces_as_the_placement_says),
        WT_CASE(redistribute__empty_tensors_keep_their_shape),
        WT_CASE(redistribute__shard_to_pending_sum_is_local),
        WT_CASE(redistribute__refuses),
        WT_CASE(redistribute__on_two_axes_keeps_the_value),
        WT_CASE(redistribute__on_two_axes_takes_few_steps),
        WT_CASE(redistribute__axis_of_one_rank_only_changes_labels),
        WT_CASE(full_tensor__is_the_whole_on_every_rank),
        WT_CASE(mesh__of_some_ranks_leaves_the_others_alone),
        WT_CASE(mixture__of_plain_and_distributed_is_refused_with_advice),
        WT_CASE(mixture__with_one_plain_number_is_fine),
        WT_CASE(mixture__gradient_of_a_plain_number_is_whole),
        WT_CASE(dims__negative_ones_count_from_the_end),
        WT_END,
    };

    return wt_main(argc, argv, "dtensor", cases);
}
