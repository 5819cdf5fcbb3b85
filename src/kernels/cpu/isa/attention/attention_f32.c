/* attention_f32.c: attention in f32. */
#define WF_TYPE_F32
#include "kernels/cpu/isa/element_type.h"

#include "kernels/cpu/isa/attention/attention.inc"
#include "kernels/cpu/isa/attention/attention_grad.inc"
