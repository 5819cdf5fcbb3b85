/* steps.c: the loops of kernels/optim.h. */
#include "kernels/cpu/steps.h"

#define WF_TYPE_F32
#include "kernels/cpu/isa/type.h"

#include "kernels/cpu/isa/steps.inc"

#define WF_TYPE_F64
#include "kernels/cpu/isa/type.h"

#include "kernels/cpu/isa/steps.inc"

#define WF_TYPE_BF16
#include "kernels/cpu/isa/type.h"

#include "kernels/cpu/isa/steps.inc"

#define STEPS(tag)                                                                                 \
    {                                                                                              \
        adamw_##tag, sgd_##tag, sum_squares_##tag, scale_##tag, axpy_##tag                         \
    }

const struct wf_steps WF_ISA_NAME(wf_steps) = {
    .of = {[WEFT_F32] = STEPS(f32), [WEFT_F64] = STEPS(f64), [WEFT_BF16] = STEPS(bf16)}};
