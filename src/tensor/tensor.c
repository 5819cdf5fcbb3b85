/* tensor.c: handles and what they tell. Scopes are in scope.c, tensors from data in make.c. */
#include "tensor/tensor.h"

#include <math.h>

#include "base/dtype.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "tensor/scope.h"

enum { HANDLES_PER_CHUNK = 512, HANDLES_AT_REST = 256 };

/* Handles are used again in the order in which they were released, and not before others rest: one
 * that a program still uses then is told by its layout, of which no plan is made. */
static _Thread_local struct {
    weft_tensor *free, *last; /* a queue that is never empty once there is a chunk */
    int64_t live, most_live;  /* with more of them fewer than HANDLES_AT_REST would rest */
    void **chunks;
    int n_chunks;
    struct wf_layout no_layout; /* of released handles */
    struct wf_block no_block;
} handles;

static void rest(weft_tensor *t)
{
    handles.last->next_free = t;
    handles.last = t;
}

static void add_chunk(void)
{
    weft_tensor *chunk = wf_calloc(HANDLES_PER_CHUNK, sizeof *chunk);

    handles.chunks =
        wf_realloc(handles.chunks, (size_t)(handles.n_chunks + 1) * sizeof *handles.chunks);
    handles.chunks[handles.n_chunks++] = chunk;
    if (!handles.last) handles.free = handles.last = chunk;
    for (int i = 0; i < HANDLES_PER_CHUNK; i++) {
        chunk[i].owner = &handles;
        rest(&chunk[i]);
    }
    handles.most_live = (int64_t)handles.n_chunks * HANDLES_PER_CHUNK - HANDLES_AT_REST;
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

/* Called in the last place: a caller that calls nothing else has no registers to save. */
__attribute__((noinline)) static weft_tensor *
new_after_growing(struct wf_layout *layout, struct wf_block *block, void *data, const char *origin)
{
    if (handles.live == handles.most_live) add_chunk();
    if (wf_scope_is_full()) wf_scope_grow();
    return wf_tensor_new(layout, block, data, origin);
}

weft_tensor *wf_tensor_new(struct wf_layout *layout, struct wf_block *block, void *data,
                           const char *origin)
{
    weft_tensor *t;

    if (handles.live == handles.most_live || wf_scope_is_full())
        return new_after_growing(layout, block, data, origin);
    t = handles.free;
    handles.free = t->next_free;
    handles.live++;
    t->layout = wf_layout_retain(layout);
    t->data = data;
    t->block = block;
    t->origin = origin; /* node, grad and the flags were cleared at its end */
    t->refs = 1;
    wf_scope_push(t);
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

/* Nobody holds it any more. */
__attribute__((noinline)) static void end(weft_tensor *t)
{
    if (t->node) {
        wf_node_release(t->node);
        t->node = NULL;
    }
    if (t->grad) {
        weft_release(t->grad);
        t->grad = NULL;
    }
    wf_block_release(t->block);
    wf_layout_release(t->layout);
    t->layout = &handles.no_layout;
    t->block = &handles.no_block;
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
    if (!t || --t->refs > 0) return;
    if (t->refs == 0 && t->owner == &handles) {
        end(t);
    } else {
        t->refs++;
        wf_tensor_refuse_dead(t, "release");
    }
}

int32_t *wf_tensor_ties(weft_tensor *t) { return &t->ties; }

_Thread_local uint64_t wf_tensor_writes;

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
    handles.chunks = NULL;
    handles.n_chunks = 0;
    handles.live = handles.most_live = 0;
}

int wf_dim(int dim, int ndim, const char *who)
{
    if (dim >= -ndim && dim < ndim) return dim < 0 ? dim + ndim : dim;
    WF_FAIL(WEFT_ERR_ARG, "%s: dim %d of a tensor with %d dims", who, dim, ndim);
    return -1;
}

int weft_ndim(const weft_tensor *t) { return WF_HANDLE(t)->layout->desc.ndim; }

int64_t weft_size(const weft_tensor *t, int dim)
{
    int d = wf_dim(dim, weft_ndim(t), "size");

    return d < 0 ? -1 : WF_HANDLE(t)->layout->desc.global[d];
}

int64_t weft_numel(const weft_tensor *t) { return WF_HANDLE(t)->layout->numel; }

weft_dtype weft_tensor_dtype(const weft_tensor *t)
{
    return (weft_dtype)WF_HANDLE(t)->layout->desc.dtype;
}

weft_mesh *weft_tensor_mesh(const weft_tensor *t) { return WF_HANDLE(t)->layout->mesh; }

weft_placement weft_tensor_placement(const weft_tensor *t, int axis)
{
    return axis >= 0 && axis < WF_HANDLE(t)->layout->n_axes ? t->layout->placements[axis]
                                                            : weft_replicate();
}

int64_t weft_local_size(const weft_tensor *t, int dim)
{
    int d = wf_dim(dim, weft_ndim(t), "local size");

    return d < 0 ? -1 : WF_HANDLE(t)->layout->desc.shape[d];
}

int64_t weft_local_offset(const weft_tensor *t, int dim)
{
    int d = wf_dim(dim, weft_ndim(t), "local offset");

    return d < 0 ? -1 : WF_HANDLE(t)->layout->desc.offset[d];
}

int64_t weft_local_stride(const weft_tensor *t, int dim)
{
    int d = wf_dim(dim, weft_ndim(t), "local stride");

    return d < 0 ? -1 : WF_HANDLE(t)->layout->desc.stride[d];
}

int64_t weft_local_numel(const weft_tensor *t) { return WF_HANDLE(t)->layout->desc.numel; }

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
    WF_NEED(out || room <= 0, WEFT_ERR_ARG, "read_f64: no array to write to");
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
