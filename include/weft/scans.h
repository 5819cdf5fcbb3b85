/*
 * scans.h: what runs along a dim: sums and products of all elements so far, linear recurrences.
 *
 * What weft/ops.h says of every op holds here.
 *
 * ranks: every rank of the inputs' mesh; for sums and products a dim that is sharded is brought
 *        together
 */
#pragma once

#include <weft/tensor.h>

/** Element i is the sum (product) of elements 0 .. i along the dim; of integers and bool in i64. */
WEFT_API weft_tensor *weft_cumsum(weft_tensor *x, int dim);
WEFT_API weft_tensor *weft_cumprod(weft_tensor *x, int dim);

/**
 * The recurrence of state-space models along a dim: h_t = a_t h_(t-1) + b_t, where h before the
 * first step is `before`, or 0 where that is NULL. All else than the dim runs side by side.
 *
 * shape: a, b [*, n, *] -> h alike; before [*, 1, *]
 * ranks: every rank of the inputs' mesh. Where both are cut alike along the dim, by one axis, they
 *        stay so: each rank runs its own steps, and one all-gather of two numbers per recurrence
 *        and rank carries the ends on
 * grad:  to a, b and `before`
 * fails: WEFT_ERR_SHAPE unless a and b have the same shape; WEFT_ERR_DTYPE for integers
 */
WEFT_API weft_tensor *weft_linear_scan(weft_tensor *a, weft_tensor *b, weft_tensor *before,
                                       int dim);
