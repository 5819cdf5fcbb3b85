/* cat_copies.c: where along the dim each input begins. */
#include "kernels/operands/cat_copies.h"

#include "base/elements/dtype.h"
#include "base/error.h"
#include "base/mem.h"
#include "kernels/operands/loop_nest.h"
#include "kernels/operands/operand_checks.h"

weft_status wf_cat_copies_prepare(struct wf_kernel_call *k)
{
    const struct wf_tensor_desc *y = k->out[0];
    struct wf_operand_strides to =
        wf_strides_row_major(wf_dtypes[y->dtype].size, y->shape, y->ndim);
    int64_t dim = k->attrs->dim.dim, at = 0;
    struct wf_cat_copies *copies;

    WF_TRY(wf_check_input_dtypes(k, 0, y->dtype));
    k->prep = copies = WF_NEW(struct wf_cat_copies);
    for (int i = 0; i < k->n_in; i++) {
        const struct wf_tensor_desc *x = k->in[i];

        wf_strided_copy_init(&copies->input[i], x->shape, x->stride, to.stride, x->ndim,
                             (size_t)to.bytes);
        wf_strided_copy_stream(&copies->input[i], y->numel * to.bytes);
        copies->input[i].dst_offset = at * to.stride[dim] * to.bytes;
        at += x->shape[dim];
    }
    return WEFT_OK;
}
