/* check_trace.cu: what the trace counts of accesses whose sectors and passes follow from CUDA's
 * manual. */
#include <stdio.h>

#include "access_trace.h"
#include "kernels/cuda/gpu.h"

enum { THREADS = 64, BLOCKS = 10, WARPS = THREADS / 32 };

/* Lanes read floats that are `step` apart and write them beside each other. */
__global__ void copy_with_step(const float *from, float *to, int step)
{
    int i = blockIdx.x * THREADS + threadIdx.x;

    to[i] = from[i * step] * 2.0f + 1.0f;
}

/* Lanes write words of shared memory that are `step` apart. */
__global__ void share_with_step(float *to, int step)
{
    GPU_SHARED(float, words, [THREADS * 32]);
    int i = threadIdx.x;

    words[i * step] = (float)i;
    __syncthreads();
    to[blockIdx.x * THREADS + i] = words[(THREADS - 1 - i) * step];
}

static int failures;

static void expect(const char *what, double got, double want)
{
    if (got == want) return;
    printf("%s: %g, not %g\n", what, got, want);
    failures++;
}

static wt_cuda_launch traced(int blocks, const float *from, float *to, int step, cudaStream_t s)
{
    wt_cuda_launch launch = {};

    wt_cuda_trace_begin(blocks);
    if (from)
        copy_with_step<<<BLOCKS, THREADS, 0, s>>>(from, to, step);
    else
        share_with_step<<<BLOCKS, THREADS, 0, s>>>(to, step);
    if (cudaStreamSynchronize(s) != cudaSuccess) failures++;
    expect("launches", wt_cuda_trace_end(&launch, 1), 1);
    return launch;
}

static void check_global(const float *from, float *to, cudaStream_t s)
{
    wt_cuda_launch one = traced(0, from, to, 1, s), far = traced(0, from, to, 8, s);
    wt_cuda_launch none = traced(-1, from, to, 1, s), three = traced(3, from, to, 1, s);

    expect("sectors read side by side", one.sectors_read, BLOCKS * WARPS * 4);
    expect("sectors written", one.sectors_written, BLOCKS * WARPS * 4);
    expect("sectors read 32 bytes apart", far.sectors_read, BLOCKS * WARPS * 32);
    expect("useful bytes", far.useful_bytes, BLOCKS * THREADS * 8);
    expect("operations on floats", one.flops, BLOCKS * THREADS * 2);
    expect("blocks, none run", none.blocks_traced + none.sectors_read, 0);
    expect("blocks, three run", three.blocks_traced, 3);
    expect("sectors of three blocks", three.sectors_of_blocks, 3 * WARPS * 8);
}

static void check_shared(float *to, cudaStream_t s)
{
    wt_cuda_launch beside = traced(0, nullptr, to, 1, s), two = traced(0, nullptr, to, 2, s);
    wt_cuda_launch same = traced(0, nullptr, to, 32, s), one = traced(0, nullptr, to, 0, s);

    expect("passes, side by side", beside.shared_passes, BLOCKS * WARPS * 2);
    expect("least passes", same.shared_passes_least, BLOCKS * WARPS * 2);
    expect("passes, every second bank", two.shared_passes, BLOCKS * WARPS * 4);
    expect("passes, one bank", same.shared_passes, BLOCKS * WARPS * 64);
    expect("the worst access", same.worst_ratio, 32);
    expect("passes, one word for all", one.shared_passes, BLOCKS * WARPS * 2);
}

int main()
{
    cudaStream_t s;
    float *from, *to;

    if (cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking) != cudaSuccess ||
        cudaMallocAsync(&from, BLOCKS * THREADS * 8 * sizeof *from, s) != cudaSuccess ||
        cudaMallocAsync(&to, BLOCKS * THREADS * sizeof *to, s) != cudaSuccess ||
        cudaMemsetAsync(from, 0, BLOCKS * THREADS * 8 * sizeof *from, s) != cudaSuccess)
        return 2;
    check_global(from, to, s);
    check_shared(to, s);
    return failures > 0;
}
