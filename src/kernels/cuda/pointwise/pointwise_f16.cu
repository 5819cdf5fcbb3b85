/* pointwise_f16.cu: pointwise.def for f16. */
#define WF_TABLE wf_cuda_pointwise_f16
#define WF_ELEMENT f16
#define WF_IS_REAL 1
#include "kernels/cuda/pointwise/pointwise_table.inc"
