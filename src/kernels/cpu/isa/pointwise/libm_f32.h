/*
 * libm_f32.h: functions of f32 that the C library's vectors (libm_vectors.h) have with errors of
 * more than 2 ulp, within 2 here. Coefficients: tools/fit_vmath.py.
 */
#pragma once

#include "kernels/cpu/isa/vmath.h"

/** asin(s) = s + s z P(z) for z = s^2 <= 1/4. */
static inline float asin_tail_f32(float z)
{
    float p = 0.03369084729f;

    p = p * z + 0.0171492383f;
    p = p * z + 0.03110066275f;
    p = p * z + 0.04459940153f;
    p = p * z + 0.07500094544f;
    p = p * z + 0.1666666634f;
    return p;
}

/** Beyond 1/2 by asin(x) = pi / 2 - 2 asin(sqrt((1 - x) / 2)). */
static inline float asin_f32(float x)
{
    float size = fabsf(x);
    float z = size > 0.5f ? 0.5f - 0.5f * size : x * x, s = size > 0.5f ? sqrtf(z) : size;
    float y = s + s * (z * asin_tail_f32(z));

    y = size > 0.5f ? 1.57079637f - (2 * y + 4.37113883e-8f) : y;
    return copysignf(y, x);
}

/** e^x, -80 <= x <= 0. */
static inline float exp_near_0_f32(float x)
{
    float shifted, r = reduce_f32(x, 0, &shifted), p = 1.0f + (r + r * r * exp_tail_f32(r));

    p = real_f32(bits_f32(p) + (bits_f32(shifted) << 23)); /* the lower bits are the exponent's */
    return p + (x - x);                                    /* NaN stays */
}

/** To 1 an odd polynomial, beyond it 1 - e^(x Q(x)), which is 1 from 4 on. */
static inline float erf_f32(float x)
{
    float size = fabsf(x), z = x * x, t = size > 4.0f ? 4.0f : size, near, far;
    float p = 8.379755579e-5f, q = 2.536835421e-7f;

    p = p * z - 8.161986539e-4f;
    p = p * z + 0.005204578779f;
    p = p * z - 0.02686169995f;
    p = p * z + 0.1128375366f;
    p = p * z - 0.3761263838f;
    near = size + size * (z * p + 0.12837916709551257f);
    q = q * t - 4.008121932e-6f;
    q = q * t + 8.45070498e-6f;
    q = q * t + 2.976047372e-4f;
    q = q * t - 0.003732554641f;
    q = q * t + 0.02413886044f;
    q = q * t - 0.1068022087f;
    q = q * t - 0.634756031f;
    q = q * t - 1.128755852f;
    far = 1 - exp_near_0_f32(t * q);
    near = size < 1.0f ? near : far;
    return copysignf(near, x);
}

/** log x in two terms of log10 e. */
static inline float log10_f32(float x)
{
    float y = log_of_number_f32(x);

    return log_or_limit_f32(x, y * 0.43429449200630188f + y * -1.00979e-8f);
}

/** Of large numbers too: the C library's vectors of double, rounded. */
static inline float tan_f32(float x) { return (float)tan((double)x); }

#ifdef FP_FAST_FMAF
#define WF_TAN_LIMIT 8192.0f
enum { TAN_BLOCK = 256 };

/** For |x| < WF_TAN_LIMIT, within 1.4 ulp: x less n quarter turns is r + low; the sine of that over
 *  its cosine, or less its cosine over its sine. Sine and cosine are sums of two numbers too. */
static inline float tan_below_limit_f32(float x)
{
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds */
    const float shifted = fmaf(x, 0.636619747f, magic), n = shifted - magic;
    const float first = fmaf(n, -1.57079637f, x), r = fmaf(n, 4.37113883e-8f, first), z = r * r;
    /* The rounding error of r; near a zero or a pole it is less than what its subtraction loses. */
    const float error = fabsf(first) > fabsf(n) * 1e-7f ? fmaf(n, 4.37113883e-8f, first - r) : 0;
    const float low = fmaf(n, 1.71512451e-15f, error), cosine_start = fmaf(z, -0.5f, 1.0f);
    float p = -1.95832807e-4f, q = 2.45434549e-5f, sine, sine_low, cosine, cosine_low;
    float numerator, numerator_low, denominator, denominator_low, inverse, y, residual;
    uint32_t odd = bits_f32(shifted) & 1;

    p = p * z + 0.00833271444f;
    p = p * z - 0.166666642f;
    p = fmaf(r * z, p, low);
    sine = r + p;
    sine_low = (r - sine) + p;
    q = q * z - 0.00138882699f;
    q = q * z + 0.0416666642f;
    q = fmaf(z * z, q, fmaf(z, -0.5f, 1.0f - cosine_start));
    cosine = cosine_start + q;
    cosine_low = (cosine_start - cosine) + q;
    numerator = odd ? -cosine : sine;
    numerator_low = odd ? -cosine_low : sine_low;
    denominator = odd ? sine : cosine;
    denominator_low = odd ? sine_low : cosine_low;
    inverse = 1.0f / denominator;
    y = numerator * inverse;
    residual = fmaf(-y, denominator_low, fmaf(-y, denominator, numerator) + numerator_low);
    y = fmaf(residual, inverse, y);
    /* -0 stays, though kernels are compiled without regard to a zero's sign. */
    return real_f32(bits_f32(x) << 1 ? bits_f32(y) : bits_f32(x));
}

/** y = tan(x), n elements, whole vectors; y may be x. An element's bits do not depend on those
 *  beside it. */
static inline void tan_by_blocks_f32(int64_t n, float *y, const float *x)
{
    for (int64_t m; n > 0; n -= m, x += m, y += m) {
        uint32_t largest = 0; /* magnitude, by its bits */

        m = n < TAN_BLOCK ? n : TAN_BLOCK;
        for (int64_t i = 0; i < m; i++) {
            uint32_t magnitude = bits_f32(x[i]) & 0x7fffffffu;

            largest = magnitude > largest ? magnitude : largest;
        }
        if (largest < bits_f32(WF_TAN_LIMIT)) {
            _Pragma("omp simd") for (int64_t i = 0; i < m; i++) y[i] = tan_below_limit_f32(x[i]);
        } else {
            _Pragma("omp simd") for (int64_t i = 0; i < m; i++)
            {
                float below_limit = tan_below_limit_f32(x[i]), any_size = tan_f32(x[i]);

                y[i] = fabsf(x[i]) < WF_TAN_LIMIT ? below_limit : any_size;
            }
        }
    }
}
#endif
