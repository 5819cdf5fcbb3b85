/* embedding_f64.c: sums of embedding gradients in f64. */
#define WF_TYPE_F64
#include "kernels/cpu/isa/element_type.h"

#include "kernels/cpu/isa/embedding.inc"
