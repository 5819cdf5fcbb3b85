/* pointwise_bf16.cu: pointwise.def for bf16. */
#define WF_TABLE wf_cuda_pointwise_bf16
#define WF_ELEMENT bf16
#define WF_IS_REAL 1
#include "kernels/cuda/pointwise/pointwise_table.inc"
