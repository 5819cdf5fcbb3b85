/* blocked_gemm_f32.c: the blocked product in f32. */
#define WF_TYPE_F32
#include "kernels/cpu/isa/element_type.h"

#include "kernels/cpu/isa/products/blocked_gemm.inc"
