/* copy.cu: kernels that only move elements: copy and cat, by strided_copy.cu. */
#include "kernels/cuda/prepare.h"
extern "C" {
#include "kernels/cuda/device_moves.h"
#include "kernels/loop_nest.h"
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

    WF_TRY(wf_cuda_check_input_dtypes(k, 0, y->dtype));
    copy = WF_NEW(struct wf_strided_copy);
    wf_strided_copy_init(copy, y->shape, from.stride, to.stride, y->ndim, (size_t)to.bytes);
    k->prep = copy;
    k->run = run_copy;
    return WEFT_OK;
}

struct cat {
    struct wf_strided_copy input[WF_MAX_IN];
};

static void run_cat(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                    const struct wf_scalars *)
{
    const struct cat *p = (const struct cat *)k->prep;

    for (int i = 0; i < k->n_in; i++) wf_cuda_strided_copy(&p->input[i], out[0], in[i]);
}

weft_status wf_cuda_cat(struct wf_kernel_call *k)
{
    const struct wf_tensor_desc *y = k->out[0];
    struct wf_operand_strides to =
        wf_strides_row_major(wf_dtypes[y->dtype].size, y->shape, y->ndim);
    int64_t dim = k->attrs->dim.dim, at = 0;
    struct cat *p;

    WF_TRY(wf_cuda_check_input_dtypes(k, 0, y->dtype));
    k->prep = p = WF_NEW(struct cat);
    for (int i = 0; i < k->n_in; i++) {
        const struct wf_tensor_desc *x = k->in[i];

        wf_strided_copy_init(&p->input[i], x->shape, x->stride, to.stride, x->ndim,
                             (size_t)to.bytes);
        p->input[i].dst_offset = at * to.stride[dim] * to.bytes;
        at += x->shape[dim];
    }
    k->run = run_cat;
    return WEFT_OK;
}
