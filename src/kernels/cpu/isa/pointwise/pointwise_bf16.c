/* pointwise_bf16.c: pointwise.def for bf16. */
#define WF_TYPE_BF16
#include "kernels/cpu/isa/element_type.h"

#define WF_LIBM_BY_BLOCKS
#define WF_SIGN_BIT 0x8000u
#include "kernels/cpu/isa/pointwise/pointwise.inc"
