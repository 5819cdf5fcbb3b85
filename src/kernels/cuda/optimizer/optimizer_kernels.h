/* optimizer_kernels.h: the functions of the table that kernels/optimizer_kernels.h asks for. */
#pragma once

#include "kernels/cuda/element.h"
#include "kernels/cuda/prepare.h"

extern "C" {
#include "kernels/optimizer_kernels.h"

extern const struct wf_optimizer_kernels wf_cuda_optimizer_kernels;
}

/** The steps of n parameters, those of one loop and one pair of dtypes in one launch. */
void wf_cuda_optimizer_steps(const struct wf_optimizer_item *items, int n);

/** *total += sum of |x|^2; of |x|^p; the larger of *total and all |x|. */
void wf_cuda_add_squares(weft_dtype dtype, int64_t count, const void *x, double *total);
void wf_cuda_add_powers(weft_dtype dtype, int64_t count, const void *x, double p, double *total);
void wf_cuda_atomic_max(weft_dtype dtype, int64_t count, const void *x, double *total);

/** The master, or the parameter where that is not what the master rounds to. */
template <class R> __device__ __forceinline__ float synced_master(float master, R written)
{
    return from_real<R>(master).bits == written.bits ? master : to_real(written);
}
