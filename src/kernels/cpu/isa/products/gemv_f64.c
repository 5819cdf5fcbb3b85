/* gemv_f64.c: the product of a few rows in f64. */
#define WF_TYPE_F64
#include "kernels/cpu/isa/element_type.h"

#include "kernels/cpu/isa/products/gemv.inc"
