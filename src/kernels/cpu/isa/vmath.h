/*
 * vmath.h: exp, log, tanh, sigmoid, the normal distribution and pow for float and double, without
 * branches or tables, so that loops around them vectorise.
 *
 * exp and log are within 2 ulp, tanh and sigmoid within 2 (f64: 3), normcdf within 6 in both tails
 * until the result is subnormal (tests/kernels/test_vmath.c). Infinities, NaN and subnormals go as
 * in libm. The polynomials come from tools/fit_vmath.py; vmath.inc holds the functions, once for
 * both types.
 */
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline float fabs_f32(float x) { return fabsf(x); }
static inline double fabs_f64(double x) { return fabs(x); }
static inline float copysign_f32(float x, float y) { return copysignf(x, y); }
static inline double copysign_f64(double x, double y) { return copysign(x, y); }

/* ---- float ---- */
static inline float exp_tail_f32(float x)
{
    float p = 0.00139261836f;

    p = p * x + 0.00836317905f;
    p = p * x + 0.0416665546f;
    p = p * x + 0.16666577f;
    p = p * x + 0.5f;
    return p;
}

static inline float log_tail_f32(float x)
{
    float p = 0.295801567f;

    p = p * x + 0.39988776f;
    p = p * x + 0.666666851f;
    return p;
}

static inline float tanh_tail_f32(float x)
{
    float p = -0.0075582361688f;

    p = p * x + 0.0216917158f;
    p = p * x - 0.0539581851f;
    p = p * x + 0.13333313208f;
    p = p * x - 0.3333333327f;
    return p;
}

static inline float mills_f32(float x)
{
    float p = -1.25558386e-4f;

    p = p * x + 1.88996519e-4f;
    p = p * x + 0.00156688169f;
    p = p * x - 0.00352097282f;
    p = p * x - 0.00752540242f;
    p = p * x + 0.0604061855f;
    p = p * x - 0.186523307f;
    p = p * x + 0.387136683f;
    p = p * x - 0.607896594f;
    p = p * x + 0.755285139f;
    return p;
}

#define WF_M(name) name##_f32
#define WF_REAL float
#define WF_BITS uint32_t
#define WF_K(number) number##f
#define WF_FRACTION 23
#define WF_BIAS 127u
#define WF_SQRT_HALF_BITS 0x3f3504f3u /* sqrt(1/2) */
#define WF_UPPER_BITS 0xfffff000u     /* the sign, the exponent and half of the fraction */
#define WF_TWO_FRACTION 8388608.0f    /* 2^23 */
#define WF_MAGIC 12582912.0f          /* 1.5 * 2^23: adding it rounds to a whole number */
#define WF_LN2_HI 0.693359375f        /* so short that its products with exponents are exact */
#define WF_LN2_LO -2.12194440e-4f
#define WF_EXP_MIN -104.0f /* below: 0 */
#define WF_EXP_MAX 89.0f   /* above: infinity */
#define WF_TANH_NEAR 0.4f  /* below: an odd polynomial */
#define WF_TANH_MAX 10.0f  /* above: 1 */
#define WF_PHI_MAX 14.5f   /* beyond: 0 or 1 */
#define WF_MILLS_K 4.0f
#define WF_NORMAL_MIN 1.17549435e-38f
#define WF_SCALE_LOG 24.0f /* 2^24 makes subnormals normal */
#define WF_SCALE_UP 16777216.0f
#include "kernels/cpu/isa/vmath.inc"

/* ---- double ---- */
static inline double exp_tail_f64(double x)
{
    double p = 2.091468696808687723e-9;

    p = p * x + 2.510521700472074516e-8;
    p = p * x + 2.755727364311029533e-7;
    p = p * x + 2.755725540020642443e-6;
    p = p * x + 2.480158732554774122e-5;
    p = p * x + 1.984126987482062527e-4;
    p = p * x + 0.00138888888888837483;
    p = p * x + 0.008333333333326135126;
    p = p * x + 0.04166666666666666975;
    p = p * x + 0.1666666666666667099;
    p = p * x + 0.5;
    return p;
}

static inline double log_tail_f64(double x)
{
    double p = 0.130869078880122376;

    p = p * x + 0.1326874619559138437;
    p = p * x + 0.1538624070896989423;
    p = p * x + 0.1818179562163277717;
    p = p * x + 0.2222222239188706566;
    p = p * x + 0.2857142857080284798;
    p = p * x + 0.4000000000000087823;
    p = p * x + 0.6666666666666666646;
    return p;
}

static inline double tanh_tail_f64(double x)
{
    double p = -2.1355748984762088436e-4;

    p = p * x + 5.8709113260934971e-4;
    p = p * x - 0.0014556505165169029;
    p = p * x + 0.0035921212955290918;
    p = p * x - 0.0088632353843908021;
    p = p * x + 0.0218694885343883623;
    p = p * x - 0.05396825396824321147;
    p = p * x + 0.1333333333333333081;
    p = p * x - 0.33333333333333333332;
    return p;
}

static inline double mills_f64(double x)
{
    double p = 2.224938767716443292e-9;

    p = p * x + 7.630410417873182343e-9;
    p = p * x - 1.061827417423937636e-8;
    p = p * x - 6.667529339227571587e-8;
    p = p * x + 4.375841598285574883e-8;
    p = p * x + 4.344390726376458475e-7;
    p = p * x - 3.374965203524631907e-7;
    p = p * x - 2.770320944146952282e-6;
    p = p * x + 3.981182741532577461e-6;
    p = p * x + 1.668170360977267944e-5;
    p = p * x - 4.976285316503013592e-5;
    p = p * x - 5.937586616736070918e-5;
    p = p * x + 5.448990626958520579e-4;
    p = p * x - 7.978693748911933265e-4;
    p = p * x - 0.002993376769094472817;
    p = p * x + 0.02079506679756985643;
    p = p * x - 0.06911863870647981905;
    p = p * x + 0.1650203661705006948;
    p = p * x - 0.3135331566712971063;
    p = p * x + 0.495305615969974136;
    p = p * x - 0.6653825028900567871;
    p = p * x + 0.769193049750062966;
    return p;
}

#define WF_M(name) name##_f64
#define WF_REAL double
#define WF_BITS uint64_t
#define WF_K(number) number
#define WF_FRACTION 52
#define WF_BIAS 1023u
#define WF_SQRT_HALF_BITS 0x3fe6a09e667f3bcdu
#define WF_UPPER_BITS 0xfffffffff8000000u
#define WF_TWO_FRACTION 4503599627370496.0 /* 2^52 */
#define WF_MAGIC 6755399441055744.0        /* 1.5 * 2^52 */
#define WF_LN2_HI 0.693147180369123816490
#define WF_LN2_LO 1.90821492927058770002e-10
#define WF_EXP_MIN -746.0
#define WF_EXP_MAX 710.0
#define WF_TANH_NEAR 0.25
#define WF_TANH_MAX 20.0
#define WF_PHI_MAX 39.0
#define WF_MILLS_K 5.0
#define WF_NORMAL_MIN 2.2250738585072014e-308
#define WF_SCALE_LOG 54.0
#define WF_SCALE_UP 18014398509481984.0
#include "kernels/cpu/isa/vmath.inc"

/** x^y through double, where the error of log x times y cannot reach float's last bit. */
static inline float pow_f32(float x, float y)
{
    double size = exp_f64((double)y * log_f64(fabs((double)x)));
    float whole = rint_f32(y), half = rint_f32(y * 0.5f) * 2.0f;
    float value = x == 1.0f || x == -1.0f ? 1.0f : (float)size;

    /* Every float of 2^24 and more is an even number. */
    if (x < 0.0f) {
        float sign = whole == y && half != y ? -1.0f : 1.0f;

        value = whole != y && x > -(float)INFINITY ? (float)NAN : sign * value;
    }
    value = x == 0.0f && y > 0.0f ? 0.0f : value;
    return y == 0.0f ? 1.0f : value;
}

/** libm: a double has no wider type in which the error of log x could vanish. */
static inline double pow_f64(double x, double y) { return pow(x, y); }

/*
 * NOTE [no contraction]. A compiler may compute the body of a loop in vectors, and the elements
 * after the last whole vector one by one. With -ffp-contract=fast the compiler may fuse different
 * products in the two: in a b + c d, gcc 16 fuses a b in one and c d in the other. An element's
 * bits then depend on the element's index, and so on the sharding of its tensor. The loops of
 * optimizers are compiled with -ffp-contract=off and call multiply_add for each fused product. The
 * loops of pointwise rows may be contracted; the test kernels.cut_operands compares their bits.
 */

/* a b + c, rounded once if the instruction set has fused products, else twice. */
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
static inline float multiply_add_f32(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static inline double multiply_add_f64(double a, double b, double c)
{
    return __builtin_fma(a, b, c);
}
#else
static inline float multiply_add_f32(float a, float b, float c) { return a * b + c; }
static inline double multiply_add_f64(double a, double b, double c) { return a * b + c; }
#endif

static inline float root_f32(float x) { return sqrtf(x); }
static inline double root_f64(double x) { return sqrt(x); }
