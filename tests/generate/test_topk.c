/*
 * test_topk.c: the largest elements along a dim, wherever it lies: values, ties, what moves.
 */
/* ranks: 1 2 3 4 5 6 8 */
/* mpi: 2 3 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/worlds.h"

/* A few values over and over, so that there are many ties, and the places where they are. */
static double value_at(int64_t i) { return (double)((i * 7919 + 3) % 11) - 5; }

static weft_tensor *many_ties(weft_dtype dtype, int64_t rows, int64_t n)
{
    weft_tensor *t = weft_full(WEFT_F64, 2, (int64_t[]){rows, n}, 0);
    double *x = weft_data(t);

    for (int64_t i = 0; i < rows * n; i++) x[i] = value_at(i);
    return weft_cast(t, dtype);
}

/* The next one of a row after (value, index): smaller, or as large and further on. */
static int64_t follows(const double *row, int64_t n, int64_t last)
{
    int64_t best = -1;

    for (int64_t j = 0; j < n; j++) {
        if (last >= 0 && (row[j] > row[last] || (row[j] == row[last] && j <= last))) continue;
        if (best < 0 || row[j] > row[best]) best = j;
    }
    return best;
}

/* What topk of x [rows, n] should give, one after the other. */
static bool is_topk(weft_tensor *x, int64_t k, weft_tensor *values, weft_tensor *indices)
{
    int64_t rows = weft_size(x, 0), n = weft_size(x, 1);
    double *all = wt_values(x), *got = wt_values(values), *at = wt_values(indices);
    bool right = all && got && at;

    for (int64_t r = 0; r < rows && right; r++) {
        int64_t last = -1;

        for (int64_t j = 0; j < k; j++) {
            last = follows(all + r * n, n, last);
            right = right && (int64_t)at[r * k + j] == last && got[r * k + j] == all[r * n + last];
        }
    }
    free(all);
    free(got);
    free(at);
    return right;
}

static void check(weft_dtype dtype, int64_t rows, int64_t n, int64_t k)
{
    static const char *const placements[] = {"R", "S(0)", "S(1)"};
    struct wt_world w = wt_world_open();
    weft_tensor *x = many_ties(dtype, rows, n), *indices, *plain = weft_topk(x, k, 1, &indices);

    WT_ALL(is_topk(x, k, plain, indices));
    for (int i = 0; i < 3; i++) {
        weft_tensor *spread = wt_spread(&w, x, placements[i]), *values;

        wt_moved(&w, WEFT_COLL_COUNT);
        values = weft_topk(spread, k, -1, &indices);
        WT_MOVED(&w, WEFT_COLL_ALL_GATHER, i == 2 && k && rows ? 2 : 0);
        WT_ALL(wt_has_shape(values, 2, rows, k) && wt_has_shape(indices, 2, rows, k));
        WT_ALL(is_topk(x, k, values, indices));
        WT_ALL(wt_is_placed(values, i == 1 ? "S(0)" : "R"));
    }
    wt_world_close(&w);
}

WT_TEST(topk__is_the_same_wherever_the_dim_lies)
{
    check(WEFT_F32, 3, 50, 7);
    check(WEFT_F64, 1, 257, 1);
    check(WEFT_BF16, 2, 33, 33);
    check(WEFT_I32, 5, 16, 3);
    check(WEFT_I64, 1, 9, 2);
}

/* Ranks have fewer than k, or nothing at all. */
WT_TEST(topk__of_less_than_k_on_a_rank)
{
    check(WEFT_F32, 2, 5, 4);
    check(WEFT_F32, 1, 1, 1);
    check(WEFT_F32, 3, 7, 7);
}

/* Absent elements are no match for real ones that are as low. */
WT_TEST(topk__of_the_lowest_values)
{
    struct wt_world w = wt_world_open();
    weft_tensor *x = weft_full(WEFT_F32, 2, (int64_t[]){2, 5}, -INFINITY), *indices;
    weft_tensor *values = weft_topk(wt_spread(&w, x, "S(1)"), 5, 1, &indices);

    WT_ALL(is_topk(x, 5, values, indices));
    wt_world_close(&w);
}

WT_TEST(topk__not_a_number_is_largest)
{
    struct wt_world w = wt_world_open();
    float x[] = {1, INFINITY, NAN, 3, NAN, -1};
    weft_tensor *t = weft_from_data(WEFT_F32, 2, (int64_t[]){1, 6}, x), *indices;
    const double want[] = {2, 4, 1};
    double *got;

    weft_topk(wt_spread(&w, t, "S(1)"), 3, 1, &indices);
    got = wt_values(indices);
    WT_ALL(got && !memcmp(got, want, sizeof want));
    free(got);
    wt_world_close(&w);
}

WT_TEST(topk__along_another_dim)
{
    struct wt_world w = wt_world_open();
    weft_tensor *x = many_ties(WEFT_F32, 13, 4), *turned = weft_transpose(x, 0, 1), *indices;
    weft_tensor *values = weft_topk(wt_spread(&w, x, "S(0)"), 3, 0, &indices);

    WT_ALL(wt_has_shape(values, 2, 3, 4));
    WT_ALL(is_topk(turned, 3, weft_transpose(values, 0, 1), weft_transpose(indices, 0, 1)));
    wt_world_close(&w);
}

/* On two axes: rows by one, the dim by the other; and the dim by both. */
WT_TEST(topk__on_two_axes)
{
    static const char *const placements[] = {"S(0),S(1)", "S(1),S(1)", "S(1),R"};
    int dp = wt_ranks() % 2 == 0 ? 2 : 1;
    struct wt_world w = wt_world_open_mesh("dp=%d,tp=%d", dp, wt_ranks() / dp);
    weft_tensor *x = many_ties(WEFT_F32, 3, 29), *indices;

    for (int i = 0; i < 3; i++) {
        weft_tensor *values = weft_topk(wt_spread(&w, x, placements[i]), 6, 1, &indices);

        WT_ALL(is_topk(x, 6, values, indices));
    }
    wt_world_close(&w);
}

/* What is pending is added up first. */
WT_TEST(topk__of_a_pending_sum)
{
    struct wt_world w = wt_world_open();
    weft_tensor *x = many_ties(WEFT_F32, 2, 6), *indices;
    weft_tensor *values = weft_topk(wt_pending(&w, x, WEFT_SUM), 3, 1, &indices);

    WT_ALL(is_topk(weft_mul_scalar(x, wt_ranks()), 3, values, indices));
    wt_world_close(&w);
}

WT_TEST(argmax__is_the_first_of_the_largest)
{
    struct wt_world w = wt_world_open();
    weft_tensor *x = many_ties(WEFT_F32, 4, 40), *spread = wt_spread(&w, x, "S(1)"), *best, *at;

    weft_topk(x, 1, 1, &at);
    best = weft_argmax(spread, 1);
    WT_ALL(wt_has_shape(best, 1, 4));
    WT_ALL(wt_near_tensors(best, weft_reshape(at, 1, (int64_t[]){4}), WT_EXACT));
    WT_ALL(weft_tensor_dtype(best) == WEFT_I64);
    wt_world_close(&w);
}

WT_TEST(topk__leaves_the_tape_alone)
{
    struct wt_world w = wt_world_open();
    weft_tensor *x = weft_set_requires_grad(many_ties(WEFT_F32, 2, 6), true);

    WT_ALL(!weft_requires_grad(weft_topk(x, 2, 1, NULL)));
    wt_world_close(&w);
}

WT_TEST(topk__refuses)
{
    struct wt_world w = wt_world_open();
    weft_tensor *x = wt_spread(&w, many_ties(WEFT_F32, 2, 6), "S(1)"), *indices;

    WT_ALL(!weft_topk(x, 7, 1, &indices) && !indices);
    WT_FAILED(WEFT_ERR_ARG, "topk: 7 of 6 elements");
    WT_ALL(!weft_topk(x, -1, 1, NULL));
    WT_FAILED(WEFT_ERR_ARG, "topk: -1 of 6 elements");
    WT_ALL(!weft_topk(x, 1, 2, NULL));
    WT_FAILED(WEFT_ERR_ARG, "topk");
    WT_ALL(!weft_topk(weft_cast(x, WEFT_BOOL), 1, 1, NULL));
    WT_FAILED(WEFT_ERR_DTYPE, "bool");
    wt_world_close(&w);
}

int main(int argc, char **argv)
{
    static const struct wt_case cases[] = {
        WT_CASE(topk__is_the_same_wherever_the_dim_lies),
        WT_CASE(topk__of_less_than_k_on_a_rank),
        WT_CASE(topk__of_the_lowest_values),
        WT_CASE(topk__not_a_number_is_largest),
        WT_CASE(topk__along_another_dim),
        WT_CASE(topk__on_two_axes),
        WT_CASE(topk__of_a_pending_sum),
        WT_CASE(argmax__is_the_first_of_the_largest),
        WT_CASE(topk__leaves_the_tape_alone),
        WT_CASE(topk__refuses),
        WT_END,
    };

    return wt_main(argc, argv, "topk", cases);
}
