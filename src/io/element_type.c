/* element_type.c: numbers go through f64 or i64, a block at a time; equal types are copied. */
#include "io/element_type.h"

#include <string.h>

#include "base/elements/dtype.h"

enum { BLOCK = 256 };

typedef void load_real(double *out, const char *from, int64_t stride, int64_t n);
typedef bool load_integer(int64_t *out, const char *from, int64_t stride, int64_t n);

#define LOAD_REAL(name, type, value)                                                               \
    static void real_##name(double *out, const char *from, int64_t stride, int64_t n)              \
    {                                                                                              \
        for (int64_t i = 0; i < n; i++) {                                                          \
            type x;                                                                                \
            memcpy(&x, from + i * stride, sizeof x);                                               \
            out[i] = (double)(value);                                                              \
        }                                                                                          \
    }
#define LOAD_INTEGER(name, type, fits)                                                             \
    static bool integer_##name(int64_t *out, const char *from, int64_t stride, int64_t n)          \
    {                                                                                              \
        bool all = true;                                                                           \
        for (int64_t i = 0; i < n; i++) {                                                          \
            type x;                                                                                \
            memcpy(&x, from + i * stride, sizeof x);                                               \
            all = all && (fits);                                                                   \
            out[i] = (int64_t)x;                                                                   \
        }                                                                                          \
        return all;                                                                                \
    }

LOAD_REAL(f16, wf_f16, wf_f16_to_f32(x))
LOAD_REAL(bf16, wf_bf16, wf_bf16_to_f32(x))
LOAD_REAL(f32, float, x)
LOAD_REAL(f64, double, x)
LOAD_INTEGER(bool, uint8_t, x <= 1)
LOAD_INTEGER(u8, uint8_t, true)
LOAD_INTEGER(i8, int8_t, true)
LOAD_INTEGER(i16, int16_t, true)
LOAD_INTEGER(u16, uint16_t, true)
LOAD_INTEGER(i32, int32_t, true)
LOAD_INTEGER(u32, uint32_t, true)
LOAD_INTEGER(i64, int64_t, true)
LOAD_INTEGER(u64, uint64_t, x <= INT64_MAX)

static const struct row {
    struct wf_element_type_info type;
    load_real *real; /* one of the two, or none: known by size only */
    load_integer *integer;
} rows[] = {
#define REAL(text, size, load)                                                                     \
    {                                                                                              \
        {text, 8 * (size), size, true, false}, load, NULL                                          \
    }
#define INTEGER(text, size, load)                                                                  \
    {                                                                                              \
        {text, 8 * (size), size, true, true}, NULL, load                                           \
    }
#define UNREAD(text, size_bits, align)                                                             \
    {                                                                                              \
        {text, size_bits, align, false, false}, NULL, NULL                                         \
    }
    INTEGER("BOOL", 1, integer_bool), INTEGER("U8", 1, integer_u8),
    INTEGER("I8", 1, integer_i8),     INTEGER("I16", 2, integer_i16),
    INTEGER("U16", 2, integer_u16),   INTEGER("I32", 4, integer_i32),
    INTEGER("U32", 4, integer_u32),   INTEGER("I64", 8, integer_i64),
    INTEGER("U64", 8, integer_u64),   REAL("F16", 2, real_f16),
    REAL("BF16", 2, real_bf16),       REAL("F32", 4, real_f32),
    REAL("F64", 8, real_f64),         UNREAD("C64", 64, 8),
    UNREAD("F8_E4M3", 8, 1),          UNREAD("F8_E5M2", 8, 1),
    UNREAD("F8_E8M0", 8, 1),          UNREAD("F8_E4M3FNUZ", 8, 1),
    UNREAD("F8_E5M2FNUZ", 8, 1),      UNREAD("F4", 4, 1),
    UNREAD("F6_E2M3", 6, 1),          UNREAD("F6_E3M2", 6, 1),
};

enum { ROWS = sizeof rows / sizeof rows[0] };

int wf_element_type_by_name(const char *name)
{
    for (int i = 0; i < ROWS; i++)
        if (strcmp(rows[i].type.name, name) == 0) return i;
    return -1;
}

const struct wf_element_type_info *wf_element_type_info(int type) { return &rows[type].type; }

int wf_element_type_of_dtype(weft_dtype dtype)
{
    static const char *const names[WEFT_DTYPE_COUNT] = {
        [WEFT_F32] = "F32", [WEFT_F64] = "F64", [WEFT_BF16] = "BF16", [WEFT_F16] = "F16",
        [WEFT_I32] = "I32", [WEFT_I64] = "I64", [WEFT_U8] = "U8",     [WEFT_BOOL] = "BOOL",
        [WEFT_I16] = "I16", [WEFT_I8] = "I8",   [WEFT_C64] = "C64"};

    return wf_element_type_by_name(names[dtype]);
}

bool wf_element_type_converts_to(int type, weft_dtype dtype)
{
    const struct wf_element_type_info *from = wf_element_type_info(type);

    if (type == wf_element_type_of_dtype(dtype)) return true;
    return from->readable && dtype != WEFT_BOOL && dtype != WEFT_C64 &&
           (from->is_integer || weft_dtype_is_float(dtype));
}

static void store_real_as_dtype(void *to, weft_dtype dtype, const double *from)
{
    float narrow = (float)*from;
    uint16_t half;

    if (dtype == WEFT_F64) {
        memcpy(to, from, sizeof *from);
    } else if (dtype == WEFT_F32) {
        memcpy(to, &narrow, sizeof narrow);
    } else {
        half = dtype == WEFT_BF16 ? wf_f32_to_bf16(narrow) : wf_f32_to_f16(narrow);
        memcpy(to, &half, sizeof half);
    }
}

static bool store_integer_as_dtype(void *to, weft_dtype dtype, int64_t value)
{
    int32_t word = (int32_t)value;
    int16_t half = (int16_t)value;
    int8_t small = (int8_t)value;
    uint8_t byte = (uint8_t)value;

    switch (dtype) {
    case WEFT_I64:
        memcpy(to, &value, sizeof value);
        return true;
    case WEFT_I32:
        memcpy(to, &word, sizeof word);
        return value == word;
    case WEFT_I16:
        memcpy(to, &half, sizeof half);
        return value == half;
    case WEFT_I8:
        memcpy(to, &small, sizeof small);
        return value == small;
    default:
        memcpy(to, &byte, sizeof byte);
        return value == byte;
    }
}

/* At most BLOCK numbers. */
static bool convert_element_block(char *to, weft_dtype dtype, int64_t to_stride, const char *from,
                                  const struct row *row, int64_t from_stride, int64_t n)
{
    int64_t whole[BLOCK];
    double real[BLOCK];
    bool ok = true;

    if (row->real) row->real(real, from, from_stride, n);
    if (row->integer) ok = row->integer(whole, from, from_stride, n);
    if (!weft_dtype_is_float(dtype)) {
        for (int64_t i = 0; i < n; i++)
            ok &= store_integer_as_dtype(to + i * to_stride, dtype, whole[i]);
        return ok;
    }
    for (int64_t i = 0; i < n; i++) {
        double value = row->real ? real[i] : (double)whole[i];

        store_real_as_dtype(to + i * to_stride, dtype, &value);
    }
    return ok;
}

bool wf_elements_convert(void *to, weft_dtype dtype, int64_t to_stride, const void *from, int type,
                         int64_t from_stride, int64_t n)
{
    int64_t size = (int64_t)weft_dtype_size(dtype);
    bool ok = true;

    if (type == wf_element_type_of_dtype(dtype) && dtype != WEFT_BOOL) {
        if (to_stride == size && from_stride == size) {
            memcpy(to, from, (size_t)(n * size));
            return true;
        }
        for (int64_t i = 0; i < n; i++)
            memcpy((char *)to + i * to_stride, (const char *)from + i * from_stride, (size_t)size);
        return true;
    }
    for (int64_t i = 0; i < n; i += BLOCK)
        ok &= convert_element_block((char *)to + i * to_stride, dtype, to_stride,
                                    (const char *)from + i * from_stride, &rows[type], from_stride,
                                    n - i < BLOCK ? n - i : BLOCK);
    return ok;
}
