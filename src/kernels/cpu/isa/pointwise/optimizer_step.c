/* optimizer_step.c: the loops of kernels/optimizer_kernels.h. */
#include "kernels/cpu/pointwise/optimizer_step.h"

#define WF_TYPE_F32
#include "kernels/cpu/isa/element_type.h"

#include "kernels/cpu/isa/pointwise/gradient_loops.inc"
#include "kernels/cpu/isa/pointwise/optimizer_update.inc"

#define WF_TYPE_F64
#include "kernels/cpu/isa/element_type.h"

#include "kernels/cpu/isa/pointwise/gradient_loops.inc"
#include "kernels/cpu/isa/pointwise/optimizer_update.inc"

#define WF_TYPE_BF16
#include "kernels/cpu/isa/element_type.h"

#include "kernels/cpu/isa/pointwise/gradient_loops.inc"

#define WF_TYPE_F16
#include "kernels/cpu/isa/element_type.h"

#include "kernels/cpu/isa/pointwise/gradient_loops.inc"
#include "kernels/cpu/isa/pointwise/masters.inc"

#define STEPS(tag)                                                                                 \
    {                                                                                              \
        sum_squares_##tag, sum_powers_##tag, max_abs_##tag, scale_##tag, axpy_##tag, limit_##tag   \
    }
#define MASTERS(tag)                                                                               \
    {                                                                                              \
        sync_master_##tag, widen_##tag, round_##tag                                                \
    }
#define UPDATES(tag)                                                                               \
    {                                                                                              \
        [WF_STEP_SGD] = sgd_##tag, [WF_STEP_ADAM] = adam_##tag, [WF_STEP_ADAMAX] = adamax_##tag,   \
        [WF_STEP_ADAGRAD] = adagrad_##tag, [WF_STEP_RMSPROP] = rmsprop_##tag,                      \
        [WF_STEP_ADADELTA] = adadelta_##tag, [WF_STEP_ASGD] = asgd_##tag,                          \
        [WF_STEP_LION] = lion_##tag, [WF_STEP_MUON] = muon_##tag                                   \
    }

const struct wf_optimizer_loops WF_ISA_NAME(wf_optimizer_loops) = {
    .update = {[WEFT_F32] = UPDATES(f32), [WEFT_F64] = UPDATES(f64)},
    .of = {[WEFT_F32] = STEPS(f32),
           [WEFT_F64] = STEPS(f64),
           [WEFT_BF16] = STEPS(bf16),
           [WEFT_F16] = STEPS(f16)},
    .masters = {[WEFT_BF16] = MASTERS(bf16), [WEFT_F16] = MASTERS(f16)}};
