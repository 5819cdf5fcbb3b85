/*
 * offset_map.h: where rows, batch entries or reduced elements of a strided operand lie, by their
 * row-major number. Numbers have 63 bits here, unlike those of index_map.h, which every element of
 * a pointwise kernel needs.
 *
 * A map is made of a loop nest, whose dims are merged already (loop_nest.h), so most maps are a
 * single multiplication.
 */
#pragma once

#include "kernels/cuda/cuda_kernel.h"

extern "C" {
#include "kernels/operands/loop_nest.h"
}

/** Division of numbers below 2^63 as a multiplication and a shift (Granlund & Montgomery 1994). */
struct wide_divisor {
    uint64_t value, factor;
    int shift;
};

static inline wide_divisor wide_divisor_of(int64_t value)
{
    uint64_t d = (uint64_t)value, quotient = 0, rest = 1;
    int shift = 0;

    if (d <= 1) return {1, 0, 0};
    while (((uint64_t)1 << shift) < d) shift++;
    /* 2^(63 + shift) / d, bit by bit: the quotient is below 2^64. */
    for (int i = 0; i < 63 + shift; i++) {
        bool above = rest >= d - rest;

        rest = above ? rest - (d - rest) : rest + rest;
        quotient = 2 * quotient + above;
    }
    return {d, quotient + 1, shift - 1};
}

__device__ __forceinline__ int64_t divide_wide(int64_t number, const wide_divisor &by)
{
    return by.factor ? (int64_t)(__umul64hi((uint64_t)number, by.factor) >> by.shift) : number;
}

struct offset_map {
    int n_dims;
    wide_divisor size[WEFT_MAX_DIMS];
    int64_t step[WEFT_MAX_DIMS]; /* in elements */
};

/** The map of one operand of a nest whose elements have so many bytes. */
static inline offset_map offset_map_of(const wf_loop_nest *nest, int operand, int64_t bytes)
{
    offset_map m = {};

    m.n_dims = nest->n_dims;
    for (int d = 0; d < nest->n_dims; d++) {
        m.size[d] = wide_divisor_of(nest->dim[d].size);
        m.step[d] = nest->dim[d].step[operand] / bytes;
    }
    return m;
}

/** The map of all elements of an operand. */
static inline offset_map offset_map_of_elements(const wf_tensor_desc *d)
{
    wf_operand_strides strides = {};
    wf_loop_nest nest;

    strides.bytes = 1;
    for (int i = 0; i < d->ndim; i++) strides.stride[i] = d->stride[i];
    wf_loop_nest_make(&nest, d->shape, d->ndim, &strides, 1);
    return offset_map_of(&nest, 0, 1);
}

/** Offset of number i. */
__device__ __forceinline__ int64_t map_offset(const offset_map &m, int64_t i)
{
    int64_t at = 0;

    for (int d = m.n_dims - 1; d > 0; d--) {
        int64_t outer = divide_wide(i, m.size[d]);

        at += (i - outer * (int64_t)m.size[d].value) * m.step[d];
        i = outer;
    }
    return at + i * m.step[0];
}
