/* cast_where_fill.c: cast between any two dtypes; where and fill by element size. */
#include "kernels/cpu/pointwise/pointwise.h"

#define WF_TYPE_F32
#include "kernels/cpu/isa/element_type.h"

#define CAST(from, from_type, load, to, to_type, store)                                            \
    static void cast_##from##_##to(int64_t n, void *out, const void *const *in,                    \
                                   const struct wf_scalars *scalars)                               \
    {                                                                                              \
        const from_type *x = in[0];                                                                \
        to_type *y = out;                                                                          \
                                                                                                   \
        (void)scalars;                                                                             \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++) y[i] = store(load(x[i]));              \
    }

#define SAME(e) (e)
#define AS_F32(v) ((float)(v))
#define AS_F64(v) ((double)(v))
#define AS_BF16(v) bf16_from_f32((float)(v))
#define AS_F16(v) wf_f32_to_f16((float)(v))
#define AS_BOOL(v) ((uint8_t)((v) != 0))

#define CAST_FROM(from, from_type, load, to_i32, to_i64)                                           \
    CAST(from, from_type, load, f32, float, AS_F32)                                                \
    CAST(from, from_type, load, f64, double, AS_F64)                                               \
    CAST(from, from_type, load, bf16, wf_bf16, AS_BF16)                                            \
    CAST(from, from_type, load, f16, wf_f16, AS_F16)                                               \
    CAST(from, from_type, load, i32, int32_t, to_i32)                                              \
    CAST(from, from_type, load, i64, int64_t, to_i64)                                              \
    CAST(from, from_type, load, u8, uint8_t, (uint8_t)to_i32)                                      \
    CAST(from, from_type, load, bool, uint8_t, AS_BOOL)                                            \
    CAST(from, from_type, load, i16, int16_t, (int16_t)to_i32)                                     \
    CAST(from, from_type, load, i8, int8_t, (int8_t)to_i32)

/* Where the machine has instructions for f16, which give the same bits, they do what is more than a
 * few elements. */
#ifdef __F16C__
#include <immintrin.h>
#define cast_f16_f32 cast_f16_f32_rest
#define cast_f32_f16 cast_f32_f16_rest
#endif

CAST_FROM(f32, float, SAME, wf_f64_to_i32, wf_f64_to_i64)
CAST_FROM(f64, double, SAME, wf_f64_to_i32, wf_f64_to_i64)
CAST_FROM(bf16, wf_bf16, wf_bf16_to_f32, wf_f64_to_i32, wf_f64_to_i64)
CAST_FROM(f16, wf_f16, wf_f16_to_f32, wf_f64_to_i32, wf_f64_to_i64)
CAST_FROM(i32, int32_t, SAME, (int32_t), (int64_t))
CAST_FROM(i64, int64_t, SAME, (int32_t), (int64_t))
CAST_FROM(u8, uint8_t, SAME, (int32_t), (int64_t))
CAST_FROM(i16, int16_t, SAME, (int32_t), (int64_t))
CAST_FROM(i8, int8_t, SAME, (int32_t), (int64_t))

#ifdef __F16C__
#undef cast_f16_f32
#undef cast_f32_f16

static void cast_f16_f32(int64_t n, void *out, const void *const *in,
                         const struct wf_scalars *scalars)
{
    const wf_f16 *x = in[0];
    float *y = out;
    int64_t i = 0;

    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(y + i,
                         _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(x + i))));
    cast_f16_f32_rest(n - i, y + i, (const void *const[]){x + i}, scalars);
}

static void cast_f32_f16(int64_t n, void *out, const void *const *in,
                         const struct wf_scalars *scalars)
{
    const float *x = in[0];
    wf_f16 *y = out;
    int64_t i = 0;

    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(void *)(y + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
    cast_f32_f16_rest(n - i, y + i, (const void *const[]){x + i}, scalars);
}
#endif

#define WHERE(bytes, type)                                                                         \
    static void where_##bytes(int64_t n, void *out, const void *const *in,                         \
                              const struct wf_scalars *scalars)                                    \
    {                                                                                              \
        const uint8_t *condition = in[0];                                                          \
        const type *a = in[1], *b = in[2];                                                         \
        type *y = out;                                                                             \
                                                                                                   \
        (void)scalars;                                                                             \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++)                                        \
        {                                                                                          \
            type u = a[i], v = b[i];                                                               \
            y[i] = condition[i] ? u : v;                                                           \
        }                                                                                          \
    }

#define FILL(bytes, type)                                                                          \
    static void fill_##bytes(int64_t n, void *out, const void *const *in,                          \
                             const struct wf_scalars *scalars)                                     \
    {                                                                                              \
        const type value = *(const type *)in[0];                                                   \
        type *y = out;                                                                             \
                                                                                                   \
        (void)scalars;                                                                             \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++) y[i] = value;                          \
    }

WHERE(1, uint8_t)
WHERE(2, uint16_t)
WHERE(4, uint32_t)
WHERE(8, uint64_t)
FILL(1, uint8_t)
FILL(2, uint16_t)
FILL(4, uint32_t)
FILL(8, uint64_t)

#define CASTS(from)                                                                                \
    {                                                                                              \
        [WEFT_F32] = cast_##from##_f32, [WEFT_F64] = cast_##from##_f64,                            \
        [WEFT_BF16] = cast_##from##_bf16, [WEFT_F16] = cast_##from##_f16,                          \
        [WEFT_I32] = cast_##from##_i32, [WEFT_I64] = cast_##from##_i64,                            \
        [WEFT_U8] = cast_##from##_u8, [WEFT_BOOL] = cast_##from##_bool,                            \
        [WEFT_I16] = cast_##from##_i16, [WEFT_I8] = cast_##from##_i8,                              \
    }

const struct wf_cast_where_fill_loops WF_ISA_NAME(wf_cast_where_fill_loops) = {
    .cast = {[WEFT_F32] = CASTS(f32),
             [WEFT_F64] = CASTS(f64),
             [WEFT_BF16] = CASTS(bf16),
             [WEFT_F16] = CASTS(f16),
             [WEFT_I32] = CASTS(i32),
             [WEFT_I64] = CASTS(i64),
             [WEFT_U8] = CASTS(u8),
             [WEFT_BOOL] = CASTS(u8),
             [WEFT_I16] = CASTS(i16),
             [WEFT_I8] = CASTS(i8)},
    .where = {[1] = where_1, [2] = where_2, [4] = where_4, [8] = where_8},
    .fill = {[1] = fill_1, [2] = fill_2, [4] = fill_4, [8] = fill_8},
};
