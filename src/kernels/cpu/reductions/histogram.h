/* histogram.h: the table between cpu/reductions/histogram.c and its loops in cpu/isa/. */
#pragma once

#include "kernels/cpu/isa.h"

struct wf_histograms {
    /** counts[i] takes in those of n elements, `step` apart, that lie in bin i of `bins` between
     * range[0] and range[1]; the last bin has its end too. */
    void (*add[WEFT_DTYPE_COUNT])(int64_t n, int64_t step, const void *x, const void *range,
                                  int64_t bins, int64_t *counts);
    /** y = counts, in the dtype of x. */
    void (*store[WEFT_DTYPE_COUNT])(int64_t bins, const int64_t *counts, void *y);
};

WF_ISA_TABLE(struct wf_histograms, wf_histograms)
