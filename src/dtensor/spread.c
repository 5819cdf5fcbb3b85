/*
 * spread.c: how the elements of distribute_tensor reach their ranks. Axes that shard come first, in
 * the order in which they cut, so that less is left to broadcast along the others.
 */
#include "dtensor/spread.h"

#include <string.h>

#include "base/dtype.h"
#include "base/error.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "dtensor/part_copy.h"
#include "mesh/mesh.h"

/* What this rank holds so far: the part that `done` gives it. */
struct piece {
    weft_mesh *mesh;
    int n_axes, ndim;
    weft_dtype dtype;
    size_t element;
    const int64_t *global;
    weft_placement done[WEFT_MAX_AXES]; /* the rest is replicated */
    struct wf_part parts[WEFT_MAX_DIMS];
    const void *data;
    struct wf_block *block; /* of data; NULL: the caller's */
};

static size_t count_of(const struct wf_part *parts, int ndim)
{
    size_t count = 1;

    for (int d = 0; d < ndim; d++) count *= (size_t)parts[d].size;
    return count;
}

static void parts_at(const struct piece *piece, const int *coordinates,
                     const weft_placement *placements, struct wf_part *parts)
{
    for (int d = 0; d < piece->ndim; d++)
        wf_part_of(&parts[d], d, piece->global[d], piece->n_axes, wf_mesh_sizes(piece->mesh),
                   coordinates, placements);
}

/* Peers wait for this rank. */
static struct wf_block *room_for(size_t bytes, enum wf_category category)
{
    struct wf_block *block = wf_block_new(bytes, category);

    if (!block) WF_DIE("distribute_tensor: %s", weft_error_message());
    return block;
}

static void hold(struct piece *piece, struct wf_block *block)
{
    if (piece->block) wf_block_release(piece->block);
    piece->block = block;
    piece->data = block->data;
}

static void broadcast(struct piece *piece, int axis, int source)
{
    size_t count = count_of(piece->parts, piece->ndim);
    struct wf_block *block = room_for(count * piece->element, WF_MEM_ACTIVATIONS);
    struct wf_coll coll = {.kind = WEFT_COLL_BROADCAST,
                           .comm = wf_mesh_comm(piece->mesh, axis),
                           .peer = source,
                           .dtype = piece->dtype,
                           .count = count,
                           .send = piece->data,
                           .recv = block->data};

    wf_comm_run(&coll);
    hold(piece, block);
}

/* The parts of all ranks of the line one after another; only the source needs them. */
static struct wf_block *pack(const struct piece *piece, int axis, size_t *counts,
                             const weft_placement *next, bool fill)
{
    int at[WEFT_MAX_AXES], ways = weft_mesh_axis_size(piece->mesh, axis);
    struct wf_part parts[WEFT_MAX_DIMS];
    struct wf_block *block =
        fill ? room_for(count_of(piece->parts, piece->ndim) * piece->element, WF_MEM_COMM) : NULL;
    char *to = fill ? block->data : NULL;

    memcpy(at, wf_mesh_coordinates(piece->mesh), sizeof at);
    for (int i = 0; i < ways; i++) {
        at[axis] = i;
        parts_at(piece, at, next, parts);
        counts[i] = count_of(parts, piece->ndim);
        if (!fill) continue;
        if (counts[i])
            wf_part_copy(to, parts, piece->data, piece->parts, piece->ndim, piece->element);
        to += counts[i] * piece->element;
    }
    return block;
}

static void scatter(struct piece *piece, int axis, weft_placement placement, int source)
{
    int me = weft_mesh_coordinate(piece->mesh, axis), ways = weft_mesh_axis_size(piece->mesh, axis);
    size_t *counts = wf_malloc((size_t)ways * sizeof *counts);
    struct wf_block *all, *mine;
    weft_placement next[WEFT_MAX_AXES];
    struct wf_coll coll = {.kind = WEFT_COLL_SCATTER, .peer = source, .dtype = piece->dtype};

    memcpy(next, piece->done, sizeof next);
    next[axis] = placement;
    all = pack(piece, axis, counts, next, me == source);
    mine = room_for(counts[me] * piece->element, WF_MEM_ACTIVATIONS);
    coll.comm = wf_mesh_comm(piece->mesh, axis);
    coll.send_counts = counts;
    coll.send = all ? all->data : NULL;
    coll.recv = mine->data;
    wf_comm_run(&coll);
    if (all) wf_block_release(all);
    wf_free(counts);
    memcpy(piece->done, next, sizeof next);
    parts_at(piece, wf_mesh_coordinates(piece->mesh), piece->done, piece->parts);
    hold(piece, mine);
}

/* Axes that cut a dim in the order in which they do, then the others. */
static void deal(struct piece *piece, const weft_placement *placements, int source)
{
    for (int d = 0; d < piece->ndim; d++) {
        int axes[WEFT_MAX_AXES], n = wf_dim_axes(axes, d, piece->n_axes, placements);

        for (int i = 0; i < n; i++)
            if (weft_mesh_axis_size(piece->mesh, axes[i]) > 1)
                scatter(piece, axes[i], placements[axes[i]], source);
    }
    for (int a = 0; a < piece->n_axes; a++)
        if (!wf_is_cut(placements[a]) && weft_mesh_axis_size(piece->mesh, a) > 1)
            broadcast(piece, a, source);
}

static weft_tensor *cut(const struct piece *piece, struct wf_layout *layout,
                        enum wf_category category)
{
    struct wf_part parts[WEFT_MAX_DIMS];
    weft_tensor *t = wf_tensor_empty(layout, category, "distribute_tensor");

    if (!t || layout->desc.numel == 0 || wf_is_meta(t)) return t;
    parts_at(piece, wf_mesh_coordinates(piece->mesh), layout->placements, parts);
    wf_part_copy(t->data, parts, piece->data, piece->parts, piece->ndim, piece->element);
    return t;
}

weft_tensor *wf_spread(weft_tensor *whole, weft_mesh *mesh, const weft_placement *placements,
                       int source)
{
    const struct wf_desc *desc = &whole->layout->desc;
    enum wf_category category = (enum wf_category)whole->block->category;
    struct piece piece = {.mesh = mesh,
                          .n_axes = weft_mesh_ndim(mesh),
                          .ndim = desc->ndim,
                          .dtype = (weft_dtype)desc->dtype,
                          .element = wf_dtypes[desc->dtype].size,
                          .global = desc->global,
                          .data = whole->data};
    bool member = weft_mesh_coordinate(mesh, 0) >= 0, sent;
    struct wf_layout *layout =
        wf_layout_onto(wf_layout_new(mesh, placements, piece.dtype, piece.ndim, piece.global, NULL),
                       weft_tensor_device(whole));
    weft_tensor *t;

    wf_settled(whole);
    parts_at(&piece, wf_mesh_coordinates(mesh), piece.done, piece.parts);
    sent = source >= 0 && member && !wf_is_meta(whole);
    if (sent) deal(&piece, placements, source);
    if (piece.block) {
        wf_block_recategorize(piece.block, category);
        t = wf_tensor_new(layout, piece.block, piece.block->data, "distribute_tensor");
    } else {
        t = cut(&piece, layout, category);
    }
    wf_layout_release(layout);
    return t;
}
