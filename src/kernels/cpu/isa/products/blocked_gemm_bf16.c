/* blocked_gemm_bf16.c: the blocked product of bf16, in f32: for CPUs that have no bf16 products. */
#define WF_TYPE_BF16
#include "kernels/cpu/isa/element_type.h"

#define WF_BLOCKED_WIDENS
#include "kernels/cpu/isa/products/blocked_gemm.inc"
