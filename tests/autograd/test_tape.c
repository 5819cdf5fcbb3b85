/* test_tape.c: the tape on plain and distributed tensors: accumulation, lifetime, reductions.
 */
/* mpi: 1 2 3 4 */
#include <string.h>

#include "support/worlds.h"
#include "tensor/tensor.h"

static const int64_t one_dim[] = {3};

static weft_tensor *leaf(double value)
{
    return weft_set_requires_grad(weft_full(WEFT_F64, one_dim, 1, value), true);
}

/* ---- what a tape is ---- */

WT_TEST_IN_WORLD(backward__adds_to_the_gradients_of_earlier_ones, w)
{
    weft_tensor *x = leaf(2), *held;

    WT_ALL(weft_backward(weft_sum_all(weft_square(x))) == WEFT_OK);
    WT_ALL(wt_is_all(weft_grad(x), 4));
    WT_ALL(weft_backward(weft_sum_all(weft_mul_scalar(x, 3))) == WEFT_OK);
    WT_ALL(wt_is_all(weft_grad(x), 7));
    held = weft_retain(weft_grad(x));
    WT_ALL(weft_backward(weft_sum_all(x)) == WEFT_OK);
    WT_ALL(wt_is_all(weft_grad(x), 8) &&
           wt_is_all(held, 7)); /* what somebody holds does not change */
    weft_release(held);
    weft_zero_grad(x);
    WT_ALL(weft_grad(x) == NULL);
}

/* Two leaves that get the very same gradient tensor must not share it. */
WT_TEST_IN_WORLD(backward__leaves_do_not_share_gradients, w)
{
    weft_tensor *a = leaf(2), *b = leaf(3);

    WT_ALL(weft_backward(weft_sum_all(weft_add(a, b))) == WEFT_OK);
    WT_ALL(weft_data(weft_grad(a)) != weft_data(weft_grad(b)));
    WT_ALL(weft_fill_(weft_grad(a), 5) == WEFT_OK && wt_is_all(weft_grad(b), 1));
}

WT_TEST_IN_WORLD(backward__of_a_leaf_is_one, w)
{
    weft_tensor *x = weft_set_requires_grad(weft_full(WEFT_F64, NULL, 0, 4), true);

    WT_ALL(weft_backward(x) == WEFT_OK && weft_backward(x) == WEFT_OK);
    WT_ALL(weft_item(weft_grad(x)) == 2);
}

WT_TEST_IN_WORLD(no_grad__records_nothing, w)
{
    weft_tensor *x = leaf(2), *y;

    weft_no_grad_open();
    weft_no_grad_open();
    weft_no_grad_close();
    y = weft_square(x);
    weft_no_grad_close();
    WT_ALL(!weft_requires_grad(y) && y->node == NULL);
    WT_FAILS(weft_backward(weft_sum_all(y)), WEFT_ERR_STATE, "requires a gradient");
    WT_ALL(weft_requires_grad(weft_square(x)));
    WT_ALL(!weft_requires_grad(weft_detach(weft_square(x))));
}

WT_TEST_IN_WORLD(tape__is_freed_by_backward_unless_retained, w)
{
    weft_tensor *x = leaf(2), *loss = weft_sum_all(weft_square(x));

    WT_ALL(weft_backward_retain(loss) == WEFT_OK && wt_is_all(weft_grad(x), 4));
    WT_ALL(weft_backward(loss) == WEFT_OK && wt_is_all(weft_grad(x), 8));
    WT_FAILS(weft_backward(loss), WEFT_ERR_STATE, "weft_backward_retain");
    WT_ALL(wt_is_all(weft_grad(x), 8));
}

/* A second loss over a part that was freed is refused before any gradient changes. */
WT_TEST_IN_WORLD(tape__half_freed_is_refused_whole, w)
{
    weft_tensor *x = leaf(2), *z = leaf(1), *shared = weft_square(x);

    WT_ALL(weft_backward(weft_sum_all(shared)) == WEFT_OK);
    WT_ALL(weft_backward(weft_sum_all(weft_add(weft_square(z), shared))) == WEFT_ERR_STATE);
    WT_FAILED(WEFT_ERR_STATE, "freed by an earlier backward");
    WT_ALL(weft_grad(z) == NULL && wt_is_all(weft_grad(x), 4));
}

WT_TEST_IN_WORLD(tape__outlives_its_scope, w)
{
    weft_tensor *x = leaf(2), *loss;
    weft_scope *inner = weft_scope_open();

    loss = weft_scope_return(inner, weft_sum_all(weft_exp(weft_log(weft_square(x)))));
    WT_ALL(weft_backward(loss) == WEFT_OK);
    WT_ALL(wt_near_full(weft_grad(x), (double[]){4, 4, 4}, WT_WITHIN(1e-14)));
}

WT_TEST_IN_WORLD(tape__that_nobody_walks_leaves_nothing, w)
{
    WT_ALL(weft_layer_norm(weft_exp(leaf(1)), leaf(2), leaf(3), 1e-5) != NULL);
    WT_ALL(weft_softmax(weft_sigmoid(leaf(1)), 0) != NULL);
}

static weft_tensor *chain(weft_tensor *x, int length)
{
    for (int i = 0; i < length; i++) {
        weft_scope *step = weft_scope_open();

        x = weft_scope_return(step, weft_add_scalar(x, 1));
    }
    return x;
}

/* Walked, and dropped without a walk: neither may recurse. Nothing in it depends on other ranks. */
WT_TEST_IN_WORLD(tape__of_a_hundred_thousand_ops_needs_no_stack, w)
{
    enum { DEEP = 100000 };
    weft_tensor *x = leaf(1);

    if (wt_ranks() <= 2) {
        WT_ALL(weft_backward(weft_sum_all(chain(x, DEEP))) == WEFT_OK &&
               wt_is_all(weft_grad(x), 1));
        WT_ALL(chain(x, DEEP) != NULL);
    }
}

WT_TEST_IN_WORLD(backward__refuses, w)
{
    weft_tensor *x = leaf(2), *whole = weft_full(WEFT_I64, one_dim, 1, 1);

    WT_FAILS(weft_backward(weft_square(x)), WEFT_ERR_SHAPE, "3 elements");
    WT_ALL(weft_backward_from(weft_square(x), weft_full(WEFT_F64, (int64_t[]){4}, 1, 1)) ==
           WEFT_ERR_SHAPE);
    WT_FAILED(WEFT_ERR_SHAPE, "shape");
    WT_ALL(weft_backward(weft_sum_all(weft_full(WEFT_F64, one_dim, 1, 1))) == WEFT_ERR_STATE);
    WT_FAILED(WEFT_ERR_STATE, "backward");
    WT_FAILS(weft_set_requires_grad(whole, true), WEFT_ERR_DTYPE, "i64");
    WT_FAILS(weft_set_requires_grad(weft_square(x), true), WEFT_ERR_STATE, "square");
    WT_FAILS(weft_add_(x, weft_full(WEFT_F64, one_dim, 1, 1)), WEFT_ERR_STATE, "in place");
    WT_ALL(weft_grad(x) == NULL);
}

/* After an error within a vjp the tape is dropped cleanly: no gradient survives into the next walk.
 */
WT_TEST_IN_WORLD(backward__that_fails_leaves_no_partial_gradients, w)
{
    weft_tensor *x = leaf(2), *y = weft_square(x);
    weft_tensor *t = wt_spread(w, weft_full(WEFT_F64, one_dim, 1, 1), "R");

    WT_ALL(weft_backward_from(y, t) != WEFT_OK);
    WT_ALL(weft_error_status() != WEFT_OK);
    weft_error_clear();
    weft_zero_grad(x);
    WT_ALL(weft_backward(weft_sum_all(weft_square(x))) == WEFT_OK && wt_is_all(weft_grad(x), 4));
}

/* ---- distributed ---- */

/* A replicated weight and a batch that is sharded: the gradient is partial until it is asked for.
 */
WT_TEST_IN_WORLD(gradient__of_a_replicated_weight_is_reduced_once, w)
{
    weft_tensor *weight =
        weft_set_requires_grad(wt_spread(w, wt_whole(WEFT_F64, 0, 4, 3), "R"), true);
    weft_tensor *plain = weft_set_requires_grad(wt_whole(WEFT_F64, 0, 4, 3), true);

    for (int step = 0; step < 2; step++) {
        weft_tensor *x = wt_whole(WEFT_F64, 1 + step, 7, 3);

        WT_ALL(weft_backward(weft_sum_all(weft_square(weft_linear(x, plain, NULL, 1)))) == WEFT_OK);
        x = wt_spread(w, x, "S(0)");
        WT_ALL(weft_backward(weft_sum_all(weft_square(weft_linear(x, weight, NULL, 1)))) ==
               WEFT_OK);
    }
    WT_STILL(w);
    WT_ALL(wt_near_tensors(weft_grad(weight), weft_grad(plain), WT_WITHIN(1e-13)));
    WT_ALL(wt_is_placed(weft_grad(weight), "R"));
    WT_MOVED(w, WEFT_COLL_ALL_REDUCE, 1);
    WT_ALL(weft_grad(weight) != NULL);
    WT_STILL(w);
}

/* After a reduction, further gradients are partial again and are added to the finished ones. */
WT_TEST_IN_WORLD(gradient__accumulates_after_it_was_reduced, w)
{
    weft_tensor *weight =
        weft_set_requires_grad(wt_spread(w, wt_whole(WEFT_F64, 0, 1, 3), "R"), true);
    weft_tensor *x = wt_spread(w, weft_full(WEFT_F64, (int64_t[]){7, 3}, 2, 1), "S(0)");

    for (int step = 1; step <= 3; step++) {
        WT_ALL(weft_backward(weft_sum_all(weft_mul(x, weight))) == WEFT_OK);
        WT_ALL(wt_is_all(weft_grad(weight), 7 * step));
    }
}

WT_TEST_IN_WORLD(gradients__of_several_weights_are_reduced_together, w)
{
    enum { COUNT = 5 };
    weft_tensor *x = wt_spread(w, weft_full(WEFT_F64, (int64_t[]){7, 3}, 2, 1), "S(0)");
    weft_tensor *leaves[COUNT + 2], *sum = NULL;

    for (int i = 0; i < COUNT; i++) {
        leaves[i] = weft_set_requires_grad(
            wt_spread(w, wt_whole(WEFT_F64, i, 1 + 2 * (i % 2), 3), "R"), true);
        sum = i == 0 ? weft_sum_all(weft_linear(x, leaves[0], NULL, 1))
                     : weft_add(sum, weft_sum_all(weft_linear(x, leaves[i], NULL, 1)));
    }
    leaves[COUNT] = NULL;
    leaves[COUNT + 1] = leaf(1); /* plain and without gradient: left alone */
    WT_ALL(weft_backward(sum) == WEFT_OK);
    wt_moved(w, WEFT_COLL_COUNT);
    WT_ALL(weft_reduce_gradients(leaves, COUNT + 2) == WEFT_OK);
    WT_MOVED(w, WEFT_COLL_ALL_REDUCE, 1);
    for (int i = 0; i < COUNT; i++)
        WT_ALL(wt_is_placed(weft_grad(leaves[i]), "R") && wt_is_all(weft_grad(leaves[i]), 7));
    WT_STILL(w);
    WT_ALL(weft_reduce_gradients(leaves, COUNT + 2) == WEFT_OK);
    WT_STILL(w);
}

/* One all-reduce per dtype and mesh axis. */
WT_TEST_IN_IF(gradients__are_grouped_by_dtype_and_axis, w, wt_ranks() == 4,
              wt_world_open_mesh("dp=2,tp=2"))
{
    weft_tensor *leaves[2];

    for (int i = 0; i < 2; i++) {
        weft_dtype dtype = i ? WEFT_F64 : WEFT_F32;
        weft_tensor *x = wt_spread(w, weft_full(dtype, (int64_t[]){8, 3}, 2, 1), "S(0),S(0)");

        leaves[i] = weft_set_requires_grad(wt_spread(w, wt_whole(dtype, i, 1, 3), "R,R"), true);
        WT_ALL(weft_backward(weft_sum_all(weft_mul(x, leaves[i]))) == WEFT_OK);
    }
    wt_moved(w, WEFT_COLL_COUNT);
    WT_ALL(weft_reduce_gradients(leaves, 2) == WEFT_OK);
    WT_MOVED(w, WEFT_COLL_ALL_REDUCE, 4);
    WT_ALL(wt_is_all(weft_grad(leaves[0]), 8) && wt_is_all(weft_grad(leaves[1]), 8));
}

/* A step of data parallelism is the step of one device, for a batch that splits unevenly. */
WT_TEST_TIMES_IN_WORLD(gradient__of_a_sharded_batch_equals_one_device, w, i, 3)
{
    static const int64_t rows[] = {12, 7, 2};
    weft_tensor *x = wt_whole(WEFT_F64, 2, rows[i], 5), *grads[2][3];

    for (int spread = 0; spread < 2; spread++) {
        weft_tensor *p[] = {wt_whole(WEFT_F64, 0, 4, 5), wt_whole(WEFT_F64, 1, 1, 4),
                            wt_whole(WEFT_F64, 3, 1, 4)};
        weft_tensor *in = spread ? wt_spread(w, x, "S(0)") : x, *y;

        for (int k = 0; k < 3; k++) {
            p[k] = k ? weft_reshape(p[k], (int64_t[]){4}, 1) : p[k];
            p[k] = weft_set_requires_grad(spread ? wt_spread(w, p[k], "R") : p[k], true);
        }
        y = weft_layer_norm(weft_linear(in, p[0], p[1], 1), p[2], NULL, 1e-5);
        WT_ALL(weft_backward(weft_mean_all(weft_square(weft_gelu(y)))) == WEFT_OK);
        for (int k = 0; k < 3; k++) grads[spread][k] = weft_grad(p[k]);
    }
    for (int k = 0; k < 3; k++) WT_ALL(wt_near_tensors(grads[1][k], grads[0][k], WT_WITHIN(1e-12)));
}

/* Megatron's pair: column-parallel then row-parallel needs one all-reduce each way. */
WT_TEST_IN_WORLD(tensor_parallel__mlp_needs_one_reduction_each_way, w)
{
    weft_tensor *x = weft_set_requires_grad(wt_spread(w, wt_whole(WEFT_F64, 0, 3, 6), "R"), true);
    weft_tensor *up =
        weft_set_requires_grad(wt_spread(w, wt_whole(WEFT_F64, 1, 10, 6), "S(0)"), true);
    weft_tensor *down =
        weft_set_requires_grad(wt_spread(w, wt_whole(WEFT_F64, 2, 6, 10), "S(1)"), true);
    weft_tensor *y = wt_to(weft_linear(weft_relu(weft_linear(x, up, NULL, 1)), down, NULL, 1), "R");

    WT_MOVED(w, WEFT_COLL_ALL_REDUCE, 1);
    WT_ALL(weft_backward_from(y, wt_spread(w, wt_whole(WEFT_F64, 3, 3, 6), "R")) == WEFT_OK);
    WT_ALL(wt_is_placed(weft_grad(up), "S(0)") && wt_is_placed(weft_grad(down), "S(1)"));
    WT_STILL(w);
    WT_ALL(weft_grad(x) != NULL);
    WT_MOVED(w, WEFT_COLL_ALL_REDUCE, 1);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "tape"); }
