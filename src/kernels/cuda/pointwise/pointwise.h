/*
 * pointwise.h: the formulas of pointwise.def as functors over elements, and a table of run
 * functions for each dtype. The tables are in a file each, so that they are compiled side by side.
 */
#pragma once

#include "kernels/cuda/pointwise/elementwise.h"

/** Run functions of one element type; NULL where the type has no such kernel. */
struct wf_cuda_pointwise {
#define WF_UNARY(name, ...) wf_kernel_run *name, *name##_grad;
#define WF_UNARY_BY_OPS(name, ...) wf_kernel_run *name;
#define WF_BINARY(name, ...) wf_kernel_run *name;
#define WF_TERNARY(name, ...) wf_kernel_run *name;
#define WF_WHOLE_BINARY(name, ...) wf_kernel_run *name;
#define WF_COMPARE(name, ...) wf_kernel_run *name;
#define WF_TEST(name, ...) wf_kernel_run *name;
#include "kernels/pointwise.def"
};

extern const struct wf_cuda_pointwise wf_cuda_pointwise_f32, wf_cuda_pointwise_f64,
    wf_cuda_pointwise_bf16, wf_cuda_pointwise_f16, wf_cuda_pointwise_i32, wf_cuda_pointwise_i64,
    wf_cuda_pointwise_u8, wf_cuda_pointwise_i16, wf_cuda_pointwise_i8;

/* s, t and u are the call's scalars. */
template <class E> struct scalars_as {
    typedef real<E> T;
    T first, second, third;

    explicit scalars_as(const struct wf_scalars *scalars)
        : first(scalar_as<T>(scalars->s[0])), second(scalar_as<T>(scalars->s[1])),
          third(scalar_as<T>(scalars->s[2]))
    {
    }
};

#define WF_OF_ONE(name, result, value)                                                             \
    template <class E> struct name##_of : makes<result, E>, scalars_as<E> {                        \
        typedef real<E> T;                                                                         \
                                                                                                   \
        explicit name##_of(const struct wf_scalars *scalars) : scalars_as<E>(scalars) {}           \
        __device__ __forceinline__ result operator()(E e, absent, absent) const                    \
        {                                                                                          \
            const T x = to_real(e), s = this->first, t = this->second, u = this->third;            \
                                                                                                   \
            (void)x, (void)s, (void)t, (void)u;                                                    \
            return from_real<result>(value);                                                       \
        }                                                                                          \
    };
#define WF_GRADIENT_OF_ONE(name, value)                                                            \
    template <class E> struct name##_grad_of : makes<E, E, E>, scalars_as<E> {                     \
        typedef real<E> T;                                                                         \
                                                                                                   \
        explicit name##_grad_of(const struct wf_scalars *scalars) : scalars_as<E>(scalars) {}      \
        __device__ __forceinline__ E operator()(E gradient, E saved, absent) const                 \
        {                                                                                          \
            const T d = to_real(gradient), z = to_real(saved);                                     \
            const T s = this->first, t = this->second, u = this->third;                            \
                                                                                                   \
            (void)d, (void)z, (void)s, (void)t, (void)u;                                           \
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
#define WF_OF_THREE(name, value)                                                                   \
    template <class E> struct name##_of : makes<E, E, E, E>, scalars_as<E> {                       \
        typedef real<E> T;                                                                         \
                                                                                                   \
        explicit name##_of(const struct wf_scalars *scalars) : scalars_as<E>(scalars) {}           \
        __device__ __forceinline__ E operator()(E left, E middle, E right) const                   \
        {                                                                                          \
            const T a = to_real(left), b = to_real(middle), c = to_real(right), s = this->first;   \
                                                                                                   \
            (void)s;                                                                               \
            return from_real<E>(value);                                                            \
        }                                                                                          \
    };
#define WF_UNARY(name, scalars, numbers, rises, saved, sample, value, gradient)                    \
    WF_OF_ONE(name, E, value) WF_GRADIENT_OF_ONE(name, gradient)
#define WF_UNARY_BY_OPS(name, scalars, numbers, linear, saved, sample, value)                      \
    WF_OF_ONE(name, E, value)
#define WF_BINARY(name, numbers, linear, saved, sample_a, sample_b, value) WF_OF_TWO(name, E, value)
#define WF_TERNARY(name, scalars, numbers, linear, saved, sample_a, sample_b, sample_c, value)     \
    WF_OF_THREE(name, value)
#define WF_WHOLE_BINARY(name, sample_a, sample_b, value) WF_OF_TWO(name, E, value)
#define WF_COMPARE(name, value) WF_OF_TWO(name, boolean, value)
#define WF_TEST(name, value) WF_OF_ONE(name, boolean, value)
#include "kernels/pointwise.def"
#undef WF_OF_ONE
#undef WF_GRADIENT_OF_ONE
#undef WF_OF_TWO
#undef WF_OF_THREE
