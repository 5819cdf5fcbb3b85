/*
 * cuda_kernel.h: what every file of this folder shares on the host's side: the contract of
 * kernels.h, the stream and scratch memory of this rank (device/cuda/kernel_services.h), and
 * launches whose errors end the job.
 *
 * A file has, for one family of ops, the __global__ functions, and per op a prepare function
 * wf_cuda_NAME that chooses among them. prepare may fail (WF_FAIL, WF_NEED: alike on all ranks,
 * from descriptors alone); run only launches and never reads a device pointer; it allocates and
 * waits only where scratch memory has to grow. The functions of base (wf_fail, wf_die, wf_malloc,
 * ...) are the library's own; libweft-cuda.so calls them through a table
 * (src/device/cuda/library_calls.c).
 */
#pragma once

#include "kernels/cuda/gpu.h"

#include <math.h>
#include <string.h>

#define _Noreturn [[noreturn]]
extern "C" {
#define inline __host__ __device__ inline
#include "base/elements/dtype.h" /* its conversions are the kernels' too */
#undef inline
#include "base/error.h"
#include "base/mem.h"
#include "device/cuda/kernel_services.h"
#include "kernels/kernels.h"

/** Every CUDA kernel's prepare function: wf_cuda_NAME, of the names in kernels.def. */
#define WF_KERNEL(name, devices) wf_kernel_prepare wf_cuda_##name;
#include "kernels/kernels.def"
#undef WF_KERNEL
}

/** gpu_launch on the compute stream for the op of `k`; an error ends the job. */
#define WF_CUDA_LAUNCH(k, kernel, grid, block, shared, ...)                                        \
    wf_cuda_check_launch(                                                                          \
        gpu_launch(kernel, grid, block, shared, wf_cuda_compute_stream(), __VA_ARGS__), (k)->op)
