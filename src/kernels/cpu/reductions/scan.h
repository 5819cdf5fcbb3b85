/* scan.h: the table between cpu/reductions/scan.c and its loops in cpu/isa/. */
#pragma once

#include "kernels/cpu/reductions/along_dim.h"

struct wf_scans {
    struct wf_along_dim_loops cumsum[WEFT_DTYPE_COUNT], cumsum_back[WEFT_DTYPE_COUNT];
    struct wf_along_dim_loops cumprod[WEFT_DTYPE_COUNT];
    struct wf_along_dim_loops cumprod_grad[WEFT_DTYPE_COUNT]; /* here and below: of floats */
    struct wf_along_dim_loops linear_scan[WEFT_DTYPE_COUNT], linear_scan_grad[WEFT_DTYPE_COUNT];
};

WF_ISA_TABLE(struct wf_scans, wf_scans)
