/*
 * reduce.h: the table between cpu/reductions/reduce.c and its loops in cpu/isa/.
 *
 * Accumulators are 8 bytes: f64 for floats, i64 for integers, so the engine need not know which.
 */
#pragma once

#include "kernels/cpu/isa.h"

/** At most so many columns at a time. */
enum { WF_REDUCE_COLUMNS = 256 };

struct wf_reduce_loops {
    /** acc[0] takes in n elements without gaps. */
    void (*line)(int64_t n, const void *x, void *acc);
    /** acc[j] takes in x[r * stride + j] of all rows, j < n <= WF_REDUCE_COLUMNS. */
    void (*columns)(int64_t rows, int64_t stride, int64_t n, const void *x, void *acc);
    void (*start)(int64_t n, void *acc);
    /** y[j * stride] = acc[j] (sum: times scale). */
    void (*finish)(int64_t n, const void *acc, void *y, int64_t stride, double scale);
};

struct wf_reductions {
    struct wf_reduce_loops sum[WEFT_DTYPE_COUNT], max[WEFT_DTYPE_COUNT]; /* NULL: no kernel */
};

WF_ISA_TABLE(struct wf_reductions, wf_reductions)
