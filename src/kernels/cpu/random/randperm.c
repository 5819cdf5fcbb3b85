/*
 * randperm.c: a random permutation, of which each rank computes its own elements only: few elements
 * by every rank as a whole, of many those of the shard (isa/permutation.h).
 */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "kernels/cpu/isa/permutation.h"
#include "kernels/cpu/pointwise/elementwise.h"
#include "kernels/cpu/random/rng_index.h"

struct permute {
    struct wf_rng_index places;
    int64_t n, stride;
    bool wide; /* i64 */
};

static void fisher_yates_shuffle(int16_t *order, int64_t n, uint64_t draw, uint64_t seed)
{
    for (int64_t i = 0; i < n; i++) order[i] = (int16_t)i;
    for (int64_t i = n - 1; i > 0; i--) {
        uint32_t high = philox_block((uint64_t)i / 4, draw, seed).w[i % 4];
        uint32_t low = philox_block((uint64_t)i / 4, draw | WF_SECOND_PLANE, seed).w[i % 4];
        int64_t j = fisher_yates_partner(i, high, low);
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
    uint64_t draw = (uint64_t)scalars->v[1], seed = (uint64_t)scalars->v[0];
    bool few = p->n <= WF_PERMUTE_WHOLE;
    int16_t order[WF_PERMUTE_WHOLE];
    struct wf_permutation map;
    int64_t at = 0, size;

    (void)in;
    if (few)
        fisher_yates_shuffle(order, p->n, draw, seed);
    else
        map = make_permutation(p->n, draw, seed);
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
