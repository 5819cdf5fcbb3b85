/*
 * libm_vectors.h: the C library's functions under the names that element_type.h wants, NAME_f32 and
 * NAME_f64. glibc from 2.35 has them for vectors too (libmvec, within 4 ulp), and gcc takes those
 * in loops when a prototype says so; elsewhere loops call the function for each element.
 */
#pragma once

#include <float.h>
#include <math.h>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 35)
#define VECTORS(name, ...) extern double name(__VA_ARGS__) __attribute__((simd("notinbranch")));
#define VECTORS_F(name, ...) extern float name(__VA_ARGS__) __attribute__((simd("notinbranch")));
#endif
#endif
#ifndef VECTORS
#define VECTORS(name, ...)
#define VECTORS_F(name, ...)
#endif

#define PLAIN_OF_ONE(name)                                                                         \
    static inline float name##_f32(float v) { return name##f(v); }                                 \
    static inline double name##_f64(double v) { return name(v); }
#define PLAIN_OF_TWO(name)                                                                         \
    static inline float name##_f32(float a, float b) { return name##f(a, b); }                     \
    static inline double name##_f64(double a, double b) { return name(a, b); }
#define OF_ONE(name) VECTORS(name, double) VECTORS_F(name##f, float) PLAIN_OF_ONE(name)
/* f32 has its own (pointwise/libm_f32.h). */
#define OF_DOUBLE(name)                                                                            \
    VECTORS(name, double) static inline double name##_f64(double v) { return name(v); }
#define OF_TWO(name)                                                                               \
    VECTORS(name, double, double) VECTORS_F(name##f, float, float) PLAIN_OF_TWO(name)

OF_ONE(exp2)
OF_ONE(log2)
OF_DOUBLE(log10)
OF_ONE(log1p)
OF_ONE(sin)
OF_ONE(cos)
OF_DOUBLE(tan)
OF_DOUBLE(asin)
OF_ONE(acos)
OF_ONE(atan)
OF_ONE(sinh)
OF_ONE(cosh)
OF_ONE(asinh)
OF_ONE(acosh)
OF_ONE(atanh)
OF_DOUBLE(erf)
OF_ONE(erfc)
OF_TWO(atan2)
OF_TWO(hypot)
PLAIN_OF_ONE(ceil)
PLAIN_OF_ONE(floor)
PLAIN_OF_ONE(trunc)
PLAIN_OF_TWO(fmod)

static const float most_f32 = FLT_MAX;
static const double most_f64 = DBL_MAX;

#undef VECTORS
#undef VECTORS_F
#undef PLAIN_OF_ONE
#undef PLAIN_OF_TWO
#undef OF_ONE
#undef OF_DOUBLE
#undef OF_TWO
