/* dtensor_spec.c: a distributed tensor taken apart into its local tensor and its metadata, and
 * put together again, outside the tape. */
#include <weft/extend/dtensor_spec.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "mesh/mesh.h"
#include "placement/layout.h"
#include "tensor/tensor.h"

weft_tensor *weft_dtensor_unwrap(weft_tensor *t, weft_dtensor_spec *rest)
{
    struct wf_layout *local;
    weft_tensor *local_shard;

    if (!t) return NULL;
    WF_NEED_PTR(rest, WEFT_ERR_ARG, "dtensor_unwrap: no place for the metadata");
    WF_TRY_PTR(wf_tensor_need_alive(t, "dtensor_unwrap"));
    WF_NEED_PTR(!wf_is_plain(t), WEFT_ERR_ARG, "dtensor_unwrap: the tensor is plain");
    WF_TRY_PTR(weft_layout_of(&rest->layout, t));
    rest->dtype = weft_tensor_dtype(t);
    rest->device = weft_tensor_device(t);
    rest->requires_grad = t->requires_grad;
    local = wf_layout_local(t->layout);
    local_shard = wf_tensor_new(local, wf_block_retain(t->block), t->data, "dtensor_unwrap");
    local_shard->in_flight = t->in_flight;
    wf_layout_release(local);
    return local_shard;
}

static weft_status check_unflatten(const weft_tensor *local, const weft_dtensor_spec *rest,
                                   const struct wf_tensor_desc *local_shard)
{
    const struct wf_tensor_desc *desc = &local->layout->desc;

    WF_NEED(weft_tensor_dtype(local) == rest->dtype, WEFT_ERR_DTYPE,
            "dtensor_wrap: the local tensor is %s, not %s",
            weft_dtype_name(weft_tensor_dtype(local)), weft_dtype_name(rest->dtype));
    WF_NEED(weft_tensor_device(local) == rest->device, WEFT_ERR_ARG,
            "dtensor_wrap: the local tensor is on another device");
    for (int d = 0; d < desc->ndim; d++)
        WF_NEED_LOCAL(
            desc->shape[d] == local_shard->shape[d], WEFT_ERR_SHAPE,
            "dtensor_wrap: this rank's shard has %lld elements in dim %d, the local tensor %lld",
            (long long)local_shard->shape[d], d, (long long)desc->shape[d]);
    if (local->requires_grad && !rest->requires_grad)
        WF_LOG(
            WF_LOG_WARN, "dtensor",
            "dtensor_wrap: the local tensor wants a gradient and will not get one; weft_from_local "
            "passes gradients on");
    return WEFT_OK;
}

weft_tensor *weft_dtensor_wrap(weft_tensor *local, const weft_dtensor_spec *rest)
{
    const weft_layout *l;
    struct wf_layout *layout;
    weft_tensor *t = NULL;

    if (!local) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(local, "dtensor_wrap"));
    WF_NEED_PTR(rest, WEFT_ERR_ARG, "dtensor_wrap: no metadata of the distributed tensor");
    l = &rest->layout;
    WF_NEED_PTR(wf_is_plain(local), WEFT_ERR_ARG,
                "dtensor_wrap: the local tensor is distributed already");
    WF_NEED_PTR(weft_ndim(local) == l->ndim, WEFT_ERR_SHAPE,
                "dtensor_wrap: a local tensor of %d dims, a layout of %d", weft_ndim(local),
                l->ndim);
    layout = wf_layout_on_device(wf_layout_new(l->mesh, l->placements, rest->dtype, l->shape,
                                               local->layout->desc.stride, l->ndim),
                                 rest->device);
    if (check_unflatten(local, rest, &layout->desc) == WEFT_OK) {
        t = wf_tensor_new(layout, wf_block_retain(local->block), local->data, "dtensor_wrap");
        t->requires_grad = rest->requires_grad;
        t->in_flight = local->in_flight;
    }
    wf_layout_release(layout);
    return t;
}

bool weft_dtensor_spec_equal(const weft_dtensor_spec *a, const weft_dtensor_spec *b)
{
    return WF_HANDLE(a)->dtype == b->dtype && a->device == b->device &&
           weft_layout_equal(&a->layout, &b->layout);
}

uint64_t weft_dtensor_spec_hash(const weft_dtensor_spec *flat)
{
    uint64_t layout = weft_layout_hash(&WF_HANDLE(flat)->layout);

    return wf_hash_mix(layout, (uint64_t)flat->dtype << 8 | (uint64_t)flat->device);
}
