/* transformer_f64.c: rotary positions and SwiGLU in f64. */
#define WF_TYPE_F64
#include "kernels/cpu/isa/type.h"

#include "kernels/cpu/isa/transformer.inc"
