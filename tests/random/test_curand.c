/*
 * test_curand.c: Philox words, and the numbers of a generator of cuRAND's kind, are those of
 * NVIDIA's cuRAND, whose host generator needs no GPU.
 *
 * That generator behaves as 65536 threads that take turns, four words each: word 4 (t + 65536 b) +
 * l is lane l of block b of subsequence t. A subsequence is what a draw is here.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/mpi_check.h"
#include <weft/weft.h>

#ifdef WT_CURAND

#include <curand.h>

enum { THREADS = 65536, BLOCKS = 3, WORDS = 4 * THREADS * BLOCKS };

static const uint64_t seeds[] = {0, 1, 0x123456789abcdef0u, ((uint64_t)1 << 63) + 42};
static const int draws[] = {0, 1, 2, 77, 4096, THREADS - 1};
enum { SEEDS = sizeof seeds / sizeof *seeds, DRAWS = sizeof draws / sizeof *draws };

static curandGenerator_t host_generator(uint64_t seed)
{
    curandGenerator_t generator;

    ck_assert_int_eq(curandCreateGeneratorHost(&generator, CURAND_RNG_PSEUDO_PHILOX4_32_10),
                     CURAND_STATUS_SUCCESS);
    ck_assert_int_eq(curandSetPseudoRandomGeneratorSeed(generator, seed), CURAND_STATUS_SUCCESS);
    return generator;
}

static unsigned *words_of(uint64_t seed)
{
    unsigned *words = malloc(WORDS * sizeof *words);
    curandGenerator_t generator = host_generator(seed);

    ck_assert_int_eq(curandGenerate(generator, words, WORDS), CURAND_STATUS_SUCCESS);
    curandDestroyGenerator(generator);
    return words;
}

WT_UNIT_TIMES(philox__words_are_those_of_curand, SEEDS)
{
    uint64_t seed = seeds[_i];
    unsigned *words = words_of(seed);
    int wrong = 0; /* libcheck writes a line for every assertion */

    for (uint32_t t = 0; t < THREADS; t++)
        for (uint32_t b = 0; b < BLOCKS; b++) {
            const uint32_t key[] = {(uint32_t)seed, (uint32_t)(seed >> 32)},
                           counter[] = {b, 0, t, 0};
            uint32_t got[4];

            weft_philox(got, counter, key);
            wrong += memcmp(got, words + 4 * (t + THREADS * b), sizeof got) != 0;
        }
    ck_assert_int_eq(wrong, 0);
    free(words);
}

/* The upper 24 bits of the word are the fraction, whatever instruction set makes it. */
WT_UNIT_TIMES(uniform__is_made_of_the_words_of_curand, SEEDS)
{
    uint64_t seed = seeds[_i];
    unsigned *words = words_of(seed);
    weft_scope *scope = weft_scope_open();
    unsigned char state[WEFT_GENERATOR_BYTES] = {0};

    for (int i = 0; i < DRAWS; i++) {
        weft_tensor *t = weft_empty(WEFT_F32, (int64_t[]){4 * BLOCKS}, 1);
        const float *value = weft_data(t);

        for (int byte = 0; byte < 8; byte++) {
            state[byte] = (unsigned char)(seed >> 8 * byte);
            state[8 + byte] = (unsigned char)((uint64_t)draws[i] >> 8 * byte);
        }
        ck_assert_int_eq(weft_generator_set_state(NULL, state), WEFT_OK);
        ck_assert_int_eq(weft_uniform_(t, 0, 1, NULL), WEFT_OK);
        for (int j = 0; j < 4 * BLOCKS; j++) {
            unsigned word = words[4 * (draws[i] + THREADS * (j / 4)) + j % 4];

            ck_assert(value[j] == (float)(word >> 8) * 0x1p-24f);
        }
    }
    weft_scope_close(scope);
    free(words);
}

/* ---- a generator of cuRAND's kind ---- */

enum { FIRST = 5, NUMBERS = 4 * THREADS + 9 }; /* even together: pairs of normal numbers */

typedef weft_status draw_fn(weft_tensor *t, double a, double b, weft_generator *g);

/* The numbers of two draws, one after the other. The caller frees. */
static double *two_draws(draw_fn *draw, weft_dtype dtype, double a, double b, uint64_t seed)
{
    weft_generator *g = weft_generator_new_curand(seed);
    weft_scope *scope = weft_scope_open();
    weft_tensor *first = weft_empty(dtype, (int64_t[]){FIRST}, 1),
                *rest = weft_empty(dtype, (int64_t[]){NUMBERS}, 1);
    double *values = malloc((FIRST + NUMBERS) * sizeof *values);

    ck_assert_int_eq(draw(first, a, b, g), WEFT_OK);
    ck_assert_int_eq(draw(rest, a, b, g), WEFT_OK);
    ck_assert(weft_generator_draws(g) == FIRST + NUMBERS);
    ck_assert_int_eq(weft_read_f64(first, values, FIRST), WEFT_OK);
    ck_assert_int_eq(weft_read_f64(rest, values + FIRST, NUMBERS), WEFT_OK);
    weft_scope_close(scope);
    weft_generator_release(g);
    return values;
}

static const double mean = 0.5, std = 2;

/* The numbers of one call of cuRAND. */
static void call_curand(curandGenerator_t g, weft_dtype dtype, bool normal, double *values,
                        size_t n)
{
    float *floats = malloc(n * sizeof *floats);
    curandStatus_t status;

    if (dtype == WEFT_F64)
        status = normal ? curandGenerateNormalDouble(g, values, n, mean, std)
                        : curandGenerateUniformDouble(g, values, n);
    else
        status = normal ? curandGenerateNormal(g, floats, n, (float)mean, (float)std)
                        : curandGenerateUniform(g, floats, n);
    ck_assert_int_eq(status, CURAND_STATUS_SUCCESS);
    for (size_t i = 0; dtype == WEFT_F32 && i < n; i++) values[i] = (double)floats[i];
    free(floats);
}

static double distance(const double *a, const double *b)
{
    double worst = 0;

    for (int i = 0; i < FIRST + NUMBERS; i++) worst = fmax(worst, fabs(a[i] - b[i]));
    return worst;
}

static const struct {
    weft_dtype dtype;
    double normal_bound; /* the last places: each side has a sine and a logarithm of its own */
} numbers[] = {{WEFT_F32, 2e-6}, {WEFT_F64, 1e-14}};

WT_UNIT_TIMES(curand__numbers_are_those_of_its_host_generator, 2 * SEEDS)
{
    uint64_t seed = seeds[_i / 2];
    weft_dtype dtype = numbers[_i % 2].dtype;
    curandGenerator_t uniform = host_generator(seed), normal = host_generator(seed);
    double *want = malloc((FIRST + NUMBERS) * sizeof *want);
    double *got = two_draws(weft_uniform_, dtype, 0, 1, seed);

    call_curand(uniform, dtype, false, want, FIRST);
    call_curand(uniform, dtype, false, want + FIRST, NUMBERS);
    ck_assert(distance(got, want) == 0);
    free(got);
    got = two_draws(weft_normal_, dtype, mean, std, seed);
    call_curand(normal, dtype, true, want, FIRST + NUMBERS);
    ck_assert(distance(got, want) <= numbers[_i % 2].normal_bound);
    free(got);
    free(want);
    curandDestroyGenerator(uniform);
    curandDestroyGenerator(normal);
}

int main(int argc, char **argv)
{
    int failed;

    WEFT_CHECK(weft_init(&argc, &argv));
    failed = wt_unit_main("curand");
    return weft_finalize() || failed;
}

#else

int main(void)
{
    puts("skipped: this build found no cuRAND (a part of the CUDA toolkit)");
    return 77;
}

#endif
