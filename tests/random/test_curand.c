/*
 * test_curand.c: Philox words are those of NVIDIA's cuRAND, whose host generator needs no GPU.
 *
 * That generator behaves as 65536 threads that take turns, four words each: word 4 (t + 65536 b) +
 * l is lane l of block b of subsequence t. A subsequence is what a draw is here.
 */
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

static unsigned *words_of(uint64_t seed)
{
    unsigned *words = malloc(WORDS * sizeof *words);
    curandGenerator_t generator;

    ck_assert_int_eq(curandCreateGeneratorHost(&generator, CURAND_RNG_PSEUDO_PHILOX4_32_10),
                     CURAND_STATUS_SUCCESS);
    ck_assert_int_eq(curandSetPseudoRandomGeneratorSeed(generator, seed), CURAND_STATUS_SUCCESS);
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
