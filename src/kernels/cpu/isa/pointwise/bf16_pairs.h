/*
 * bf16_pairs.h: the loops of pointwise.def's formulas over bf16, two elements as one word: nothing
 * is moved between lanes to widen and to narrow them.
 *
 * For pointwise.inc, which has the same loops over elements of the other types. An odd element is
 * computed alone, by the same function.
 */
#pragma once

#include "kernels/cpu/isa/pointwise/bf16_functions.h"

/* An operand's pairs, and its first element: all there is of one that repeats. */
#define PAIRS(xs, operand)                                                                         \
    const wf_element_pair *xs = in[operand];                                                       \
    const float xs##_one = WF_LOAD(*(const WF_E *)in[operand]);                                    \
                                                                                                   \
    (void)xs, (void)xs##_one;

/* _i: of an array, _0: of the one element that repeats, as ia, ib and ic in pointwise.inc. ODD: of
 * the element that is left. */
#define LOW_i(xs) WF_LOW_HALF(xs[i])
#define HIGH_i(xs) WF_HIGH_HALF(xs[i])
#define ODD_i(xs) WF_LOAD(((const WF_E *)xs)[n - 1])
#define LOW_0(xs) xs##_one
#define HIGH_0(xs) xs##_one
#define ODD_0(xs) xs##_one

#define LOOP_OVER_PAIRS(low, high, odd)                                                            \
    wf_element_pair *ys = out;                                                                     \
                                                                                                   \
    _Pragma("omp simd") for (int64_t i = 0; i < n / 2; i++) ys[i] = bf16_pair(low, high);          \
    if (n % 2) ((WF_E *)out)[n - 1] = WF_STORE(odd);

#define UNARY_LINE(name, value)                                                                    \
    static inline float name##_of_f32(float x, float s, float t, float u)                          \
    {                                                                                              \
        (void)x, (void)s, (void)t, (void)u;                                                        \
        return value;                                                                              \
    }                                                                                              \
    LINE(name##_line)                                                                              \
    {                                                                                              \
        PAIRS(xs, 0)                                                                               \
        SCALARS                                                                                    \
        LOOP_OVER_PAIRS(name##_of_f32(LOW_i(xs), s, t, u), name##_of_f32(HIGH_i(xs), s, t, u),     \
                        name##_of_f32(ODD_i(xs), s, t, u))                                         \
    }

#define GRAD_LINE(name, value)                                                                     \
    static inline float name##_grad_of_f32(float d, float z, float s, float t, float u)            \
    {                                                                                              \
        (void)d, (void)z, (void)s, (void)t, (void)u;                                               \
        return value;                                                                              \
    }                                                                                              \
    LINE(name##_grad_line)                                                                         \
    {                                                                                              \
        PAIRS(ds, 0)                                                                               \
        PAIRS(zs, 1)                                                                               \
        SCALARS                                                                                    \
        LOOP_OVER_PAIRS(name##_grad_of_f32(LOW_i(ds), LOW_i(zs), s, t, u),                         \
                        name##_grad_of_f32(HIGH_i(ds), HIGH_i(zs), s, t, u),                       \
                        name##_grad_of_f32(ODD_i(ds), ODD_i(zs), s, t, u))                         \
    }

#define BINARY_LINE(function, name, ia, ib)                                                        \
    LINE(function)                                                                                 \
    {                                                                                              \
        PAIRS(as, 0)                                                                               \
        PAIRS(bs, 1)                                                                               \
        (void)scalars;                                                                             \
        LOOP_OVER_PAIRS(name##_of_f32(LOW_##ia(as), LOW_##ib(bs)),                                 \
                        name##_of_f32(HIGH_##ia(as), HIGH_##ib(bs)),                               \
                        name##_of_f32(ODD_##ia(as), ODD_##ib(bs)))                                 \
    }
#define BINARY_LINES(name, value)                                                                  \
    static inline float name##_of_f32(float a, float b) { return value; }                          \
    BINARY_LINE(name##_full, name, i, i)                                                           \
    BINARY_LINE(name##_last_one, name, i, 0)                                                       \
    BINARY_LINE(name##_first_one, name, 0, i)

#define TERNARY_LINE(function, name, ic)                                                           \
    LINE(function)                                                                                 \
    {                                                                                              \
        PAIRS(as, 0)                                                                               \
        PAIRS(bs, 1)                                                                               \
        PAIRS(cs, 2)                                                                               \
        SCALARS                                                                                    \
        LOOP_OVER_PAIRS(name##_of_f32(LOW_i(as), LOW_i(bs), LOW_##ic(cs), s),                      \
                        name##_of_f32(HIGH_i(as), HIGH_i(bs), HIGH_##ic(cs), s),                   \
                        name##_of_f32(ODD_i(as), ODD_i(bs), ODD_##ic(cs), s))                      \
    }
#define TERNARY_LINES(name, value)                                                                 \
    static inline float name##_of_f32(float a, float b, float c, float s)                          \
    {                                                                                              \
        (void)s;                                                                                   \
        return value;                                                                              \
    }                                                                                              \
    TERNARY_LINE(name##_full, name, i)                                                             \
    TERNARY_LINE(name##_last_one, name, 0)
