/*
 * special_functions_f32.h: functions of special_functions.h for f32 on the CPU, without branches,
 * so that loops around them vectorise: within 2 ulp (tests/kernels/test_vmath.c). In double:
 *
 *   lgamma    Stirling's series behind z = x + 7, below 7 less log of x .. x + 6; below 0
 *             reflected. The logarithms of the product and of the reflection are one.
 *   digamma   its derivative alike: the sum of 1 / (x + i) is the product's slope over the product
 *
 * In f32, with coefficients of tools/fit_vmath.py:
 *
 *   erfinv    y times a polynomial of w = -log(1 - y^2), from w = 5.5 on of its root, as
 *             Giles (2010, Approximating the erfinv function) divides it
 */
#pragma once

#include "kernels/cpu/isa/pointwise/special_functions.h"
#include "kernels/cpu/isa/vmath.h"

enum { SHIFT_STEPS_F32 = 7 };
static const double shift_f32 = SHIFT_STEPS_F32;

static inline float lgamma_f32(float xf)
{
    const double x = (double)xf, size = fabs(x);
    const double rest = x - rint_f64(x), sine = sin_pi_of_rest(rest);
    double product = 1, z = size, y, other;

    for (int i = 0; i < SHIFT_STEPS_F32; i++) product *= size + i;
    product = size < shift_f32 ? product : 1;
    z = size < shift_f32 ? size + shift_f32 : size;
    y = (z - 0.5) * (log_f64(z) - 1) + 0.41893853320467274178 + stirling_rest(z);
    other = log_f64(3.1415926535897932385 * (x < 0 ? product : 1) /
                    (x < 0 ? size * fabs(sine) : 3.1415926535897932385 * product));
    y = other + (x < 0 ? -y : y);
    y = ((x == 1) | (x == 2)) ? 0 : y;
    y = rest == 0 && x <= 0 ? (double)INFINITY : y;
    y = size > 3.5e38 ? (double)INFINITY : y;
    return (float)(x != x ? x : y);
}

/** At 0 it is infinite, at other poles no number. */
static inline float digamma_f32(float xf)
{
    const double x = (double)xf, u = x < 0 ? 1 - x : x, rest = x - rint_f64(x);
    const double sine = sin_pi_of_rest(rest), cosine = cos_pi_of_rest(rest);
    double product = u, slope = 1, z, v, p, y;
    uint32_t bits;

    for (int i = 1; i < SHIFT_STEPS_F32; i++) {
        slope = slope * (u + i) + product;
        product *= u + i;
    }
    slope = u < shift_f32 ? slope / product : 0;
    z = u < shift_f32 ? u + shift_f32 : u;
    v = 1 / (z * z);
    p = -0.0075757575757575757576;
    p = p * v + 0.0041666666666666666667;
    p = p * v - 0.003968253968253968254;
    p = p * v + 0.0083333333333333333333;
    p = p * v - 0.083333333333333333333;
    y = log_f64(z) - 0.5 / z + p * v - slope;
    y = x < 0 ? y - 3.1415926535897932385 * cosine / sine : y;
    y = x < 0 && rest == 0 ? (double)NAN : y;
    memcpy(&bits, &xf, sizeof bits); /* kernels are compiled without regard to a zero's sign */
    y = bits == 0 ? -(double)INFINITY : bits == 0x80000000u ? (double)INFINITY : y;
    y = x > 3.5e38 ? x : y;
    return (float)y;
}

/** erfinv(y) / y over t = w - 2.625 for w = -log(1 - y^2) <= 5.5. */
static inline float erfinv_near_f32(float t)
{
    float p = 5.6154581e-10f;

    p = p * t - 7.85466803e-09f;
    p = p * t + 5.2974678e-09f;
    p = p * t + 4.72506969e-07f;
    p = p * t - 3.00604302e-06f;
    p = p * t - 7.35446747e-06f;
    p = p * t + 0.000214383195f;
    p = p * t - 0.00114455575f;
    p = p * t - 0.00462675188f;
    p = p * t + 0.24553895f;
    p = p * t + 1.53217173f;
    return p;
}

/** The same over the root of w, less 3.1171875, from there on. */
static inline float erfinv_far_f32(float t)
{
    float p = 0.000113858667f;

    p = p * t - 0.00017238193f;
    p = p * t - 0.000291380537f;
    p = p * t + 0.00131535728f;
    p = p * t - 0.00259206374f;
    p = p * t + 0.00388618116f;
    p = p * t - 0.00541922264f;
    p = p * t + 0.00717406906f;
    p = p * t + 1.00360751f;
    p = p * t + 2.95047903f;
    return p;
}

static inline float erfinv_f32(float y)
{
    float size = fabsf(y), w = -log_of_number_f32((1 - size) * (1 + size));
    float x = y * (w < 5.5f ? erfinv_near_f32(w - 2.625f) : erfinv_far_f32(sqrtf(w) - 3.1171875f));

    x = size < 1 ? x : y * (float)INFINITY;
    return size > 1 ? (float)NAN : x;
}
