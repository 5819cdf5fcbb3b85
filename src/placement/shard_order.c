/*
 * shard_order.c: the order in which axes cut a dim, as turns in the placements, as lists of axes,
 * and as strided shards.
 *
 * Cutting first along a later axis b and then along an axis a is cutting left to right where the
 * cut along a is strided by the size of b: rank i of a holds shard i of each of b's shards. So an
 * axis has for factor the product of the axes behind it whose turn comes before its own.
 */
#include <weft/extend/layout.h>

#include <string.h>

#include "base/error.h"
#include "placement/layout.h"

/* ---- lists of axes ---- */

int weft_layout_order(const weft_layout *l, weft_shard_order out[WEFT_MAX_DIMS])
{
    int count = 0;

    for (int d = 0; d < WF_HANDLE(l)->ndim; d++) {
        weft_shard_order *entry = &out[count];
        bool plain = true;

        entry->dim = d;
        entry->n_axes = wf_axes_sharding_dim(entry->axes, d, l->placements, l->n_axes);
        for (int i = 0; i < entry->n_axes; i++)
            plain &= weft_is_shard(l->placements[entry->axes[i]]);
        count += plain && entry->n_axes > 0;
    }
    return count;
}

bool weft_layout_has_default_order(const weft_layout *l)
{
    for (int a = 0; a < WF_HANDLE(l)->n_axes; a++)
        if (l->placements[a].order != 0 || l->placements[a].kind == WEFT_KIND_STRIDED) return false;
    return true;
}

static weft_status check_entry_axes(const weft_layout *l, const weft_shard_order *entry)
{
    for (int i = 0; i < entry->n_axes; i++) {
        int axis = entry->axes[i];

        WF_NEED(axis >= 0 && axis < l->n_axes, WEFT_ERR_LAYOUT,
                "shard order: mesh axis %d for dim %d, but the mesh has %d axes", axis, entry->dim,
                l->n_axes);
        for (int j = 0; j < i; j++)
            WF_NEED(entry->axes[j] != axis, WEFT_ERR_LAYOUT,
                    "shard order: mesh axis %d stands twice for dim %d", axis, entry->dim);
        WF_NEED(weft_is_shard(l->placements[axis]) && l->placements[axis].dim == entry->dim,
                WEFT_ERR_LAYOUT,
                "shard order does not match the placements: mesh axis %d does not shard dim %d",
                axis, entry->dim);
    }
    return WEFT_OK;
}

static weft_status check_order_entry(const weft_layout *l, const weft_shard_order *order, int i)
{
    WF_NEED(order[i].dim >= 0 && order[i].dim < l->ndim, WEFT_ERR_LAYOUT,
            "shard order: entry %d is for dim %d, but dims are 0 to %d", i, order[i].dim,
            l->ndim - 1);
    WF_NEED(i == 0 || order[i - 1].dim < order[i].dim, WEFT_ERR_LAYOUT,
            "shard order: entries are not sorted by dim: %d before %d", order[i - 1].dim,
            order[i].dim);
    WF_NEED(order[i].n_axes > 0, WEFT_ERR_LAYOUT, "shard order: no mesh axes for dim %d",
            order[i].dim);
    WF_NEED(order[i].n_axes <= WEFT_MAX_AXES, WEFT_ERR_LAYOUT,
            "shard order: %d mesh axes for dim %d", order[i].n_axes, order[i].dim);
    return check_entry_axes(l, &order[i]);
}

static bool order_names_axis(const weft_shard_order *order, int count, int dim, int axis)
{
    for (int i = 0; i < count; i++)
        for (int k = 0; order[i].dim == dim && k < order[i].n_axes; k++)
            if (order[i].axes[k] == axis) return true;
    return false;
}

weft_status weft_layout_set_order(weft_layout *layout, const weft_shard_order *order, int count)
{
    weft_layout with;

    WF_NEED(layout && (order || count <= 0), WEFT_ERR_ARG, "shard order: no %s",
            layout ? "order" : "layout");
    with = *layout;
    for (int i = 0; i < count; i++) WF_TRY(check_order_entry(layout, order, i));
    for (int a = 0; a < layout->n_axes; a++) {
        const weft_placement *p = &layout->placements[a];

        WF_NEED(!weft_is_shard(*p) || order_names_axis(order, count, p->dim, a), WEFT_ERR_LAYOUT,
                "shard order does not match the placements: mesh axis %d shards dim %d and is not "
                "named",
                a, p->dim);
    }
    for (int i = 0; i < count; i++)
        for (int turn = 0; turn < order[i].n_axes; turn++)
            with.placements[order[i].axes[turn]].order = (uint8_t)turn;
    WF_TRY(wf_placements_normalize(with.placements, with.placements, with.n_axes, with.ndim,
                                   "shard order"));
    *layout = with;
    return WEFT_OK;
}

/* ---- strided shards ---- */

/* The axes that cut a dim, left to right. */
static int axes_sharding(int *axes, const weft_layout *l, int dim)
{
    int n = 0;

    for (int a = 0; a < l->n_axes; a++)
        if (weft_shards(l->placements[a], dim)) axes[n++] = a;
    return n;
}

static bool next_coordinates(int *coordinates, const int *axes, int n, const int *sizes)
{
    for (int i = n - 1; i >= 0; i--) {
        if (++coordinates[axes[i]] < sizes[axes[i]]) return true;
        coordinates[axes[i]] = 0;
    }
    return false;
}

/* Every rank holds the same elements of the dim by both. */
static weft_status check_same_elements(const weft_layout *a, const weft_layout *b, int dim)
{
    int axes[WEFT_MAX_AXES], n = axes_sharding(axes, a, dim);
    int sizes[WEFT_MAX_AXES], coordinates[WEFT_MAX_AXES] = {0};

    for (int i = 0; i < a->n_axes; i++) sizes[i] = weft_mesh_axis_size(a->mesh, i);
    do {
        struct wf_shard one, other;

        wf_shard_init(&one, dim, a->shape[dim], sizes, coordinates, a->placements, a->n_axes);
        wf_shard_init(&other, dim, b->shape[dim], sizes, coordinates, b->placements, b->n_axes);
        WF_NEED(wf_shards_equal(&one, &other), WEFT_ERR_LAYOUT,
                "dim %d of %lld elements is cut unevenly: as strided shards and by shard order its "
                "shards differ",
                dim, (long long)a->shape[dim]);
    } while (next_coordinates(coordinates, axes, n, sizes));
    return WEFT_OK;
}

static weft_status dim_to_strided(weft_layout *l, int dim)
{
    int turns[WEFT_MAX_AXES], n = wf_axes_sharding_dim(turns, dim, l->placements, l->n_axes);

    for (int i = 0; i < n; i++) {
        weft_placement *p = &l->placements[turns[i]];
        int64_t factor = 1;

        for (int before = 0; before < i; before++)
            if (turns[before] > turns[i]) factor *= weft_mesh_axis_size(l->mesh, turns[before]);
        WF_NEED(factor == 1 || (p->cut == WEFT_CUT_CHUNKS && p->n_segments == 0), WEFT_ERR_LAYOUT,
                "mesh axis %d shards dim %d balanced or in segments, which strided shards are not",
                turns[i], dim);
        WF_NEED(factor <= INT32_MAX, WEFT_ERR_LAYOUT, "mesh axis %d would be strided by %lld",
                turns[i], (long long)factor);
        if (factor > 1) *p = weft_strided_shard(dim, (int)factor);
    }
    for (int i = 0; i < n; i++) l->placements[turns[i]].order = 0;
    return WEFT_OK;
}

static bool has_explicit_order(const weft_layout *l, int dim)
{
    for (int a = 0; a < l->n_axes; a++)
        if (weft_shards(l->placements[a], dim) && l->placements[a].order) return true;
    return false;
}

weft_status weft_layout_to_strided(weft_layout *layout)
{
    weft_layout with;

    WF_NEED(layout, WEFT_ERR_ARG, "layout to strided: no layout");
    with = *layout;
    for (int d = 0; d < layout->ndim; d++) {
        if (!has_explicit_order(layout, d)) continue;
        WF_TRY(dim_to_strided(&with, d));
        WF_TRY(check_same_elements(layout, &with, d));
    }
    *layout = with;
    return WEFT_OK;
}

/* Put an axis among the turns of those behind it, after axes whose sizes multiply to its factor. */
static bool insert_by_stride_factor(int *turns, int n, int axis, int64_t factor,
                                    const weft_mesh *mesh)
{
    int64_t product = 1;
    int at = 0;

    while (product < factor && at < n) product *= weft_mesh_axis_size(mesh, turns[at++]);
    if (product != factor) return false;
    memmove(turns + at + 1, turns + at, (size_t)(n - at) * sizeof *turns);
    turns[at] = axis;
    return true;
}

static weft_status dim_from_strided(weft_layout *l, int dim)
{
    int axes[WEFT_MAX_AXES], turns[WEFT_MAX_AXES], n = axes_sharding(axes, l, dim);

    for (int i = n - 1; i >= 0; i--) {
        const weft_placement *p = &l->placements[axes[i]];
        int64_t factor = p->kind == WEFT_KIND_STRIDED ? p->factor : 1;

        WF_NEED(insert_by_stride_factor(turns, n - 1 - i, axes[i], factor, l->mesh),
                WEFT_ERR_LAYOUT,
                "SS(%d,%lld) on mesh axis %d is no shard order: no axes behind it that shard dim "
                "%d have %lld ranks together",
                dim, (long long)factor, axes[i], dim, (long long)factor);
    }
    for (int turn = 0; turn < n; turn++) {
        weft_placement *p = &l->placements[turns[turn]];

        if (p->kind == WEFT_KIND_STRIDED) *p = weft_shard(dim);
        p->order = (uint8_t)turn;
    }
    return WEFT_OK;
}

static bool has_strided(const weft_layout *l, int dim)
{
    for (int a = 0; a < l->n_axes; a++)
        if (weft_shards(l->placements[a], dim) && l->placements[a].kind == WEFT_KIND_STRIDED)
            return true;
    return false;
}

weft_status weft_layout_from_strided(weft_layout *layout)
{
    weft_layout with;

    WF_NEED(layout, WEFT_ERR_ARG, "layout from strided: no layout");
    with = *layout;
    for (int d = 0; d < layout->ndim; d++) {
        if (!has_strided(layout, d)) continue;
        WF_TRY(dim_from_strided(&with, d));
        WF_TRY(check_same_elements(layout, &with, d));
    }
    WF_TRY(wf_placements_normalize(with.placements, with.placements, with.n_axes, with.ndim,
                                   "shard order"));
    *layout = with;
    return WEFT_OK;
}
