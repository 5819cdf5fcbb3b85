/*
 * element.h: the elements of each dtype as kernels see them: what they are computed in, how they
 * are loaded and rounded, packs of 16 bytes, and the functions that the formulas of pointwise.def
 * name.
 *
 * Functions of f64 are those of the CPU's kernels (vmath.h): add, multiply, divide and square root
 * only, so that their accuracy is known wherever these four are rounded correctly, as CUDA does by
 * default. Where the CPU has the C library's, they are CUDA's own; for f32, in which f16 and bf16
 * are computed too, so are most (float_functions.h).
 */
#pragma once

#include "kernels/cuda/cuda_kernel.h"

extern "C" {
#define inline __host__ __device__ inline
#include "kernels/cpu/isa/integer_math.h"
#include "kernels/cpu/isa/pointwise/special_functions.h"
#include "kernels/cpu/isa/pointwise/special_functions_f32.h"
#include "kernels/cpu/isa/vmath.h"
#undef inline
#include "kernels/pointwise_functions.h"
}
#include "kernels/cuda/float_functions.h"
#include "kernels/cuda/trigonometry.h"

#include <float.h>
#include <type_traits>

/* ---- types ---- */

/* One type per dtype, so that templates tell them apart; the others are C's own. */
struct bf16 {
    wf_bf16 bits;
};
struct f16 {
    wf_f16 bits;
};
struct boolean {
    uint8_t value;
};

/** The elements of an input that a functor does not have. */
struct absent {
};

/** The type that elements of type E are computed in. */
template <class E> struct real_of {
    typedef E type;
};
template <> struct real_of<bf16> {
    typedef float type;
};
template <> struct real_of<f16> {
    typedef float type;
};
template <> struct real_of<uint8_t> {
    typedef int32_t type;
};
template <> struct real_of<int16_t> {
    typedef int32_t type;
};
template <> struct real_of<int8_t> {
    typedef int32_t type;
};
template <> struct real_of<boolean> {
    typedef int32_t type;
};
template <class E> using real = typename real_of<E>::type;

template <class E> __device__ __forceinline__ real<E> to_real(E e) { return e; }
__device__ __forceinline__ float to_real(bf16 e) { return wf_bf16_to_f32(e.bits); }
__device__ __forceinline__ float to_real(f16 e) { return gpu_f16_to_f32(e.bits); }
__device__ __forceinline__ int32_t to_real(boolean e) { return e.value; }

/** Floats are rounded to nearest even, what is not a number stays so; integers wrap. */
template <class E> __device__ __forceinline__ E from_real(real<E> value) { return (E)value; }
template <> __device__ __forceinline__ bf16 from_real<bf16>(float value)
{
    return {gpu_f32_to_bf16(value)};
}
template <> __device__ __forceinline__ f16 from_real<f16>(float value)
{
    return {gpu_f32_to_f16(value)};
}
template <> __device__ __forceinline__ boolean from_real<boolean>(int32_t value)
{
    return {(uint8_t)value};
}

/** A scalar of a call as a number of the type T. */
template <class T> static inline T scalar_as(double value) { return (T)value; }
template <> inline int32_t scalar_as<int32_t>(double value) { return wf_f64_to_i32(value); }
template <> inline int64_t scalar_as<int64_t>(double value) { return wf_f64_to_i64(value); }

/* ---- one of the types, by its dtype ---- */

/** Stands for the type E in a call of a generic lambda. */
template <class E> struct element_type {
    typedef E type;
};

/** The floats that kernels of this folder take are the dtypes below; tables have them in this
 *  order. */
enum { WF_CUDA_FLOAT_DTYPES = WEFT_F16 + 1 };
static_assert(WEFT_F32 == 0 && WEFT_F64 == 1 && WEFT_BF16 == 2 && WEFT_F16 == 3,
              "tables of float dtypes have the order of weft_dtype");

/** use(element_type<E>()), where elements of the float dtype are of type E. */
template <class Use> static inline void with_float_type(uint8_t dtype, const Use &use)
{
    if (dtype == WEFT_F32)
        use(element_type<float>());
    else if (dtype == WEFT_F64)
        use(element_type<double>());
    else if (dtype == WEFT_BF16)
        use(element_type<bf16>());
    else if (dtype == WEFT_F16)
        use(element_type<f16>());
    else
        WF_DIE("no CUDA kernel for %s", wf_dtypes[dtype].name);
}

/* ---- casts ---- */

/* From a computing type: floats to integers are cut, and what does not fit gives the nearest. */
template <class Y> struct cast_of_number {
    template <class T> static __device__ __forceinline__ Y of(T value) { return (Y)value; }
};
template <> struct cast_of_number<bf16> {
    template <class T> static __device__ __forceinline__ bf16 of(T value)
    {
        return from_real<bf16>((float)value);
    }
};
template <> struct cast_of_number<f16> {
    template <class T> static __device__ __forceinline__ f16 of(T value)
    {
        return from_real<f16>((float)value);
    }
};
template <> struct cast_of_number<boolean> {
    template <class T> static __device__ __forceinline__ boolean of(T value)
    {
        return {(uint8_t)(value != 0)};
    }
};
template <> struct cast_of_number<int32_t> {
    static __device__ __forceinline__ int32_t of(float value) { return wf_f64_to_i32(value); }
    static __device__ __forceinline__ int32_t of(double value) { return wf_f64_to_i32(value); }
    static __device__ __forceinline__ int32_t of(int32_t value) { return value; }
    static __device__ __forceinline__ int32_t of(int64_t value) { return (int32_t)value; }
};
template <> struct cast_of_number<int64_t> {
    static __device__ __forceinline__ int64_t of(float value) { return wf_f64_to_i64(value); }
    static __device__ __forceinline__ int64_t of(double value) { return wf_f64_to_i64(value); }
    static __device__ __forceinline__ int64_t of(int64_t value) { return value; }
    static __device__ __forceinline__ int64_t of(int32_t value) { return value; }
};
template <> struct cast_of_number<uint8_t> {
    template <class T> static __device__ __forceinline__ uint8_t of(T value)
    {
        return (uint8_t)cast_of_number<int32_t>::of(value);
    }
};

template <> struct cast_of_number<int16_t> {
    template <class T> static __device__ __forceinline__ int16_t of(T value)
    {
        return (int16_t)cast_of_number<int32_t>::of(value);
    }
};
template <> struct cast_of_number<int8_t> {
    template <class T> static __device__ __forceinline__ int8_t of(T value)
    {
        return (int8_t)cast_of_number<int32_t>::of(value);
    }
};

/** A number of any computing type as an element of type Y. */
template <class Y, class T> __device__ __forceinline__ Y cast_to(T value)
{
    return cast_of_number<Y>::of(value);
}

/* ---- packs ---- */

/** Elements that are read and written at once: 16 bytes unless said otherwise. */
template <class E, int length = 16 / (int)sizeof(E)> struct alignas(sizeof(E) * length) pack {
    static const int n = length;
    E at[length];
};

/** Write n elements at once, 16 bytes or fewer at a time, to where they are aligned in global
 *  memory. */
template <class E, int n> __device__ __forceinline__ void store_words(const E (&from)[n], E *to)
{
    const int bytes = n * (int)sizeof(E), at_once = bytes < 16 ? bytes : 16;
    uint32_t words[bytes / at_once][at_once / 4];

    static_assert(bytes % 4 == 0 && bytes % at_once == 0, "whole words");
    memcpy(words, from, sizeof words);
#pragma unroll
    for (int i = 0; i < bytes / at_once; i++) {
        if constexpr (at_once == 16) {
            gpu_store_16((char *)to + i * 16, words[i]);
        } else {
            pack<uint32_t, at_once / 4> few;

            memcpy(few.at, words[i], sizeof few);
            ((pack<uint32_t, at_once / 4> *)to)[i] = few;
        }
    }
}

/** Write a pack of 16 bytes at once. */
template <class E> __device__ __forceinline__ void store_pack(E *to, const pack<E> &v)
{
    static_assert(sizeof v == 16, "a pack has 16 bytes");
    store_words(v.at, to);
}

/** The same into shared memory. */
template <class E> __device__ __forceinline__ void store_shared_pack(E *to, const pack<E> &v)
{
    uint32_t words[4];

    static_assert(sizeof v == 16, "a pack has 16 bytes");
    memcpy(words, v.at, sizeof words);
    gpu_store_shared_16(to, words);
}

/** The first `have` of n elements, zeros for the others; at once where all are there and `whole`
 *  says that the address is aligned to them. */
template <class E, int n>
__device__ __forceinline__ void load_some(E (&to)[n], const E *from, int have, bool whole)
{
    if (whole && have == n) {
        pack<E, n> all = *(const pack<E, n> *)from;

#pragma unroll
        for (int i = 0; i < n; i++) to[i] = all.at[i];
        return;
    }
#pragma unroll
    for (int i = 0; i < n; i++) to[i] = i < have ? from[i] : E{};
}

template <class E, int n>
__device__ __forceinline__ void store_some(const E (&from)[n], E *to, int have, bool whole)
{
    if (whole && have == n) {
        store_words(from, to);
        return;
    }
#pragma unroll
    for (int i = 0; i < n; i++)
        if (i < have) to[i] = from[i];
}

/* ---- what pointwise.def names ---- */

#define WF_FOR_FLOAT_AND_DOUBLE(name, of_float, of_double)                                         \
    __device__ __forceinline__ float real_##name(float v) { return of_float(v); }                  \
    __device__ __forceinline__ double real_##name(double v) { return of_double(v); }
#define WF_OF_GPU(name) WF_FOR_FLOAT_AND_DOUBLE(name, name##_gpu, name##_f64)
#define WF_OF_CPU(name) WF_FOR_FLOAT_AND_DOUBLE(name, name##_f32, name##_f64)
WF_OF_GPU(exp)
WF_OF_GPU(log)
WF_FOR_FLOAT_AND_DOUBLE(sqrt, root_f32, root_f64)
WF_OF_GPU(tanh)
WF_OF_GPU(sigmoid)
WF_OF_GPU(normcdf)
WF_OF_GPU(gelu_u)
WF_OF_GPU(dsilu)
WF_OF_GPU(dgelu)
WF_OF_GPU(dgelu_tanh)
WF_OF_CPU(lgamma)
WF_OF_CPU(digamma)
WF_OF_CPU(trigamma)
WF_OF_CPU(erfinv)
WF_OF_CPU(sinc)
WF_OF_CPU(dsinc)
#undef WF_OF_CPU
#undef WF_OF_GPU
#undef WF_FOR_FLOAT_AND_DOUBLE

/* None of f64: CUDA's own take large arguments apart in local memory, which no kernel may use. */
__device__ __forceinline__ float real_sin(float v) { return sin_gpu(v); }
__device__ __forceinline__ float real_cos(float v) { return cos_gpu(v); }
__device__ __forceinline__ float real_tan(float v) { return tan_gpu(v); }

/* A square where all elements have this power: no thread goes another way. */
__device__ __forceinline__ float real_pow(float x, float y) { return y == 2 ? x * x : powf(x, y); }
__device__ __forceinline__ double real_pow(double x, double y) { return pow_f64(x, y); }
__device__ __forceinline__ int32_t real_pow(int32_t x, int32_t y) { return (int32_t)pow_i64(x, y); }
__device__ __forceinline__ int64_t real_pow(int64_t x, int64_t y) { return pow_i64(x, y); }

#define WF_WHOLE_QUOTIENTS(T, toward_0, down)                                                      \
    __device__ __forceinline__ T real_div_trunc(T a, T b) { return toward_0; }                     \
    __device__ __forceinline__ T real_div_floor(T a, T b) { return down; }
WF_WHOLE_QUOTIENTS(float, truncf(a / b), floor_divide_f32(a, b))
WF_WHOLE_QUOTIENTS(double, trunc(a / b), floor_divide_f64(a, b))
WF_WHOLE_QUOTIENTS(int32_t, WF_INTEGER_DIV(a, b), WF_INTEGER_DIV_FLOOR(a, b))
WF_WHOLE_QUOTIENTS(int64_t, WF_INTEGER_DIV(a, b), WF_INTEGER_DIV_FLOOR(a, b))
#undef WF_WHOLE_QUOTIENTS

/* CUDA's own functions, where the CPU has the C library's. */
#define WF_OF_ONE(name)                                                                            \
    __device__ __forceinline__ float real_##name(float v) { return name##f(v); }                   \
    __device__ __forceinline__ double real_##name(double v) { return name(v); }
#define WF_OF_TWO(name)                                                                            \
    __device__ __forceinline__ float real_##name(float a, float b) { return name##f(a, b); }       \
    __device__ __forceinline__ double real_##name(double a, double b) { return name(a, b); }
WF_OF_ONE(exp2)
WF_OF_ONE(expm1)
WF_OF_ONE(log2)
WF_OF_ONE(log10)
WF_OF_ONE(log1p)
WF_OF_ONE(asin)
WF_OF_ONE(acos)
WF_OF_ONE(atan)
WF_OF_ONE(sinh)
WF_OF_ONE(cosh)
WF_OF_ONE(asinh)
WF_OF_ONE(acosh)
WF_OF_ONE(atanh)
WF_OF_ONE(erf)
WF_OF_ONE(erfc)
WF_OF_ONE(ceil)
WF_OF_ONE(floor)
WF_OF_ONE(trunc)
WF_OF_ONE(rint)
WF_OF_TWO(atan2)
WF_OF_TWO(hypot)
WF_OF_TWO(copysign)
WF_OF_TWO(fmod)
#undef WF_OF_ONE
#undef WF_OF_TWO
/* Integers are whole. */
#define WF_OF_WHOLE(name)                                                                          \
    __device__ __forceinline__ int32_t real_##name(int32_t v) { return v; }                        \
    __device__ __forceinline__ int64_t real_##name(int64_t v) { return v; }
WF_OF_WHOLE(ceil)
WF_OF_WHOLE(floor)
WF_OF_WHOLE(trunc)
WF_OF_WHOLE(rint)
#undef WF_OF_WHOLE
__device__ __forceinline__ int32_t real_fmod(int32_t a, int32_t b) { return WF_INTEGER_FMOD(a, b); }
__device__ __forceinline__ int64_t real_fmod(int64_t a, int64_t b) { return WF_INTEGER_FMOD(a, b); }

__device__ __forceinline__ float real_abs(float v) { return fabsf(v); }
__device__ __forceinline__ double real_abs(double v) { return fabs(v); }
__device__ __forceinline__ int32_t real_abs(int32_t v)
{
    return v < 0 ? (int32_t)(0 - (uint32_t)v) : v;
}
__device__ __forceinline__ int64_t real_abs(int64_t v)
{
    return v < 0 ? (int64_t)(0 - (uint64_t)v) : v;
}

template <class T> __device__ __forceinline__ T real_most();
template <> __device__ __forceinline__ float real_most<float>() { return FLT_MAX; }
template <> __device__ __forceinline__ double real_most<double>() { return DBL_MAX; }
template <class T> __device__ __forceinline__ bool real_finite(T v)
{
    if constexpr (std::is_floating_point<T>::value)
        return (v <= real_most<T>()) & (v >= -real_most<T>());
    return true;
}
template <class T> __device__ __forceinline__ bool real_infinite(T v)
{
    if constexpr (std::is_floating_point<T>::value)
        return (v > real_most<T>()) | (v < -real_most<T>());
    return false;
}

/* For code in which T is the computing type. */
#define WF_C(number) ((T)(number))
#define WF_EXP(v) real_exp(v)
#define WF_LOG(v) real_log(v)
#define WF_SQRT(v) real_sqrt(v)
#define WF_TANH(v) real_tanh(v)
#define WF_SIGMOID(v) real_sigmoid(v)
#define WF_SILU(v) ((v)*real_sigmoid(v))
#define WF_NORMCDF(v) real_normcdf(v)
#define WF_GELU(v) ((v)*real_normcdf(v))
#define WF_GELU_U(v) real_gelu_u(v)
#define WF_DSILU(v) real_dsilu(v)
#define WF_DGELU(v) real_dgelu(v)
#define WF_DGELU_TANH(v) real_dgelu_tanh(v)
#define WF_POW(a, b) real_pow(a, b)
#define WF_DIV_TRUNC(a, b) real_div_trunc(a, b)
#define WF_DIV_FLOOR(a, b) real_div_floor(a, b)
#define WF_LGAMMA(v) real_lgamma(v)
#define WF_DIGAMMA(v) real_digamma(v)
#define WF_TRIGAMMA(v) real_trigamma(v)
#define WF_ERFINV(v) real_erfinv(v)
#define WF_SINC(v) real_sinc(v)
#define WF_DSINC(v) real_dsinc(v)
#define WF_EXP2(v) real_exp2(v)
#define WF_EXPM1(v) real_expm1(v)
#define WF_LOG2(v) real_log2(v)
#define WF_LOG10(v) real_log10(v)
#define WF_LOG1P(v) real_log1p(v)
#define WF_SIN(v) real_sin(v)
#define WF_COS(v) real_cos(v)
#define WF_TAN(v) real_tan(v)
#define WF_ASIN(v) real_asin(v)
#define WF_ACOS(v) real_acos(v)
#define WF_ATAN(v) real_atan(v)
#define WF_SINH(v) real_sinh(v)
#define WF_COSH(v) real_cosh(v)
#define WF_ASINH(v) real_asinh(v)
#define WF_ACOSH(v) real_acosh(v)
#define WF_ATANH(v) real_atanh(v)
#define WF_ERF(v) real_erf(v)
#define WF_ERFC(v) real_erfc(v)
#define WF_CEIL(v) real_ceil(v)
#define WF_FLOOR(v) real_floor(v)
#define WF_TRUNC(v) real_trunc(v)
#define WF_ROUND(v) real_rint(v)
#define WF_ATAN2(a, b) real_atan2(a, b)
#define WF_HYPOT(a, b) real_hypot(a, b)
#define WF_COPYSIGN(a, b) real_copysign(a, b)
#define WF_FMOD(a, b) real_fmod(a, b)
#define WF_ABS(v) real_abs(v)
#define WF_MAX real_most<T>()
#define WF_FINITE(v) real_finite(v)
#define WF_INFINITE(v) real_infinite(v)
#define WF_SHIFT_LEFT(a, b) WF_INTEGER_SHIFT_LEFT(T, a, b)
#define WF_SHIFT_RIGHT(a, b) WF_INTEGER_SHIFT_RIGHT(a, b)
