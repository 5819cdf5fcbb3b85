/* cuda_graph.h: graphs of this rank (device/device_driver.h) by CUDA's stream capture. */
#pragma once

#include <cuda_runtime_api.h>

#include "device/device_driver.h"

extern const struct wf_device_graphs wf_cuda_graphs;

/** Graphs of this rank that exist or are being captured: they use scratch memory as it was. */
int wf_cuda_graph_count(void);

/** cudaLaunchKernel, through which every launch of a kernel goes (kernels/cuda/gpu.h): inside a
 * part its node is noted, or gets these arguments instead. */
cudaError_t wf_cuda_launch(const void *kernel, dim3 grid, dim3 block, void **arguments,
                           size_t shared, cudaStream_t stream);
