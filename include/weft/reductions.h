/*
 * reductions.h: many elements become one: sums, extremes and their places, norms, variances; the
 * largest k, order; whether tensors are equal.
 *
 * What weft/ops.h says of every op holds here.
 * ranks: every rank of the inputs' mesh, unless said otherwise
 */
#pragma once

#include <weft/tensor.h>

/*
 * ---- reductions; `dims` lists dims, negative ones from the end; n = 0: all of them ----
 *
 * A tensor without dims is taken for one with a single element along its dim 0, or -1: here, and in
 * softmax, scans, and functions by indices along one dim.
 *
 * Over a dim that is sharded a result stays partial until somebody needs it, unless said otherwise.
 */
/** Of integers and bool the sum (and the product) is i64. */
WEFT_API weft_tensor *weft_sum(weft_tensor *x, const int *dims, int n, bool keep);
WEFT_API weft_tensor *weft_mean(weft_tensor *x, const int *dims, int n, bool keep);
WEFT_API weft_tensor *weft_prod(weft_tensor *x, const int *dims, int n, bool keep);
/** fails: WEFT_ERR_SHAPE where there is no element along the dims
 *  grad:  shared equally by all elements that equal the maximum (the minimum) */
WEFT_API weft_tensor *weft_amax(weft_tensor *x, const int *dims, int n, bool keep);
WEFT_API weft_tensor *weft_amin(weft_tensor *x, const int *dims, int n, bool keep);
WEFT_API weft_tensor *weft_sum_all(weft_tensor *x);
WEFT_API weft_tensor *weft_mean_all(weft_tensor *x);

/** How many elements are not 0, i64; not-a-number is not 0. grad: none */
WEFT_API weft_tensor *weft_count_nonzero(weft_tensor *x, const int *dims, int n);
/** Whether any element, or each, is not 0: bool, on every rank. grad: none */
WEFT_API weft_tensor *weft_any(weft_tensor *x, const int *dims, int n, bool keep);
WEFT_API weft_tensor *weft_all(weft_tensor *x, const int *dims, int n, bool keep);

/** Sum and mean of the elements that are numbers; a mean of none is not a number. */
WEFT_API weft_tensor *weft_nansum(weft_tensor *x, const int *dims, int n, bool keep);
WEFT_API weft_tensor *weft_nanmean(weft_tensor *x, const int *dims, int n, bool keep);

/**
 * The p-norm over dims, (sum |x|^p)^(1/p): p = INFINITY gives the largest absolute value,
 * -INFINITY the smallest, 0 how many elements are not 0.
 *
 * fails: WEFT_ERR_SHAPE for an infinite p where there is no element along the dims
 * grad:  of an infinite norm shared by the elements that have it
 */
WEFT_API weft_tensor *weft_norm(weft_tensor *x, double p, const int *dims, int n, bool keep);
/** The p-norm of a - b, which broadcast. */
WEFT_API weft_tensor *weft_dist(weft_tensor *a, weft_tensor *b, double p);

/**
 * Variance and standard deviation over dims: squares about the mean, divided by their number less
 * `correction` (1: unbiased; not-a-number where that leaves nothing).
 *
 * ranks: every rank of x's mesh; over dims that are sharded two all-reduces of one number per
 *        result, which is on every rank
 * grad:  of a standard deviation that is 0, 0
 */
WEFT_API weft_tensor *weft_var(weft_tensor *x, const int *dims, int n, double correction,
                               bool keep);
WEFT_API weft_tensor *weft_std(weft_tensor *x, const int *dims, int n, double correction,
                               bool keep);
/** The mean too. */
WEFT_API weft_tensor *weft_var_mean(weft_tensor *x, const int *dims, int n, double correction,
                                    bool keep, weft_tensor **mean);

/**
 * The k largest elements along a dim, largest first, and in `indices` (NULL: not wanted) where they
 * are; of equal ones the first comes first. Not-a-number is larger than any number.
 *
 * shape: x [*, n, *] -> [*, k, *]; indices i64 of that shape
 * ranks: every rank of x's mesh. Where the dim is split each rank picks its own k, and only those
 *        are gathered
 * fails: WEFT_ERR_ARG for more than n, WEFT_ERR_DTYPE for bool
 * grad:  of the values, to the elements that were chosen; in x's layout, and nothing is sent. The
 *        indices have none
 */
WEFT_API weft_tensor *weft_topk(weft_tensor *x, int64_t k, int dim, weft_tensor **indices);

/**
 * Where the largest (smallest) element along a dim is, or of the whole tensor in row-major order:
 * i64, without the dim. Of equal ones the first; not-a-number counts as larger (smaller) than any
 * number.
 *
 * ranks: every rank of x's mesh. Over a dim that is sharded two all-reduces of one number per
 *        result, which is on every rank
 * fails: WEFT_ERR_SHAPE where there is no element
 * grad:  none
 */
WEFT_API weft_tensor *weft_argmax(weft_tensor *x, int dim);
WEFT_API weft_tensor *weft_argmin(weft_tensor *x, int dim);
/** The same; `keep`: the dim stays, with size 1. */
WEFT_API weft_tensor *weft_argmax_with(weft_tensor *x, int dim, bool keep);
WEFT_API weft_tensor *weft_argmin_with(weft_tensor *x, int dim, bool keep);
WEFT_API weft_tensor *weft_argmax_all(weft_tensor *x);
WEFT_API weft_tensor *weft_argmin_all(weft_tensor *x);

/**
 * The largest (smallest) element along a dim, and in `indices` (NULL: not wanted) where it is, as
 * weft_argmax says.
 *
 * grad:  to that element alone
 */
WEFT_API weft_tensor *weft_max_with_index(weft_tensor *x, int dim, bool keep,
                                          weft_tensor **indices);
WEFT_API weft_tensor *weft_min_with_index(weft_tensor *x, int dim, bool keep,
                                          weft_tensor **indices);

/**
 * The elements along a dim in order, and in `indices` (NULL: not wanted) where each was. Equal ones
 * keep their order; not-a-number is larger than any number.
 *
 * ranks: every rank of x's mesh; a dim that is sharded is brought together
 * grad:  of the values
 */
WEFT_API weft_tensor *weft_sort(weft_tensor *x, int dim, bool descending, weft_tensor **indices);
/** The indices alone. grad: none */
WEFT_API weft_tensor *weft_argsort(weft_tensor *x, int dim, bool descending);

/** The k-th smallest along a dim, from 1 on / the median, of an even number the lower one, not a
 *  number where one is none; and in `index` (NULL: not wanted) where it was.
 *  ranks, grad: as weft_sort
 *  fails: WEFT_ERR_ARG */
WEFT_API weft_tensor *weft_kthvalue(weft_tensor *x, int64_t k, int dim, bool keep,
                                    weft_tensor **index);
WEFT_API weft_tensor *weft_median(weft_tensor *x, int dim, bool keep, weft_tensor **index);

/**
 * How many elements lie in each of `bins` equal intervals from `least` to `most`, the last with its
 * end; where both are equal, from the least to the largest element. Of x's dtype; what is outside
 * is not counted. Where an end is infinite, numbers lie in the first interval or in none.
 *
 * ranks: every rank of x's mesh; with `least` below `most` nothing is sent, and the counts of what
 *        is sharded stay partial; else one all-reduce
 * grad:  none
 * fails: WEFT_ERR_ARG for no bins or more than 2^24, and for bounds in the wrong order
 */
WEFT_API weft_tensor *weft_histc(weft_tensor *x, int64_t bins, double least, double most);

/**
 * Whether two tensors have the same shape and elements, whatever their layouts (torch.equal). NaN
 * equals nothing, -0 equals 0.
 *
 * Shards are compared where they are; one of the two moves first where their layouts differ, and a
 * plain tensor beside a distributed one is taken to be the same on all ranks. Then a reduction of 8
 * bytes per mesh axis.
 *
 * ranks: every rank of the mesh; of two plain tensors local, and about this rank's elements
 * gives: in `out` the same answer on all ranks (on a rank outside the mesh: true). Different shapes
 *        are not equal
 * fails: WEFT_ERR_DTYPE for different dtypes, WEFT_ERR_LAYOUT for different meshes, WEFT_ERR_STATE
 *        for tensors without elements
 * grad:  none
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
 * ranks, gives: as weft_equal
 * fails: as weft_equal; WEFT_ERR_SHAPE for shapes that do not broadcast
 */
WEFT_API weft_status weft_allclose(bool *out, weft_tensor *a, weft_tensor *b,
                                   weft_allclose_options options);
