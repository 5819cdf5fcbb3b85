/*
 * test_from_local.c: from local tensors to distributed ones and back: what is given, what is
 * compared over the mesh, which gradient arrives, on meshes of one to three axes.
 */
/* mpi: 4 */
#include <string.h>

#include "support/worlds.h"
#include "tensor/tensor.h"

static const weft_placement whole[] = {{.kind = WEFT_KIND_REPLICATE}};
static const weft_placement rows[] = {{.kind = WEFT_KIND_SHARD}};
static const weft_placement summed[] = {{.kind = WEFT_KIND_PARTIAL, .reduce = WEFT_SUM}};

/* ---- shapes ---- */

struct grid_case {
    const char *placements;
    int64_t local[3]; /* 0 ends it */
    int times[3];     /* bit a: dim grows by mesh axis a */
};

/* DT-33: on 8 ranks the figures of the case, on others those of their meshes. */
WT_TEST(from_local__multiplies_dims_on_every_mesh)
{
    static const struct grid_case two[] = {
        {"S(0),S(1)", {3, 3}, {1, 2}}, {"S(0),S(0)", {3, 3}, {3, 0}}, {"S(1),R", {2, 5}, {0, 1}}};
    static const struct grid_case three[] = {{"S(0),S(1),S(2)", {3, 3, 3}, {1, 2, 4}},
                                             {"S(0),S(0),S(2)", {3, 3, 3}, {3, 0, 4}},
                                             {"R,S(1),S(1)", {1, 4, 2}, {0, 6, 0}}};

    for (int i = 0; i < 6; i++) {
        const struct grid_case *c = i < 3 ? &two[i] : &three[i - 3];
        int half = wt_ranks() % 2 ? 1 : 2, rest = wt_ranks() / half;
        struct wt_world w = i < 3 ? wt_world_open_mesh("dp=%d,tp=%d", half, rest)
                                  : wt_world_open_mesh("a=%d,b=%d,c=%d", half, rest % 2 ? 1 : 2,
                                                       rest % 2 ? rest : rest / 2);
        weft_placement p[WEFT_MAX_AXES];
        weft_tensor *t;

        WT_ALL(weft_placements_on(p, w.mesh, c->placements) == WEFT_OK);
        t = weft_from_local(weft_full(WEFT_F32, c->local, i < 3 ? 2 : 3, 1), w.mesh, p, NULL);
        for (int d = 0; d < (i < 3 ? 2 : 3); d++) {
            int64_t size = c->local[d];

            for (int a = 0; a < weft_mesh_ndim(w.mesh); a++)
                if (c->times[d] >> a & 1) size *= weft_mesh_axis_size(w.mesh, a);
            WT_EQ(weft_size(t, d), size);
            WT_EQ(weft_local_size(t, d), c->local[d]);
        }
        WT_STILL(&w);
        wt_world_close(&w);
    }
}

/* DT-14 */
WT_TEST_TIMES_IN_WORLD(from_local__takes_shape_and_stride_together, w, i, 3)
{
    static const int64_t sizes[] = {7, 13, 1};
    int64_t mine = weft_chunk_size(sizes[i], wt_ranks(), wt_rank());
    const int64_t shape[] = {sizes[i], 3}, stride[] = {3, 1}, columns[] = {1, sizes[i]},
                  gaps[] = {6, 2};
    weft_tensor *local = wt_constant(mine, 3, 1), *t;

    WT_ALL(!weft_from_local_with(local, w->mesh, rows, (weft_from_local_options){.shape = shape}));
    WT_FAILED(WEFT_ERR_ARG, "pass both shape and stride at the same time");
    WT_ALL(
        !weft_from_local_with(local, w->mesh, rows, (weft_from_local_options){.stride = stride}));
    WT_FAILED(WEFT_ERR_ARG, "pass both shape and stride at the same time");
    t = weft_from_local_with(local, w->mesh, rows,
                             (weft_from_local_options){.shape = shape, .stride = stride});
    WT_ALL(wt_has_shape(t, 2, sizes[i], (int64_t)3) && weft_data(t) == weft_data(local));
    WT_FAILS(weft_from_local_with(local, w->mesh, rows,
                                  (weft_from_local_options){.shape = shape, .stride = gaps}),
             WEFT_ERR_ARG, "not those of a dense tensor");
    t = weft_transpose(wt_constant(3, mine, 1), 0, 1);
    t = weft_from_local_with(t, w->mesh, rows,
                             (weft_from_local_options){.shape = shape, .stride = columns});
    WT_ALL(t != NULL);
    WT_STILL(w);
}

/* ---- comparing over the mesh ---- */

static weft_tensor *checked(struct wt_world *w, weft_tensor *local, const weft_placement *p,
                            const int64_t *shape)
{
    const int64_t stride[] = {3, 1};

    return weft_from_local_with(local, w->mesh, p,
                                (weft_from_local_options){.shape = shape,
                                                          .stride = shape ? stride : NULL,
                                                          .run_check = true});
}

/* Ones whose columns lie one after another when `turned`, with room between them when `apart`. */
static weft_tensor *in_memory(int64_t n, int64_t m, bool turned, bool apart)
{
    weft_tensor *t =
        turned ? wt_constant(m, apart ? 2 * n : n, 1) : wt_constant(n, apart ? 2 * m : m, 1);

    if (apart) t = weft_slice(t, 1, 0, turned ? n : m);
    return turned ? weft_transpose(t, 0, 1) : t;
}

/* The same error on every rank of the mesh, and then communication goes on. */
WT_TEST_IN_WORLD(run_check__finds_what_differs_on_one_rank, w)
{
    bool odd = wt_rank() == wt_ranks() - 1;
    const int64_t shape[] = {2 * wt_ranks(), 3}, large[] = {2 * wt_ranks() + 1, 3},
                  small[] = {2 * wt_ranks() - 1, 3};
    weft_tensor *wants = wt_constant(2, 3, 1);

    WT_ALL(checked(w, wt_constant(2, 3, wt_rank()), rows, NULL));
    WT_ALL(checked(w, wt_constant(2, 3, wt_rank()), rows, shape));
    WT_ALL(checked(w, wt_constant(2, 3, 5), whole, NULL));
    WT_ALL(checked(w, wt_constant(2, 3, wt_rank()), summed, NULL));
    if (wt_ranks() > 1) {
        WT_ALL(
            !checked(w, weft_full(odd ? WEFT_F64 : WEFT_F32, (int64_t[]){2, 3}, 2, 1), rows, NULL));
        WT_FAILED(WEFT_ERR_DTYPE, "inconsistent tensor metadata: dtype is f32 on one rank and f64");
        if (odd) weft_set_requires_grad(wants, true);
        WT_ALL(!checked(w, wants, rows, NULL));
        WT_FAILED(WEFT_ERR_ARG, "a gradient is wanted on some ranks only");
        WT_ALL(!checked(w, wt_constant(odd ? 1 : 2, 3, 1), rows, NULL));
        WT_FAILED(WEFT_ERR_SHAPE, "the global size of dim 0");
        WT_ALL(!checked(w, wt_constant(odd ? 1 : 2, 3, 1), rows, shape));
        WT_FAILED(WEFT_ERR_SHAPE, "has not the size of its shard");
        WT_ALL(!checked(w, odd ? weft_full(WEFT_F32, (int64_t[]){2}, 1, 1) : wants, rows, NULL));
        weft_error_clear();
        WT_ALL(!checked(w, wt_constant(2, 3, odd ? 4 : 5), whole, NULL));
        WT_FAILED(WEFT_ERR_ARG, "hold different ones");
        WT_ALL(!checked(w, wt_constant(2, 3, 1), rows, odd ? large : shape));
        WT_FAILED(WEFT_ERR_SHAPE, "inconsistent");
        /* trial 2 */
        WT_ALL(!checked(w, in_memory(2, 3, odd, false), rows, NULL));
        WT_FAILED(WEFT_ERR_ARG, "strides of dims 0 and 1 are in another order");
        WT_ALL(!checked(w, in_memory(2, 3, false, odd), rows, NULL));
        WT_FAILED(WEFT_ERR_ARG, "strides leave gaps on some ranks only");
        WT_ALL(checked(w, in_memory(2, 3, true, true), rows, NULL));
        WT_ALL(checked(w, in_memory(odd ? 1 : 2, 3, odd, false), rows, small)); /* of one row */
    }
    WT_ALL(wt_is_all(checked(w, wt_constant(2, 3, 1), rows, NULL), 1));
    weft_zero_grad(wants);
}

/* Two columns of four, of two rows on some ranks and of one or none on others: one row has no gaps
 * between rows. */
WT_TEST_IN_WORLD(run_check__leaves_consistent_views_of_uneven_shards, w)
{
    int64_t n = wt_ranks() + 1, mine = weft_chunk_size(n, wt_ranks(), wt_rank());
    const int64_t shape[] = {n, 2}, stride[] = {2, 1};
    weft_tensor *t = weft_slice(wt_constant(mine, 4, 1), 1, 0, 2);

    t = weft_from_local_with(
        t, w->mesh, rows,
        (weft_from_local_options){.shape = shape, .stride = stride, .run_check = true});
    WT_ALL(t && wt_is_all(t, 1));
}

/* Replicas along one axis, parts along the other; a rank outside neither checks nor waits. */
WT_TEST_IN_WORLD(run_check__compares_along_replicated_axes_only, w)
{
    static const int sizes[] = {2, 2};
    weft_placement p[] = {weft_shard(0), weft_replicate()};
    weft_mesh *mesh;
    int dp, tp;

    if (wt_ranks() >= 4) {
        mesh = weft_mesh_from_ranks(WEFT_CPU, sizes, 2, "dp,tp", (int[]){3, 1, 0, 2});
        dp = weft_mesh_coordinate(mesh, 0);
        tp = weft_mesh_coordinate(mesh, 1);
        WT_ALL(weft_from_local_with(wt_constant(2, 3, dp), mesh, p,
                                    (weft_from_local_options){.run_check = true}));
        WT_ALL((dp < 0) == !!weft_from_local_with(wt_constant(2, 3, dp + (dp == 1) * tp), mesh, p,
                                                  (weft_from_local_options){.run_check = true}));
        WT_ALL(dp < 0 || wt_failed_with(WEFT_ERR_ARG, "hold different ones"));
        weft_mesh_release(mesh);
    }
}

/* ---- gradients ---- */

/* DT-20 at ws 4: 4; whatever the gradient is said to be is what arrives. */
WT_TEST_TIMES_IN_WORLD(full_tensor__gradient_may_be_partial, w, i, 3)
{
    static const int64_t sizes[] = {8, 5, 1};
    weft_tensor *t = wt_spread(w, wt_constant(sizes[i], 3, 1), "S(0)");

    weft_set_requires_grad(t, true);
    WT_ALL(weft_backward(weft_sum_all(weft_full_tensor_with(t, summed))) == WEFT_OK);
    WT_ALL(wt_is_placed(weft_grad(t), "S(0)") && wt_is_all(weft_grad(t), wt_ranks()));
    weft_zero_grad(t);
    WT_ALL(weft_backward(weft_sum_all(weft_full_tensor(t))) == WEFT_OK);
    WT_ALL(wt_is_all(weft_grad(t), 1));
}

/* DT-21 */
WT_TEST_TIMES_IN_WORLD(full_tensor__is_finished_and_equal_to_the_source, w, i, 8)
{
    static const char *const layouts[] = {"S(0)", "S(1)", "R", "P"};
    weft_tensor *source = wt_whole(WEFT_F64, 0, i < 4 ? 8 : 5, 3),
                *t = wt_spread(w, source, layouts[i % 4]), *full;

    full = weft_full_tensor(t);
    WT_ALL(weft_tensor_mesh(full) == NULL && full->layout->partial == false);
    WT_ALL(wt_near_tensors(full, source, WT_EXACT));
}

/* A replicated tensor whose gradient is said to be partial: no all-reduce, a term on each rank
 * (trap 5 of other libraries). */
WT_TEST_IN_WORLD(from_local__gradient_placements_say_how_it_arrives, w)
{
    weft_tensor *a = weft_set_requires_grad(wt_constant(2, 4, 1), true), *t;
    weft_tensor *mine = weft_from_local(wt_constant(2, 4, wt_rank() + 1), w->mesh, summed, NULL);
    int64_t all = (int64_t)wt_ranks() * (wt_ranks() + 1) / 2;
    double sum[8];

    t = weft_from_local_with(a, w->mesh, whole,
                             (weft_from_local_options){.grad_placements = summed});
    WT_ALL(weft_backward_from(t, mine) == WEFT_OK);
    WT_STILL(w);
    WT_ALL(wt_local_is_all(weft_grad(a), wt_rank() + 1));
    weft_zero_grad(a);
    t = weft_from_local(a, w->mesh, whole, NULL);
    WT_ALL(weft_backward_from(t, mine) == WEFT_OK);
    WT_MOVED(w, WEFT_COLL_ALL_REDUCE, 1);
    WT_ALL(wt_local_is_all(weft_grad(a), (double)all));
    weft_zero_grad(a);
    t = weft_from_local_with(a, w->mesh, whole,
                             (weft_from_local_options){.grad_placements = summed});
    mine = weft_from_local(wt_constant(2, 4, 6), w->mesh, whole, NULL);
    WT_ALL(weft_backward_from(t, mine) == WEFT_OK); /* terms that add up to the whole 6 */
    WT_ALL(weft_read_f64(weft_mesh_all_reduce(weft_grad(a), WEFT_SUM, w->mesh, 0), sum, 8) ==
           WEFT_OK);
    WT_ALL(sum[0] == 6 && sum[7] == 6);
}

/* DT-18: nothing is recorded and nothing copied. */
WT_TEST_TIMES_IN_WORLD(to_local__without_gradient_is_the_stored_tensor, w, i, 4)
{
    static const char *const layouts[] = {"S(0)", "S(1)", "R", "P"};
    weft_tensor *t = wt_spread(w, wt_constant(5, 3, 1), layouts[i]), *local;

    weft_set_requires_grad(t, true);
    weft_no_grad_open();
    local = weft_to_local(t, NULL);
    weft_no_grad_close();
    WT_ALL(weft_data(local) == weft_data(t) && !local->node && !weft_requires_grad(local));
    WT_ALL(weft_to_local(local, NULL) == local);
}

/* DT-17: a gradient with other strides, by way of another view and uneven shards. */
WT_TEST_TIMES_IN_WORLD(to_local__takes_a_gradient_of_any_stride, w, i, 3)
{
    static const int64_t sizes[][2] = {{12, 3}, {5, 7}, {1, 2}};
    weft_tensor *source = wt_whole(WEFT_F64, 0, sizes[i][0], sizes[i][1]),
                *weights = wt_whole(WEFT_F64, 1, sizes[i][1], sizes[i][0]);
    weft_tensor *t = weft_set_requires_grad(wt_spread(w, source, "S(0)"), true), *local;
    int64_t first = weft_local_offset(t, 0), rows_here = weft_local_size(t, 0);

    local = weft_transpose(weft_to_local(t, NULL), 0, 1);
    if (rows_here == 0) first = 0;
    local = weft_mul(local, weft_slice(weights, 1, first, first + rows_here));
    WT_ALL(weft_backward(weft_sum_all(local)) == WEFT_OK);
    WT_STILL(w);
    WT_ALL(wt_near_tensors(weft_grad(t), weft_transpose(weights, 0, 1), WT_EXACT));
}

/* DT-39: a table and an index per item, both sharded over the items: looked up item by item. */
WT_TEST_TIMES_IN_WORLD(embedding__of_a_batch_of_tables, w, i, 3)
{
    static const int64_t items[] = {2, 1, 3};
    int64_t n = items[i], all = n * wt_ranks();
    weft_tensor *tables = weft_empty(WEFT_F32, (int64_t[]){n, 8, 32}, 3),
                *index = weft_empty(WEFT_I64, (int64_t[]){n, 6}, 2), *y, *want[4];
    float *table_at = weft_data(tables);
    int64_t *index_at = weft_data(index);

    for (int64_t k = 0; k < n * 8 * 32; k++)
        table_at[k] = (float)wt_element(0, wt_rank() * n * 8 * 32 + k);
    for (int64_t k = 0; k < n * 6; k++) index_at[k] = (5 * k + wt_rank()) % 8;
    for (int64_t k = 0; k < n; k++)
        want[k] = weft_embedding(weft_select(tables, 0, k), weft_select(index, 0, k));
    y = weft_embedding_batch(weft_from_local(tables, w->mesh, rows, NULL),
                             weft_from_local(index, w->mesh, rows, NULL));
    WT_ALL(wt_has_shape(y, 3, all, (int64_t)6, (int64_t)32) && wt_is_placed(y, "S(0)"));
    WT_EQ(weft_local_size(y, 0), n);
    WT_STILL(w);
    y = weft_to_local(y, NULL);
    for (int64_t k = 0; k < n; k++)
        WT_ALL(wt_near_tensors(weft_select(y, 0, k), want[k], WT_EXACT));
}

int main(int argc, char **argv) { return wt_main(argc, argv, "from_local"); }
