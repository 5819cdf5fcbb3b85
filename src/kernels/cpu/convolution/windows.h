/* windows.h: windows of up to three dims as tables, made when a plan is, for the loops in
 * ../isa/convolution. Dims that there are not have size 1. */
#pragma once

#include "kernels/cpu/convolution/convolution.h"

/** One dim: result i is the sum of weight[t] x[index[t]] for begin[i] <= t < begin[i + 1]. */
struct wf_taps {
    int64_t size, to;
    int64_t *begin; /* [to + 1] */
    int32_t *index;
    double *weight;
};

struct wf_max_windows {
    int64_t size[WF_SPATIAL], to[WF_SPATIAL], kernel[WF_SPATIAL];
    int64_t stride[WF_SPATIAL], before[WF_SPATIAL], dilation[WF_SPATIAL];
};

struct wf_windows_table {
    /** `planes` of x become as many of y; `line`: room for a line of x. */
    void (*resample)(const struct wf_taps *taps, int64_t planes, const void *x, void *y,
                     void *line);
    void (*max_pool)(const struct wf_max_windows *w, int64_t planes, const void *x, void *y,
                     int64_t *indices);
    /** dx is written whole. */
    void (*max_pool_grad)(const struct wf_max_windows *w, int64_t planes, const void *d,
                          const int64_t *indices, void *dx);
};
WF_ISA_TABLE(struct wf_windows_table, wf_windows_f32)
WF_ISA_TABLE(struct wf_windows_table, wf_windows_f64)
