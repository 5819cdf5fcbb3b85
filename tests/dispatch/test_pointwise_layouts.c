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

int main(int argc, char **argv) { return wt_main(argc, argv, "pointwise_layouts"); }
