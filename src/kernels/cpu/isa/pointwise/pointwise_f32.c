/* pointwise_f32.c: pointwise.def for f32. */
#define WF_TYPE_F32
#include "kernels/cpu/isa/element_type.h"

#include "kernels/cpu/isa/pointwise/pointwise.inc"
