/*
 * element_type.h: the element type that a template (.inc) is compiled for.
 *
 *     #define WF_TYPE_BF16
 *     #include "kernels/cpu/isa/element_type.h"
 *     #include "kernels/cpu/isa/norm.inc"
 *
 * WF_E is the element in memory, WF_T the type it is computed in, WF_LOAD and WF_STORE go between
 * them, WF_SCALAR makes a WF_T of a double, WF_NAME(f) is f_bf16, WF_IS_REAL is 1 for floats,
 * WF_IN_F32 for those that are computed in f32, WF_INFINITY_BITS the infinity of 16-bit ones;
 * WF_LOW_HALF and WF_HIGH_HALF are the two of a pair of bf16.
 * WF_EXP etc. are what pointwise.def needs. Included again and again, hence no guard.
 */
#include <limits.h>

#include "base/elements/dtype.h"
#include "kernels/cpu/isa/integer_math.h"
#include "kernels/cpu/isa/libm_vectors.h"
#include "kernels/cpu/isa/pointwise/gelu.h"
#include "kernels/cpu/isa/pointwise/libm_f32.h"
#include "kernels/cpu/isa/pointwise/special_functions_f32.h"
#include "kernels/cpu/isa/vmath.h"
#include "kernels/pointwise_functions.h"

#ifndef WF_TYPE_HELPERS
#define WF_TYPE_HELPERS
/** Round to nearest even without a branch. */
static inline wf_bf16 bf16_from_f32(float value)
{
    uint32_t bits, rounded;

    memcpy(&bits, &value, sizeof bits);
    rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return (wf_bf16)(value != value ? (bits >> 16) | 0x40u : rounded);
}

/** Two neighbours in memory, the first in the lower half. */
typedef uint32_t __attribute__((may_alias, aligned(2))) wf_element_pair;

/** Of a 16-bit float: integers in the order of its values, -0 before 0, NaN before -inf or after
 * +inf. It is its own inverse. */
static inline int16_t order_of_bits(uint16_t bits)
{
    return (int16_t)(bits ^ ((uint16_t)((int16_t)bits >> 15) & 0x7fffu));
}
#endif

#undef WF_E
#undef WF_T
#undef WF_LOAD
#undef WF_STORE
#undef WF_SCALAR
#undef WF_NAME
#undef WF_F
#undef WF_LOWEST
#undef WF_HIGHEST
#undef WF_IS_REAL
#undef WF_IN_F32
#undef WF_DIV_TRUNC
#undef WF_DIV_FLOOR
#undef WF_CEIL
#undef WF_FLOOR
#undef WF_TRUNC
#undef WF_ROUND
#undef WF_POW
#undef WF_FMOD
#undef WF_ABS
#undef WF_INFINITY_BITS
#undef WF_LOW_HALF
#undef WF_HIGH_HALF
#undef WF_FINITE
#undef WF_INFINITE

#if defined(WF_TYPE_F32)
#define WF_E float
#define WF_T float
#define WF_LOAD(e) (e)
#define WF_STORE(t) (t)
#define WF_SCALAR(v) (float)(v)
#define WF_NAME(f) f##_f32
#define WF_F(f) f##_f32
#define WF_LOWEST (-(float)INFINITY)
#define WF_HIGHEST ((float)INFINITY)
#define WF_IS_REAL 1
#elif defined(WF_TYPE_F64)
#define WF_E double
#define WF_T double
#define WF_LOAD(e) (e)
#define WF_STORE(t) (t)
#define WF_SCALAR(v) (v)
#define WF_NAME(f) f##_f64
#define WF_F(f) f##_f64
#define WF_LOWEST (-(double)INFINITY)
#define WF_HIGHEST ((double)INFINITY)
#define WF_IS_REAL 1
#elif defined(WF_TYPE_BF16)
#define WF_E wf_bf16
#define WF_T float
#define WF_LOAD(e) wf_bf16_to_f32(e)
#define WF_STORE(t) bf16_from_f32(t)
#define WF_SCALAR(v) (float)(v)
#define WF_NAME(f) f##_bf16
#define WF_INFINITY_BITS 0x7f80u
#define WF_LOW_HALF(pair) real_f32((pair) << 16)
#define WF_HIGH_HALF(pair) real_f32((pair)&0xffff0000u)
#define WF_F(f) f##_f32
#define WF_LOWEST (-(float)INFINITY)
#define WF_HIGHEST ((float)INFINITY)
#define WF_IS_REAL 1
#elif defined(WF_TYPE_F16)
#define WF_E wf_f16
#define WF_T float
#define WF_LOAD(e) wf_f16_to_f32(e)
#define WF_STORE(t) wf_f32_to_f16(t)
#define WF_SCALAR(v) (float)(v)
#define WF_NAME(f) f##_f16
#define WF_INFINITY_BITS 0x7c00u
#define WF_F(f) f##_f32
#define WF_LOWEST (-(float)INFINITY)
#define WF_HIGHEST ((float)INFINITY)
#define WF_IS_REAL 1
#elif defined(WF_TYPE_I32)
#define WF_E int32_t
#define WF_T int32_t
#define WF_LOAD(e) (e)
#define WF_STORE(t) (t)
#define WF_SCALAR(v) wf_f64_to_i32(v)
#define WF_NAME(f) f##_i32
#define WF_LOWEST INT32_MIN
#define WF_HIGHEST INT32_MAX
#define WF_IS_REAL 0
#elif defined(WF_TYPE_I64)
#define WF_E int64_t
#define WF_T int64_t
#define WF_LOAD(e) (e)
#define WF_STORE(t) (t)
#define WF_SCALAR(v) wf_f64_to_i64(v)
#define WF_NAME(f) f##_i64
#define WF_LOWEST INT64_MIN
#define WF_HIGHEST INT64_MAX
#define WF_IS_REAL 0
#elif defined(WF_TYPE_U8)
#define WF_E uint8_t
#define WF_T int32_t
#define WF_LOAD(e) (e)
#define WF_STORE(t) ((uint8_t)(t))
#define WF_SCALAR(v) wf_f64_to_i32(v)
#define WF_NAME(f) f##_u8
#define WF_LOWEST 0
#define WF_HIGHEST UINT8_MAX
#define WF_IS_REAL 0
#endif

#if defined(WF_TYPE_F32) || defined(WF_TYPE_BF16) || defined(WF_TYPE_F16)
#define WF_IN_F32 1
#else
#define WF_IN_F32 0
#endif

#undef WF_TYPE_F32
#undef WF_TYPE_F64
#undef WF_TYPE_BF16
#undef WF_TYPE_F16
#undef WF_TYPE_I32
#undef WF_TYPE_I64
#undef WF_TYPE_U8

#if WF_IS_REAL
#define WF_DIV_TRUNC(a, b) WF_TRUNC((a) / (b))
#define WF_DIV_FLOOR(a, b) WF_F(floor_divide)(a, b)
#define WF_CEIL(v) WF_F(ceil)(v)
#define WF_FLOOR(v) WF_F(floor)(v)
#define WF_TRUNC(v) WF_F(trunc)(v)
#define WF_ROUND(v) WF_F(rint)(v)
#define WF_POW(a, b) WF_F(pow)(a, b)
#define WF_FMOD(a, b) WF_F(fmod)(a, b)
#define WF_ABS(v) WF_F(fabs)(v)
#define WF_FINITE(v) (((v) <= WF_MAX) & ((v) >= -WF_MAX))
#define WF_INFINITE(v) (((v) > WF_MAX) | ((v) < -WF_MAX))
#else
#define WF_DIV_TRUNC(a, b) WF_INTEGER_DIV(a, b)
#define WF_DIV_FLOOR(a, b) WF_INTEGER_DIV_FLOOR(a, b)
#define WF_CEIL(v) (v)
#define WF_FLOOR(v) (v)
#define WF_TRUNC(v) (v)
#define WF_ROUND(v) (v)
#define WF_POW(a, b) ((WF_T)pow_i64(a, b))
#define WF_FMOD(a, b) WF_INTEGER_FMOD(a, b)
#define WF_ABS(v) ((v) < 0 ? -(v) : (v))
#define WF_FINITE(v) 1
#define WF_INFINITE(v) 0
#endif

#ifndef WF_C
#define WF_C(number) ((WF_T)(number))
#define WF_EXP(v) WF_F(exp)(v)
#define WF_LOG(v) WF_F(log)(v)
#undef WF_LOGIT
#define WF_LOGIT(p) WF_F(logit)(p)
#define WF_SQRT(v) WF_F(root)(v)
#define WF_FMA(a, b, c) WF_F(multiply_add)(a, b, c)
#define WF_TANH(v) WF_F(tanh)(v)
#define WF_SIGMOID(v) WF_F(sigmoid)(v)
#define WF_SILU(v) WF_F(silu)(v)
#define WF_GELU(v) WF_F(gelu)(v)
#define WF_GELU_U(v) WF_F(gelu_u)(v)
#define WF_DSILU(v) WF_F(dsilu)(v)
#define WF_DGELU(v) WF_F(dgelu)(v)
#define WF_DGELU_TANH(v) WF_F(dgelu_tanh)(v)
#define WF_EXP2(v) WF_F(exp2)(v)
#define WF_EXPM1(v) WF_F(expm1)(v)
#define WF_LOG2(v) WF_F(log2)(v)
#define WF_LOG10(v) WF_F(log10)(v)
#define WF_LOG1P(v) WF_F(log1p)(v)
#define WF_SIN(v) WF_F(sin)(v)
#define WF_COS(v) WF_F(cos)(v)
#define WF_TAN(v) WF_F(tan)(v)
#define WF_ASIN(v) WF_F(asin)(v)
#define WF_ACOS(v) WF_F(acos)(v)
#define WF_ATAN(v) WF_F(atan)(v)
#define WF_SINH(v) WF_F(sinh)(v)
#define WF_COSH(v) WF_F(cosh)(v)
#define WF_ASINH(v) WF_F(asinh)(v)
#define WF_ACOSH(v) WF_F(acosh)(v)
#define WF_ATANH(v) WF_F(atanh)(v)
#define WF_ERF(v) WF_F(erf)(v)
#define WF_ERFC(v) WF_F(erfc)(v)
#define WF_ATAN2(a, b) WF_F(atan2)(a, b)
#define WF_HYPOT(a, b) WF_F(hypot)(a, b)
#define WF_COPYSIGN(a, b) WF_F(copysign)(a, b)
#define WF_LGAMMA(v) WF_F(lgamma)(v)
#define WF_DIGAMMA(v) WF_F(digamma)(v)
#define WF_TRIGAMMA(v) WF_F(trigamma)(v)
#define WF_ERFINV(v) WF_F(erfinv)(v)
#define WF_SINC(v) WF_F(sinc)(v)
#define WF_DSINC(v) WF_F(dsinc)(v)
#define WF_MAX WF_F(most)
#define WF_SHIFT_LEFT(a, b) WF_INTEGER_SHIFT_LEFT(WF_T, a, b)
#define WF_SHIFT_RIGHT(a, b) WF_INTEGER_SHIFT_RIGHT(a, b)
#endif
