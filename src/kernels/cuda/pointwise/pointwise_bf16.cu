/* pointwise_bf16.cu: pointwise.def for bf16. */
#include "kernels/cuda/pointwise/bf16_functions.h"

#undef WF_GELU
#undef WF_DGELU
#define WF_GELU(v) ((v)*normcdf_of_bf16(v))
#define WF_DGELU(v) dgelu_of_bf16(v)

#define WF_TABLE wf_cuda_pointwise_bf16
#define WF_ELEMENT bf16
#define WF_IS_REAL 1
#include "kernels/cuda/pointwise/pointwise_table.inc"
