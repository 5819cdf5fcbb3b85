/*
 * special_functions_f32.h: functions of special_functions.h for f32 on the CPU, computed in double
 * without branches, so that loops around them vectorise: within 2 ulp (tests/kernels/test_vmath.c).
 *
 *   lgamma    Stirling's series behind z = x + 7, below 7 less log of x .. x + 6; below 0
 * reflected. The logarithms of the product and of the reflection are one. digamma   its derivative
 * alike: the sum of 1 / (x + i) is the product's slope over the product erfinv    y times a
 * polynomial of w = -log(1 - y^2), from w = 6 on of its root (tools/fit_vmath.py), as Giles (2010,
 * Approximating the erfinv function) divides it
 */
#pragma once

#include "kernels/cpu/isa/pointwise/special_functions.h"
#include "kernels/cpu/isa/vmath.h"

enum { SHIFT_F32 = 7 };

static inline float lgamma_f32(float xf)
{
    const double x = (double)xf, size = x < 0 ? -x : x;
    const double rest = x - rint_f64(x), sine = sin_pi_of_rest(rest);
    double product = 1, z = size, y, other;

    for (int i = 0; i < SHIFT_F32; i++) product *= size + i;
    product = size < SHIFT_F32 ? product : 1;
    z = size < SHIFT_F32 ? size + SHIFT_F32 : size;
    y = (z - 0.5) * (log_f64(z) - 1) + 0.41893853320467274178 + stirling_rest(z);
    other = log_f64(3.1415926535897932385 * (x < 0 ? product : 1) /
                    (x < 0 ? size * (sine < 0 ? -sine : sine) : 3.1415926535897932385 * product));
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

    for (int i = 1; i < SHIFT_F32; i++) {
        slope = slope * (u + i) + product;
        product *= u + i;
    }
    slope = u < SHIFT_F32 ? slope / product : 0;
    z = u < SHIFT_F32 ? u + SHIFT_F32 : u;
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

static inline double erfinv_near(double w)
{
    const double t = w - 3;
    double p = 1.9701289962659885802e-11;

    p = p * t + 6.7451841001732283897e-10;
    p = p * t - 5.9178195977207490945e-9;
    p = p * t - 1.9411591408408922409e-8;
    p = p * t + 4.5194726194996862423e-7;
    p = p * t - 1.7676169065443273019e-6;
    p = p * t - 0.000012720408570086266708;
    p = p * t + 0.00019510229640199937637;
    p = p * t - 0.00083617875819225728865;
    p = p * t - 0.0057381666739794394223;
    p = p * t + 0.24163040379017346146;
    p = p * t + 1.6235420103927158796;
    return p;
}

static inline double erfinv_far(double root)
{
    const double t = root - 3.2;
    double p = -0.000038442782053317367538;

    p = p * t + 0.00010247357310244254275;
    p = p * t - 0.00002480369569586031151;
    p = p * t - 0.00036233846090081148203;
    p = p * t + 0.0010831320084490346828;
    p = p * t - 0.0019917069838966722127;
    p = p * t + 0.0029500397889400047265;
    p = p * t - 0.0042943398907973115814;
    p = p * t + 0.005973216463753517034;
    p = p * t + 1.0046924489383284474;
    p = p * t + 3.0336365739646508832;
    return p;
}

static inline float erfinv_f32(float yf)
{
    const double y = (double)yf, size = y < 0 ? -y : y, w = -log_f64((1 - y) * (1 + y));
    double x = y * (w < 6 ? erfinv_near(w) : erfinv_far(sqrt(w)));

    x = size == 1 ? y * (double)INFINITY : x;
    return (float)(size > 1 ? (double)NAN : x);
}
