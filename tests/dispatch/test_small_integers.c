/* test_small_integers.c: what has no kernel of its own for i16 and i8 gives what i32
 * gives, and arithmetic of bool. */
#include <string.h>

#include "support/worlds.h"

#define IS_LIKE_PLAIN(got, plain) WT_ALL(wt_near_tensors((got), (plain), WT_EXACT))

/* i16 and i8 as their numbers in i32 are; extremes keep the dtype, sums are i64. */
WT_TEST_TIMES_IN_WORLD(reductions__of_small_integers, w, k, 2)
{
    weft_dtype dtype = k ? WEFT_I8 : WEFT_I16;
    weft_tensor *wide = weft_cast(weft_mul_scalar(wt_whole(WEFT_F32, 2, 5, 7), 9), WEFT_I32);
    weft_tensor *small = weft_cast(wide, dtype), *at, *want_at;
    int dim = 0;

    for (int p = 0; p < 3; p++) {
        weft_tensor *x = wt_spread(w, small, p == 2 ? "R" : p ? "S(1)" : "S(0)"), *y;

        IS_LIKE_PLAIN(weft_sum(x, &dim, 1, false), weft_sum(wide, &dim, 1, false));
        IS_LIKE_PLAIN(weft_prod(x, &dim, 1, true), weft_prod(wide, &dim, 1, true));
        y = weft_amax(x, &dim, 1, false);
        WT_EQ(weft_tensor_dtype(y), dtype);
        IS_LIKE_PLAIN(weft_cast(y, WEFT_I32), weft_amax(wide, &dim, 1, false));
        IS_LIKE_PLAIN(weft_cast(weft_amin(x, NULL, 0, false), WEFT_I32),
                      weft_amin(wide, NULL, 0, false));
        IS_LIKE_PLAIN(weft_count_nonzero(x, NULL, 0), weft_count_nonzero(wide, NULL, 0));
        IS_LIKE_PLAIN(weft_any(x, &dim, 1, false), weft_any(wide, &dim, 1, false));
        IS_LIKE_PLAIN(weft_argmax(x, 1), weft_argmax(wide, 1));
        y = weft_sort(x, 0, true, &at);
        WT_EQ(weft_tensor_dtype(y), dtype);
        IS_LIKE_PLAIN(weft_cast(y, WEFT_I32), weft_sort(wide, 0, true, &want_at));
        IS_LIKE_PLAIN(at, want_at);
        y = weft_min_with_index(x, 1, false, &at);
        WT_EQ(weft_tensor_dtype(y), dtype);
        IS_LIKE_PLAIN(weft_cast(y, WEFT_I32), weft_min_with_index(wide, 1, false, &want_at));
        IS_LIKE_PLAIN(at, want_at);
    }
}

/* As in PyTorch: a sum of bool is "or", a product "and", a difference is refused. */
WT_TEST_TIMES_IN_WORLD(arithmetic__of_bool, w, k, 3)
{
    static const char *const places[] = {"R", "S(0)", "S(1)"};
    weft_tensor *a = weft_gt(wt_whole(WEFT_F32, 0, 5, 7), wt_whole(WEFT_F32, 1, 5, 7));
    weft_tensor *b = weft_gt(wt_whole(WEFT_F32, 2, 1, 7), wt_whole(WEFT_F32, 3, 1, 7));
    weft_tensor *x = wt_spread(w, a, places[k]), *y = wt_spread(w, b, "R"), *z;

    z = weft_add(x, y);
    WT_EQ(weft_tensor_dtype(z), WEFT_BOOL);
    IS_LIKE_PLAIN(z, weft_logical_or(a, b));
    IS_LIKE_PLAIN(weft_mul(x, y), weft_logical_and(a, b));
    IS_LIKE_PLAIN(weft_maximum(x, y), weft_logical_or(a, b));
    IS_LIKE_PLAIN(weft_minimum(x, y), weft_logical_and(a, b));
    IS_LIKE_PLAIN(weft_add_(weft_clone(x), y), weft_logical_or(a, b));
    WT_ALL(!weft_sub(x, y) && weft_error_status() == WEFT_ERR_DTYPE);
    WT_ALL(strstr(weft_error_message(), "sub: no CPU kernel for bool") != NULL);
    weft_error_clear();
    WT_ALL(!weft_neg(x) && weft_error_status() == WEFT_ERR_DTYPE);
    weft_error_clear();
}

int main(int argc, char **argv) { return wt_main(argc, argv, "small_integers"); }
