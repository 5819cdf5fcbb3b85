/* sort.c: the loops of sort. */
#include "kernels/cpu/reductions/sort.h"

#include <stddef.h>

enum { SORT_RUN = 16 };

#define WF_LOOPS "kernels/cpu/isa/sort.inc"
#include "kernels/cpu/isa/each_number.inc"

#define WF_TYPE_U8
#include "kernels/cpu/isa/element_type.h"

#include WF_LOOPS

#define LOOPS(tag)                                                                                 \
    {                                                                                              \
        sort_scratch_bytes_##tag, sort_row_##tag                                                   \
    }

const struct wf_sorts WF_ISA_NAME(wf_sorts) = {.of = {[WEFT_F32] = LOOPS(f32),
                                                      [WEFT_F64] = LOOPS(f64),
                                                      [WEFT_BF16] = LOOPS(bf16),
                                                      [WEFT_F16] = LOOPS(f16),
                                                      [WEFT_I32] = LOOPS(i32),
                                                      [WEFT_I64] = LOOPS(i64),
                                                      [WEFT_U8] = LOOPS(u8),
                                                      [WEFT_BOOL] = LOOPS(u8)}};
