/*
 * scatter_shards.c: how the elements of distribute_tensor reach their ranks. Axes that shard come
 * first, in the order in which they cut, so that less is left to broadcast along the others.
 */
#include "dtensor/convert/scatter_shards.h"

#include <string.h>

#include "base/elements/dtype.h"
#include "base/error.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "mesh/mesh.h"
#include "placement/shard_overlap.h"

/* What this rank holds so far: its shard under the placements `done`. */
struct local_shard {
    weft_mesh *mesh;
    int n_axes, ndim;
    weft_device device;
    weft_dtype dtype;
    size_t element;
    const int64_t *global;
    weft_placement done[WEFT_MAX_AXES]; /* the rest is replicated */
    struct wf_shard shards[WEFT_MAX_DIMS];
    const void *data;
    struct wf_block *block; /* of data; NULL: the caller's */
};

static size_t count_shard_elements(const struct wf_shard *shards, int ndim)
{
    size_t count = 1;

    for (int d = 0; d < ndim; d++) count *= (size_t)shards[d].size;
    return count;
}

static void shards_at_coordinates(const struct local_shard *local_shard, const int *coordinates,
                                  const weft_placement *placements, struct wf_shard *shards)
{
    for (int d = 0; d < local_shard->ndim; d++)
        wf_shard_init(&shards[d], d, local_shard->global[d], wf_mesh_sizes(local_shard->mesh),
                      coordinates, placements, local_shard->n_axes);
}

/* Other ranks are in the collective already: out of memory ends the job. */
static struct wf_block *alloc_block_or_die(const struct local_shard *local_shard, size_t bytes,
                                           enum wf_category category)
{
    struct wf_block *block = wf_block_new_on(local_shard->device, bytes, category);

    if (!block) WF_DIE("distribute_tensor: %s", weft_error_message());
    return block;
}

static void set_local_block(struct local_shard *local_shard, struct wf_block *block)
{
    if (local_shard->block) wf_block_release(local_shard->block);
    local_shard->block = block;
    local_shard->data = block->data;
}

static void broadcast_along_axis(struct local_shard *local_shard, int axis, int source)
{
    size_t count = count_shard_elements(local_shard->shards, local_shard->ndim);
    struct wf_block *block =
        alloc_block_or_die(local_shard, count * local_shard->element, WF_MEM_ACTIVATIONS);
    struct wf_coll coll = {.kind = WEFT_COLL_BROADCAST,
                           .comm = wf_mesh_axis_comm(local_shard->mesh, axis),
                           .peer = source,
                           .device = local_shard->device,
                           .dtype = local_shard->dtype,
                           .count = count,
                           .send = local_shard->data,
                           .recv = block->data};

    wf_comm_run(&coll);
    set_local_block(local_shard, block);
}

/* These elements of what this rank holds. */
static void copy_shard(const struct local_shard *local_shard, void *to,
                       const struct wf_shard *shards)
{
    wf_shard_copy(to, shards, local_shard->data, local_shard->shards, local_shard->ndim,
                  local_shard->element, wf_device_strided_copy_runner(local_shard->device));
}

/* The shards of all ranks of the line, packed; only the source needs them. */
static struct wf_block *pack_shards_of_axis(const struct local_shard *local_shard, int axis,
                                            size_t *counts, const weft_placement *next, bool fill)
{
    int at[WEFT_MAX_AXES], ways = weft_mesh_axis_size(local_shard->mesh, axis);
    struct wf_shard shards[WEFT_MAX_DIMS];
    struct wf_block *block =
        fill ? alloc_block_or_die(local_shard,
                                  count_shard_elements(local_shard->shards, local_shard->ndim) *
                                      local_shard->element,
                                  WF_MEM_COMM)
             : NULL;
    char *to = fill ? block->data : NULL;

    memcpy(at, wf_mesh_coordinates(local_shard->mesh), sizeof at);
    for (int i = 0; i < ways; i++) {
        at[axis] = i;
        shards_at_coordinates(local_shard, at, next, shards);
        counts[i] = count_shard_elements(shards, local_shard->ndim);
        if (!fill) continue;
        if (counts[i]) copy_shard(local_shard, to, shards);
        to += counts[i] * local_shard->element;
    }
    return block;
}

static void scatter_along_axis(struct local_shard *local_shard, int axis, weft_placement placement,
                               int source)
{
    int me = weft_mesh_coordinate(local_shard->mesh, axis),
        ways = weft_mesh_axis_size(local_shard->mesh, axis);
    size_t *counts = wf_malloc((size_t)ways * sizeof *counts);
    struct wf_block *all, *mine;
    weft_placement next[WEFT_MAX_AXES];
    struct wf_coll coll = {.kind = WEFT_COLL_SCATTER,
                           .peer = source,
                           .device = local_shard->device,
                           .dtype = local_shard->dtype};

    memcpy(next, local_shard->done, sizeof next);
    next[axis] = placement;
    all = pack_shards_of_axis(local_shard, axis, counts, next, me == source);
    mine = alloc_block_or_die(local_shard, counts[me] * local_shard->element, WF_MEM_ACTIVATIONS);
    coll.comm = wf_mesh_axis_comm(local_shard->mesh, axis);
    coll.send_counts = counts;
    coll.send = all ? all->data : NULL;
    coll.recv = mine->data;
    wf_comm_run(&coll);
    if (all) wf_block_release(all);
    wf_free(counts);
    memcpy(local_shard->done, next, sizeof next);
    shards_at_coordinates(local_shard, wf_mesh_coordinates(local_shard->mesh), local_shard->done,
                          local_shard->shards);
    set_local_block(local_shard, mine);
}

/* Axes that shard, in the order in which they cut a dim, then the others. */
static void scatter_and_broadcast(struct local_shard *local_shard, const weft_placement *placements,
                                  int source)
{
    for (int d = 0; d < local_shard->ndim; d++) {
        int axes[WEFT_MAX_AXES], n = wf_axes_sharding_dim(axes, d, placements, local_shard->n_axes);

        for (int i = 0; i < n; i++)
            if (weft_mesh_axis_size(local_shard->mesh, axes[i]) > 1)
                scatter_along_axis(local_shard, axes[i], placements[axes[i]], source);
    }
    for (int a = 0; a < local_shard->n_axes; a++)
        if (!wf_is_shard_or_strided(placements[a]) && weft_mesh_axis_size(local_shard->mesh, a) > 1)
            broadcast_along_axis(local_shard, a, source);
}

static weft_tensor *copy_own_shard(const struct local_shard *local_shard, struct wf_layout *layout,
                                   enum wf_category category)
{
    struct wf_shard shards[WEFT_MAX_DIMS];
    weft_tensor *t = wf_tensor_new_empty(layout, category, "distribute_tensor");

    if (!t || layout->desc.numel == 0 || wf_is_meta(t)) return t;
    shards_at_coordinates(local_shard, wf_mesh_coordinates(local_shard->mesh), layout->placements,
                          shards);
    copy_shard(local_shard, t->data, shards);
    return t;
}

weft_tensor *wf_scatter_from_source(weft_tensor *whole, weft_mesh *mesh,
                                    const weft_placement *placements, int source)
{
    const struct wf_tensor_desc *desc = &whole->layout->desc;
    enum wf_category category = (enum wf_category)whole->block->category;
    struct local_shard local_shard = {.mesh = mesh,
                                      .n_axes = weft_mesh_ndim(mesh),
                                      .ndim = desc->ndim,
                                      .device = wf_device_of(whole),
                                      .dtype = (weft_dtype)desc->dtype,
                                      .element = wf_dtypes[desc->dtype].size,
                                      .global = desc->global,
                                      .data = whole->data};
    bool member = weft_mesh_coordinate(mesh, 0) >= 0, sent;
    struct wf_layout *layout =
        wf_layout_on_device(wf_layout_new(mesh, placements, local_shard.dtype, local_shard.global,
                                          NULL, local_shard.ndim),
                            weft_tensor_device(whole));
    weft_tensor *t;

    wf_wait_ready(whole);
    shards_at_coordinates(&local_shard, wf_mesh_coordinates(mesh), local_shard.done,
                          local_shard.shards);
    sent = source >= 0 && member && !wf_is_meta(whole);
    if (sent) scatter_and_broadcast(&local_shard, placements, source);
    if (local_shard.block) {
        wf_block_recategorize(local_shard.block, category);
        t = wf_tensor_new(layout, local_shard.block, local_shard.block->data, "distribute_tensor");
    } else {
        t = copy_own_shard(&local_shard, layout, category);
    }
    wf_layout_release(layout);
    return t;
}
