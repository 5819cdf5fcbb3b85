/* pad.cu: a tensor's elements among others that all have one value: the value everywhere, then the
 * elements where they belong. */
#include "kernels/cuda/prepare.h"
extern "C" {
#include "kernels/cuda/driver_kernels.h"
#include "kernels/operands/loop_nest.h"
}

struct pad {
    struct wf_strided_copy copy;
    int64_t first; /* bytes to the place of x's first element */
};

static void run_pad(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                    const struct wf_scalars *scalars)
{
    const struct pad *p = (const struct pad *)k->prep;
    const struct wf_dtype_info *info = &wf_dtypes[k->out[0]->dtype];
    uint64_t element = 0;

    info->store(&element, scalars->s[0]);
    wf_cuda_fill_elements(out[0], &element, info->size, (size_t)k->out[0]->numel);
    if (k->in[0]->numel) wf_cuda_strided_copy(&p->copy, (char *)out[0] + p->first, in[0]);
}

weft_status wf_cuda_pad(struct wf_kernel_call *k)
{
    const struct wf_tensor_desc *x = k->in[0], *y = k->out[0];
    const struct wf_pad_attrs *attrs = &k->attrs->pad;
    struct wf_operand_strides to =
        wf_strides_row_major(wf_dtypes[y->dtype].size, y->shape, y->ndim);
    struct wf_operand_strides from = wf_strides_broadcast(x, x->shape, x->ndim);
    struct pad *p;

    WF_TRY(wf_check_input_dtypes(k, 0, y->dtype));
    k->prep = p = WF_NEW(struct pad);
    for (int d = 0; d < y->ndim; d++) {
        p->first += attrs->before[d] * to.stride[d] * to.bytes;
        to.stride[d] *= attrs->step[d];
    }
    wf_strided_copy_init(&p->copy, x->shape, from.stride, to.stride, y->ndim, (size_t)to.bytes);
    k->run = y->numel ? run_pad : wf_cuda_run_nothing;
    return WEFT_OK;
}
