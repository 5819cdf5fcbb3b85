/*
 * random.c: numbers that belong to global elements: uniform, normal, dropout.
 *
 * Element i of the global tensor (row-major) is lane i % 4 of Philox block i / 4, whatever box of
 * the tensor this rank holds. A box is cut into runs of consecutive global elements. The loops do
 * not contract and use exactly rounded operations only, so every instruction set gives the same
 * bits.
 */
#include "kernels/cpu/random.h"

#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "base/error.h"
#include "base/mem.h"
#include "kernels/cpu/copy.h"
#include "kernels/cpu/lines.h"
#include <weft/random.h>

/* Words that are made at a time, from the start of a block. */
enum { CHUNK = 1024 };

void weft_philox(uint32_t out[4], const uint32_t counter[4], const uint32_t key[2])
{
    uint32_t c[4], k[2] = {key[0], key[1]};

    memcpy(c, counter, sizeof c);
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * c[0], b = (uint64_t)0xCD9E8D57u * c[2];

        c[0] = (uint32_t)(b >> 32) ^ c[1] ^ k[0];
        c[1] = (uint32_t)b;
        c[2] = (uint32_t)(a >> 32) ^ c[3] ^ k[1];
        c[3] = (uint32_t)a;
        k[0] += 0x9E3779B9u;
        k[1] += 0xBB67AE85u;
    }
    memcpy(out, c, sizeof c);
}

struct box {
    const struct wf_random *loops;
    uint8_t dtype;
    int64_t bytes;
    int64_t start;        /* global index of the box's first element */
    int64_t run;          /* elements of a run */
    struct wf_nest outer; /* of runs; steps are global indices */
    struct wf_copy copy;  /* dropout: input to output, where the input is strided */
    bool strided;
};

/* The first global index of run r. */
static int64_t run_start(const struct box *p, int64_t r)
{
    int64_t index = p->start;

    for (int d = p->outer.n_dims - 1; d >= 0; d--) {
        index += r % p->outer.dim[d].size * p->outer.dim[d].step[0];
        r /= p->outer.dim[d].size;
    }
    return index;
}

/* Elements whose words begin at words[skip]. */
struct chunk {
    const uint32_t *words;
    int skip;
    int64_t n;
    const char *x; /* dropout */
    char *y;
};

typedef void fill_chunk(const struct box *p, const struct chunk *c,
                        const struct wf_scalars *scalars);

static void each_chunk(const struct box *p, const char *x, char *y,
                       const struct wf_scalars *scalars, fill_chunk *fill)
{
    uint32_t words[CHUNK];

    for (int64_t r = 0; r < p->outer.count; r++) {
        int64_t at = run_start(p, r), end = at + p->run;

        while (at < end) {
            int skip = (int)(at % 4);
            int64_t n = end - at < CHUNK - skip ? end - at : CHUNK - skip;
            int64_t blocks = (skip + n + 3) / 4;

            blocks = (blocks + WF_PHILOX_LANES - 1) / WF_PHILOX_LANES * WF_PHILOX_LANES;
            p->loops->words(blocks, (uint64_t)(at / 4), (uint64_t)scalars->v[1],
                            (uint64_t)scalars->v[0], words);
            fill(p, &(struct chunk){words, skip, n, x, y}, scalars);
            at += n;
            x += n * p->bytes;
            y += n * p->bytes;
        }
    }
}

/* The largest value of the dtype below `high`, or `low` where there is none in between. */
static double value_below(uint8_t dtype, double low, double high)
{
    double below = nextafter(high, -INFINITY);

    if (dtype == WEFT_F32) {
        below = (double)(float)high < high ? (double)(float)high
                                           : (double)nextafterf((float)high, -INFINITY);
    } else if (dtype == WEFT_BF16) {
        /* Cutting the lower half of a float rounds towards 0; below 0 the next larger size. */
        float f = nextafterf((float)high, -INFINITY);
        uint32_t bits;

        memcpy(&bits, &f, sizeof bits);
        if (f < 0) bits += 0xffffu;
        below = (double)wf_bf16_to_f32((wf_bf16)(bits >> 16));
    }
    return below < low ? low : below;
}

static void fill_uniform(const struct box *p, const struct chunk *c,
                         const struct wf_scalars *scalars)
{
    double low = scalars->s[0], high = scalars->s[1];
    float values[CHUNK];

    p->loops->uniform(c->skip + c->n, c->words, values);
    p->loops->affine[p->dtype](c->n, values + c->skip, c->y, low, high - low,
                               low < high ? high : INFINITY, value_below(p->dtype, low, high));
}

static void fill_normal(const struct box *p, const struct chunk *c,
                        const struct wf_scalars *scalars)
{
    float values[CHUNK];

    p->loops->normal((c->skip + c->n + 3) / 4 * 4, c->words, values);
    p->loops->affine[p->dtype](c->n, values + c->skip, c->y, scalars->s[0], scalars->s[1], INFINITY,
                               INFINITY);
}

static void fill_dropout(const struct box *p, const struct chunk *c,
                         const struct wf_scalars *scalars)
{
    double drop = scalars->s[0];

    p->loops->dropout[p->dtype](c->n, c->words + c->skip, c->x, c->y, (uint32_t)ceil(drop * 0x1p32),
                                1 / (1 - drop));
}

static void run_uniform(const struct wf_kcall *k, void *const *out, const void *const *in,
                        const struct wf_scalars *scalars)
{
    (void)in;
    each_chunk(k->prep, out[0], out[0], scalars, fill_uniform);
}

static void run_normal(const struct wf_kcall *k, void *const *out, const void *const *in,
                       const struct wf_scalars *scalars)
{
    (void)in;
    each_chunk(k->prep, out[0], out[0], scalars, fill_normal);
}

static void run_dropout(const struct wf_kcall *k, void *const *out, const void *const *in,
                        const struct wf_scalars *scalars)
{
    const struct box *p = k->prep;

    if (!(ceil(scalars->s[0] * 0x1p32) < 0x1p32)) {
        memset(out[0], 0, (size_t)(k->out[0]->numel * p->bytes));
        return;
    }
    if (p->strided) p->copy.run(&p->copy, out[0], in[0]);
    each_chunk(p, p->strided ? out[0] : in[0], out[0], scalars, fill_dropout);
}

static weft_status prepare(struct wf_kcall *k, wf_kernel_run *run)
{
    const struct wf_desc *y = k->out[0];
    struct wf_strided global = wf_strided_packed(1, y->ndim, y->global);
    struct box *p;
    int inner;

    if (y->dtype > WEFT_BF16) return wf_no_kernel(k, y->dtype);
    k->prep = p = WF_NEW(struct box);
    p->loops = WF_ISA_PICK(wf_random);
    p->dtype = y->dtype;
    p->bytes = wf_dtypes[y->dtype].size;
    for (int d = 0; d < y->ndim; d++) p->start += y->offset[d] * global.stride[d];
    wf_nest_make(&p->outer, y->ndim, y->shape, 1, &global);
    inner = p->outer.n_dims - 1;
    if (inner >= 0 && p->outer.dim[inner].step[0] != 1) inner = -1;
    p->run = wf_nest_take(&p->outer, inner).size;
    k->run = y->numel ? run : wf_run_nothing;
    return WEFT_OK;
}

weft_status wf_cpu_uniform(struct wf_kcall *k) { return prepare(k, run_uniform); }

weft_status wf_cpu_normal(struct wf_kcall *k) { return prepare(k, run_normal); }

weft_status wf_cpu_dropout(struct wf_kcall *k)
{
    const struct wf_desc *x = k->in[0], *y = k->out[0];
    struct wf_strided to = wf_strided_packed(wf_dtypes[y->dtype].size, y->ndim, y->shape);
    struct wf_strided from = wf_strided_broadcast(x, y->ndim, y->shape);
    struct box *p;

    WF_TRY(wf_need_dtype(k, 0, y->dtype));
    WF_TRY(prepare(k, run_dropout));
    p = k->prep;
    p->strided = !x->contiguous;
    wf_copy_make(&p->copy, y->ndim, y->shape, &to, &from);
    return WEFT_OK;
}
