/*
 * tensor_tiles.h: products of tiles of attention on tensor cores, for heads of up to D elements of
 * bf16 or f16. A block of four warps has OWN own rows, each warp MMA_M of them and all that becomes
 * of them: scores never leave its registers. Own rows stay in shared memory; others come in two
 * stages, one being copied while the other is multiplied.
 *
 * Exponents are those of 2: scores are in units of which e^1 has LOG2_E.
 */
#pragma once

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/fragments.h"

enum { TENSOR_WARPS = 4, TENSOR_THREADS = TENSOR_WARPS * WARP, OWN = TENSOR_WARPS * MMA_M };

#define LOG2_E 1.44269504088896340736f
#define LOG_2 0.693147180559945309417f

/** `owns` operands of own rows and two of others, of type E in shared memory. */
template <class E, int D, int owns, int others_> struct tensor_tiles {
    static const int others = others_, row = D + FRAGMENT_GAP;
    static const int bytes = (owns * OWN + 4 * others) * row * (int)sizeof(E);
    E *memory;

    __device__ __forceinline__ E *own(int operand) const { return memory + operand * OWN * row; }
    __device__ __forceinline__ E *other(int stage, int operand) const
    {
        return own(owns) + (stage * 2 + operand) * others * row;
    }
};

/** Start to bring rows from `first` on, of `count` of a head. */
template <int rows, int D, class E>
__device__ __forceinline__ void load_head_rows(E *to, const attention_arguments &p, int role,
                                               const attention_head &at, int64_t first,
                                               int64_t count)
{
    const attention_rows &of = p.role[role];

    load_tile<rows, D, TENSOR_THREADS>(
        to, tile_source<E>{head_rows<const E>(of, at) + first * of.row, of.row, of.column,
                           count - first, p.d, of.packed});
}

/** The first of this warp's rows in a tile of own rows. */
__device__ __forceinline__ int warp_row() { return (int)threadIdx.x / WARP * MMA_M; }

/** s = own rows times others. */
template <int D, int others, class E>
__device__ __forceinline__ void multiply_rows(float (&s)[others / MMA_N][4], const E *own,
                                              const E *other)
{
#pragma unroll
    for (int j = 0; j < others / MMA_N * 4; j++) s[j / 4][j % 4] = 0;
#pragma unroll
    for (int k = 0; k < D; k += MMA_K) {
        uint32_t a[4];

        load_a_fragment<true, D>(a, own, warp_row(), k);
#pragma unroll
        for (int j = 0; j < others / MMA_N; j += 2) {
            uint32_t b[4];

            load_b_fragments<true, D>(b, other, j * MMA_N, k);
            multiply_fragments<E>(s[j], s[j + 1], a, b);
        }
    }
}

/** sum += s times others: results of a product are the left operand of the next as they lie. */
template <int D, int others, class E>
__device__ __forceinline__ void add_product(float (&sum)[D / MMA_N][4],
                                            const float (&s)[others / MMA_N][4], const E *other)
{
#pragma unroll
    for (int k = 0; k < others / MMA_K; k++) {
        const float(&low)[4] = s[2 * k], (&high)[4] = s[2 * k + 1];
        uint32_t a[4] = {tensor_core<E>::two(low[0], low[1]), tensor_core<E>::two(low[2], low[3]),
                         tensor_core<E>::two(high[0], high[1]),
                         tensor_core<E>::two(high[2], high[3])};

#pragma unroll
        for (int j = 0; j < D / MMA_N; j += 2) {
            uint32_t b[4];

            load_b_fragments<false, D>(b, other, j * MMA_N, k * MMA_K);
            multiply_fragments<E>(sum[j], sum[j + 1], a, b);
        }
    }
}

/* Of a row's scores in a tile those that are not hidden: `from` to `to` - 1, counted from the first
 * that this lane has. */
struct shown {
    int from, to;
};

__device__ __forceinline__ int within_tile(int64_t place)
{
    return (int)(place < 0 ? 0 : place < 1 << 20 ? place : 1 << 20);
}

/* The keys that a query sees, or with keys_are_rows the queries that see a key, in the tile. */
__device__ __forceinline__ struct shown shown_of_row(const attention_arguments &p, int64_t query,
                                                     int64_t key, bool keys_are_rows)
{
    if (keys_are_rows && key >= p.keys) return {0, 0};
    if (keys_are_rows)
        return {within_tile(first_query_seeing(p, key) - query), within_tile(p.queries - query)};
    return {0, query < p.queries ? within_tile(keys_seen(p, query) - key) : 0};
}

/** Scale a tile of scores, of which queries are the rows, or keys, and hide some. */
template <class E, int others>
__device__ __forceinline__ void adjust_scores(const attention_arguments &p,
                                              const attention_head &at, int64_t query, int64_t key,
                                              bool keys_are_rows, float (&s)[others / MMA_N][4])
{
    bool adjust = needs_adjusting(p, query, keys_are_rows ? others : (int)OWN, key,
                                  keys_are_rows ? (int)OWN : others);
    bool adds = p.mask.x || p.bias.x;
    int row = warp_row() + fragment_row(), column = fragment_column();
    float scale = (float)p.scale * LOG2_E;
    struct shown shown[2];

    query += keys_are_rows ? column : row;
    key += keys_are_rows ? row : column;
#pragma unroll
    for (int j = 0; j < others / MMA_N * 4; j++) s[j / 4][j % 4] *= scale;
    if (!adjust) return;
#pragma unroll
    for (int half = 0; half < 2; half++)
        shown[half] = shown_of_row(p, query + (keys_are_rows ? 0 : half * 8),
                                   key + (keys_are_rows ? half * 8 : 0), keys_are_rows);
#pragma unroll
    for (int j = 0; j < others / MMA_N; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            int i = e / 2 * 8, along = j * MMA_N + e % 2;

            if (adds)
                s[j][e] = adjusted_score<E>(p, at, s[j][e], query + (keys_are_rows ? along : i),
                                            key + (keys_are_rows ? i : along), LOG2_E);
            else if (along < shown[e / 2].from || along >= shown[e / 2].to)
                s[j][e] = -INFINITY;
        }
}

/** The sum or maximum of a row over the four lanes that have it. */
template <class Take> __device__ __forceinline__ float quad_reduce(float value, Take take)
{
    value = take(value, shuffle_xor(value, 1));
    return take(value, shuffle_xor(value, 2));
}

/** Write this warp's sums as rows from `first` on of which `count` are there. Lines 0 to 7 are
 * times factor[0], the others factor[1]. */
template <class E, int D>
__device__ __forceinline__ void
store_sums(const attention_arguments &p, int role, const attention_head &at, int64_t first,
           int64_t count, const float (&sum)[D / MMA_N][4], const float (&factor)[2])
{
    const attention_rows &to = p.role[role];

    first += warp_row() + fragment_row();
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int64_t row = first + half * 8;
        E *x = head_rows<E>(to, at) + row * to.row;

#pragma unroll
        for (int j = 0; j < D / MMA_N; j += 2) {
            const float *one = &sum[j][half * 2], *other = &sum[j + 1][half * 2];
            float v[2][2] = {{one[0] * factor[half], one[1] * factor[half]},
                             {other[0] * factor[half], other[1] * factor[half]}};

            store_row_of_fragments(x + j * MMA_N, v[0], v[1], row < count ? p.d - j * MMA_N : 0,
                                   to.packed);
        }
    }
}
