/* softmax.c: softmax, log_softmax and their gradients along any dim. */
#include "kernels/cpu/reductions/softmax.h"

weft_status wf_cpu_softmax(struct wf_kernel_call *k)
{
    return wf_prepare_along_dim(k, WF_ISA_PICK(wf_softmaxes)->softmax);
}

weft_status wf_cpu_log_softmax(struct wf_kernel_call *k)
{
    return wf_prepare_along_dim(k, WF_ISA_PICK(wf_softmaxes)->log_softmax);
}

weft_status wf_cpu_softmax_grad(struct wf_kernel_call *k)
{
    return wf_prepare_along_dim(k, WF_ISA_PICK(wf_softmaxes)->softmax_grad);
}

weft_status wf_cpu_log_softmax_grad(struct wf_kernel_call *k)
{
    return wf_prepare_along_dim(k, WF_ISA_PICK(wf_softmaxes)->log_softmax_grad);
}
