/* attention_f32.c: attention in f32. */
#define WF_TYPE_F32
#include "kernels/cpu/isa/type.h"

#include "kernels/cpu/isa/attention.inc"
#include "kernels/cpu/isa/attention_grad.inc"
