/* pointwise_i32.c: pointwise.def for i32. */
#define WF_TYPE_I32
#include "kernels/cpu/isa/element_type.h"

#include "kernels/cpu/isa/pointwise/pointwise.inc"
