/* pointwise_u8.c: pointwise.def for u8. */
#define WF_TYPE_U8
#include "kernels/cpu/isa/element_type.h"

#include "kernels/cpu/isa/pointwise/pointwise.inc"
