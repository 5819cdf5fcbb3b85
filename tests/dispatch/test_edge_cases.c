/*
 * test_edge_cases.c: what torch gives at the edges of ops, written down here case by case: bounds
 * the wrong way round, tensors without dims, dims without elements, infinities, small integers.
 */
/* mpi: 2 4 */
#include <math.h>
#include <stdio.h>

#include "support/worlds.h"

#define NUMBERS(dtype, type, ...)                                                                  \
    weft_from_data(dtype, (int64_t[]){(int64_t)(sizeof((type[]){__VA_ARGS__}) / sizeof(type))}, 1, \
                   (type[]){__VA_ARGS__})
#define FLOATS(...) NUMBERS(WEFT_F32, float, __VA_ARGS__)
#define LONGS(...) NUMBERS(WEFT_I64, int64_t, __VA_ARGS__)
#define BYTES(...) NUMBERS(WEFT_I8, int8_t, __VA_ARGS__)

static bool is(weft_tensor *got, weft_tensor *want)
{
    return got && want && weft_tensor_dtype(got) == weft_tensor_dtype(want) &&
           wt_near_tensors(got, want, WT_WITHIN(0));
}

static weft_tensor *number(double value) { return weft_full(WEFT_F32, NULL, 0, value); }
static weft_tensor *whole_number(double value) { return weft_full(WEFT_I64, NULL, 0, value); }

/* ---- numbers ---- */

WT_TEST_IN_WORLD(clamp__gives_the_high_bound_where_it_is_below_the_low_one, w)
{
    static const weft_dtype dtypes[] = {WEFT_F32, WEFT_F64, WEFT_BF16, WEFT_F16, WEFT_I64};

    for (int i = 0; i < 5; i++) {
        weft_tensor *x = weft_cast(FLOATS(-2, 0, 1, 2, 3, 9, -7, 1), dtypes[i]);
        weft_tensor *ones = weft_full(dtypes[i], (int64_t[]){8}, 1, 1);

        WT_ALL(is(weft_clamp(x, 3, 1), ones));
        WT_ALL(is(weft_full_tensor(weft_clamp(wt_spread(w, x, "S(0)"), 3, 1)), ones));
    }
}

/* From the least to the largest element, which has no width that is a number. */
WT_TEST_IN_WORLD(histc__leaves_out_infinities, w)
{
    weft_tensor *x = FLOATS(-2, INFINITY, 1, 2, 3, 9, INFINITY, 1);
    weft_tensor *both = FLOATS(-INFINITY, 1, INFINITY, NAN);

    WT_ALL(is(weft_histc(x, 4, 0, 0), FLOATS(6, 0, 0, 0)));
    WT_ALL(is(weft_full_tensor(weft_histc(wt_spread(w, x, "S(0)"), 4, 0, 0)), FLOATS(6, 0, 0, 0)));
    WT_ALL(is(weft_histc(both, 2, -1, 1), FLOATS(0, 1)));
    WT_ALL(is(weft_histc(FLOATS(-3e38F, -1e38F, 2.9e38F), 2, -3e38, 3e38), FLOATS(2, 1)));
}

WT_TEST_IN_WORLD(pow__refuses_a_negative_power_of_integers, w)
{
    weft_tensor *x = LONGS(1, 2, 3);

    WT_FAILS(weft_pow_scalar(x, -1), WEFT_ERR_ARG, "pow: integers to the power -1");
    WT_FAILS(weft_pow_scalar_(x, -2), WEFT_ERR_ARG, "pow: integers to the power -2");
    WT_ALL(is(weft_pow_scalar(x, 2), LONGS(1, 4, 9)));
    WT_ALL(is(weft_pow_scalar(FLOATS(2, 4), -1), FLOATS(0.5, 0.25)));
}

WT_TEST_IN_WORLD(nan_to_num__leaves_integers_as_they_are, w)
{
    WT_ALL(is(weft_nan_to_num(LONGS(16777217, -3), 0, 0, 0), LONGS(16777217, -3)));
}

WT_TEST_IN_WORLD(addcmul__of_integers_with_a_fraction_is_f32, w)
{
    weft_tensor *y = weft_addcmul(LONGS(1, 2), LONGS(2, 3), LONGS(3, 5), 0.5);

    WT_ALL(is(y, FLOATS(4, 9.5)));
    WT_ALL(is(weft_addcmul(LONGS(1), LONGS(2), LONGS(3), 2), LONGS(13)));
    y = weft_cast(FLOATS(1), WEFT_F64);
    WT_ALL(is(weft_addcmul(LONGS(16777217), y, weft_cast(FLOATS(2), WEFT_F64), 0.5),
              weft_cast(LONGS(16777218), WEFT_F64)));
    y = weft_cast(FLOATS(1), WEFT_BF16);
    WT_ALL(is(weft_addcmul(LONGS(1), y, y, 0.5), weft_cast(FLOATS(1.5), WEFT_BF16)));
    y = weft_cast(LONGS(1), WEFT_I32);
    WT_ALL(
        is(weft_addcmul(weft_cast(LONGS(1), WEFT_BOOL), y, y, 1), weft_cast(LONGS(2), WEFT_I32)));
}

WT_TEST_IN_WORLD(bits__of_bool_are_their_truth, w)
{
    weft_tensor *a = weft_cast(FLOATS(0, 0, 1, 1), WEFT_BOOL),
                *b = weft_cast(FLOATS(0, 1, 0, 1), WEFT_BOOL);

    WT_ALL(is(weft_bitwise_and(a, b), weft_cast(FLOATS(0, 0, 0, 1), WEFT_BOOL)));
    WT_ALL(is(weft_bitwise_or(a, b), weft_cast(FLOATS(0, 1, 1, 1), WEFT_BOOL)));
    WT_ALL(is(weft_bitwise_xor(a, b), weft_cast(FLOATS(0, 1, 1, 0), WEFT_BOOL)));
}

/* ---- tensors without dims ---- */

WT_TEST_IN_WORLD(number__has_a_dim_0_and_a_dim_minus_1_for_ops_along_one, w)
{
    for (int dim = -1; dim < 1; dim++) {
        weft_tensor *x = wt_spread(w, number(3), "R"), *at = NULL, *zero = whole_number(0);

        WT_ALL(is(weft_full_tensor(weft_sum(x, &dim, 1, false)), number(3)));
        WT_ALL(is(weft_full_tensor(weft_mean(x, &dim, 1, true)), number(3)));
        WT_ALL(is(weft_full_tensor(weft_amax(x, &dim, 1, false)), number(3)));
        WT_ALL(is(weft_full_tensor(weft_norm(x, 2, &dim, 1, false)), number(3)));
        WT_ALL(is(weft_full_tensor(weft_var(x, &dim, 1, 0, false)), number(0)));
        WT_ALL(is(weft_full_tensor(weft_logsumexp(x, &dim, 1, false)), number(3)));
        WT_ALL(is(weft_full_tensor(weft_squeeze(x, &dim, 1)), number(3)));
        WT_ALL(is(weft_full_tensor(weft_argmax(x, dim)), zero));
        WT_ALL(is(weft_full_tensor(weft_max_with_index(x, dim, true, &at)), number(3)));
        WT_ALL(is(weft_full_tensor(at), zero));
        WT_ALL(is(weft_full_tensor(weft_softmax(x, dim)), number(1)));
        WT_ALL(is(weft_full_tensor(weft_log_softmax(x, dim)), number(0)));
        WT_ALL(is(weft_full_tensor(weft_cumsum(x, dim)), number(3)));
        WT_ALL(is(weft_full_tensor(weft_sort(x, dim, true, &at)), number(3)));
        WT_ALL(is(weft_full_tensor(at), zero));
        WT_ALL(is(weft_full_tensor(weft_argsort(x, dim, false)), zero));
        WT_ALL(is(weft_full_tensor(weft_topk(x, 1, dim, &at)), number(3)));
        WT_ALL(is(weft_full_tensor(at), zero));
        WT_ALL(is(weft_full_tensor(weft_kthvalue(x, 1, dim, false, &at)), number(3)));
        WT_ALL(is(weft_full_tensor(weft_median(x, dim, false, &at)), number(3)));
        WT_ALL(is(weft_transpose(number(3), dim, 0), number(3)));
        WT_ALL(is(weft_index_select(number(3), dim, zero), number(3)));
        WT_ALL(is(weft_index_add(number(3), dim, zero, number(4)), number(7)));
        WT_ALL(is(weft_index_copy(number(3), dim, zero, number(4)), number(4)));
        WT_ALL(is(weft_index_fill(number(3), dim, zero, 5), number(5)));
        WT_ALL(is(weft_gather(number(3), dim, zero), number(3)));
        WT_ALL(is(weft_take_along_dim(number(3), zero, dim), number(3)));
        WT_ALL(is(weft_scatter(number(3), dim, zero, number(4)), number(4)));
        WT_ALL(is(weft_scatter_add(number(3), dim, zero, number(4)), number(7)));
        WT_ALL(is(weft_scatter_value(number(3), dim, zero, 6), number(6)));
        WT_ALL(is(weft_scatter_reduce(number(3), dim, zero, number(4), WEFT_MAX, true), number(4)));
    }
    WT_ALL(is(weft_gather(number(3), 0, LONGS(0, 0)), FLOATS(3, 3)));
    WT_ALL(is(weft_gather(FLOATS(1, 2), 0, whole_number(1)), number(2)));
    WT_ALL(is(weft_index_select(FLOATS(1, 2), 0, whole_number(1)), FLOATS(2)));
    WT_ALL(is(weft_index_fill(FLOATS(1, 2), 0, whole_number(1), 5), FLOATS(1, 5)));
    WT_FAILS(weft_index_select(number(3), 0, LONGS(0, 0)), WEFT_ERR_SHAPE,
             "2 indices for a tensor");
    WT_FAILS(weft_sum(number(3), (int[]){0, -1}, 2, false), WEFT_ERR_ARG, "dim -1 of a tensor");
    WT_FAILS(weft_softmax(number(3), 1), WEFT_ERR_ARG, "dim 1 of a tensor with 0 dims");
    WT_FAILS(weft_topk(number(3), 2, 0, NULL), WEFT_ERR_ARG, "2 of 1 elements");
}

WT_TEST_IN_WORLD(number__has_gradients_of_ops_along_its_dim, w)
{
    weft_tensor *x = weft_set_requires_grad(wt_spread(w, number(3), "R"), true), *y;
    weft_tensor *zero = wt_spread(w, whole_number(0), "R");

    y = weft_mul(weft_cumsum(x, 0), weft_topk(x, 1, -1, NULL));
    y = weft_add(y, weft_mul(weft_sort(x, 0, true, NULL), weft_max_with_index(x, 0, true, NULL)));
    y = weft_add(y, weft_mul(weft_gather(x, 0, zero), weft_index_select(x, 0, zero)));
    y = weft_add(y, weft_mul(weft_scatter_add(x, 0, zero, x), weft_softmax(x, 0)));
    WT_EQ(weft_backward(y), WEFT_OK);
    WT_ALL(is(weft_full_tensor(weft_grad(x)), number(20)));
}

/* ---- dims without elements ---- */

WT_TEST_IN_WORLD(extremes__of_nothing_are_refused, w)
{
    weft_tensor *x = weft_full(WEFT_F32, (int64_t[]){3, 0}, 2, 0);
    weft_tensor *none = weft_full(WEFT_F32, (int64_t[]){0, 0}, 2, 0);
    int one = 1, zero = 0;

    WT_FAILS(weft_amax(x, &one, 1, false), WEFT_ERR_SHAPE, "amax: there is no element");
    WT_FAILS(weft_amin(x, NULL, 0, true), WEFT_ERR_SHAPE, "amin: there is no element");
    WT_FAILS(weft_norm(x, INFINITY, &one, 1, false), WEFT_ERR_SHAPE, "norm: there is no element");
    WT_FAILS(weft_amax(none, &zero, 1, false), WEFT_ERR_SHAPE, "amax: there is no element");
    WT_FAILS(weft_argmax(none, 0), WEFT_ERR_SHAPE, "argmax: there is no element");
    WT_EQ(weft_numel(weft_amax(x, &zero, 1, false)), 0);
    WT_ALL(is(weft_norm(x, 2, &one, 1, false), FLOATS(0, 0, 0)));
}

WT_TEST_IN_WORLD(cat__takes_several_dtypes_and_empty_lists, w)
{
    weft_tensor *none = weft_full(WEFT_F32, (int64_t[]){0}, 1, 0);
    weft_tensor *rows = weft_cast(weft_full(WEFT_F32, (int64_t[]){2, 3}, 2, 1), WEFT_F64);
    weft_tensor *x[] = {LONGS(1, 2), FLOATS(0.5)}, *y[] = {none, rows, rows};
    weft_tensor *z[] = {wt_spread(w, rows, "S(0)"),
                        wt_spread(w, weft_cast(rows, WEFT_F32), "S(1)")};

    WT_ALL(is(weft_cat(x, 2, 0), FLOATS(1, 2, 0.5)));
    WT_ALL(is(weft_cat(y, 3, 0), weft_full(WEFT_F64, (int64_t[]){4, 3}, 2, 1)));
    WT_ALL(is(weft_cat(y, 3, 1), weft_full(WEFT_F64, (int64_t[]){2, 6}, 2, 1)));
    WT_ALL(is(weft_full_tensor(weft_cat(z, 2, 0)), weft_full(WEFT_F64, (int64_t[]){4, 3}, 2, 1)));
    y[2] = weft_full(WEFT_F64, (int64_t[]){0, 4}, 2, 0);
    WT_FAILS(weft_cat(y, 3, 0), WEFT_ERR_SHAPE, "cat: ");
}

/* ---- orders ---- */

WT_TEST_IN_WORLD(roll_and_flip__take_no_dims, w)
{
    weft_tensor *x = weft_reshape(FLOATS(1, 2, 3, 4, 5, 6), (int64_t[]){2, 3}, 2);
    weft_tensor *turned = weft_reshape(FLOATS(5, 6, 1, 2, 3, 4), (int64_t[]){2, 3}, 2);

    WT_ALL(is(weft_roll(x, (int64_t[]){2}, NULL, 1), turned));
    WT_ALL(
        is(weft_full_tensor(weft_roll(wt_spread(w, x, "S(1)"), (int64_t[]){2}, NULL, 1)), turned));
    WT_ALL(is(weft_flip(x, NULL, 0), x) && weft_flip(x, NULL, 0) != x);
    turned = weft_reshape(x, (int64_t[]){1, 6}, 2);
    WT_ALL(weft_data(weft_flip(turned, (int[]){0}, 1)) != weft_data(x));
    WT_ALL(weft_data(weft_roll(x, (int64_t[]){6}, NULL, 1)) != weft_data(x));
    WT_ALL(weft_data(weft_roll(x, (int64_t[]){3}, (int[]){1}, 1)) != weft_data(x));
    WT_FAILS(weft_roll(x, (int64_t[]){1, 2}, NULL, 2), WEFT_ERR_ARG, "2 shifts, but no dims");
}

WT_TEST_IN_WORLD(topk__takes_small_integers, w)
{
    weft_tensor *x = BYTES(3, -5, 100, 7), *at;

    WT_ALL(is(weft_topk(x, 2, 0, &at), BYTES(100, 7)));
    WT_ALL(is(at, LONGS(2, 3)));
    WT_ALL(is(weft_full_tensor(weft_topk(wt_spread(w, x, "S(0)"), 2, 0, &at)), BYTES(100, 7)));
    WT_ALL(is(weft_full_tensor(at), LONGS(2, 3)));
}

WT_TEST_IN_WORLD(one_hot__counts_the_classes_of_the_whole_tensor, w)
{
    weft_tensor *index = LONGS(0, 2, 1, 0, 3);
    weft_tensor *all = weft_one_hot(index, 4), *none = weft_full(WEFT_I64, (int64_t[]){0}, 1, 0);

    WT_ALL(is(weft_one_hot(index, -1), all));
    WT_ALL(is(weft_full_tensor(weft_one_hot(wt_spread(w, index, "S(0)"), -1)), all));
    WT_FAILS(weft_one_hot(none, -1), WEFT_ERR_ARG, "no class is in the index");
    WT_FAILS(weft_one_hot(index, -2), WEFT_ERR_ARG, "-2 classes");
}

/* ---- infinities, and gradients at the edges ---- */

WT_TEST_IN_WORLD(softmax__with_an_infinity_is_not_a_number_wherever_the_dim_lies, w)
{
    weft_tensor *x = FLOATS(INFINITY, 1, 2, 3, -INFINITY), *none = FLOATS(NAN, NAN, NAN, NAN, NAN);
    weft_tensor *lowest = weft_full(WEFT_F32, (int64_t[]){5}, 1, -INFINITY);

    for (int i = 0; i < 2; i++) {
        weft_tensor *spread = wt_spread(w, i ? lowest : x, "S(0)");

        WT_ALL(is(weft_full_tensor(weft_softmax(spread, 0)), none));
        WT_ALL(is(weft_full_tensor(weft_log_softmax(spread, 0)), none));
        WT_ALL(is(weft_softmax(i ? lowest : x, 0), none));
    }
}

WT_TEST_IN_WORLD(std__has_gradient_0_where_nothing_varies, w)
{
    weft_tensor *x = weft_set_requires_grad(
        wt_spread(w, weft_reshape(FLOATS(2, 2, 2, 1, 2, 3), (int64_t[]){2, 3}, 2), "S(1)"), true);
    int one = 1;

    WT_EQ(weft_backward(weft_sum_all(weft_std(x, &one, 1, 1, false))), WEFT_OK);
    WT_ALL(wt_near_tensors(weft_full_tensor(weft_grad(x)),
                           weft_reshape(FLOATS(0, 0, 0, -0.5, 0, 0.5), (int64_t[]){2, 3}, 2),
                           WT_WITHIN(1e-6)));
}

WT_TEST_IN_WORLD(bernoulli__has_gradient_0, w)
{
    weft_tensor *p = weft_set_requires_grad(wt_spread(w, wt_constant(4, 3, 0.5), "S(0)"), true);

    WT_EQ(weft_backward(weft_sum_all(weft_bernoulli(p, NULL))), WEFT_OK);
    WT_ALL(wt_is_all(weft_grad(p), 0));
}

WT_TEST_IN_WORLD(binary_cross_entropy__wants_a_target_of_its_shape, w)
{
    weft_tensor *z = wt_constant(3, 4, 0.5), *target = FLOATS(0, 1, 0, 1);

    WT_FAILS(weft_binary_cross_entropy_with_logits(z, target, (weft_loss_options){0}),
             WEFT_ERR_SHAPE, "needs a target of the same shape");
}

/* ---- partial values ---- */

/* A norm's terms have no sign, so nothing else may become one. */
WT_TEST_IN_WORLD(stack__of_a_partial_norm_and_a_negative_number_keeps_the_sign, w)
{
    weft_tensor *x = wt_spread(w, wt_whole(WEFT_F32, 0, 8, 3), "S(0)");
    weft_tensor *norm = weft_norm(x, 2, NULL, 0, false), *whole = weft_full_tensor(norm);
    weft_tensor *minus = wt_spread(w, number(-3), "R"), *sum;
    weft_tensor *y[] = {norm, minus}, *want[] = {whole, number(-3)};

    WT_ALL(wt_near_tensors(weft_full_tensor(weft_stack(y, 2, 0)), weft_stack(want, 2, 0),
                           WT_WITHIN(1e-5)));
    sum = weft_sum_all(weft_neg(weft_abs(x)));
    y[1] = sum, want[1] = weft_full_tensor(sum);
    for (int i = 0; i < 2; i++) {
        weft_tensor *first = y[0], *want_first = want[0];

        WT_ALL(wt_near_tensors(weft_full_tensor(weft_stack(y, 2, 0)), weft_stack(want, 2, 0),
                               WT_WITHIN(1e-5)));
        y[0] = y[1], y[1] = first;
        want[0] = want[1], want[1] = want_first;
    }
}

WT_TEST_IN_WORLD(guard__sees_partial_operands_of_ops_made_of_ops, w)
{
    weft_tensor *x = wt_partial(w, wt_constant(4, 3, 0.5), WEFT_SUM), *at;

    if (wt_ranks() == 1) return;
    weft_guard_open(WEFT_GUARD_ERROR);
    WT_FAILS(weft_var(x, NULL, 0, 1, false), WEFT_ERR_LAYOUT, "Implicit redistribution: var");
    WT_FAILS(weft_logsumexp(x, NULL, 0, false), WEFT_ERR_LAYOUT, "Implicit redistribution");
    WT_FAILS(weft_argmax(x, 0), WEFT_ERR_LAYOUT, "Implicit redistribution: argmax");
    WT_FAILS(weft_max_with_index(x, 0, false, &at), WEFT_ERR_LAYOUT, "Implicit redistribution");
    WT_FAILS(weft_histc(x, 4, 0, 1), WEFT_ERR_LAYOUT, "Implicit redistribution: histc");
    WT_FAILS(weft_batch_norm(x, NULL, NULL, 1e-5, (weft_batch_norm_options){.training = true}),
             WEFT_ERR_LAYOUT, "Implicit redistribution: batch_norm");
    WT_STILL(w);
    WT_ALL(weft_guard_close() == WEFT_OK);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "edge_cases"); }
