/*
 * row_loop.h: a group of threads walks the elements of one row, in packs of 16 bytes where they lie
 * together.
 *
 * A row may begin anywhere: what comes before the first whole pack and after the last is taken
 * element by element.
 */
#pragma once

#include "kernels/cuda/group_reduce.h"

/** Elements of a row at x before its first whole pack. */
template <class E> __device__ __forceinline__ int64_t elements_before_pack(const E *x, int64_t n)
{
    int64_t before = (int64_t)(-(uintptr_t)x % sizeof(pack<E>) / sizeof(E));

    return before < n ? before : n;
}

/** take(values, j, count) by the threads of a group for elements j to j + count of the row, as many
 * as a pack has or one. */
template <class E, class Take>
__device__ __forceinline__ void for_row_packs(const E *x, int64_t n, int64_t step, Take take)
{
    const int size = pack<E>::n;
    int64_t before = 0, packs = 0;
    int thread = threadIdx.x, width = blockDim.x;

    if (step == 1) {
        before = elements_before_pack(x, n);
        packs = (n - before) / size;
        for (int64_t i = thread; i < packs; i += width) {
            const pack<E> v = *(const pack<E> *)(x + before + i * size); /* 16 bytes at once */

            take(v, before + i * size, size);
        }
    }
    for (int64_t i = thread; i < n - packs * size; i += width) {
        int64_t j = i < before ? i : i + packs * size;
        pack<E> one;

        one.at[0] = x[j * step];
        take(one, j, 1);
    }
}

/** The elements beside those that for_row_packs gives: `count` of another operand of the same row.
 */
template <class E>
__device__ __forceinline__ pack<E> load_beside(const E *x, int64_t j, int64_t step, int count)
{
    pack<E> v;

    if (count > 1 && step == 1 && (uintptr_t)(x + j) % sizeof v == 0)
        return *(const pack<E> *)(x + j);
    for (int i = 0; i < count; i++) v.at[i] = x[(j + i) * step];
    return v;
}

template <class E>
__device__ __forceinline__ void store_beside(E *y, int64_t j, int64_t step, int count,
                                             const pack<E> &v)
{
    if (count > 1 && step == 1 && (uintptr_t)(y + j) % sizeof v == 0) {
        store_pack(y + j, v);
        return;
    }
    for (int i = 0; i < count; i++) y[(j + i) * step] = v.at[i];
}
