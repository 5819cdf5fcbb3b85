/*
 * random.c: Philox words, and numbers made of them.
 *
 * Compiled without contraction (CMakeLists.txt): add, multiply, divide and sqrt round the same way
 * in every instruction set, so the numbers have the same bits on every machine.
 */
#include "kernels/cpu/random.h"

#include "kernels/cpu/isa/vmath.h"

enum { LANES = WF_PHILOX_LANES };

/* LANES consecutive blocks at once, word i of all of them in c[i]. */
static void lanes(uint64_t first, uint64_t draw, uint64_t seed, uint32_t c[4][LANES])
{
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);

    for (int l = 0; l < LANES; l++) {
        c[0][l] = (uint32_t)(first + (uint64_t)l);
        c[1][l] = (uint32_t)((first + (uint64_t)l) >> 32);
        c[2][l] = (uint32_t)draw;
        c[3][l] = (uint32_t)(draw >> 32);
    }
    for (int round = 0; round < 10; round++) {
#pragma omp simd
        for (int l = 0; l < LANES; l++) {
            uint64_t a = (uint64_t)0xD2511F53u * c[0][l], b = (uint64_t)0xCD9E8D57u * c[2][l];

            c[0][l] = (uint32_t)(b >> 32) ^ c[1][l] ^ k0;
            c[1][l] = (uint32_t)b;
            c[2][l] = (uint32_t)(a >> 32) ^ c[3][l] ^ k1;
            c[3][l] = (uint32_t)a;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

static void words(int64_t blocks, uint64_t first, uint64_t draw, uint64_t seed, uint32_t *to)
{
    uint32_t c[4][LANES];

    for (int64_t b = 0; b < blocks; b += LANES, to += 4 * LANES) {
        lanes(first + (uint64_t)b, draw, seed, c);
        for (int l = 0; l < LANES; l++)
            for (int i = 0; i < 4; i++)
                to[4 * l + i] = c[i][l];
    }
}

/* The upper 24 bits: exact in a float. */
static void uniform(int64_t n, const uint32_t *word, float *value)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        value[i] = (float)(int32_t)(word[i] >> 8) * 0x1p-24f;
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
