/* prepare.h: checks and answers that prepare functions of this folder share. */
#pragma once

#include "kernels/cuda/cuda_kernel.h"

extern "C" {
#include "kernels/operands/operand_checks.h"
}

enum { WF_CUDA_BLOCK = 256 }; /* threads of a block, unless a kernel wants another number */

/** "op: no CUDA kernel for f32" */
static inline weft_status wf_cuda_fail_no_kernel(const struct wf_kernel_call *k, uint8_t dtype)
{
    return WF_FAIL(WEFT_ERR_DTYPE, "%s: no CUDA kernel for %s", k->op, wf_dtypes[dtype].name);
}

/** A run function for calls without elements. */
static inline void wf_cuda_run_nothing(const struct wf_kernel_call *, void *const *,
                                       const void *const *, const struct wf_scalars *)
{
}
