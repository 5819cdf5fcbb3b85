/* global_shape.c: the global shape that shards of any sizes make up together. */
#include <weft/extend/layout.h>

#include "base/error.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "mesh/mesh.h"
#include "placement/layout.h"

/* The metadata that each rank sends to the others. */
struct rank_shape {
    int64_t ndim, shape[WEFT_MAX_DIMS];
};

/* The metadata of all ranks of the mesh, the last axis varying fastest. gives: wf_free */
static struct rank_shape *all_gather_shapes(weft_mesh *mesh, const struct rank_shape *own)
{
    struct rank_shape *all = wf_malloc(sizeof *all);
    size_t count = 1;

    *all = *own;
    for (int a = weft_mesh_ndim(mesh) - 1; a >= 0; a--) {
        size_t ways = (size_t)weft_mesh_axis_size(mesh, a);
        struct rank_shape *line;

        if (ways == 1) continue;
        line = wf_malloc(ways * count * sizeof *line);
        wf_comm_allgather_bytes(wf_mesh_axis_comm(mesh, a), all, line, count * sizeof *line);
        wf_free(all);
        all = line;
        count *= ways;
    }
    return all;
}

/* The rank in the mesh with rank `r`'s coordinates on the axes that shard `dim`, and coordinate 0
 * on the others. */
static int first_rank_with_same_shard(const weft_mesh *mesh, const weft_placement *placements,
                                      int dim, int r)
{
    int number = 0, step = 1;

    for (int a = weft_mesh_ndim(mesh) - 1; a >= 0; a--) {
        int ways = weft_mesh_axis_size(mesh, a);

        if (weft_shards(placements[a], dim)) number += r % ways * step;
        r /= ways;
        step *= ways;
    }
    return number;
}

static weft_status sum_shard_sizes(int64_t *shape, const weft_mesh *mesh,
                                   const weft_placement *placements, const struct rank_shape *all)
{
    for (int r = 0; r < weft_mesh_size(mesh); r++)
        for (int d = 0; d < all[0].ndim; d++) {
            int same = first_rank_with_same_shard(mesh, placements, d, r);

            if (same == r) shape[d] += all[r].shape[d];
            WF_NEED(all[r].shape[d] == all[same].shape[d], WEFT_ERR_SHAPE,
                    "global shape: ranks %d and %d of the mesh hold the same shard of dim %d, but "
                    "%lld and %lld elements of it",
                    same, r, d, (long long)all[same].shape[d], (long long)all[r].shape[d]);
        }
    return WEFT_OK;
}

/* Every rank checks the metadata of all ranks, so that all of them fail alike. */
static weft_status check_and_sum_shapes(int64_t *shape, const weft_mesh *mesh,
                                        const weft_placement *placements,
                                        const struct rank_shape *all)
{
    weft_placement normal[WEFT_MAX_AXES];
    int64_t sum[WEFT_MAX_DIMS] = {0};

    for (int r = 0; r < weft_mesh_size(mesh); r++) {
        WF_NEED(all[r].ndim == all[0].ndim, WEFT_ERR_SHAPE,
                "global shape: rank 0 of the mesh has %lld dims, rank %d has %lld",
                (long long)all[0].ndim, r, (long long)all[r].ndim);
        WF_TRY(wf_placements_check_shape(normal, placements, weft_mesh_ndim(mesh), all[r].shape,
                                         (int)all[r].ndim, "global shape"));
    }
    WF_TRY(sum_shard_sizes(sum, mesh, normal, all));
    for (int d = 0; d < all[0].ndim; d++) shape[d] = sum[d];
    return WEFT_OK;
}

weft_status weft_global_shape(int64_t *shape, weft_mesh *mesh, const weft_placement *placements,
                              int n_placements, const int64_t *local_shape, int ndim)
{
    struct rank_shape own = {.ndim = ndim}, *all;
    weft_status status;

    WF_TRY(wf_placements_check_count(mesh, n_placements, "global shape"));
    WF_NEED(!weft_mesh_is_fake(mesh), WEFT_ERR_COMM,
            "global shape: a fake mesh has no ranks to ask");
    WF_NEED(weft_mesh_is_member(mesh), WEFT_ERR_COMM, "global shape: this rank is not in the mesh");
    WF_NEED_LOCAL(shape && (local_shape || ndim <= 0), WEFT_ERR_ARG,
                  "global shape: no array for a shape");
    for (int d = 0; d < ndim && d < WEFT_MAX_DIMS; d++) own.shape[d] = local_shape[d];
    all = all_gather_shapes(mesh, &own);
    status = check_and_sum_shapes(shape, mesh, placements, all);
    wf_free(all);
    return status;
}
