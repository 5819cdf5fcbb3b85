/*
 * reduce_gradients.c: partial gradients of replicated parameters, reduced together.
 *
 * Gradients that are partial over the same axis of the same mesh lie one after another in one
 * buffer for one all-reduce, and are then views of it: nothing is copied back. Axes that a leaf's
 * gradient hook reduces are left to the hook, which runs afterwards, when the gradient is partial
 * along no other axis.
 */
#include <weft/autograd.h>

#include <string.h>

#include "autograd/tape.h"
#include "base/elements/dtype.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/recorder.h"
#include "comm/comm.h"
#include "dtensor/collectives/reduce_gradients.h"
#include "mesh/mesh.h"
#include "tensor/tensor.h"
#include <weft/ops.h>

struct group {
    weft_mesh *mesh;
    int axis;
    weft_dtype dtype;
    weft_device device;
};

/* Along this axis the leaf's gradient hook reduces the gradient, in a bucket with others. */
static bool is_axis_reduced_by_hook(const weft_tensor *leaf, int axis)
{
    return leaf->grad_state && leaf->grad_state->axes >> axis & 1;
}

static bool gradient_belongs_to_group(const weft_tensor *leaf, const struct group *group)
{
    const struct wf_layout *grad = leaf && leaf->grad ? leaf->grad->layout : NULL;

    return grad && !is_axis_reduced_by_hook(leaf, group->axis) && grad->mesh == group->mesh &&
           grad->desc.dtype == group->dtype && grad->desc.device == group->device &&
           grad->placements[group->axis].kind == WEFT_KIND_PARTIAL &&
           leaf->layout->placements[group->axis].kind == WEFT_KIND_REPLICATE;
}

/* Where a gradient lies in the buffer: multiples of a cache line. */
static size_t padded_gradient_bytes(const weft_tensor *grad)
{
    size_t bytes = (size_t)grad->layout->desc.numel * wf_dtypes[grad->layout->desc.dtype].size;

    return (bytes + 63) & ~(size_t)63;
}

static void all_reduce_block(struct wf_block *block, size_t bytes, const struct group *group)
{
    struct wf_coll coll = {
        .kind = WEFT_COLL_ALL_REDUCE,
        .comm = group->device == WEFT_META ? NULL : wf_mesh_axis_comm(group->mesh, group->axis),
        .device = group->device,
        .dtype = group->dtype,
        .reduce = WEFT_SUM,
        .count = bytes / wf_dtypes[group->dtype].size,
        .send = block->data,
        .recv = block->data,
        .coalesced = true};

    if (weft_mesh_axis_size(group->mesh, group->axis) == 1) return;
    if (group->device == WEFT_META)
        wf_comm_report_simulated(&coll, weft_mesh_axis_name(group->mesh, group->axis),
                                 weft_mesh_axis_size(group->mesh, group->axis),
                                 weft_mesh_coordinate(group->mesh, group->axis));
    else if (coll.comm)
        wf_comm_run(&coll);
}

/* The leaf's gradient becomes a view of the buffer, no longer partial on the group's axis. */
static void set_gradient_to_block_view(weft_tensor *leaf, struct wf_block *block, void *data,
                                       int axis)
{
    weft_placement placements[WEFT_MAX_AXES];
    weft_scope *scope = weft_scope_open();
    struct wf_layout *layout;
    weft_tensor *grad;

    memcpy(placements, leaf->grad->layout->placements, sizeof placements);
    placements[axis] = weft_replicate();
    layout = wf_layout_with_placements(leaf->grad->layout, placements);
    grad = wf_tensor_new(layout, wf_block_retain(block), data, "reduce_gradients");
    wf_layout_release(layout);
    weft_release(leaf->grad);
    leaf->grad = weft_retain(grad);
    weft_scope_close(scope);
}

/* Give each gradient of the group its offset in the buffer. */
static void pack_gradients(struct wf_block *block, weft_tensor *const *leaves, int n,
                           const struct group *group)
{
    char *at = block->data;

    wf_device_zero(group->device, at, (size_t)block->bytes);
    for (int i = 0; i < n; i++) {
        if (!gradient_belongs_to_group(leaves[i], group)) continue;
        wf_device_copy(group->device, at, leaves[i]->grad->data,
                       (size_t)leaves[i]->grad->layout->desc.numel * wf_dtypes[group->dtype].size);
        at += padded_gradient_bytes(leaves[i]->grad);
    }
}

static weft_status reduce_gradient_group(weft_tensor *const *leaves, int n,
                                         const struct group *group)
{
    bool meta = group->device == WEFT_META;
    struct wf_block *block;
    size_t total = 0, at = 0;

    for (int i = 0; i < n; i++) {
        if (!gradient_belongs_to_group(leaves[i], group)) continue;
        WF_TRY(wf_leaf_unshare_grad(leaves[i]));
        total += padded_gradient_bytes(leaves[i]->grad);
    }
    block = wf_block_new_on(group->device, total, WF_MEM_COMM);
    if (!block) WF_DIE("reduce gradients: %s", weft_error_message()); /* the others go on */
    if (!meta) pack_gradients(block, leaves, n, group);
    all_reduce_block(block, total, group);
    wf_block_recategorize(block, WF_MEM_GRADIENTS);
    for (int i = 0; i < n; i++) {
        if (!gradient_belongs_to_group(leaves[i], group)) continue;
        size_t bytes = padded_gradient_bytes(leaves[i]->grad);

        set_gradient_to_block_view(leaves[i], block, meta ? NULL : (char *)block->data + at,
                                   group->axis);
        at += bytes;
    }
    wf_block_release(block);
    return WEFT_OK;
}

/* The group of the first axis along which a leaf's gradient is partial; false when there is none.
 * The gradient of a leaf that is itself partial may stay so. */
static bool find_reduce_group(struct group *group, const weft_tensor *leaf)
{
    const struct wf_layout *grad = leaf && leaf->grad ? leaf->grad->layout : NULL;

    if (!grad || !grad->partial) return false;
    *group =
        (struct group){grad->mesh, 0, (weft_dtype)grad->desc.dtype, (weft_device)grad->desc.device};
    while (group->axis < grad->n_axes && !gradient_belongs_to_group(leaf, group)) group->axis++;
    return group->axis < grad->n_axes;
}

weft_status wf_reduce_partial_gradients(weft_tensor *const *leaves, int n)
{
    struct group group;

    if (wf_recorder || wf_others_may_record)
        return WEFT_OK; /* each where it is asked for, by an op that a list can have */
    for (int i = 0; i < n; i++)
        while (find_reduce_group(&group, leaves[i]))
            WF_TRY(reduce_gradient_group(leaves, n, &group));
    return WEFT_OK;
}

weft_status weft_reduce_gradients(weft_tensor *const *leaves, int n)
{
    WF_NEED(leaves || n <= 0, WEFT_ERR_ARG, "reduce gradients: %d leaves, but no list of them", n);
    for (int i = 0; i < n; i++) WF_TRY(wf_tensor_check_alive(leaves[i], "reduce gradients"));
    WF_TRY(wf_reduce_partial_gradients(leaves, n));
    for (int i = 0; i < n; i++) {
        struct wf_grad_state *state = leaves[i] ? leaves[i]->grad_state : NULL;

        if (state) WF_TRY(state->hook->reduce(state->hook));
    }
    return WEFT_OK;
}
