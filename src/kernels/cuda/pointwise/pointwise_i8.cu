/* pointwise_i8.cu: pointwise.def for i8. */
#define WF_TABLE wf_cuda_pointwise_i8
#define WF_ELEMENT int8_t
#define WF_IS_REAL 0
#include "kernels/cuda/pointwise/pointwise_table.inc"
