/*
 * group_reduce.h: a value per thread becomes one for the group: a warp, or a block of whole warps.
 * Every thread gets the same bits, and so does every call.
 */
#pragma once

#include "kernels/cuda/element.h"

enum { WARP = 32, BLOCK = 256, WARPS = BLOCK / WARP };

/** The lowest value of a type that is computed in. */
template <class T> __device__ __forceinline__ T lowest();
template <> __device__ __forceinline__ float lowest<float>() { return -INFINITY; }
template <> __device__ __forceinline__ double lowest<double>() { return -INFINITY; }
template <> __device__ __forceinline__ int32_t lowest<int32_t>() { return INT32_MIN; }
template <> __device__ __forceinline__ int64_t lowest<int64_t>() { return INT64_MIN; }

/** The highest. */
template <class T> __device__ __forceinline__ T highest();
template <> __device__ __forceinline__ float highest<float>() { return INFINITY; }
template <> __device__ __forceinline__ double highest<double>() { return INFINITY; }
template <> __device__ __forceinline__ int32_t highest<int32_t>() { return INT32_MAX; }
template <> __device__ __forceinline__ int64_t highest<int64_t>() { return INT64_MAX; }

template <class T> __device__ __forceinline__ T shuffle_xor(T value, int lanes)
{
    uint32_t words[sizeof(T) / 4];

    memcpy(words, &value, sizeof value);
    for (unsigned i = 0; i < sizeof(T) / 4; i++) words[i] = __shfl_xor_sync(~0u, words[i], lanes);
    memcpy(&value, words, sizeof value);
    return value;
}

/** Lane `from`'s value. */
template <class T> __device__ __forceinline__ T value_of_lane(T value, int from)
{
    uint32_t words[sizeof(T) / 4];

    memcpy(words, &value, sizeof value);
    for (unsigned i = 0; i < sizeof(T) / 4; i++) words[i] = __shfl_sync(~0u, words[i], from);
    memcpy(&value, words, sizeof value);
    return value;
}

struct take_sum {
    template <class T> __device__ __forceinline__ T operator()(T a, T b) const { return a + b; }
};

/** The larger, or what is not a number. */
struct take_max {
    template <class T> __device__ __forceinline__ T operator()(T a, T b) const
    {
        return b > a || b != b ? b : a;
    }
};

/** The smaller, or what is not a number. */
struct take_min {
    template <class T> __device__ __forceinline__ T operator()(T a, T b) const
    {
        return b < a || b != b ? b : a;
    }
};

/** Integers wrap. */
struct take_product {
    __device__ __forceinline__ float operator()(float a, float b) const { return a * b; }
    __device__ __forceinline__ double operator()(double a, double b) const { return a * b; }
    __device__ __forceinline__ int64_t operator()(int64_t a, int64_t b) const
    {
        return (int64_t)((uint64_t)a * (uint64_t)b);
    }
};

template <class T, class Take> __device__ __forceinline__ T warp_reduce(T value, Take take)
{
#pragma unroll
    for (int lanes = WARP / 2; lanes; lanes /= 2) value = take(value, shuffle_xor(value, lanes));
    return value;
}

/** Over a group of blockDim.x threads, whole warps. All groups of a block (blockDim.y) call it
 * together, unless they have one warp each. `shared` has room for every warp of the block and is
 * used until the next call's first barrier. */
template <class T, class Take>
__device__ __forceinline__ T group_reduce(T value, Take take, T *shared)
{
    value = warp_reduce(value, take);
    if (blockDim.x == WARP) return value;
    shared += threadIdx.y * (blockDim.x / WARP);
    __syncthreads();
    if (threadIdx.x % WARP == 0) shared[threadIdx.x / WARP] = value;
    __syncthreads();
    value = shared[0];
    for (unsigned w = 1; w < blockDim.x / WARP; w++) value = take(value, shared[w]);
    return value;
}

/** The threads of a block in which each group has `width` threads: groups of one warp share a
 * block. */
static inline dim3 block_dim_for_groups(int width)
{
    return dim3((unsigned)width, width == WARP ? WARPS : 1);
}

/** Blocks for so many things with `each` in a block. */
static inline unsigned blocks_for(int64_t things, int64_t each)
{
    return (unsigned)((things + each - 1) / each);
}
