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

/* In 32 bits, so that the loop has lanes of one width; where master is no number neither is w, and
 * it does not matter which of them is taken. */
static void sync_master(int64_t n, float *master, const wf_bf16 *w)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        uint32_t written = (uint32_t)w[i] << 16, bits, rounded;

        memcpy(&bits, &master[i], sizeof bits);
        rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) & 0xffff0000u;
        bits = rounded == written ? bits : written;
        memcpy(&master[i], &bits, sizeof bits);
    }
}

static void bf16_to_f32_array(int64_t n, float *to, const wf_bf16 *from)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) to[i] = wf_bf16_to_f32(from[i]);
}

static void f32_to_bf16_array(int64_t n, wf_bf16 *to, const float *from)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) to[i] = bf16_from_f32(from[i]);
}

#define STEPS(tag)                                                                                 \
    {                                                                                              \
        sum_squares_##tag, sum_powers_##tag, max_abs_##tag, scale_##tag, axpy_##tag, limit_##tag   \
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
    .of = {[WEFT_F32] = STEPS(f32), [WEFT_F64] = STEPS(f64), [WEFT_BF16] = STEPS(bf16)},
    .sync = sync_master,
    .widen = bf16_to_f32_array,
    .round = f32_to_bf16_array};
