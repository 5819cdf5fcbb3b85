/* blocked_gemm_f16.c: the blocked product of f16, in f32: for CPUs that have no f16 products. */
#define WF_TYPE_F16
#include "kernels/cpu/isa/element_type.h"

#define WF_BLOCKED_WIDENS
#include "kernels/cpu/isa/products/blocked_gemm.inc"
