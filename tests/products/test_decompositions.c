/*
 * test_decompositions.c: eigenvalues and singular values with their vectors: what they multiply to,
 * every layout beside one device, gradients beside differences, and what is sent.
 */
/* mpi: 2 4 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/worlds.h"

static weft_tensor *symmetric(weft_tensor *x)
{
    return weft_mul_scalar(weft_add(x, weft_transpose(x, -1, -2)), 0.5);
}

static weft_tensor *vector(const double *x, int64_t n)
{
    weft_tensor *t = weft_empty(WEFT_F64, &n, 1);

    memcpy(weft_data(t), x, (size_t)n * sizeof *x);
    return t;
}

/* vectors diag(values) vectors^T */
static weft_tensor *put_together(weft_tensor *vectors, weft_tensor *values)
{
    return weft_matmul_t(weft_mul(vectors, weft_unsqueeze(values, -2)), vectors, false, true);
}

static bool has_orthonormal_columns(weft_tensor *q, double bound)
{
    weft_tensor *product = weft_matmul_t(q, q, true, false);
    weft_tensor *ones = weft_sum(weft_zeros_like(product), (int[]){-1}, 1, false);

    return wt_near_tensors(product, weft_diag_embed(weft_exp(ones), 0), WT_WITHIN(bound));
}

static bool descends(weft_tensor *values, bool ascends)
{
    double *x = wt_values(values);
    int64_t n = weft_size(values, -1), count = weft_numel(values);
    bool good = true;

    for (int64_t i = 0; i < count; i++)
        if (i % n) good &= ascends ? x[i - 1] <= x[i] : x[i - 1] >= x[i] && x[i] >= 0;
    free(x);
    return good;
}

/* MATH-17 */
WT_TEST_TIMES_IN_WORLD(eigenvectors__put_a_matrix_together, w, k, 12)
{
    static const int64_t sizes[] = {2, 1, 3, 7, 33, 70};
    int64_t n = sizes[k / 2];
    weft_dtype dtype = k % 2 ? WEFT_F32 : WEFT_F64;
    double bound = k % 2 ? 1e-5 : 1e-12;
    weft_tensor *a = wt_spread(w, symmetric(weft_cast(wt_whole(WEFT_F64, 0, n, n), dtype)), "R");
    weft_tensor *values, *vectors, *apart;

    wt_moved(w, WEFT_COLL_COUNT);
    values = weft_eigh(a, &vectors);
    apart = weft_dist(put_together(vectors, values), a, 2);
    WT_STILL(w);
    WT_ALL(weft_item(apart) <= bound);
    WT_ALL(has_orthonormal_columns(vectors, bound) && descends(values, true));
}

/* Eigenvalues that are equal, 0, far apart, huge and tiny. */
WT_TEST_IN_WORLD(eigenvectors__of_special_matrices, w)
{
    static const double diagonals[][4] = {{1, 1, 1, 1},
                                          {0, 0, 0, 0},
                                          {1e-12, 1, 1e8, -1e8},
                                          {1e300, 1e299, -1e300, 1},
                                          {1e-300, 2e-300, 0, 1e-308}};
    weft_tensor *vectors, *values, *turned;

    weft_eigh(symmetric(wt_whole(WEFT_F64, 0, 4, 4)), &turned);
    for (int i = 0; i < 5; i++) {
        weft_tensor *diagonal = vector(diagonals[i], 4);
        weft_tensor *a = put_together(turned, diagonal);
        double largest = weft_item(weft_amax(weft_abs(diagonal), NULL, 0, false));

        values = weft_eigh(a, &vectors);
        WT_ALL(wt_near_tensors(put_together(vectors, values), a,
                               (struct wt_tolerance){0, 1e-14 * largest}));
        WT_ALL(wt_near_tensors(values, weft_sort(diagonal, 0, false, NULL),
                               (struct wt_tolerance){0, 1e-14 * largest}));
        WT_ALL(has_orthonormal_columns(vectors, 1e-14));
    }
    values = weft_eigh(weft_full(WEFT_F64, (int64_t[]){2, 2}, 2, NAN), &vectors);
    WT_ALL(weft_item(weft_all(weft_isnan(values), NULL, 0, false)) == 1);
    WT_ALL(weft_item(weft_all(weft_isnan(vectors), NULL, 0, false)) == 1);
}

static bool is_decomposition(weft_tensor *u, weft_tensor *s, weft_tensor *vh, weft_tensor *a,
                             double bound)
{
    return wt_near_tensors(weft_matmul(weft_mul(u, weft_unsqueeze(s, -2)), vh), a,
                           WT_WITHIN(bound)) &&
           has_orthonormal_columns(u, bound) &&
           has_orthonormal_columns(weft_transpose(vh, -1, -2), bound) && descends(s, false);
}

WT_TEST_TIMES_IN_WORLD(singular_vectors__put_a_matrix_together, w, k, 14)
{
    static const int64_t sizes[][2] = {{1, 1},   {2, 2},   {5, 3},  {3, 5},
                                       {33, 17}, {20, 64}, {70, 70}};
    weft_dtype dtype = k % 2 ? WEFT_F32 : WEFT_F64;
    weft_tensor *a = weft_cast(wt_whole(WEFT_F64, 1, sizes[k / 2][0], sizes[k / 2][1]), dtype), *s,
                *vh;
    weft_tensor *u = weft_svd(a, &s, &vh);

    WT_ALL(is_decomposition(u, s, vh, a, k % 2 ? 1e-5 : 1e-13));
}

/* Less than full rank, and singular values of which squares are lost beside the largest. */
WT_TEST_IN_WORLD(singular_vectors__of_special_matrices, w)
{
    static const double values[][3] = {
        {1, 1, 1}, {0, 0, 0}, {1, 1e-10, 1e-20}, {3, 0, 0}, {1e200, 1e190, 1e180}};
    weft_tensor *s, *vh, *u, *left, *right;

    left = weft_svd(wt_whole(WEFT_F64, 0, 5, 3), NULL, NULL);
    weft_svd(wt_whole(WEFT_F64, 1, 3, 4), NULL, &right);
    for (int i = 0; i < 5; i++) {
        weft_tensor *want = vector(values[i], 3);
        weft_tensor *a = weft_mul(left, weft_unsqueeze(want, 0));

        u = weft_svd(weft_mul_scalar(a, 1 / fmax(values[i][0], 1e-300)), &s, &vh);
        WT_ALL(
            is_decomposition(u, s, vh, weft_mul_scalar(a, 1 / fmax(values[i][0], 1e-300)), 1e-14));
        weft_svd(a, &s, NULL); /* scaled columns: exact to the last places, small ones too */
        WT_ALL(wt_near_tensors(s, want, (struct wt_tolerance){1e-13, 1e-290}));
        a = weft_matmul(a, right);
        weft_svd(a, &s, NULL);
        WT_ALL(wt_near_tensors(weft_slice(s, 0, 0, 3), want,
                               (struct wt_tolerance){0, 1e-14 * values[i][0]}));
    }
    u = weft_svd(weft_full(WEFT_F32, (int64_t[]){2, 3}, 2, INFINITY), &s, &vh);
    WT_ALL(weft_item(weft_all(weft_isnan(u), NULL, 0, false)) == 1);
    WT_ALL(weft_item(weft_all(weft_isnan(vh), NULL, 0, false)) == 1);
}

/* MATH-12 */
WT_TEST_TIMES_IN_WORLD(svd__of_a_sharded_matrix_gathers_it_once, w, k, 6)
{
    static const int64_t sizes[][2] = {{8, 8}, {8, 8}, {9, 6}, {9, 6}, {3, 7}, {3, 7}};
    weft_tensor *whole = wt_whole(WEFT_F32, 0, sizes[k][0], sizes[k][1]), *want[3], *got[3];
    weft_tensor *a = wt_spread(w, whole, k % 2 ? "S(1)" : "S(0)");

    want[0] = weft_svd(whole, &want[1], &want[2]);
    wt_moved(w, WEFT_COLL_COUNT);
    got[0] = weft_svd(a, &got[1], &got[2]);
    WT_MOVED(w, WEFT_COLL_ALL_GATHER, 1);
    for (int j = 0; j < 3; j++) {
        WT_ALL(wt_is_placed(got[j], "R"));
        WT_ALL(wt_near_tensors(got[j], want[j], WT_EXACT));
    }
}

/* Matrices of a batch stay where they are. */
WT_TEST_TIMES_IN_WORLD(decompositions__of_a_sharded_batch_send_nothing, w, k, 2)
{
    weft_tensor *whole = wt_whole3(WEFT_F64, 0, 5, 4, 4), *want[3], *got[3];
    weft_tensor *a = wt_spread(w, whole, "S(0)");

    want[0] = k ? weft_svd(whole, &want[1], &want[2]) : weft_eigh(whole, &want[1]);
    wt_moved(w, WEFT_COLL_COUNT);
    got[0] = k ? weft_svd(a, &got[1], &got[2]) : weft_eigh(a, &got[1]);
    WT_STILL(w);
    for (int j = 0; j < 2 + k; j++) {
        WT_ALL(wt_is_placed(got[j], "S(0)"));
        WT_ALL(wt_near_tensors(got[j], want[j], WT_EXACT));
    }
}

/* ---- gradients ---- */

static weft_tensor *weigh(struct wt_world *w, weft_tensor *x)
{
    weft_tensor *weights = wt_whole(WEFT_F64, 5, 1, weft_numel(x));
    int64_t shape[WEFT_MAX_DIMS];

    for (int d = 0; d < weft_ndim(x); d++) shape[d] = weft_size(x, d);
    weights = weft_reshape(weights, shape, weft_ndim(x));
    if (weft_tensor_mesh(x)) weights = wt_spread(w, weights, "R");
    return weft_sum_all(weft_mul(x, weights));
}

/* Some of the results, by bits, weighed. */
static weft_tensor *loss_of(struct wt_world *w, weft_tensor *x, bool svd, int wanted)
{
    weft_tensor *results[3] = {0}, *loss = NULL;

    results[0] = svd ? weft_svd(x, &results[1], &results[2]) : weft_eigh(x, &results[1]);
    for (int j = 0; j < 2 + svd; j++) {
        if (!(wanted >> j & 1)) continue;
        loss = loss ? weft_add(loss, weigh(w, results[j])) : weigh(w, results[j]);
    }
    return loss;
}

static double loss_beside(struct wt_world *w, weft_tensor *x, int64_t at, double step, bool svd,
                          int wanted)
{
    weft_scope *scope = weft_scope_open();
    weft_tensor *moved = weft_clone(x);
    double loss;

    ((double *)weft_data(moved))[at] += step;
    loss = weft_item(loss_of(w, moved, svd, wanted));
    weft_scope_close(scope);
    return loss;
}

/* Each result alone and all of them; square, tall, wide; plain, and sharded in each dim. */
WT_TEST_TIMES_IN_WORLD(gradients__equal_differences, w, k, 3 * 4 * 3)
{
    static const int64_t sizes[][3] = {{2, 4, 4}, {2, 5, 3}, {2, 3, 5}};
    static const int some[] = {1, 2, 4, 7};
    static const char *const places[] = {"S(0)", "S(1)", "S(2)"};
    const int64_t *size = sizes[k / 12];
    int wanted = some[k / 3 % 4];
    weft_tensor *whole = wt_whole3(WEFT_F64, 3, size[0], size[1], size[2]);
    int64_t n = weft_numel(whole);

    for (int svd = size[1] != size[2]; svd < 2; svd++) {
        double want[64], step = 1e-5;
        weft_tensor *x = weft_set_requires_grad(wt_spread(w, whole, places[k % 3]), true);

        if (!svd && !(wanted & 3)) continue;
        for (int64_t i = 0; i < n; i++)
            want[i] = (loss_beside(w, whole, i, step, svd, wanted) -
                       loss_beside(w, whole, i, -step, svd, wanted)) /
                      (2 * step);
        WT_ALL(weft_backward(loss_of(w, x, svd, wanted)) == WEFT_OK);
        WT_ALL(wt_near_full(weft_grad(x), want, WT_WITHIN(1e-6)));
    }
}

WT_TEST_IN_WORLD(decompositions__refuse_what_does_not_fit, w)
{
    WT_ALL(!weft_eigh(wt_spread(w, wt_whole(WEFT_F64, 0, 3, 4), "S(0)"), NULL));
    WT_ALL(weft_error_status() == WEFT_ERR_SHAPE);
    weft_error_clear();
    WT_ALL(!weft_svd(wt_spread(w, weft_cast(wt_whole(WEFT_F32, 0, 3, 4), WEFT_BF16), "S(0)"), NULL,
                     NULL));
    WT_ALL(weft_error_status() == WEFT_ERR_DTYPE);
    weft_error_clear();
}

int main(int argc, char **argv) { return wt_main(argc, argv, "decompositions"); }
