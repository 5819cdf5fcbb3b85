/* attention_bf16.c: attention in bf16. */
#define WF_TYPE_BF16
#include "kernels/cpu/isa/element_type.h"

#include "kernels/cpu/isa/attention/attention.inc"
#include "kernels/cpu/isa/attention/attention_grad.inc"
