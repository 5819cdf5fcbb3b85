/* random.h: the table between cpu/random.c and its loops in cpu/isa/random.c. */
#pragma once

#include "kernels/cpu/isa.h"

/** Philox blocks (of four words) are made so many at a time. */
enum { WF_PHILOX_LANES = 16 };

struct wf_random {
    /** The words of blocks first, first + 1, ...; `blocks` is a multiple of WF_PHILOX_LANES. */
    void (*words)(int64_t blocks, uint64_t first, uint64_t draw, uint64_t seed, uint32_t *words);
    /** n words to uniform values in [0, 1), or to normal values (n a multiple of 4). */
    void (*uniform)(int64_t n, const uint32_t *words, float *values);
    void (*normal)(int64_t n, const uint32_t *words, float *values);
    /** y = base + scale * value; results that do not lie below `limit` become `cap`. */
    void (*affine[WEFT_BF16 + 1])(int64_t n, const float *values, void *y, double base,
                                  double scale, double limit, double cap);
    /** y = x * scale where the word is at least `threshold`, else 0; y may be x. */
    void (*dropout[WEFT_BF16 + 1])(int64_t n, const uint32_t *words, const void *x, void *y,
                                   uint32_t threshold, double scale);
};

WF_ISA_TABLE(struct wf_random, wf_random)
