/*
 * reductions.h: many elements become one: sums, means, maxima, the largest k; whether tensors are
 * equal.
 *
 * What weft/ops.h says of every op holds here.
 * ranks: every rank of the inputs' mesh, unless said otherwise
 */
#pragma once

#include <weft/tensor.h>

/* ---- reductions; `dims` lists dims, negative ones from the end; n = 0: all of them ---- */
WEFT_API weft_tensor *weft_sum(weft_tensor *x, const int *dims, int n, bool keep);
WEFT_API weft_tensor *weft_mean(weft_tensor *x, const int *dims, int n, bool keep);
/** grad: shared equally by all elements that equal the maximum */
WEFT_API weft_tensor *weft_amax(weft_tensor *x, const int *dims, int n, bool keep);
WEFT_API weft_tensor *weft_sum_all(weft_tensor *x);
WEFT_API weft_tensor *weft_mean_all(weft_tensor *x);

/**
 * The k largest elements along a dim, largest first, and in `indices` (NULL: not wanted) where they
 * are; of equal ones the first comes first. Not-a-number is larger than any number.
 *
 * shape: x [*, n, *] -> [*, k, *]; indices i64 of that shape
 * ranks: every rank of x's mesh. Where the dim is split each rank picks its own k, and only those
 *        are gathered
 * fails: WEFT_ERR_ARG for more than n, WEFT_ERR_DTYPE for u8 and bool
 * grad:  of the values, to the elements that were chosen; in x's layout, and nothing is sent. The
 *        indices have none
 */
WEFT_API weft_tensor *weft_topk(weft_tensor *x, int64_t k, int dim, weft_tensor **indices);

/** Where the largest element along a dim is: weft_topk's index, i64 without the dim. grad: none */
WEFT_API weft_tensor *weft_argmax(weft_tensor *x, int dim);

/**
 * Whether two tensors have the same shape and elements, whatever their layouts (torch.equal). NaN
 * equals nothing, -0 equals 0.
 *
 * Shards are compared where they are; one of the two moves first where their layouts differ, and a
 * plain tensor beside a distributed one is taken to be the same on all ranks. Then a reduction of 8
 * bytes per mesh axis.
 * ranks: every rank of the mesh; of two plain tensors local, and about this rank's elements
 * gives: in `out` the same answer on all ranks (on a rank outside the mesh: true). Different shapes
 *        are not equal
 * fails: WEFT_ERR_DTYPE for different dtypes, WEFT_ERR_LAYOUT for different meshes, WEFT_ERR_STATE
 *        for tensors without elements. grad: none
 */
WEFT_API weft_status weft_equal(bool *out, weft_tensor *a, weft_tensor *b);

/** Options of weft_allclose. */
typedef struct weft_allclose_options {
    double relative; /* of the second's element; 0: 1e-5, negative: none */
    double absolute; /* 0: 1e-8, negative: none */
    bool equal_nan;  /* NaN is close to NaN */
} weft_allclose_options;

/**
 * Whether |a - b| <= absolute + relative |b| for all elements; shapes broadcast (torch.allclose).
 * An infinity is close to itself alone.
 *
 * ranks, gives: as weft_equal. fails: as weft_equal; WEFT_ERR_SHAPE for shapes that do not
 * broadcast
 */
WEFT_API weft_status weft_allclose(bool *out, weft_tensor *a, weft_tensor *b,
                                   weft_allclose_options options);
