/* attention_f16.c: attention in f16. */
#define WF_TYPE_F16
#include "kernels/cpu/isa/element_type.h"

#include "kernels/cpu/isa/attention/attention.inc"
#include "kernels/cpu/isa/attention/attention_grad.inc"
