/* int_math.h: sizes cut and rounded, and the largest number that divides two. */
#pragma once

#include <stdint.h>

static inline int64_t wf_min_i64(int64_t x, int64_t limit) { return x < limit ? x : limit; }

/** How many units hold x, which is not negative. */
static inline int64_t wf_ceil_div(int64_t x, int64_t unit) { return (x + unit - 1) / unit; }

static inline int64_t wf_round_up(int64_t x, int64_t unit) { return wf_ceil_div(x, unit) * unit; }

/** The largest number that divides a and b; of 0 and b it is b. */
static inline int64_t wf_gcd(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}
