/* pointwise_f32.c: pointwise.def for f32. */
#define WF_TYPE_F32
#include "kernels/cpu/isa/element_type.h"

#if defined(__AVX512DQ__)
#include "kernels/cpu/isa/pointwise/gelu_avx512.h"

#define WF_GELU_LOOP gelu_avx512 /* in place of the loop over WF_GELU */
#endif
#ifdef FP_FAST_FMAF
#define WF_TAN_LOOP tan_by_blocks_f32 /* likewise */
#endif
#include "kernels/cpu/isa/pointwise/pointwise.inc"
