/* cases.h: shapes and small helpers that the kernel tests of loops share; see operands.h. */
#pragma once

#include "operands.h"

struct sizes {
    int ndim;
    int64_t n[WEFT_MAX_DIMS];
};

/* A scalar, empty ones, odd sizes, whole vectors, more than a gather buffer, many dims. */
static const struct sizes some_shapes[] = {
    {0, {0}},        {1, {0}},       {1, {1}},          {1, {7}},
    {1, {64}},       {2, {8, 8}},    {2, {0, 4}},       {2, {3, 0}},
    {2, {1, 37}},    {2, {5, 1}},    {2, {3, 300}},     {2, {300, 3}},
    {3, {3, 5, 33}}, {3, {2, 1, 6}}, {4, {2, 3, 4, 5}}, {5, {2, 2, 1, 3, 2}},
};
enum { SHAPES = sizeof some_shapes / sizeof *some_shapes };

/* Shapes that broadcast against each other, and to what. */
static const struct {
    struct sizes a, b, y;
} broadcast_pairs[] = {
    {{0, {0}}, {0, {0}}, {0, {0}}},
    {{1, {37}}, {1, {37}}, {1, {37}}},
    {{1, {37}}, {0, {0}}, {1, {37}}},
    {{0, {0}}, {1, {37}}, {1, {37}}},
    {{2, {5, 33}}, {1, {33}}, {2, {5, 33}}},
    {{1, {33}}, {2, {5, 33}}, {2, {5, 33}}},
    {{2, {5, 33}}, {2, {5, 1}}, {2, {5, 33}}},
    {{2, {5, 1}}, {2, {1, 33}}, {2, {5, 33}}},
    {{3, {2, 3, 4}}, {3, {2, 1, 4}}, {3, {2, 3, 4}}},
    {{3, {2, 1, 300}}, {2, {3, 1}}, {3, {2, 3, 300}}},
    {{3, {3, 2, 64}}, {1, {64}}, {3, {3, 2, 64}}},
    {{3, {3, 1, 64}}, {3, {3, 2, 1}}, {3, {3, 2, 64}}},
    {{2, {0, 4}}, {1, {4}}, {2, {0, 4}}},
};
enum { BROADCAST_PAIRS = sizeof broadcast_pairs / sizeof *broadcast_pairs };

enum { REAL_DTYPES = WEFT_C64 }; /* but for complex numbers */

/** All the ways to lie in memory, one after the other. */
static inline enum lie nth_lie(int i) { return (enum lie)(i % LIES); }

/** Whole numbers from -half to half, for unsigned dtypes from 0. */
static inline void operand_whole(struct operand *o, uint64_t seed, int half)
{
    uint64_t state = seed * 131 + 7;

    for (int64_t i = 0; i < o->desc.numel; i++)
        o->values[i] = floor((noise(&state) + 1) * (half + 0.5)) - half;
    for (int64_t i = 0; i < o->desc.numel && o->desc.dtype >= WEFT_U8; i++)
        o->values[i] = fabs(o->values[i]);
    operand_write(o);
}

/** Turn one dim into a repeated one (stride 0). */
static inline void operand_repeat(struct operand *o, int dim)
{
    o->desc.stride[dim] = 0;
    o->desc.contiguous = false;
    operand_read(o);
}

/** The poison around a plain operand is untouched. */
static inline void expect_guards(const struct operand *o)
{
    int64_t bytes = o->desc.numel * (int64_t)wf_dtypes[o->desc.dtype].size;

    UNGUARD(o->memory, GUARD_BYTES);
    UNGUARD(o->data + bytes, GUARD_BYTES);
    for (int i = 0; i < GUARD_BYTES; i++) {
        ck_assert_int_eq(o->memory[i], 0x7b);
        ck_assert_int_eq(o->data[bytes + i], 0x7b);
    }
}

/** Row-major number, in `in`, of the element that broadcasting puts at number i of shape `out`. */
static inline int64_t broadcast_number(const struct wf_tensor_desc *in,
                                       const struct wf_tensor_desc *out, int64_t i)
{
    int64_t number = 0, stride = 1;

    for (int d = out->ndim - 1; d >= 0; d--) {
        int own = d - (out->ndim - in->ndim);

        if (own >= 0) {
            number += (in->shape[own] == 1 ? 0 : i % out->shape[d]) * stride;
            stride *= in->shape[own];
        }
        i /= out->shape[d];
    }
    return number;
}
