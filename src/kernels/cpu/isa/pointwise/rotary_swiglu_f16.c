/* rotary_swiglu_f16.c: rotary positions and SwiGLU in f16. */
#define WF_TYPE_F16
#include "kernels/cpu/isa/element_type.h"

#include "kernels/cpu/isa/pointwise/rotary_swiglu.inc"
