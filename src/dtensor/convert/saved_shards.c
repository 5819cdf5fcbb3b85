/*
 * saved_shards.c: a tensor that every rank of a line holds, cut into a shard per rank for backward
 * and gathered again. Elements are cut in memory order, whatever the dims: all shards have the same
 * size, the last ones padded, so one all-gather of equal shards gives the whole.
 */
#include <string.h>

#include <weft/extend/collective.h>
#include <weft/ops.h>

#include "autograd/tape.h"
#include "base/elements/dtype.h"
#include "base/error.h"

/* The axis of the tensor's own mesh that is this axis of `mesh`; -1: there is none. */
static int axis_in_own_mesh(weft_mesh *own, weft_mesh *mesh, int axis)
{
    if (own == mesh) return axis;
    if (weft_mesh_root(own) != weft_mesh_root(mesh)) return -1;
    return weft_mesh_axis(own, weft_mesh_axis_name(mesh, axis));
}

/* All ranks along an axis hold the same elements. A plain tensor counts as replicated: who opened
 * the scope has said so. */
static bool is_same_along_axis(const struct wf_layout *l, weft_mesh *mesh, int axis)
{
    weft_mesh *own = l->mesh ? l->mesh : l->grad_types.mesh;
    int a = own ? axis_in_own_mesh(own, mesh, axis) : -1;
    uint8_t type;

    if (!own) return true;
    if (a < 0) return !l->mesh;
    if (l->mesh) return weft_is_replicate(l->placements[a]);
    type = l->grad_types.axis[a].kind;
    return type == WF_TYPE_NONE || type == WF_TYPE_I || type == WF_TYPE_R;
}

/* The innermost axis to cut along; -1: none. */
static int find_axis_to_shard(const struct wf_layout *l, weft_mesh *mesh)
{
    int axis = weft_mesh_ndim(mesh) - 1;

    while (axis >= 0 &&
           (weft_mesh_axis_size(mesh, axis) == 1 || !is_same_along_axis(l, mesh, axis)))
        axis--;
    return axis;
}

/* Saving shards frees nothing: a module keeps the tensor anyway, or a shard would be as large. */
static bool keep_unsharded(const weft_tensor *t, int64_t ways)
{
    bool leaf = t->requires_grad && !t->node;

    return leaf || t->block->category == WF_MEM_WEIGHTS ||
           !weft_dtype_is_float((weft_dtype)t->layout->desc.dtype) || t->layout->desc.numel < ways;
}

/* A plain tensor with `count` elements of t's dtype, undefined. */
static weft_tensor *new_shard_tensor(const weft_tensor *t, int64_t count)
{
    struct wf_layout *layout = wf_layout_on_device(
        wf_layout_new(NULL, NULL, (weft_dtype)t->layout->desc.dtype, &count, NULL, 1),
        (weft_device)t->layout->desc.device);
    weft_tensor *shard = wf_tensor_new_empty(layout, WF_MEM_ACTIVATIONS, "saved shard");

    wf_layout_release(layout);
    return shard;
}

static void copy_own_shard(weft_tensor *shard, const weft_tensor *t, int64_t rank)
{
    int64_t size = (int64_t)wf_dtypes[t->layout->desc.dtype].size;
    int64_t bytes = shard->layout->desc.numel * size, first = rank * bytes;
    int64_t there = t->layout->desc.numel * size - first;

    if (there < 0) there = 0;
    if (there > bytes) there = bytes;
    wf_wait_ready(t);
    wf_device_copy(wf_device_of(t), shard->data, (const char *)t->data + first, (size_t)there);
    wf_device_zero(wf_device_of(t), (char *)shard->data + there, (size_t)(bytes - there));
}

weft_tensor *wf_saved_tensor_to_shard(weft_tensor *t, weft_mesh *mesh, struct wf_layout **whole)
{
    int axis = weft_mesh_is_member(mesh) ? find_axis_to_shard(t->layout, mesh) : -1;
    int64_t ways = axis < 0 ? 0 : weft_mesh_axis_size(mesh, axis);
    weft_tensor *shard;

    if (axis < 0 || keep_unsharded(t, ways)) return NULL;
    wf_no_grad_depth++;
    t = weft_contiguous(t);
    wf_no_grad_depth--;
    shard = t ? new_shard_tensor(t, (t->layout->desc.numel + ways - 1) / ways) : NULL;
    /* the other ranks will gather it */
    if (!shard)
        WF_DIE("no memory for a shard of a tensor saved for backward: %s", weft_error_message());
    if (!wf_is_meta(t)) copy_own_shard(shard, t, weft_mesh_coordinate(mesh, axis));
    *whole = t->layout;
    return shard;
}

weft_tensor *wf_saved_tensor_from_shards(weft_tensor *shard, weft_mesh *mesh,
                                         struct wf_layout *whole)
{
    weft_tensor *all = weft_mesh_all_gather(shard, 0, NULL, mesh, find_axis_to_shard(whole, mesh));

    return all ? wf_tensor_new(whole, wf_block_retain(all->block), all->data, "saved shards")
               : NULL;
}
