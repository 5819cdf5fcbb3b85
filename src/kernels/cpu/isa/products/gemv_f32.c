/* gemv_f32.c: the product of a few rows in f32. */
#define WF_TYPE_F32
#include "kernels/cpu/isa/element_type.h"

#include "kernels/cpu/isa/products/gemv.inc"
