/*
 * near.h: is a tensor what it should be? References are f64 arrays, row-major.
 *
 * x is near y when |x - y| <= absolute + relative |y|; NaN is near NaN only. A comparison that
 * fails says which element is worst, its index and both values (wt_note), and the report of the
 * assertion around it, WT_ALL(wt_near_full(...)), prints that.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <weft/tensor.h>

struct wt_tolerance {
    double relative, absolute;
};

/** Not a bit of difference in value (-0 equals 0). */
#define WT_EXACT ((struct wt_tolerance){0, 0})
/** The same bound for both. */
#define WT_WITHIN(bound) ((struct wt_tolerance){(bound), (bound)})

/** Two arrays of n numbers. */
bool wt_near(const double *got, const double *want, int64_t n, struct wt_tolerance tolerance);

/** The whole of a tensor against its reference. ranks: collective over its mesh when it is
 * distributed */
bool wt_near_full(weft_tensor *t, const double *want, struct wt_tolerance tolerance);

/** This rank's elements against its box of a global reference; no communication, so it also proves
 *  where the elements lie. A partial sum has no such reference. */
bool wt_near_local(const weft_tensor *t, const double *want_global, struct wt_tolerance tolerance);

/** Two tensors with equal global shapes, each brought to all ranks first. ranks: as wt_near_full */
bool wt_near_tensors(weft_tensor *got, weft_tensor *want, struct wt_tolerance tolerance);

/** The global shape is `ndim` sizes that follow. */
bool wt_has_shape(const weft_tensor *t, int ndim, ...);

/** All elements of a tensor on this rank as f64; the caller frees. ranks: as wt_near_full.
 *  gives: NULL when the tensor is NULL or cannot be gathered */
double *wt_values(weft_tensor *t);

/** wt_near_local against a plain tensor that holds the whole. */
bool wt_near_shard(const weft_tensor *t, weft_tensor *whole, struct wt_tolerance tolerance);
