/*
 * test_conversions.c: between plain and distributed tensors: values, gradients, collectives,
 * refusals. IDs are those of the acceptance cases. From one layout to another: test_redistribute.c.
 */
/* mpi: 1 2 3 4 */
#include <string.h>

#include "support/worlds.h"
#include "tensor/tensor.h"

static const weft_placement replicated = {.kind = WEFT_KIND_REPLICATE};
static const weft_placement sharded = {.kind = WEFT_KIND_SHARD};
static const weft_placement summed = {.kind = WEFT_KIND_PARTIAL, .reduce = WEFT_SUM};

/* ---- from_local, to_local ---- */

/* DT-05, DT-15 */
WT_TEST_IN_WORLD(from_local__multiplies_sharded_dims, w)
{
    weft_placement last = weft_shard(-1);
    weft_tensor *local = wt_constant(3, 3, 1), *t;

    WT_ALL(wt_has_shape(weft_from_local(local, w->mesh, &sharded, NULL), 2, 3 * wt_ranks(), 3));
    WT_ALL(wt_has_shape(weft_from_local(local, w->mesh, &replicated, NULL), 2, 3, 3));
    WT_ALL(wt_has_shape(weft_from_local(local, w->mesh, &summed, NULL), 2, 3, 3));
    t = weft_from_local(local, w->mesh, &last, NULL);
    WT_ALL(wt_has_shape(t, 2, 3, 3 * wt_ranks()) && wt_is_placed(t, "S(1)"));
    WT_ALL(weft_data(t) == weft_data(local));
    WT_STILL(w);
}

/* DT-06 */
WT_TEST_IN_WORLD(from_local__passes_gradients_to_what_made_the_local_tensor, w)
{
    weft_tensor *a = weft_set_requires_grad(wt_constant(3, 3, 2), true);
    weft_tensor *t = weft_from_local(weft_mul_scalar(a, 3), w->mesh, &sharded, NULL);
    weft_tensor *ones = weft_from_local(wt_constant(3, 3, 1), w->mesh, &sharded, NULL);

    WT_ALL(weft_backward_from(weft_mul_scalar(t, 3), ones) == WEFT_OK);
    WT_ALL(wt_local_is_all(weft_grad(a), 9));
    WT_STILL(w);
    weft_zero_grad(a);
}

/* DT-08, DT-09, DT-12: the gradient of a partial sum comes replicated, without communication. */
WT_TEST_TIMES_IN_WORLD(from_local__gradient_needs_no_communication, w, i, 3)
{
    const weft_placement forward[] = {sharded, replicated, summed};
    const weft_placement backward[] = {sharded, replicated, replicated};
    weft_tensor *a = weft_set_requires_grad(wt_constant(3, 3, 2), true);
    weft_tensor *y = weft_mul_scalar(weft_from_local(a, w->mesh, &forward[i], NULL), 2);

    WT_ALL(weft_backward_from(
               y, weft_from_local(wt_constant(3, 3, 1), w->mesh, &backward[i], NULL)) == WEFT_OK);
    WT_ALL(wt_local_is_all(weft_grad(a), 2));
    WT_STILL(w);
}

/* DT-07, DT-14 */
WT_TEST_IN_WORLD(from_local__refuses_what_is_no_shard, w)
{
    weft_tensor *local = wt_constant(3, 3, 1);

    WT_ALL(
        !weft_from_local(weft_from_local(local, w->mesh, &sharded, NULL), w->mesh, &sharded, NULL));
    WT_FAILED(WEFT_ERR_ARG, "distributed already");
    if (wt_ranks() == 1) { /* beside others it ends the job: tests/traps/test_disagreement.c */
        WT_ALL(!weft_from_local(local, w->mesh, &sharded, (int64_t[]){4, 3}));
        WT_FAILED(WEFT_ERR_SHAPE, "from_local");
        WT_ALL(!weft_from_local(local, w->mesh, &sharded, (int64_t[]){3, 4}));
        WT_FAILED(WEFT_ERR_SHAPE, "dim 1 is not sharded");
    }
    WT_STILL(w);
}

WT_TEST_IN_WORLD(from_local__takes_uneven_parts_with_the_global_shape, w)
{
    int64_t rows = weft_chunk_size(7, wt_ranks(), wt_rank()), shape[] = {7, 3};
    weft_tensor *t = weft_from_local(wt_constant(rows, 3, wt_rank()), w->mesh, &sharded, shape);

    WT_ALL(wt_has_shape(t, 2, 7, 3));
    WT_EQ(weft_local_size(t, 0), rows);
    WT_EQ(weft_local_offset(t, 0), weft_chunk_offset(7, wt_ranks(), wt_rank()));
}

/* DT-16 */
WT_TEST_IN_WORLD(to_local__gradient_has_the_tensors_placements, w)
{
    weft_tensor *t = weft_set_requires_grad(
        weft_from_local(wt_constant(3, 3, 2), w->mesh, &sharded, NULL), true);
    weft_tensor *local = weft_to_local(weft_mul_scalar(t, 3), NULL);

    WT_ALL(weft_tensor_mesh(local) == NULL && wt_local_is_all(local, 6));
    WT_ALL(weft_backward(weft_sum_all(weft_add(local, wt_constant(3, 3, 1)))) == WEFT_OK);
    WT_ALL(wt_is_placed(weft_grad(t), "S(0)") && wt_local_is_all(weft_grad(t), 3));
    WT_STILL(w);
}

/* DT-24 */
WT_TEST_IN_WORLD(from_local__then_to_local_is_the_identity, w)
{
    weft_tensor *a = weft_set_requires_grad(wt_constant(3, 3, 2), true);
    weft_tensor *t = weft_from_local(weft_add_scalar(a, 8), w->mesh, &sharded, NULL);
    weft_tensor *local = weft_to_local(weft_mul_scalar(t, 6), NULL);

    WT_ALL(wt_local_is_all(local, 60));
    WT_ALL(weft_backward(weft_sum_all(weft_add(local, wt_constant(3, 3, 1)))) == WEFT_OK);
    WT_ALL(wt_local_is_all(weft_grad(a), 6));
    WT_STILL(w);
}

/* DT-26 */
WT_TEST_IN_WORLD(layout__does_not_depend_on_data, w)
{
    weft_tensor *a = wt_spread(w, wt_constant(3, 3, 1), "S(0)"),
                *b = wt_spread(w, wt_constant(3, 3, 2), "S(0)");
    weft_tensor *c = wt_spread(w, wt_constant(3, 3, 1), "R");

    WT_ALL(a->layout == b->layout && a->layout != c->layout);
}

/* ---- distribute_tensor ---- */

/* API-01, API-02, API-04, INIT-03, INIT-05 */
WT_TEST_TIMES_IN_WORLD(distribute__cuts_by_the_chunk_rule, w, i, 8)
{
    static const int64_t sizes[] = {0, 1, 3, 5, 12, 13, 14, 31};
    weft_tensor *rows = wt_whole(WEFT_F32, 0, sizes[i], 3),
                *columns = wt_whole(WEFT_F64, 1, 3, sizes[i]);
    weft_tensor *r = wt_spread(w, rows, "S(0)"), *c = wt_spread(w, columns, "S(-1)");

    WT_ALL(wt_is_placed(c, "S(1)"));
    WT_EQ(weft_local_size(r, 0), weft_chunk_size(sizes[i], wt_ranks(), wt_rank()));
    WT_EQ(weft_local_size(c, 1), weft_chunk_size(sizes[i], wt_ranks(), wt_rank()));
    WT_ALL(wt_near_shard(r, rows, WT_EXACT) && wt_near_shard(c, columns, WT_EXACT));
    WT_STILL(w);
    WT_ALL(wt_near_tensors(r, rows, WT_EXACT) && wt_near_tensors(c, columns, WT_EXACT));
}

/* API-01, API-04 */
WT_TEST_IN_WORLD(distribute__takes_the_copy_of_the_source_or_its_own, w)
{
    int source = wt_ranks() - 1;
    weft_tensor *mine = wt_constant(12, 3, wt_rank());

    WT_ALL(wt_local_is_all(weft_distribute_tensor(mine, w->mesh, &sharded, -1), wt_rank()));
    WT_ALL(wt_local_is_all(weft_distribute_tensor(mine, w->mesh, &replicated, -1), wt_rank()));
    WT_STILL(w);
    WT_ALL(wt_local_is_all(weft_distribute_tensor(mine, w->mesh, &sharded, source), source));
    WT_MOVED(w, WEFT_COLL_SCATTER, 1);
    WT_ALL(wt_local_is_all(weft_distribute_tensor(mine, w->mesh, &replicated, source), source));
    WT_MOVED(w, WEFT_COLL_BROADCAST, 1);
    WT_ALL(wt_local_is_all(mine, wt_rank()));
}

WT_TEST_IN_WORLD(distribute__leaf_stays_a_leaf, w)
{
    weft_tensor *leaf = weft_set_requires_grad(wt_constant(12, 3, 1), true);
    weft_tensor *t = wt_spread(w, leaf, "S(0)");

    WT_ALL(weft_requires_grad(t) && t->node == NULL && weft_data(t) != weft_data(leaf));
    WT_ALL(weft_backward(weft_sum_all(t)) == WEFT_OK);
    WT_ALL(wt_local_is_all(weft_grad(t), 1) && weft_grad(leaf) == NULL);
}

/* ---- mixtures ---- */

/* A plain number's gradient is the sum over the distributed tensor, plain on every rank. */
WT_TEST_IN_WORLD(mixture__gradient_of_a_plain_number_is_whole, w)
{
    weft_tensor *t = wt_spread(w, wt_constant(5, 3, 2), "S(0)");
    weft_tensor *scale = weft_set_requires_grad(weft_full(WEFT_F32, NULL, 0, 3), true);

    WT_ALL(weft_backward(weft_sum_all(weft_mul(t, scale))) == WEFT_OK);
    WT_ALL(weft_grad(scale) && weft_tensor_mesh(weft_grad(scale)) == NULL);
    WT_ALL(wt_local_is_all(weft_grad(scale), 30));
    WT_ALL(weft_backward(weft_sum_all(weft_mul(t, scale))) == WEFT_OK);
    WT_ALL(wt_local_is_all(weft_grad(scale), 60));
}

/* Negative dims count from the end in every function; refusals are equal on all ranks. */
WT_TEST_IN_WORLD(dims__negative_ones_count_from_the_end, w)
{
    weft_tensor *whole = wt_whole3(WEFT_F64, 0, 2, 5, 3), *t = wt_spread(w, whole, "S(1)");
    int last = -1, beyond = 3;

    WT_ALL(wt_near_tensors(weft_softmax(t, -1), weft_softmax(whole, 2), WT_WITHIN(1e-14)));
    WT_ALL(wt_near_tensors(weft_sum(t, &last, 1, false), weft_sum(whole, (int[]){2}, 1, false),
                           WT_WITHIN(1e-14)));
    WT_ALL(wt_near_tensors(weft_transpose(t, -1, -2), weft_transpose(whole, 1, 2), WT_EXACT));
    WT_ALL(wt_near_tensors(weft_slice(t, -2, -3, -1), weft_slice(whole, 1, 2, 4), WT_EXACT));
    WT_FAILS(weft_sum(t, &beyond, 1, false), WEFT_ERR_ARG, "sum");
    WT_FAILS(weft_slice(t, 0, 1, 3), WEFT_ERR_ARG, "slice");
    WT_ALL(!weft_add(t, wt_spread(w, wt_whole(WEFT_F64, 0, 4, 3), "R")));
    WT_FAILED(WEFT_ERR_SHAPE, "broadcast");
    WT_EQ(weft_tensor_dtype(weft_add(t, weft_cast(t, WEFT_F32))), WEFT_F64);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "conversions"); }
