/* integer_products.h: of integers there is a matmul, and no linear. */
#pragma once

#include <stdbool.h>

#include <weft/dtype.h>

static inline bool wf_is_integer_product(weft_dtype dtype)
{
    return dtype == WEFT_I32 || dtype == WEFT_I64;
}
