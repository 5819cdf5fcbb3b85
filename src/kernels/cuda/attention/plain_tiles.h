/*
 * plain_tiles.h: products of tiles of attention with plain arithmetic. A block of 16 x 16 threads
 * has a tile of scores, own rows x other rows, and each thread `own` rows and columns of it that
 * lie side by side.
 *
 * Operands come in strips of DEPTH into one of two stages, so that one barrier per strip is enough,
 * also from one product to the next: `stage` is carried along.
 */
#pragma once

#include "kernels/cuda/attention/attention.h"

enum { SIDE_THREADS = 16, THREADS = SIDE_THREADS * SIDE_THREADS, DEPTH = 16 };

template <class T> struct plain_tile {
    static const int pack_size = pack<T>::n;
    static const int side = 64 * pack_size / 4, own = side / SIDE_THREADS; /* 64, of f64 32 */
    static const int wide = 2 * side + pack_size;

    T strip[2][DEPTH][wide]; /* stages of strips of two operands, or one that is twice as wide */
    T score[side][side + pack_size]; /* what is multiplied by other rows */
};

/** Rows of a head from `first` on; `rows` of them are there. */
template <class E> struct plain_rows {
    const E *x;
    int64_t row, column, rows, columns;

    __device__ __forceinline__ plain_rows(const attention_arguments &p, int role,
                                          const attention_head &at, int64_t first, int64_t count)
        : x(head_rows<const E>(p.role[role], at) + first * p.role[role].row), row(p.role[role].row),
          column(p.role[role].column), rows(count - first), columns(p.d)
    {
    }
};

template <class E>
__device__ __forceinline__ real<E> element_of(const plain_rows<E> &of, int64_t i, int64_t j)
{
    return i < of.rows && j < of.columns ? to_real(of.x[i * of.row + j * of.column]) : 0;
}

/* Columns [c, c + DEPTH) of `side` rows, turned. Eight neighbouring threads have 8 columns. */
template <class T, class E>
__device__ __forceinline__ void load_strip(T (&strip)[DEPTH][plain_tile<T>::wide], int to,
                                           const plain_rows<E> &from, int64_t c)
{
    const int across = 8, rows = THREADS / across;
    int column = threadIdx.x % across, row = threadIdx.x / across;

#pragma unroll
    for (int i = 0; i < plain_tile<T>::side; i += rows)
#pragma unroll
        for (int j = 0; j < DEPTH; j += across)
            strip[j + column][to + i + row] = element_of(from, i + row, c + j + column);
}

/* A thread's elements of a row of a strip. */
template <class T, int own> __device__ __forceinline__ void load_own(T (&to)[own], const T *from)
{
    pack<T, own> some = *(const pack<T, own> *)from;

#pragma unroll
    for (int i = 0; i < own; i++) to[i] = some.at[i];
}

/** s = a b^T, for own rows a and other rows b. */
template <class T, class E>
__device__ __forceinline__ void
multiply_rows(T (&s)[plain_tile<T>::own][plain_tile<T>::own], plain_tile<T> &tile, int &stage,
              const plain_rows<E> &a, const plain_rows<E> &b, int64_t d)
{
    const int own = plain_tile<T>::own, side = plain_tile<T>::side;
    int i0 = threadIdx.x / SIDE_THREADS * own, j0 = threadIdx.x % SIDE_THREADS * own;

#pragma unroll
    for (int i = 0; i < own * own; i++) s[i / own][i % own] = 0;
    for (int64_t c = 0; c < d; c += DEPTH, stage = 1 - stage) {
        auto &strip = tile.strip[stage];

        load_strip<T, E>(strip, 0, a, c);
        load_strip<T, E>(strip, side, b, c);
        __syncthreads(); /* the strip is there; nobody reads the other stage any more */
#pragma unroll 4
        for (int l = 0; l < DEPTH; l++) {
            T of_a[own], of_b[own];

            load_own(of_a, &strip[l][i0]);
            load_own(of_b, &strip[l][side + j0]);
#pragma unroll
            for (int i = 0; i < own; i++)
#pragma unroll
                for (int j = 0; j < own; j++) s[i][j] += of_a[i] * of_b[j];
        }
    }
}

/** Keep a thread's scores for add_product, whose first barrier shows them to the others. */
template <class T>
__device__ __forceinline__ void keep_scores(const T (&s)[plain_tile<T>::own][plain_tile<T>::own],
                                            plain_tile<T> &tile)
{
    const int own = plain_tile<T>::own;
    int i0 = threadIdx.x / SIDE_THREADS * own, j0 = threadIdx.x % SIDE_THREADS * own;

#pragma unroll
    for (int i = 0; i < own; i++) {
        pack<T, own> some;

#pragma unroll
        for (int j = 0; j < own; j++) some.at[j] = s[i][j];
        *(pack<T, own> *)&tile.score[i0 + i][j0] = some;
    }
}

/* Rows [l, l + DEPTH) of others, columns from c on. */
template <class T, class E, int groups>
__device__ __forceinline__ void load_wide_strip(T (&strip)[DEPTH][plain_tile<T>::wide],
                                                const plain_rows<E> &from, int64_t l, int64_t c)
{
    const int side = plain_tile<T>::side, rows = THREADS / side;
    int column = threadIdx.x % side, row = threadIdx.x / side;

#pragma unroll
    for (int i = 0; i < DEPTH; i += rows)
#pragma unroll
        for (int g = 0; g < groups; g++)
            strip[i + row][g * side + column] =
                element_of(from, l + i + row, c + g * side + column);
}

/** sum += (kept scores) x, columns of x from c on: a thread has `groups` times `own` of them,
 * `side` apart. */
template <class T, class E, int groups>
__device__ __forceinline__ void
add_product(T (&sum)[plain_tile<T>::own][groups][plain_tile<T>::own], plain_tile<T> &tile,
            int &stage, const plain_rows<E> &x, int64_t c)
{
    const int own = plain_tile<T>::own, side = plain_tile<T>::side;
    int i0 = threadIdx.x / SIDE_THREADS * own, j0 = threadIdx.x % SIDE_THREADS * own;

    for (int k = 0; k < side && k < x.rows; k += DEPTH, stage = 1 - stage) {
        auto &strip = tile.strip[stage];

        load_wide_strip<T, E, groups>(strip, x, k, c);
        __syncthreads();
#pragma unroll 2
        for (int l = 0; l < DEPTH; l += own) {
            T score[own][own];

#pragma unroll
            for (int i = 0; i < own; i++) load_own(score[i], &tile.score[i0 + i][k + l]);
#pragma unroll
            for (int e = 0; e < own * groups; e++) {
                T of_x[own];

                load_own(of_x, &strip[l + e / groups][e % groups * side + j0]);
#pragma unroll
                for (int i = 0; i < own; i++)
#pragma unroll
                    for (int j = 0; j < own; j++)
                        sum[i][e % groups][j] += score[i][e / groups] * of_x[j];
            }
        }
    }
}

/** Write a thread's sums as rows from `first` on of which `count` are there, times factor[i]. */
template <class E, class T, int groups>
__device__ __forceinline__ void
store_sums(const attention_arguments &p, int role, const attention_head &at, int64_t first,
           int64_t count, int64_t c, const T (&sum)[plain_tile<T>::own][groups][plain_tile<T>::own],
           const T (&factor)[plain_tile<T>::own])
{
    const int own = plain_tile<T>::own, side = plain_tile<T>::side;
    const attention_rows &to = p.role[role];
    int64_t row = first + threadIdx.x / SIDE_THREADS * own;

#pragma unroll
    for (int i = 0; i < own; i++)
#pragma unroll
        for (int g = 0; g < groups; g++) {
            int64_t column = c + g * side + threadIdx.x % SIDE_THREADS * own;
            E some[own];

            if (row + i >= count) continue;
#pragma unroll
            for (int j = 0; j < own; j++) some[j] = from_real<E>(sum[i][g][j] * factor[i]);
            store_some(some, head_rows<E>(to, at) + (row + i) * to.row + column,
                       (int)smaller(p.d - column, own), to.packed);
        }
}
