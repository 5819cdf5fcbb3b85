/*
 * dnnl_operand.c: reorders. Those of f32 into one block per place, as weights are wanted, are
 * strided copies, on one thread: oneDNN's take twice as long (docs/decisions/0057).
 */
#include "kernels/cpu/convolution/dnnl_operand.h"

#include <string.h>

#include "base/settings/knob.h"
#include "kernels/cpu/scratch.h"

#define TRY WF_DNNL_TRY

/* ---- how memory is blocked ---- */

/* Strides of the dims, and blocks within them that lie innermost. */
struct blocking {
    dnnl_dims_t dims, padded_dims, strides;
    int n, blocks;
    int64_t block; /* elements of the last block, */
    int block_dim; /* which is of this dim */
};

/* Below, false: the memory is described in another way, or is not f32. */
#if DNNL_VERSION_MAJOR >= 3
static void query_desc(wf_dnnl_desc_ref d, dnnl_query_t what, void *result)
{
    TRY(dnnl_memory_desc_query(d, what, result));
}

static void query_desc_dims(wf_dnnl_desc_ref d, dnnl_query_t what, int64_t *dims)
{
    const dnnl_dims_t *found;

    query_desc(d, what, (void *)&found);
    memcpy(dims, *found, sizeof *found);
}

static bool read_blocking(struct blocking *b, wf_dnnl_desc_ref d)
{
    dnnl_dims_t sizes, of_dims;
    dnnl_format_kind_t kind;
    dnnl_data_type_t type;
    dnnl_dim_t offset;

    query_desc(d, dnnl_query_format_kind, &kind);
    query_desc(d, dnnl_query_data_type, &type);
    query_desc(d, dnnl_query_submemory_offset_s64, &offset);
    if (kind != dnnl_blocked || type != dnnl_f32 || offset) return false;
    query_desc(d, dnnl_query_ndims_s32, &b->n);
    query_desc(d, dnnl_query_inner_nblks_s32, &b->blocks);
    query_desc_dims(d, dnnl_query_dims, b->dims);
    query_desc_dims(d, dnnl_query_padded_dims, b->padded_dims);
    query_desc_dims(d, dnnl_query_strides, b->strides);
    query_desc_dims(d, dnnl_query_inner_blks, sizes);
    query_desc_dims(d, dnnl_query_inner_idxs, of_dims);
    b->block = b->blocks ? sizes[b->blocks - 1] : 1;
    b->block_dim = b->blocks ? (int)of_dims[b->blocks - 1] : -1;
    return true;
}
#else
static bool read_blocking(struct blocking *b, wf_dnnl_desc_ref d)
{
    const dnnl_blocking_desc_t *from = &d->format_desc.blocking;

    if (d->format_kind != dnnl_blocked || d->data_type != dnnl_f32 || d->offset0 || d->extra.flags)
        return false;
    b->n = d->ndims;
    b->blocks = from->inner_nblks;
    memcpy(b->dims, d->dims, sizeof b->dims);
    memcpy(b->padded_dims, d->padded_dims, sizeof b->padded_dims);
    memcpy(b->strides, from->strides, sizeof b->strides);
    b->block = b->blocks ? from->inner_blks[b->blocks - 1] : 1;
    b->block_dim = b->blocks ? (int)from->inner_idxs[b->blocks - 1] : -1;
    return true;
}
#endif

/* ---- reorders that are copies ---- */

/* The dims of a copy, a block being one more. */
struct loops {
    int n;
    int64_t count[DNNL_MAX_NDIMS + 1], from[DNNL_MAX_NDIMS + 1], to[DNNL_MAX_NDIMS + 1];
};

/* In the order of the destination, its longest steps first. */
static void insert_copy_loop(struct loops *l, int64_t count, int64_t from, int64_t to)
{
    int at = l->n++;

    for (; at > 0 && l->to[at - 1] < to; at--) {
        l->count[at] = l->count[at - 1];
        l->from[at] = l->from[at - 1];
        l->to[at] = l->to[at - 1];
    }
    l->count[at] = count;
    l->from[at] = from;
    l->to[at] = to;
}

/* One dim more, the block, where `wanted` is blocked once; false: not by a copy that transposes. */
static bool plan_copy(struct wf_strided_copy *copy, wf_dnnl_desc_ref given, wf_dnnl_desc_ref wanted,
                      bool result)
{
    struct blocking g, w;
    struct loops l = {.n = 0};
    int64_t step;

    if (wf_knobs.threads > 1 || !read_blocking(&g, given) || !read_blocking(&w, wanted))
        return false;
    if (g.blocks || w.blocks != 1 || g.n >= WEFT_MAX_DIMS) return false;
    for (int d = 0; d < g.n; d++) {
        int64_t block = d == w.block_dim ? w.block : 1, given_step = g.strides[d] * block;

        if (w.padded_dims[d] != w.dims[d]) return false;
        insert_copy_loop(&l, w.dims[d] / block, result ? w.strides[d] : given_step,
                         result ? given_step : w.strides[d]);
    }
    step = g.strides[w.block_dim];
    insert_copy_loop(&l, w.block, result ? 1 : step, result ? step : 1);
    wf_strided_copy_init(copy, l.count, l.from, l.to, l.n, sizeof(float));
    return copy->transposed;
}

/* ---- an operand ---- */

void wf_dnnl_operand_init(struct wf_dnnl_operand *o, dnnl_engine_t engine, wf_dnnl_desc_ref given,
                          wf_dnnl_desc_ref wanted, bool result)
{
    dnnl_primitive_desc_t plan;

    *o = (struct wf_dnnl_operand){.result = result};
    TRY(dnnl_memory_create(&o->given, given, engine, DNNL_MEMORY_NONE));
    if (dnnl_memory_desc_equal(given, wanted)) return;
    TRY(dnnl_memory_create(&o->wanted, wanted, engine, DNNL_MEMORY_NONE));
    o->scratch = wf_scratch_round_up(dnnl_memory_desc_get_size(wanted));
    if (plan_copy(&o->copy, given, wanted, result)) return;
    TRY(dnnl_reorder_primitive_desc_create(&plan, result ? wanted : given, engine,
                                           result ? given : wanted, engine, NULL));
    TRY(dnnl_primitive_create(&o->reorder, plan));
    TRY(dnnl_primitive_desc_destroy(plan));
}

void wf_dnnl_operand_free(struct wf_dnnl_operand *o)
{
    if (o->reorder) TRY(dnnl_primitive_destroy(o->reorder));
    if (o->given) TRY(dnnl_memory_destroy(o->given));
    if (o->wanted) TRY(dnnl_memory_destroy(o->wanted));
}

dnnl_memory_t wf_dnnl_operand_bind(struct wf_dnnl_operand *o, const void *data, void *scratch)
{
    memcpy(&o->data, &data, sizeof data); /* oneDNN's handles know no const */
    TRY(dnnl_memory_set_data_handle(o->given, o->data));
    if (!o->wanted) return o->given;
    o->reordered = scratch;
    TRY(dnnl_memory_set_data_handle(o->wanted, scratch));
    return o->wanted;
}

void wf_dnnl_operand_reorder(const struct wf_dnnl_operand *o, dnnl_stream_t stream)
{
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, o->result ? o->wanted : o->given},
                                    {DNNL_ARG_TO, o->result ? o->given : o->wanted}};

    if (!o->wanted) return;
    if (o->reorder) {
        TRY(dnnl_primitive_execute(o->reorder, stream, 2, args));
        return;
    }
    TRY(dnnl_stream_wait(stream));
    if (o->result)
        wf_strided_copy_run(&o->copy, o->data, o->reordered);
    else
        wf_strided_copy_run(&o->copy, o->reordered, o->data);
}
