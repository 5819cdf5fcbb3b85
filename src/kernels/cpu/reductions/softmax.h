/* softmax.h: the table between cpu/reductions/softmax.c and its loops in cpu/isa/. */
#pragma once

#include "kernels/cpu/reductions/along_dim.h"

struct wf_softmaxes { /* of floats */
    struct wf_along_dim_loops softmax[WEFT_DTYPE_COUNT], log_softmax[WEFT_DTYPE_COUNT];
    struct wf_along_dim_loops softmax_grad[WEFT_DTYPE_COUNT], log_softmax_grad[WEFT_DTYPE_COUNT];
};

WF_ISA_TABLE(struct wf_softmaxes, wf_softmaxes)
