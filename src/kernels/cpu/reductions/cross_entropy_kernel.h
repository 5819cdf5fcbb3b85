/* cross_entropy_kernel.h: the table between cpu/reductions/cross_entropy_kernel.c and its loops in
 * cpu/isa/. */
#pragma once

#include "kernels/cpu/isa.h"

struct wf_xent_loops {
    /** sum over j of e^(z[j] - m) */
    double (*sum)(int64_t n, const void *z, double m);
    /** the same, and in `weighted` the sum of w[j] (z[j] - m); w NULL: all 1 */
    double (*sums)(int64_t n, const void *z, double m, const void *w, double *weighted);
    /** y[i] = log s[i] */
    void (*log)(int64_t n, const void *s, void *y);
    /** dz[j] = scale e^(z[j] - m) - lean w[j] */
    void (*grad)(int64_t n, const void *z, double m, double scale, double lean, const void *w,
                 void *dz);
};

struct wf_xents {
    struct wf_xent_loops of[WF_FLOAT_DTYPES];
};

WF_ISA_TABLE(struct wf_xents, wf_xents)
