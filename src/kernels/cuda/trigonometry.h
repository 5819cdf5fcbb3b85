/*
 * trigonometry.h: sin, cos and tan of f32, within 3 ulp (tan: 4), for all numbers. CUDA's own take
 * large ones apart in local memory.
 *
 * x = (n + v) pi / 2 with |v| <= 1/2: n chooses among two polynomials and their signs. Included by
 * element.h.
 */
#pragma once

extern "C" {
#define inline __host__ __device__ inline
#include "kernels/cpu/isa/philox.h" /* cos_quarter_f32 */
#undef inline
}

struct quarter_turns {
    uint32_t whole; /* modulo 4 */
    float rest;
};

/** Bits `first` to first + 31 behind the point of 2 / pi, -32 <= first < 192; those before it are
 * 0. */
__device__ __forceinline__ uint32_t bits_of_two_over_pi(int first)
{
    int word = (first + 32) / 32;
    uint64_t both = word == 0   ? 0x00000000a2f9836eu
                    : word == 1 ? 0xa2f9836e4e441529u
                    : word == 2 ? 0x4e441529fc2757d1u
                    : word == 3 ? 0xfc2757d1f534ddc0u
                    : word == 4 ? 0xf534ddc0db629599u
                    : word == 5 ? 0xdb6295993c439041u
                                : 0x3c439041fe5163abu;

    return (uint32_t)(both << (first + 32) % 32 >> 32);
}

/** For |x| >= 1: of the product of its 24 bits with 2 / pi only what is no multiple of four,
 *  and 62 bits behind the point (Payne and Hanek's way). */
__device__ __forceinline__ quarter_turns turns_of_large(float x)
{
    uint32_t bits, fraction, sign;
    uint64_t turns;
    int first;

    memcpy(&bits, &x, sizeof bits);
    sign = bits >> 31;
    fraction = (bits & 0x7fffff) | 0x800000;
    first = (int)(bits >> 23 & 255) - 127 - 23 - 2; /* this bit's product has the weight 2 */
    turns = ((uint64_t)fraction * bits_of_two_over_pi(first) << 32) +
            (uint64_t)fraction * bits_of_two_over_pi(first + 32) +
            ((uint64_t)fraction * bits_of_two_over_pi(first + 64) >> 32);
    if (sign) turns = 0 - turns;
    bits = (uint32_t)((turns + ((uint64_t)1 << 61)) >> 62);
    return {bits, (float)(int64_t)(turns - ((uint64_t)bits << 62)) * 0x1p-62f};
}

__device__ __forceinline__ quarter_turns turns_of(float x)
{
    const float large = 32768;
    float whole, rest;

    if (x >= large || x <= -large) return turns_of_large(x);
    whole = rint_f32(x * 0.636619747f);
    rest = fmaf(x, 0.636619747f, -whole); /* 2 / pi in three parts */
    rest = fmaf(x, 2.5682553e-08f, rest);
    rest = fmaf(x, 2.93709548e-16f, rest);
    return {(uint32_t)(int32_t)whole, rest};
}

/** sin_quarter_f32 with pi / 2 in two parts, which costs 1 ulp less. */
__device__ __forceinline__ float sine_of_rest(float v)
{
    float z = v * v, p = -0.00460211762f;

    p = p * z + 0.0796802078f;
    p = p * z - 0.645963477f;
    p = p * z - 4.37113883e-8f;
    return fmaf(v, 1.57079637f, v * p);
}

/** The sine of n + v quarter turns, NaN for what is no number. */
__device__ __forceinline__ float sine_of_turns(float x, uint32_t whole, float rest)
{
    float y = whole & 1 ? cos_quarter_f32(rest) : sine_of_rest(rest);

    y = whole & 2 ? -y : y;
    return x - x == 0 ? y : x - x;
}

__device__ __forceinline__ float sin_gpu(float x)
{
    quarter_turns t = turns_of(x);

    return x == 0 ? x : sine_of_turns(x, t.whole, t.rest);
}

__device__ __forceinline__ float cos_gpu(float x)
{
    quarter_turns t = turns_of(x);

    return sine_of_turns(x, t.whole + 1, t.rest);
}

__device__ __forceinline__ float tan_gpu(float x)
{
    quarter_turns t = turns_of(x);
    float sine = sine_of_rest(t.rest), cosine = cos_quarter_f32(t.rest);
    float y = t.whole & 1 ? -cosine / sine : sine / cosine;

    return x == 0 ? x : x - x == 0 ? y : x - x;
}
