/*
 * joined_placements.c: the placements of a parameter over the joined mesh: those that it had
 * before, and sharding over the replicas' axes.
 */
#include "data_parallel/data_parallel.h"

#include <string.h>

#include "base/error.h"
#include "placement/shard.h"

int wf_layout_axis_in_mesh(const weft_mesh *both, const struct wf_layout *layout, int axis)
{
    return weft_mesh_axis(both, weft_mesh_axis_name(layout->mesh, axis));
}

unsigned wf_layout_axes_in_mesh(const weft_mesh *both, const struct wf_layout *layout)
{
    unsigned axes = 0;

    for (int a = 0; a < layout->n_axes; a++) axes |= 1u << wf_layout_axis_in_mesh(both, layout, a);
    return axes;
}

/* Axes that have another order in the joined mesh still shard a dim in the order from before. */
static weft_status keep_shard_order(weft_placement *to, const weft_mesh *both,
                                    const struct wf_layout *from, int dim)
{
    int axes[WEFT_MAX_AXES], n = wf_axes_sharding_dim(axes, dim, from->placements, from->n_axes);
    bool same = true;

    for (int i = 0; i < n; i++) axes[i] = wf_layout_axis_in_mesh(both, from, axes[i]);
    for (int i = 1; i < n; i++) same &= axes[i - 1] < axes[i];
    for (int i = 0; i < n; i++) {
        WF_NEED(same || weft_is_shard(to[axes[i]]), WEFT_ERR_LAYOUT,
                "data parallel: dim %d has strided shards along mesh axes that the replicas' mesh "
                "has in another order",
                dim);
        to[axes[i]].order = (uint8_t)(same ? 0 : i);
    }
    return WEFT_OK;
}

weft_status wf_placements_in_joined_mesh(weft_placement *to, const weft_mesh *both,
                                         const struct wf_layout *from)
{
    memset(to, 0, WEFT_MAX_AXES * sizeof *to); /* R */
    for (int a = 0; a < from->n_axes; a++)
        to[wf_layout_axis_in_mesh(both, from, a)] = from->placements[a];
    for (int d = 0; d < from->desc.ndim; d++) WF_TRY(keep_shard_order(to, both, from, d));
    return WEFT_OK;
}

/* ---- sharding over the replicas ---- */

/* A dim that is sharded in segments or with strides is not sharded again. */
static bool cannot_shard_dim_again(const struct wf_layout *layout, int dim)
{
    for (int a = 0; a < layout->n_axes; a++) {
        weft_placement p = layout->placements[a];

        if (weft_shards(p, dim) && (p.n_segments || !weft_is_shard(p))) return true;
    }
    return false;
}

/* Whether every rank gets an element of the dim. */
static bool dim_gives_every_rank_some(const struct wf_layout *layout, int dim, unsigned axes)
{
    int64_t ways = 1;

    for (int a = 0; a < layout->n_axes; a++)
        if (axes >> a & 1 || weft_shards(layout->placements[a], dim))
            ways *= weft_mesh_axis_size(layout->mesh, a);
    return layout->desc.global[dim] >= ways;
}

/* The first dim large enough for all ranks, else the first that can be sharded; -1: none. */
static int choose_shard_dim(const struct wf_layout *whole, unsigned axes)
{
    int first = -1;

    for (int dim = 0; dim < whole->desc.ndim; dim++) {
        if (cannot_shard_dim_again(whole, dim)) continue;
        if (dim_gives_every_rank_some(whole, dim, axes)) return dim;
        if (first < 0) first = dim;
    }
    return first;
}

void wf_placements_add_shard_axes(weft_placement *to, const struct wf_layout *whole, unsigned axes)
{
    int before[WEFT_MAX_AXES], n, dim = choose_shard_dim(whole, axes);

    memcpy(to, whole->placements, sizeof whole->placements);
    if (dim < 0) return;
    n = wf_axes_sharding_dim(before, dim, whole->placements, whole->n_axes);
    for (int i = 0; i < n; i++) to[before[i]].order = (uint8_t)i;
    for (int a = 0; a < whole->n_axes; a++) {
        if (!(axes >> a & 1)) continue;
        to[a] = weft_shard(dim);
        to[a].order = (uint8_t)n++;
    }
    wf_placements_renormalize(to, whole->n_axes);
}
