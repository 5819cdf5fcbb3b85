/* prepare.h: checks and answers that prepare functions of this folder share. */
#pragma once

#include "kernels/cuda/cuda_kernel.h"

enum { WF_CUDA_BLOCK = 256 }; /* threads of a block, unless a kernel wants another number */

/** "op: no CUDA kernel for f32" */
static inline weft_status wf_cuda_fail_no_kernel(const struct wf_kernel_call *k, uint8_t dtype)
{
    return WF_FAIL(WEFT_ERR_DTYPE, "%s: no CUDA kernel for %s", k->op, wf_dtypes[dtype].name);
}

/** Fails unless inputs first..n_in-1 all have `dtype`. */
static inline weft_status wf_cuda_check_input_dtypes(const struct wf_kernel_call *k, int first,
                                                     uint8_t dtype)
{
    for (int i = first; i < k->n_in; i++)
        WF_NEED(!k->in[i] || k->in[i]->dtype == dtype, WEFT_ERR_DTYPE, "%s: %s beside %s", k->op,
                wf_dtypes[dtype].name, wf_dtypes[k->in[i]->dtype].name);
    return WEFT_OK;
}

/** A run function for calls without elements. */
static inline void wf_cuda_run_nothing(const struct wf_kernel_call *, void *const *,
                                       const void *const *, const struct wf_scalars *)
{
}
