/* rotary_swiglu_f32.c: rotary positions and SwiGLU in f32. */
#define WF_TYPE_F32
#include "kernels/cpu/isa/element_type.h"

#include "kernels/cpu/isa/pointwise/rotary_swiglu.inc"
