/* attention_f64.c: attention in f64. */
#define WF_TYPE_F64
#include "kernels/cpu/isa/type.h"

#include "kernels/cpu/isa/attention.inc"
#include "kernels/cpu/isa/attention_grad.inc"
