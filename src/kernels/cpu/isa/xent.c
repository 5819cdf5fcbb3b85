/* xent.c: the loops of cross-entropy. */
#include "kernels/cpu/xent.h"

enum { WF_XENT_BLOCK = 1024 };

#define WF_TYPE_F32
#include "kernels/cpu/isa/type.h"

#include "kernels/cpu/isa/xent.inc"

#define WF_TYPE_F64
#include "kernels/cpu/isa/type.h"

#include "kernels/cpu/isa/xent.inc"

#define WF_TYPE_BF16
#include "kernels/cpu/isa/type.h"

#include "kernels/cpu/isa/xent.inc"

const struct wf_xents WF_ISA_NAME(wf_xents) = {{
    [WEFT_F32] = {xent_sum_f32, xent_sums_f32, xent_log_f32, xent_grad_f32},
    [WEFT_F64] = {xent_sum_f64, xent_sums_f64, xent_log_f64, xent_grad_f64},
    [WEFT_BF16] = {xent_sum_bf16, xent_sums_bf16, xent_log_bf16, xent_grad_bf16},
}};
