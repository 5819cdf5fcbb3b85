/* random_kernel.h: preparing and running kernels that are functors of random_numbers.h. */
#pragma once

#include "kernels/cuda/random/random_numbers.h"

extern "C" {
#include "kernels/operands/random_bounds.h"
}

/** Choose k->run; inputs broadcast to the output, and both may be strided. */
weft_status wf_cuda_random_prepare(struct wf_kernel_call *k, wf_kernel_run *run);

/** The places that wf_cuda_random_prepare has worked out. */
static inline const struct wf_global_elements *wf_cuda_random_places(const struct wf_kernel_call *k)
{
    return (const struct wf_global_elements *)k->prep;
}

/** k->run of a functor that is made of the call's scalars and the output's dtype. */
template <class F>
static void wf_cuda_random_run(const struct wf_kernel_call *k, void *const *out,
                               const void *const *in, const struct wf_scalars *scalars)
{
    wf_global_run(k, F(scalars, k->out[0]->dtype), wf_cuda_random_places(k), out[0],
                  k->n_in ? in[0] : nullptr);
}

/** The run function of a template functor for a float dtype, NULL for other dtypes. */
template <template <class> class F> static wf_kernel_run *wf_cuda_random_of_float(uint8_t dtype)
{
    return dtype == WEFT_F32    ? wf_cuda_random_run<F<float>>
           : dtype == WEFT_F64  ? wf_cuda_random_run<F<double>>
           : dtype == WEFT_BF16 ? wf_cuda_random_run<F<bf16>>
           : dtype == WEFT_F16  ? wf_cuda_random_run<F<f16>>
                                : nullptr;
}

/** The same for any dtype. */
template <template <class> class F> static wf_kernel_run *wf_cuda_random_of(uint8_t dtype)
{
    return dtype == WEFT_I32    ? wf_cuda_random_run<F<int32_t>>
           : dtype == WEFT_I64  ? wf_cuda_random_run<F<int64_t>>
           : dtype == WEFT_U8   ? wf_cuda_random_run<F<uint8_t>>
           : dtype == WEFT_BOOL ? wf_cuda_random_run<F<boolean>>
           : dtype == WEFT_I16  ? wf_cuda_random_run<F<int16_t>>
           : dtype == WEFT_I8   ? wf_cuda_random_run<F<int8_t>>
                                : wf_cuda_random_of_float<F>(dtype);
}
