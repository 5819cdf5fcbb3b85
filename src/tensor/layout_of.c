/* layout_of.c: the weft_layout of a distributed tensor. */
#include <weft/extend/layout.h>

#include "base/error.h"
#include "tensor/tensor.h"

/* Strides of the whole tensor, with its dims in memory in the order that they have in the shard. */
static void global_strides(int64_t *stride, const struct wf_tensor_desc *desc)
{
    for (int d = 0; d < desc->ndim; d++) {
        stride[d] = 1;
        for (int e = 0; e < desc->ndim; e++)
            if (desc->global[e] > 1 && (desc->stride[e] < desc->stride[d] ||
                                        (desc->stride[e] == desc->stride[d] && e > d)))
                stride[d] *= desc->global[e];
    }
}

weft_status weft_layout_of(weft_layout *out, const weft_tensor *t)
{
    const struct wf_layout *l;

    WF_NEED_GIVEN(t, "layout: no tensor");
    WF_TRY(wf_tensor_need_alive(t, "layout"));
    l = t->layout;
    WF_NEED(l->mesh, WEFT_ERR_ARG, "layout: the tensor is plain");
    WF_TRY(weft_layout_make(out, l->mesh, l->placements, l->n_axes, l->desc.global, l->desc.ndim));
    if (!l->desc.contiguous) global_strides(out->stride, &l->desc);
    return WEFT_OK;
}
