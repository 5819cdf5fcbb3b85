/* test_order.c: the k-th smallest and the median, where they were, and their gradients. */
#include <math.h>
#include <stdlib.h>

#include "support/worlds.h"

static const char *const places[] = {"R", "S(0)", "S(1)"};

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Of each row of [rows, n]: the value with k - 1 below it. */
static void kth_of_rows(const double *x, int rows, int n, int k, double *want)
{
    double *row = malloc((size_t)n * sizeof *row);

    for (int r = 0; r < rows; r++) {
        for (int i = 0; i < n; i++) row[i] = x[r * n + i];
        qsort(row, (size_t)n, sizeof *row, ascending);
        want[r] = row[k - 1];
    }
    free(row);
}

WT_TEST_TIMES_IN_WORLD(order__of_rows_and_columns, w, k, 3 * 4)
{
    enum { ROWS = 5 };
    static const int sizes[] = {7, 4};
    int n = sizes[k / 3 % 2], kth = k / 6 ? (n - 1) / 2 + 1 : 2;
    weft_tensor *whole = wt_whole(WEFT_F64, 0, ROWS, n), *x, *y, *at, *seen;
    double *values = wt_values(whole), want[ROWS], *places_of, grad[ROWS * 7] = {0};

    kth_of_rows(values, ROWS, n, kth, want);
    x = weft_set_requires_grad(wt_spread(w, whole, places[k % 3]), true);
    y = k / 6 ? weft_median(x, 1, true, &at) : weft_kthvalue(x, kth, -1, true, &at);
    WT_ALL(wt_has_shape(y, 2, ROWS, 1) && weft_tensor_dtype(at) == WEFT_I64);
    WT_ALL(wt_near_full(y, want, WT_EXACT));
    seen = weft_gather(weft_detach(x), 1, at);
    WT_ALL(wt_near_full(seen, want, WT_EXACT));
    WT_ALL(weft_backward(weft_sum_all(weft_square(y))) == WEFT_OK);
    places_of = wt_values(at);
    for (int r = 0; r < ROWS; r++) grad[r * n + (int)places_of[r]] = 2 * want[r];
    WT_ALL(wt_near_full(weft_grad(x), grad, WT_WITHIN(1e-13)));
    free(places_of);
    free(values);
    x = wt_spread(w, weft_transpose(whole, 0, 1), places[k % 3]);
    y = k / 6 ? weft_median(x, 0, false, NULL) : weft_kthvalue(x, kth, 0, false, NULL);
    WT_ALL(wt_has_shape(y, 1, ROWS) && wt_near_full(y, want, WT_EXACT));
}

/* As torch: the median of what is no number is none; the k-th has it behind all numbers. */
WT_TEST_IN_WORLD(order__of_what_is_no_number, w)
{
    double x[] = {3, NAN, 1, 2, 8, 5, 7, 6}, median[] = {NAN, 6}, third[] = {3, 7},
           index[] = {1, 3};
    weft_tensor *t = weft_reshape(weft_from_data(WEFT_F64, (int64_t[]){8}, 1, x), (int64_t[]){2, 4},
                                  2),
                *at;

    t = wt_spread(w, t, "S(0)");
    WT_ALL(wt_near_full(weft_median(t, 1, false, &at), median, WT_EXACT));
    WT_ALL(wt_near_full(at, index, WT_EXACT));
    WT_ALL(wt_near_full(weft_kthvalue(t, 3, 1, false, NULL), third, WT_EXACT));
}

WT_TEST_IN_WORLD(order__refuses_what_is_not_there, w)
{
    weft_tensor *x = wt_spread(w, wt_whole(WEFT_F32, 0, 4, 3), "S(0)");

    WT_FAILS(weft_kthvalue(x, 0, 1, false, NULL), WEFT_ERR_ARG, "element 0 of 3");
    WT_FAILS(weft_kthvalue(x, 4, 1, false, NULL), WEFT_ERR_ARG, "element 4 of 3");
    WT_FAILS(weft_median(weft_slice(x, 1, 0, 0), 1, false, NULL), WEFT_ERR_ARG, "of no elements");
}

int main(int argc, char **argv) { return wt_main(argc, argv, "order"); }
