/*
 * kernel_services.h: what the CUDA kernels ask of the device of their rank, and what they tell it.
 * C and C++ read it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/** The compute stream of this rank: kernels run on it in the order of their launches. */
struct CUstream_st *wf_cuda_compute_stream(void);

/** `bytes` of device memory that later kernels of the compute stream may overwrite once the
 * caller's have run; kept between calls, so a second call with as many bytes allocates nothing. */
void *wf_cuda_scratch(size_t bytes);

/** `close` runs when this rank gives its device back, which is idle then: for what a kernel's file
 * keeps per rank. At most 4 of them. */
void wf_cuda_at_close(void (*close)(void));

/** What the device has: multiprocessors, shared memory that a block may ask for. */
int wf_cuda_multiprocessors(void);
size_t wf_cuda_max_shared_bytes(void);

/** End the job when `error` (cudaError_t) is one, with CUDA's own text and the op. */
void wf_cuda_check_launch(int error, const char *op);

/** What a kernel alone can see and what ends the job; kernels/cuda/fault.h has the kinds. */
struct wf_cuda_fault {
    int told;     /* how often; the first to tell writes the rest */
    int complete; /* it has written */
    int kind;
    int64_t number, limit;
    double value;
};

/** This rank's, pinned: kernels write to it, the host reads it. Zeros at first. */
struct wf_cuda_fault *wf_cuda_fault_memory(void);

/** End the job if a kernel that has run told a fault. The kernels' own (fault.cu); called when the
 *  host has waited for the device. */
void wf_cuda_die_on_fault(void);
