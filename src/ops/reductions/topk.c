/*
 * topk.c: the largest elements along a dim, and where they are.
 *
 * A dim that is split over ranks stays where it is: each rank picks its own k, these are gathered,
 * and the best of them picked again; unless the dim itself is less to send.
 */
#include <weft/ops.h>

#include "base/error.h"
#include "ops/op_functions.h"

weft_status wf_shape_topk(struct wf_infer *call)
{
    const struct wf_topk_attrs *attrs = &call->attrs->topk;
    const struct wf_tensor_desc *x = &call->in[0]->desc;
    int last = x->ndim - 1;

    WF_NEED(last >= 0, WEFT_ERR_SHAPE, "topk: a number has no largest elements");
    WF_NEED(attrs->k >= 0 && (attrs->fewer || attrs->k <= x->global[last]), WEFT_ERR_ARG,
            "topk: %lld of %lld elements", (long long)attrs->k, (long long)x->global[last]);
    for (int j = 0; j < 2; j++) {
        wf_infer_output_like(call, j, call->in[0]);
        call->out[j].shape[last] = attrs->k;
    }
    call->out[1].dtype = WEFT_I64;
    return WEFT_OK;
}

/* d [*,k], indices [*,k] -> [*, row_size] */
weft_status wf_shape_topk_grad(struct wf_infer *call)
{
    const struct wf_tensor_desc *d = &call->in[0]->desc;

    wf_infer_output_like(call, 0, call->in[0]);
    call->out[0].shape[d->ndim - 1] = call->attrs->topk_grad.row_size;
    return WEFT_OK;
}

/* Values and where they are; `labels` NULL: positions from `first` on. */
static weft_tensor *call_topk(weft_tensor *x, weft_tensor *labels, int64_t k, bool fewer,
                              int64_t first, weft_tensor **indices)
{
    struct wf_op_args args = {WF_ATTRS(topk, .k = k, .fewer = fewer), .scalars.v = {first}};

    return wf_dispatch_op(WF_OP_topk, (weft_tensor *[]){x, labels}, 2, &args, indices);
}

/*
 * How candidates are spread when the last dim is: placements, and how many ranks share a row; 1
 * when it is whole, or split in a way of which not every rank has one run.
 */
static int64_t candidate_layout(const weft_tensor *x, weft_placement *placements)
{
    const weft_mesh *mesh = weft_tensor_mesh(x);
    int last = weft_ndim(x) - 1;
    int64_t ways = 1;

    for (int a = 0; mesh && a < weft_mesh_ndim(mesh); a++) {
        weft_placement p = weft_tensor_placement(x, a);
        bool whole = p.kind == WEFT_KIND_REPLICATE || (p.kind == WEFT_KIND_SHARD && p.dim != last);

        placements[a] = p;
        if (whole) continue;
        if (!weft_placement_equal(p, weft_shard(last))) return 1;
        ways *= weft_mesh_axis_size(mesh, a);
    }
    return ways;
}

/* Values and labels of k candidates per rank, beside the dim itself. */
static bool candidates_are_larger(const weft_tensor *x, int64_t k, int64_t ways)
{
    int64_t size = (int64_t)weft_dtype_size(weft_tensor_dtype(x)), n = weft_size(x, -1);

    return n * size <= k * ways * (size + (int64_t)sizeof(int64_t));
}

/* The last dim is brought together. */
static weft_tensor *gather_dim(weft_tensor *x, weft_placement *placements)
{
    int last = weft_ndim(x) - 1;

    for (int a = 0; a < weft_mesh_ndim(weft_tensor_mesh(x)); a++)
        if (weft_placement_equal(placements[a], weft_shard(last))) placements[a] = weft_replicate();
    return weft_redistribute(x, placements);
}

/* The k best of every rank, whole on every rank. */
static weft_tensor *gather_local_candidates(weft_tensor *x, int64_t k, int64_t ways,
                                            weft_placement *placements, weft_tensor **indices)
{
    weft_mesh *mesh = weft_tensor_mesh(x);
    int last = weft_ndim(x) - 1;
    int64_t shape[WEFT_MAX_DIMS];
    weft_tensor *values =
        call_topk(weft_to_local(x, NULL), NULL, k, true, weft_local_offset(x, last), indices);

    for (int d = 0; d < last; d++) shape[d] = weft_size(x, d);
    shape[last] = k * ways;
    values = weft_from_local(values, mesh, placements, shape);
    *indices = weft_from_local(*indices, mesh, placements, shape);
    for (int a = 0; a < weft_mesh_ndim(mesh); a++)
        if (weft_placement_equal(placements[a], weft_shard(last))) placements[a] = weft_replicate();
    *indices = weft_redistribute(*indices, placements);
    return weft_redistribute(values, placements);
}

/* ---- the gradient: what was chosen keeps its own, wherever the candidates went ---- */

enum { INDICES }; /* saved */

static void vjp_topk(const struct wf_tape_node *node, weft_tensor *grad, weft_tensor **in)
{
    struct wf_layout *x = node->context;
    struct wf_op_args args = {WF_ATTRS(topk_grad, .row_size = x->desc.global[x->desc.ndim - 1]),
                              .want = x};

    in[0] = wf_dispatch_op_one_output(WF_OP_topk_grad,
                                      (weft_tensor *[]){grad, node->saved[INDICES]}, 2, &args);
}

static void release_layout(void *layout) { wf_layout_release(layout); }

static void record_topk_node(weft_tensor *values, weft_tensor *indices, weft_tensor *x)
{
    struct wf_tape_node *node;

    if (!wf_should_record(&x, 1)) return;
    node = wf_tape_record(values, vjp_topk, "topk", &x, 1);
    node->context = wf_layout_retain(x->layout);
    node->release_context = release_layout;
    wf_tape_node_save(node, INDICES, indices);
    wf_tape_node_shard_saved(node);
}

/* Small integers, which have no kernel, by way of i32. */
static weft_tensor *topk_of_small(weft_tensor *x, int64_t k, int dim, weft_tensor **indices)
{
    weft_tensor *values = weft_topk(weft_cast(x, WEFT_I32), k, dim, indices);

    return values ? weft_cast(values, weft_tensor_dtype(x)) : NULL;
}

static bool lacks_topk_kernel(const weft_tensor *x)
{
    weft_dtype dtype = weft_tensor_dtype(x);

    return dtype == WEFT_I16 || dtype == WEFT_I8 || dtype == WEFT_U8;
}

weft_tensor *weft_topk(weft_tensor *x, int64_t k, int dim, weft_tensor **indices)
{
    weft_placement placements[WEFT_MAX_AXES];
    weft_tensor *labels = NULL, *bare, *values;
    int64_t ways;
    int d, last;

    if (indices) *indices = NULL;
    if (!x) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "topk"));
    if (wf_is_dim_of_scalar(x, dim))
        return k == 1
                   ? wf_squeeze_to_scalar(weft_topk(weft_atleast_nd(x, 1), 1, 0, indices), indices)
                   : weft_topk(weft_atleast_nd(x, 1), k, 0, indices);
    if (lacks_topk_kernel(x)) return topk_of_small(x, k, dim, indices);
    d = wf_normalize_dim(dim, weft_ndim(x), "topk");
    last = weft_ndim(x) - 1;
    if (d < 0) return NULL;
    WF_NEED_PTR(k >= 0 && k <= weft_size(x, d), WEFT_ERR_ARG, "topk: %lld of %lld elements",
                (long long)k, (long long)weft_size(x, d));
    x = d == last ? x : weft_transpose(x, d, last);
    bare = weft_detach(x);
    ways = bare ? candidate_layout(bare, placements) : 1;
    if (ways > 1)
        bare = candidates_are_larger(bare, k, ways)
                   ? gather_dim(bare, placements)
                   : gather_local_candidates(bare, k, ways, placements, &labels);
    values = bare ? call_topk(bare, labels, k, false, 0, &labels) : NULL;
    if (!values) return NULL;
    record_topk_node(values, labels, x);
    if (d != last) values = weft_transpose(values, d, last);
    if (indices) *indices = d == last ? labels : weft_transpose(labels, d, last);
    return values;
}
