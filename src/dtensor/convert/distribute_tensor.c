/*
 * distribute_tensor.c: which tensors may be distributed over a mesh, and the functions that the
 * tape calls in this layer (wf_autograd_upcalls). How elements reach their ranks is in
 * scatter_shards.c.
 */
#include <weft/dtensor.h>

#include <string.h>

#include "autograd/tape.h"
#include "base/error.h"
#include "dtensor/convert/check_local_shards.h"
#include "dtensor/convert/init.h"
#include "dtensor/convert/scatter_shards.h"
#include "dtensor/dispatch/grad_types.h"
#include "dtensor/dispatch/placement_args.h"
#include "dtensor/dispatch/redistribute_op.h"
#include "dtensor/dispatch/slow_path.h"
#include "mesh/mesh.h"
#include "ops/op_functions.h"
#include "redistribute/redistribute.h"
#include <weft/ops.h>

weft_status weft_placements_on(weft_placement *out, const weft_mesh *mesh, const char *text)
{
    int count;

    WF_NEED_GIVEN(mesh, "placements: no mesh");
    WF_NEED(out && text, WEFT_ERR_ARG, "placements: no %s", text ? "array" : "text");
    count = weft_placements_parse(out, WEFT_MAX_AXES, text);
    if (count < 0) return weft_error_status();
    WF_NEED(count == weft_mesh_ndim(mesh), WEFT_ERR_ARG,
            "placements \"%s\": placements and mesh axes must have the same length, not %d and %d",
            text, count, weft_mesh_ndim(mesh));
    return WEFT_OK;
}

/* A distributed tensor is accepted if it has the placements that were asked for. */
static weft_tensor *check_already_distributed(weft_tensor *t, const weft_mesh *mesh,
                                              const weft_placement *placements)
{
    WF_NEED_PTR(t->layout->mesh == mesh, WEFT_ERR_ARG,
                "distribute_tensor: the tensor is distributed already, on another mesh");
    for (int a = 0; a < t->layout->n_axes; a++)
        WF_NEED_PTR(weft_placement_equal(t->layout->placements[a], placements[a]), WEFT_ERR_ARG,
                    "distribute_tensor: the tensor is distributed already with other placements; "
                    "use weft_redistribute");
    return t;
}

static weft_status check_distribute_tensor(const weft_tensor *t, weft_mesh *mesh,
                                           const weft_placement *placements, int source)
{
    WF_NEED(!t->node, WEFT_ERR_ARG,
            "distribute_tensor: only leaf tensors can be distributed, not the result of %s",
            t->node->name);
    WF_NEED(source >= -1, WEFT_ERR_ARG, "distribute_tensor: source rank %d", source);
    WF_NEED(source < 0 || wf_is_meta(t) || !weft_mesh_is_fake(mesh), WEFT_ERR_COMM,
            "distribute_tensor: a fake mesh has no ranks, and so no source");
    for (int a = 0; a < weft_mesh_ndim(mesh); a++) {
        WF_NEED(placements[a].kind != WEFT_KIND_PARTIAL ||
                    (placements[a].reduce != WEFT_MASKED && placements[a].reduce != WEFT_NORM),
                WEFT_ERR_LAYOUT,
                "distribute_tensor: unsupported placement on axis %s: nothing can start as a "
                "masked or norm reduction",
                weft_mesh_axis_name(mesh, a));
        WF_NEED(source < weft_mesh_axis_size(mesh, a), WEFT_ERR_ARG,
                "distribute_tensor: source rank %d on axis %s of %d", source,
                weft_mesh_axis_name(mesh, a), weft_mesh_axis_size(mesh, a));
    }
    if (source < 0) WF_TRY(wf_grad_types_check_replicated(t->layout, mesh, "distribute_tensor"));
    return wf_placements_check_segments(placements, weft_mesh_ndim(mesh), t->layout->desc.global,
                                        "distribute_tensor");
}

weft_tensor *weft_distribute_tensor(weft_tensor *t, weft_mesh *mesh,
                                    const weft_placement *placements, int source)
{
    static const weft_placement replicated[WEFT_MAX_AXES];
    weft_placement to[WEFT_MAX_AXES] = {{0}}, whole[WEFT_MAX_AXES];
    weft_tensor *shard;
    weft_scope *scope;

    if (!t) return NULL;
    mesh = wf_mesh_or_current(mesh);
    if (!mesh) return NULL;
    WF_TRY_PTR(wf_tensor_check_alive(t, "distribute_tensor"));
    WF_TRY_PTR(wf_placements_normalize(to, placements ? placements : replicated,
                                       weft_mesh_ndim(mesh), weft_ndim(t), "distribute_tensor"));
    if (!wf_is_plain(t)) return check_already_distributed(t, mesh, to);
    WF_TRY_PTR(check_distribute_tensor(t, mesh, to, source));
    memcpy(whole, to, sizeof whole);
    wf_placements_drop_partial(whole, weft_mesh_ndim(mesh));
    scope = weft_scope_open();
    weft_no_grad_open();
    shard = weft_contiguous(wf_is_meta(t) ? t : weft_to_device(t, weft_mesh_device(mesh)));
    shard = shard ? wf_scatter_from_source(shard, mesh, whole, source) : NULL;
    shard = wf_redistribute(shard, to); /* a partial sum: the first rank has the value */
    weft_no_grad_close();
    if (shard) shard->requires_grad = t->requires_grad;
    return weft_scope_return(scope, shard);
}

/* ---- the tape's upcalls ---- */

static weft_tensor *full_like(const weft_tensor *t, double value)
{
    struct wf_op_args args = {.scalars.s = {value}};
    weft_placement placements[WEFT_MAX_AXES];
    struct wf_layout *layout = t->layout;
    weft_tensor *full;

    args.want = layout;
    if (layout->desc.contiguous && !layout->partial)
        return wf_dispatch_op_one_output(WF_OP_fill, NULL, 0, &args);
    memcpy(placements, t->layout->placements, sizeof placements);
    wf_placements_drop_partial(placements, t->layout->n_axes);
    layout = wf_layout_with_placements(t->layout, placements);
    args.want = layout;
    full = wf_dispatch_op_one_output(WF_OP_fill, NULL, 0, &args);
    wf_layout_release(layout);
    return full;
}

/* Along axes where the leaf is partial the gradient is replicated, but that a sum's may stay terms.
 */
static void gradient_placements(weft_placement *to, const weft_tensor *grad,
                                const weft_tensor *leaf)
{
    memcpy(to, leaf->layout->placements, sizeof leaf->layout->placements);
    for (int a = 0; a < leaf->layout->n_axes; a++)
        if (weft_is_partial(to[a]) &&
            !(to[a].reduce == WEFT_SUM && weft_is_partial(grad->layout->placements[a])))
            to[a] = weft_replicate();
}

/* Placements of the leaf; where the leaf is replicated, a partial sum may stay until the step. */
static weft_tensor *move_to_leaf_placements(weft_tensor *grad, const weft_tensor *leaf)
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
    gradient_placements(to, grad, leaf);
    for (int a = 0; a < leaf->layout->n_axes; a++)
        if (weft_is_replicate(to[a]) && weft_is_partial(grad->layout->placements[a]) &&
            grad->layout->placements[a].reduce == WEFT_SUM)
            to[a] = grad->layout->placements[a];
    return wf_redistribute(grad, to);
}

static weft_tensor *reduce_to_leaf_layout(weft_tensor *grad, const weft_tensor *leaf)
{
    weft_placement to[WEFT_MAX_AXES];

    gradient_placements(to, grad, leaf);
    return wf_redistribute(grad, to);
}

static weft_tensor *copy_tensor(weft_tensor *t) { return wf_dispatch_unary_op(WF_OP_copy, t); }

static bool add_in_place(weft_tensor *a, weft_tensor *b)
{
    weft_tensor *in[] = {a, b};
    struct wf_op_args args = {.into = a};

    if (a->layout->mesh != b->layout->mesh || !a->layout->desc.contiguous) return false;
    if (a->refs != 1 || !wf_block_is_unshared(a->block)) return false;
    if (memcmp(a->layout->placements, b->layout->placements, sizeof a->layout->placements) != 0)
        return false;
    return wf_dispatch_op_one_output(WF_OP_add, in, 2, &args) != NULL;
}

void wf_dtensor_init(void)
{
    static const struct wf_autograd_upcalls upcalls = {
        .add = weft_add,
        .full_like = full_like,
        .to_mesh_of = wf_plain_gradient_as_replicated,
        .to_leaf_placements = move_to_leaf_placements,
        .reduce = reduce_to_leaf_layout,
        .copy = copy_tensor,
        .add_into = add_in_place};

    wf_autograd_set_upcalls(&upcalls);
}
