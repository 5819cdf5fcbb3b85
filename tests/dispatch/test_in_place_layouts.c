/*
 * test_in_place_layouts.c: ops in place and copies into tensors that there are: the target keeps
 * object, layout and dtype, other operands are brought to it, and what cannot be is refused before
 * anything is sent or changed.
 */
/* mpi: 2 4 */
#include <math.h>
#include <string.h>

#include "support/worlds.h"

static weft_tensor *scalar(double value) { return weft_full(WEFT_F32, NULL, 0, value); }

/* TEN-07: with numbers */
WT_TEST_IN_WORLD(in_place__numbers_keep_object_and_layout, w)
{
    static const int64_t rows[] = {8, 5, 1};
    static const char *const layouts[] = {"S(0)", "S(1)", "R"};

    for (int k = 0; k < 9; k++) {
        weft_tensor *x = wt_whole(WEFT_F32, 0, rows[k / 3], 6);
        weft_tensor *t = wt_spread(w, x, layouts[k % 3]);

        WT_ALL(weft_add_scalar_(t, 3) == t && weft_mul_scalar_(t, 3) == t);
        WT_ALL(weft_sub_scalar_(t, 1) == t && weft_div_scalar_(t, 2) == t);
        WT_STILL(w);
        WT_ALL(wt_is_placed(t, layouts[k % 3]));
        weft_ledger_reset(w->ledger);
        x = weft_div_scalar(weft_add_scalar(weft_mul_scalar(weft_add_scalar(x, 3), 3), -1), 2);
        WT_ALL(wt_near_tensors(t, x, WT_EXACT));
        weft_ledger_reset(w->ledger);
    }
}

/* TEN-07: a partial operand is reduce-scattered */
WT_TEST_IN_WORLD(in_place__a_partial_operand_goes_into_a_shard, w)
{
    static const int64_t rows[] = {8, 5};
    int ranks = weft_world_size();

    for (int k = 0; k < 2; k++) {
        weft_tensor *x = wt_whole(WEFT_F32, 0, rows[k], 4), *t = wt_spread(w, x, "S(0)");
        weft_tensor *terms =
            wt_partial(w, weft_full(WEFT_F32, (int64_t[]){rows[k], 4}, 2, 2), WEFT_SUM);

        WT_ALL(weft_add_(t, terms) == t);
        WT_MOVED(w, WEFT_COLL_REDUCE_SCATTER, 1);
        WT_ALL(wt_is_placed(t, "S(0)"));
        WT_ALL(wt_near_tensors(t, weft_add_scalar(x, 2 * ranks), WT_WITHIN(1e-6)));
        weft_ledger_reset(w->ledger);
    }
}

/* Whatever the operand's layout, the target's stays. */
WT_TEST_IN_WORLD(in_place__operands_of_any_layout, w)
{
    static const char *const layouts[] = {"S(0)", "S(1)", "R"};
    weft_tensor *a = wt_whole(WEFT_F32, 0, 6, 5), *b = wt_whole(WEFT_F32, 1, 6, 5), *both[3];

    for (int k = 0; k < 9; k++) {
        weft_tensor *t = wt_spread(w, a, layouts[k / 3]);

        wt_note("%s in %s", layouts[k % 3], layouts[k / 3]);
        both[0] = weft_mul_(t, wt_spread(w, b, layouts[k % 3]));
        WT_ALL(both[0] == t && wt_is_placed(t, layouts[k / 3]));
        WT_ALL(wt_near_tensors(t, weft_mul(a, b), WT_EXACT));
        t = wt_spread(w, a, layouts[k / 3]);
        WT_ALL(weft_addcmul_(t, wt_spread(w, b, layouts[k % 3]), wt_spread(w, a, "R"), 0.5) == t);
        WT_ALL(wt_is_placed(t, layouts[k / 3]));
        WT_ALL(wt_near_tensors(t, weft_addcmul(a, b, a, 0.5), WT_WITHIN(1e-6)));
    }
    (void)wt_moved(w, WEFT_COLL_COUNT);
}

/* The same over two axes, where only a later one may be sharded. */
WT_TEST_IN(in_place__on_two_axes, w, wt_world_open_two_axes())
{
    static const char *const layouts[] = {"R,S(0)", "R,S(1)", "S(0),R", "S(1),S(0)", "R,R"};
    weft_tensor *a = wt_whole(WEFT_F32, 0, 6, 5), *b = wt_whole(WEFT_F32, 1, 6, 5);

    for (int k = 0; k < 25; k++) {
        weft_tensor *t = wt_spread(w, a, layouts[k / 5]);

        wt_note("%s in %s", layouts[k % 5], layouts[k / 5]);
        WT_ALL(weft_add_scalar_(t, 3) == t);
        WT_ALL(weft_mul_(t, wt_spread(w, b, layouts[k % 5])) == t);
        WT_ALL(wt_is_placed(t, layouts[k / 5]));
        WT_ALL(wt_near_tensors(t, weft_mul(weft_add_scalar(a, 3), b), WT_EXACT));
        WT_EQ(weft_copy_(t, wt_spread(w, b, layouts[k % 5])), WEFT_OK);
        WT_ALL(wt_is_placed(t, layouts[k / 5]));
        WT_ALL(wt_near_tensors(t, b, WT_EXACT));
    }
    (void)wt_moved(w, WEFT_COLL_COUNT);
}

/* A partial target stays partial under what is linear in it. */
WT_TEST_IN_WORLD(in_place__a_partial_target_takes_a_whole_addend_once, w)
{
    int ranks = weft_world_size();
    weft_tensor *t = wt_partial(w, wt_constant(3, 4, 2), WEFT_SUM);

    WT_ALL(weft_add_(t, wt_spread(w, wt_constant(3, 4, 5), "R")) == t);
    WT_ALL(weft_mul_scalar_(t, 2) == t &&
           weft_sub_(t, wt_partial(w, wt_constant(3, 4, 1), WEFT_SUM)) == t);
    WT_STILL(w);
    WT_ALL(wt_is_placed(t, "P"));
    WT_ALL(wt_is_all(t, 2 * (2 * ranks + 5) - ranks));
}

/* PW-11 */
WT_TEST_IN_WORLD(in_place__what_needs_another_placement_is_refused, w)
{
    const char *text = "in-place operations that require placement changes are not supported";
    const weft_placement sums = weft_partial(WEFT_SUM);
    weft_tensor *number = weft_from_local(scalar(4), w->mesh, &sums, NULL);
    weft_tensor *t = wt_partial(w, wt_constant(3, 4, 2), WEFT_SUM), *row;
    int64_t before = weft_tensor_version(number);

    WT_FAILS(weft_clamp_(number, -1e9, 10), WEFT_ERR_LAYOUT, text);
    WT_FAILS(weft_clamp_max_(number, 10), WEFT_ERR_LAYOUT, text);
    WT_FAILS(weft_square_(t), WEFT_ERR_LAYOUT, text);
    WT_FAILS(weft_add_scalar_(t, 1), WEFT_ERR_LAYOUT, text);
    WT_STILL(w);
    WT_ALL(weft_tensor_version(number) == before);
    WT_ALL(wt_is_all(number, 4 * weft_world_size()));
    WT_ALL(wt_is_all(t, 2 * weft_world_size()));
    row = wt_spread(w, wt_constant(1, 4, 1), "R");
    weft_ledger_reset(w->ledger);
    WT_FAILS(weft_add_(row, wt_spread(w, wt_constant(8, 4, 1), "S(0)")), WEFT_ERR_SHAPE,
             "in place: the result would have another shape");
    WT_STILL(w);
}

/* PW-10: x = 0 .. 39, x > 20; R, x - 20 < 0; columns, even values; and rows that do not divide */
WT_TEST_IN_WORLD(masked_fill__in_place_and_not, w)
{
    static const struct {
        const char *layout;
        int64_t rows, columns;
        double fill;
    } cases[] = {{"S(0)", 8, 5, -999}, {"R", 8, 5, 42}, {"S(1)", 4, 12, 0}, {"S(0)", 5, 3, 7}};

    for (int k = 0; k < 4; k++) {
        int64_t n = cases[k].rows * cases[k].columns;
        weft_tensor *x = weft_empty(WEFT_F32, (int64_t[]){cases[k].rows, cases[k].columns}, 2);
        weft_tensor *mask, *t, *want;

        for (int64_t i = 0; i < n; i++) ((float *)weft_data(x))[i] = (float)i;
        t = wt_spread(w, x, cases[k].layout);
        want = weft_mul_scalar(x, 1);
        for (int64_t i = 0; i < n; i++)
            if (k == 1 ? i - 20 < 0 : k == 2 ? i % 2 == 0 : i > 20)
                ((float *)weft_data(want))[i] = (float)cases[k].fill;
        mask = k == 1   ? weft_lt(weft_sub_scalar(t, 20), scalar(0))
               : k == 2 ? weft_eq(weft_remainder(t, scalar(2)), scalar(0))
                        : weft_gt(t, scalar(20));
        WT_ALL(wt_near_tensors(weft_masked_fill(t, mask, cases[k].fill), want, WT_EXACT));
        weft_ledger_reset(w->ledger);
        WT_ALL(weft_masked_fill_(t, mask, cases[k].fill) == t);
        WT_STILL(w);
        WT_ALL(wt_is_placed(t, cases[k].layout));
        WT_ALL(wt_near_tensors(t, want, WT_EXACT));
        weft_ledger_reset(w->ledger);
    }
}

/* TEN-08: the result of any function in a tensor that there is; PW-06 */
WT_TEST_IN_WORLD(copy__takes_results_of_other_layouts_and_dtypes, w)
{
    static const char *const layouts[] = {"S(0)", "S(1)", "R"};
    weft_tensor *x = wt_whole(WEFT_F32, 0, 8, 4), *y = wt_whole(WEFT_F32, 1, 8, 4), *out;

    for (int k = 0; k < 9; k++) {
        weft_tensor *t = wt_spread(w, x, layouts[k / 3]);

        out = wt_spread(w, wt_constant(8, 4, 0), layouts[k % 3]);
        WT_EQ(weft_copy_(out, weft_add_scalar(t, 3)), WEFT_OK);
        WT_ALL(wt_is_placed(out, layouts[k % 3]));
        WT_ALL(wt_near_tensors(out, weft_add_scalar(x, 3), WT_EXACT));
        WT_EQ(weft_copy_(out, weft_mul(t, wt_spread(w, y, layouts[k / 3]))), WEFT_OK);
        WT_ALL(wt_near_tensors(out, weft_mul(x, y), WT_EXACT));
        WT_ALL(wt_near_tensors(t, x, WT_EXACT));
    }
    out = wt_spread(w, weft_full(WEFT_F64, (int64_t[]){8, 4}, 2, 0), "S(0)");
    WT_EQ(weft_copy_(out, wt_partial(w, wt_constant(1, 4, 1), WEFT_SUM)), WEFT_OK);
    WT_ALL(weft_tensor_dtype(out) == WEFT_F64 && wt_is_placed(out, "S(0)"));
    WT_ALL(wt_is_all(out, weft_world_size()));
    WT_EQ(weft_copy_(out, scalar(7)), WEFT_OK);
    WT_ALL(wt_is_all(out, 7));
    WT_FAILS(weft_copy_(out, wt_constant(8, 4, 1)), WEFT_ERR_SHAPE, "copy_: layouts differ");
    WT_EQ(weft_zero_(out), WEFT_OK);
    WT_ALL(wt_is_all(out, 0));
}

/* The target keeps its dtype where its kind holds the result. */
WT_TEST_IN_WORLD(in_place__dtypes, w)
{
    weft_tensor *whole = wt_spread(w, weft_full(WEFT_I32, (int64_t[]){5, 2}, 2, 7), "S(0)");
    weft_tensor *half = wt_spread(w, weft_full(WEFT_BF16, (int64_t[]){5, 2}, 2, 3), "S(0)");
    weft_tensor *wide = wt_spread(w, weft_full(WEFT_F64, (int64_t[]){5, 2}, 2, 0.25), "S(0)");
    weft_tensor *mask = weft_lt(wide, half);

    WT_ALL(weft_add_(half, wide) == half && weft_tensor_dtype(half) == WEFT_BF16);
    WT_ALL(wt_is_all(half, 3.25));
    WT_ALL(weft_mul_(half, mask) == half && wt_is_all(half, 3.25));
    WT_ALL(weft_add_(whole, weft_cast(half, WEFT_I8)) == whole && wt_is_all(whole, 10));
    WT_ALL(weft_tensor_dtype(whole) == WEFT_I32);
    WT_FAILS(weft_add_(whole, half), WEFT_ERR_DTYPE, "does not go into i32");
    WT_FAILS(weft_div_(whole, whole), WEFT_ERR_DTYPE, "does not go into i32");
    WT_FAILS(weft_mul_scalar_(whole, 0.5), WEFT_ERR_DTYPE, "beside 0.5 does not go into i32");
    WT_FAILS(weft_masked_fill_(whole, mask, 0.5), WEFT_ERR_DTYPE, "masked_fill in place");
    WT_ALL(wt_is_all(whole, 10));
}

/* Leaves are written where gradients are off, results of recorded ops never. */
WT_TEST_IN_WORLD(in_place__leaves_are_written_without_gradients, w)
{
    weft_tensor *t = weft_set_requires_grad(wt_spread(w, wt_constant(5, 2, 2), "S(0)"), true);
    weft_tensor *y = weft_mul_scalar(t, 2), *other = weft_detach(t);

    WT_FAILS(weft_mul_scalar_(t, 2), WEFT_ERR_STATE, "values on the tape");
    WT_FAILS(weft_add_(wt_spread(w, wt_constant(5, 2, 2), "S(0)"), t), WEFT_ERR_STATE, "tape");
    weft_no_grad_open();
    WT_ALL(weft_lerp_scalar_(t, weft_mul_scalar(t, 3), 0.5) == t && weft_requires_grad(t));
    WT_FAILS(weft_neg_(y), WEFT_ERR_STATE, "values on the tape");
    WT_EQ(weft_no_grad_close(), WEFT_OK);
    WT_ALL(wt_is_all(other, 4));
}

int main(int argc, char **argv) { return wt_main(argc, argv, "in_place_layouts"); }
