/*
 * gpu.h: all that a kernel may say of the machine it runs on. nvcc sees CUDA; a host compiler sees
 * host_gpu.h of tests/gpu/engine, where the threads of a block are fibers, so that the same source
 * is tested without a GPU. What is not here may not be used in a kernel, or the tests cannot
 * compile it.
 *
 * Beside these: threadIdx, blockIdx, blockDim, gridDim, __syncthreads, __syncwarp, the
 * __shfl_*_sync functions on 4 bytes, __ballot_sync, __threadfence, __threadfence_system, integer
 * atomicAdd, atomicMax of unsigned, __umulhi, and the functions of math.h. Where bits
 * must be those of the CPU: __fmul_rn, __fadd_rn, __fmaf_rn, __fsqrt_rn, __fdiv_rn and their f64
 * forms (__dmul_rn, ...), which no compiler contracts.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#if defined(__CUDACC__)

#include <cuda_runtime.h>

/** An array in shared memory: GPU_SHARED(float, rows, [32][33]); */
#define GPU_SHARED(type, name, dims) __shared__ __align__(16) type name dims
/** The shared memory whose size the launch gives. */
#define GPU_DYNAMIC_SHARED(type, name)                                                             \
    extern __shared__ __align__(16) unsigned char gpu_dynamic_shared[];                            \
    type *name = (type *)gpu_dynamic_shared

/** device/cuda/cuda_graph.c */
extern "C" cudaError_t wf_cuda_launch(const void *kernel, dim3 grid, dim3 block, void **arguments,
                                      size_t shared, cudaStream_t stream);

/** Launch kernel<<<grid, block, shared, stream>>>(arguments). */
template <class... Parameters, class... Arguments>
static inline cudaError_t gpu_launch(void (*kernel)(Parameters...), dim3 grid, dim3 block,
                                     size_t shared, cudaStream_t stream, Arguments... arguments)
{
    return [&](Parameters... parameters) {
        void *list[] = {(void *)&parameters..., nullptr};

        return wf_cuda_launch((const void *)kernel, grid, block, list, shared, stream);
    }((Parameters)arguments...);
}

/** Let a kernel have more than 48 KiB of shared memory. */
template <class... Parameters>
static inline cudaError_t gpu_allow_shared(void (*kernel)(Parameters...), size_t bytes)
{
    return cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                (int)bytes);
}

/** d += a b for a warp: a [16,16], b [16,8] of 16-bit floats, d [16,8] of f32, in the fragment
 *  layouts of PTX's mma.m16n8k16. */
__device__ __forceinline__ void gpu_mma_bf16(float (&d)[4], const uint32_t (&a)[4],
                                             const uint32_t (&b)[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ __forceinline__ void gpu_mma_f16(float (&d)[4], const uint32_t (&a)[4],
                                            const uint32_t (&b)[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/** f16 into f32 and back, by the hardware's instructions: in integers it takes a dozen. Rounded to
 *  nearest even; what is not a number becomes 0x7fff. */
__device__ __forceinline__ float gpu_f16_to_f32(uint16_t half)
{
    float value;

    asm("cvt.f32.f16 %0,%1;" : "=f"(value) : "h"(half));
    return value;
}
__device__ __forceinline__ uint16_t gpu_f32_to_f16(float value)
{
    uint16_t half;

    asm("cvt.rn.f16.f32 %0,%1;" : "=h"(half) : "f"(value));
    return half;
}

/** f32 into bf16, likewise; two in a row become one instruction. */
__device__ __forceinline__ uint16_t gpu_f32_to_bf16(float value)
{
    uint16_t half;

    asm("cvt.rn.bf16.f32 %0,%1;" : "=h"(half) : "f"(value));
    return half;
}

/** Two numbers in 16 bits each, rounded to nearest even, the first in the lower half. */
__device__ __forceinline__ uint32_t gpu_pack_bf16(float low, float high)
{
    uint32_t both;

    asm("cvt.rn.bf16x2.f32 %0,%1,%2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}
__device__ __forceinline__ uint32_t gpu_pack_f16(float low, float high)
{
    uint32_t both;

    asm("cvt.rn.f16x2.f32 %0,%1,%2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}

/** 2^x as the hardware has it, to 2 units of the last place; what has no normal number is 0. */
__device__ __forceinline__ float gpu_exp2(float x)
{
    float y;

    asm("ex2.approx.ftz.f32 %0,%1;" : "=f"(y) : "f"(x));
    return y;
}

/** 1 / x as the hardware has it, to 1 unit of the last place; of subnormal numbers infinity, and 0
 *  where the result would be one. */
__device__ __forceinline__ float gpu_inverse(float x)
{
    float y;

    asm("rcp.approx.ftz.f32 %0,%1;" : "=f"(y) : "f"(x));
    return y;
}

/** Four 8x8 matrices of 16-bit elements from shared memory; lanes 8i..8i+7 give the rows of matrix
 *  i, each 16-byte aligned. _transposed: the matrices are turned on the way. */
__device__ __forceinline__ void gpu_ldmatrix(uint32_t (&r)[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3},[%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(row))
                 : "memory");
}
__device__ __forceinline__ void gpu_ldmatrix_transposed(uint32_t (&r)[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3},[%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(row))
                 : "memory");
}

/** Write 16 bytes at once, to where they are aligned. nvcc's compiler for sm_90 takes such stores
 * apart where the words were computed one by one. */
__device__ __forceinline__ void gpu_store_16(void *global, const uint32_t (&words)[4])
{
    asm volatile("st.global.v4.b32 [%0],{%1,%2,%3,%4};" ::"l"(__cvta_generic_to_global(global)),
                 "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
                 : "memory");
}
__device__ __forceinline__ void gpu_store_shared_16(void *shared, const uint32_t (&words)[4])
{
    asm volatile(
        "st.shared.v4.b32 [%0],{%1,%2,%3,%4};" ::"r"((uint32_t)__cvta_generic_to_shared(shared)),
        "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
        : "memory");
}

/** Start to copy 16 bytes from global to shared memory, both 16-byte aligned. */
__device__ __forceinline__ void gpu_copy_async(void *shared, const void *global)
{
    asm volatile(
        "cp.async.cg.shared.global [%0],[%1],16;" ::"r"((uint32_t)__cvta_generic_to_shared(shared)),
        "l"(global)
        : "memory");
}
/** The copies since the last commit are one group; wait until all but the newest n groups of this
 *  thread have arrived. */
__device__ __forceinline__ void gpu_copy_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int n> __device__ __forceinline__ void gpu_copy_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory");
}

#else
#include "host_gpu.h"
#endif
