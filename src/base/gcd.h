/* gcd.h: the largest number that divides two. */
#pragma once

#include <stdint.h>

/** Of 0 and b it is b. */
static inline int64_t wf_gcd(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}
