/* blocked_gemm_f64.c: the blocked product in f64. */
#define WF_TYPE_F64
#include "kernels/cpu/isa/element_type.h"

#include "kernels/cpu/isa/products/blocked_gemm.inc"
