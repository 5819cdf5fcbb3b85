/*
 * test_pointwise_layouts.c: which layout pointwise ops give, what they send, and the values of one
 * device: shards that are even, uneven and empty, partial sums, operands that broadcast.
 */
/* mpi: 2 4 */
#include <math.h>

#include "support/worlds.h"

/* The whole result is what plain operands give. */
#define IS_LIKE_PLAIN(got, plain) WT_ALL(wt_near_tensors((got), (plain), WT_WITHIN(1e-6)))

static weft_tensor *partial_of(struct wt_world *w, double value, weft_reduce reduce)
{
    return wt_partial(w, weft_full(WEFT_F32, (int64_t[]){2, 2}, 2, value), reduce);
}

/* PW-01 */
WT_TEST_IN_WORLD(sum_of_partial_sums__stays_partial, w)
{
    weft_tensor *y = weft_add(partial_of(w, 1, WEFT_SUM), partial_of(w, 2, WEFT_SUM));

    WT_STILL(w);
    WT_ALL(wt_is_placed(y, "P"));
    WT_ALL(wt_is_all(y, 3 * weft_world_size()));
}

typedef weft_tensor *unary(weft_tensor *x);

/* PW-03, PW-22: rows that do not divide, columns, and whole copies */
WT_TEST_IN_WORLD(unary__keeps_the_layout, w)
{
    static unary *const ops[] = {weft_gelu, weft_relu, weft_sigmoid, weft_abs, weft_sin, weft_erf};
    static const char *const layouts[] = {"S(0)", "S(1)", "R"};
    static const int64_t shapes[][2] = {{8, 5}, {3, 12}, {5, 3}, {1, 1}};

    for (int k = 0; k < 6 * 3 * 4; k++) {
        weft_tensor *x = wt_whole(WEFT_F32, 0, shapes[k % 4][0], shapes[k % 4][1]), *y;

        wt_note("case %d", k);
        y = ops[k / 12](wt_spread(w, x, layouts[k / 4 % 3]));
        WT_STILL(w);
        WT_ALL(wt_is_placed(y, layouts[k / 4 % 3]));
        IS_LIKE_PLAIN(y, ops[k / 12](x));
        weft_ledger_reset(w->ledger);
    }
}

/* PW-08, PW-12: by a number, a tensor of one element, a whole copy; sums and averages */
WT_TEST_IN_WORLD(partial__is_scaled_as_it_is, w)
{
    int ranks = weft_world_size();

    for (int k = 0; k < 2; k++) {
        weft_reduce reduce = k ? WEFT_AVG : WEFT_SUM;
        double times = k ? 1 : ranks;
        weft_tensor *p = wt_partial(w, wt_constant(8, 8, 1), reduce), *y[4];

        y[0] = weft_mul_scalar(p, 2);
        y[1] = weft_mul(p, weft_full(WEFT_F32, NULL, 0, 2));
        y[2] = weft_mul(p, wt_spread(w, wt_constant(8, 8, 2), "R"));
        y[3] = weft_div(p, weft_full(WEFT_F32, NULL, 0, 0.5));
        WT_STILL(w);
        for (int i = 0; i < 4; i++) {
            wt_note("%s, form %d", k ? "avg" : "sum", i);
            WT_ALL(weft_is_partial(weft_tensor_placement(y[i], 0)));
            WT_ALL(wt_is_all(y[i], 2 * times));
        }
        weft_ledger_reset(w->ledger);
    }
}

/* The terms 1, -1, 1, ... of the ranks. */
static weft_tensor *alternating(struct wt_world *w)
{
    const weft_placement sums = weft_partial(WEFT_SUM);
    double term = weft_world_rank() % 2 ? -1 : 1;

    return weft_from_local(weft_full(WEFT_F32, (int64_t[]){2}, 1, term), w->mesh, &sums, NULL);
}

/* PW-18, PW-19 */
WT_TEST_IN_WORLD(what_is_not_linear__sums_first, w)
{
    double sum = weft_world_size() % 2;
    weft_tensor *zero = wt_partial(w, weft_full(WEFT_F32, (int64_t[]){2}, 1, 0), WEFT_SUM);

    WT_ALL(wt_is_all(weft_maximum(alternating(w), zero), sum));
    WT_ALL(wt_is_all(weft_relu(alternating(w)), sum));
    WT_ALL(wt_is_all(weft_abs(alternating(w)), sum));
    WT_ALL(wt_is_all(weft_neg(weft_relu(alternating(w))), -sum));
    weft_ledger_reset(w->ledger);
    WT_ALL(wt_is_placed(weft_neg(alternating(w)), "P"));
    WT_STILL(w);
    (void)weft_relu(alternating(w));
    if (weft_world_size() > 1) WT_EQ(wt_moved(w, WEFT_COLL_COUNT), 1); /* to shards or to all */
}

/* PW-20 */
WT_TEST_IN_WORLD(operands_of_two_layouts__move_one, w)
{
    static const char *const layouts[][2] = {{"S(0)", "S(0)"}, {"R", "S(0)"}, {"S(0)", "S(1)"}};
    weft_tensor *a = wt_whole(WEFT_F32, 0, 8, 8), *b = wt_whole(WEFT_F32, 1, 8, 8);

    for (int k = 0; k < 3; k++) {
        weft_tensor *y;

        wt_note("%s + %s", layouts[k][0], layouts[k][1]);
        y = weft_add(wt_spread(w, a, layouts[k][0]), wt_spread(w, b, layouts[k][1]));
        if (k < 2) WT_STILL(w);
        if (k < 2) WT_ALL(wt_is_placed(y, "S(0)"));
        if (k == 2 && weft_world_size() > 1) WT_MOVED(w, WEFT_COLL_ALL_TO_ALL, 1);
        IS_LIKE_PLAIN(y, weft_add(a, b));
        weft_ledger_reset(w->ledger);
    }
}

/* PW-21 */
WT_TEST_IN_WORLD(operands_that_broadcast__are_aligned_at_the_last_dim, w)
{
    weft_tensor *column = wt_whole(WEFT_F32, 0, 8, 1), *square = wt_whole(WEFT_F32, 1, 8, 8);
    weft_tensor *row = weft_reshape(wt_whole(WEFT_F32, 2, 1, 8), (int64_t[]){8}, 1);
    weft_tensor *flat = wt_whole(WEFT_F32, 3, 4, 8);

    IS_LIKE_PLAIN(weft_add(wt_spread(w, column, "S(0)"), wt_spread(w, square, "S(1)")),
                  weft_add(column, square));
    IS_LIKE_PLAIN(weft_add(wt_spread(w, row, "S(0)"), wt_spread(w, flat, "S(0)")),
                  weft_add(row, flat));
}

/* PW-23 */
WT_TEST_IN_WORLD(where__takes_integers, w)
{
    static const char *const layouts[] = {"S(0)", "R"};
    weft_tensor *x = wt_whole(WEFT_F32, 0, 12, 8), *zero = weft_full(WEFT_F32, NULL, 0, 0);
    weft_tensor *numbers[] = {weft_full(WEFT_I64, NULL, 0, 1), weft_full(WEFT_I64, NULL, 0, 0)};
    weft_tensor *want = weft_where(weft_gt(x, zero), numbers[0], numbers[1]);

    for (int k = 0; k < 2; k++) {
        weft_tensor *y =
            weft_where(weft_gt(wt_spread(w, x, layouts[k]), zero), numbers[0], numbers[1]);

        WT_ALL(weft_tensor_dtype(y) == WEFT_I64);
        IS_LIKE_PLAIN(y, want);
    }
}

/* PW-24: the condition's shards decide */
WT_TEST_IN_WORLD(where__of_single_numbers_is_sharded_as_the_condition, w)
{
    weft_tensor *x = weft_reshape(wt_whole(WEFT_F32, 0, 1, 8), (int64_t[]){8}, 1);
    weft_tensor *zero = weft_full(WEFT_F32, NULL, 0, 0), *one = weft_full(WEFT_F32, NULL, 0, 1);
    weft_tensor *two = wt_constant(1, 1, 2);
    weft_tensor *y = weft_where(weft_gt(wt_spread(w, x, "S(0)"), zero), one, two);

    WT_ALL(wt_has_shape(y, 2, (int64_t)1, (int64_t)8));
    WT_ALL(wt_is_placed(y, "S(1)"));
    WT_STILL(w);
    IS_LIKE_PLAIN(y, weft_where(weft_gt(x, zero), one, two));
}

/* PW-26: sharded over two axes in two ways */
WT_TEST_IN(dims_that_are_sharded_two_ways__are_brought_together, w, wt_world_open_two_axes())
{
    weft_tensor *a = wt_whole(WEFT_F32, 0, 8, 6), *b = wt_whole(WEFT_F32, 1, 8, 6);

    IS_LIKE_PLAIN(weft_mul(wt_spread(w, a, "S(0),R"), wt_spread(w, b, "R,S(0)")), weft_mul(a, b));
}

/* The terms a + b r of rank r, in every element. */
static weft_tensor *terms(struct wt_world *w, weft_reduce reduce, double a, double b)
{
    const weft_placement p = weft_partial(reduce);
    double term = a + b * weft_world_rank();

    return weft_from_local(weft_full(WEFT_F32, (int64_t[]){5, 3}, 2, term), w->mesh, &p, NULL);
}

/* PW-16: maxima of maxima, minima of minima; a whole operand counts in each term */
WT_TEST_IN_WORLD(maxima__of_partial_maxima_stay_partial, w)
{
    int last = weft_world_size() - 1;
    weft_tensor *y = weft_maximum(terms(w, WEFT_MAX, 1, 1), terms(w, WEFT_MAX, 2.5, -1)), *z;

    WT_STILL(w);
    WT_ALL(wt_is_placed(y, "P(max)"));
    z = weft_minimum(terms(w, WEFT_MIN, 1, 1), terms(w, WEFT_MIN, 2.5, -1));
    WT_STILL(w);
    WT_ALL(wt_is_placed(z, "P(min)"));
    WT_ALL(wt_is_all(y, fmax(1 + last, 2.5)) && wt_is_all(z, fmin(1, 2.5 - last)));
    weft_ledger_reset(w->ledger);
    y = weft_maximum(terms(w, WEFT_MAX, 1, 1), wt_spread(w, wt_whole(WEFT_F32, 0, 5, 3), "R"));
    WT_STILL(w);
    WT_ALL(wt_is_placed(y, "P(max)"));
    WT_ALL(wt_is_all(y, 1 + last));
    /* the least of maxima is no maximum of least ones */
    WT_ALL(wt_is_all(weft_minimum(terms(w, WEFT_MAX, 1, 1), terms(w, WEFT_MAX, 2.5, -1)),
                     fmin(1 + last, 2.5)));
    WT_ALL(wt_is_all(weft_maximum(terms(w, WEFT_MIN, 1, 1), terms(w, WEFT_MIN, 2.5, -1)),
                     fmax(1, 2.5 - last)));
}

/* What rises passes maxima and minima, what does not reduces them. */
WT_TEST_IN_WORLD(maxima__pass_what_rises, w)
{
    static unary *const rise[] = {weft_relu, weft_exp, weft_floor, weft_tanh, weft_selu};
    static unary *const others[] = {weft_abs, weft_neg, weft_square, weft_silu};
    int last = weft_world_size() - 1;
    weft_tensor *x = wt_constant(5, 3, -1.75 + last), *y;

    for (int k = 0; k < 5; k++) {
        y = rise[k](terms(w, WEFT_MAX, -1.75, 1));
        WT_STILL(w);
        WT_ALL(wt_is_placed(y, "P(max)"));
        IS_LIKE_PLAIN(y, rise[k](x));
        weft_ledger_reset(w->ledger);
    }
    y = weft_add_scalar(weft_clamp(terms(w, WEFT_MIN, -1.75, 1), -0.5, 0.5), 3);
    WT_STILL(w);
    WT_ALL(wt_is_placed(y, "P(min)"));
    WT_ALL(wt_is_all(y, 2.5));
    for (int k = 0; k < 4; k++)
        IS_LIKE_PLAIN(others[k](terms(w, WEFT_MAX, -1.75, 1)), others[k](x));
    y = wt_partial(w, wt_constant(2, 2, 1), WEFT_SUM);
    WT_ALL(wt_is_all(weft_exp(weft_mul_scalar(y, 0)), 1));
}

/* PW-15: [1, 1, 7, 7] in shards, and the norm of other vectors */
WT_TEST_IN_WORLD(norm__of_shards_is_finished_before_a_number_is_added, w)
{
    for (int n = 4; n <= 9; n += 5) {
        const weft_placement norms = weft_norm_partial(2);
        weft_tensor *x = weft_empty(WEFT_F32, (int64_t[]){n}, 1), *shard, *norm, *y;
        double want = 0, own = 0;

        for (int i = 0; i < n; i++) {
            float value = n == 4 ? (i < 2 ? 1 : 7) : (float)(i - 3);

            ((float *)weft_data(x))[i] = value;
            want += value * value;
        }
        want = sqrt(want);
        shard = wt_spread(w, x, "S(0)");
        for (int64_t i = 0; i < weft_local_numel(shard); i++) {
            double value = ((const float *)weft_data(shard))[i];

            own += value * value;
        }
        norm = weft_from_local(weft_full(WEFT_F32, NULL, 0, sqrt(own)), w->mesh, &norms, NULL);
        y = weft_add_scalar(norm, 1);
        WT_ALL(wt_is_placed(y, "R"));
        IS_LIKE_PLAIN(norm, weft_full(WEFT_F32, NULL, 0, want));
        IS_LIKE_PLAIN(y, weft_full(WEFT_F32, NULL, 0, want + 1));
        y = weft_sub_scalar(norm, 1);
        WT_ALL(wt_is_placed(y, "R"));
        IS_LIKE_PLAIN(y, weft_full(WEFT_F32, NULL, 0, want - 1));
    }
}

/* PW-04: the gradient of a dropout whose mask is given, and rows that do not divide */
WT_TEST_IN_WORLD(dropout__gradient_of_a_given_mask, w)
{
    static const int64_t rows[] = {8, 5};

    for (int k = 0; k < 2; k++) {
        weft_tensor *grad = wt_whole(WEFT_F32, 0, rows[k], 5);
        weft_tensor *mask =
            weft_gt(wt_whole(WEFT_F32, 1, rows[k], 5), weft_full(WEFT_F32, NULL, 0, 0));
        weft_tensor *y =
            weft_mul_scalar(weft_mul(wt_spread(w, grad, "S(0)"), wt_spread(w, mask, "S(0)")), 0.3);

        WT_STILL(w);
        WT_ALL(wt_is_placed(y, "S(0)"));
        IS_LIKE_PLAIN(y, weft_mul_scalar(weft_where_scalar(mask, grad, 0), 0.3));
        weft_ledger_reset(w->ledger);
    }
}

/* MATH-06, and sizes that do not divide */
WT_TEST_IN(arithmetic__of_numbers_on_two_axes, w, wt_world_open_two_axes())
{
    static const char *const layouts[] = {"S(0),S(0)", "S(0),S(1)"};
    static const int64_t sizes[] = {4, 5};

    for (int k = 0; k < 4; k++) {
        weft_tensor *x = wt_spread(w, wt_constant(sizes[k / 2], 4, 1), layouts[k % 2]);
        weft_tensor *two = weft_full(WEFT_F32, NULL, 0, 2);

        WT_ALL(wt_is_all(weft_add(x, two), 3) && wt_is_all(weft_add_scalar(x, 2), 3));
        WT_ALL(wt_is_all(weft_sub(x, two), -1) && wt_is_all(weft_sub_scalar(x, 2), -1));
        WT_ALL(wt_is_all(weft_mul(x, two), 2) && wt_is_all(weft_mul_scalar(x, 2), 2));
        WT_ALL(wt_is_all(weft_div(x, two), 0.5) && wt_is_all(weft_div_scalar(x, 2), 0.5));
    }
}

/* What is made of other ops, beside loops. */
WT_TEST_IN_WORLD(composites__are_what_their_names_say, w)
{
    weft_tensor *x = wt_whole(WEFT_F32, 0, 5, 6), *s = wt_spread(w, x, "S(0)"), *y;
    const float *from = weft_data(x);
    weft_tensor *glu = weft_empty(WEFT_F32, (int64_t[]){5, 3}, 2), *low = wt_constant(1, 6, -0.25);
    weft_tensor *near = weft_empty(WEFT_BOOL, (int64_t[]){5, 6}, 2), *high = wt_constant(5, 1, 0.5);
    weft_tensor *close, *clamped = weft_mul_scalar(x, 1);

    for (int r = 0; r < 5; r++)
        for (int c = 0; c < 3; c++)
            ((float *)weft_data(glu))[3 * r + c] =
                from[6 * r + c] / (1 + expf(-from[6 * r + c + 3]));
    IS_LIKE_PLAIN(weft_glu(s, -1), glu);
    IS_LIKE_PLAIN(weft_glu(wt_spread(w, x, "S(1)"), 1), glu);
    WT_FAILS(weft_glu(s, 0), WEFT_ERR_SHAPE, "no halves");
    for (int i = 0; i < 30; i++) {
        float *v = (float *)weft_data(clamped) + i;

        ((uint8_t *)weft_data(near))[i] = fabsf(from[i] - 0.5f) <= 0.25f + 0.125f * 0.5f;
        *v = fminf(fmaxf(*v, -0.25f), 0.5f);
    }
    close = weft_isclose(s, wt_spread(w, high, "R"), 0.125, 0.25, false);
    WT_ALL(weft_tensor_dtype(close) == WEFT_BOOL && wt_near_tensors(close, near, WT_EXACT));
    IS_LIKE_PLAIN(weft_clamp_tensor(s, wt_spread(w, low, "R"), wt_spread(w, high, "S(0)")),
                  clamped);
    IS_LIKE_PLAIN(weft_hardtanh(s, -0.25, 0.5), clamped);
    y = weft_isclose(weft_full(WEFT_F32, NULL, 0, INFINITY), weft_full(WEFT_F32, NULL, 0, 1), 1, 1,
                     true);
    WT_ALL(wt_is_all(y, 0));
    y = weft_isclose(weft_full(WEFT_F32, NULL, 0, NAN), weft_full(WEFT_F32, NULL, 0, NAN), 1, 1,
                     true);
    WT_ALL(wt_is_all(y, 1));
    WT_ALL(wt_is_all(weft_relu6(wt_constant(2, 2, 9)), 6));
}

int main(int argc, char **argv) { return wt_main(argc, argv, "pointwise_layouts"); }
