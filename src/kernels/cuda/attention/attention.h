/*
 * attention.h: what attention's kernels are given, and which head and rows a block has.
 *
 * Rows that a block keeps are its own, a tile of them; the others come tile by tile. Forward and dQ
 * have own queries, dK and dV own keys.
 */
#pragma once

#include "kernels/cuda/group_reduce.h"

extern "C" {
#include "kernels/operands/attention_operands.h"
}

/** Rows [T, D] of every head of Q, K, V, O or a gradient. Strides in elements. */
struct attention_rows {
    void *x; /* NULL: not wanted */
    int64_t batch, group, repeat, row, column;
    bool packed; /* every row begins at a multiple of 16 bytes and has no gaps */
};

/** A number per query and key, or per query. */
struct attention_numbers {
    void *x; /* NULL: none */
    int64_t batch, group, repeat, row, column;
};

struct attention_arguments {
    int64_t batches, groups, repeats, queries, d;
    int64_t keys, key_rows; /* those that are there; with unused ones behind them */
    bool causal, mask_is_bool;
    double scale;
    attention_rows role[WF_ATT_GRAD_HEADS];
    attention_numbers lse, delta; /* per query */
    attention_numbers mask, bias, bias_gradient;
};

/** The launches for one dtype and head size. */
struct attention_kernels {
    void (*forward)(const wf_kernel_call *k, const attention_arguments &p);
    void (*query_gradient)(const wf_kernel_call *k, const attention_arguments &p);
    void (*key_gradients)(const wf_kernel_call *k, const attention_arguments &p);
};

/** With plain arithmetic, for any head size; on tensor cores, for up to TENSOR_HEAD_SIZE. */
attention_kernels wf_cuda_plain_attention(uint8_t dtype, int64_t d);
attention_kernels wf_cuda_tensor_attention(uint8_t dtype, int64_t d, const char *op);
enum { TENSOR_HEAD_SIZE = 128 };

/** delta[query] = sum over j of dO[query][j] O[query][j]. */
void wf_cuda_attention_delta(const wf_kernel_call *k, const attention_arguments &p, uint8_t dtype);
void wf_cuda_attention_bias_gradient(const wf_kernel_call *k, const attention_arguments &p,
                                     uint8_t dtype);

/** Tiles of `side` rows in n. */
static inline int64_t attention_tiles(int64_t n, int side) { return (n + side - 1) / side; }

/* ---- in kernels ---- */

/** A head, of a batch entry. */
struct attention_head {
    int64_t batch, group, repeat;
};

template <class Numbers>
__device__ __forceinline__ int64_t head_offset(const Numbers &of, const attention_head &at)
{
    return at.batch * of.batch + at.group * of.group + at.repeat * of.repeat;
}

/** Where the rows of a head begin. */
template <class E>
__device__ __forceinline__ E *head_rows(const attention_rows &of, const attention_head &at)
{
    return (E *)of.x + head_offset(of, at);
}

/** Head number n; repeats: 1 where a block has all of a group. */
__device__ __forceinline__ attention_head head_of(const attention_arguments &p, int64_t n,
                                                  int64_t repeats)
{
    int64_t group = n / repeats;

    return {group / p.groups, group % p.groups, n % repeats};
}

__device__ __forceinline__ int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/** The first key that `query` does not see, if it were not masked. */
__device__ __forceinline__ int64_t keys_seen(const attention_arguments &p, int64_t query)
{
    int64_t seen = p.causal ? query + 1 + p.keys - p.queries : p.keys;

    return smaller(seen, p.keys);
}

/** The tile of `side` queries of a block that has blockIdx.x: the last first, since they see the
 * most keys. */
struct query_tile {
    attention_head at;
    int64_t query, seen; /* number of the first; keys that the last sees */

    __device__ __forceinline__ query_tile(const attention_arguments &p, int side)
    {
        int64_t tiles = (p.queries + side - 1) / side;

        at = head_of(p, blockIdx.x / tiles, p.repeats);
        query = (tiles - 1 - blockIdx.x % tiles) * side;
        seen = keys_seen(p, smaller(query + side, p.queries) - 1);
    }
};

/** The first query that sees `key`. */
__device__ __forceinline__ int64_t first_query_seeing(const attention_arguments &p, int64_t key)
{
    int64_t first = p.causal ? key - (p.keys - p.queries) : 0;

    return first > 0 ? first : 0;
}

/** Whether a tile has scores that are hidden, or to which something is added. */
__device__ __forceinline__ bool needs_adjusting(const attention_arguments &p, int64_t query,
                                                int64_t queries, int64_t key, int64_t keys)
{
    return p.mask.x || p.bias.x || query + queries > p.queries || key + keys > keys_seen(p, query);
}

/** A scaled score with mask and bias, in units of which e^1 has `unit`; hidden ones are -inf. */
template <class E, class T>
__device__ __forceinline__ T adjusted_score(const attention_arguments &p, const attention_head &at,
                                            T score, int64_t query, int64_t key, T unit)
{
    if (query >= p.queries || key >= keys_seen(p, query)) return -INFINITY;
    if (p.mask.x) {
        int64_t i = at.batch * p.mask.batch + query * p.mask.row + key * p.mask.column;

        if (!p.mask_is_bool)
            score += unit * to_real(((const E *)p.mask.x)[i]);
        else if (!((const bool *)p.mask.x)[i])
            return -INFINITY;
    }
    if (p.bias.x) {
        int64_t i = head_offset(p.bias, at) + query * p.bias.row + key * p.bias.column;

        score += unit * to_real(((const E *)p.bias.x)[i]);
    }
    return score;
}

/** A number of a query, 0 for one that is not there or is -inf: of a query that saw no key, every
 * score is -inf anyway. */
template <class T>
__device__ __forceinline__ T number_of_query(const attention_arguments &p,
                                             const attention_numbers &of, const attention_head &at,
                                             int64_t query)
{
    T value = query < p.queries ? ((const T *)of.x)[head_offset(of, at) + query * of.row] : 0;

    return value == (T)-INFINITY ? 0 : value;
}
