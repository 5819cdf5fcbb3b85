/* dtype.h: element types. One table in src/base/elements/dtype.c holds size, name and conversions.
 * What is none has size 0, the name "unknown", and is no float. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/export.h>

typedef enum weft_dtype {
    WEFT_F32,
    WEFT_F64,
    WEFT_BF16, /* upper half of an f32; arithmetic is done in f32 and rounded to nearest even */
    WEFT_F16,  /* IEEE half; arithmetic as for bf16. What is 65520 or more becomes infinite */
    WEFT_I32,
    WEFT_I64,
    WEFT_U8,
    WEFT_BOOL, /* one byte, 0 or 1 */
    WEFT_I16,  /* this and the next: integers that wrap, as all do; computed in i32 */
    WEFT_I8,
    WEFT_C64, /* a complex number of two f32, the real part first (weft/complex.h says what takes
                 it); it carries a gradient */
    WEFT_DTYPE_COUNT
} weft_dtype;

/** Bytes of one element. ranks: any; local */
WEFT_API size_t weft_dtype_size(weft_dtype dtype);

/** "f32", "bf16", ... ranks: any; local */
WEFT_API const char *weft_dtype_name(weft_dtype dtype);

/** True for f32, f64, bf16 and f16: real numbers that can carry a gradient. ranks: any; local */
WEFT_API bool weft_dtype_is_float(weft_dtype dtype);
