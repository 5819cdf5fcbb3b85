/*
 * grouped_mm.h: products of groups of rows, whose ends only the device knows: what their kernels
 * are given, and how a block finds its group. The loops are those of plain_product.cu and
 * tensor_product.cu.
 *
 *   rows:     y_g = x_g w_g, one product of all rows, whose B is another from group to group
 *   matrices: dw_g = x_g^T d_g, a batch of products, whose k are the group's rows
 *
 * The rows behind the last end are a group too, number `groups`, with products of no terms.
 */
#pragma once

#include "kernels/cuda/fault.h"
#include "kernels/cuda/group_reduce.h"
#include "kernels/cuda/products/product.h"

/** What is multiplied: rows by matrices that are stored [K,N] or, turned, [N,K]; or x^T by d. */
enum grouped_form { GROUPED_ROWS, GROUPED_ROWS_TURNED, GROUPED_MATRICES };

/* tiles_m: of rows, as many as there can be; a_batch is empty, b_batch counts groups. */
struct grouped_arguments : product_arguments {
    const void *ends;                          /* in rows of the whole */
    int64_t ends_step;                         /* in elements */
    bool wide_ends;                            /* i64, else i32 */
    int64_t groups, first_row, rows, all_rows; /* this rank has `rows` from first_row on */
    struct wf_cuda_fault *fault;
};

/* Kernels find their tiles by the type of their arguments. */
struct grouped_rows : grouped_arguments {
};
struct grouped_matrices : grouped_arguments {
};

/** As product_kernel, of one of the two; blockIdx.x counts tiles. */
struct grouped_kernel {
    void (*run_rows)(grouped_rows p);
    void (*run_matrices)(grouped_matrices p);
    unsigned threads;
    size_t shared;
};

/** large: as of wf_cuda_tensor_product. */
grouped_kernel wf_cuda_tensor_grouped_product(uint8_t dtype, grouped_form form, bool large);
grouped_kernel wf_cuda_plain_grouped_product(uint8_t dtype, grouped_form form, bool large);

/* ---- in kernels ---- */

__device__ __forceinline__ int64_t end_of_group(const grouped_arguments &p, int64_t g)
{
    if (g < 0) return 0;
    if (g >= p.groups) return p.all_rows;
    g *= p.ends_step;
    return p.wide_ends ? ((const int64_t *)p.ends)[g] : ((const int32_t *)p.ends)[g];
}

/** Tell the first end that is below the one before or behind the last row. One block does. */
__device__ __forceinline__ void check_ends(const grouped_arguments &p)
{
    int lane = threadIdx.x;

    if (blockIdx.x > 0 || p.first_tile > 0 || lane >= WARP) return;
    for (int64_t first = 0; first < p.groups; first += WARP) {
        int64_t g = first + lane, end = end_of_group(p, g);
        bool wrong = g < p.groups && (end < end_of_group(p, g - 1) || end > p.all_rows);
        unsigned all_wrong = __ballot_sync(~0u, wrong);

        if (!all_wrong) continue;
        if (lane == __ffs((int)all_wrong) - 1)
            record_fault(p.fault, WF_CUDA_FAULT_GROUP_END, end, p.all_rows, (double)g);
        return;
    }
}

/* An end as a number of rows of this rank; of ends that are wrong it is one that harms nobody. */
__device__ __forceinline__ int64_t rows_before(const grouped_arguments &p, int64_t end)
{
    if (end <= p.first_row) return 0;
    return end - p.first_row < p.rows ? end - p.first_row : p.rows;
}

struct row_range {
    int64_t first, count;
};

/** The rank's rows of a group, counted from its first. */
__device__ __forceinline__ row_range rows_of_group(const grouped_arguments &p, int64_t g)
{
    int64_t from = rows_before(p, end_of_group(p, g - 1)), to = rows_before(p, end_of_group(p, g));

    return {from, to > from ? to - from : 0};
}

/* The sum of the values of lanes up to this one. */
__device__ __forceinline__ uint32_t scan_warp(uint32_t value)
{
    int lane = threadIdx.x % WARP;

#pragma unroll
    for (int distance = 1; distance < WARP; distance *= 2) {
        uint32_t before = __shfl_up_sync(~0u, value, distance);

        if (lane >= distance) value += before;
    }
    return value;
}

/**
 * Turn at.row, which counts tiles of any group, into the tile's first row, and at.batch into its
 * group. Every warp looks through the ends, 32 of them at a time. row_end is 0 where all groups
 * together have fewer tiles.
 */
template <int side>
__device__ __forceinline__ void find_tile_of_group(const grouped_arguments &p,
                                                   product_tile_place &at)
{
    uint32_t number = (uint32_t)(at.row / side), before = 0;
    int lane = threadIdx.x % WARP;

    at.row_end = 0;
    for (int64_t first = 0; first <= p.groups; first += WARP) {
        row_range rows = rows_of_group(p, first + lane);
        uint32_t tiles = (uint32_t)((rows.count + side - 1) / side);
        uint32_t sum = before + scan_warp(tiles);
        unsigned behind = __ballot_sync(~0u, sum > number);

        if (behind) {
            int found = __ffs((int)behind) - 1;
            uint32_t tile = number - value_of_lane(sum - tiles, found);
            int64_t begin = value_of_lane(rows.first, found);

            at.batch = first + found;
            at.row = begin + (int64_t)tile * side;
            at.row_end = begin + value_of_lane(rows.count, found);
            return;
        }
        before = value_of_lane(sum, WARP - 1);
    }
}

template <int side>
__device__ __forceinline__ product_tile_place product_place(const grouped_rows &p)
{
    product_tile_place at = product_place<side>((const product_arguments &)p);

    check_ends(p);
    find_tile_of_group<side>(p, at);
    if (at.batch < p.groups) return at;
    at.batch = 0; /* rows behind the last end: no matrix is read */
    at.k_end = at.k_begin;
    return at;
}
__device__ __forceinline__ bool tile_is_there(const grouped_rows &, const product_tile_place &at)
{
    return at.row_end > 0;
}
__device__ __forceinline__ int64_t end_of_rows(const grouped_rows &, const product_tile_place &at)
{
    return at.row_end;
}
/* C is one matrix. */
__device__ __forceinline__ int64_t product_c_offset(const grouped_rows &,
                                                    const product_tile_place &)
{
    return 0;
}

/** The group is at.batch already, and its rows are k. */
template <int side>
__device__ __forceinline__ product_tile_place product_place(const grouped_matrices &p)
{
    product_tile_place at = product_place<side>((const product_arguments &)p);
    row_range rows = rows_of_group(p, at.batch);

    check_ends(p);
    at.k_begin = rows.first;
    at.k_end = rows.first + rows.count;
    return at;
}
