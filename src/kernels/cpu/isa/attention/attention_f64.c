/* attention_f64.c: attention in f64. */
#define WF_TYPE_F64
#include "kernels/cpu/isa/element_type.h"

#include "kernels/cpu/isa/attention/attention.inc"
#include "kernels/cpu/isa/attention/attention_grad.inc"
