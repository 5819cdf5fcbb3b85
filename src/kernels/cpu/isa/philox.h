/*
 * philox.h: from (seed, draw, number of the element) to bits, and from bits to numbers.
 *
 * Add, multiply, divide and square root only, each rounded by itself (no contraction), so that
 * every machine and every device that evaluates these expressions gets the same bits. No branches
 * or tables, so that loops around the functions vectorise. Nothing here knows CPUs: a device
 * backend evaluates the same lines.
 *
 * Element i of a draw is lane i % 4 of the Philox block i / 4. What needs more than 32 bits takes a
 * second word from the same place of the draw's second plane (WF_SECOND_PLANE set in its number).
 */
#pragma once

#include "kernels/cpu/isa/vmath.h"

#define WF_SECOND_PLANE ((uint64_t)1 << 63)

struct wf_philox_words {
    uint32_t w[4];
};

static inline struct wf_philox_words philox_round(struct wf_philox_words c, uint32_t k0,
                                                  uint32_t k1)
{
    /* The products' halves are taken apart as 32-bit numbers, which is the form that compilers turn
     * into vector multiplications. */
    uint32_t high0 = (uint32_t)(((uint64_t)0xD2511F53u * c.w[0]) >> 32);
    uint32_t high1 = (uint32_t)(((uint64_t)0xCD9E8D57u * c.w[2]) >> 32);
    struct wf_philox_words next = {
        {high1 ^ c.w[1] ^ k0, 0xCD9E8D57u * c.w[2], high0 ^ c.w[3] ^ k1, 0xD2511F53u * c.w[0]}};

    return next;
}

/** Philox4x32-10 of a 128-bit counter and a 64-bit key. */
static inline struct wf_philox_words philox(struct wf_philox_words c, uint32_t k0, uint32_t k1)
{
    const uint32_t a = 0x9E3779B9u, b = 0xBB67AE85u;

    c = philox_round(c, k0, k1);
    c = philox_round(c, k0 + a, k1 + b);
    c = philox_round(c, k0 + 2 * a, k1 + 2 * b);
    c = philox_round(c, k0 + 3 * a, k1 + 3 * b);
    c = philox_round(c, k0 + 4 * a, k1 + 4 * b);
    c = philox_round(c, k0 + 5 * a, k1 + 5 * b);
    c = philox_round(c, k0 + 6 * a, k1 + 6 * b);
    c = philox_round(c, k0 + 7 * a, k1 + 7 * b);
    c = philox_round(c, k0 + 8 * a, k1 + 8 * b);
    return philox_round(c, k0 + 9 * a, k1 + 9 * b);
}

static inline struct wf_philox_words philox_block(uint64_t block, uint64_t draw, uint64_t seed)
{
    struct wf_philox_words counter = {
        {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)draw, (uint32_t)(draw >> 32)}};

    return philox(counter, (uint32_t)seed, (uint32_t)(seed >> 32));
}

/* ---- bits to [0, 1) ---- */

/** The upper 24 bits: exact in a float. */
static inline float unit_f32(uint32_t high) { return (float)(int32_t)(high >> 8) * 0x1p-24f; }

/** 27 bits of the first word and 26 of the second: exact in a double. */
static inline double unit_f64(uint32_t high, uint32_t low)
{
    return ((double)(int32_t)(high >> 5) * 0x1p26 + (double)(int32_t)(low >> 6)) * 0x1p-53;
}

/** Never 0 or 1: the middles of 2^52 intervals. */
static inline double open_unit_f64(uint32_t high, uint32_t low)
{
    double upper = (double)(int32_t)(high >> 5) * 0x1p25, lower = (double)(int32_t)(low >> 7);

    return (upper + lower + 0.5) * 0x1p-52;
}

/** The upper 64 bits of a product. */
static inline uint64_t multiply_high(uint64_t a, uint64_t b)
{
    uint64_t a0 = (uint32_t)a, a1 = a >> 32, b0 = (uint32_t)b, b1 = b >> 32;
    uint64_t low = a0 * b0, mid = a1 * b0 + (low >> 32), cross = a0 * b1 + (uint32_t)mid;

    return a1 * b1 + (mid >> 32) + (cross >> 32);
}

/** 0 .. range - 1; the most likely one is more likely than the least by a factor of at most
 *  1 + range / 2^64. */
static inline uint64_t uniform_below(uint64_t range, uint32_t high, uint32_t low)
{
    return multiply_high((uint64_t)high << 32 | low, range);
}

/* ---- normal numbers: Box and Muller ---- */

/* sin(v pi / 2) and cos(v pi / 2) for |v| <= 1/2 (tools/fit_vmath.py; f64: the series). */
static inline float sin_quarter_f32(float v)
{
    float z = v * v, p = -0.00460211762f;

    p = p * z + 0.0796802078f;
    p = p * z - 0.645963477f;
    p = p * z + 1.57079632f;
    return p * v;
}

static inline float cos_quarter_f32(float v)
{
    float z = v * v, p = 9.03621861e-4f;

    p = p * z - 0.0208600668f;
    p = p * z + 0.253669203f;
    p = p * z - 1.23370054f;
    return p * z + 1.0f;
}

static inline double sin_quarter_f64(double v)
{
    double z = v * v, p = 6.06693573110619566710e-12;

    p = p * z - 6.68803510981146723248e-10;
    p = p * z + 5.69217292196792681178e-8;
    p = p * z - 3.59884323521208534046e-6;
    p = p * z + 1.60441184787359821873e-4;
    p = p * z - 4.68175413531868810069e-3;
    p = p * z + 7.96926262461670451205e-2;
    p = p * z - 6.45964097506246253656e-1;
    p = p * z + 1.57079632679489661923;
    return p * v;
}

static inline double cos_quarter_f64(double v)
{
    double z = v * v, p = -5.29440020073462376193e-13;

    p = p * z + 6.56596311497947236221e-11;
    p = p * z - 6.38660308379185224109e-9;
    p = p * z + 4.71087477881817150367e-7;
    p = p * z - 2.52020423730606054811e-5;
    p = p * z + 9.19260274839426580242e-4;
    p = p * z - 2.08634807633529608731e-2;
    p = p * z + 2.53669507901048013637e-1;
    p = p * z - 1.23370055013616982735;
    return p * z + 1.0;
}

/** Two normal numbers: the radius from `radius`, the angle from `turn`. */
static inline void normal_pair_f32(uint32_t radius, uint32_t turn, float *first, float *second)
{
    float u = (float)(int32_t)((radius >> 8) + 1) * 0x1p-24f; /* (0, 1] */
    int32_t angle = (int32_t)(turn >> 8), quarter = (angle + (1 << 21)) >> 22;
    float v = (float)(angle - quarter * (1 << 22)) * 0x1p-22f;
    float r = sqrtf(-2.0f * log_f32(u)), s = sin_quarter_f32(v), c = cos_quarter_f32(v);
    float x = quarter & 1 ? s : c, y = quarter & 1 ? c : s;

    *first = r * ((quarter + 1) & 2 ? -x : x);
    *second = r * (quarter & 2 ? -y : y);
}

static inline void normal_pair_f64(double radius, double turn, double *first, double *second)
{
    double angle = turn * 4, whole = rint_f64(angle), v = angle - whole;
    int32_t quarter = (int32_t)whole;
    double r = sqrt(-2.0 * log_f64(radius + 0x1p-53));
    double s = sin_quarter_f64(v), c = cos_quarter_f64(v);
    double x = quarter & 1 ? s : c, y = quarter & 1 ? c : s;

    *first = r * ((quarter + 1) & 2 ? -x : x);
    *second = r * (quarter & 2 ? -y : y);
}

/* ---- 0 or 1 ---- */

/** Whether a word is below p 2^32, which need not be a whole number. */
static inline int32_t is_below_share(uint32_t word, double p)
{
    return (double)(int32_t)(word ^ 0x80000000u) + 0x1p31 < p * 0x1p32;
}

/* ---- other distributions, from u in (0, 1) ---- */

static inline double exponential_time(double u, double rate) { return -log_f64(u) / rate; }

/** The first success comes after trials with the chance (1 - p)^trials; of log(1 - p). */
static inline double geometric_trials(double u, double log_failure)
{
    double failures = log_f64(u) / log_failure, whole = rint_f64(failures);

    return whole > failures ? whole : whole + 1;
}

/** log(1 - p) without loss for small p: the rounding of 1 - p cancels. */
static inline double log_one_minus(double p)
{
    double rest = 1 - p, lost = 1 - rest;

    return lost == 0 ? -p : log_f64(rest) * (p / lost);
}

/** Halley's step towards Phi(x) = p: it triples the digits. */
static inline double refine_quantile(double x, double p)
{
    double u = (normcdf_f64(x) - p) / (0.39894228040143268 * gauss_f64(x));

    return x - u / (1 + x * u * 0.5);
}

/** x with Phi(x) = p for p <= 1/2, no further out than 37: a rough start (Abramowitz & Stegun
 *  26.2.23), then two steps. */
static inline double lower_quantile(double p)
{
    double share = p < 1e-300 ? 1e-300 : p, t = sqrt(-2 * log_f64(share));
    double x = (2.515517 + t * (0.802853 + t * 0.010328)) /
                   (1 + t * (1.432788 + t * (0.189269 + t * 0.001308))) -
               t;

    return refine_quantile(refine_quantile(x, share), share);
}

/** x with Phi(x) = p. */
static inline double normal_quantile(double p)
{
    double x = lower_quantile(p < 0.5 ? p : 1 - p);

    return p < 0.5 ? x : -x;
}
