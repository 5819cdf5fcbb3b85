/* dtype.h: the one table of element types. */
#pragma once

#include <math.h>
#include <string.h>

#include <weft/dtype.h>
#include <weft/types.h>

struct wf_dtype_info {
    const char *name;
    uint8_t size;
    bool is_float;
    double (*load)(const void *element);
    void (*store)(void *element, double value);
};

extern const struct wf_dtype_info wf_dtypes[WEFT_DTYPE_COUNT];

/** Floats come first; tables that only floats have are of this size. */
enum { WF_FLOAT_DTYPES = WEFT_F16 + 1 };

static inline bool wf_dtype_is_float(unsigned dtype) { return dtype < WF_FLOAT_DTYPES; }

static inline bool wf_dtype_has_gradient(unsigned dtype)
{
    return wf_dtype_is_float(dtype) || dtype == WEFT_C64;
}

/** Floats that are computed in f32: sums of them are f32 until they are rounded, once. */
static inline bool wf_dtype_is_16_bit_float(unsigned dtype)
{
    return dtype == WEFT_BF16 || dtype == WEFT_F16;
}

/** Whether terms of this dtype that ranks hold can be reduced so: u8 and bool cannot at all, c64 is
 * only added up, and norms are of floats. */
static inline bool wf_dtype_can_reduce(unsigned dtype, weft_reduce reduce)
{
    if (dtype == WEFT_U8 || dtype == WEFT_BOOL) return false;
    if (dtype == WEFT_C64) return reduce == WEFT_SUM || reduce == WEFT_MASKED;
    return reduce != WEFT_NORM || wf_dtype_is_float(dtype);
}

typedef uint16_t wf_bf16;

static inline float wf_bf16_to_f32(wf_bf16 half)
{
    uint32_t bits = (uint32_t)half << 16;
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

/** Round to nearest even; NaN stays NaN. */
static inline wf_bf16 wf_f32_to_bf16(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (wf_bf16)((bits >> 16) | 0x40u);
    return (wf_bf16)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

/*
 * NOTE [f16]. f16 to f32 and back without a branch, so that loops around them become vectors on
 * every instruction set. They give the bits of the CPU's own instructions (F16C), those of NaN too:
 * f16 from f32 is rounded to nearest even, infinite from 65520 on, and subnormal below 2^-14.
 */
typedef uint16_t wf_f16;

static inline float wf_f16_to_f32(wf_f16 half)
{
    const uint32_t infinite = 0x7c00u << 13, rebias = (127u - 15u) << 23;
    uint32_t size = (uint32_t)(half & 0x7fffu) << 13, bits = size + rebias, tiny;
    float value;

    /* A subnormal's bits count steps of 2^-24: above 2^-14 f32 has steps of 2^-24 and more. */
    tiny = bits + (1u << 23);
    memcpy(&value, &tiny, sizeof value);
    value -= 0x1p-14f;
    memcpy(&tiny, &value, sizeof tiny);
    bits = size < 1u << 23 ? tiny : bits;
    bits |= size >= infinite ? 0x7f800000u : 0;
    bits |= size > infinite ? 0x00400000u : 0;
    bits |= (uint32_t)(half & 0x8000u) << 16;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline wf_f16 wf_f32_to_f16(float value)
{
    const uint32_t infinite = 0x7f800000u, rebias = (127u - 15u) << 23;
    uint32_t bits, size, tiny, half;
    float small;

    memcpy(&bits, &value, sizeof bits);
    size = bits & 0x7fffffffu;
    /* Beside 1/2 an f32 has steps of 2^-24, which are a subnormal's: the sum is rounded to them. */
    memcpy(&small, &size, sizeof small);
    small += 0.5f;
    memcpy(&tiny, &small, sizeof tiny);
    half = (size - rebias + 0xfffu + (size >> 13 & 1u)) >> 13;
    half = size < 0x38800000u ? tiny - 0x3f000000u : half;
    half = size >= 0x477ff000u ? 0x7c00u : half;
    half = size > infinite ? 0x7e00u | (size >> 13 & 0x3ffu) : half;
    return (wf_f16)((bits >> 16 & 0x8000u) | half);
}

/* Beyond the range the nearest integer, NaN 0: in C such a conversion is undefined. */
static inline int32_t wf_f64_to_i32(double value)
{
    if (value >= 0x1p31) return INT32_MAX;
    return value >= -0x1p31 ? (int32_t)value : isnan(value) ? 0 : INT32_MIN;
}

static inline int64_t wf_f64_to_i64(double value)
{
    if (value >= 0x1p63) return INT64_MAX;
    return value >= -0x1p63 ? (int64_t)value : isnan(value) ? 0 : INT64_MIN;
}
