/*
 * integer_math.h: what pointwise.def's formulas give for integers where C leaves it open. A device
 * backend evaluates the same lines.
 */
#pragma once

#include <stdint.h>

/* By 0 to 0, and the smallest by -1 to itself: a kernel must not trap. */
#define WF_INTEGER_DIV(a, b) ((b) == 0 ? 0 : (b) == -1 ? -(a) : (a) / (b))
#define WF_INTEGER_DIV_FLOOR(a, b)                                                                 \
    (WF_INTEGER_DIV(a, b) - (WF_INTEGER_FMOD(a, b) != 0 && ((a) < 0) != ((b) < 0)))
#define WF_INTEGER_FMOD(a, b) ((b) == 0 || (b) == -1 ? 0 : (a) % (b))

/* By as many bits as there are, or by a negative number: as by very many. */
#define WF_INTEGER_SHIFT_LEFT(type, a, b)                                                          \
    ((b) < 0 || (b) >= 8 * (int)sizeof(a) ? 0 : (type)((uint64_t)(a) << (b)))
#define WF_INTEGER_SHIFT_RIGHT(a, b)                                                               \
    ((b) < 0 || (b) >= 8 * (int)sizeof(a) ? ((a) < 0 ? -1 : 0) : (a) >> (b))

/** Whole powers by squaring; a negative exponent gives what truncation of the real value gives. */
static inline int64_t pow_i64(int64_t x, int64_t y)
{
    int64_t value = 1;

    if (y < 0) return x == 1 ? 1 : x == -1 ? (y & 1 ? -1 : 1) : 0;
    for (; y > 0; y >>= 1, x *= x)
        if (y & 1) value *= x;
    return value;
}
