/* pointwise_i32.cu: pointwise.def for i32. */
#define WF_TABLE wf_cuda_pointwise_i32
#define WF_ELEMENT int32_t
#define WF_IS_REAL 0
#include "kernels/cuda/pointwise/pointwise_table.inc"
