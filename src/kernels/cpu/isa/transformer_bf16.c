/* transformer_bf16.c: rotary positions and SwiGLU in bf16. */
#define WF_TYPE_BF16
#include "kernels/cpu/isa/type.h"

#include "kernels/cpu/isa/transformer.inc"
