/*
 * randperm.c: a random permutation, of which each rank computes its own elements only.
 *
 * Few elements: Fisher and Yates, by every rank as a whole, so that all n! are equally likely.
 * Many: a keyed one-to-one map of [0, 2^bits), made of steps that add to one half of the bits a
 * function of the other half, and applied again until the result is below n (less than twice on
 * average).
 */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "kernels/cpu/isa/philox.h"
#include "kernels/cpu/pointwise/elementwise.h"
#include "kernels/cpu/random/rng_index.h"

enum { FEW = 1024, STEPS = 12 };

struct permute {
    struct wf_rng_index places;
    int64_t n, stride;
    bool wide; /* i64 */
};

/* A call's own map. */
struct map {
    int64_t n;
    int lower;    /* bits of the lower half */
    int64_t coin; /* 0 or 1 */
    uint64_t lower_mask, upper_mask, key[STEPS];
};

static uint64_t mix_bits(uint64_t x)
{
    x = (x ^ x >> 33) * 0xFF51AFD7ED558CCDu;
    x = (x ^ x >> 33) * 0xC4CEB9FE1A85EC53u;
    return x ^ x >> 33;
}

static void make_feistel_map(struct map *m, int64_t n, const struct wf_scalars *scalars)
{
    int bits = 64 - __builtin_clzll((uint64_t)n - 1);

    m->n = n;
    m->lower = bits / 2;
    m->lower_mask = ((uint64_t)1 << m->lower) - 1;
    m->upper_mask = ((uint64_t)1 << (bits - m->lower)) - 1;
    for (int s = 0; s < STEPS; s++) {
        struct wf_philox_words w =
            philox_block((uint64_t)s, (uint64_t)scalars->v[1], (uint64_t)scalars->v[0]);

        m->key[s] = (uint64_t)w.w[0] << 32 | w.w[1];
        m->coin = w.w[2] & 1;
    }
}

static int64_t apply_feistel_map(const struct map *m, int64_t index)
{
    uint64_t lower = (uint64_t)index & m->lower_mask, upper = (uint64_t)index >> m->lower;

    for (int s = 0; s < STEPS; s += 2) {
        upper ^= mix_bits(lower + m->key[s]) & m->upper_mask;
        lower ^= mix_bits(upper + m->key[s + 1]) & m->lower_mask;
    }
    return (int64_t)(upper << m->lower | lower);
}

static int64_t permuted_index(const struct map *m, int64_t index)
{
    if (index < 2) index ^= m->coin;
    do index = apply_feistel_map(m, index);
    while (index >= m->n);
    return index;
}

static void fisher_yates_shuffle(int16_t *order, int64_t n, const struct wf_scalars *scalars)
{
    for (int64_t i = 0; i < n; i++) order[i] = (int16_t)i;
    for (int64_t i = n - 1; i > 0; i--) {
        uint64_t draw = (uint64_t)scalars->v[1], seed = (uint64_t)scalars->v[0];
        uint32_t high = philox_block((uint64_t)i / 4, draw, seed).w[i % 4];
        uint32_t low = philox_block((uint64_t)i / 4, draw | WF_SECOND_PLANE, seed).w[i % 4];
        int64_t j = (int64_t)uniform_below((uint64_t)i + 1, high, low);
        int16_t kept = order[i];

        order[i] = order[j];
        order[j] = kept;
    }
}

static void store_index(const struct permute *p, void *y, int64_t at, int64_t value)
{
    if (p->wide)
        ((int64_t *)y)[at * p->stride] = value;
    else
        ((int32_t *)y)[at * p->stride] = (int32_t)value;
}

static void run_randperm(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                         const struct wf_scalars *scalars)
{
    const struct permute *p = k->prep;
    bool few = p->n <= FEW;
    int16_t order[FEW];
    struct map map;
    int64_t at = 0, size;

    (void)in;
    if (few)
        fisher_yates_shuffle(order, p->n, scalars);
    else
        make_feistel_map(&map, p->n, scalars);
    for (struct wf_rng_index_cursor c = wf_rng_index_cursor_begin(&p->places); c.left > 0;
         wf_rng_index_cursor_advance(&c, size)) {
        int64_t index = wf_rng_index_cursor_peek(&c, &size);

        for (int64_t i = index; i < index + size; i++, at++)
            store_index(p, out[0], at, few ? order[i] : permuted_index(&map, i));
    }
}

static void free_randperm(void *prep)
{
    struct permute *p = prep;

    wf_rng_index_free(&p->places);
    wf_free(p);
}

weft_status wf_cpu_randperm(struct wf_kernel_call *k)
{
    const struct wf_tensor_desc *y = k->out[0];
    struct permute *p;

    if (y->dtype != WEFT_I32 && y->dtype != WEFT_I64) return wf_fail_no_kernel(k, y->dtype);
    k->prep = p = WF_NEW(struct permute);
    k->drop = free_randperm;
    p->n = y->global[0];
    p->stride = y->stride[0];
    p->wide = y->dtype == WEFT_I64;
    wf_rng_index_make(&p->places, y);
    k->run = y->numel ? run_randperm : wf_kernel_run_noop;
    return WEFT_OK;
}
