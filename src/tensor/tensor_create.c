/* tensor_create.c: plain tensors from sizes and data. */
#include "base/elements/dtype.h"
#include "base/error.h"
#include "base/recorder.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

weft_status wf_shape_check(weft_dtype dtype, const int64_t *shape, int ndim)
{
    WF_NEED((unsigned)dtype < WEFT_DTYPE_COUNT, WEFT_ERR_DTYPE, "new tensor: unknown dtype %d",
            (int)dtype);
    WF_NEED(ndim >= 0 && ndim <= WEFT_MAX_DIMS, WEFT_ERR_SHAPE,
            "new tensor: %d dims; 0 to %d are possible", ndim, WEFT_MAX_DIMS);
    WF_NEED(shape || ndim == 0, WEFT_ERR_ARG, "new tensor: no shape");
    for (int d = 0; d < ndim; d++)
        WF_NEED(shape[d] >= 0, WEFT_ERR_SHAPE, "new tensor: size %lld in dim %d",
                (long long)shape[d], d);
    WF_NEED(wf_shape_numel(shape, ndim) >= 0, WEFT_ERR_SHAPE,
            "new tensor: more elements in %d dims than can be counted", ndim);
    return WEFT_OK;
}

static weft_tensor *empty_on(weft_device device, weft_dtype dtype, int ndim, const int64_t *shape)
{
    struct wf_layout *layout =
        wf_layout_on_device(wf_layout_new(NULL, NULL, dtype, shape, NULL, ndim), device);
    weft_tensor *t = wf_tensor_new_empty(layout, WF_MEM_ACTIVATIONS, "empty");

    wf_layout_release(layout);
    return t;
}

static weft_tensor *fill(weft_tensor *t, double value)
{
    const struct wf_dtype_info *dtype;
    char element[8] = {0};

    if (!t || wf_is_meta(t)) return t;
    dtype = &wf_dtypes[t->layout->desc.dtype];
    dtype->store(element, value);
    wf_device_fill(wf_device_of(t), t->data, element, dtype->size, (size_t)t->layout->numel);
    if (wf_recorder)
        wf_recorder->fill(wf_recorder, t->block, element, dtype->size, (size_t)t->layout->numel);
    return t;
}

weft_tensor *weft_empty(weft_dtype dtype, const int64_t *shape, int ndim)
{
    WF_TRY_PTR(wf_shape_check(dtype, shape, ndim));
    return empty_on(wf_default_device(), dtype, ndim, shape);
}

weft_tensor *weft_full(weft_dtype dtype, const int64_t *shape, int ndim, double value)
{
    return fill(weft_empty(dtype, shape, ndim), value);
}

weft_tensor *wf_number_like(const weft_tensor *t, double value)
{
    return t ? fill(empty_on(wf_device_of(t), (weft_dtype)t->layout->desc.dtype, 0, NULL), value)
             : NULL;
}

weft_tensor *weft_from_data(weft_dtype dtype, const int64_t *shape, int ndim, const void *data)
{
    weft_tensor *t = weft_empty(dtype, shape, ndim);

    if (!t || !t->layout->numel || wf_is_meta(t)) return t;
    WF_NEED_PTR(data, WEFT_ERR_ARG, "new tensor: no data");
    wf_device_upload(wf_device_of(t), t->data, data,
                     (size_t)t->layout->numel * wf_dtypes[dtype].size);
    return t;
}
