/* embedding_f16.c: sums of embedding gradients in f16. */
#define WF_TYPE_F16
#include "kernels/cpu/isa/element_type.h"

#include "kernels/cpu/isa/embedding.inc"
