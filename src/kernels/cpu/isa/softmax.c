/* softmax.c: the loops of softmax and log_softmax. */
#include "kernels/cpu/reductions/softmax.h"

#include "kernels/cpu/isa/row_sum.h"

#define WF_LOOPS "kernels/cpu/isa/softmax.inc"
#include "kernels/cpu/isa/each_float.inc"

#define LOOPS(op)                                                                                  \
    {                                                                                              \
        [WEFT_F32] = {op##_rows_f32, op##_columns_f32},                                            \
        [WEFT_F64] = {op##_rows_f64, op##_columns_f64},                                            \
        [WEFT_BF16] = {op##_rows_bf16, op##_columns_bf16},                                         \
        [WEFT_F16] = {op##_rows_f16, op##_columns_f16},                                            \
    }

const struct wf_softmaxes WF_ISA_NAME(wf_softmaxes) = {
    .softmax = LOOPS(softmax),
    .log_softmax = LOOPS(log_softmax),
    .softmax_grad = LOOPS(softmax_grad),
    .log_softmax_grad = LOOPS(log_softmax_grad),
};
