/* norm.c: the loops of layer_norm and rms_norm. */
#include "kernels/cpu/reductions/norm.h"

#include <stdbool.h>

#include "kernels/cpu/isa/row_sum.h"

#define WF_LOOPS "kernels/cpu/isa/norm.inc"
#include "kernels/cpu/isa/each_float.inc"

#define ALL(f)                                                                                     \
    {                                                                                              \
        [WEFT_F32] = f##_f32, [WEFT_F64] = f##_f64, [WEFT_BF16] = f##_bf16, [WEFT_F16] = f##_f16   \
    }
#define LOOPS(op)                                                                                  \
    {                                                                                              \
        [WEFT_F32] = {op##_norm_f32, op##_norm_grad_f32},                                          \
        [WEFT_F64] = {op##_norm_f64, op##_norm_grad_f64},                                          \
        [WEFT_BF16] = {op##_norm_bf16, op##_norm_grad_bf16},                                       \
        [WEFT_F16] = {op##_norm_f16, op##_norm_grad_f16},                                          \
    }

const struct wf_norms WF_ISA_NAME(wf_norms) = {.layer = LOOPS(layer),
                                               .rms = LOOPS(rms),
                                               .flush = ALL(flush_partial_sums),
                                               .store = ALL(store_totals)};
