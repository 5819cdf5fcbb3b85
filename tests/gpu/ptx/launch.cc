/* launch.cc: launches of kernels (kernels/cuda/gpu.h) where there are no graphs. */
#include <cuda_runtime_api.h>

extern "C" cudaError_t wf_cuda_launch(const void *kernel, dim3 grid, dim3 block, void **arguments,
                                      size_t shared, cudaStream_t stream)
{
    return cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}
