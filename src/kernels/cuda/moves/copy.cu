/* copy.cu: kernels that only move elements: copy and cat, by strided_copy.cu. */
#include "kernels/cuda/prepare.h"
extern "C" {
#include "kernels/cuda/driver_kernels.h"
#include "kernels/operands/cat_copies.h"
#include "kernels/operands/loop_nest.h"
}

static void run_copy(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                     const struct wf_scalars *)
{
    wf_cuda_strided_copy((const struct wf_strided_copy *)k->prep, out[0], in[0]);
}

weft_status wf_cuda_copy(struct wf_kernel_call *k)
{
    const struct wf_tensor_desc *x = k->in[0], *y = k->out[0];
    struct wf_operand_strides to =
        wf_strides_row_major(wf_dtypes[y->dtype].size, y->shape, y->ndim);
    struct wf_operand_strides from = wf_strides_broadcast(x, y->shape, y->ndim);
    struct wf_strided_copy *copy;

    WF_TRY(wf_check_input_dtypes(k, 0, y->dtype));
    copy = WF_NEW(struct wf_strided_copy);
    wf_strided_copy_init(copy, y->shape, from.stride, to.stride, y->ndim, (size_t)to.bytes);
    k->prep = copy;
    k->run = run_copy;
    return WEFT_OK;
}

static void run_cat(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                    const struct wf_scalars *)
{
    const struct wf_cat_copies *copies = (const struct wf_cat_copies *)k->prep;

    for (int i = 0; i < k->n_in; i++) wf_cuda_strided_copy(&copies->input[i], out[0], in[i]);
}

weft_status wf_cuda_cat(struct wf_kernel_call *k)
{
    WF_TRY(wf_cat_copies_prepare(k));
    k->run = run_cat;
    return WEFT_OK;
}
