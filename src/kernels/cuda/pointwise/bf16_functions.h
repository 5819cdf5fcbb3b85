/*
 * bf16_functions.h: gelu of bf16 in fewer steps than of f32: right to 2^-14 where bf16 has 2^-9,
 * with the polynomial of the CPU's. In f32's the steps, not the memory, take the time.
 */
#pragma once

#include "kernels/cuda/element.h"

extern "C" {
#define inline __host__ __device__ inline
#include "kernels/cpu/isa/pointwise/mills_for_bf16.h"
#undef inline
}

/** e^(-x^2 / 2) */
__device__ __forceinline__ float gauss_of_bf16(float x) { return gpu_exp2(-0.72134752f * x * x); }

__device__ __forceinline__ float normcdf_of_bf16(float x)
{
    float t = fminf(fabsf(x), 14.5f), w = gpu_inverse(t + 3);
    float p = gauss_of_bf16(x) * w * mills_for_bf16((t - 3) * w);

    return x > 0 ? 1 - p : p;
}

__device__ __forceinline__ float dgelu_of_bf16(float x)
{
    return normcdf_of_bf16(x) + 0.39894228f * x * gauss_of_bf16(x);
}
