/* scan.c: running sums and products along a dim, and linear recurrences. */
#include "kernels/cpu/reductions/scan.h"

weft_status wf_cpu_cumsum(struct wf_kernel_call *k)
{
    const struct wf_scans *scans = WF_ISA_PICK(wf_scans);

    return wf_prepare_along_dim(k, k->attrs->scan.back ? scans->cumsum_back : scans->cumsum);
}

weft_status wf_cpu_cumprod(struct wf_kernel_call *k)
{
    return wf_prepare_along_dim(k, WF_ISA_PICK(wf_scans)->cumprod);
}

weft_status wf_cpu_cumprod_grad(struct wf_kernel_call *k)
{
    return wf_prepare_along_dim(k, WF_ISA_PICK(wf_scans)->cumprod_grad);
}

weft_status wf_cpu_linear_scan(struct wf_kernel_call *k)
{
    return wf_prepare_along_dim(k, WF_ISA_PICK(wf_scans)->linear_scan);
}

weft_status wf_cpu_linear_scan_grad(struct wf_kernel_call *k)
{
    return wf_prepare_along_dim(k, WF_ISA_PICK(wf_scans)->linear_scan_grad);
}
