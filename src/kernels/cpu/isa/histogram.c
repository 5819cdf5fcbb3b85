/* histogram.c: the loops of histograms. */
#include "kernels/cpu/reductions/histogram.h"

#define WF_LOOPS "kernels/cpu/isa/histogram.inc"
#include "kernels/cpu/isa/each_float.inc"

const struct wf_histograms WF_ISA_NAME(wf_histograms) = {
    .add = {[WEFT_F32] = add_to_counts_f32,
            [WEFT_F64] = add_to_counts_f64,
            [WEFT_BF16] = add_to_counts_bf16,
            [WEFT_F16] = add_to_counts_f16},
    .store = {[WEFT_F32] = store_counts_f32,
              [WEFT_F64] = store_counts_f64,
              [WEFT_BF16] = store_counts_bf16,
              [WEFT_F16] = store_counts_f16},
};
