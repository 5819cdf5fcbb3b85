/* pointwise_f64.c: pointwise.def for f64. */
#define WF_TYPE_F64
#include "kernels/cpu/isa/element_type.h"

#include "kernels/cpu/isa/pointwise/pointwise.inc"
