/* rotary_swiglu.h: the inner loops of rotary positions and SwiGLU. */
#pragma once

#include "kernels/cpu/isa.h"

/** One head: pairs (x[j], x[j + half]), or (x[2j], x[2j + 1]) interleaved, turned by their angles;
 *  elements from 2 half to d are copied. cosine and sine are f32 for 16-bit floats. */
struct wf_rotary_pairs {
    int64_t half, d;
    void *y;
    const void *x, *cosine, *sine;
};

struct wf_transformer {
    void (*turn)(const struct wf_rotary_pairs *t);
    void (*turn_interleaved)(const struct wf_rotary_pairs *t);
    /** y[i] = silu(gate[i]) up[i] */
    void (*swiglu)(int64_t n, void *y, const void *gate, const void *up);
    /** dgate[i], dup[i] from d[i] */
    void (*swiglu_grad)(int64_t n, void *dgate, void *dup, const void *d, const void *gate,
                        const void *up);
};

WF_ISA_TABLE(struct wf_transformer, wf_transformer_f32)
WF_ISA_TABLE(struct wf_transformer, wf_transformer_f64)
WF_ISA_TABLE(struct wf_transformer, wf_transformer_bf16)
WF_ISA_TABLE(struct wf_transformer, wf_transformer_f16)

/** NULL: there are none for this dtype. */
static inline const struct wf_transformer *wf_transformer_loops_for(uint8_t dtype)
{
    if (dtype == WEFT_F32) return WF_ISA_PICK(wf_transformer_f32);
    if (dtype == WEFT_F64) return WF_ISA_PICK(wf_transformer_f64);
    if (dtype == WEFT_BF16) return WF_ISA_PICK(wf_transformer_bf16);
    return dtype == WEFT_F16 ? WF_ISA_PICK(wf_transformer_f16) : NULL;
}
