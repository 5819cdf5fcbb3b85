/* random.h: the table between the random kernels and their loops in cpu/isa/random.c. */
#pragma once

#include "kernels/cpu/isa.h"

/** Philox blocks (of four words) are made so many at a time. */
enum { WF_PHILOX_LANES = 16 };

struct wf_random {
    /** The words of these blocks; `n` is a multiple of WF_PHILOX_LANES. */
    void (*words)(int64_t n, const uint64_t *block, uint64_t draw, uint64_t seed, uint32_t *words);
    /** n words to uniform values in [0, 1), or to normal values (n a multiple of 4). */
    void (*uniform_f32)(int64_t n, const uint32_t *high, float *values);
    void (*normal_f32)(int64_t n, const uint32_t *high, float *values);
    /** The same from two planes, and uniform values in (0, 1). */
    void (*uniform_f64)(int64_t n, const uint32_t *high, const uint32_t *low, double *values);
    void (*normal_f64)(int64_t n, const uint32_t *high, const uint32_t *low, double *values);
    void (*between_f64)(int64_t n, const uint32_t *high, const uint32_t *low, double *values);
    /** In place: e^(mean + std value) of normal values; what becomes of values in (0, 1). */
    void (*log_normal)(int64_t n, double *values, double mean, double std);
    void (*exponential)(int64_t n, double *values, double rate);
    void (*geometric)(int64_t n, double *values, double p);
    /** In place: base + scale times the normal numbers below which the share first + width value
     *  lies. */
    void (*quantile)(int64_t n, double *values, double first, double width, double base,
                     double scale);
    /** The share of normal numbers below x. */
    double (*share)(double x);
    void (*clamp)(int64_t n, double *values, double low, double high);
    /** base + a whole number below `range`. */
    void (*below)(int64_t n, const uint32_t *high, const uint32_t *low, int64_t base,
                  uint64_t range, int64_t *values);
    /** 1 where the word is below the threshold, or the word's share of 2^32 below p; else 0. */
    void (*chance)(int64_t n, const uint32_t *high, uint64_t threshold, int64_t *values);
    void (*chance_of[WF_FLOAT_DTYPES])(int64_t n, const uint32_t *high, const void *p, void *y);
    /** y = base + scale * value; results that do not lie below `limit` become `cap`. Values are
     *  f64 for f64, else f32. */
    void (*affine[WF_FLOAT_DTYPES])(int64_t n, const void *values, void *y, double base,
                                    double scale, double limit, double cap);
    /** y = x * scale where the word is at least `threshold`, else 0; y may be x. */
    void (*dropout[WF_FLOAT_DTYPES])(int64_t n, const uint32_t *high, const void *x, void *y,
                                     uint32_t threshold, double scale);
};

WF_ISA_TABLE(struct wf_random, wf_random)
