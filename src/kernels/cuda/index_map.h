/*
 * index_map.h: from the number of an element to where each operand has it, for operands that are
 * strided or broadcast. A map is made of a loop nest, whose dims are merged already (loop_nest.h):
 * row-major operands have one dim and no division.
 *
 * Numbers in a launch have 32 bits. A nest with more indices than wf_cuda_index_limit is several
 * launches.
 */
#pragma once

#include "kernels/cuda/cuda_kernel.h"

extern "C" {
#include "kernels/operands/loop_nest.h"

/** Indices of a launch: 2^30. A test makes it smaller, before it prepares a call. */
extern int64_t wf_cuda_index_limit;
}

/** Division of numbers below 2^31 by a divisor below 2^31, as a multiplication and a shift
 *  (Granlund & Montgomery 1994). */
struct divisor {
    uint32_t value, factor, shift;
};

static inline struct divisor divisor_of(uint32_t value)
{
    uint32_t shift = 0;

    while (((uint64_t)1 << shift) < value) shift++;
    return {value, (uint32_t)(((((uint64_t)1 << shift) - value) << 32) / value + 1), shift};
}

__device__ __forceinline__ uint32_t divide(uint32_t number, struct divisor by)
{
    return (__umulhi(number, by.factor) + number) >> by.shift;
}

template <int operands, int dims = WEFT_MAX_DIMS> struct index_map {
    uint32_t count; /* indices */
    int n_dims;
    struct {
        struct divisor size;
        int64_t step[operands]; /* bytes */
    } dim[dims];                /* innermost first */
};

/** The map of a nest with at most wf_cuda_index_limit indices. */
template <int operands, int dims>
static inline void index_map_make(struct index_map<operands, dims> *map,
                                  const struct wf_loop_nest *nest)
{
    *map = {};
    if (nest->count == 0) return;
    map->count = (uint32_t)nest->count;
    map->n_dims = nest->n_dims;
    for (int d = 0; d < nest->n_dims; d++) {
        const struct wf_loop_dim *dim = &nest->dim[nest->n_dims - 1 - d];

        map->dim[d].size = divisor_of((uint32_t)dim->size);
        for (int i = 0; i < nest->n_operands; i++) map->dim[d].step[i] = dim->step[i];
    }
}

/** Add to at[] where index `number` lies in the first `n` operands, in bytes. */
template <int n, int operands, int dims>
__device__ __forceinline__ void index_map_locate(const struct index_map<operands, dims> &map,
                                                 uint32_t number, int64_t (&at)[n])
{
#pragma unroll
    for (int d = 0; d < dims; d++) {
        uint32_t outer = 0, index;

        if (d >= map.n_dims) break;
        if (d + 1 < map.n_dims) outer = divide(number, map.dim[d].size);
        index = number - outer * map.dim[d].size.value;
#pragma unroll
        for (int i = 0; i < n; i++) at[i] += index * map.dim[d].step[i];
        number = outer;
    }
}

/** Cut a nest into nests of at most `limit` indices: part(nest, at) for each, at: where operands
 *  begin, in bytes. Outermost dims are cut first, so parts are as few and as large as may be. */
template <class Part>
static inline void for_each_sub_nest(const struct wf_loop_nest *nest, int64_t limit, Part part,
                                     const int64_t *at = nullptr)
{
    const int64_t zeros[WF_MAX_OPERANDS] = {0};
    int64_t inner, chunk;

    at = at ? at : zeros;
    if (nest->count <= limit) {
        if (nest->count) part(*nest, at);
        return;
    }
    inner = nest->count / nest->dim[0].size;
    chunk = inner < limit ? limit / inner : 1;
    for (int64_t first = 0; first < nest->dim[0].size; first += chunk) {
        struct wf_loop_nest piece = *nest;
        int64_t begin[WF_MAX_OPERANDS];

        for (int i = 0; i < nest->n_operands; i++) begin[i] = at[i] + first * nest->dim[0].step[i];
        if (chunk > nest->dim[0].size - first) chunk = nest->dim[0].size - first;
        piece.dim[0].size = chunk;
        piece.count = chunk * inner;
        if (chunk == 1) (void)wf_loop_nest_remove_dim(&piece, 0);
        for_each_sub_nest(&piece, limit, part, begin);
    }
}
