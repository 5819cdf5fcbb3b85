/*
 * float_key.h: integers in the order of floats, for those who can compare integers and lose a NaN
 * among floats. A NaN is beyond all others, at the end that is asked for. Compiled for GPUs too.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline int32_t wf_key_of_f32(float x, bool nan_is_largest)
{
    int32_t bits;

    if (x != x) return nan_is_largest ? INT32_MAX : INT32_MIN;
    memcpy(&bits, &x, sizeof bits);
    return bits >= 0 ? bits : bits ^ INT32_MAX; /* negative ones are in falling order */
}

/** Both keys of a NaN are the bits of one. */
static inline float wf_f32_of_key(int32_t key)
{
    int32_t bits = key >= 0 ? key : key ^ INT32_MAX;
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline int64_t wf_key_of_f64(double x, bool nan_is_largest)
{
    int64_t bits;

    if (x != x) return nan_is_largest ? INT64_MAX : INT64_MIN;
    memcpy(&bits, &x, sizeof bits);
    return bits >= 0 ? bits : bits ^ INT64_MAX;
}

static inline double wf_f64_of_key(int64_t key)
{
    int64_t bits = key >= 0 ? key : key ^ INT64_MAX;
    double x;

    memcpy(&x, &bits, sizeof x);
    return x;
}
