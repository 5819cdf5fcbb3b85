/* scan.c: the loops of scans. */
#include "kernels/cpu/reductions/scan.h"

#include <stddef.h>

#define WF_LOOPS "kernels/cpu/isa/scan.inc"
#include "kernels/cpu/isa/each_number.inc"

#define LOOPS(op, tag)                                                                             \
    {                                                                                              \
        op##_rows_##tag, op##_columns_##tag                                                        \
    }
#define FLOATS(op)                                                                                 \
    [WEFT_F32] = LOOPS(op, f32), [WEFT_F64] = LOOPS(op, f64), [WEFT_BF16] = LOOPS(op, bf16),       \
    [WEFT_F16] = LOOPS(op, f16)
#define ALL(op)                                                                                    \
    {                                                                                              \
        FLOATS(op), [WEFT_I32] = LOOPS(op, i32), [WEFT_I64] = LOOPS(op, i64)                       \
    }

const struct wf_scans WF_ISA_NAME(wf_scans) = {
    .cumsum = ALL(cumsum),
    .cumsum_back = ALL(cumsum_back),
    .cumprod = ALL(cumprod),
    .cumprod_grad = {FLOATS(cumprod_grad)},
    .linear_scan = {FLOATS(linear_scan)},
    .linear_scan_grad = {FLOATS(linear_scan_grad)},
};
