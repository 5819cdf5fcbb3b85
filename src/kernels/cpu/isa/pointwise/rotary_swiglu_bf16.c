/* rotary_swiglu_bf16.c: rotary positions and SwiGLU in bf16. */
#define WF_TYPE_BF16
#include "kernels/cpu/isa/element_type.h"

#include "kernels/cpu/isa/pointwise/rotary_swiglu.inc"
