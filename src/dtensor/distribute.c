/* distribute.c: spreading a tensor that every rank holds, and what the tape asks of this layer. */
#include <weft/dtensor.h>

#include <string.h>

#include "autograd/tape.h"
#include "base/error.h"
#include "comm/comm.h"
#include "dtensor/placements.h"
#include "dtensor/setup.h"
#include "mesh/mesh.h"
#include "ops/families.h"
#include <weft/ops.h>

static void broadcast_from(weft_tensor *t, weft_mesh *mesh, int source)
{
    for (int a = 0; a < weft_mesh_ndim(mesh); a++) {
        struct wf_coll coll = {.kind = WEFT_COLL_BROADCAST,
                               .comm = wf_mesh_comm(mesh, a),
                               .peer = source,
                               .dtype = (weft_dtype)t->layout->desc.dtype,
                               .count = (size_t)t->layout->desc.numel,
                               .send = t->data,
                               .recv = t->data};

        if (coll.comm && weft_mesh_axis_size(mesh, a) > 1) wf_comm_run(&coll);
    }
}

/* This rank's part of a whole tensor, as a fresh leaf. */
static weft_tensor *own_part(weft_tensor *whole, weft_mesh *mesh, const weft_placement *placements)
{
    struct wf_layout *layout =
        wf_layout_onto(wf_layout_new(mesh, placements, weft_tensor_dtype(whole), weft_ndim(whole),
                                     whole->layout->desc.global, NULL),
                       weft_tensor_device(whole));
    weft_tensor *part =
        wf_tensor_empty(layout, (enum wf_category)whole->block->category, "distribute_tensor");
    weft_tensor *view = whole, *copy;
    int64_t size = (int64_t)weft_dtype_size(weft_tensor_dtype(whole));

    wf_layout_release(layout);
    if (!part || part->layout->desc.numel == 0 || wf_is_meta(part)) return part;
    for (int d = 0; d < weft_ndim(part); d++)
        view = weft_slice(view, d, weft_local_offset(part, d),
                          weft_local_offset(part, d) + weft_local_size(part, d));
    copy = weft_contiguous(view);
    if (!copy) return NULL;
    memcpy(part->data, copy->data, (size_t)(part->layout->desc.numel * size));
    return part;
}

static weft_status check(const weft_tensor *t, const weft_mesh *mesh,
                         const weft_placement *placements, int source)
{
    WF_NEED(wf_is_plain(t), WEFT_ERR_ARG,
            "distribute_tensor: the tensor is distributed already; use weft_redistribute");
    WF_NEED(!t->node, WEFT_ERR_ARG,
            "distribute_tensor: only leaf tensors can be distributed, not the result of %s",
            t->node->name);
    for (int a = 0; a < weft_mesh_ndim(mesh); a++) {
        WF_NEED(placements[a].kind != WEFT_KIND_PARTIAL, WEFT_ERR_LAYOUT,
                "distribute_tensor: axis %s cannot start as a pending sum",
                weft_mesh_axis_name(mesh, a));
        WF_NEED(source < weft_mesh_axis_size(mesh, a), WEFT_ERR_ARG,
                "distribute_tensor: source rank %d on axis %s of %d", source,
                weft_mesh_axis_name(mesh, a), weft_mesh_axis_size(mesh, a));
    }
    return WEFT_OK;
}

weft_tensor *weft_distribute_tensor(weft_tensor *t, weft_mesh *mesh,
                                    const weft_placement *placements, int source)
{
    weft_placement normal[WEFT_MAX_AXES];
    weft_scope *scope;
    weft_tensor *part;

    if (!t || !mesh) return NULL;
    WF_TRY_PTR(check(t, mesh, placements, source));
    WF_TRY_PTR(wf_placements_normalize(normal, placements, weft_mesh_ndim(mesh), weft_ndim(t),
                                       "distribute_tensor"));
    WF_TRY_PTR(wf_placements_fit(normal, weft_mesh_ndim(mesh), t->layout->desc.global,
                                 "distribute_tensor"));
    scope = weft_scope_open();
    weft_no_grad_begin();
    part = weft_contiguous(t);
    if (source >= 0 && part && !wf_is_meta(t)) {
        part =
            part == t ? wf_call1(WF_OP_copy, t) : part; /* the caller's tensor is not written to */
        if (part) broadcast_from(part, mesh, source);
    }
    part = part ? own_part(part, mesh, normal) : NULL;
    weft_no_grad_end();
    if (part) part->requires_grad = t->requires_grad;
    return weft_scope_return(scope, part);
}

/* ---- the tape's upcalls ---- */

static weft_tensor *ones_like(const weft_tensor *t)
{
    struct wf_args args = {.scalars.s = {1}};
    weft_placement placements[WEFT_MAX_AXES];
    struct wf_layout *layout = t->layout;
    weft_tensor *ones;

    args.want = layout;
    if (layout->desc.contiguous && !layout->partial) return wf_call(WF_OP_fill, 0, NULL, &args);
    memcpy(placements, t->layout->placements, sizeof placements);
    wf_without_partial(placements, t->layout->n_axes);
    layout = wf_layout_with_placements(t->layout, placements);
    args.want = layout;
    ones = wf_call(WF_OP_fill, 0, NULL, &args);
    wf_layout_release(layout);
    return ones;
}

/* Placements of the leaf; where the leaf is replicated a pending sum may wait for the step. */
static weft_tensor *settle(weft_tensor *grad, const weft_tensor *leaf)
{
    weft_placement to[WEFT_MAX_AXES];

    if (grad->layout == leaf->layout) return grad;
    if (wf_is_plain(leaf) || wf_is_plain(grad)) {
        WF_NEED_PTR(wf_is_plain(leaf) && wf_is_plain(grad), WEFT_ERR_LAYOUT,
                    "backward: a %s leaf got a %s gradient",
                    wf_is_plain(leaf) ? "plain" : "distributed",
                    wf_is_plain(grad) ? "plain" : "distributed");
        return grad;
    }
    memcpy(to, leaf->layout->placements, sizeof to);
    for (int a = 0; a < leaf->layout->n_axes; a++)
        if (to[a].kind == WEFT_KIND_REPLICATE &&
            grad->layout->placements[a].kind == WEFT_KIND_PARTIAL &&
            grad->layout->placements[a].reduce == WEFT_SUM)
            to[a] = grad->layout->placements[a];
    return weft_redistribute(grad, to);
}

static weft_tensor *reduce(weft_tensor *grad, const weft_tensor *leaf)
{
    return weft_redistribute(grad, leaf->layout->placements);
}

static weft_tensor *copy(weft_tensor *t) { return wf_call1(WF_OP_copy, t); }

static bool add_into(weft_tensor *a, weft_tensor *b)
{
    weft_tensor *in[] = {a, b};
    struct wf_args args = {.into = a};

    if (a->layout->mesh != b->layout->mesh || !a->layout->desc.contiguous) return false;
    if (a->refs != 1 || a->block->refs != 1) return false;
    if (memcmp(a->layout->placements, b->layout->placements, sizeof a->layout->placements) != 0)
        return false;
    return wf_call(WF_OP_add, 2, in, &args) != NULL;
}

void wf_dtensor_init(void)
{
    static const struct wf_autograd_upcalls upcalls = {.add = weft_add,
                                                       .ones = ones_like,
                                                       .settle = settle,
                                                       .reduce = reduce,
                                                       .copy = copy,
                                                       .add_into = add_into};

    wf_autograd_set_upcalls(&upcalls);
}
