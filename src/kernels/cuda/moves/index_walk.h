/*
 * index_walk.h: kernels/operands/index_walk.h on a GPU: for each row on the other side, where index
 * tensors say that the table has it.
 *
 * What is no index of its dim is told as a fault (fault.h) and treated as one that another rank
 * has.
 */
#pragma once

#include "kernels/cuda/fault.h"
#include "kernels/cuda/offset_map.h"
#include "kernels/cuda/prepare.h"

extern "C" {
#include "kernels/operands/index_operands.h"
}

struct cuda_index_walk {
    int n_dims, n_indices;
    bool wrap;
    int64_t count, row_bytes;
    wide_divisor size[WEFT_MAX_DIMS];
    int64_t table_step[WEFT_MAX_DIMS]; /* bytes */
    struct {
        bool wide;
        int64_t step[WEFT_MAX_DIMS]; /* bytes */
        int64_t global, offset, size, table_step;
    } index[WF_MAX_INDICES];
};

/** Index tensors of a call, and where faults are told. */
struct index_pointers {
    const char *of[WF_MAX_INDICES];
    struct wf_cuda_fault *fault;
};

/** Bytes from the table's first element to row number r; -1: this rank has it not. tells: whether
 *  this thread tells a fault. */
__device__ __forceinline__ int64_t place_of_row(const cuda_index_walk &walk,
                                                const index_pointers &pointers, int64_t r,
                                                bool tells)
{
    int64_t place = 0, at[WF_MAX_INDICES] = {};
    bool here = true;

#pragma unroll
    for (int d = WEFT_MAX_DIMS - 1; d >= 0; d--) {
        int64_t outer = 0, number;

        if (d >= walk.n_dims) continue;
        if (d > 0) outer = divide_wide(r, walk.size[d]);
        number = r - outer * (int64_t)walk.size[d].value;
        place += number * walk.table_step[d];
#pragma unroll
        for (int i = 0; i < WF_MAX_INDICES; i++)
            if (i < walk.n_indices) at[i] += number * walk.index[i].step[d];
        r = outer;
    }
#pragma unroll
    for (int i = 0; i < WF_MAX_INDICES; i++) {
        int64_t v, local;

        if (i >= walk.n_indices) continue;
        v = walk.index[i].wide ? *(const int64_t *)(pointers.of[i] + at[i])
                               : *(const int32_t *)(pointers.of[i] + at[i]);
        local = v < 0 && walk.wrap ? v + walk.index[i].global : v;
        if (tells && (local < 0 || local >= walk.index[i].global))
            record_fault(pointers.fault, WF_CUDA_FAULT_INDEX_OF_DIM, v, walk.index[i].global, 0);
        local -= walk.index[i].offset;
        here = here && local >= 0 && local < walk.index[i].size;
        place += local * walk.index[i].table_step;
    }
    return here ? place : -1;
}

/** What a GPU needs of a walk. false: a rank has several runs of a dim that is counted. */
static inline bool cuda_index_walk_of(const wf_index_walk &walk, cuda_index_walk *to)
{
    *to = {};
    to->n_dims = walk.n_dims;
    to->n_indices = walk.n_indices;
    to->wrap = walk.wrap;
    to->count = walk.count;
    to->row_bytes = walk.row_bytes;
    for (int d = 0; d < walk.n_dims; d++) {
        to->size[d] = wide_divisor_of(walk.shape[d]);
        to->table_step[d] = walk.table_step[d];
    }
    for (int i = 0; i < walk.n_indices; i++) {
        const wf_walked_index &from = walk.index[i];

        if (from.runs) return false;
        to->index[i].wide = from.wide;
        memcpy(to->index[i].step, from.step, sizeof from.step);
        to->index[i].global = from.global;
        to->index[i].offset = from.offset;
        to->index[i].size = from.size;
        to->index[i].table_step = from.table_step;
    }
    return true;
}

/** The walk of these operands, as a GPU needs it. `count` 0: the shape of a dim is 0. */
static inline weft_status make_cuda_walk(const wf_kernel_call *k, const wf_index_operands &operands,
                                         cuda_index_walk *to)
{
    wf_index_walk walk = {};
    weft_status status = wf_index_walk_make(k, &walk, &operands);
    bool fits = status == WEFT_OK && cuda_index_walk_of(walk, to);

    wf_index_walk_free(&walk);
    if (status != WEFT_OK) return status;
    return fits ? WEFT_OK : wf_cuda_fail_no_kernel(k, operands.table->dtype);
}
