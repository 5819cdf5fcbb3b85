/*
 * gelu.h: x Phi(x); of f32 within 2 ulp, without branches, so that loops around it vectorise.
 * Coefficients: tools/fit_vmath.py. What rounding takes from a step is added in a later one, by
 * fused products; where the instruction set has none it is computed in f64. With AVX-512 the loop
 * of f32 is gelu_avx512.h's instead.
 */
#pragma once

#include <math.h>

#include "kernels/cpu/isa/vmath.h"

#ifdef FP_FAST_FMAF
/** e^(t^2 / 2) Phi(-t) (t + 2.5) / 2 of q + rest = t / (t + 2.5), 0 <= t <= 14.5, and what is to be
 * added. */
static inline float gelu_tail_f32(float q, float rest, float *added)
{
    float x = (q - 0.421875f) + rest, p = -0.0410928428f, sum;

    p = p * x - 0.0114804571f;
    p = p * x + 0.0601600558f;
    p = p * x + 0.0516065247f;
    p = p * x - 0.0570235774f;
    p = p * x - 0.114509903f;
    p = p * x + 0.0756403729f;
    p = p * x + 0.250679046f;
    p = p * x - 0.47401759f;
    sum = fmaf(p, x, 0.38879928f);
    *added = fmaf(p, x, 0.38879928f - sum);
    return sum;
}

/** 2 (e^(r / 2) - 1 - r / 2) / r^2 */
static inline float gelu_exp_tail_f32(float r)
{
    float p = 4.35193251e-05f;

    p = p * r + 0.000522698683f;
    p = p * r + 0.00520831952f;
    p = p * r + 0.0416664407f;
    p = p * r + 0.25f;
    return p;
}

/** With t = |x|: max(x, 0) - 2 e^(-t^2 / 2) t / (t + 2.5) tail. */
static inline float gelu_f32(float x)
{
    /* The lesser by its bits: of two floats gcc would make two ways. NaN comes back at the end. */
    uint32_t size = bits_f32(x) & 0x7fffffffu;
    float t = real_f32(size < 0x41680000u ? size : 0x41680000u), sum, q, rest, tail, square;
    float shifted, n, s, low, r, grown, y, added;

    sum = t + 2.5f;
    q = t / sum;
    rest = fmaf(-q, t - (sum - 2.5f), fmaf(-q, sum, t)) * real_f32(0x7ef311c7u - bits_f32(sum));
    tail = gelu_tail_f32(q, rest, &added);

    /* e^(-t^2 / 2) = 2^n e^((s + low) / 2) */
    square = t * t;
    shifted = 12582912.0f - square * 0.72134752f; /* 1.5 * 2^23: adding it rounds */
    n = shifted - 12582912.0f;
    s = fmaf(n, -1.38671875f, -square); /* exact */
    low = n * 4.24388880e-4f - fmaf(t, t, -square);
    r = s + low;
    grown = 2.0f + s;

    y = q * tail;
    added = fmaf(q, added, fmaf(rest, tail, fmaf(q, tail, -y)));
    added =
        fmaf(y, low + ((2.0f - grown) + s), fmaf(y, r * r * gelu_exp_tail_f32(r), added + added));
    y = fmaf(y, grown, added);
    /* 2^64 and back: what is subnormal is rounded once, at the end */
    y = real_f32(bits_f32(y * 0x1p64f) + (bits_f32(shifted) << 23));
    return copysignf((x - (x > 0 ? 0 : x)) - y * 0x1p-64f, x);
}
#else
static inline float gelu_f32(float x) { return (float)((double)x * normcdf_f64((double)x)); }
#endif

static inline double gelu_f64(double x) { return x * normcdf_f64(x); }
