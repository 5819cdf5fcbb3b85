/*
 * pointwise.h: the formulas of pointwise.def as functors over elements, and a table of run
 * functions for each dtype. The tables are in a file each, so that they are compiled side by side.
 */
#pragma once

#include "kernels/cuda/pointwise/elementwise.h"

/** Run functions of one element type; NULL where the type has no such kernel. */
struct wf_cuda_pointwise {
#define WF_UNARY(name, ...) wf_kernel_run *name;
#define WF_UNARY_GRAD(name, ...) wf_kernel_run *name##_grad;
#define WF_BINARY(name, ...) wf_kernel_run *name;
#define WF_COMPARE(name, ...) wf_kernel_run *name;
#include "kernels/pointwise.def"
#undef WF_UNARY
#undef WF_UNARY_GRAD
#undef WF_BINARY
#undef WF_COMPARE
};

extern const struct wf_cuda_pointwise wf_cuda_pointwise_f32, wf_cuda_pointwise_f64,
    wf_cuda_pointwise_bf16, wf_cuda_pointwise_f16, wf_cuda_pointwise_i32, wf_cuda_pointwise_i64,
    wf_cuda_pointwise_u8;

/* s is the call's first scalar. */
#define WF_UNARY(name, value)                                                                      \
    template <class E> struct name##_of : makes<E, E> {                                            \
        typedef real<E> T;                                                                         \
        T s;                                                                                       \
                                                                                                   \
        explicit name##_of(const struct wf_scalars *scalars) : s(scalar_as<T>(scalars->s[0])) {}   \
        __device__ __forceinline__ E operator()(E e, absent, absent) const                         \
        {                                                                                          \
            const T x = to_real(e);                                                                \
                                                                                                   \
            return from_real<E>(value);                                                            \
        }                                                                                          \
    };
#define WF_UNARY_GRAD(name, value)                                                                 \
    template <class E> struct name##_grad_of : makes<E, E, E> {                                    \
        typedef real<E> T;                                                                         \
        T s;                                                                                       \
                                                                                                   \
        explicit name##_grad_of(const struct wf_scalars *scalars) : s(scalar_as<T>(scalars->s[0])) \
        {                                                                                          \
        }                                                                                          \
        __device__ __forceinline__ E operator()(E gradient, E saved, absent) const                 \
        {                                                                                          \
            const T d = to_real(gradient), z = to_real(saved);                                     \
                                                                                                   \
            return from_real<E>(value);                                                            \
        }                                                                                          \
    };
#define WF_OF_TWO(name, result, value)                                                             \
    template <class E> struct name##_of : makes<result, E, E> {                                    \
        typedef real<E> T;                                                                         \
                                                                                                   \
        explicit name##_of(const struct wf_scalars *) {}                                           \
        __device__ __forceinline__ result operator()(E left, E right, absent) const                \
        {                                                                                          \
            const T a = to_real(left), b = to_real(right);                                         \
                                                                                                   \
            return from_real<result>(value);                                                       \
        }                                                                                          \
    };
#define WF_BINARY(name, value) WF_OF_TWO(name, E, value)
#define WF_COMPARE(name, value) WF_OF_TWO(name, boolean, value)
#include "kernels/pointwise.def"
#undef WF_UNARY
#undef WF_UNARY_GRAD
#undef WF_OF_TWO
#undef WF_BINARY
#undef WF_COMPARE
