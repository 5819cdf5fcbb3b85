/* dtype.h: the one table of element types. */
#pragma once

#include <math.h>
#include <string.h>

#include <weft/dtype.h>

struct wf_dtype_info {
    const char *name;
    uint8_t size;
    bool is_float;
    double (*load)(const void *element);
    void (*store)(void *element, double value);
};

extern const struct wf_dtype_info wf_dtypes[WEFT_DTYPE_COUNT];

/** Floats come first; tables that only floats have are of this size. */
enum { WF_FLOAT_DTYPES = WEFT_BF16 + 1 };

static inline bool wf_dtype_is_float(unsigned dtype) { return dtype < WF_FLOAT_DTYPES; }

/** Floats that are computed in f32: sums of them are f32 until they are rounded, once. */
static inline bool wf_dtype_is_16_bit_float(unsigned dtype) { return dtype == WEFT_BF16; }

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
