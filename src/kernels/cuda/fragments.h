/*
 * fragments.h: matrices of bf16 and f16 on tensor cores: from global to shared memory, as fragments
 * of mma.m16n8k16 to the lanes of a warp, and their results back to memory.
 *
 * Lane l has of a product's 16 x 8 results d[0], d[1] in row l / 4 and d[2], d[3] in row l / 4 + 8,
 * at columns 2 (l % 4) and the next. Rows in shared memory are longer than a tile's by FRAGMENT_GAP
 * elements, so that the eight rows that ldmatrix reads lie in different banks.
 */
#pragma once

#include "kernels/cuda/group_reduce.h"

enum { MMA_M = 16, MMA_N = 8, MMA_K = 16, FRAGMENT_GAP = 8 };

__device__ __forceinline__ int fragment_row() { return threadIdx.x % WARP / 4; }
__device__ __forceinline__ int fragment_column() { return threadIdx.x % 4 * 2; }

/** What tensor cores do with elements of type E. */
template <class E> struct tensor_core;
template <> struct tensor_core<bf16> {
    static __device__ __forceinline__ void multiply(float (&d)[4], const uint32_t (&a)[4],
                                                    const uint32_t (&b)[2])
    {
        gpu_mma_bf16(d, a, b);
    }
    static __device__ __forceinline__ uint32_t two(float low, float high)
    {
        return gpu_pack_bf16(low, high);
    }
};
template <> struct tensor_core<f16> {
    static __device__ __forceinline__ void multiply(float (&d)[4], const uint32_t (&a)[4],
                                                    const uint32_t (&b)[2])
    {
        gpu_mma_f16(d, a, b);
    }
    static __device__ __forceinline__ uint32_t two(float low, float high)
    {
        return gpu_pack_f16(low, high);
    }
};

/** Where the elements of a tile lie in global memory. */
template <class E> struct tile_source {
    const E *x;            /* the tile's first element */
    int64_t row, column;   /* strides */
    int64_t rows, columns; /* how many are there; zeros stand for the others */
    bool packed;           /* rows begin at multiples of 16 bytes and have no gaps */
};

/* The row that is number i. Where a row has 64 bytes, neighbours would lie in the same banks when
 * eight lanes write two of them at once; those that are four apart do not. */
template <int packs> __device__ __forceinline__ int row_in_turn(int i)
{
    return packs == 4 ? i / 8 * 8 + i % 2 * 4 + i % 8 / 2 : i;
}

/* A tile of which all is there, in packs: each thread has the same columns of every row that it
 * takes, so that the next one is a step away. */
template <int rows, int columns, int threads, class E>
__device__ __forceinline__ void copy_whole_tile(E *to, const tile_source<E> &from)
{
    const int size = pack<E>::n, packs = columns / size, at_once = threads / packs;
    const int thread = threadIdx.x, first = row_in_turn<packs>(thread / packs);
    E *at = to + first * (columns + FRAGMENT_GAP) + thread % packs * size;
    const E *x = from.x + first * from.row + thread % packs * size;

    static_assert(threads % packs == 0 && (packs != 4 || at_once % 8 == 0), "the same columns");
#pragma unroll
    for (int k = 0; k < rows / at_once; k++, x += at_once * from.row)
        gpu_copy_async(at + k * at_once * (columns + FRAGMENT_GAP), x);
    if (rows % at_once > thread / packs)
        gpu_copy_async(at + rows / at_once * at_once * (columns + FRAGMENT_GAP), x);
}

/** Start to bring a tile of rows x columns into shared memory, with the threads of the block. */
template <int rows, int columns, int threads, class E>
__device__ __forceinline__ void load_tile(E *to, const tile_source<E> &from)
{
    const int size = pack<E>::n, packs = columns / size;

    if (from.packed && from.rows >= rows && from.columns >= columns) {
        copy_whole_tile<rows, columns, threads>(to, from);
        return;
    }
#pragma unroll 1
    for (int i = threadIdx.x; i < rows * packs; i += threads) {
        int r = row_in_turn<packs>(i / packs), c = i % packs * size;
        E *at = to + r * (columns + FRAGMENT_GAP) + c;
        const E *x = from.x + r * from.row + c * from.column;

        if (from.packed && r < from.rows && c + size <= from.columns) {
            gpu_copy_async(at, x);
        } else {
            pack<E> v = {};

            for (int e = 0; e < size; e++)
                if (r < from.rows && c + e < from.columns) v.at[e] = x[e * from.column];
            store_shared_pack(at, v);
        }
    }
}

/** A's fragment of rows from `row` and 16 k from `k` on, of a tile in shared memory with rows of
 * `columns`: along_k has a row for each of A's, otherwise a row for each k. */
template <bool along_k, int columns, class E>
__device__ __forceinline__ void load_a_fragment(uint32_t (&a)[4], const E *tile, int row, int k)
{
    const int step = columns + FRAGMENT_GAP;
    int lane = threadIdx.x % WARP;

    if (along_k)
        gpu_ldmatrix(a, tile + (row + lane % 16) * step + k + lane / 16 * 8);
    else
        gpu_ldmatrix_transposed(a, tile + (k + lane % 8 + lane / 16 * 8) * step + row +
                                       lane / 8 % 2 * 8);
}

/** B's fragments for two neighbouring products, whose columns begin at `column`: b[0], b[1] and
 * b[2], b[3]. along_k: the tile has a row for each column of B. */
template <bool along_k, int columns, class E>
__device__ __forceinline__ void load_b_fragments(uint32_t (&b)[4], const E *tile, int column, int k)
{
    const int step = columns + FRAGMENT_GAP;
    int lane = threadIdx.x % WARP;

    if (along_k)
        gpu_ldmatrix(b, tile + (column + lane % 8 + lane / 16 * 8) * step + k + lane / 8 % 2 * 8);
    else
        gpu_ldmatrix_transposed(b, tile + (k + lane % 16) * step + column + lane / 16 * 8);
}

/** Two neighbouring products: d0 += a b01, d1 += a b23. */
template <class E>
__device__ __forceinline__ void multiply_fragments(float (&d0)[4], float (&d1)[4],
                                                   const uint32_t (&a)[4], const uint32_t (&b)[4])
{
    tensor_core<E>::multiply(d0, a, {b[0], b[1]});
    tensor_core<E>::multiply(d1, a, {b[2], b[3]});
}

/**
 * One row of two neighbouring products: this lane's two results of each, for columns to[0] to
 * to[15], of which `columns` are there (0: the row is not). packed: four columns can be written at
 * once. All lanes call it.
 */
__device__ __forceinline__ void store_row_of_fragments(float *to, const float (&first)[2],
                                                       const float (&second)[2], int64_t columns,
                                                       bool packed)
{
    int column = fragment_column();

#pragma unroll
    for (int half = 0; half < 2; half++, column += MMA_N) {
        const float(&v)[2] = half ? second : first;

        if (packed && column + 2 <= columns) {
            *(pack<float, 2> *)(to + column) = {{v[0], v[1]}};
            continue;
        }
        for (int i = 0; i < 2; i++)
            if (column + i < columns) to[column + i] = v[i];
    }
}

/* Neighbouring lanes exchange a half, so that four of them write 32 bytes that lie together. */
template <class E>
__device__ __forceinline__ void store_row_of_fragments(E *to, const float (&first)[2],
                                                       const float (&second)[2], int64_t columns,
                                                       bool packed)
{
    uint32_t mine[2] = {tensor_core<E>::two(first[0], first[1]),
                        tensor_core<E>::two(second[0], second[1])};
    bool odd = threadIdx.x & 1;
    uint32_t other = __shfl_xor_sync(~0u, odd ? mine[0] : mine[1], 1);
    pack<uint32_t, 2> four = {{odd ? other : mine[0], odd ? mine[1] : other}};
    int column = (odd ? MMA_N : 0) + threadIdx.x % 4 / 2 * 4;

    if (packed && column + 4 <= columns) {
        *(pack<uint32_t, 2> *)(to + column) = four;
        return;
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
        if (column + i < columns) to[column + i].bits = (uint16_t)(four.at[i / 2] >> i % 2 * 16);
}
