/*
 * check_local_shards.c: compares the local tensors given to from_local over the mesh (PyTorch's
 * run_check). It repairs nothing, and only ranks of the mesh need to call it.
 */
#include "dtensor/convert/check_local_shards.h"

#include <string.h>

#include "base/error.h"
#include "dtensor/convert/all_reduce_max_min.h"
#include "dtensor/convert/replica_check.h"
#include "mesh/mesh.h"
#include <weft/autograd.h>

weft_status wf_check_placement_count(const char *who, int n_placements, const weft_mesh *mesh)
{
    WF_NEED(n_placements == 0 || n_placements == weft_mesh_ndim(mesh), WEFT_ERR_ARG,
            "%s: placements and mesh axes must have the same length, not %d and %d", who,
            n_placements, weft_mesh_ndim(mesh));
    return WEFT_OK;
}

/* ---- strides ---- */

/* The dims of more than one element, largest stride first; returns their number. */
static int sort_dims_by_stride(int *order, const int64_t *shape, const int64_t *stride, int ndim)
{
    int n = 0;

    for (int d = 0; d < ndim; d++) {
        int at = n;

        if (shape[d] < 2) continue;
        for (; at > 0 && stride[order[at - 1]] < stride[d]; at--) order[at] = order[at - 1];
        order[at] = d;
        n++;
    }
    return n;
}

static bool is_dense_in_order(const int *order, int n, const int64_t *shape, const int64_t *stride)
{
    int64_t step = 1;

    for (int i = n - 1; i >= 0; i--) {
        if (stride[order[i]] != step) return false;
        step *= shape[order[i]];
    }
    return true;
}

/* A dim of one local element has no order in memory: its stride is not compared. */
static bool dims_follow_stride_order(const struct wf_tensor_desc *local, const int *order, int n)
{
    int64_t before = INT64_MAX;

    for (int i = 0; i < n; i++) {
        if (local->shape[order[i]] < 2) continue;
        if (local->stride[order[i]] > before) return false;
        before = local->stride[order[i]];
    }
    return true;
}

weft_status wf_check_local_stride(const weft_tensor *local, const int64_t *shape,
                                  const int64_t *stride)
{
    const struct wf_tensor_desc *desc = &local->layout->desc;
    int order[WEFT_MAX_DIMS];
    int n = sort_dims_by_stride(order, shape, stride, desc->ndim);

    WF_NEED(is_dense_in_order(order, n, shape, stride), WEFT_ERR_ARG,
            "from_local: the global strides are not those of a dense tensor of the global shape");
    WF_NEED_LOCAL(
        desc->numel == 0 || dims_follow_stride_order(desc, order, n), WEFT_ERR_ARG,
        "from_local: the local tensor's dims have another order in memory than the global strides");
    return WEFT_OK;
}

/* ---- over the mesh ---- */

/* The words compared first, and those that are comparable once the first agree. */
enum { DTYPE, GRADIENT, NDIM, FACTS };
enum { FITS = WEFT_MAX_DIMS, SIZES }; /* after the global shape */
/* For each pair of dims, whether i has the larger stride; and whether the strides leave gaps. */
enum { DENSE = WEFT_MAX_DIMS * WEFT_MAX_DIMS, GAPS, STRIDES };
_Static_assert((int)STRIDES <= (int)WF_MAX_REDUCED_WORDS, "room for what is compared");

static bool has_shard_shape(const struct wf_tensor_desc *local, weft_mesh *mesh,
                            const weft_placement *placements, const int64_t *global)
{
    int64_t shape[WEFT_MAX_DIMS], offset[WEFT_MAX_DIMS];

    wf_local_box(shape, offset, global, local->ndim, wf_mesh_sizes(mesh), wf_mesh_coordinates(mesh),
                 placements, weft_mesh_ndim(mesh));
    return memcmp(shape, local->shape, (size_t)local->ndim * sizeof *shape) == 0;
}

static weft_status compare_dtype_ndim_grad(weft_tensor *local, weft_mesh *mesh)
{
    const struct wf_tensor_desc *desc = &local->layout->desc;
    int64_t facts[FACTS] = {desc->dtype, weft_requires_grad(local), desc->ndim};
    int64_t most[FACTS], least[FACTS];

    wf_all_reduce_max_min(mesh, facts, FACTS, most, least);
    WF_NEED(most[DTYPE] == least[DTYPE], WEFT_ERR_DTYPE,
            "from_local: inconsistent tensor metadata: dtype is %s on one rank and %s on another",
            weft_dtype_name((weft_dtype)least[DTYPE]), weft_dtype_name((weft_dtype)most[DTYPE]));
    WF_NEED(most[GRADIENT] == least[GRADIENT], WEFT_ERR_ARG,
            "from_local: inconsistent tensor metadata: a gradient is wanted on some ranks only");
    WF_NEED(most[NDIM] == least[NDIM], WEFT_ERR_SHAPE,
            "from_local: inconsistent tensor metadata: %lld dims on one rank and %lld on another",
            (long long)least[NDIM], (long long)most[NDIM]);
    return WEFT_OK;
}

static weft_status compare_global_shapes(const struct wf_tensor_desc *local, weft_mesh *mesh,
                                         const weft_placement *placements, const int64_t *shape)
{
    int64_t sizes[SIZES] = {0}, most[SIZES], least[SIZES];

    if (shape)
        memcpy(sizes, shape, (size_t)local->ndim * sizeof *shape);
    else
        wf_global_shape_of_even_shards(sizes, local->shape, local->ndim, mesh, placements);
    sizes[FITS] = has_shard_shape(local, mesh, placements, sizes);
    wf_all_reduce_max_min(mesh, sizes, SIZES, most, least);
    for (int d = 0; d < local->ndim; d++)
        WF_NEED(most[d] == least[d], WEFT_ERR_SHAPE,
                "from_local: inconsistent tensor metadata: the global size of dim %d is %lld on "
                "one rank and %lld on another (give the global shape where shards are uneven)",
                d, (long long)least[d], (long long)most[d]);
    WF_NEED(least[FITS], WEFT_ERR_SHAPE,
            "from_local: some rank's local tensor has not the size of its shard of the global "
            "shape");
    return WEFT_OK;
}

/* A sharded dim has less than two elements here, so whether its stride leaves gaps on other ranks
 * cannot be seen from this one. A dim that is not sharded has the same size on every rank. */
static bool cannot_detect_gaps(const struct wf_tensor_desc *local, const weft_mesh *mesh,
                               const weft_placement *placements)
{
    for (int a = 0; a < weft_mesh_ndim(mesh); a++)
        if (wf_is_shard_or_strided(placements[a]) && local->shape[placements[a].dim] < 2)
            return true;
    return local->numel < 2;
}

/* Strides of uneven shards differ, but not the order of the dims in memory. Dims of less than two
 * local elements have no order. */
static weft_status compare_stride_order(const struct wf_tensor_desc *local, weft_mesh *mesh,
                                        const weft_placement *placements)
{
    int64_t words[STRIDES] = {0}, most[STRIDES], least[STRIDES];
    int order[WEFT_MAX_DIMS],
        n = sort_dims_by_stride(order, local->shape, local->stride, local->ndim);

    for (int i = 0; local->numel > 1 && i < n; i++)
        for (int j = i + 1; j < n; j++)
            if (local->stride[order[i]] > local->stride[order[j]])
                words[order[i] * WEFT_MAX_DIMS + order[j]] = 1;
    if (!cannot_detect_gaps(local, mesh, placements))
        words[is_dense_in_order(order, n, local->shape, local->stride) ? DENSE : GAPS] = 1;
    wf_all_reduce_max_min(mesh, words, STRIDES, most, least);
    for (int i = 0; i < local->ndim; i++)
        for (int j = i + 1; j < local->ndim; j++)
            WF_NEED(!most[i * WEFT_MAX_DIMS + j] || !most[j * WEFT_MAX_DIMS + i], WEFT_ERR_ARG,
                    "from_local: inconsistent tensor metadata: the strides of dims %d and %d are "
                    "in another order on another rank",
                    i, j);
    WF_NEED(!most[DENSE] || !most[GAPS], WEFT_ERR_ARG,
            "from_local: inconsistent tensor metadata: the strides leave gaps on some ranks only");
    return WEFT_OK;
}

static weft_status compare_replica_elements(weft_tensor *local, weft_mesh *mesh,
                                            const weft_placement *placements)
{
    unsigned axes = 0;
    int64_t equal, most, least;

    for (int a = 0; a < weft_mesh_ndim(mesh); a++)
        if (placements[a].kind == WEFT_KIND_REPLICATE) axes |= 1u << a;
    if (!axes) return WEFT_OK;
    equal = wf_mesh_replicas_equal(local, mesh, axes);
    wf_all_reduce_max_min(mesh, &equal, 1, &most, &least);
    WF_NEED(least, WEFT_ERR_ARG,
            "from_local: ranks that should hold the same elements hold different ones");
    return WEFT_OK;
}

weft_status wf_check_local_over_mesh(weft_tensor *local, weft_mesh *mesh,
                                     const weft_placement *placements, const int64_t *shape)
{
    weft_placement normal[WEFT_MAX_AXES];

    if (weft_mesh_coordinate(mesh, 0) < 0 || wf_is_meta(local)) return WEFT_OK;
    WF_NEED(!weft_mesh_is_fake(mesh), WEFT_ERR_COMM,
            "from_local: a fake mesh has no ranks to compare with");
    WF_TRY(compare_dtype_ndim_grad(local, mesh));
    WF_TRY(wf_placements_normalize(normal, placements, weft_mesh_ndim(mesh), weft_ndim(local),
                                   "from_local"));
    WF_TRY(compare_global_shapes(&local->layout->desc, mesh, normal, shape));
    WF_TRY(compare_stride_order(&local->layout->desc, mesh, normal));
    return compare_replica_elements(local, mesh, normal);
}
