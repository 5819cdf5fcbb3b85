/*
 * random_batch.c: cutting a shard into batches, and what every random kernel prepares. A shard that
 * lies in memory with gaps goes through scratch memory.
 */
#include "kernels/cpu/random/random_batch.h"

#include "base/elements/dtype.h"
#include "base/mem.h"
#include "kernels/cpu/scratch.h"

/* As many elements as there is room for. */
static void collect_batch(struct wf_random_batch *b, struct wf_rng_index_cursor *cursor)
{
    b->n = b->n_blocks = b->n_runs = 0;
    while (cursor->left > 0 && b->n_blocks < WF_BATCH_BLOCKS) {
        int64_t size, index = wf_rng_index_cursor_peek(cursor, &size);
        int64_t room = 4 * (WF_BATCH_BLOCKS - b->n_blocks) - index % 4, last;

        if (size > room) size = room;
        last = (index + size - 1) / 4;
        b->run[b->n_runs].word = (int)(4 * b->n_blocks + index % 4);
        b->run[b->n_runs++].size = (int)size;
        for (int64_t block = index / 4; block <= last; block++)
            b->block[b->n_blocks++] = (uint64_t)block;
        b->n += size;
        wf_rng_index_cursor_advance(cursor, size);
    }
    b->words = 4 * b->n_blocks;
    while (b->n_blocks % WF_PHILOX_LANES) {
        b->block[b->n_blocks] = b->block[b->n_blocks - 1];
        b->n_blocks++;
    }
}

void wf_random_batch_words(const struct wf_random_batch *b, uint64_t plane, uint32_t *words)
{
    b->draws->loops->words(b->n_blocks, b->block, (uint64_t)b->scalars->v[1] | plane,
                           (uint64_t)b->scalars->v[0], words);
}

#define PICK(type, values)                                                                         \
    for (int64_t r = 0, at = 0; r < b->n_runs; r++)                                                \
        for (int i = 0; i < b->run[r].size; i++, at++)                                             \
    ((type *)(values))[at] = ((const type *)(values))[b->run[r].word + i]

void *wf_random_batch_select(const struct wf_random_batch *b, void *values, size_t bytes)
{
    if (b->n_runs == 1) return (char *)values + (size_t)b->run[0].word * bytes;
    if (bytes == 8)
        PICK(uint64_t, values);
    else
        PICK(uint32_t, values);
    return values;
}

static void fill_each_batch(const struct wf_random_kernel *p, const char *x, char *y,
                            const struct wf_scalars *scalars)
{
    struct wf_random_batch b; /* large: only what is read is set */

    b.draws = p;
    b.scalars = scalars;
    b.x = x;
    b.y = y;
    for (struct wf_rng_index_cursor cursor = wf_rng_index_cursor_begin(&p->places);
         cursor.left > 0;) {
        collect_batch(&b, &cursor);
        wf_random_batch_words(&b, 0, b.high);
        p->fill(&b);
        if (x) b.x += b.n * p->bytes;
        b.y += b.n * p->bytes;
    }
}

void wf_random_kernel_run(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                          const struct wf_scalars *scalars)
{
    const struct wf_random_kernel *p = k->prep;
    char *y = p->scatters ? wf_scratch_buffer() : out[0];
    const char *x = k->n_in ? in[0] : NULL;

    if (p->gathers) {
        wf_strided_copy_run(&p->gather, y, x);
        x = y;
    }
    fill_each_batch(p, x, y, scalars);
    if (p->scatters) wf_strided_copy_run(&p->scatter, out[0], y);
}

static void free_random_kernel(void *prep)
{
    struct wf_random_kernel *p = prep;

    if (p->scatters) wf_scratch_release();
    wf_rng_index_free(&p->places);
    wf_free(p);
}

static void plan_gather_and_scatter(struct wf_random_kernel *p, const struct wf_kernel_call *k)
{
    const struct wf_tensor_desc *y = k->out[0];
    int64_t packed[WEFT_MAX_DIMS];

    wf_row_major_strides(packed, y->shape, y->ndim);
    p->scatters = !y->contiguous;
    p->gathers = k->n_in && !k->in[0]->contiguous;
    if (p->scatters) {
        wf_strided_copy_init(&p->scatter, y->shape, packed, y->stride, y->ndim, (size_t)p->bytes);
        wf_scratch_reserve((size_t)(y->numel * p->bytes));
    }
    if (p->gathers) {
        struct wf_operand_strides x = wf_strides_broadcast(k->in[0], y->shape, y->ndim);

        wf_strided_copy_init(&p->gather, y->shape, x.stride, packed, y->ndim, (size_t)p->bytes);
    }
}

weft_status wf_random_kernel_prepare(struct wf_kernel_call *k, wf_random_batch_fill *fill,
                                     bool floats_only)
{
    const struct wf_tensor_desc *y = k->out[0];
    struct wf_random_kernel *p;

    if (floats_only && !wf_dtype_is_float(y->dtype)) return wf_fail_no_kernel(k, y->dtype);
    k->prep = p = WF_NEW(struct wf_random_kernel);
    k->drop = free_random_kernel;
    p->loops = WF_ISA_PICK(wf_random);
    p->moves = WF_ISA_PICK(wf_cast_where_fill_loops);
    p->fill = fill;
    p->dtype = y->dtype;
    p->bytes = wf_dtypes[y->dtype].size;
    wf_rng_index_make(&p->places, y);
    plan_gather_and_scatter(p, k);
    k->run = y->numel ? wf_random_kernel_run : wf_kernel_run_noop;
    return WEFT_OK;
}
