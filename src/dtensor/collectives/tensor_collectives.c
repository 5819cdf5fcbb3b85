/*
 * tensor_collectives.c: collectives on plain tensors. Each works out the shapes of the pieces that
 * ranks exchange (message_pieces.h), packs them contiguously, and unpacks what it receives. The
 * transport is comm's. Exchanges with row counts that differ per rank are in all_to_all_single.c.
 */
#include <weft/extend/collective.h>

#include <string.h>

#include <weft/autograd.h>
#include <weft/ops.h>

#include "autograd/tape.h"
#include "base/elements/dtype.h"
#include "base/error.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "dtensor/collectives/collective_call.h"
#include "dtensor/collectives/message_pieces.h"
#include "mesh/mesh.h"
#include "tensor/tensor.h"

enum { TEXT_BYTES = 256 };

/* ---- the line ---- */

weft_status wf_collective_call_begin(struct wf_collective_call *d, const char *who, weft_coll kind,
                                     weft_tensor *t, weft_mesh *mesh, int axis)
{
    char text[TEXT_BYTES];

    *d = (struct wf_collective_call){
        .who = who, .mesh = wf_mesh_or_current(mesh), .axis = axis, .t = t};
    WF_NEED_GIVEN(t && d->mesh, "%s: the tensor is NULL", who);
    WF_TRY(wf_tensor_check_alive(t, who));
    WF_NEED(wf_is_plain(t), WEFT_ERR_ARG, "%s: the tensor is distributed; redistribute it", who);
    wf_wait_ready(t);
    d->meta = wf_is_meta(t);
    weft_mesh_format(d->mesh, text, sizeof text);
    WF_NEED(axis >= 0 && axis < weft_mesh_ndim(d->mesh), WEFT_ERR_ARG, "%s: mesh %s has no axis %d",
            who, text, axis);
    WF_NEED(weft_mesh_is_member(d->mesh), WEFT_ERR_COMM, "%s: rank %d is not in mesh %s", who,
            weft_world_rank(), text);
    WF_NEED(!weft_mesh_is_fake(d->mesh) || d->meta, WEFT_ERR_COMM,
            "%s: mesh %s: a fake mesh: there are no ranks behind it", who, text);
    d->ways = weft_mesh_axis_size(d->mesh, axis);
    d->me = weft_mesh_coordinate(d->mesh, axis);
    d->coll = (struct wf_coll){.kind = kind,
                               .comm = d->meta ? NULL : wf_mesh_axis_comm(d->mesh, axis),
                               .device = wf_device_of(t),
                               .dtype = weft_tensor_dtype(t)};
    return WEFT_OK;
}

static weft_status set_root_rank(struct wf_collective_call *d, int root)
{
    WF_NEED(root >= 0 && root < d->ways, WEFT_ERR_ARG, "%s: rank %d on axis %d of %d", d->who, root,
            d->axis, d->ways);
    d->coll.peer = root;
    return WEFT_OK;
}

static weft_status set_reduce_op(struct wf_collective_call *d, weft_reduce reduce)
{
    weft_dtype dtype = weft_tensor_dtype(d->t);

    WF_NEED(wf_coll_has_reduction(reduce), WEFT_ERR_ARG,
            "%s: only sum, product, max and min are reduced over ranks", d->who);
    WF_NEED(wf_dtype_can_reduce(dtype, reduce), WEFT_ERR_DTYPE, "%s: %s cannot be reduced%s",
            d->who, weft_dtype_name(dtype), dtype == WEFT_C64 ? " but by a sum" : "");
    d->coll.reduce = reduce;
    return WEFT_OK;
}

void wf_collective_call_run(struct wf_collective_call *d)
{
    if (d->meta)
        wf_comm_report_simulated(&d->coll, weft_mesh_axis_name(d->mesh, d->axis), d->ways, d->me);
    else
        wf_comm_run(&d->coll);
}

/* ---- pieces ---- */

static weft_status init_message_pieces(struct wf_message_pieces *p,
                                       const struct wf_collective_call *d, int dim,
                                       const int64_t *sizes)
{
    p->ndim = weft_ndim(d->t);
    p->dim = wf_normalize_dim(dim, p->ndim, d->who);
    if (p->dim < 0) return weft_error_status();
    memcpy(p->shape, d->t->layout->desc.shape, sizeof p->shape);
    WF_NEED_LOCAL(!sizes || sizes[d->me] == p->shape[p->dim], WEFT_ERR_SHAPE,
                  "%s: dim %d has the size %lld here, not %lld as `sizes` says", d->who, p->dim,
                  (long long)p->shape[p->dim], (long long)sizes[d->me]);
    p->sizes = wf_malloc((size_t)d->ways * sizeof *p->sizes);
    for (int r = 0; r < d->ways; r++) p->sizes[r] = sizes ? sizes[r] : p->shape[p->dim];
    return WEFT_OK;
}

/* ---- tensors; other ranks may be in the collective already: out of memory ends the job ---- */

static weft_tensor *need_tensor_or_die(const struct wf_collective_call *d, weft_tensor *t)
{
    if (!t) WF_DIE("%s: %s", d->who, weft_error_message());
    return t;
}

weft_tensor *wf_collective_call_new_tensor(const struct wf_collective_call *d, const int64_t *shape,
                                           int ndim, enum wf_category category)
{
    struct wf_layout *layout =
        wf_layout_new(NULL, NULL, weft_tensor_dtype(d->t), shape, NULL, ndim);
    weft_tensor *t;

    layout = wf_layout_on_device(layout, weft_tensor_device(d->t));
    t = wf_tensor_new_empty(layout, category, d->who);
    wf_layout_release(layout);
    if (t) wf_note_made_tensor(t);
    return need_tensor_or_die(d, t);
}

/* A buffer for packed pieces that other ranks may read. */
static weft_tensor *alloc_packed_buffer(const struct wf_collective_call *d, const size_t *counts)
{
    int64_t elements = 0;

    for (int r = 0; r < d->ways; r++) elements += (int64_t)counts[r];
    return wf_collective_call_new_tensor(d, &elements, 1, WF_MEM_COMM);
}

static weft_tensor *new_result_tensor(const struct wf_collective_call *d,
                                      const struct wf_message_pieces *p, int64_t size)
{
    int64_t shape[WEFT_MAX_DIMS];

    memcpy(shape, p->shape, sizeof shape);
    shape[p->dim] = size;
    return wf_collective_call_new_tensor(d, shape, p->ndim, WF_MEM_ACTIVATIONS);
}

weft_tensor *wf_collective_call_row_major(const struct wf_collective_call *d, weft_tensor *t)
{
    weft_tensor *result;

    weft_no_grad_open();
    result = weft_contiguous(t);
    weft_no_grad_close();
    wf_wait_ready(need_tensor_or_die(d, result));
    return result;
}

/* ---- broadcast and scatter ---- */

/* A tensor may lie in another order on one rank than on others: there it is received row-major and
 * copied. That has to be possible, before anything is sent. */
static weft_status check_receive_buffer(const struct wf_collective_call *d, const weft_tensor *t)
{
    const struct wf_tensor_desc *desc = &t->layout->desc;

    WF_NEED_LOCAL(
        desc->contiguous || (!t->node && !wf_elements_overlap(desc)), WEFT_ERR_ARG,
        "%s: the tensor is written to: it must be row-major, or neither expanded nor on the "
        "tape",
        d->who);
    return WEFT_OK;
}

static void copy_from_receive_buffer(const struct wf_collective_call *d, weft_tensor *t,
                                     weft_tensor *received)
{
    if (received == t) return;
    weft_no_grad_open();
    if (weft_copy_(t, received) != WEFT_OK) need_tensor_or_die(d, NULL);
    weft_no_grad_close();
}

weft_status weft_mesh_broadcast(weft_tensor *t, weft_mesh *mesh, int axis, int root)
{
    struct wf_collective_call d;
    weft_scope *scope;
    weft_tensor *own;

    WF_TRY(wf_collective_call_begin(&d, "mesh_broadcast", WEFT_COLL_BROADCAST, t, mesh, axis));
    WF_TRY(set_root_rank(&d, root));
    WF_TRY(check_receive_buffer(&d, t));
    scope = weft_scope_open();
    own = wf_collective_call_row_major(&d, t);
    d.coll.count = (size_t)t->layout->desc.numel;
    wf_tensor_before_write(own, d.who);
    d.coll.send = d.coll.recv = own->data;
    wf_collective_call_run(&d);
    copy_from_receive_buffer(&d, t, own);
    weft_scope_close(scope);
    return WEFT_OK;
}

/* The root's list, packed. */
static weft_tensor *pack_tensor_list(const struct wf_collective_call *d,
                                     weft_tensor *const *tensors)
{
    int64_t count = weft_numel(d->t), elements = count * d->ways;
    size_t bytes = (size_t)count * wf_dtypes[d->coll.dtype].size;
    weft_tensor *packed = wf_collective_call_new_tensor(d, &elements, 1, WF_MEM_COMM);

    if (d->meta) return packed;
    for (int r = 0; r < d->ways; r++) {
        weft_tensor *item = tensors ? tensors[r] : NULL;

        if (!item || wf_tensor_check_alive(item, d->who) != WEFT_OK ||
            weft_tensor_dtype(item) != d->coll.dtype || weft_ndim(item) != weft_ndim(d->t) ||
            memcmp(item->layout->desc.shape, d->t->layout->desc.shape,
                   (size_t)weft_ndim(item) * sizeof(int64_t)) != 0)
            WF_DIE("mesh_scatter: tensor %d of the list is missing or has another shape or dtype "
                   "than the result",
                   r);
        item = weft_to_device(wf_collective_call_row_major(d, item), wf_device_of(packed));
        wf_device_copy(wf_device_of(packed), (char *)packed->data + (size_t)r * bytes,
                       need_tensor_or_die(d, item)->data, bytes);
    }
    return packed;
}

weft_status weft_mesh_scatter(weft_tensor *t, weft_tensor *const *tensors, weft_mesh *mesh,
                              int axis, int root)
{
    struct wf_collective_call d;
    weft_scope *scope;
    weft_tensor *packed, *own;
    size_t *counts;

    WF_TRY(wf_collective_call_begin(&d, "mesh_scatter", WEFT_COLL_SCATTER, t, mesh, axis));
    WF_TRY(set_root_rank(&d, root));
    WF_TRY(check_receive_buffer(&d, t));
    scope = weft_scope_open();
    packed = d.me == root ? pack_tensor_list(&d, tensors) : NULL;
    counts = wf_malloc((size_t)d.ways * sizeof *counts);
    for (int r = 0; r < d.ways; r++) counts[r] = (size_t)weft_numel(t);
    d.coll.send_counts = counts;
    d.coll.send = packed ? packed->data : NULL;
    own = wf_collective_call_row_major(&d, t);
    wf_tensor_before_write(own, d.who);
    d.coll.recv = own->data;
    wf_collective_call_run(&d);
    copy_from_receive_buffer(&d, t, own);
    wf_free(counts);
    weft_scope_close(scope);
    return WEFT_OK;
}

/* ---- gather ---- */

/* Only `root` gets the result; -1: all ranks (all-gather). */
static weft_tensor *gather_pieces(struct wf_collective_call *d, const struct wf_message_pieces *p,
                                  int root)
{
    bool mine = root < 0 || d->me == root;
    weft_tensor *result =
                    new_result_tensor(d, p, mine ? wf_message_pieces_total_size(p, d->ways) : 0),
                *packed, *own;
    size_t *counts = wf_message_pieces_counts(p, d->ways);
    weft_scope *scope = weft_scope_open();

    own = wf_collective_call_row_major(d, d->t);
    packed = mine && p->dim > 0 ? alloc_packed_buffer(d, counts) : result;
    d->coll.recv_counts = counts;
    d->coll.send = own->data;
    d->coll.recv = packed->data;
    wf_collective_call_run(d);
    if (packed != result && !d->meta)
        wf_message_pieces_pack_unpack(p, d->ways, result, packed->data, false);
    weft_scope_close(scope);
    wf_free(counts);
    return result;
}

weft_tensor *weft_mesh_all_gather(weft_tensor *t, int dim, const int64_t *sizes, weft_mesh *mesh,
                                  int axis)
{
    struct wf_collective_call d;
    struct wf_message_pieces p;
    weft_tensor *result;

    WF_TRY_PTR(
        wf_collective_call_begin(&d, "mesh_all_gather", WEFT_COLL_ALL_GATHER, t, mesh, axis));
    WF_TRY_PTR(init_message_pieces(&p, &d, dim, sizes));
    result = gather_pieces(&d, &p, -1);
    wf_free(p.sizes);
    return result;
}

weft_tensor *weft_mesh_gather(weft_tensor *t, int dim, const int64_t *sizes, weft_mesh *mesh,
                              int axis, int root)
{
    struct wf_collective_call d;
    struct wf_message_pieces p;
    weft_tensor *result;

    WF_TRY_PTR(wf_collective_call_begin(&d, "mesh_gather", WEFT_COLL_GATHER, t, mesh, axis));
    WF_TRY_PTR(set_root_rank(&d, root));
    WF_TRY_PTR(init_message_pieces(&p, &d, dim, sizes));
    result = gather_pieces(&d, &p, root);
    wf_free(p.sizes);
    return result;
}

/* ---- reductions ---- */

weft_tensor *weft_mesh_all_reduce(weft_tensor *t, weft_reduce reduce, weft_mesh *mesh, int axis)
{
    struct wf_collective_call d;
    weft_scope *scope;
    weft_tensor *own, *result;

    WF_TRY_PTR(
        wf_collective_call_begin(&d, "mesh_all_reduce", WEFT_COLL_ALL_REDUCE, t, mesh, axis));
    WF_TRY_PTR(set_reduce_op(&d, reduce));
    scope = weft_scope_open();
    own = wf_collective_call_row_major(&d, t);
    result =
        wf_collective_call_new_tensor(&d, t->layout->desc.shape, weft_ndim(t), WF_MEM_ACTIVATIONS);
    d.coll.count = (size_t)weft_numel(t);
    d.coll.send = own->data;
    d.coll.recv = result->data;
    wf_collective_call_run(&d);
    return weft_scope_return(scope, result);
}

/* Rank r's shard has p->sizes[r] of p->dim; shards are in rank order. */
static weft_tensor *reduce_scatter_pieces(struct wf_collective_call *d,
                                          const struct wf_message_pieces *p)
{
    weft_tensor *result = new_result_tensor(d, p, p->sizes[d->me]), *packed;
    size_t *counts = wf_message_pieces_counts(p, d->ways);
    weft_scope *scope = weft_scope_open();

    packed = p->dim == 0 ? wf_collective_call_row_major(d, d->t) : alloc_packed_buffer(d, counts);
    if (p->dim > 0 && !d->meta) wf_message_pieces_pack_unpack(p, d->ways, d->t, packed->data, true);
    d->coll.send_counts = counts;
    d->coll.send = packed->data;
    d->coll.recv = result->data;
    wf_collective_call_run(d);
    weft_scope_close(scope);
    wf_free(counts);
    return result;
}

weft_tensor *weft_mesh_reduce_scatter(weft_tensor *t, int dim, weft_reduce reduce, weft_mesh *mesh,
                                      int axis)
{
    struct wf_collective_call d;
    struct wf_message_pieces p;
    weft_tensor *result;

    WF_TRY_PTR(wf_collective_call_begin(&d, "mesh_reduce_scatter", WEFT_COLL_REDUCE_SCATTER, t,
                                        mesh, axis));
    WF_TRY_PTR(set_reduce_op(&d, reduce));
    WF_TRY_PTR(init_message_pieces(&p, &d, dim, NULL));
    for (int r = 0; r < d.ways; r++) p.sizes[r] = weft_chunk_size(p.shape[p.dim], d.ways, r);
    result = reduce_scatter_pieces(&d, &p);
    wf_free(p.sizes);
    return result;
}

/* A reduce-scatter in which the root's shard is the whole tensor. */
weft_tensor *weft_mesh_reduce(weft_tensor *t, weft_reduce reduce, weft_mesh *mesh, int axis,
                              int root)
{
    struct wf_collective_call d;
    weft_scope *scope;
    weft_tensor *own, *result;
    size_t *counts;
    int64_t nothing = 0;

    WF_TRY_PTR(
        wf_collective_call_begin(&d, "mesh_reduce", WEFT_COLL_REDUCE_SCATTER, t, mesh, axis));
    WF_TRY_PTR(set_root_rank(&d, root));
    WF_TRY_PTR(set_reduce_op(&d, reduce));
    scope = weft_scope_open();
    own = wf_collective_call_row_major(&d, t);
    result = d.me == root ? wf_collective_call_new_tensor(&d, t->layout->desc.shape, weft_ndim(t),
                                                          WF_MEM_ACTIVATIONS)
                          : wf_collective_call_new_tensor(&d, &nothing, 1, WF_MEM_ACTIVATIONS);
    counts = wf_calloc((size_t)d.ways, sizeof *counts);
    counts[root] = (size_t)weft_numel(t);
    d.coll.send_counts = counts;
    d.coll.rooted = true;
    d.coll.send = own->data;
    d.coll.recv = result->data;
    wf_collective_call_run(&d);
    wf_free(counts);
    return weft_scope_return(scope, result);
}

/* ---- all to all ---- */

/* The input is split along `out`; the received pieces are concatenated along `in`. */
static weft_tensor *all_to_all_pieces(struct wf_collective_call *d,
                                      const struct wf_message_pieces *out,
                                      const struct wf_message_pieces *in)
{
    weft_tensor *result = new_result_tensor(d, in, wf_message_pieces_total_size(in, d->ways)),
                *packed, *got;
    size_t *send_counts = wf_message_pieces_counts(out, d->ways),
           *recv_counts = wf_message_pieces_counts(in, d->ways);
    weft_scope *scope = weft_scope_open();

    packed = alloc_packed_buffer(d, send_counts);
    got = alloc_packed_buffer(d, recv_counts);
    d->coll.send_counts = send_counts;
    d->coll.recv_counts = recv_counts;
    d->coll.send = packed->data;
    d->coll.recv = got->data;
    if (!d->meta) wf_message_pieces_pack_unpack(out, d->ways, d->t, packed->data, true);
    wf_collective_call_run(d);
    if (!d->meta) wf_message_pieces_pack_unpack(in, d->ways, result, got->data, false);
    weft_scope_close(scope);
    wf_free(send_counts);
    wf_free(recv_counts);
    return result;
}

weft_tensor *weft_mesh_all_to_all(weft_tensor *t, int split, int join, const int64_t *sizes,
                                  weft_mesh *mesh, int axis)
{
    struct wf_collective_call d;
    struct wf_message_pieces out, in;
    weft_tensor *result;

    WF_TRY_PTR(
        wf_collective_call_begin(&d, "mesh_all_to_all", WEFT_COLL_ALL_TO_ALL, t, mesh, axis));
    WF_TRY_PTR(init_message_pieces(&in, &d, join, sizes));
    if (init_message_pieces(&out, &d, split, NULL) != WEFT_OK) {
        wf_free(in.sizes);
        return NULL;
    }
    for (int r = 0; r < d.ways; r++) {
        out.sizes[r] = weft_chunk_size(out.shape[out.dim], d.ways, r);
        if (in.dim == out.dim) in.sizes[r] = weft_chunk_size(in.sizes[r], d.ways, d.me);
    }
    in.shape[out.dim] = out.sizes[d.me];
    result = all_to_all_pieces(&d, &out, &in);
    wf_free(in.sizes);
    wf_free(out.sizes);
    return result;
}
