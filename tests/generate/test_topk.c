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
    weft_tensor *t = weft_full(WEFT_F64, (int64_t[]){rows, n}, 2, 0);
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

    int64_t size = (int64_t)weft_dtype_size(dtype);
    bool whole = n * size <= k * weft_world_size() * (size + 8); /* is less than the candidates */

    WT_ALL(is_topk(x, k, plain, indices));
    for (int i = 0; i < 3; i++) {
        weft_tensor *spread = wt_spread(&w, x, placements[i]), *values;

        wt_moved(&w, WEFT_COLL_COUNT);
        values = weft_topk(spread, k, -1, &indices);
        WT_MOVED(&w, WEFT_COLL_ALL_GATHER, i < 2 || !k || !rows ? 0 : whole ? 1 : 2);
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
    check(WEFT_F16, 2, 33, 31);
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
    weft_tensor *x = weft_full(WEFT_F32, (int64_t[]){2, 5}, 2, -INFINITY), *indices;
    weft_tensor *values = weft_topk(wt_spread(&w, x, "S(1)"), 5, 1, &indices);

    WT_ALL(is_topk(x, 5, values, indices));
}

WT_TEST(topk__not_a_number_is_largest)
{
    struct wt_world w = wt_world_open();
    float x[] = {1, INFINITY, NAN, 3, NAN, -1};
    weft_tensor *t = weft_from_data(WEFT_F32, (int64_t[]){1, 6}, 2, x), *indices;
    const double want[] = {2, 4, 1};
    double *got;

    weft_topk(wt_spread(&w, t, "S(1)"), 3, 1, &indices);
    got = wt_values(indices);
    WT_ALL(got && !memcmp(got, want, sizeof want));
    free(got);
}

WT_TEST(topk__along_another_dim)
{
    struct wt_world w = wt_world_open();
    weft_tensor *x = many_ties(WEFT_F32, 13, 4), *turned = weft_transpose(x, 0, 1), *indices;
    weft_tensor *values = weft_topk(wt_spread(&w, x, "S(0)"), 3, 0, &indices);

    WT_ALL(wt_has_shape(values, 2, 3, 4));
    WT_ALL(is_topk(turned, 3, weft_transpose(values, 0, 1), weft_transpose(indices, 0, 1)));
}

/* On two axes: rows by one, the dim by the other; and the dim by both. */
WT_TEST(topk__on_two_axes)
{
    static const char *const placements[] = {"S(0),S(1)", "S(1),S(1)", "S(1),R"};
    struct wt_world w = wt_world_open_two_axes();
    weft_tensor *x = many_ties(WEFT_F32, 3, 29), *indices;

    for (int i = 0; i < 3; i++) {
        weft_tensor *values = weft_topk(wt_spread(&w, x, placements[i]), 6, 1, &indices);

        WT_ALL(is_topk(x, 6, values, indices));
    }
}

/* What is partial is added up first. */
WT_TEST(topk__of_a_partial_sum)
{
    struct wt_world w = wt_world_open();
    weft_tensor *x = many_ties(WEFT_F32, 2, 6), *indices;
    weft_tensor *values = weft_topk(wt_partial(&w, x, WEFT_SUM), 3, 1, &indices);

    WT_ALL(is_topk(weft_mul_scalar(x, wt_ranks()), 3, values, indices));
}

WT_TEST(argmax__is_the_first_of_the_largest)
{
    struct wt_world w = wt_world_open();
    weft_tensor *x = many_ties(WEFT_F32, 4, 40), *spread = wt_spread(&w, x, "S(1)"), *best, *at;

    weft_topk(x, 1, 1, &at);
    best = weft_argmax(spread, 1);
    WT_ALL(wt_has_shape(best, 1, 4));
    WT_ALL(wt_near_tensors(best, weft_reshape(at, (int64_t[]){4}, 1), WT_EXACT));
    WT_ALL(weft_tensor_dtype(best) == WEFT_I64);
}

/* ---- gradients ---- */

/* What a chosen element's gradient is: another one for each place of the result. */
static double weight_at(int64_t i) { return 0.5 * (double)(i % 7) - 1; }

static weft_tensor *weights_like(weft_tensor *values)
{
    int64_t shape[WEFT_MAX_DIMS];
    weft_tensor *t;

    for (int d = 0; d < weft_ndim(values); d++) shape[d] = weft_size(values, d);
    t = weft_full(WEFT_F64, shape, weft_ndim(values), 0);
    for (int64_t i = 0; i < weft_numel(t); i++) ((double *)weft_data(t))[i] = weight_at(i);
    return weft_cast(t, weft_tensor_dtype(values));
}

/* By one device, with no op of its own: weights put where the indices say. */
static void expected_gradient(double *want, weft_tensor *x, int64_t k, int dim)
{
    weft_tensor *indices, *values = weft_topk(weft_detach(x), k, dim, &indices);
    double *at = wt_values(indices), *weight = wt_values(weights_like(values));
    int64_t n = weft_size(x, dim), inner = 1, numel = weft_numel(values);

    for (int d = dim + 1; d < weft_ndim(x); d++) inner *= weft_size(x, d);
    for (int64_t i = 0; i < weft_numel(x); i++) want[i] = 0;
    for (int64_t i = 0; i < numel; i++) {
        int64_t outer = i / (inner * k);

        want[(outer * n + (int64_t)at[i]) * inner + i % inner] += weight[i];
    }
    free(at);
    free(weight);
}

static weft_tensor *loss_of(weft_tensor *x, int64_t k, int dim)
{
    weft_tensor *values = weft_topk(x, k, dim, NULL);

    return weft_sum_all(weft_mul(values, weights_like(values)));
}

static void check_gradient(weft_dtype dtype, const char *placements, int64_t k, int dim)
{
    struct wt_world w = wt_world_open_two_axes();
    weft_tensor *x = weft_reshape(many_ties(dtype, 3, 5 * 7), (int64_t[]){3, 5, 7}, 3), *leaf;
    double want[3 * 5 * 7];

    weft_implicit_replication_open(WEFT_IMPLICIT_REPLICATION_ON);
    expected_gradient(want, x, k, dim);
    leaf = weft_set_requires_grad(wt_spread(&w, x, placements), true);
    wt_note("%s, dim %d", placements, dim);
    WT_ALL(weft_backward(loss_of(leaf, k, dim)) == WEFT_OK);
    WT_ALL(wt_is_placed(weft_grad(leaf), placements));
    WT_ALL(wt_near_full(weft_grad(leaf), want, WT_EXACT));
    weft_implicit_replication_close();
    wt_world_close(&w);
}

/* trial 1.6: many ties, uneven and empty shards, the dim split and whole */
WT_TEST(topk__gradients_go_to_what_was_chosen)
{
    static const char *const placements[] = {"R,R",       "R,S(0)",    "S(1),S(0)", "R,S(2)",
                                             "S(2),S(2)", "S(0),S(2)", "S(2),S(1)"};

    for (int i = 0; i < (int)(sizeof placements / sizeof *placements); i++)
        for (int dim = 0; dim < 3; dim++) {
            check_gradient(WEFT_F64, placements[i], 3, dim);
            check_gradient(WEFT_F32, placements[i], 1, dim);
            check_gradient(WEFT_BF16, placements[i], dim == 0 ? 3 : 5, dim);
            check_gradient(WEFT_F32, placements[i], 0, dim);
        }
}

/* Of a partial sum every rank's term has the whole gradient. */
WT_TEST(topk__gradient_of_a_partial_sum)
{
    struct wt_world w = wt_world_open();
    weft_tensor *x = many_ties(WEFT_F64, 2, 6), *leaf;
    double want[12];

    expected_gradient(want, x, 4, 1);
    leaf = weft_set_requires_grad(wt_partial(&w, x, WEFT_SUM), true);
    weft_implicit_replication_open(WEFT_IMPLICIT_REPLICATION_ON);
    WT_ALL(weft_backward(loss_of(leaf, 4, 1)) == WEFT_OK);
    weft_implicit_replication_close();
    WT_ALL(wt_near_full(weft_grad(leaf), want, WT_EXACT));
}

/* trial 1.6 */
WT_TEST(topk__gradients_agree_with_finite_differences)
{
    enum { ROWS = 2, N = 9 };
    struct wt_world w = wt_world_open();
    weft_tensor *x = wt_whole(WEFT_F64, 0, ROWS, N), *leaf;
    double *data = weft_data(x), step = 1e-6, want[ROWS * N];

    for (int i = 0; i < ROWS * N; i++) data[i] = (double)((i * 5) % (ROWS * N)); /* all differ */
    for (int i = 0; i < ROWS * N; i++) {
        double before = data[i], above, below;

        data[i] = before + step;
        above = weft_item(loss_of(x, 4, 1));
        data[i] = before - step;
        below = weft_item(loss_of(x, 4, 1));
        data[i] = before;
        want[i] = (above - below) / (2 * step);
    }
    weft_implicit_replication_open(WEFT_IMPLICIT_REPLICATION_ON);
    leaf = weft_set_requires_grad(wt_spread(&w, x, "S(1)"), true);
    WT_ALL(weft_backward(loss_of(leaf, 4, 1)) == WEFT_OK);
    weft_implicit_replication_close();
    WT_ALL(wt_near_full(weft_grad(leaf), want, WT_WITHIN(1e-6)));
}

/* Back go the values to where they are: forward gathers, backward nothing. */
WT_TEST(topk__backward_sends_nothing)
{
    struct wt_world w = wt_world_open();
    weft_tensor *x =
        weft_set_requires_grad(wt_spread(&w, many_ties(WEFT_F32, 3, 50), "S(1)"), true);
    weft_tensor *values = weft_topk(x, 4, 1, NULL);

    wt_moved(&w, WEFT_COLL_COUNT);
    WT_ALL(weft_backward(weft_sum_all(values)) == WEFT_OK);
    WT_STILL(&w);
}

WT_TEST(topk__indices_and_no_grad_leave_the_tape_alone)
{
    weft_tensor *x = weft_set_requires_grad(many_ties(WEFT_F32, 2, 6), true), *indices;

    WT_ALL(weft_requires_grad(weft_topk(x, 2, 1, &indices)) && !weft_requires_grad(indices));
    WT_ALL(!weft_requires_grad(weft_argmax(x, 1)));
    weft_no_grad_open();
    WT_ALL(!weft_requires_grad(weft_topk(x, 2, 1, NULL)));
    weft_no_grad_close();
}

WT_TEST(topk__refuses)
{
    struct wt_world w = wt_world_open();
    weft_tensor *x = wt_spread(&w, many_ties(WEFT_F32, 2, 6), "S(1)"), *indices;

    WT_ALL(!weft_topk(x, 7, 1, &indices) && !indices);
    WT_FAILED(WEFT_ERR_ARG, "topk: 7 of 6 elements");
    WT_FAILS(weft_topk(x, -1, 1, NULL), WEFT_ERR_ARG, "topk: -1 of 6 elements");
    WT_FAILS(weft_topk(x, 1, 2, NULL), WEFT_ERR_ARG, "topk");
    WT_FAILS(weft_topk(weft_cast(x, WEFT_BOOL), 1, 1, NULL), WEFT_ERR_DTYPE, "bool");
}

int main(int argc, char **argv) { return wt_main(argc, argv, "topk"); }
