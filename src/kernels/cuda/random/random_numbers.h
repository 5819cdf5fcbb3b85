/*
 * random_numbers.h: from the words of Philox to the elements of each distribution. All formulas are
 * those of philox.h, which the CPU evaluates too: add, multiply, divide and square root, each
 * rounded by itself. Files that include this are compiled with -fmad=false, so the bits are the
 * CPU's.
 *
 * Functors are for global_elements.h: a group of 4 elements is a block of Philox. `Y` is the
 * output's element type.
 */
#pragma once

#include "kernels/cuda/global_elements.h"

extern "C" {
#define inline __host__ __device__ inline
#include "kernels/cpu/isa/philox.h"
#undef inline
}

/** Which numbers: seed and draw of the call. */
struct philox_key {
    uint64_t seed, draw;

    explicit philox_key(const struct wf_scalars *scalars)
        : seed((uint64_t)scalars->v[0]), draw((uint64_t)scalars->v[1])
    {
    }

    __device__ __forceinline__ struct wf_philox_words first_words(int64_t group) const
    {
        return philox_block((uint64_t)group, draw, seed);
    }

    /** For what needs more than 32 bits. */
    __device__ __forceinline__ struct wf_philox_words second_words(int64_t group) const
    {
        return philox_block((uint64_t)group, draw | WF_SECOND_PLANE, seed);
    }
};

/* ---- numbers of the computing type ---- */

__device__ __forceinline__ void uniform_numbers(const philox_key &key, int64_t group,
                                                float (&value)[WF_GROUP])
{
    struct wf_philox_words high = key.first_words(group);

#pragma unroll
    for (int i = 0; i < WF_GROUP; i++) value[i] = unit_f32(high.w[i]);
}

__device__ __forceinline__ void uniform_numbers(const philox_key &key, int64_t group,
                                                double (&value)[WF_GROUP])
{
    struct wf_philox_words high = key.first_words(group), low = key.second_words(group);

#pragma unroll
    for (int i = 0; i < WF_GROUP; i++) value[i] = unit_f64(high.w[i], low.w[i]);
}

/** In (0, 1). */
__device__ __forceinline__ void open_uniform_numbers(const philox_key &key, int64_t group,
                                                     double (&value)[WF_GROUP])
{
    struct wf_philox_words high = key.first_words(group), low = key.second_words(group);

#pragma unroll
    for (int i = 0; i < WF_GROUP; i++) value[i] = open_unit_f64(high.w[i], low.w[i]);
}

__device__ __forceinline__ void normal_numbers(const philox_key &key, int64_t group,
                                               float (&value)[WF_GROUP])
{
    struct wf_philox_words high = key.first_words(group);

#pragma unroll
    for (int i = 0; i < WF_GROUP; i += 2)
        normal_pair_f32(high.w[i], high.w[i + 1], &value[i], &value[i + 1]);
}

__device__ __forceinline__ void normal_numbers(const philox_key &key, int64_t group,
                                               double (&value)[WF_GROUP])
{
    double unit[WF_GROUP];

    uniform_numbers(key, group, unit);
#pragma unroll
    for (int i = 0; i < WF_GROUP; i += 2)
        normal_pair_f64(unit[i], unit[i + 1], &value[i], &value[i + 1]);
}

__device__ __forceinline__ double clamp(double value, double low, double high)
{
    double above = value < low ? low : value;

    return above > high ? high : above;
}
