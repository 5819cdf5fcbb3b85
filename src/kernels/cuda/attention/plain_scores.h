/*
 * plain_scores.h: a tile of scores with mask and bias, and its gradient from the probabilities.
 */
#pragma once

#include "kernels/cuda/attention/plain_tiles.h"

/** Scale a tile of scores of queries (rows) and keys, or of keys and queries, and hide some. */
template <class E, class T>
__device__ __forceinline__ void
adjust_scores(const attention_arguments &p, const attention_head &at, int64_t query, int64_t key,
              bool keys_are_rows, T (&s)[plain_tile<T>::own][plain_tile<T>::own])
{
    const int own = plain_tile<T>::own, side = plain_tile<T>::side;
    bool adjust = needs_adjusting(p, query, side, key, side);
    int i0 = threadIdx.x / SIDE_THREADS * own, j0 = threadIdx.x % SIDE_THREADS * own;

    query += keys_are_rows ? j0 : i0;
    key += keys_are_rows ? i0 : j0;
#pragma unroll
    for (int i = 0; i < own; i++)
#pragma unroll
        for (int j = 0; j < own; j++) {
            s[i][j] *= (T)p.scale;
            if (adjust)
                s[i][j] = adjusted_score<E>(p, at, s[i][j], query + (keys_are_rows ? j : i),
                                            key + (keys_are_rows ? i : j), (T)1);
        }
}

/** P and dS of a tile; queries are its rows, or, with keys_are_rows, its columns. */
template <class E, class T>
__device__ __forceinline__ void
score_gradients(const attention_arguments &p, const attention_head &at, int64_t query, int64_t key,
                bool keys_are_rows, plain_tile<T> &tile, int &stage,
                T (&probs)[plain_tile<T>::own][plain_tile<T>::own],
                T (&ds)[plain_tile<T>::own][plain_tile<T>::own])
{
    const int own = plain_tile<T>::own;
    int first = (keys_are_rows ? threadIdx.x % SIDE_THREADS : threadIdx.x / SIDE_THREADS) * own;
    plain_rows<E> q(p, WF_ATT_Q, at, query, p.queries), d(p, WF_ATT_DO, at, query, p.queries);
    plain_rows<E> k(p, WF_ATT_K, at, key, p.keys), v(p, WF_ATT_V, at, key, p.keys);

    multiply_rows(probs, tile, stage, keys_are_rows ? k : q, keys_are_rows ? q : k, p.d);
    multiply_rows(ds, tile, stage, keys_are_rows ? v : d, keys_are_rows ? d : v, p.d);
    adjust_scores<E>(p, at, query, key, keys_are_rows, probs);
#pragma unroll
    for (int n = 0; n < own; n++) {
        T lse = number_of_query<T>(p, p.lse, at, query + first + n);
        T delta = number_of_query<T>(p, p.delta, at, query + first + n);

#pragma unroll
        for (int m = 0; m < own; m++) {
            int i = keys_are_rows ? m : n, j = keys_are_rows ? n : m;

            probs[i][j] = real_exp(probs[i][j] - lse);
            ds[i][j] = probs[i][j] * (ds[i][j] - delta);
        }
    }
}
