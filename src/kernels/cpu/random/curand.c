/*
 * curand.c: the numbers of cuRAND's host generator CURAND_RNG_PSEUDO_PHILOX4_32_10 in its default
 * order, by their place in its sequence.
 *
 * That generator behaves as 65536 threads that take turns, each with Philox blocks of its own:
 * thread t has the blocks whose counter is {b, 0, t, 0}, b = 0, 1, 2, ... A turn gives four
 * numbers: of f32 the words of one block, of f64, which take two words each, those of two. Normal
 * numbers are made in pairs (Box and Muller), sine before cosine. Formulas as in curand_uniform.h
 * and curand_normal.h, whose numbers are in (0, 1]; sine, cosine and logarithm are libm's.
 */
#include <math.h>

#include "kernels/cpu/isa/philox.h"
#include "kernels/cpu/random/random_batch.h"

enum { THREADS = 65536, PER_TURN = 4 };

static const double pi = 3.14159265358979323846;

/* Block `b` of the thread whose turn it is. */
static struct wf_philox_words block_of_turn(int64_t turn, int64_t b, uint64_t seed)
{
    return philox_block((uint64_t)b, (uint64_t)(turn % THREADS), seed);
}

static struct wf_philox_words block_f32(int64_t place, uint64_t seed)
{
    int64_t turn = place / PER_TURN;

    return block_of_turn(turn, turn / THREADS, seed);
}

/* A turn's first two numbers are from one block, the others from the next. */
static struct wf_philox_words block_f64(int64_t place, uint64_t seed)
{
    int64_t turn = place / PER_TURN;

    return block_of_turn(turn, turn / THREADS * 2 + place % PER_TURN / 2, seed);
}

static float unit_of_word(uint32_t word) { return (float)word * 0x1p-32f + 0x1p-33f; }

static double unit_of_words(uint32_t low, uint32_t high)
{
    return (double)(low ^ (uint64_t)high << 21) * 0x1p-53 + 0x1p-54;
}

static double curand_uniform_f32_at(int64_t place, uint64_t seed)
{
    return unit_of_word(block_f32(place, seed).w[place % PER_TURN]);
}

static double curand_uniform_f64_at(int64_t place, uint64_t seed)
{
    struct wf_philox_words block = block_f64(place, seed);
    const uint32_t *w = block.w + place % 2 * 2;

    return unit_of_words(w[0], w[1]);
}

static double curand_normal_f32_at(int64_t place, uint64_t seed)
{
    struct wf_philox_words block = block_f32(place, seed);
    const uint32_t *pair = block.w + place % PER_TURN / 2 * 2;
    const float turn_share = 0x1p-32f * (float)(2 * pi); /* of a word: 2 pi 2^-32 */
    float angle = (float)pair[1] * turn_share + turn_share / 2;
    float radius = sqrtf(-2 * logf(unit_of_word(pair[0])));

    return radius * (place % 2 ? cosf(angle) : sinf(angle));
}

static double curand_normal_f64_at(int64_t place, uint64_t seed)
{
    struct wf_philox_words block = block_f64(place, seed);
    double angle = unit_of_words(block.w[2], block.w[3]) * 2 * pi;
    double radius = sqrt(-2 * log(unit_of_words(block.w[0], block.w[1])));

    return radius * (place % 2 ? cos(angle) : sin(angle));
}

/* base + scale * number for each element, in the arithmetic of its dtype; the first element of the
 * whole tensor has the place scalars->v[1]. */
static void fill_from(struct wf_random_batch *b, double (*f32)(int64_t, uint64_t),
                      double (*f64)(int64_t, uint64_t), double base, double scale)
{
    uint64_t seed = (uint64_t)b->scalars->v[0];
    float *floats = (float *)(void *)b->y;
    double *doubles = (double *)(void *)b->y;
    int64_t at = 0;

    for (int r = 0; r < b->n_runs; r++) {
        int word = b->run[r].word;
        int64_t place = b->scalars->v[1] + 4 * (int64_t)b->block[word / 4] + word % 4;

        for (int i = 0; i < b->run[r].size; i++, at++, place++)
            if (b->draws->dtype == WEFT_F64)
                doubles[at] = base + scale * f64(place, seed);
            else
                floats[at] = (float)base + (float)scale * (float)f32(place, seed);
    }
}

static void fill_curand_uniform(struct wf_random_batch *b)
{
    double low = b->scalars->s[0], high = b->scalars->s[1];

    fill_from(b, curand_uniform_f32_at, curand_uniform_f64_at, low, high - low);
}

static void fill_curand_normal(struct wf_random_batch *b)
{
    fill_from(b, curand_normal_f32_at, curand_normal_f64_at, b->scalars->s[0], b->scalars->s[1]);
}

static weft_status prepare(struct wf_kernel_call *k, wf_random_batch_fill *fill)
{
    uint8_t dtype = k->out[0]->dtype;

    if (dtype != WEFT_F32 && dtype != WEFT_F64) return wf_fail_no_kernel(k, dtype);
    return wf_random_kernel_prepare(k, fill, true);
}

weft_status wf_cpu_curand_uniform(struct wf_kernel_call *k)
{
    return prepare(k, fill_curand_uniform);
}

weft_status wf_cpu_curand_normal(struct wf_kernel_call *k)
{
    return prepare(k, fill_curand_normal);
}
