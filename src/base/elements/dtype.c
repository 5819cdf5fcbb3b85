/* dtype.c: sizes, names and conversions of element types. i64 beyond 2^53 loses bits in load(). */
#include "base/elements/dtype.h"

#define LOAD_STORE(tag, type, narrow)                                                              \
    static double load_##tag(const void *element)                                                  \
    {                                                                                              \
        type value;                                                                                \
                                                                                                   \
        memcpy(&value, element, sizeof value);                                                     \
        return (double)value;                                                                      \
    }                                                                                              \
    static void store_##tag(void *element, double value)                                           \
    {                                                                                              \
        type stored = (type)narrow(value);                                                         \
                                                                                                   \
        memcpy(element, &stored, sizeof stored);                                                   \
    }

LOAD_STORE(f32, float, (float))
LOAD_STORE(f64, double, (double))
LOAD_STORE(i32, int32_t, wf_f64_to_i32)
LOAD_STORE(i64, int64_t, wf_f64_to_i64)
LOAD_STORE(u8, uint8_t, wf_f64_to_i32)
LOAD_STORE(i16, int16_t, wf_f64_to_i32)
LOAD_STORE(i8, int8_t, wf_f64_to_i32)

static double load_bf16(const void *element)
{
    wf_bf16 half;

    memcpy(&half, element, sizeof half);
    return (double)wf_bf16_to_f32(half);
}

static void store_bf16(void *element, double value)
{
    wf_bf16 half = wf_f32_to_bf16((float)value);

    memcpy(element, &half, sizeof half);
}

static double load_f16(const void *element)
{
    wf_f16 half;

    memcpy(&half, element, sizeof half);
    return (double)wf_f16_to_f32(half);
}

static void store_f16(void *element, double value)
{
    wf_f16 half = wf_f32_to_f16((float)value);

    memcpy(element, &half, sizeof half);
}

/* The real part; of what is stored the other is 0. */
static double load_c64(const void *element) { return load_f32(element); }

static void store_c64(void *element, double value)
{
    store_f32(element, value);
    store_f32((char *)element + sizeof(float), 0);
}

static void store_bool(void *element, double value) { *(uint8_t *)element = value != 0; }

const struct wf_dtype_info wf_dtypes[WEFT_DTYPE_COUNT] = {
    [WEFT_F32] = {"f32", 4, true, load_f32, store_f32},
    [WEFT_F64] = {"f64", 8, true, load_f64, store_f64},
    [WEFT_BF16] = {"bf16", 2, true, load_bf16, store_bf16},
    [WEFT_F16] = {"f16", 2, true, load_f16, store_f16},
    [WEFT_I32] = {"i32", 4, false, load_i32, store_i32},
    [WEFT_I64] = {"i64", 8, false, load_i64, store_i64},
    [WEFT_U8] = {"u8", 1, false, load_u8, store_u8},
    [WEFT_BOOL] = {"bool", 1, false, load_u8, store_bool},
    [WEFT_I16] = {"i16", 2, false, load_i16, store_i16},
    [WEFT_I8] = {"i8", 1, false, load_i8, store_i8},
    [WEFT_C64] = {"c64", 8, false, load_c64, store_c64},
};

static bool is_dtype(weft_dtype dtype) { return (unsigned)dtype < WEFT_DTYPE_COUNT; }

size_t weft_dtype_size(weft_dtype dtype) { return is_dtype(dtype) ? wf_dtypes[dtype].size : 0; }

const char *weft_dtype_name(weft_dtype dtype)
{
    return is_dtype(dtype) ? wf_dtypes[dtype].name : "unknown";
}

bool weft_dtype_is_float(weft_dtype dtype) { return is_dtype(dtype) && wf_dtypes[dtype].is_float; }
