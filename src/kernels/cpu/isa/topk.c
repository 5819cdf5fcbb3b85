/* topk.c: the loops of topk. */
#include <stdbool.h>
#include <stddef.h>

#include "kernels/cpu/reductions/topk.h"

#define WF_LOOPS "kernels/cpu/isa/topk.inc"
#include "kernels/cpu/isa/each_number.inc"

#define LOOPS(tag)                                                                                 \
    {                                                                                              \
        scratch_bytes_##tag, row_##tag                                                             \
    }

const struct wf_topks WF_ISA_NAME(wf_topks) = {.of = {[WEFT_F32] = LOOPS(f32),
                                                      [WEFT_F64] = LOOPS(f64),
                                                      [WEFT_BF16] = LOOPS(bf16),
                                                      [WEFT_F16] = LOOPS(f16),
                                                      [WEFT_I32] = LOOPS(i32),
                                                      [WEFT_I64] = LOOPS(i64)}};
