/* pointwise_u8.cu: pointwise.def for u8. */
#define WF_TABLE wf_cuda_pointwise_u8
#define WF_ELEMENT uint8_t
#define WF_IS_REAL 0
#include "kernels/cuda/pointwise/pointwise_table.inc"
