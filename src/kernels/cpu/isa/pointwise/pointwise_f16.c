/* pointwise_f16.c: pointwise.def for f16. */
#define WF_TYPE_F16
#include "kernels/cpu/isa/element_type.h"

#include "kernels/cpu/isa/pointwise/pointwise.inc"
