/* norm.h: the table between cpu/reductions/norm.c and its loops in cpu/isa/. */
#pragma once

#include "kernels/cpu/isa.h"

/** Rows that go in one call of the gradient, between two flushes. */
enum { WF_NORM_BLOCK = 32 };

/** All arrays without gaps; mean and rstd are of the computing type and may be NULL in forward. */
struct wf_norm_rows {
    int64_t rows, n;
    const void *d, *x, *weight, *bias; /* d: gradient only; weight, bias: never NULL */
    void *y;                           /* or dx */
    void *mean, *rstd;
    void *partial; /* gradient: n sums for the weight, then n for the bias; NULL: not wanted */
    double eps;
};

struct wf_norm_loops {
    void (*forward)(const struct wf_norm_rows *rows);
    void (*grad)(const struct wf_norm_rows *rows);
};

struct wf_norms {
    struct wf_norm_loops layer[WF_FLOAT_DTYPES], rms[WF_FLOAT_DTYPES];
    /** totals += partial, partial = 0 for n numbers. */
    void (*flush[WF_FLOAT_DTYPES])(int64_t n, void *partial, double *totals);
    /** to = totals as elements. */
    void (*store[WF_FLOAT_DTYPES])(int64_t n, const double *totals, void *to);
};

WF_ISA_TABLE(struct wf_norms, wf_norms)
