/* layout_api.c: the functions of weft/extend/layout.h: make and compare layouts, list each rank's
 * shard.
 */
#include <weft/extend/layout.h>

#include <stdio.h>
#include <string.h>

#include "base/elements/numel.h"
#include "base/error.h"
#include "base/hash.h"
#include "placement/layout.h"

/* ---- making ---- */

/* Strides of a dense tensor of this shape whose dims lie in memory in the order of `like`'s. */
static void dense_strides_like(int64_t *stride, const int64_t *shape, const int64_t *like, int ndim)
{
    for (int d = 0; d < ndim; d++) {
        stride[d] = 1;
        for (int e = 0; e < ndim; e++)
            if (shape[e] > 1 && (like[e] < like[d] || (like[e] == like[d] && e > d)))
                stride[d] *= shape[e];
    }
}

static void row_major_strides(int64_t *stride, int ndim, const int64_t *shape)
{
    static const int64_t alike[WEFT_MAX_DIMS];

    dense_strides_like(stride, shape, alike, ndim);
}

weft_status wf_placements_check_count(const weft_mesh *mesh, int n_placements, const char *who)
{
    WF_NEED(mesh, WEFT_ERR_ARG, "%s: no mesh given", who);
    WF_NEED(n_placements == weft_mesh_ndim(mesh), WEFT_ERR_LAYOUT,
            "%s: %d placements for a mesh of %d axes: expected one placement per mesh axis", who,
            n_placements, weft_mesh_ndim(mesh));
    return WEFT_OK;
}

weft_status wf_placements_check_shape(weft_placement *out, const weft_placement *placements,
                                      int n_axes, const int64_t *shape, int ndim, const char *who)
{
    WF_NEED(ndim >= 0 && ndim <= WEFT_MAX_DIMS, WEFT_ERR_SHAPE, "%s: %d dims, not 0 to %d", who,
            ndim, WEFT_MAX_DIMS);
    WF_NEED(shape || ndim == 0, WEFT_ERR_ARG, "%s: no shape of %d dims", who, ndim);
    for (int d = 0; d < ndim; d++)
        WF_NEED(shape[d] >= 0, WEFT_ERR_SHAPE, "%s: dim %d has %lld elements", who, d,
                (long long)shape[d]);
    WF_NEED(wf_shape_numel(shape, ndim) >= 0, WEFT_ERR_SHAPE,
            "%s: more elements in %d dims than can be counted", who, ndim);
    return wf_placements_normalize(out, placements, n_axes, ndim, who);
}

weft_status weft_layout_make(weft_layout *out, weft_mesh *mesh, const weft_placement *placements,
                             int n_placements, const int64_t *shape, int ndim)
{
    weft_layout made = {.mesh = mesh, .n_axes = n_placements, .ndim = ndim};

    WF_NEED(out, WEFT_ERR_ARG, "layout: nothing to write it to");
    WF_TRY(wf_placements_check_count(mesh, n_placements, "layout"));
    WF_TRY(wf_placements_check_shape(made.placements, placements, n_placements, shape, ndim,
                                     "layout"));
    WF_TRY(wf_placements_check_segments(made.placements, n_placements, shape, "layout"));
    for (int d = 0; d < ndim; d++) made.shape[d] = shape[d];
    row_major_strides(made.stride, ndim, shape);
    *out = made;
    return WEFT_OK;
}

/* A dim has become `ways` times as long: the strides of the dims outside it grow. */
static void scale_outer_strides(int64_t *stride, int ndim, int dim, int64_t ways)
{
    int64_t own = stride[dim];

    for (int d = 0; d < ndim; d++)
        if (stride[d] > own || (stride[d] == own && d < dim)) stride[d] *= ways;
}

weft_status weft_layout_of_even(weft_layout *out, weft_mesh *mesh, const weft_placement *placements,
                                int n_placements, const int64_t *local_shape,
                                const int64_t *local_stride, int ndim)
{
    weft_placement normal[WEFT_MAX_AXES];
    int64_t shape[WEFT_MAX_DIMS], stride[WEFT_MAX_DIMS];

    WF_NEED(out, WEFT_ERR_ARG, "layout: nothing to write it to");
    WF_TRY(wf_placements_check_count(mesh, n_placements, "layout"));
    WF_TRY(
        wf_placements_check_shape(normal, placements, n_placements, local_shape, ndim, "layout"));
    row_major_strides(stride, ndim, local_shape);
    for (int d = 0; d < ndim; d++) {
        shape[d] = local_shape[d];
        if (local_stride) stride[d] = local_stride[d];
    }
    for (int a = 0; a < n_placements; a++) {
        int64_t ways = weft_mesh_axis_size(mesh, a);

        if (!wf_is_shard_or_strided(normal[a])) continue;
        shape[normal[a].dim] *= ways;
        scale_outer_strides(stride, ndim, normal[a].dim, ways);
    }
    WF_TRY(weft_layout_make(out, mesh, normal, n_placements, shape, ndim));
    for (int d = 0; d < ndim; d++) out->stride[d] = stride[d];
    return WEFT_OK;
}

/* ---- comparing ---- */

bool weft_layout_equal(const weft_layout *a, const weft_layout *b)
{
    size_t dims = (size_t)WF_HANDLE(a)->ndim * sizeof *a->shape;

    return a->mesh == b->mesh && a->n_axes == b->n_axes && a->ndim == b->ndim &&
           memcmp(a->placements, b->placements, (size_t)a->n_axes * sizeof *a->placements) == 0 &&
           memcmp(a->shape, b->shape, dims) == 0 && memcmp(a->stride, b->stride, dims) == 0;
}

uint64_t weft_layout_hash(const weft_layout *l)
{
    size_t dims = (size_t)WF_HANDLE(l)->ndim * sizeof *l->shape;
    uint64_t hash = wf_hash_mix((uint64_t)l->ndim, weft_mesh_hash(l->mesh));

    hash =
        wf_hash_mix(hash, wf_hash_bytes(l->placements, (size_t)l->n_axes * sizeof *l->placements));
    hash = wf_hash_mix(hash, wf_hash_bytes(l->shape, dims));
    return wf_hash_mix(hash, wf_hash_bytes(l->stride, dims));
}

int weft_layout_format(const weft_layout *l, char *text, size_t bytes)
{
    char shape[WEFT_MAX_DIMS * 21 + 1] = "", placements[WF_PLACEMENTS_TEXT], mesh[256];
    int length = 0;

    for (int d = 0; d < WF_HANDLE(l)->ndim; d++)
        length += snprintf(shape + length, sizeof shape - (size_t)length, "%s%lld", d ? "," : "",
                           (long long)l->shape[d]);
    weft_placements_format(l->placements, l->n_axes, placements, sizeof placements);
    weft_mesh_format(l->mesh, mesh, sizeof mesh);
    return snprintf(text, bytes, "[%s] [%s] on %s", shape, placements, mesh);
}

/* ---- shards of ranks ---- */

static void mesh_sizes_and_coordinates(const weft_layout *l, int *sizes, int *own)
{
    for (int a = 0; a < l->n_axes; a++) {
        sizes[a] = weft_mesh_axis_size(l->mesh, a);
        own[a] = weft_mesh_coordinate(l->mesh, a);
    }
}

static void shards_of_rank(struct wf_shard *shards, const weft_layout *l, const int *coordinates)
{
    int sizes[WEFT_MAX_AXES], own[WEFT_MAX_AXES];

    mesh_sizes_and_coordinates(WF_HANDLE(l), sizes, own);
    for (int d = 0; d < l->ndim; d++)
        wf_shard_init(&shards[d], d, l->shape[d], sizes, coordinates ? coordinates : own,
                      l->placements, l->n_axes);
}

void weft_layout_shard(const weft_layout *layout, const int *coordinates, int64_t *shape,
                       int64_t *stride, int64_t *offset)
{
    struct wf_shard shards[WEFT_MAX_DIMS];
    int64_t sizes[WEFT_MAX_DIMS];

    shards_of_rank(shards, layout, coordinates);
    for (int d = 0; d < WF_HANDLE(layout)->ndim; d++) {
        sizes[d] = shards[d].size;
        if (shape) shape[d] = shards[d].size;
        if (offset) offset[d] = wf_shard_offset(&shards[d]);
    }
    if (stride) dense_strides_like(stride, sizes, layout->stride, layout->ndim);
}

static bool shard_is_nonempty(const weft_layout *l, const struct wf_shard *shards,
                              const int *coordinates)
{
    for (int d = 0; d < l->ndim; d++)
        if (shards[d].size == 0) return false;
    return (coordinates ? coordinates[0] : weft_mesh_coordinate(l->mesh, 0)) >= 0;
}

/* The box at local index `at`; moves `at` to the next one, false behind the last. */
static bool next_chunk(weft_chunk *chunk, int64_t *at, const struct wf_shard *shards, int ndim)
{
    for (int d = 0; d < ndim; d++) {
        struct wf_index_range run = wf_shard_range_at(&shards[d], at[d]);

        chunk->offset[d] = run.offset;
        chunk->size[d] = run.size;
    }
    for (int d = ndim - 1; d >= 0; d--) {
        at[d] += chunk->size[d];
        if (at[d] < shards[d].size) return true;
        at[d] = 0;
    }
    return false;
}

int64_t weft_layout_chunks(const weft_layout *layout, const int *coordinates, weft_chunk *out,
                           int64_t room)
{
    struct wf_shard shards[WEFT_MAX_DIMS];
    int64_t at[WEFT_MAX_DIMS] = {0}, count = 0;
    weft_chunk chunk = {{0}, {0}};
    bool more;

    shards_of_rank(shards, layout, coordinates);
    if (!shard_is_nonempty(layout, shards, coordinates)) return 0;
    do {
        more = next_chunk(&chunk, at, shards, WF_HANDLE(layout)->ndim);
        if (count < room) out[count] = chunk;
        count++;
    } while (more);
    return count;
}

weft_status weft_layout_find(const weft_layout *layout, const int64_t *index, int *coordinates,
                             int64_t *local_index)
{
    int sizes[WEFT_MAX_AXES], own[WEFT_MAX_AXES];

    WF_NEED(layout && index && coordinates && local_index, WEFT_ERR_ARG, "layout find: %s is NULL",
            layout ? "an array" : "the layout");
    for (int d = 0; d < layout->ndim; d++)
        WF_NEED(index[d] >= 0 && index[d] < layout->shape[d], WEFT_ERR_ARG,
                "layout: index %lld of dim %d, which has %lld elements", (long long)index[d], d,
                (long long)layout->shape[d]);
    mesh_sizes_and_coordinates(layout, sizes, own);
    for (int a = 0; a < layout->n_axes; a++) coordinates[a] = 0;
    for (int d = 0; d < layout->ndim; d++)
        local_index[d] = wf_shard_locate_owner(coordinates, index[d], d, layout->shape[d], sizes,
                                               layout->placements, layout->n_axes);
    return WEFT_OK;
}
