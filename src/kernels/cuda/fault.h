/*
 * fault.h: how a kernel tells what only it can see and what ends the job: a weight that is no
 * number, an index outside its table. It writes what it saw into memory of the host, once, and goes
 * on with whatever harms nobody. The device layer calls wf_cuda_die_on_fault when it has waited for
 * the device; that ends the job with a sentence.
 */
#pragma once

#include "kernels/cuda/cuda_kernel.h"

enum wf_cuda_fault_kind {
    WF_CUDA_FAULT_INDEX,       /* embedding: of `number`, where there are `limit` */
    WF_CUDA_FAULT_WEIGHT,      /* multinomial: `value` at index `number` of a row */
    WF_CUDA_FAULT_FEW_WEIGHTS, /* multinomial: `number` are positive, `limit` are needed */
    WF_CUDA_FAULTS
};

struct wf_cuda_fault {
    int told; /* how often; the first to tell writes the rest */
    int kind;
    int64_t number, limit;
    double value;
};

extern "C" {
/** This rank's, pinned: kernels write to it, the host reads it. Zeros at first. */
struct wf_cuda_fault *wf_cuda_fault_memory(void);

/** End the job if a kernel that has run told a fault. */
void wf_cuda_die_on_fault(void);
}

__device__ __forceinline__ void record_fault(struct wf_cuda_fault *fault,
                                             enum wf_cuda_fault_kind kind, int64_t number,
                                             int64_t limit, double value)
{
    if (atomicAdd(&fault->told, 1)) return;
    fault->kind = kind;
    fault->number = number;
    fault->limit = limit;
    fault->value = value;
}
