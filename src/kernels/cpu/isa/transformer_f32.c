/* transformer_f32.c: rotary positions and SwiGLU in f32. */
#define WF_TYPE_F32
#include "kernels/cpu/isa/type.h"

#include "kernels/cpu/isa/transformer.inc"
