/* pointwise_i64.cu: pointwise.def for i64. */
#define WF_TABLE wf_cuda_pointwise_i64
#define WF_ELEMENT int64_t
#define WF_IS_REAL 0
#include "kernels/cuda/pointwise/pointwise_table.inc"
