/* pointwise_f32.cu: pointwise.def for f32. */
#define WF_TABLE wf_cuda_pointwise_f32
#define WF_ELEMENT float
#define WF_IS_REAL 1
#include "kernels/cuda/pointwise/pointwise_table.inc"
