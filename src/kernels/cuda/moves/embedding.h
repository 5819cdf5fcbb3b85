/*
 * embedding.h: which row of this rank's part of a table an index means.
 *
 * An index counts rows of the global table; this rank has some of its rows and columns. With a
 * table per item, [B,V,D], the indices are [B,*]: each looks in the table of its item. What is no
 * row of the global table is told as a fault (fault.h) and treated as a row of another rank.
 */
#pragma once

#include "kernels/cuda/fault.h"
#include "kernels/cuda/offset_map.h"
#include "kernels/cuda/prepare.h"

struct embedding_lookup {
    int64_t tokens;
    wide_divisor tokens_of_item;
    const void *index;
    offset_map at;                    /* number of a token -> its index */
    bool wide;                        /* indices are i64 */
    int64_t global_rows, first, rows; /* the table's; those that are here */
    struct wf_cuda_fault *fault;

    __device__ __forceinline__ int64_t item_of_token(int64_t i) const
    {
        return divide_wide(i, tokens_of_item);
    }

    /** The row's number among those that are here, or -1. tells: whether this thread tells a fault.
     */
    __device__ __forceinline__ int64_t row_of_token(int64_t i, bool tells) const
    {
        int64_t offset = map_offset(at, i);
        int64_t row = wide ? ((const int64_t *)index)[offset] : ((const int32_t *)index)[offset];

        if (tells && (row < 0 || row >= global_rows))
            record_fault(fault, WF_CUDA_FAULT_INDEX, row, global_rows, 0);
        row -= first;
        return row >= 0 && row < rows ? row : -1;
    }
};

/** What is known when a plan is made. table: of the forward, or its gradient. */
static inline embedding_lookup embedding_lookup_of(const wf_kernel_call *k,
                                                   const wf_tensor_desc *table)
{
    const wf_tensor_desc *index = k->in[1];
    int rows = table->ndim - 2;
    int64_t items = rows ? table->shape[0] : 1;
    embedding_lookup l = {};

    l.tokens = index->numel;
    l.tokens_of_item = wide_divisor_of(items ? index->numel / items : 1);
    l.at = offset_map_of_elements(index);
    l.wide = index->dtype == WEFT_I64;
    l.global_rows = table->global[rows];
    l.first = table->offset[rows];
    l.rows = table->shape[rows];
    return l;
}
