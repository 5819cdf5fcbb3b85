/*
 * random.c: kernels whose numbers belong to global elements.
 *
 * A part's elements come in batches: the Philox blocks that hold their words (places.h says which),
 * the words of one or two planes, values made of all of them, and the values of this rank's
 * elements picked out. What a value is, is decided in isa/draw.h.
 */
#include "kernels/cpu/random.h"

#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "base/error.h"
#include "base/mem.h"
#include "kernels/cpu/copy.h"
#include "kernels/cpu/isa/draw.h"
#include "kernels/cpu/places.h"
#include "kernels/cpu/pointwise.h"
#include "kernels/cpu/scratch.h"
#include <weft/random.h>

enum { BLOCKS = 256, WORDS = 4 * BLOCKS };

void weft_philox(uint32_t out[4], const uint32_t counter[4], const uint32_t key[2])
{
    struct wf_words words;

    memcpy(words.w, counter, sizeof words.w);
    words = philox(words, key[0], key[1]);
    memcpy(out, words.w, sizeof words.w);
}

/* ---- batches ---- */

struct batch {
    const struct draws *draws;
    const struct wf_scalars *scalars;
    int64_t n;     /* elements */
    int64_t words; /* that their blocks have */
    int n_blocks;  /* a multiple of WF_PHILOX_LANES: the last is repeated */
    int n_parts;   /* elements whose words follow each other */
    struct {
        int word, size;
    } part[BLOCKS];
    uint64_t block[BLOCKS];
    uint32_t high[WORDS];
    const char *x; /* the input's elements, for kernels that have one */
    char *y;
};

typedef void fill_batch(struct batch *b);

/* What is prepared for a call. */
struct draws {
    const struct wf_random *loops;
    const struct wf_moves *moves;
    fill_batch *fill;
    uint8_t dtype;
    int64_t bytes;
    struct wf_places places;
    bool gathers, scatters; /* the input, the output is strided: through scratch memory */
    struct wf_copy gather, scatter;
};

static void add_part(struct batch *b, int64_t index, int64_t size)
{
    int64_t last = (index + size - 1) / 4;

    b->part[b->n_parts].word = (int)(4 * b->n_blocks + index % 4);
    b->part[b->n_parts++].size = (int)size;
    for (int64_t block = index / 4; block <= last; block++)
        b->block[b->n_blocks++] = (uint64_t)block;
    b->n += size;
}

/* As many elements as there is room for. */
static void take_batch(struct batch *b, struct wf_place_cursor *cursor)
{
    b->n = b->n_blocks = b->n_parts = 0;
    while (cursor->left > 0 && b->n_blocks < BLOCKS) {
        int64_t size, index = wf_places_next(cursor, &size);
        int64_t room = 4 * (BLOCKS - b->n_blocks) - index % 4;

        if (size > room) size = room;
        add_part(b, index, size);
        wf_places_advance(cursor, size);
    }
    b->words = 4 * b->n_blocks;
    while (b->n_blocks % WF_PHILOX_LANES) {
        b->block[b->n_blocks] = b->block[b->n_blocks - 1];
        b->n_blocks++;
    }
}

static void plane(const struct batch *b, uint64_t which, uint32_t *words)
{
    b->draws->loops->words(b->n_blocks, b->block, (uint64_t)b->scalars->v[1] | which,
                           (uint64_t)b->scalars->v[0], words);
}

/* Of values with one for each word, those of the elements, one after the other; in place. */
#define PICK(type, values)                                                                         \
    for (int64_t part = 0, at = 0; part < b->n_parts; part++)                                      \
        for (int i = 0; i < b->part[part].size; i++, at++)                                         \
    ((type *)(values))[at] = ((const type *)(values))[b->part[part].word + i]

static void *picked(const struct batch *b, void *values, size_t bytes)
{
    if (b->n_parts == 1) return (char *)values + (size_t)b->part[0].word * bytes;
    if (bytes == 8)
        PICK(uint64_t, values);
    else
        PICK(uint32_t, values);
    return values;
}

static void each_batch(const struct draws *p, const char *x, char *y,
                       const struct wf_scalars *scalars)
{
    struct batch b = {.draws = p, .scalars = scalars, .x = x, .y = y};

    for (struct wf_place_cursor cursor = wf_places_begin(&p->places); cursor.left > 0;) {
        take_batch(&b, &cursor);
        plane(&b, 0, b.high);
        p->fill(&b);
        b.x += b.n * p->bytes;
        b.y += b.n * p->bytes;
    }
}

/* ---- values that are stored by a cast ---- */

static void store(const struct batch *b, uint8_t from, const void *values)
{
    b->draws->moves->cast[from][b->draws->dtype](b->n, b->y, &values, NULL);
}

typedef void from_planes(int64_t n, const uint32_t *high, const uint32_t *low, double *values);

/* f64 values, one for each element. */
static double *values_of(struct batch *b, from_planes *make, double *values)
{
    uint32_t low[WORDS];

    plane(b, WF_SECOND_PLANE, low);
    make(b->words, b->high, low, values);
    return picked(b, values, sizeof *values);
}

/* ---- uniform and normal ---- */

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

static void fill_uniform(struct batch *b)
{
    const struct wf_random *loops = b->draws->loops;
    double low = b->scalars->s[0], high = b->scalars->s[1], doubles[WORDS];
    uint8_t dtype = b->draws->dtype;
    const void *values;
    float floats[WORDS];

    if (dtype == WEFT_F64) {
        values = values_of(b, loops->uniform_f64, doubles);
    } else {
        loops->uniform_f32(b->words, b->high, floats);
        values = picked(b, floats, sizeof *floats);
    }
    loops->affine[dtype](b->n, values, b->y, low, high - low, low < high ? high : INFINITY,
                         value_below(dtype, low, high));
}

static void fill_normal(struct batch *b)
{
    const struct wf_random *loops = b->draws->loops;
    uint8_t dtype = b->draws->dtype;
    double doubles[WORDS];
    const void *values;
    float floats[WORDS];

    if (dtype == WEFT_F64) {
        values = values_of(b, loops->normal_f64, doubles);
    } else {
        loops->normal_f32(b->words, b->high, floats);
        values = picked(b, floats, sizeof *floats);
    }
    loops->affine[dtype](b->n, values, b->y, b->scalars->s[0], b->scalars->s[1], INFINITY,
                         INFINITY);
}

/* ---- real distributions ---- */

/* The values of the dtype nearest to the bounds, inside them where there are any. */
static void bounds_of(uint8_t dtype, double *low, double *high)
{
    double above = -value_below(dtype, -INFINITY, -*low),
           below = value_below(dtype, -INFINITY, *high);
    char element[8];

    wf_dtypes[dtype].store(element, *low);
    if (wf_dtypes[dtype].load(element) != *low) *low = above;
    wf_dtypes[dtype].store(element, *high);
    if (wf_dtypes[dtype].load(element) != *high) *high = below;
}

/* Bounds above the mean are mirrored: shares near 0 have more digits than those near 1. */
static void fill_trunc_normal(struct batch *b)
{
    const struct wf_random *loops = b->draws->loops;
    double mean = b->scalars->s[0], std = b->scalars->s[1];
    double low = b->scalars->s[2], high = b->scalars->s[3];
    double sign = low > mean ? -1 : 1, doubles[WORDS], *values;
    double first = loops->share(((sign > 0 ? low : high) - mean) * sign / std);
    double last = loops->share(((sign > 0 ? high : low) - mean) * sign / std);

    values = values_of(b, loops->between_f64, doubles);
    loops->quantile(b->n, values, first, last - first, mean, sign * std);
    bounds_of(b->draws->dtype, &low, &high);
    loops->clamp(b->n, values, low, high);
    store(b, WEFT_F64, values);
}

static void fill_log_normal(struct batch *b)
{
    double doubles[WORDS], *values = values_of(b, b->draws->loops->normal_f64, doubles);

    b->draws->loops->log_normal(b->n, values, b->scalars->s[0], b->scalars->s[1]);
    store(b, WEFT_F64, values);
}

static void fill_exponential(struct batch *b)
{
    double doubles[WORDS], *values = values_of(b, b->draws->loops->between_f64, doubles);

    b->draws->loops->exponential(b->n, values, b->scalars->s[0]);
    store(b, WEFT_F64, values);
}

/* ---- whole numbers ---- */

static double largest_whole(uint8_t dtype)
{
    static const double largest[WEFT_DTYPE_COUNT] = {
        [WEFT_I32] = 0x7fffffff, [WEFT_I64] = 0x1p63 - 0x1p10, [WEFT_U8] = 255};

    return largest[dtype] > 0 ? largest[dtype] : INFINITY;
}

static void fill_geometric(struct batch *b)
{
    double doubles[WORDS], *values = values_of(b, b->draws->loops->between_f64, doubles);

    b->draws->loops->geometric(b->n, values, b->scalars->s[0]);
    b->draws->loops->clamp(b->n, values, 1, largest_whole(b->draws->dtype));
    store(b, WEFT_F64, values);
}

static void fill_randint(struct batch *b)
{
    uint32_t low[WORDS];
    int64_t values[WORDS];

    plane(b, WF_SECOND_PLANE, low);
    b->draws->loops->below(b->words, b->high, low, b->scalars->v[2], (uint64_t)b->scalars->v[3],
                           values);
    store(b, WEFT_I64, picked(b, values, sizeof *values));
}

/* The words below it are the share p. */
static uint64_t threshold_of(double p) { return (uint64_t)ceil(p * 0x1p32); }

static void fill_bernoulli(struct batch *b)
{
    int64_t values[WORDS];

    b->draws->loops->chance(b->words, b->high, threshold_of(b->scalars->s[0]), values);
    store(b, WEFT_I64, picked(b, values, sizeof *values));
}

static void fill_bernoulli_of(struct batch *b)
{
    b->draws->loops->chance_of[b->draws->dtype](b->n, picked(b, b->high, sizeof *b->high), b->x,
                                                b->y);
}

static void fill_dropout(struct batch *b)
{
    double drop = b->scalars->s[0];

    b->draws->loops->dropout[b->draws->dtype](b->n, picked(b, b->high, sizeof *b->high), b->x, b->y,
                                              (uint32_t)threshold_of(drop), 1 / (1 - drop));
}

/* ---- calls ---- */

static void run_fill(const struct wf_kcall *k, void *const *out, const void *const *in,
                     const struct wf_scalars *scalars)
{
    const struct draws *p = k->prep;
    char *y = p->scatters ? wf_scratch() : out[0];
    const char *x = k->n_in ? in[0] : NULL;

    if (p->gathers) {
        p->gather.run(&p->gather, y, x);
        x = y;
    }
    each_batch(p, x, y, scalars);
    if (p->scatters) p->scatter.run(&p->scatter, out[0], y);
}

static void run_dropout(const struct wf_kcall *k, void *const *out, const void *const *in,
                        const struct wf_scalars *scalars)
{
    const struct draws *p = k->prep;

    if (threshold_of(scalars->s[0]) >> 32)
        memset(out[0], 0, (size_t)(k->out[0]->numel * p->bytes));
    else
        run_fill(k, out, in, scalars);
}

static void drop(void *prep)
{
    struct draws *p = prep;

    if (p->scatters) wf_scratch_release();
    wf_places_drop(&p->places);
    wf_free(p);
}

static void plan_moves(struct draws *p, const struct wf_kcall *k)
{
    const struct wf_desc *y = k->out[0];
    struct wf_strided packed = wf_strided_packed(p->bytes, y->ndim, y->shape), other;

    p->scatters = !y->contiguous;
    p->gathers = k->n_in && !k->in[0]->contiguous;
    if (p->scatters) {
        other = wf_strided_broadcast(y, y->ndim, y->shape);
        wf_copy_make(&p->scatter, y->ndim, y->shape, &other, &packed);
        wf_scratch_reserve((size_t)(y->numel * p->bytes));
    }
    if (p->gathers) {
        other = wf_strided_broadcast(k->in[0], y->ndim, y->shape);
        wf_copy_make(&p->gather, y->ndim, y->shape, &packed, &other);
    }
}

static weft_status prepare(struct wf_kcall *k, fill_batch *fill, bool floats_only)
{
    const struct wf_desc *y = k->out[0];
    struct draws *p;

    if (floats_only && y->dtype > WEFT_BF16) return wf_no_kernel(k, y->dtype);
    k->prep = p = WF_NEW(struct draws);
    k->drop = drop;
    p->loops = WF_ISA_PICK(wf_random);
    p->moves = WF_ISA_PICK(wf_moves);
    p->fill = fill;
    p->dtype = y->dtype;
    p->bytes = wf_dtypes[y->dtype].size;
    wf_places_make(&p->places, y);
    plan_moves(p, k);
    k->run = y->numel ? run_fill : wf_run_nothing;
    return WEFT_OK;
}

weft_status wf_cpu_uniform(struct wf_kcall *k) { return prepare(k, fill_uniform, true); }

weft_status wf_cpu_normal(struct wf_kcall *k) { return prepare(k, fill_normal, true); }

weft_status wf_cpu_trunc_normal(struct wf_kcall *k) { return prepare(k, fill_trunc_normal, true); }

weft_status wf_cpu_log_normal(struct wf_kcall *k) { return prepare(k, fill_log_normal, true); }

weft_status wf_cpu_exponential(struct wf_kcall *k) { return prepare(k, fill_exponential, true); }

weft_status wf_cpu_geometric(struct wf_kcall *k)
{
    if (k->out[0]->dtype == WEFT_BOOL) return wf_no_kernel(k, WEFT_BOOL);
    return prepare(k, fill_geometric, false);
}

weft_status wf_cpu_bernoulli(struct wf_kcall *k) { return prepare(k, fill_bernoulli, false); }

weft_status wf_cpu_randint(struct wf_kcall *k) { return prepare(k, fill_randint, false); }

weft_status wf_cpu_bernoulli_of(struct wf_kcall *k)
{
    WF_TRY(wf_need_dtype(k, 0, k->out[0]->dtype));
    return prepare(k, fill_bernoulli_of, true);
}

weft_status wf_cpu_dropout(struct wf_kcall *k)
{
    WF_TRY(wf_need_dtype(k, 0, k->out[0]->dtype));
    WF_TRY(prepare(k, fill_dropout, true));
    if (k->out[0]->numel) k->run = run_dropout;
    return WEFT_OK;
}
