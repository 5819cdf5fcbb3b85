/* pointwise_i16.cu: pointwise.def for i16. */
#define WF_TABLE wf_cuda_pointwise_i16
#define WF_ELEMENT int16_t
#define WF_IS_REAL 0
#include "kernels/cuda/pointwise/pointwise_table.inc"
