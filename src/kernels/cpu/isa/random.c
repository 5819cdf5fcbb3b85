/*
 * random.c: loops around philox.h: Philox words, and numbers made of them.
 *
 * Compiled without contraction (CMakeLists.txt), as philox.h demands.
 */
#include "kernels/cpu/random/random.h"

#include "kernels/cpu/isa/philox.h"

enum { LANES = WF_PHILOX_LANES };

/* LANES blocks at once, word i of all of them in c[i]. */
static void philox_lanes(const uint64_t *block, uint64_t draw, uint64_t seed, uint32_t c[4][LANES])
{
    uint32_t low[LANES], high[LANES];

#pragma omp simd
    for (int l = 0; l < LANES; l++) {
        low[l] = (uint32_t)block[l];
        high[l] = (uint32_t)(block[l] >> 32);
    }
#pragma omp simd
    for (int l = 0; l < LANES; l++) {
        struct wf_philox_words philox_words_of_blocks = {
            {low[l], high[l], (uint32_t)draw, (uint32_t)(draw >> 32)}};

        philox_words_of_blocks =
            philox(philox_words_of_blocks, (uint32_t)seed, (uint32_t)(seed >> 32));
        c[0][l] = philox_words_of_blocks.w[0];
        c[1][l] = philox_words_of_blocks.w[1];
        c[2][l] = philox_words_of_blocks.w[2];
        c[3][l] = philox_words_of_blocks.w[3];
    }
}

static void philox_words_of_blocks(int64_t n, const uint64_t *block, uint64_t draw, uint64_t seed,
                                   uint32_t *to)
{
    uint32_t c[4][LANES];

    for (int64_t b = 0; b < n; b += LANES, to += 4 * LANES) {
        philox_lanes(block + b, draw, seed, c);
#pragma omp simd
        for (int l = 0; l < LANES; l++) {
            to[4 * l] = c[0][l];
            to[4 * l + 1] = c[1][l];
            to[4 * l + 2] = c[2][l];
            to[4 * l + 3] = c[3][l];
        }
    }
}

static void uniform_f32(int64_t n, const uint32_t *high, float *value)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) value[i] = unit_f32(high[i]);
}

static void normal_f32(int64_t n, const uint32_t *high, float *value)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i += 2)
        normal_pair_f32(high[i], high[i + 1], &value[i], &value[i + 1]);
}

static void uniform_f64(int64_t n, const uint32_t *high, const uint32_t *low, double *value)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) value[i] = unit_f64(high[i], low[i]);
}

static void open_uniform_f64(int64_t n, const uint32_t *high, const uint32_t *low, double *value)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) value[i] = open_unit_f64(high[i], low[i]);
}

static void normal_f64(int64_t n, const uint32_t *high, const uint32_t *low, double *value)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i += 2)
        normal_pair_f64(unit_f64(high[i], low[i]), unit_f64(high[i + 1], low[i + 1]), &value[i],
                        &value[i + 1]);
}

static void log_normal(int64_t n, double *value, double mean, double std)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) value[i] = exp_f64(mean + std * value[i]);
}

static void exponential(int64_t n, double *value, double rate)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) value[i] = exponential_time(value[i], rate);
}

static void geometric(int64_t n, double *value, double p)
{
    const double log_failure = log_one_minus(p);

#pragma omp simd
    for (int64_t i = 0; i < n; i++) value[i] = geometric_trials(value[i], log_failure);
}

static void truncated_normal(int64_t n, double *value, double first, double width, double base,
                             double scale)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        value[i] = base + scale * normal_quantile(first + width * value[i]);
}

static double normal_cdf(double x) { return normcdf_f64(x); }

static void clamp(int64_t n, double *value, double low, double high)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        double above = value[i] < low ? low : value[i];

        value[i] = above > high ? high : above;
    }
}

static void randint_range(int64_t n, const uint32_t *high, const uint32_t *low, int64_t base,
                          uint64_t range, int64_t *value)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        value[i] = (int64_t)((uint64_t)base + uniform_below(range, high[i], low[i]));
}

static void bernoulli(int64_t n, const uint32_t *high, uint64_t threshold, int64_t *value)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) value[i] = high[i] < threshold;
}

#define WF_LOOPS "kernels/cpu/isa/random.inc"
#include "kernels/cpu/isa/each_float.inc"

const struct wf_random WF_ISA_NAME(wf_random) = {
    .words = philox_words_of_blocks,
    .uniform_f32 = uniform_f32,
    .normal_f32 = normal_f32,
    .uniform_f64 = uniform_f64,
    .normal_f64 = normal_f64,
    .between_f64 = open_uniform_f64,
    .log_normal = log_normal,
    .exponential = exponential,
    .geometric = geometric,
    .quantile = truncated_normal,
    .share = normal_cdf,
    .clamp = clamp,
    .below = randint_range,
    .chance = bernoulli,
    .chance_of = {[WEFT_F32] = bernoulli_p_f32,
                  [WEFT_F64] = bernoulli_p_f64,
                  [WEFT_BF16] = bernoulli_p_bf16,
                  [WEFT_F16] = bernoulli_p_f16},
    .affine = {[WEFT_F32] = affine_f32,
               [WEFT_F64] = affine_f64,
               [WEFT_BF16] = affine_bf16,
               [WEFT_F16] = affine_f16},
    .dropout = {[WEFT_F32] = dropout_f32,
                [WEFT_F64] = dropout_f64,
                [WEFT_BF16] = dropout_bf16,
                [WEFT_F16] = dropout_f16},
};
