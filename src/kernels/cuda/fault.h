/*
 * fault.h: how a kernel tells what only it can see and what ends the job: a weight that is no
 * number, an index outside its table. It writes what it saw into memory of the host, once, and goes
 * on with whatever harms nobody. The device layer calls wf_cuda_die_on_fault when it has waited for
 * the device; that ends the job with a sentence.
 */
#pragma once

#include "kernels/cuda/cuda_kernel.h"

enum wf_cuda_fault_kind {
    WF_CUDA_FAULT_INDEX,        /* embedding: of `number`, where there are `limit` */
    WF_CUDA_FAULT_INDEX_OF_DIM, /* of an index tensor: `number`, where there are `limit` */
    WF_CUDA_FAULT_CLASS,        /* nll_loss: target `number`, where there are `limit` classes */
    WF_CUDA_FAULT_WEIGHT,       /* multinomial: `value` at index `number` of a row */
    WF_CUDA_FAULT_FEW_WEIGHTS,  /* multinomial: `number` are positive, `limit` are needed */
    WF_CUDA_FAULT_GROUP_END,    /* grouped_mm: of group `value`: `number`, of `limit` rows */
    WF_CUDA_FAULTS
};

__device__ __forceinline__ void record_fault(struct wf_cuda_fault *fault,
                                             enum wf_cuda_fault_kind kind, int64_t number,
                                             int64_t limit, double value)
{
    if (atomicAdd(&fault->told, 1)) return;
    fault->kind = kind;
    fault->number = number;
    fault->limit = limit;
    fault->value = value;
    __threadfence_system(); /* the host may read while this kernel still runs */
    fault->complete = 1;
}
