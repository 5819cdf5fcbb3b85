/* pointwise_f16.c: pointwise.def for f16. */
#define WF_TYPE_F16
#include "kernels/cpu/isa/element_type.h"

#define WF_BY_BLOCKS
#include "kernels/cpu/isa/pointwise/pointwise.inc"
