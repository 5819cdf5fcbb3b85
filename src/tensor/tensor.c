/* tensor.c: handles and what they tell. Scopes are in scope.c, tensors from data in make.c. */
#include "tensor/tensor.h"

#include <math.h>

#include "base/dtype.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "tensor/scope.h"

enum { HANDLES_PER_CHUNK = 256, HANDLES_AT_REST = 256 };

/* Handles are used again in the order in which they were released, and not before others rest: one
 * that a program still uses then is told by its layout, of which no plan is made. */
static _Thread_local struct {
    weft_tensor *free, *last;
    int n_free;
    void **chunks;
    int n_chunks;
    int64_t live;
} handles;

static _Thread_local struct wf_layout no_layout;
static _Thread_local struct wf_block no_block;

static void rest(weft_tensor *t)
{
    t->next_free = NULL;
    if (handles.last)
        handles.last->next_free = t;
    else
        handles.free = t;
    handles.last = t;
    handles.n_free++;
}

/* Out of line: one chunk of handles at a time, linked into the free list. */
static void add_chunk(void)
{
    weft_tensor *chunk = wf_calloc(HANDLES_PER_CHUNK, sizeof *chunk);

    handles.chunks =
        wf_realloc(handles.chunks, (size_t)(handles.n_chunks + 1) * sizeof *handles.chunks);
    handles.chunks[handles.n_chunks++] = chunk;
    for (int i = 0; i < HANDLES_PER_CHUNK; i++) {
        chunk[i].owner = &handles;
        rest(&chunk[i]);
    }
}

weft_status wf_tensor_refuse_dead(const weft_tensor *t, const char *who)
{
    WF_NEED(t->owner == &handles, WEFT_ERR_STATE,
            "%s: the tensor from %s belongs to the thread that made it", who, t->origin);
    return WF_FAIL(WEFT_ERR_STATE,
                   "%s: the tensor from %s was released: its scope was closed, or weft_release was "
                   "called once too often; keep it with weft_scope_return or weft_retain",
                   who, t->origin ? t->origin : "an earlier thread");
}

weft_status wf_tensor_need_live(const weft_tensor *t, const char *who)
{
    return !t || (t->refs > 0 && t->owner == &handles) ? WEFT_OK : wf_tensor_refuse_dead(t, who);
}

weft_tensor *wf_tensor_new(struct wf_layout *layout, struct wf_block *block, void *data,
                           const char *origin)
{
    weft_tensor *t;

    if (handles.n_free <= HANDLES_AT_REST) add_chunk();
    t = handles.free;
    handles.free = t->next_free;
    handles.n_free--;
    handles.live++;
    t->layout = wf_layout_retain(layout);
    t->data = data;
    t->block = block;
    t->origin = origin; /* node, grad and pending were cleared at its end */
    t->refs = 1;
    t->requires_grad = false;
    wf_scope_own(t);
    return t;
}

weft_tensor *wf_tensor_empty(struct wf_layout *layout, enum wf_category category,
                             const char *origin)
{
    size_t bytes = (size_t)layout->desc.numel * wf_dtypes[layout->desc.dtype].size;
    struct wf_block *block = layout->desc.device == WEFT_META ? wf_block_planned(bytes, category)
                                                              : wf_block_new(bytes, category);

    return block ? wf_tensor_new(layout, block, block->data, origin) : NULL;
}

void wf_tensor_free(weft_tensor *t)
{
    if (t->node) wf_node_release(t->node);
    if (t->grad) weft_release(t->grad);
    wf_block_release(t->block);
    wf_layout_release(t->layout);
    t->layout = &no_layout;
    t->block = &no_block;
    t->data = NULL;
    t->node = NULL;
    t->grad = NULL;
    t->requires_grad = false;
    t->pending = false;
    rest(t);
    handles.live--;
}

weft_tensor *weft_retain(weft_tensor *t)
{
    if (!t) return NULL;
    if (t->refs <= 0) return (void)wf_tensor_refuse_dead(t, "retain"), NULL;
    t->refs++;
    return t;
}

void weft_release(weft_tensor *t)
{
    if (!t) return;
    if (t->refs > 1)
        t->refs--;
    else if (wf_tensor_need_live(t, "release") == WEFT_OK) {
        t->refs = 0;
        wf_tensor_free(t);
    }
}

int32_t *wf_tensor_ties(weft_tensor *t) { return &t->ties; }

_Thread_local uint64_t wf_tensor_writes;

void wf_tensor_begin_write(const weft_tensor *t, const char *op)
{
    wf_settled(t);
    wf_block_await_readers(t->block);
    wf_tensor_writes++;
    wf_block_written(t->block, op);
}

int64_t weft_tensor_version(const weft_tensor *t)
{
    return t && wf_tensor_need_live(t, "tensor_version") == WEFT_OK ? t->block->version : 0;
}

void weft_increment_version(weft_tensor *t)
{
    if (t && wf_tensor_need_live(t, "increment_version") == WEFT_OK)
        wf_tensor_begin_write(t, "weft_increment_version");
}

int64_t wf_tensor_count(void) { return handles.live; }

static void report_leaks(void)
{
    char text[256];
    int shown = 0;

    for (int c = 0; c < handles.n_chunks; c++) {
        weft_tensor *chunk = handles.chunks[c];
        for (int i = 0; i < HANDLES_PER_CHUNK && shown < 8; i++) {
            if (chunk[i].refs <= 0) continue;
            weft_tensor_describe(&chunk[i], text, sizeof text);
            WF_LOG(WF_LOG_WARN, "leak", "tensor from %s still held at the end: %s", chunk[i].origin,
                   text);
            shown++;
        }
    }
}

void wf_tensor_finalize(void)
{
    wf_scope_finalize();
    if (handles.live) report_leaks();
    for (int c = 0; c < handles.n_chunks; c++) wf_free(handles.chunks[c]);
    wf_free(handles.chunks);
    handles.free = handles.last = NULL;
    handles.n_free = 0;
    handles.chunks = NULL;
    handles.n_chunks = 0;
    handles.live = 0;
}

int wf_dim(int dim, int ndim, const char *who)
{
    if (dim >= -ndim && dim < ndim) return dim < 0 ? dim + ndim : dim;
    WF_FAIL(WEFT_ERR_ARG, "%s: dim %d of a tensor with %d dims", who, dim, ndim);
    return -1;
}

int weft_ndim(const weft_tensor *t) { return t->layout->desc.ndim; }

int64_t weft_size(const weft_tensor *t, int dim)
{
    int d = wf_dim(dim, weft_ndim(t), "size");

    return d < 0 ? -1 : t->layout->desc.global[d];
}

int64_t weft_numel(const weft_tensor *t) { return t->layout->numel; }

weft_dtype weft_tensor_dtype(const weft_tensor *t) { return (weft_dtype)t->layout->desc.dtype; }

weft_mesh *weft_tensor_mesh(const weft_tensor *t) { return t->layout->mesh; }

weft_placement weft_tensor_placement(const weft_tensor *t, int axis)
{
    return axis >= 0 && axis < t->layout->n_axes ? t->layout->placements[axis] : weft_replicate();
}

int64_t weft_local_size(const weft_tensor *t, int dim)
{
    int d = wf_dim(dim, weft_ndim(t), "local size");

    return d < 0 ? -1 : t->layout->desc.shape[d];
}

int64_t weft_local_offset(const weft_tensor *t, int dim)
{
    int d = wf_dim(dim, weft_ndim(t), "local offset");

    return d < 0 ? -1 : t->layout->desc.offset[d];
}

int64_t weft_local_stride(const weft_tensor *t, int dim)
{
    int d = wf_dim(dim, weft_ndim(t), "local stride");

    return d < 0 ? -1 : t->layout->desc.stride[d];
}

int64_t weft_local_numel(const weft_tensor *t) { return t->layout->desc.numel; }

void *weft_data(weft_tensor *t)
{
    if (!t || wf_tensor_need_live(t, "data") != WEFT_OK) return NULL;
    wf_settled(t);
    return t->data;
}

const char *wf_element(const struct wf_desc *desc, const void *data, int64_t index)
{
    int64_t at = 0;

    for (int d = desc->ndim - 1; d >= 0; d--) {
        at += index % desc->shape[d] * desc->stride[d];
        index /= desc->shape[d];
    }
    return (const char *)data + at * wf_dtypes[desc->dtype].size;
}

double weft_item(const weft_tensor *t)
{
    if (!t || wf_tensor_need_live(t, "item") != WEFT_OK) return NAN;
    if (t->layout->numel != 1 || t->layout->desc.numel != 1 || t->layout->partial) {
        char text[200];

        weft_tensor_describe(t, text, sizeof text);
        WF_FAIL(WEFT_ERR_SHAPE, "item: needs one element that every rank holds, not %s", text);
        return NAN;
    }
    if (wf_is_meta(t)) {
        WF_FAIL(WEFT_ERR_STATE, "item: a tensor on the meta device has no elements");
        return NAN;
    }
    wf_settled(t);
    return wf_dtypes[t->layout->desc.dtype].load(t->data);
}

weft_status weft_read_f64(const weft_tensor *t, double *out, int64_t room)
{
    const struct wf_desc *desc;

    WF_NEED_GIVEN(t, "read_f64: no tensor");
    WF_TRY(wf_tensor_need_live(t, "read_f64"));
    desc = &t->layout->desc;
    WF_NEED(!wf_is_meta(t), WEFT_ERR_STATE,
            "read_f64: a tensor on the meta device has no elements");
    if (t->layout->mesh) /* whose shards differ in size */
        WF_NEED_LOCAL(room >= desc->numel, WEFT_ERR_ARG, "read_f64: room for %lld of %lld here",
                      (long long)room, (long long)desc->numel);
    WF_NEED(room >= desc->numel, WEFT_ERR_ARG, "read_f64: room for %lld of %lld elements",
            (long long)room, (long long)desc->numel);
    wf_settled(t);
    for (int64_t i = 0; i < desc->numel; i++)
        out[i] = wf_dtypes[desc->dtype].load(wf_element(desc, t->data, i));
    return WEFT_OK;
}
