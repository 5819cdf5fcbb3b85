/* embedding_bf16.c: sums of embedding gradients in bf16. */
#define WF_TYPE_BF16
#include "kernels/cpu/isa/element_type.h"

#include "kernels/cpu/isa/embedding.inc"
