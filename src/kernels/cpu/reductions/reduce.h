/*
 * reduce.h: the table between cpu/reductions/reduce.c and its loops in cpu/isa/.
 *
 * Accumulators are 8 bytes: f64 for floats, i64 for integers, so the engine need not know which.
 * What an op needs beside its elements is a number per output, of an accumulator's type.
 */
#pragma once

#include "kernels/cpu/isa.h"

/** At most so many columns at a time. */
enum { WF_REDUCE_COLUMNS = 256 };

typedef void wf_reduce_finish(int64_t n, const void *acc, void *y, int64_t stride, double scale);

struct wf_reduce_loops {
    /** acc[0] takes in n elements without gaps. `number` of this output; NULL: the op has none. */
    void (*line)(int64_t n, const void *x, const void *number, void *acc);
    /** acc[r] takes in the n elements from x[r * stride] on; the same number for all. */
    void (*lines)(int64_t rows, int64_t stride, int64_t n, const void *x, const void *number,
                  void *acc);
    /** acc[j] takes in x[r * stride + j] of all rows, j < n <= WF_REDUCE_COLUMNS. */
    void (*columns)(int64_t rows, int64_t stride, int64_t n, const void *x, const void *numbers,
                    void *acc);
    void (*start)(int64_t n, void *acc);
    /** y[j * stride] = acc[j], as an element of x's dtype; `scale`: a factor of sums, an exponent
     * of norms. */
    wf_reduce_finish *finish;
    /** The same in the dtype that it is computed in: f32 of 16-bit floats, i64 of integers. */
    wf_reduce_finish *finish_wide;
};

/** Loops of every dtype; NULL: no kernel. */
typedef struct wf_reduce_loops wf_reduce_loops_of[WEFT_DTYPE_COUNT];

struct wf_reductions {
    wf_reduce_loops_of sum, max, min, prod;
    wf_reduce_loops_of count; /* of those that are not 0, always i64 */
    wf_reduce_loops_of norm_0, norm_1, norm_2, norm_most, norm_least; /* of floats */
    wf_reduce_loops_of norm_p;                                        /* number: p, scale: 1 / p */
    wf_reduce_loops_of deviation; /* of (x - number)^2, their sum */
    wf_reduce_loops_of sum_exp;   /* of exp(x - number), their sum */
};

WF_ISA_TABLE(struct wf_reductions, wf_reductions)
