/*
 * random.c: Philox words, and numbers made of them.
 *
 * Compiled without contraction (CMakeLists.txt): add, multiply, divide and sqrt round the same way
 * in every instruction set, so the numbers have the same bits on every machine.
 */
#include "kernels/cpu/random.h"

#include "kernels/cpu/isa/vmath.h"

enum { LANES = WF_PHILOX_LANES };

/* One round: c = the words of one block. The products' halves are taken apart as 32-bit numbers,
 * which is the form that compilers turn into vector multiplications. */
#define ROUND(k)                                                                                   \
    do {                                                                                           \
        uint32_t high0 = (uint32_t)(((uint64_t)0xD2511F53u * c0) >> 32);                           \
        uint32_t high1 = (uint32_t)(((uint64_t)0xCD9E8D57u * c2) >> 32);                           \
        uint32_t low0 = 0xD2511F53u * c0, low1 = 0xCD9E8D57u * c2;                                 \
                                                                                                   \
        c0 = high1 ^ c1 ^ (k0 + (k)*0x9E3779B9u);                                                  \
        c2 = high0 ^ c3 ^ (k1 + (k)*0xBB67AE85u);                                                  \
        c1 = low1;                                                                                 \
        c3 = low0;                                                                                 \
    } while (0)

/* LANES consecutive blocks at once, word i of all of them in c[i]. */
static void lanes(uint64_t first, uint64_t draw, uint64_t seed, uint32_t c[4][LANES])
{
    const uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);

#pragma omp simd
    for (int l = 0; l < LANES; l++) {
        uint32_t c0 = (uint32_t)first + (uint32_t)l;
        uint32_t c1 = (uint32_t)(first >> 32) + (c0 < (uint32_t)first);
        uint32_t c2 = (uint32_t)draw, c3 = (uint32_t)(draw >> 32);

        ROUND(0u);
        ROUND(1u);
        ROUND(2u);
        ROUND(3u);
        ROUND(4u);
        ROUND(5u);
        ROUND(6u);
        ROUND(7u);
        ROUND(8u);
        ROUND(9u);
        c[0][l] = c0;
        c[1][l] = c1;
        c[2][l] = c2;
        c[3][l] = c3;
    }
}

static void words(int64_t blocks, uint64_t first, uint64_t draw, uint64_t seed, uint32_t *to)
{
    uint32_t c[4][LANES];

    for (int64_t b = 0; b < blocks; b += LANES, to += 4 * LANES) {
        lanes(first + (uint64_t)b, draw, seed, c);
#pragma omp simd
        for (int l = 0; l < LANES; l++) {
            to[4 * l] = c[0][l];
            to[4 * l + 1] = c[1][l];
            to[4 * l + 2] = c[2][l];
            to[4 * l + 3] = c[3][l];
        }
    }
}

/* The upper 24 bits: exact in a float. */
static void uniform(int64_t n, const uint32_t *word, float *value)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) value[i] = (float)(int32_t)(word[i] >> 8) * 0x1p-24f;
}

/* sin(v pi / 2) and cos(v pi / 2) for |v| <= 1/2 (tools/fit_vmath.py). */
static inline float sin_quarter(float v)
{
    float z = v * v, p = -0.00460211762f;

    p = p * z + 0.0796802078f;
    p = p * z - 0.645963477f;
    p = p * z + 1.57079632f;
    return p * v;
}

static inline float cos_quarter(float v)
{
    float z = v * v, p = 9.03621861e-4f;

    p = p * z - 0.0208600668f;
    p = p * z + 0.253669203f;
    p = p * z - 1.23370054f;
    return p * z + 1.0f;
}

/* Box and Muller: r = sqrt(-2 log u) of the even word, u in (0, 1], the angle of the odd one. */
static void normal(int64_t n, const uint32_t *word, float *value)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i += 2) {
        float u = (float)(int32_t)((word[i] >> 8) + 1) * 0x1p-24f;
        int32_t angle = (int32_t)(word[i + 1] >> 8);
        int32_t quarter = (angle + (1 << 21)) >> 22;
        float v = (float)(angle - quarter * (1 << 22)) * 0x1p-22f;
        float r = sqrtf(-2.0f * log_f32(u)), s = sin_quarter(v), c = cos_quarter(v);
        float x = quarter & 1 ? s : c, y = quarter & 1 ? c : s;

        value[i] = r * ((quarter + 1) & 2 ? -x : x);
        value[i + 1] = r * (quarter & 2 ? -y : y);
    }
}

#define WF_TYPE_F32
#include "kernels/cpu/isa/type.h"

#include "kernels/cpu/isa/random.inc"

#define WF_TYPE_F64
#include "kernels/cpu/isa/type.h"

#include "kernels/cpu/isa/random.inc"

#define WF_TYPE_BF16
#include "kernels/cpu/isa/type.h"

#include "kernels/cpu/isa/random.inc"

const struct wf_random WF_ISA_NAME(wf_random) = {
    .words = words,
    .uniform = uniform,
    .normal = normal,
    .affine = {[WEFT_F32] = affine_f32, [WEFT_F64] = affine_f64, [WEFT_BF16] = affine_bf16},
    .dropout = {[WEFT_F32] = dropout_f32, [WEFT_F64] = dropout_f64, [WEFT_BF16] = dropout_bf16},
};
