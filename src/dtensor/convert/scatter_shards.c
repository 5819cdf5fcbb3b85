/*
 * scatter_shards.c: how the elements of distribute_tensor reach their ranks. Axes that shard come
 * first, in the order in which they cut, so that less is left to broadcast along the others.
 */
#include "dtensor/convert/scatter_shards.h"

#include <string.h>

#include "base/dtype.h"
#include "base/error.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "dtensor/convert/shard_copy.h"
#include "mesh/mesh.h"

/* What this rank holds so far: the part that `done` gives it. */
struct held_shard {
    weft_mesh *mesh;
    int n_axes, ndim;
    weft_dtype dtype;
    size_t element;
    const int64_t *global;
    weft_placement done[WEFT_MAX_AXES]; /* the rest is replicated */
    struct wf_shard parts[WEFT_MAX_DIMS];
    const void *data;
    struct wf_block *block; /* of data; NULL: the caller's */
};

static size_t count_shard_elements(const struct wf_shard *parts, int ndim)
{
    size_t count = 1;

    for (int d = 0; d < ndim; d++) count *= (size_t)parts[d].size;
    return count;
}

static void shards_at_coordinates(const struct held_shard *held_shard, const int *coordinates,
                                  const weft_placement *placements, struct wf_shard *parts)
{
    for (int d = 0; d < held_shard->ndim; d++)
        wf_shard_init(&parts[d], d, held_shard->global[d], held_shard->n_axes,
                      wf_mesh_sizes(held_shard->mesh), coordinates, placements);
}

/* Peers wait for this rank. */
static struct wf_block *alloc_block_or_die(size_t bytes, enum wf_category category)
{
    struct wf_block *block = wf_block_new(bytes, category);

    if (!block) WF_DIE("distribute_tensor: %s", weft_error_message());
    return block;
}

static void set_held_block(struct held_shard *held_shard, struct wf_block *block)
{
    if (held_shard->block) wf_block_release(held_shard->block);
    held_shard->block = block;
    held_shard->data = block->data;
}

static void broadcast_along_axis(struct held_shard *held_shard, int axis, int source)
{
    size_t count = count_shard_elements(held_shard->parts, held_shard->ndim);
    struct wf_block *block = alloc_block_or_die(count * held_shard->element, WF_MEM_ACTIVATIONS);
    struct wf_coll coll = {.kind = WEFT_COLL_BROADCAST,
                           .comm = wf_mesh_axis_comm(held_shard->mesh, axis),
                           .peer = source,
                           .dtype = held_shard->dtype,
                           .count = count,
                           .send = held_shard->data,
                           .recv = block->data};

    wf_comm_run(&coll);
    set_held_block(held_shard, block);
}

/* The parts of all ranks of the line one after another; only the source needs them. */
static struct wf_block *pack_shards_of_axis(const struct held_shard *held_shard, int axis,
                                            size_t *counts, const weft_placement *next, bool fill)
{
    int at[WEFT_MAX_AXES], ways = weft_mesh_axis_size(held_shard->mesh, axis);
    struct wf_shard parts[WEFT_MAX_DIMS];
    struct wf_block *block =
        fill ? alloc_block_or_die(count_shard_elements(held_shard->parts, held_shard->ndim) *
                                      held_shard->element,
                                  WF_MEM_COMM)
             : NULL;
    char *to = fill ? block->data : NULL;

    memcpy(at, wf_mesh_coordinates(held_shard->mesh), sizeof at);
    for (int i = 0; i < ways; i++) {
        at[axis] = i;
        shards_at_coordinates(held_shard, at, next, parts);
        counts[i] = count_shard_elements(parts, held_shard->ndim);
        if (!fill) continue;
        if (counts[i])
            wf_shard_copy(to, parts, held_shard->data, held_shard->parts, held_shard->ndim,
                          held_shard->element);
        to += counts[i] * held_shard->element;
    }
    return block;
}

static void scatter_along_axis(struct held_shard *held_shard, int axis, weft_placement placement,
                               int source)
{
    int me = weft_mesh_coordinate(held_shard->mesh, axis),
        ways = weft_mesh_axis_size(held_shard->mesh, axis);
    size_t *counts = wf_malloc((size_t)ways * sizeof *counts);
    struct wf_block *all, *mine;
    weft_placement next[WEFT_MAX_AXES];
    struct wf_coll coll = {.kind = WEFT_COLL_SCATTER, .peer = source, .dtype = held_shard->dtype};

    memcpy(next, held_shard->done, sizeof next);
    next[axis] = placement;
    all = pack_shards_of_axis(held_shard, axis, counts, next, me == source);
    mine = alloc_block_or_die(counts[me] * held_shard->element, WF_MEM_ACTIVATIONS);
    coll.comm = wf_mesh_axis_comm(held_shard->mesh, axis);
    coll.send_counts = counts;
    coll.send = all ? all->data : NULL;
    coll.recv = mine->data;
    wf_comm_run(&coll);
    if (all) wf_block_release(all);
    wf_free(counts);
    memcpy(held_shard->done, next, sizeof next);
    shards_at_coordinates(held_shard, wf_mesh_coordinates(held_shard->mesh), held_shard->done,
                          held_shard->parts);
    set_held_block(held_shard, mine);
}

/* Axes that cut a dim in the order in which they do, then the others. */
static void scatter_and_broadcast(struct held_shard *held_shard, const weft_placement *placements,
                                  int source)
{
    for (int d = 0; d < held_shard->ndim; d++) {
        int axes[WEFT_MAX_AXES], n = wf_axes_sharding_dim(axes, d, held_shard->n_axes, placements);

        for (int i = 0; i < n; i++)
            if (weft_mesh_axis_size(held_shard->mesh, axes[i]) > 1)
                scatter_along_axis(held_shard, axes[i], placements[axes[i]], source);
    }
    for (int a = 0; a < held_shard->n_axes; a++)
        if (!wf_is_shard_or_strided(placements[a]) && weft_mesh_axis_size(held_shard->mesh, a) > 1)
            broadcast_along_axis(held_shard, a, source);
}

static weft_tensor *copy_own_shard(const struct held_shard *held_shard, struct wf_layout *layout,
                                   enum wf_category category)
{
    struct wf_shard parts[WEFT_MAX_DIMS];
    weft_tensor *t = wf_tensor_new_empty(layout, category, "distribute_tensor");

    if (!t || layout->desc.numel == 0 || wf_is_meta(t)) return t;
    shards_at_coordinates(held_shard, wf_mesh_coordinates(held_shard->mesh), layout->placements,
                          parts);
    wf_shard_copy(t->data, parts, held_shard->data, held_shard->parts, held_shard->ndim,
                  held_shard->element);
    return t;
}

weft_tensor *wf_scatter_from_source(weft_tensor *whole, weft_mesh *mesh,
                                    const weft_placement *placements, int source)
{
    const struct wf_tensor_desc *desc = &whole->layout->desc;
    enum wf_category category = (enum wf_category)whole->block->category;
    struct held_shard held_shard = {.mesh = mesh,
                                    .n_axes = weft_mesh_ndim(mesh),
                                    .ndim = desc->ndim,
                                    .dtype = (weft_dtype)desc->dtype,
                                    .element = wf_dtypes[desc->dtype].size,
                                    .global = desc->global,
                                    .data = whole->data};
    bool member = weft_mesh_coordinate(mesh, 0) >= 0, sent;
    struct wf_layout *layout = wf_layout_on_device(
        wf_layout_new(mesh, placements, held_shard.dtype, held_shard.ndim, held_shard.global, NULL),
        weft_tensor_device(whole));
    weft_tensor *t;

    wf_wait_ready(whole);
    shards_at_coordinates(&held_shard, wf_mesh_coordinates(mesh), held_shard.done,
                          held_shard.parts);
    sent = source >= 0 && member && !wf_is_meta(whole);
    if (sent) scatter_and_broadcast(&held_shard, placements, source);
    if (held_shard.block) {
        wf_block_recategorize(held_shard.block, category);
        t = wf_tensor_new(layout, held_shard.block, held_shard.block->data, "distribute_tensor");
    } else {
        t = copy_own_shard(&held_shard, layout, category);
    }
    wf_layout_release(layout);
    return t;
}
