/*
 * rng_index.c: the runs of a shard. Unsharded dims are merged with the dim before them, so a shard
 * of the first dim is one run whatever its shape.
 */
#include "kernels/cpu/random/rng_index.h"

#include "base/mem.h"

/* The runs of dim d, each index of which stands for `unit` elements. */
static void make_inner_ranges(struct wf_rng_index *p, const struct wf_tensor_desc *desc, int d,
                              int64_t unit)
{
    p->n_runs = desc->runs && d >= 0 ? desc->runs->count[d] : 1;
    p->runs = wf_malloc((size_t)p->n_runs * sizeof *p->runs);
    for (int64_t r = 0; r < p->n_runs; r++) {
        struct wf_index_range run = {0, 1};

        if (d >= 0)
            run = desc->runs ? desc->runs->of[d][r]
                             : (struct wf_index_range){desc->offset[d], desc->shape[d]};
        p->runs[r] = (struct wf_index_range){run.offset * unit, run.size * unit};
    }
}

static void make_outer_dim(struct wf_rng_index_dim *dim, const struct wf_tensor_desc *desc, int d,
                           int64_t unit)
{
    *dim = (struct wf_rng_index_dim){
        .size = desc->shape[d], .step = unit, .start = desc->offset[d] * unit};
    if (!desc->runs || desc->runs->count[d] == 1) return;
    dim->index = wf_malloc((size_t)dim->size * sizeof *dim->index);
    for (int64_t r = 0, at = 0; r < desc->runs->count[d]; r++)
        for (int64_t i = 0; i < desc->runs->of[d][r].size; i++)
            dim->index[at++] = (desc->runs->of[d][r].offset + i) * unit;
}

void wf_rng_index_make(struct wf_rng_index *p, const struct wf_tensor_desc *desc)
{
    int64_t unit = 1;
    int d = desc->ndim - 1;

    *p = (struct wf_rng_index){.count = desc->numel};
    if (p->count == 0) return;
    for (; d > 0 && desc->shape[d] == desc->global[d]; d--) unit *= desc->global[d];
    make_inner_ranges(p, desc, d, unit);
    p->n_dims = d > 0 ? d : 0;
    for (d--; d >= 0; d--) {
        unit *= desc->global[d + 1];
        make_outer_dim(&p->dim[d], desc, d, unit);
    }
}

void wf_rng_index_free(struct wf_rng_index *p)
{
    for (int d = 0; d < p->n_dims; d++) wf_free(p->dim[d].index);
    wf_free(p->runs);
}

static int64_t dim_contribution(const struct wf_rng_index_dim *dim, int64_t index)
{
    return dim->index ? dim->index[index] : dim->start + index * dim->step;
}

struct wf_rng_index_cursor wf_rng_index_cursor_begin(const struct wf_rng_index *p)
{
    struct wf_rng_index_cursor cursor = {.places = p, .left = p->count};

    for (int d = 0; d < p->n_dims; d++) cursor.base += dim_contribution(&p->dim[d], 0);
    return cursor;
}

int64_t wf_rng_index_cursor_peek(const struct wf_rng_index_cursor *cursor, int64_t *size)
{
    const struct wf_index_range *run = &cursor->places->runs[cursor->run];

    *size = run->size - cursor->done;
    return cursor->base + run->offset + cursor->done;
}

void wf_rng_index_cursor_advance(struct wf_rng_index_cursor *cursor, int64_t size)
{
    const struct wf_rng_index *p = cursor->places;

    cursor->left -= size;
    cursor->done += size;
    if (cursor->done < p->runs[cursor->run].size) return;
    cursor->done = 0;
    if (++cursor->run < p->n_runs) return;
    cursor->run = 0;
    for (int d = p->n_dims - 1; d >= 0 && cursor->left; d--) {
        const struct wf_rng_index_dim *dim = &p->dim[d];
        int64_t from = dim_contribution(dim, cursor->index[d]);

        cursor->index[d] = cursor->index[d] + 1 < dim->size ? cursor->index[d] + 1 : 0;
        cursor->base += dim_contribution(dim, cursor->index[d]) - from;
        if (cursor->index[d]) return;
    }
}
