/* convolution.h: a convolution's sizes on this rank, for oneDNN and for plain loops. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/cpu/isa.h"
#include "kernels/operands/spatial_dims.h"

enum wf_conv_pass { WF_CONV_FORWARD, WF_CONV_DX, WF_CONV_DW };

/** x [n, groups, in, size...], w [groups, out, in, kernel...], y [n, groups, out, to...]; dims that
 * there are not have size 1. Channels are counted per group. */
struct wf_conv {
    enum wf_conv_pass pass;
    uint8_t dtype; /* that is computed in */
    bool bias;     /* one may come */
    int dims;
    int64_t n, groups, in, out;
    int64_t size[WF_SPATIAL], to[WF_SPATIAL], kernel[WF_SPATIAL];
    int64_t stride[WF_SPATIAL], before[WF_SPATIAL], after[WF_SPATIAL], dilation[WF_SPATIAL];
};

/** Operands of every pass: one of the three is its result. */
struct wf_conv_operands {
    void *x, *w, *y;
    const void *bias; /* NULL: none */
};

/** oneDNN's primitive for it and for arrays of this type, NULL where it has none, or for 16-bit
 *  floats but a slow reference. `scratch`: bytes that a run needs. */
struct wf_dnnl_conv *wf_dnnl_conv_new(const struct wf_conv *c, uint8_t type, size_t *scratch);
void wf_dnnl_conv_run(struct wf_dnnl_conv *p, const struct wf_conv_operands *o, void *scratch);
void wf_dnnl_conv_free(struct wf_dnnl_conv *p);

/** Plain loops. */
struct wf_plain_conv_table {
    void (*run)(const struct wf_conv *c, const struct wf_conv_operands *o);
};
WF_ISA_TABLE(struct wf_plain_conv_table, wf_plain_conv_f32)
WF_ISA_TABLE(struct wf_plain_conv_table, wf_plain_conv_f64)
