/*
 * permutation.h: random permutations of n numbers, from (seed, draw). A device backend evaluates
 * the same lines.
 *
 * Few numbers: Fisher and Yates, all of them at once, so that all n! orders are equally likely.
 * Many: a keyed one-to-one map of [0, 2^bits), made of steps that add to one half of the bits a
 * function of the other half, and applied again until the result is below n (less than twice on
 * average).
 */
#pragma once

#include "kernels/cpu/isa/philox.h"

enum { WF_PERMUTE_WHOLE = 1024, WF_PERMUTATION_STEPS = 12 }; /* up to how many are few */

/* ---- few ---- */

/** With whom element i, the last of i + 1, changes places, by its words of both planes. */
static inline int64_t fisher_yates_partner(int64_t i, uint32_t high, uint32_t low)
{
    return (int64_t)uniform_below((uint64_t)i + 1, high, low);
}

/* ---- many ---- */

struct wf_permutation {
    int64_t n;
    int lower;    /* bits of the lower half */
    int64_t coin; /* 0 or 1 */
    uint64_t lower_mask, upper_mask, key[WF_PERMUTATION_STEPS];
};

static inline uint64_t mix_bits(uint64_t x)
{
    x = (x ^ x >> 33) * 0xFF51AFD7ED558CCDu;
    x = (x ^ x >> 33) * 0xC4CEB9FE1A85EC53u;
    return x ^ x >> 33;
}

static inline struct wf_permutation make_permutation(int64_t n, uint64_t draw, uint64_t seed)
{
    struct wf_permutation m;
    int bits = 0;

    while (((uint64_t)n - 1) >> bits) bits++;
    m.n = n;
    m.lower = bits / 2;
    m.lower_mask = ((uint64_t)1 << m.lower) - 1;
    m.upper_mask = ((uint64_t)1 << (bits - m.lower)) - 1;
    for (int s = 0; s < WF_PERMUTATION_STEPS; s++) {
        struct wf_philox_words w = philox_block((uint64_t)s, draw, seed);

        m.key[s] = (uint64_t)w.w[0] << 32 | w.w[1];
        m.coin = w.w[2] & 1;
    }
    return m;
}

static inline int64_t apply_permutation(const struct wf_permutation *m, int64_t index)
{
    uint64_t lower = (uint64_t)index & m->lower_mask, upper = (uint64_t)index >> m->lower;

    for (int s = 0; s < WF_PERMUTATION_STEPS; s += 2) {
        upper ^= mix_bits(lower + m->key[s]) & m->upper_mask;
        lower ^= mix_bits(upper + m->key[s + 1]) & m->lower_mask;
    }
    return (int64_t)(upper << m->lower | lower);
}

static inline int64_t permuted_index(const struct wf_permutation *m, int64_t index)
{
    if (index < 2) index ^= m->coin;
    do index = apply_permutation(m, index);
    while (index >= m->n);
    return index;
}
