/*
 * multinomial.c: indices drawn from rows of weights.
 *
 * With replacement, draw s of a row is the first index at which the running sum exceeds u times the
 * total, u being the number of the result's element. Without, every index waits for an exponential
 * time with its weight as rate, and the n that come first are drawn in that order (Efraimidis &
 * Spirakis 2006); the times are numbers of the weights' elements. Either way a row needs nothing
 * but its own weights.
 */
#include <math.h>

#include "base/elements/dtype.h"
#include "base/error.h"
#include "base/mem.h"
#include "kernels/cpu/isa/philox.h"
#include "kernels/cpu/pointwise/elementwise.h"
#include "kernels/cpu/random/random.h"
#include "kernels/cpu/random/rng_index.h"
#include "kernels/operands/loop_nest.h"

enum { BLOCKS = 32 };

struct multinomial {
    const struct wf_random *loops;
    struct wf_rng_index places; /* of the result, or of the weights, row by row */
    struct wf_loop_nest rows;   /* of the weights; their last dim is taken out */
    int64_t step;               /* bytes between the weights of a row */
    double (*load)(const void *element);
    int64_t width, n;
    bool replacement;
    double *weights, *times; /* a row's weights, then their running sum; n times */
};

/* Numbers in (0, 1) of n consecutive elements. */
static void draw_open_uniforms(const struct multinomial *p, int64_t index, int64_t n,
                               const struct wf_scalars *scalars, double *to)
{
    uint64_t block[BLOCKS], draw = (uint64_t)scalars->v[1], seed = (uint64_t)scalars->v[0];
    uint32_t high[4 * BLOCKS], low[4 * BLOCKS];

    for (int64_t done = 0; done < n;) {
        int64_t skip = (index + done) % 4, size = 4 * BLOCKS - skip;

        if (size > n - done) size = n - done;
        for (int b = 0; b < BLOCKS; b++) block[b] = (uint64_t)((index + done) / 4 + b);
        p->loops->words(BLOCKS, block, draw, seed, high);
        p->loops->words(BLOCKS, block, draw | WF_SECOND_PLANE, seed, low);
        p->loops->between_f64(size, high + skip, low + skip, to + done);
        done += size;
    }
}

static int64_t load_row_weights(const struct multinomial *p, const char *x)
{
    int64_t positive = 0;

    for (int64_t j = 0; j < p->width; j++, x += p->step) {
        p->weights[j] = p->load(x);
        if (!(p->weights[j] >= 0 && p->weights[j] < INFINITY))
            WF_DIE("multinomial: weight %g at index %lld of a row", p->weights[j], (long long)j);
        positive += p->weights[j] > 0;
    }
    return positive;
}

static int64_t search_running_sum(const double *sums, int64_t n, double value)
{
    int64_t low = 0;

    while (n > 0) {
        int64_t half = n / 2;

        if (sums[low + half] > value)
            n = half;
        else
            low += half + 1, n -= half + 1;
    }
    return low;
}

/* `index`: of the row's first result. */
static void draw_with_replacement(const struct multinomial *p, int64_t index,
                                  const struct wf_scalars *scalars, int64_t *y)
{
    double *sums = p->weights, total;

    for (int64_t j = 1; j < p->width; j++) sums[j] += sums[j - 1];
    total = sums[p->width - 1];
    draw_open_uniforms(p, index, p->n, scalars, p->times);
    for (int64_t s = 0; s < p->n; s++)
        y[s] = search_running_sum(sums, p->width, p->times[s] * total);
}

static void insert_by_time(const struct multinomial *p, int64_t *y, int64_t have, double time,
                           int64_t j)
{
    int64_t at = have;

    for (; at > 0 && p->times[at - 1] > time; at--) {
        p->times[at] = p->times[at - 1];
        y[at] = y[at - 1];
    }
    p->times[at] = time;
    y[at] = j;
}

/* `index`: of the row's first weight. */
static void draw_without_replacement(const struct multinomial *p, int64_t index,
                                     const struct wf_scalars *scalars, int64_t *y)
{
    double times[4 * BLOCKS];
    int64_t have = 0;

    for (int64_t j = 0; j < p->width; j++) {
        int64_t at = j % (4 * BLOCKS), left = p->width - j;

        if (at == 0) {
            left = left < 4 * BLOCKS ? left : 4 * BLOCKS;
            draw_open_uniforms(p, index + j, left, scalars, times);
            p->loops->exponential(left, times, 1);
        }
        if (p->weights[j] <= 0) continue;
        times[at] /= p->weights[j];
        if (have == p->n && p->times[have - 1] <= times[at]) continue;
        if (have == p->n) have--;
        insert_by_time(p, y, have++, times[at], j);
    }
}

static void run_multinomial(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                            const struct wf_scalars *scalars)
{
    const struct multinomial *p = k->prep;
    int64_t per_row = p->replacement ? p->n : p->width, *y = out[0], size;
    struct wf_rng_index_cursor cursor = wf_rng_index_cursor_begin(&p->places);
    struct wf_loop_walk walk = {.at = {in[0]}};

    do {
        int64_t index = wf_rng_index_cursor_peek(&cursor, &size),
                positive = load_row_weights(p, walk.at[0]);

        if (positive < (p->replacement ? 1 : p->n))
            WF_DIE("multinomial: a row has %lld positive weights, %s needs %lld",
                   (long long)positive, p->replacement ? "a draw" : "drawing without replacement",
                   (long long)(p->replacement ? 1 : p->n));
        (p->replacement ? draw_with_replacement : draw_without_replacement)(p, index, scalars, y);
        wf_rng_index_cursor_advance(&cursor, per_row);
        y += p->n;
    } while (wf_loop_walk_next(&p->rows, &walk));
}

static void free_multinomial(void *prep)
{
    struct multinomial *p = prep;

    wf_rng_index_free(&p->places);
    wf_free(p->weights);
    wf_free(p->times);
    wf_free(p);
}

weft_status wf_cpu_multinomial(struct wf_kernel_call *k)
{
    const struct wf_tensor_desc *x = k->in[0], *y = k->out[0];
    struct wf_operand_strides from = wf_strides_broadcast(x, x->shape, x->ndim);
    struct multinomial *p;

    if (!wf_dtype_is_float(x->dtype)) return wf_fail_no_kernel(k, x->dtype);
    k->prep = p = WF_NEW(struct multinomial);
    k->drop = free_multinomial;
    p->loops = WF_ISA_PICK(wf_random);
    p->load = wf_dtypes[x->dtype].load;
    p->width = x->shape[x->ndim - 1];
    p->n = k->attrs->multinomial.n;
    p->replacement = k->attrs->multinomial.replacement;
    p->step = from.stride[x->ndim - 1] * from.bytes;
    p->weights = wf_malloc((size_t)(p->width + 1) * sizeof *p->weights);
    p->times = wf_malloc((size_t)(p->n + 1) * sizeof *p->times);
    wf_loop_nest_make(&p->rows, x->shape, x->ndim - 1, &from, 1);
    wf_rng_index_make(&p->places, p->replacement ? y : x);
    k->run = y->numel ? run_multinomial : wf_kernel_run_noop;
    return WEFT_OK;
}
