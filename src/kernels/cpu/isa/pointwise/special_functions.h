/*
 * special_functions.h: what the C library has not, or not for several threads, for pointwise.def on
 * every device: the inverse of the error function, and the logarithm of the gamma function and its
 * derivatives. In double; f32, where special_functions_f32.h has no way of its own, is that
 * rounded. Accuracy: tests/kernels/test_vmath.c.
 *
 *   lgamma    near 2 Taylor's series, whose coefficients are (zeta(k) - 1) / k up to the sign
 *             (Abramowitz and Stegun 1964, 6.1.33), to 2.5 by x gamma(x) = gamma(x + 1), from 10 on
 *             Stirling's series (6.1.40), below 0 reflected (6.1.17): near its roots there only the
 *             absolute error is small
 *   digamma, trigamma
 *             the series for large numbers (6.3.18, 6.4.12) behind recurrence, as Bernardo (1976,
 *             Algorithm AS 103) and Schneider (1978, Algorithm AS 121) do, reflected below 0
 *   erfinv    Winitzki's closed form (2008), made exact by Halley's steps
 */
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

/** sin(pi x) for -1/2 <= x <= 1/2. */
static inline double sin_pi_near_0(double x)
{
    const double z = x * x;
    double p = -1.0518471716932064455e-11;

    p = p * z + 5.3926646626081284894e-10;
    p = p * z - 2.294842899726987311e-8;
    p = p * z + 7.9520540014755127848e-7;
    p = p * z - 0.000021915353447830215827;
    p = p * z + 0.00046630280576761256442;
    p = p * z - 0.0073704309457143507773;
    p = p * z + 0.082145886611128228799;
    p = p * z - 0.59926452932079207689;
    p = p * z + 2.5501640398773454439;
    p = p * z - 5.1677127800499700292;
    p = p * z + 3.1415926535897932385;
    return x * p;
}

/** cos(pi x) for -1/4 <= x <= 1/4. */
static inline double cos_pi_near_0(double x)
{
    const double z = x * x;
    double p = -1.3878952462213772114e-7;

    p = p * z + 4.3030695870329470073e-6;
    p = p * z - 0.00010463810492484570712;
    p = p * z + 0.0019295743094039230479;
    p = p * z - 0.025806891390014060013;
    p = p * z + 0.23533063035889320454;
    p = p * z - 1.3352627688545894959;
    p = p * z + 4.0587121264167682182;
    p = p * z - 4.9348022005446793094;
    p = p * z + 1.0;
    return p;
}

/** sin(pi x) and cos(pi x), where x is what is left of a number beside its nearest whole one:
 *  between -1/2 and 1/2. */
static inline double sin_pi_of_rest(double x)
{
    const double size = fabs(x);
    double y = size > 0.25 ? cos_pi_near_0(0.5 - size) : sin_pi_near_0(size);

    return copysign(y, x);
}

static inline double cos_pi_of_rest(double x)
{
    const double size = fabs(x);

    return size > 0.25 ? sin_pi_near_0(0.5 - size) : cos_pi_near_0(size);
}

/** -1 for odd whole numbers, 1 for even ones. */
static inline double sign_of_whole(double n) { return n - 2 * floor(0.5 * n) != 0 ? -1 : 1; }

/* ---- gamma ---- */

/** log gamma(2 + t) for -1/2 <= t <= 1/2. */
static inline double lgamma_near_2(double t)
{
    double p = -2.7595228851242331452e-10;

    p = p * t + 5.7313672416788620133e-10;
    p = p * t - 1.1921401405860912074e-9;
    p = p * t + 2.4836745438024783172e-9;
    p = p * t - 5.1834750419700466551e-9;
    p = p * t + 1.0838659214896954091e-8;
    p = p * t - 2.271109460894316491e-8;
    p = p * t + 4.7698101693639805658e-8;
    p = p * t - 1.0043224823968099609e-7;
    p = p * t + 2.1207184805554665869e-7;
    p = p * t - 4.4924691987645660433e-7;
    p = p * t + 9.5514121304074198329e-7;
    p = p * t - 2.0392157538013662368e-6;
    p = p * t + 4.3748667899074878042e-6;
    p = p * t - 9.439488275268395904e-6;
    p = p * t + 0.000020507212775670691553;
    p = p * t - 0.0000449262367381331417;
    p = p * t + 0.000099457512781808533715;
    p = p * t - 0.00022315475845357937976;
    p = p * t + 0.00050966952474304242234;
    p = p * t - 0.0011927539117032609771;
    p = p * t + 0.0028905103307415232858;
    p = p * t - 0.0073855510286739852663;
    p = p * t + 0.020580808427784547879;
    p = p * t - 0.067352301053198095133;
    p = p * t + 0.32246703342411321824;
    p = p * t + 0.42278433509846713939;
    return p * t;
}

/** The part of Stirling's series that vanishes, x >= 7: within 1e-15 from 8 on. */
static inline double stirling_rest(double x)
{
    const double w = 1 / x, z = w * w;
    double p = -0.02955065359477124183;

    p = p * z + 0.0064102564102564102564;
    p = p * z - 0.0019175269175269175269;
    p = p * z + 0.00084175084175084175084;
    p = p * z - 0.0005952380952380952381;
    p = p * z + 0.00079365079365079365079;
    p = p * z - 0.0027777777777777777778;
    p = p * z + 0.083333333333333333333;
    return p * w;
}

static inline double lgamma_of_positive(double x)
{
    double product = 1;

    if (x >= 10) {
        double y = (x - 0.5) * (log(x) - 1) + 0.41893853320467274178;

        return y + stirling_rest(x);
    }
    if (x < 0.5) return lgamma_near_2(x) - log(x * (1 + x));
    if (x < 1.5) return lgamma_near_2(x - 1) - log1p(x - 1);
    while (x > 2.5) {
        x -= 1;
        product *= x;
    }
    return lgamma_near_2(x - 2) + log(product);
}

static inline double lgamma_f64(double x)
{
    double rest = x - rint(x), reflected;

    if (x != x) return x;
    if (x - x != 0) return (double)INFINITY;
    if (x > 0) return lgamma_of_positive(x);
    if (rest == 0) return (double)INFINITY;
    reflected = 3.1415926535897932385 / fabs(x * sin_pi_of_rest(rest));
    return log(reflected) - lgamma_of_positive(-x);
}

static inline double digamma_of_positive(double x)
{
    double below = 0;

    for (; x < 10; x += 1) below += 1 / x;
    {
        const double z = 1 / (x * x);
        double p = -0.44325980392156862745;

        p = p * z + 0.083333333333333333333;
        p = p * z - 0.021092796092796092796;
        p = p * z + 0.0075757575757575757576;
        p = p * z - 0.0041666666666666666667;
        p = p * z + 0.003968253968253968254;
        p = p * z - 0.0083333333333333333333;
        p = p * z + 0.083333333333333333333;
        return log(x) - (0.5 / x + z * p) - below;
    }
}

/** The derivative of lgamma. At 0 it is infinite, at other poles no number. */
static inline double digamma_f64(double x)
{
    double rest = x - rint(x);
    uint64_t bits;

    memcpy(&bits, &x, sizeof bits); /* kernels are compiled without regard to a zero's sign */
    if (bits << 1 == 0) return bits ? (double)INFINITY : -(double)INFINITY;
    if (x > 0) return x - x != 0 ? x : digamma_of_positive(x);
    if (x < 0 && rest == 0) return (double)NAN;
    return digamma_of_positive(1 - x) -
           3.1415926535897932385 * cos_pi_of_rest(rest) / sin_pi_of_rest(rest);
}

static inline double trigamma_of_positive(double x)
{
    double below = 0;

    for (; x < 10; x += 1) below += 1 / (x * x);
    {
        const double w = 1 / x, z = w * w;
        double p = 54.971177944862155388;

        p = p * z - 7.0921568627450980392;
        p = p * z + 1.1666666666666666667;
        p = p * z - 0.25311355311355311355;
        p = p * z + 0.075757575757575757576;
        p = p * z - 0.033333333333333333333;
        p = p * z + 0.023809523809523809524;
        p = p * z - 0.033333333333333333333;
        p = p * z + 0.16666666666666666667;
        return w + z * (0.5 + w * p) + below;
    }
}

/** The derivative of digamma. */
static inline double trigamma_f64(double x)
{
    double slope;

    if (x > 0) return trigamma_of_positive(x);
    slope = 3.1415926535897932385 / sin_pi_of_rest(x - rint(x));
    return slope * slope - trigamma_of_positive(1 - x);
}

/* ---- the inverse of erf ---- */

/** Within one in 400, and for small y in 10^5. */
static inline double erfinv_roughly(double y)
{
    const double k = 2 / (0.147 * 3.1415926535897932385);
    double l = log1p(-y * y), t = k + 0.5 * l, x = sqrt(sqrt(t * t - l / 0.147) - t);

    return y < 0.1 ? y * (0.88622692545275801365 + 0.23201366653465449355 * y * y) : x;
}

/** What is left of erf(x) - y, divided by the slope of erf; of 1 - y where y is near 1. */
static inline double erfinv_miss(double x, double y)
{
    double left = y > 0.5 ? (1 - y) - erfc(x) : erf(x) - y;

    return left * 0.88622692545275801365 * exp(x * x);
}

static inline double erfinv_f64(double y)
{
    double size = fabs(y), x = erfinv_roughly(size);

    for (int i = 0; i < 3; i++) {
        double u = erfinv_miss(x, size);

        x -= u / (1 + x * u);
    }
    x = size < 1 ? x : size == 1 ? (double)INFINITY : (double)NAN;
    return y < 0 ? -x : y == 0 ? y : x;
}

/* ---- sin(pi x) / (pi x) ---- */

static inline double sinc_f64(double x)
{
    double n = rint(x), y = sign_of_whole(n) * sin_pi_of_rest(x - n) / (3.1415926535897932385 * x);

    return x == 0 ? 1 : x - x == 0 ? y : x - x;
}

/** Its derivative, (cos(pi x) - sinc(x)) / x; near 0 its series. */
static inline double dsinc_f64(double x)
{
    double n = rint(x), z = x * x;
    double cosine = sign_of_whole(n) * cos_pi_of_rest(x - n);
    double p = -7.3658937770969467111e-11;

    p = p * z + 3.4330769499642866037e-9;
    p = p * z - 1.3148481279991994635e-7;
    p = p * z + 4.0499478466192442422e-6;
    p = p * z - 0.000097662231263189326643;
    p = p * z + 0.0017811455163728520442;
    p = p * z - 0.023460810354558236375;
    p = p * z + 0.20918278254123840404;
    p = p * z - 1.1445109447325052822;
    p = p * z + 3.2469697011334145745;
    p = p * z - 3.2898681336964528729;
    return z < 0.5 ? x * p : (cosine - sinc_f64(x)) / x;
}

/* ---- whole quotients ---- */

/** The largest whole number that is not above a / b, as Python's `//`: of the exact quotient, not
 * of the rounded one. */
static inline double floor_divide_f64(double a, double b)
{
    double rest = fmod(a, b), q = (a - rest) / b, plain = a / b, down;
    uint64_t bits;

    memcpy(&bits, &b, sizeof bits); /* of a zero the sign counts */
    if (rest != 0 && (rest < 0) != (b < 0)) q -= 1;
    down = floor(q);
    down = q - down > 0.5 ? down + 1 : down;
    down = down == 0 ? copysign(0.0, plain) : down;
    return bits << 1 ? down : plain;
}

static inline float floor_divide_f32(float a, float b)
{
    float rest = fmodf(a, b), q = (a - rest) / b, plain = a / b, down;
    uint32_t bits;

    memcpy(&bits, &b, sizeof bits); /* of a zero the sign counts */
    if (rest != 0 && (rest < 0) != (b < 0)) q -= 1;
    down = floorf(q);
    down = q - down > 0.5f ? down + 1 : down;
    down = down == 0 ? copysignf(0.0f, plain) : down;
    return bits << 1 ? down : plain;
}

static inline float trigamma_f32(float x) { return (float)trigamma_f64((double)x); }
static inline float sinc_f32(float x) { return (float)sinc_f64((double)x); }
static inline float dsinc_f32(float x) { return (float)dsinc_f64((double)x); }
