/*
 * bf16_functions.h: what pointwise loops of bf16 do otherwise than those of f32: fewer terms, right
 * to 2^-14 where bf16 has 2^-9, and a shorter rounding. Coefficients: tools/fit_vmath.py.
 */
#pragma once

#include "kernels/cpu/isa/pointwise/mills_for_bf16.h"
#include "kernels/cpu/isa/vmath.h"

/** Round to nearest even. What is no number comes from bf16 here, so that its lower bits are 0, and
 * stays one; a scalar is made so by bf16_scalar. */
static inline wf_bf16 bf16_from_computed(float value)
{
    uint32_t bits = bits_f32(value);
    uint16_t upper = (uint16_t)(bits >> 16), lower = (uint16_t)bits;

    return (wf_bf16)(upper + (lower > (uint16_t)(0x8000u - (upper & 1u))));
}

/** The same of two, as neighbours in memory. */
static inline uint32_t bf16_pair(float first, float second)
{
    uint32_t low = bits_f32(first), high = bits_f32(second);

    low += 0x7fffu + (low >> 16 & 1u);
    high += 0x7fffu + (high >> 16 & 1u);
    return low >> 16 | (high & 0xffff0000u);
}

static inline float bf16_scalar(double v) { return v != v ? (float)NAN : (float)v; }

/** order_of_bits of both. */
enum { ORDER_OF_MINUS_INFINITY = -0x7f81, ORDER_OF_INFINITY = 0x7f80 };

/** Values less than v are those of an order less than this; there are none where v is no number. */
static inline int16_t bf16_order_ceil(double number)
{
    float v = bf16_scalar(number);
    wf_bf16 near = bf16_from_computed(v);

    if (v != v) return ORDER_OF_MINUS_INFINITY;
    if (v == 0) return -1; /* both zeros are no less */
    return (int16_t)(order_of_bits(near) + (wf_bf16_to_f32(near) < v));
}

/** Values greater than v are those of an order greater than this. */
static inline int16_t bf16_order_floor(double number)
{
    float v = bf16_scalar(number);
    wf_bf16 near = bf16_from_computed(v);

    if (v != v) return ORDER_OF_INFINITY;
    if (v == 0) return 0;
    return (int16_t)(order_of_bits(near) - (wf_bf16_to_f32(near) > v));
}

/** e^x for x <= 0, 0 below 2^-126. */
static inline float exp_for_bf16(float x)
{
    float y = x < -87.0f ? -87.0f : x, shifted, r, p;

    r = reduce_f32(y, 0, &shifted);
    p = 0.0417920112f;
    p = p * r + 0.167419137f;
    p = p * r + 0.5f;
    p = 1.0f + (r + r * r * p);
    p = real_f32(bits_f32(p) + (bits_f32(shifted) << 23)); /* the lower bits are the exponent's */
    return x < -87.0f ? 0.0f : p;
}

static inline float gauss_for_bf16(float x) { return exp_for_bf16(-0.5f * x * x); }

/** As normcdf_f32; NaN gives a number, which what it is multiplied by makes NaN again. */
static inline float normcdf_for_bf16(float x)
{
    /* The lesser of |x| and 14.5 by their bits, as in gelu.h. */
    uint32_t size = bits_f32(x) & 0x7fffffffu;
    float t = real_f32(size < 0x41680000u ? size : 0x41680000u), w = 1.0f / (t + 3.0f);
    float p = gauss_for_bf16(x) * w * mills_for_bf16((t - 3.0f) * w);

    return x > 0 ? 1.0f - p : p;
}

/** x times a polynomial of x^2; from 2.75 on 0.9999, which bf16 rounds to 1. */
static inline float erf_for_bf16(float x)
{
    const uint32_t bits = bits_f32(x), size = bits & 0x7fffffffu, most = 0x40300000u; /* 2.75 */
    const float t = real_f32(size < most ? size : most), z = t * t;
    float p = 7.84735096e-8f;

    p = p * z - 3.17089141e-6f;
    p = p * z + 5.74356727e-5f;
    p = p * z - 6.26808407e-4f;
    p = p * z + 0.00470016713f;
    p = p * z - 0.0261570935f;
    p = p * z + 0.112341448f;
    p = p * z - 0.375989287f;
    p = p * z + 1.1283728f;
    return x != x ? x : real_f32(bits_f32(t * p) | (bits & 0x80000000u));
}

/** log x, without a division. */
static inline float log_for_bf16(float x)
{
    float e, f = log_parts_f32(x, &e), p = -0.140233902f;

    p = p * f + 0.219675339f;
    p = p * f - 0.254335476f;
    p = p * f + 0.332657843f;
    p = p * f - 0.49989468f;
    p = p * f + 1.00000375f;
    return log_or_limit_f32(x, e * 0.693147181f + f * p);
}

static inline float logit_for_bf16(float p) { return log_for_bf16(p / (1.0f - p)); }

static inline float dgelu_for_bf16(float x)
{
    return normcdf_for_bf16(x) + x * 0.39894228f * gauss_for_bf16(x);
}
