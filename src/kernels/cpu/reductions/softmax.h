/* softmax.h: the table between cpu/reductions/softmax.c and its loops in cpu/isa/. */
#pragma once

#include "kernels/cpu/isa.h"

/** Rows of n elements without gaps. */
typedef void wf_softmax_rows(int64_t rows, int64_t n, void *out, const void *const *in);

/** Columns beside each other: element i of column j lies at [i * stride + j]. */
typedef void wf_softmax_columns(int64_t n, int64_t stride, int64_t columns, void *out,
                                const void *const *in);

struct wf_softmax_loops {
    wf_softmax_rows *rows;
    wf_softmax_columns *columns;
};

struct wf_softmaxes {
    struct wf_softmax_loops softmax[WF_FLOAT_DTYPES], log_softmax[WF_FLOAT_DTYPES];
    struct wf_softmax_loops softmax_grad[WF_FLOAT_DTYPES], log_softmax_grad[WF_FLOAT_DTYPES];
};

WF_ISA_TABLE(struct wf_softmaxes, wf_softmaxes)
