/*
 * test_backward.c: how gradients lie. Traps 4, 9, 10 and 19 and weaknesses 10.4-6 and 11 of other
 * libraries: what ranks do by themselves, norms under sequence parallelism, norms of gradients over
 * several meshes.
 */
#include <math.h>
#include <stdlib.h>

#include "support/worlds.h"

static weft_tensor *leaf(weft_tensor *t) { return weft_set_requires_grad(t, true); }

static int64_t sum_of_places(void) { return (int64_t)wt_ranks() * (wt_ranks() + 1) / 2; }

/* ---- replicated and partial ---- */

/* Trap 4: the gradient of a term is that of the sum, on every rank, without communication. */
WT_TEST_IN_WORLD(to_local__of_a_partial_sum_takes_a_replicated_gradient, w)
{
    weft_tensor *x = leaf(wt_spread(w, wt_whole(WEFT_F64, 0, 5, 3), "S(0)"));
    weft_tensor *term = weft_to_local(wt_to(x, "P"), NULL);

    WT_ALL(weft_backward(weft_sum_all(weft_mul_scalar(term, 3))) == WEFT_OK);
    WT_ALL(wt_is_placed(weft_grad(x), "S(0)") && wt_local_is_all(weft_grad(x), 3));
    WT_STILL(w);
}

/* Trap 4: what each rank does with a replicated tensor by itself, only the user knows. */
WT_TEST_IN_WORLD(to_local__used_differently_on_each_rank, w)
{
    weft_placement sum = weft_partial(WEFT_SUM);
    weft_tensor *x = leaf(wt_spread(w, wt_constant(2, 3, 1), "R"));
    weft_tensor *mine = weft_mul_scalar(weft_to_local(x, &sum), wt_rank() + 1), *y;

    y = weft_from_local(weft_drop_grad_types(mine), w->mesh, &sum,
                        NULL); /* equal copies are no terms */
    WT_ALL(weft_backward(weft_sum_all(y)) == WEFT_OK);
    WT_ALL(wt_is_placed(weft_grad(x), "R") &&
           wt_local_is_all(weft_grad(x), (double)sum_of_places()));
    WT_MOVED(w, WEFT_COLL_ALL_REDUCE, 1);
}

/* Trap 4: a column-wise product by hand: what meets rows of the rank's own is not known to be equal
 * any more, and may be called a part. */
WT_TEST_IN_WORLD(to_local__meets_rows_of_the_ranks_own, w)
{
    int64_t rows[] = {2, 3}, whole[] = {4, 2 * wt_ranks()};
    weft_placement sum = weft_partial(WEFT_SUM), columns = weft_shard(-1);
    weft_tensor *x = leaf(wt_spread(w, wt_constant(4, 3, 1), "R"));
    weft_tensor *own = weft_full(WEFT_F32, rows, 2, wt_rank() + 1), *y;

    y = weft_linear(weft_to_local(x, &sum), own, NULL, 1);
    y = weft_from_local(y, w->mesh, &columns, whole);
    WT_ALL(y && wt_is_placed(y, "S(1)") && wt_local_is_all(y, 3.0 * (wt_rank() + 1)));
    WT_ALL(weft_backward(weft_sum_all(y)) == WEFT_OK);
    WT_ALL(wt_is_placed(weft_grad(x), "R") &&
           wt_local_is_all(weft_grad(x), 2.0 * (double)sum_of_places()));
}

/* ---- norms under sequence parallelism ---- */

/* Trap 9, weakness 10.4-6: each rank has a part of the sequence, so weight and bias have partial
 * gradients; all of them are reduced at once, and only once a step. */
WT_TEST_TIMES_IN_WORLD(norms__of_sharded_sequences_are_reduced_at_once, w, k, 2)
{
    enum { NORMS = 3 };
    int64_t tokens = 2 + 7 * k;
    weft_tensor *leaves[2][2 * NORMS], *x = wt_whole3(WEFT_F64, 0, 2, tokens, 4), *y[2];

    for (int s = 0; s < 2; s++) {
        y[s] = s ? wt_spread(w, x, "S(1)") : x;
        for (int i = 0; i < 2 * NORMS; i++) {
            weft_tensor *p = weft_full(WEFT_F64, (int64_t[]){4}, 1, i % 2 ? 0.25 : 1 + i);

            leaves[s][i] = leaf(s ? wt_spread(w, p, "R") : p);
        }
        for (int i = 0; i < NORMS; i++)
            y[s] = weft_layer_norm(y[s], leaves[s][2 * i], leaves[s][2 * i + 1], 1e-3);
        WT_ALL(weft_backward(weft_sum_all(weft_square(y[s]))) == WEFT_OK);
    }
    WT_STILL(w);
    WT_ALL(weft_reduce_gradients(leaves[1], 2 * NORMS) == WEFT_OK);
    WT_MOVED(w, WEFT_COLL_ALL_REDUCE, 1);
    for (int i = 0; i < 2 * NORMS; i++) {
        weft_tensor *g = weft_grad(leaves[1][i]);

        WT_ALL(wt_is_placed(g, "R"));
        WT_STILL(w);
        WT_ALL(wt_near_tensors(g, weft_grad(leaves[0][i]), WT_WITHIN(1e-12)));
    }
}

/* A leaf that is partial itself may have a gradient that is, and there is nothing to reduce; ranks
 * outside the mesh of a leaf take no part. */
WT_TEST_IN_WORLD(reduce_gradients__leaves_others_alone, w)
{
    weft_mesh *inner = weft_mesh_new(WEFT_CPU, "in=%d", (wt_ranks() + 1) / 2);
    weft_placement whole = weft_replicate(), rows = weft_shard(0);
    weft_tensor *leaves[] = {leaf(wt_spread(w, wt_constant(4, 3, 1), "P")),
                             leaf(weft_distribute_tensor(wt_constant(1, 3, 1), inner, &whole, -1))};
    weft_tensor *x = weft_distribute_tensor(wt_constant(5, 3, 1), inner, &rows, -1);

    WT_ALL(weft_backward_from(weft_mul_scalar(leaves[0], 2),
                              wt_partial(w, wt_constant(4, 3, 1), WEFT_SUM)) == WEFT_OK);
    WT_ALL(weft_backward(weft_sum_all(weft_mul(x, leaves[1]))) == WEFT_OK);
    WT_STILL(w);
    WT_ALL(weft_reduce_gradients(leaves, 2) == WEFT_OK);
    WT_EQ(wt_moved(w, WEFT_COLL_ALL_REDUCE), wt_ranks() > 2 && weft_mesh_is_member(inner));
    WT_ALL(wt_local_is_all(weft_grad(leaves[0]), 2));
    WT_ALL(wt_local_is_all(weft_grad(leaves[1]), 5));
    weft_mesh_release(inner);
}

/* ---- norms of gradients ---- */

static weft_tensor *no_forward(weft_module *m, weft_tensor *const *inputs, int n)
{
    (void)m;
    (void)n;
    return inputs[0];
}

/* A parameter of ones whose gradient is `value` everywhere. */
static bool add_parameter(weft_module *m, const char *name, weft_mesh *mesh, const char *placements,
                          int64_t rows, double value)
{
    weft_placement p[WEFT_MAX_AXES];
    weft_tensor *t = weft_full(WEFT_F64, (int64_t[]){rows, 2}, 2, 1);

    if (mesh) weft_placements_parse(p, WEFT_MAX_AXES, placements);
    t = leaf(mesh ? weft_distribute_tensor(t, mesh, p, -1) : t);
    return weft_module_add_parameter(m, name, t) == WEFT_OK &&
           weft_backward(weft_mul_scalar(weft_sum_all(t), value)) == WEFT_OK;
}

/* Trap 10: elements count once whether their parameter is sharded, replicated, plain, or lies on
 * another mesh; norms of several meshes are added as numbers. */
WT_TEST(clip__over_several_meshes)
{
    static const weft_module_class kind = {.type = "parameters", .forward = no_forward};
    int first = wt_ranks() % 2 ? 1 : 2;
    struct wt_world w = wt_world_open_mesh("dp=%d,tp=%d", first, wt_ranks() / first);
    weft_mesh *tp = weft_mesh_sub(w.mesh, "tp"), *dp = weft_mesh_sub(w.mesh, "dp");
    weft_module *m = weft_module_new(&kind, NULL);
    double norm, squares = 2 * (5 * 4 + 5 * 9 + 3 * 16 + 7 * 25 + 7 * 36 + 1 * 49);

    WT_ALL(add_parameter(m, "a", w.mesh, "R,S(0)", 5, 2));
    WT_ALL(add_parameter(m, "b", w.mesh, "S(0),S(0)", 5, 3));
    WT_ALL(add_parameter(m, "c", w.mesh, "R,R", 3, 4));
    WT_ALL(add_parameter(m, "d", tp, "S(0)", 7, 5));
    WT_ALL(add_parameter(m, "e", dp, "S(1)", 7, 6));
    WT_ALL(add_parameter(m, "f", NULL, "", 1, 7));
    WT_EQ(weft_clip_grad_norm(m, 1, &norm), WEFT_OK);
    WT_ALL(fabs(norm - sqrt(squares)) < 1e-12 * squares);
    WT_EQ(weft_clip_grad_norm(m, 0, &norm), WEFT_OK);
    WT_ALL(fabs(norm - 1) < 1e-5);
    WT_ALL(fabs(((double *)weft_data(weft_grad(weft_module_parameter(m, "f"))))[0] -
                7 / (sqrt(squares) + 1e-6)) < 1e-9);
    weft_module_release(m);
    WT_RELEASE(weft_mesh_release, dp, tp);
    wt_world_close(&w);
}

/* ---- what wants a gradient ---- */

/* Trap 19: frozen weights stay frozen, others do not become so. */
WT_TEST_TIMES_IN_WORLD(distribute__keeps_who_wants_a_gradient, w, wanted, 2)
{
    weft_tensor *t = weft_set_requires_grad(wt_whole(WEFT_F32, 0, 4, 3), wanted);

    WT_EQ(weft_requires_grad(wt_spread(w, t, "S(0)")), wanted);
    WT_EQ(weft_requires_grad(
              weft_redistribute(wt_spread(w, t, "S(0)"), (weft_placement[]){weft_replicate()})),
          wanted);
}

/* ---- small reductions instead of gathers ---- */

static int64_t bytes_sent(struct wt_world *w)
{
    int64_t bytes = weft_ledger_total(w->ledger, WEFT_COLL_COUNT, WEFT_DIRECTION_ANY, NULL).bytes;

    wt_moved(w, WEFT_COLL_COUNT);
    return bytes;
}

/* Weakness 10.4-11: a maximum over the sharded dim sends its result, not its operand; a mean loss
 * over a sharded batch sends numbers; a triangle, and attention over sharded heads, send nothing.
 */
WT_TEST_IN_WORLD(reductions__send_results_only, w)
{
    int64_t many = wt_ranks() > 1, heads = wt_ranks() + 1;
    weft_tensor *x = wt_spread(w, wt_whole(WEFT_F32, 0, 64, 3), "S(0)"), *q;

    WT_ALL(wt_to(weft_amax(x, (int[]){0}, 1, false), "R") != NULL);
    WT_EQ(bytes_sent(w), many * 3 * 4);
    WT_ALL(wt_to(weft_mean(x, (int[]){0}, 1, false), "R") != NULL);
    WT_EQ(bytes_sent(w), many * 3 * 4);
    WT_ALL(wt_to(weft_mse(x, wt_spread(w, wt_whole(WEFT_F32, 1, 64, 3), "R")), "R") != NULL);
    WT_EQ(bytes_sent(w), many * 4);
    WT_ALL(weft_make_tril(
               (weft_spec){
                   .ndim = 3, .shape = {5, 4, 4}, .mesh = w->mesh, .placements = {weft_shard(1)}},
               0) != NULL);
    q = wt_spread(w,
                  weft_reshape(wt_whole3(WEFT_F32, 0, 3, heads, 4), (int64_t[]){1, 3, heads, 4}, 4),
                  "S(2)");
    WT_ALL(wt_is_placed(weft_attention(q, q, q, true, 0), "S(2)"));
    WT_STILL(w);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "backward"); }
