/* pointwise_i64.c: pointwise.def for i64. */
#define WF_TYPE_I64
#include "kernels/cpu/isa/element_type.h"

#include "kernels/cpu/isa/pointwise/pointwise.inc"
