/* pointwise_bf16.c: pointwise.def for bf16. */
#define WF_TYPE_BF16
#include "kernels/cpu/isa/element_type.h"

#include "kernels/cpu/isa/pointwise/bf16_pairs.h"

#undef WF_STORE
#undef WF_SCALAR
#undef WF_GELU
#undef WF_DGELU
#undef WF_LOG
#undef WF_LOGIT
#define WF_STORE(t) bf16_from_computed(t)
#define WF_SCALAR(v) bf16_scalar(v)
#define WF_GELU(v) ((v)*normcdf_for_bf16(v))
#define WF_DGELU(v) dgelu_for_bf16(v)
#define WF_LOG(v) log_for_bf16(v)
#define WF_LOGIT(p) logit_for_bf16(p)

#define WF_LIBM_BY_BLOCKS
#define WF_SIGN_BIT 0x8000u
#include "kernels/cpu/isa/pointwise/pointwise.inc"
