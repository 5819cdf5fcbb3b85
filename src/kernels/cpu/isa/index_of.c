/* index_of.c: the loops of index_of. */
#include "kernels/cpu/reductions/index_of.h"

#define WF_LOOPS "kernels/cpu/isa/index_of.inc"
#include "kernels/cpu/isa/each_number.inc"

#define WF_TYPE_U8
#include "kernels/cpu/isa/element_type.h"

#include WF_LOOPS

#define LOOPS(tag)                                                                                 \
    {                                                                                              \
        find_in_line_##tag, find_in_columns_##tag                                                  \
    }

const struct wf_index_ofs WF_ISA_NAME(wf_index_ofs) = {.of = {[WEFT_F32] = LOOPS(f32),
                                                              [WEFT_F64] = LOOPS(f64),
                                                              [WEFT_BF16] = LOOPS(bf16),
                                                              [WEFT_F16] = LOOPS(f16),
                                                              [WEFT_I32] = LOOPS(i32),
                                                              [WEFT_I64] = LOOPS(i64),
                                                              [WEFT_U8] = LOOPS(u8),
                                                              [WEFT_BOOL] = LOOPS(u8)}};
