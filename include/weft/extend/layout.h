/*
 * layout.h: layouts on paper: a shape, a mesh and placements without elements, and what each rank
 * would hold. Integers only: no function here but weft_global_shape communicates, and a mesh made
 * by weft_mesh_new_fake will do. Functions that do not return a status need a handle: no layout is
 * NULL.
 */
#pragma once

#include <stddef.h>

#include <weft/placement.h>
#include <weft/types.h>

/**
 * A value: everything that says which rank holds which elements of a tensor. The mesh is borrowed.
 * Fill it in with weft_layout_make or weft_layout_of, which write the placements in normal form
 * (dims counted from the front, segments in lowest terms, no turns where they are left to right).
 */
typedef struct weft_layout {
    weft_mesh *mesh;
    int n_axes, ndim;
    weft_placement placements[WEFT_MAX_AXES];
    int64_t shape[WEFT_MAX_DIMS]; /* of the whole tensor */
    int64_t stride[WEFT_MAX_DIMS];
} weft_layout;

/** A box of elements of the whole tensor. */
typedef struct weft_chunk {
    int64_t offset[WEFT_MAX_DIMS], size[WEFT_MAX_DIMS];
} weft_chunk;

/** Which axes cut a dim, in the order in which they do. */
typedef struct weft_shard_order {
    int dim, n_axes;
    int axes[WEFT_MAX_AXES];
} weft_shard_order;

/* ---- making and comparing ---- */

/**
 * The layout of a row-major tensor of this shape.
 *
 * ranks: any; local
 * fails: WEFT_ERR_LAYOUT unless there is one placement per mesh axis, and as
 *        weft_distribute_tensor; partial results are fine. `out` is unchanged then
 */
WEFT_API weft_status weft_layout_make(weft_layout *out, weft_mesh *mesh,
                                      const weft_placement *placements, int n_placements,
                                      const int64_t *shape, int ndim);

/** The layout of a distributed tensor. ranks: any; local. fails: WEFT_ERR_ARG for a plain one */
WEFT_API weft_status weft_layout_of(weft_layout *out, const weft_tensor *t);

/**
 * The layout of which every rank holds `local_shape`: each sharded dim times its axes, strides
 * wider than the dim's grown alike. `local_stride` NULL: row-major.
 *
 * ranks: any; local
 * fails: as weft_layout_make
 */
WEFT_API weft_status weft_layout_of_even(weft_layout *out, weft_mesh *mesh,
                                         const weft_placement *placements, int n_placements,
                                         const int64_t *local_shape, const int64_t *local_stride,
                                         int ndim);

/**
 * The global shape of shards of any sizes: along each dim, the sum of the shards' sizes.
 *
 * ranks: collective over all axes of the mesh; a rank gives the shape of its own shard
 * fails: WEFT_ERR_LAYOUT unless there is one placement per mesh axis; WEFT_ERR_SHAPE, on all ranks,
 *        where shards do not fit together
 */
WEFT_API weft_status weft_global_shape(int64_t *shape, weft_mesh *mesh,
                                       const weft_placement *placements, int n_placements,
                                       const int64_t *local_shape, int ndim);

/** Same mesh, placements, shape and strides; equal layouts have equal hashes. ranks: any; local */
WEFT_API bool weft_layout_equal(const weft_layout *a, const weft_layout *b);
WEFT_API uint64_t weft_layout_hash(const weft_layout *layout);

/** "[8,16] [S(0),R] on (dp:2, tp:4)"; returns the length as snprintf does. ranks: any; local */
WEFT_API int weft_layout_format(const weft_layout *layout, char *text, size_t bytes);

/* ---- who holds what. `coordinates`: the rank's place on each axis; NULL: this rank's ---- */

/**
 * The shard of one rank: sizes, the strides it has when it lies dense in the whole tensor's order
 * of dims, and the index of its first element (the dim's size where it has none). Any of the three
 * may be NULL. A rank outside the mesh has nothing.
 *
 * ranks: any; local
 */
WEFT_API void weft_layout_shard(const weft_layout *layout, const int *coordinates, int64_t *shape,
                                int64_t *stride, int64_t *offset);

/**
 * The boxes that make up a rank's shard, in the order in which it holds them (of the last dim
 * first): one, or more where a dim is cut in segments or strided. None for an empty shard.
 *
 * ranks: any; local
 * gives: their number; the first `room` are written to `out`
 */
WEFT_API int64_t weft_layout_chunks(const weft_layout *layout, const int *coordinates,
                                    weft_chunk *out, int64_t room);

/**
 * Where element `index` is: the coordinates of a rank that holds it (0 on the axes that do not
 * shard), and its index within that rank's shard.
 *
 * ranks: any; local
 * fails: WEFT_ERR_ARG for an index outside the shape
 */
WEFT_API weft_status weft_layout_find(const weft_layout *layout, const int64_t *index,
                                      int *coordinates, int64_t *local_index);

/* ---- shard order ---- */

/**
 * Let axes cut their dims in another order; one entry per sharded dim, sorted by dim, that names
 * all the axes whose (plain) shards cut it.
 *
 * ranks: any; local
 * fails: WEFT_ERR_LAYOUT naming what is wrong with the order; the layout is unchanged then
 */
WEFT_API weft_status weft_layout_set_order(weft_layout *layout, const weft_shard_order *order,
                                           int count);

/** True when every dim is cut by plain shards left to right, mesh axis after mesh axis; a strided
 *  shard stands for another order (PyTorch: is_default_device_order).
 *  ranks: any; local */
WEFT_API bool weft_layout_has_default_order(const weft_layout *layout);

/** The order of each dim that plain shards cut, sorted by dim; returns their number.
 *  ranks: any; local */
WEFT_API int weft_layout_order(const weft_layout *layout, weft_shard_order out[WEFT_MAX_DIMS]);

/**
 * Write a shard order as strided shards that are applied left to right, and back. Every rank holds
 * the same elements either way.
 *
 * ranks: any; local
 * fails: WEFT_ERR_LAYOUT where there is no such form: strided shards that no order of axes gives,
 *        cuts that are balanced or in segments, or a dim so uneven that the elements would differ;
 *        the layout is unchanged then
 */
WEFT_API weft_status weft_layout_to_strided(weft_layout *layout);
WEFT_API weft_status weft_layout_from_strided(weft_layout *layout);
