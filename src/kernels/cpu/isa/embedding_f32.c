/* embedding_f32.c: sums of embedding gradients in f32. */
#define WF_TYPE_F32
#include "kernels/cpu/isa/element_type.h"

#include "kernels/cpu/isa/embedding.inc"
