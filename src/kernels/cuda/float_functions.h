/*
 * float_functions.h: functions of f32 that a GPU has faster ways for than vmath.h: CUDA's own
 * exponential, logarithm and tanh (2, 1 and 2 ulp by its manual), and the hardware's reciprocal,
 * which the sigmoid and the normal distribution take (3 and 7 ulp).
 *
 * Included by element.h. Not for what must have the CPU's bits.
 */
#pragma once

__device__ __forceinline__ float exp_gpu(float x) { return expf(x); }
__device__ __forceinline__ float log_gpu(float x) { return logf(x); }
__device__ __forceinline__ float tanh_gpu(float x) { return tanhf(x); }
__device__ __forceinline__ float inverse_gpu(float x) { return gpu_inverse(x); }
/** 1 / (1 + e^-x); a quarter of the denominator, so that its reciprocal is no subnormal number,
 *  which the hardware would make 0. */
__device__ __forceinline__ float sigmoid_gpu(float x)
{
    return 0.25f * gpu_inverse(fmaf(0.25f, expf(-x), 0.25f));
}
__device__ __forceinline__ float fabs_gpu(float x) { return fabsf(x); }
__device__ __forceinline__ float mills_gpu(float x) { return mills_f32(x); }

/** e^(-x^2 / 2); what rounding takes off the square is put to the result. */
__device__ __forceinline__ float gauss_gpu(float x)
{
    float square = x * x, rest = fmaf(x, x, -square), y = expf(-0.5f * square);

    return x > -15 && x < 15 ? fmaf(y, -0.5f * rest, y) : y;
}

#define WF_M(name) name##_gpu
#define WF_REAL float
#define WF_K(number) number##f
#define WF_PHI_MAX 14.5f /* as in vmath.h, for mills_f32 */
#define WF_MILLS_K 4.0f
#define inline __device__ inline
#include "kernels/cpu/isa/vmath_activations.inc"
#undef inline
#undef WF_M
#undef WF_REAL
#undef WF_K
#undef WF_PHI_MAX
#undef WF_MILLS_K
