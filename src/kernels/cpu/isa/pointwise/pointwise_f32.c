/* pointwise_f32.c: pointwise.def for f32. */
#define WF_TYPE_F32
#include "kernels/cpu/isa/element_type.h"

#if defined(__AVX512F__)
#include "kernels/cpu/isa/pointwise/gelu_of_vectors.h"

#define WF_GELU_OF_VECTORS gelu_of_vectors
#endif
#include "kernels/cpu/isa/pointwise/pointwise.inc"
