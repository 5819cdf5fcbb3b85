/* blocked_f32.c: the blocked product in f32. */
#define WF_TYPE_F32
#include "kernels/cpu/isa/type.h"

#include "kernels/cpu/isa/blocked.inc"
