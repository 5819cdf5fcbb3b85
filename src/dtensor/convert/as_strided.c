/* as_strided.c: distributed tensors made or viewed with given global strides. */
#include <weft/dtensor.h>
#include <weft/extend/layout.h>

#include <string.h>

#include "base/error.h"
#include "dtensor/convert/all_reduce_max_min.h"
#include "dtensor/dispatch/placement_args.h"
#include "placement/layout.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"
#include <weft/ops.h>

/* ---- new ones ---- */

static bool has_global_shape(const weft_tensor *t, const int64_t *shape, int ndim)
{
    return weft_ndim(t) == ndim &&
           (ndim == 0 || memcmp(t->layout->desc.global, shape, (size_t)ndim * sizeof *shape) == 0);
}

static bool is_dense_stride(const int64_t *shape, const int64_t *stride, int ndim)
{
    int64_t step = 1, numel = wf_shape_numel(shape, ndim);

    if (numel == 0) return true;
    for (int left = 0; left < ndim; left++) {
        int next = -1;

        for (int d = 0; d < ndim && next < 0; d++)
            if (shape[d] > 1 && stride[d] == step) next = d;
        if (next < 0) break;
        step *= shape[next];
    }
    return step == numel;
}

/* The strides of a shard whose dims have the same order in memory as the global strides give. */
static struct wf_layout *layout_with_strides(const weft_tensor *t, const weft_placement *placements,
                                             const int64_t *shape, const int64_t *stride, int ndim)
{
    weft_mesh *mesh = t->layout->mesh;
    int64_t local[WEFT_MAX_DIMS];
    weft_layout whole;

    if (mesh && stride) {
        WF_TRY_PTR(weft_layout_make(&whole, mesh, placements, weft_mesh_ndim(mesh), shape, ndim));
        memcpy(whole.stride, stride, (size_t)ndim * sizeof *stride);
        weft_layout_shard(&whole, NULL, NULL, local, NULL);
        stride = local;
    }
    return wf_layout_on_device(
        wf_layout_new(mesh, placements, weft_tensor_dtype(t), shape, stride, ndim),
        weft_tensor_device(t));
}

weft_tensor *weft_new_empty(const weft_tensor *t, const int64_t *shape, const int64_t *stride,
                            int ndim)
{
    weft_placement placements[WEFT_MAX_AXES] = {{0}};
    struct wf_layout *layout;
    weft_tensor *empty;

    if (!t) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(t, "new_empty"));
    WF_NEED_PTR(ndim >= 0 && ndim <= WEFT_MAX_DIMS, WEFT_ERR_SHAPE, "new_empty: %d dims", ndim);
    WF_NEED_PTR(shape || ndim == 0, WEFT_ERR_ARG, "new_empty: no shape");
    for (int d = 0; d < ndim; d++)
        WF_NEED_PTR(shape[d] >= 0, WEFT_ERR_SHAPE, "new_empty: size %lld in dim %d",
                    (long long)shape[d], d);
    WF_NEED_PTR(wf_shape_numel(shape, ndim) >= 0, WEFT_ERR_SHAPE,
                "new_empty: more elements in %d dims than can be counted", ndim);
    WF_NEED_PTR(!stride || is_dense_stride(shape, stride, ndim), WEFT_ERR_ARG,
                "new_empty: the strides are not those of a dense tensor of this shape");
    if (has_global_shape(t, shape, ndim) && (!stride || wf_layout_shards_equal(t->layout)))
        memcpy(placements, t->layout->placements, sizeof placements);
    wf_placements_drop_partial(placements, t->layout->n_axes);
    layout = layout_with_strides(t, placements, shape, stride, ndim);
    if (!layout) return NULL;
    empty = wf_tensor_new_empty(layout, WF_MEM_ACTIVATIONS, "new_empty");
    wf_layout_release(layout);
    return empty;
}

/* ---- views ---- */

static weft_status global_strides_of(const weft_tensor *t, int64_t *stride)
{
    weft_layout whole;

    if (wf_is_plain(t)) {
        memcpy(stride, t->layout->desc.stride, sizeof t->layout->desc.stride);
        return WEFT_OK;
    }
    WF_TRY(weft_layout_of(&whole, t));
    memcpy(stride, whole.stride, sizeof whole.stride);
    return WEFT_OK;
}

/* The dim of t that is to become one of this size and stride; the stride of one element is free. */
static int find_matching_dim(const weft_tensor *t, const int64_t *own, const bool *taken,
                             int64_t size, int64_t stride)
{
    for (int d = 0; d < weft_ndim(t); d++)
        if (!taken[d] && t->layout->desc.global[d] == size && (size == 1 || own[d] == stride))
            return d;
    return -1;
}

/* A rank whose shard has no dim of several elements does not know the order of its dims, and a
 * program may have wrapped another on each rank: the first rank says it. */
static void take_dim_order_of_first_rank(const weft_tensor *t, int *order)
{
    int64_t words[WEFT_MAX_DIMS], most[WEFT_MAX_DIMS], least[WEFT_MAX_DIMS];
    weft_mesh *mesh = t->layout->mesh;
    bool first = true;

    if (!mesh || wf_is_meta(t) || weft_mesh_is_fake(mesh) || weft_mesh_coordinate(mesh, 0) < 0 ||
        !wf_strides_may_differ(t))
        return;
    for (int a = 0; a < weft_mesh_ndim(mesh); a++) first &= weft_mesh_coordinate(mesh, a) == 0;
    for (int d = 0; d < weft_ndim(t); d++) words[d] = first ? order[d] : -2;
    wf_all_reduce_max_min(mesh, words, weft_ndim(t), most, least);
    for (int d = 0; d < weft_ndim(t); d++) order[d] = (int)most[d];
}

weft_tensor *weft_as_strided(weft_tensor *t, const int64_t *shape, const int64_t *stride, int ndim,
                             int64_t offset)
{
    int64_t own[WEFT_MAX_DIMS];
    bool taken[WEFT_MAX_DIMS] = {false}, same = true;
    int order[WEFT_MAX_DIMS];
    char text[256];

    if (!t) return NULL;
    WF_NEED_PTR((shape && stride) || ndim == 0, WEFT_ERR_ARG, "as_strided: no shape or no strides");
    WF_TRY_PTR(wf_tensor_need_alive(t, "as_strided"));
    weft_tensor_format(t, text, sizeof text);
    WF_NEED_PTR(ndim == weft_ndim(t) && offset == 0, WEFT_ERR_ARG,
                "as_strided: %d dims from element %lld on of %s: only its own dims, in any order, "
                "from the first element on",
                ndim, (long long)offset, text);
    WF_TRY_PTR(global_strides_of(t, own));
    for (int d = 0; d < ndim; d++) {
        order[d] = find_matching_dim(t, own, taken, shape[d], stride[d]);
        if (order[d] >= 0) taken[order[d]] = true;
    }
    take_dim_order_of_first_rank(t, order);
    for (int d = 0; d < ndim; d++) {
        WF_NEED_PTR(order[d] >= 0, WEFT_ERR_ARG,
                    "as_strided: dim %d, of size %lld and stride %lld, is no dim of %s", d,
                    (long long)shape[d], (long long)stride[d], text);
        same &= order[d] == d;
    }
    return same ? t : weft_permute(t, order);
}
