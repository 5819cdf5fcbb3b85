/* cross_entropy_kernel.c: the loops of cross-entropy. */
#include "kernels/cpu/reductions/cross_entropy_kernel.h"

enum { WF_XENT_BLOCK = 1024 };

#define WF_LOOPS "kernels/cpu/isa/cross_entropy_kernel.inc"
#include "kernels/cpu/isa/each_float.inc"

const struct wf_xents WF_ISA_NAME(wf_xents) = {{
    [WEFT_F32] = {xent_exp_sum_f32, xent_exp_and_weighted_sums_f32, xent_log_f32, xent_grad_f32},
    [WEFT_F64] = {xent_exp_sum_f64, xent_exp_and_weighted_sums_f64, xent_log_f64, xent_grad_f64},
    [WEFT_BF16] = {xent_exp_sum_bf16, xent_exp_and_weighted_sums_bf16, xent_log_bf16,
                   xent_grad_bf16},
    [WEFT_F16] = {xent_exp_sum_f16, xent_exp_and_weighted_sums_f16, xent_log_f16, xent_grad_f16},
}};
