/*
 * sums.cu: sums and maxima over gradients, in f64. Which elements a thread adds, and in which
 * order, depends on their number alone; the partial results of blocks are put together by one
 * block.
 */
#include "kernels/cuda/optimizer/optimizer_kernels.h"

enum { GROUP = 4, MOST_BLOCKS = 512, GROUPS = 8 }; /* groups that a thread has, if there are few */

/* ---- what is added up ---- */

struct squares {
    static __device__ __forceinline__ double join(double a, double b) { return a + b; }
    __device__ __forceinline__ double of(double x) const { return x * x; }
};

struct sizes {
    static __device__ __forceinline__ double join(double a, double b) { return a + b; }
    __device__ __forceinline__ double of(double x) const { return fabs(x); }
};

struct powers {
    double p;

    static __device__ __forceinline__ double join(double a, double b) { return a + b; }
    __device__ __forceinline__ double of(double x) const { return pow(fabs(x), p); }
};

struct largest {
    /* What is not a number stays so. */
    static __device__ __forceinline__ double join(double a, double b)
    {
        return b > a || b != b ? b : a;
    }
    __device__ __forceinline__ double of(double x) const { return fabs(x); }
};

/* ---- kernels ---- */

/* The block's values as one, in thread 0. */
template <class F>
__device__ __forceinline__ double join_block(double value, double (&of_thread)[WF_CUDA_BLOCK])
{
    of_thread[threadIdx.x] = value;
    for (unsigned n = WF_CUDA_BLOCK / 2; n; n /= 2) {
        __syncthreads();
        if (threadIdx.x < n)
            of_thread[threadIdx.x] = F::join(of_thread[threadIdx.x], of_thread[threadIdx.x + n]);
    }
    return threadIdx.x ? value : of_thread[0]; /* which thread 0 alone has written last */
}

/* A group that is not whole has zeros, which add nothing and are larger than nothing. */
template <class F, class E>
__global__ void __launch_bounds__(WF_CUDA_BLOCK)
    join_elements(F f, const E *x, int64_t count, bool whole, double *partial, double *total)
{
    GPU_SHARED(double, of_thread, [WF_CUDA_BLOCK]);
    const int64_t step = (int64_t)gridDim.x * WF_CUDA_BLOCK * GROUP;
    double value = 0;

    for (int64_t at = ((int64_t)blockIdx.x * WF_CUDA_BLOCK + threadIdx.x) * GROUP; at < count;
         at += step) {
        E group[GROUP];

        load_some(group, x + at, count - at < GROUP ? (int)(count - at) : (int)GROUP, whole);
#pragma unroll
        for (int i = 0; i < GROUP; i++) value = F::join(value, f.of((double)to_real(group[i])));
    }
    value = join_block<F>(value, of_thread);
    if (threadIdx.x) return;
    if (gridDim.x == 1)
        *total = F::join(*total, value);
    else
        partial[blockIdx.x] = value;
}

template <class F>
__global__ void __launch_bounds__(WF_CUDA_BLOCK)
    join_partials(const double *partial, int n, double *total)
{
    GPU_SHARED(double, of_thread, [WF_CUDA_BLOCK]);
    double value = 0;

    for (int i = threadIdx.x; i < n; i += WF_CUDA_BLOCK) value = F::join(value, partial[i]);
    value = join_block<F>(value, of_thread);
    if (threadIdx.x == 0) *total = F::join(*total, value);
}

/* ---- running ---- */

template <class F, class E>
static void join_array(const F &f, int64_t count, const void *x, double *total)
{
    const int64_t per_block = WF_CUDA_BLOCK * GROUP * GROUPS;
    int64_t needed = (count + per_block - 1) / per_block;
    int blocks = needed < MOST_BLOCKS ? (int)needed : (int)MOST_BLOCKS;
    double *partial = blocks > 1 ? (double *)wf_cuda_scratch(MOST_BLOCKS * sizeof *partial) : NULL;
    bool whole = (uintptr_t)x % (GROUP * sizeof(E)) == 0;

    if (count == 0) return;
    wf_cuda_check_launch(gpu_launch(join_elements<F, E>, dim3((unsigned)blocks),
                                    dim3(WF_CUDA_BLOCK), 0, wf_cuda_compute_stream(), f,
                                    (const E *)x, count, whole, partial, total),
                         "sum of gradients");
    if (blocks == 1) return;
    wf_cuda_check_launch(gpu_launch(join_partials<F>, dim3(1), dim3(WF_CUDA_BLOCK), 0,
                                    wf_cuda_compute_stream(), partial, blocks, total),
                         "sum of gradients");
}

template <class F>
static void join_dtype(const F &f, weft_dtype dtype, int64_t count, const void *x, double *total)
{
    with_float_type(dtype,
                    [&](auto e) { join_array<F, typename decltype(e)::type>(f, count, x, total); });
}

void wf_cuda_add_squares(weft_dtype dtype, int64_t count, const void *x, double *total)
{
    join_dtype(squares(), dtype, count, x, total);
}

void wf_cuda_add_powers(weft_dtype dtype, int64_t count, const void *x, double p, double *total)
{
    if (p == 1)
        join_dtype(sizes(), dtype, count, x, total);
    else
        join_dtype(powers{p}, dtype, count, x, total);
}

void wf_cuda_atomic_max(weft_dtype dtype, int64_t count, const void *x, double *total)
{
    join_dtype(largest(), dtype, count, x, total);
}
