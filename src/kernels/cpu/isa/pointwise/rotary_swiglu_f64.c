/* rotary_swiglu_f64.c: rotary positions and SwiGLU in f64. */
#define WF_TYPE_F64
#include "kernels/cpu/isa/element_type.h"

#include "kernels/cpu/isa/pointwise/rotary_swiglu.inc"
