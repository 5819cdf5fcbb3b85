/* gemv_f16.c: the product of a few rows in f16; sums are f32. */
#define WF_TYPE_F16
#include "kernels/cpu/isa/element_type.h"

#define GEMV_CONVERTS
#include "kernels/cpu/isa/products/gemv.inc"
