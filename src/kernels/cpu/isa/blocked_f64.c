/* blocked_f64.c: the blocked product in f64. */
#define WF_TYPE_F64
#include "kernels/cpu/isa/type.h"

#include "kernels/cpu/isa/blocked.inc"
