/*
 * random.c: kernels whose numbers belong to global elements: what each does with a batch of words
 * (random_batch.h). The formulas are in isa/philox.h.
 */
#include "kernels/cpu/random/random_batch.h"

#include <math.h>
#include <string.h>

#include "base/elements/dtype.h"
#include "base/error.h"
#include "kernels/cpu/isa/philox.h"
#include "kernels/operands/operand_checks.h"
#include "kernels/operands/random_bounds.h"
#include <weft/generator.h>

void weft_philox(uint32_t out[4], const uint32_t counter[4], const uint32_t key[2])
{
    struct wf_philox_words words;

    WF_ASSERT(out && counter && key);
    memcpy(words.w, counter, sizeof words.w);
    words = philox(words, key[0], key[1]);
    memcpy(out, words.w, sizeof words.w);
}

/* ---- values that are stored by a cast ---- */

static void store_cast(const struct wf_random_batch *b, uint8_t from, const void *values)
{
    b->draws->moves->cast[from][b->draws->dtype](b->n, b->y, &values, NULL);
}

typedef void from_planes(int64_t n, const uint32_t *high, const uint32_t *low, double *values);

/* f64 values, one for each element. */
static double *make_f64_values(struct wf_random_batch *b, from_planes *make, double *values)
{
    uint32_t low[WF_BATCH_WORDS];

    wf_random_batch_words(b, WF_SECOND_PLANE, low);
    make(b->words, b->high, low, values);
    return wf_random_batch_select(b, values, sizeof *values);
}

/* ---- uniform and normal ---- */

static void fill_uniform(struct wf_random_batch *b)
{
    const struct wf_random *loops = b->draws->loops;
    double low = b->scalars->s[0], high = b->scalars->s[1], doubles[WF_BATCH_WORDS];
    uint8_t dtype = b->draws->dtype;
    const void *values;
    float floats[WF_BATCH_WORDS];

    if (dtype == WEFT_F64) {
        values = make_f64_values(b, loops->uniform_f64, doubles);
    } else {
        loops->uniform_f32(b->words, b->high, floats);
        values = wf_random_batch_select(b, floats, sizeof *floats);
    }
    loops->affine[dtype](b->n, values, b->y, low, high - low, low < high ? high : INFINITY,
                         wf_random_largest_below(dtype, low, high));
}

static void fill_normal(struct wf_random_batch *b)
{
    const struct wf_random *loops = b->draws->loops;
    uint8_t dtype = b->draws->dtype;
    double doubles[WF_BATCH_WORDS];
    const void *values;
    float floats[WF_BATCH_WORDS];

    if (dtype == WEFT_F64) {
        values = make_f64_values(b, loops->normal_f64, doubles);
    } else {
        loops->normal_f32(b->words, b->high, floats);
        values = wf_random_batch_select(b, floats, sizeof *floats);
    }
    loops->affine[dtype](b->n, values, b->y, b->scalars->s[0], b->scalars->s[1], INFINITY,
                         INFINITY);
}

/* ---- real distributions ---- */

/* Bounds above the mean are mirrored: shares near 0 have more digits than those near 1. */
static void fill_trunc_normal(struct wf_random_batch *b)
{
    const struct wf_random *loops = b->draws->loops;
    double mean = b->scalars->s[0], std = b->scalars->s[1];
    double low = b->scalars->s[2], high = b->scalars->s[3];
    double sign = low > mean ? -1 : 1, doubles[WF_BATCH_WORDS], *values;
    double first = loops->share(((sign > 0 ? low : high) - mean) * sign / std);
    double last = loops->share(((sign > 0 ? high : low) - mean) * sign / std);

    values = make_f64_values(b, loops->between_f64, doubles);
    loops->quantile(b->n, values, first, last - first, mean, sign * std);
    wf_random_bounds(b->draws->dtype, &low, &high);
    loops->clamp(b->n, values, low, high);
    store_cast(b, WEFT_F64, values);
}

static void fill_log_normal(struct wf_random_batch *b)
{
    double doubles[WF_BATCH_WORDS],
        *values = make_f64_values(b, b->draws->loops->normal_f64, doubles);

    b->draws->loops->log_normal(b->n, values, b->scalars->s[0], b->scalars->s[1]);
    store_cast(b, WEFT_F64, values);
}

static void fill_exponential(struct wf_random_batch *b)
{
    double doubles[WF_BATCH_WORDS],
        *values = make_f64_values(b, b->draws->loops->between_f64, doubles);

    b->draws->loops->exponential(b->n, values, b->scalars->s[0]);
    store_cast(b, WEFT_F64, values);
}

/* ---- whole numbers ---- */

static void fill_geometric(struct wf_random_batch *b)
{
    double doubles[WF_BATCH_WORDS],
        *values = make_f64_values(b, b->draws->loops->between_f64, doubles);

    b->draws->loops->geometric(b->n, values, b->scalars->s[0]);
    b->draws->loops->clamp(b->n, values, 1, wf_random_largest_integer(b->draws->dtype));
    store_cast(b, WEFT_F64, values);
}

static void fill_randint(struct wf_random_batch *b)
{
    uint32_t low[WF_BATCH_WORDS];
    int64_t values[WF_BATCH_WORDS];

    wf_random_batch_words(b, WF_SECOND_PLANE, low);
    b->draws->loops->below(b->words, b->high, low, b->scalars->v[2], (uint64_t)b->scalars->v[3],
                           values);
    store_cast(b, WEFT_I64, wf_random_batch_select(b, values, sizeof *values));
}

static void fill_bernoulli(struct wf_random_batch *b)
{
    int64_t values[WF_BATCH_WORDS];

    b->draws->loops->chance(b->words, b->high, wf_random_threshold(b->scalars->s[0]), values);
    store_cast(b, WEFT_I64, wf_random_batch_select(b, values, sizeof *values));
}

static void fill_bernoulli_of(struct wf_random_batch *b)
{
    b->draws->loops->chance_of[b->draws->dtype](
        b->n, wf_random_batch_select(b, b->high, sizeof *b->high), b->x, b->y);
}

static void fill_dropout(struct wf_random_batch *b)
{
    double drop = b->scalars->s[0];

    b->draws->loops->dropout[b->draws->dtype](
        b->n, wf_random_batch_select(b, b->high, sizeof *b->high), b->x, b->y,
        (uint32_t)wf_random_threshold(drop), 1 / (1 - drop));
}

/* ---- calls ---- */

static void run_dropout(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                        const struct wf_scalars *scalars)
{
    const struct wf_random_kernel *p = k->prep;

    if (wf_random_threshold(scalars->s[0]) >> 32)
        memset(out[0], 0, (size_t)(k->out[0]->numel * p->bytes));
    else
        wf_random_kernel_run(k, out, in, scalars);
}

weft_status wf_cpu_uniform(struct wf_kernel_call *k)
{
    return wf_random_kernel_prepare(k, fill_uniform, true);
}

weft_status wf_cpu_normal(struct wf_kernel_call *k)
{
    return wf_random_kernel_prepare(k, fill_normal, true);
}

weft_status wf_cpu_trunc_normal(struct wf_kernel_call *k)
{
    return wf_random_kernel_prepare(k, fill_trunc_normal, true);
}

weft_status wf_cpu_log_normal(struct wf_kernel_call *k)
{
    return wf_random_kernel_prepare(k, fill_log_normal, true);
}

weft_status wf_cpu_exponential(struct wf_kernel_call *k)
{
    return wf_random_kernel_prepare(k, fill_exponential, true);
}

weft_status wf_cpu_geometric(struct wf_kernel_call *k)
{
    if (k->out[0]->dtype == WEFT_BOOL) return wf_fail_no_kernel(k, WEFT_BOOL);
    return wf_random_kernel_prepare(k, fill_geometric, false);
}

weft_status wf_cpu_bernoulli(struct wf_kernel_call *k)
{
    return wf_random_kernel_prepare(k, fill_bernoulli, false);
}

weft_status wf_cpu_randint(struct wf_kernel_call *k)
{
    return wf_random_kernel_prepare(k, fill_randint, false);
}

weft_status wf_cpu_bernoulli_of(struct wf_kernel_call *k)
{
    WF_TRY(wf_check_input_dtypes(k, 0, k->out[0]->dtype));
    return wf_random_kernel_prepare(k, fill_bernoulli_of, true);
}

weft_status wf_cpu_dropout(struct wf_kernel_call *k)
{
    WF_TRY(wf_check_input_dtypes(k, 0, k->out[0]->dtype));
    WF_TRY(wf_random_kernel_prepare(k, fill_dropout, true));
    if (k->out[0]->numel) k->run = run_dropout;
    return WEFT_OK;
}
