/* gemv_bf16.c: the product of a few rows in bf16; sums are f32. */
#define WF_TYPE_BF16
#include "kernels/cpu/isa/element_type.h"

#define GEMV_WIDENS
#include "kernels/cpu/isa/products/gemv.inc"
