/*
 * token_lists.h: for each row of a table the numbers of the tokens that mean it, in order, so that
 * what they bring is taken in the order of the tokens, without atomic operations on floats.
 *
 *     l = wf_cuda_token_lists_begin(tokens, rows);
 *     a kernel calls note_token for every token
 *     wf_cuda_token_lists_end(k, l, tokens, rows);
 *
 * Then row r has the l.count[r] tokens that begin at tokens_of_row(l, r). The lists are in scratch
 * memory. Tokens and rows are at most INT32_MAX.
 */
#pragma once

#include "kernels/cuda/cuda_kernel.h"

struct token_lists {
    int32_t *row;    /* of each token, -1: none here */
    uint32_t *count; /* tokens of each row */
    uint32_t *place; /* where the row's tokens are listed; while they are, where the next one goes,
                        so at last behind them */
    uint32_t *used;  /* places given so far */
    uint32_t *left_over; /* tokens of rows that have too many to be put in order by counting */
    uint32_t *token;     /* the lists */
    uint32_t *any_order; /* the same, before they are put in order */
};

token_lists wf_cuda_token_lists_begin(int64_t tokens, int64_t rows);
void wf_cuda_token_lists_end(const wf_kernel_call *k, const token_lists &l, int64_t tokens,
                             int64_t rows);

/** row -1: none of this rank's. */
__device__ __forceinline__ void note_token(const token_lists &l, int64_t token, int64_t row)
{
    l.row[token] = (int32_t)row;
    if (row >= 0) atomicAdd(&l.count[row], 1u);
}

/** Of a row that has some. */
__device__ __forceinline__ const uint32_t *tokens_of_row(const token_lists &l, int64_t row)
{
    return l.token + l.place[row] - l.count[row];
}
