/*
 * row_tiles.h: rows along memory of which each lane of a warp walks one: the warp brings pieces of
 * its rows into shared memory, and results back, so that neighbouring lanes touch neighbouring
 * elements.
 */
#pragma once

#include "kernels/cuda/group_reduce.h"

/** The number in a row of n of the step that is number i; `back`: steps begin at the end. */
template <bool back> __device__ __forceinline__ int64_t place_of_step(int64_t i, int64_t n)
{
    return back ? n - 1 - i : i;
}

/** WARP steps of WARP rows between global memory and a warp's tile, a row at a time. `mine`: where
 *  the row of this lane begins. */
template <bool back, bool store, class E, class Pointer>
__device__ __forceinline__ void move_tile(E (*tile)[WARP + 1], Pointer x, int64_t mine,
                                          int64_t step, int64_t rows, int64_t first, int64_t n)
{
    int lane = threadIdx.x % WARP;
    int64_t at = place_of_step<back>(first + lane, n) * step;

    for (int row = 0; row < WARP && row < rows; row++) {
        int64_t begin = value_of_lane(mine, row);

        if (first + lane >= n) continue;
        if constexpr (store)
            x[begin + at] = tile[row][lane];
        else
            tile[row][lane] = x[begin + at];
    }
}
