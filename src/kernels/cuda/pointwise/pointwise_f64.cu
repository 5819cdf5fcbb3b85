/* pointwise_f64.cu: pointwise.def for f64. */
#define WF_TABLE wf_cuda_pointwise_f64
#define WF_ELEMENT double
#define WF_IS_REAL 1
#include "kernels/cuda/pointwise/pointwise_table.inc"
