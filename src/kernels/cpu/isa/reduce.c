/* reduce.c: the loops of sum and max. */
#include "kernels/cpu/reductions/reduce.h"

#define WF_TYPE_F32
#include "kernels/cpu/isa/element_type.h"

#include "kernels/cpu/isa/reduce.inc"

#define WF_TYPE_F64
#include "kernels/cpu/isa/element_type.h"

#include "kernels/cpu/isa/reduce.inc"

#define WF_TYPE_BF16
#include "kernels/cpu/isa/element_type.h"

#include "kernels/cpu/isa/reduce.inc"

#define WF_TYPE_F16
#include "kernels/cpu/isa/element_type.h"

#include "kernels/cpu/isa/reduce.inc"

#define WF_TYPE_I32
#include "kernels/cpu/isa/element_type.h"

#include "kernels/cpu/isa/reduce.inc"

#define WF_TYPE_I64
#include "kernels/cpu/isa/element_type.h"

#include "kernels/cpu/isa/reduce.inc"

#define LOOPS(tag, op)                                                                             \
    {                                                                                              \
        op##_line_##tag, op##_columns_##tag, op##_start_##tag, op##_finish_##tag                   \
    }
#define ALL(op)                                                                                    \
    {                                                                                              \
        [WEFT_F32] = LOOPS(f32, op), [WEFT_F64] = LOOPS(f64, op), [WEFT_BF16] = LOOPS(bf16, op),   \
        [WEFT_F16] = LOOPS(f16, op), [WEFT_I32] = LOOPS(i32, op), [WEFT_I64] = LOOPS(i64, op)      \
    }

const struct wf_reductions WF_ISA_NAME(wf_reductions) = {.sum = ALL(sum), .max = ALL(max)};
