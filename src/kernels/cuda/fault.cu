/* fault.cu: the sentences of faults that kernels tell. */
#include "kernels/cuda/fault.h"

void wf_cuda_die_on_fault(void)
{
    struct wf_cuda_fault *memory = wf_cuda_fault_memory(), fault;
    long long number, limit;

    if (!__atomic_load_n(&memory->complete, __ATOMIC_ACQUIRE)) return;
    fault = *memory;
    *memory = {};
    number = (long long)fault.number;
    limit = (long long)fault.limit;
    switch (fault.kind) {
    case WF_CUDA_FAULT_INDEX:
        WF_DIE("embedding: index %lld, where the table has %lld rows", number, limit);
    case WF_CUDA_FAULT_INDEX_OF_DIM:
        WF_DIE("indexing: index %lld is outside a dim of %lld elements", number, limit);
    case WF_CUDA_FAULT_CLASS:
        WF_DIE("nll_loss: target %lld is none of %lld classes, and is not ignored", number, limit);
    case WF_CUDA_FAULT_WEIGHT:
        WF_DIE("multinomial: weight %g at index %lld of a row", fault.value, number);
    case WF_CUDA_FAULT_GROUP_END:
        WF_DIE("grouped_mm: group %.0f ends at row %lld; ends ascend, and there are %lld rows",
               fault.value, number, limit);
    default:
        WF_DIE("multinomial: a row has %lld positive weights, and %lld are needed", number, limit);
    }
}
