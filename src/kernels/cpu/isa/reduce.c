/* reduce.c: the loops of sums, extremes, products, norms and the like. */
#include "kernels/cpu/reductions/reduce.h"

#include <math.h>
#include <string.h>

#include "base/elements/stream_copy.h"

#define WF_LOOPS "kernels/cpu/isa/reduce.inc"
#include "kernels/cpu/isa/each_number.inc"

#define WF_TYPE_U8
#include "kernels/cpu/isa/element_type.h"

#include WF_LOOPS

/* Counts are i64, of whatever elements. */
static void start_count(int64_t n, void *acc) { memset(acc, 0, (size_t)n * sizeof(int64_t)); }

static void finish_count(int64_t n, const void *acc, void *y, int64_t stride, double scale)
{
    (void)scale;
    for (int64_t j = 0; j < n; j++) ((int64_t *)y)[j * stride] = ((const int64_t *)acc)[j];
}

/* The least of no bool is true. */
static void start_min_of_bool(int64_t n, void *acc)
{
    for (int64_t j = 0; j < n; j++) ((int64_t *)acc)[j] = 1;
}

#define LOOPS(tag, op)                                                                             \
    {                                                                                              \
        op##_line_##tag, op##_lines_##tag, op##_columns_##tag, op##_start_##tag,                   \
            op##_finish_##tag, op##_finish_wide_##tag                                              \
    }
#define COUNT(tag)                                                                                 \
    {                                                                                              \
        count_line_##tag, count_lines_##tag, count_columns_##tag, start_count, finish_count,       \
            finish_count                                                                           \
    }
#define FLOATS(op)                                                                                 \
    {                                                                                              \
        [WEFT_F32] = LOOPS(f32, op), [WEFT_F64] = LOOPS(f64, op), [WEFT_BF16] = LOOPS(bf16, op),   \
        [WEFT_F16] = LOOPS(f16, op)                                                                \
    }
#define ALL(op)                                                                                    \
    {                                                                                              \
        [WEFT_F32] = LOOPS(f32, op), [WEFT_F64] = LOOPS(f64, op), [WEFT_BF16] = LOOPS(bf16, op),   \
        [WEFT_F16] = LOOPS(f16, op), [WEFT_I32] = LOOPS(i32, op), [WEFT_I64] = LOOPS(i64, op),     \
        [WEFT_U8] = LOOPS(u8, op), [WEFT_BOOL] = LOOPS(u8, op)                                     \
    }

const struct wf_reductions WF_ISA_NAME(wf_reductions) = {
    .sum = ALL(sum),
    .max = ALL(max),
    .min = {[WEFT_F32] = LOOPS(f32, min),
            [WEFT_F64] = LOOPS(f64, min),
            [WEFT_BF16] = LOOPS(bf16, min),
            [WEFT_F16] = LOOPS(f16, min),
            [WEFT_I32] = LOOPS(i32, min),
            [WEFT_I64] = LOOPS(i64, min),
            [WEFT_U8] = LOOPS(u8, min),
            [WEFT_BOOL] = {min_line_u8, min_lines_u8, min_columns_u8, start_min_of_bool,
                           min_finish_u8, min_finish_wide_u8}},
    .prod = ALL(prod),
    .count = {[WEFT_F32] = COUNT(f32),
              [WEFT_F64] = COUNT(f64),
              [WEFT_BF16] = COUNT(bf16),
              [WEFT_F16] = COUNT(f16),
              [WEFT_I32] = COUNT(i32),
              [WEFT_I64] = COUNT(i64),
              [WEFT_U8] = COUNT(u8),
              [WEFT_BOOL] = COUNT(u8)},
    .norm_0 = FLOATS(norm_0),
    .norm_1 = FLOATS(norm_1),
    .norm_2 = FLOATS(norm_2),
    .norm_most = FLOATS(norm_most),
    .norm_least = FLOATS(norm_least),
    .norm_p = FLOATS(norm_p),
    .deviation = FLOATS(deviation),
    .sum_exp = FLOATS(sum_exp),
};
