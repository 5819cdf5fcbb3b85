/*
 * all_to_all_single.c: rows whose number for each rank follows from data, with a gradient: the same
 * exchange the other way round. The numbers are exchanged first, so that every rank of the line
 * finds the same mismatch and reports the same error.
 */
#include <weft/extend/collective.h>

#include <stdio.h>
#include <string.h>

#include "autograd/tape.h"
#include "base/elements/dtype.h"
#include "base/elements/numel.h"
#include "base/error.h"
#include "base/mem.h"
#include "dtensor/collectives/collective_call.h"
#include "dtensor/local_map/local_region.h"
#include "mesh/mesh.h"

/* Rows to and from each rank of a line. */
struct splits {
    weft_mesh *mesh;
    int axis, ways;
    int64_t *send, *recv;
    struct wf_layout *out; /* of the received rows */
};

static struct splits *splits_new(const struct wf_collective_call *d, const weft_tensor *out,
                                 const int64_t *send, const int64_t *recv)
{
    size_t bytes = (size_t)d->ways * sizeof *send;
    struct splits *s = WF_NEW(struct splits);

    *s = (struct splits){.mesh = d->mesh, .axis = d->axis, .ways = d->ways};
    s->send = wf_malloc(bytes);
    s->recv = wf_malloc(bytes);
    memcpy(s->send, send, bytes);
    memcpy(s->recv, recv, bytes);
    weft_mesh_retain(s->mesh);
    s->out = wf_layout_retain(out->layout);
    return s;
}

static void splits_free(void *context)
{
    struct splits *s = context;

    weft_mesh_release(s->mesh);
    wf_layout_release(s->out);
    wf_free(s->send);
    wf_free(s->recv);
    wf_free(s);
}

/* ---- the metadata that ranks exchange first ---- */

enum { DTYPE, NDIM, GRADIENT, SHAPE, HEAD = SHAPE + WEFT_MAX_DIMS }; /* and then the splits */

/* The metadata of all ranks of the line, in rank order; the caller frees it. */
static int64_t *all_gather_headers(const struct wf_collective_call *d, const int64_t *send)
{
    size_t width = (size_t)(HEAD + d->ways), *counts;
    int64_t *mine = wf_calloc(width, sizeof *mine);
    int64_t *all = wf_malloc(width * (size_t)d->ways * sizeof *all);
    struct wf_coll coll = {.kind = WEFT_COLL_ALL_GATHER, .comm = d->coll.comm, .dtype = WEFT_I64};

    mine[DTYPE] = d->coll.dtype;
    mine[NDIM] = weft_ndim(d->t);
    mine[GRADIENT] = d->t->requires_grad;
    for (int i = 0; i < weft_ndim(d->t); i++) mine[SHAPE + i] = weft_size(d->t, i);
    memcpy(mine + HEAD, send, (size_t)d->ways * sizeof *send);
    counts = wf_malloc((size_t)d->ways * sizeof *counts);
    for (int r = 0; r < d->ways; r++) counts[r] = width;
    coll.recv_counts = counts;
    coll.send = mine;
    coll.recv = all;
    wf_comm_run(&coll);
    wf_free(counts);
    wf_free(mine);
    return all;
}

static const int64_t *header_of_rank(const struct wf_collective_call *d, const int64_t *all,
                                     int rank)
{
    return all + (size_t)rank * (size_t)(HEAD + d->ways);
}

/* Whether a split is negative or the splits do not add up to all rows. */
static bool splits_cover_all_rows(const int64_t *splits, int ways, int64_t rows)
{
    int64_t left = rows;

    for (int r = 0; r < ways; r++) {
        if (splits[r] < 0 || splits[r] > left) return false;
        left -= splits[r];
    }
    return left == 0;
}

/* Compares the metadata of `rank` with that of the line's first rank; false: nothing is wrong. */
static bool describe_header_mismatch(const struct wf_collective_call *d, const int64_t *all,
                                     int rank, char *text, size_t bytes)
{
    const int64_t *first = all, *own = header_of_rank(d, all, rank);
    const char *axis = weft_mesh_axis_name(d->mesh, d->axis);

    if (own[NDIM] == 0)
        snprintf(text, bytes, "%s: the tensor of rank %d of axis %s has no dims, and so no rows",
                 d->who, rank, axis);
    else if (own[DTYPE] != first[DTYPE] || own[NDIM] != first[NDIM])
        snprintf(text, bytes, "%s: rank %d of axis %s has %s of %d dims, rank 0 %s of %d", d->who,
                 rank, axis, weft_dtype_name((weft_dtype)own[DTYPE]), (int)own[NDIM],
                 weft_dtype_name((weft_dtype)first[DTYPE]), (int)first[NDIM]);
    else if (memcmp(own + SHAPE + 1, first + SHAPE + 1, (HEAD - SHAPE - 1) * sizeof *own) != 0)
        snprintf(text, bytes,
                 "%s: rows of rank %d of axis %s have another shape than those of "
                 "rank 0",
                 d->who, rank, axis);
    else if (!splits_cover_all_rows(own + HEAD, d->ways, own[SHAPE]))
        snprintf(text, bytes, "%s: the splits of rank %d of axis %s do not add up to its %lld rows",
                 d->who, rank, axis, (long long)own[SHAPE]);
    else
        return false;
    return true;
}

/* Every rank of the line finds the same error; ranks of the mesh's other lines do not see it. */
static weft_status check_ranks_headers(const struct wf_collective_call *d, const int64_t *all)
{
    char text[256];

    for (int r = 0; r < d->ways; r++) {
        if (!describe_header_mismatch(d, all, r, text, sizeof text)) continue;
        if (weft_mesh_size(d->mesh) != d->ways) WF_DIE("%s", text);
        return WF_FAIL(WEFT_ERR_SHAPE, "%s", text);
    }
    return WEFT_OK;
}

/* ---- the exchange ---- */

/* Rows are contiguous already: nothing is packed. */
static weft_tensor *exchange_rows(struct wf_collective_call *d, const int64_t *send,
                                  const int64_t *recv)
{
    int64_t shape[WEFT_MAX_DIMS], row = 1;
    size_t *counts = wf_malloc(2 * (size_t)d->ways * sizeof *counts);
    weft_scope *scope = weft_scope_open();
    weft_tensor *own = wf_collective_call_row_major(d, d->t), *result;

    for (int i = 0; i < weft_ndim(d->t); i++) shape[i] = weft_size(d->t, i);
    for (int i = 1; i < weft_ndim(d->t); i++) row *= shape[i];
    shape[0] = 0;
    for (int r = 0; r < d->ways; r++) shape[0] += recv[r];
    result = wf_collective_call_new_tensor(d, shape, weft_ndim(d->t), WF_MEM_ACTIVATIONS);
    for (int r = 0; r < d->ways; r++) {
        counts[r] = (size_t)(send[r] * row);
        counts[d->ways + r] = (size_t)(recv[r] * row);
    }
    d->coll.send_counts = counts;
    d->coll.recv_counts = counts + d->ways;
    d->coll.send = own->data;
    d->coll.recv = result->data;
    wf_collective_call_run(d);
    wf_free(counts);
    return weft_scope_return(scope, result);
}

static void vjp_all_to_all_single(const struct wf_tape_node *node, weft_tensor *grad,
                                  weft_tensor **in)
{
    const struct splits *s = node->context;
    struct wf_collective_call d;

    if (!grad) grad = wf_tensor_zeros(s->out);
    if (wf_collective_call_begin(&d, node->name, WEFT_COLL_ALL_TO_ALL, grad, s->mesh, s->axis) ==
        WEFT_OK)
        in[0] = exchange_rows(&d, s->recv, s->send);
}

/* The exchange; all ranks of the line agree on `wants`, whether some rank wants a gradient:
 * backward is an exchange too, which all of them have to call. */
static weft_tensor *exchange_rows_on_tape(struct wf_collective_call *d, const int64_t *send,
                                          const int64_t *recv, bool wants)
{
    weft_tensor *out = exchange_rows(d, send, recv), *in[] = {d->t};

    if (!wf_grad_is_enabled()) {
        wf_note_unrecorded_use(in, 1);
    } else if (wants && wf_dtype_has_gradient(weft_tensor_dtype(out))) {
        struct wf_tape_node *node = wf_tape_record(out, vjp_all_to_all_single, d->who, in, 1);

        node->context = splits_new(d, out, send, recv);
        node->release_context = splits_free;
        wf_local_region_add_node(node);
    }
    return out;
}

weft_tensor *weft_mesh_all_to_all_known(weft_tensor *t, const int64_t *input_splits,
                                        const int64_t *output_splits, weft_mesh *mesh, int axis)
{
    struct wf_collective_call call;
    int64_t shape[WEFT_MAX_DIMS];

    WF_TRY_PTR(wf_collective_call_begin(&call, "mesh_all_to_all_known", WEFT_COLL_ALL_TO_ALL, t,
                                        mesh, axis));
    WF_NEED_PTR(input_splits && output_splits, WEFT_ERR_ARG, "%s: no splits", call.who);
    if (weft_ndim(t) == 0)
        return (void)WF_FAIL_LOCAL(WEFT_ERR_SHAPE, "%s: the tensor has no dims, and so no rows",
                                   call.who),
               NULL;
    if (!splits_cover_all_rows(input_splits, call.ways, weft_size(t, 0)))
        WF_DIE("%s: the splits do not add up to the %lld rows", call.who,
               (long long)weft_size(t, 0));
    shape[0] = 0;
    for (int d = 1; d < weft_ndim(t); d++) shape[d] = weft_size(t, d);
    for (int r = 0; r < call.ways; r++) {
        bool countable = output_splits[r] >= 0 && output_splits[r] <= INT64_MAX - shape[0];

        if (countable) shape[0] += output_splits[r];
        if (!countable || wf_shape_numel(shape, weft_ndim(t)) < 0)
            WF_DIE("%s: %lld rows cannot come from rank %d of axis %s", call.who,
                   (long long)output_splits[r], r, weft_mesh_axis_name(call.mesh, axis));
    }
    return exchange_rows_on_tape(&call, input_splits, output_splits,
                                 t->requires_grad || wf_local_region_wants_grad());
}

weft_tensor *weft_mesh_all_to_all_single(weft_tensor *t, const int64_t *input_splits,
                                         int64_t *output_splits, weft_mesh *mesh, int axis)
{
    struct wf_collective_call d;
    int64_t *all, *recv;
    weft_tensor *out = NULL;
    bool wants = false;

    WF_TRY_PTR(wf_collective_call_begin(&d, "mesh_all_to_all_single", WEFT_COLL_ALL_TO_ALL, t, mesh,
                                        axis));
    WF_NEED_PTR(input_splits, WEFT_ERR_ARG, "%s: no splits", d.who);
    WF_NEED_PTR(!d.meta, WEFT_ERR_ARG,
                "%s: a tensor on the meta device has no elements that sizes could follow from; "
                "weft_mesh_all_to_all_known takes them as arguments",
                d.who);
    all = all_gather_headers(&d, input_splits);
    recv = wf_malloc((size_t)d.ways * sizeof *recv);
    for (int r = 0; r < d.ways; r++) {
        const int64_t *words = header_of_rank(&d, all, r);

        recv[r] = words[HEAD + d.me];
        wants |= words[GRADIENT] != 0;
    }
    if (check_ranks_headers(&d, all) == WEFT_OK) {
        out = exchange_rows_on_tape(&d, input_splits, recv, wants);
        if (output_splits) memcpy(output_splits, recv, (size_t)d.ways * sizeof *recv);
    }
    wf_free(all);
    wf_free(recv);
    return out;
}
