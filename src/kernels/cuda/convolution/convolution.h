/*
 * convolution.h: the one form that a convolution and its two gradients have for the kernels of this
 * folder: a product of matrices per group, one of which is gathered from windows and never stored.
 *
 *           rows   columns        summed over     plain   gathered
 *   conv    O      images, T...   C, K...         w       x at t * stride + k * dilation - before
 *   dx      C      images, S...   O, K...         w       d at (s + before - k * dilation) / stride
 *   dw      O      C, K...        images, T...    d       x as conv
 *
 * A place is an index of images and T... (of dx: S...), a tap one of channels and K...: the
 * position of what is gathered is a sum of what the place adds and what the tap adds.
 */
#pragma once

#include "kernels/cuda/element.h"
#include "kernels/cuda/index_map.h"
#include "kernels/cuda/offset_map.h"
#include "kernels/operands/spatial_dims.h"

/** Positions and sizes are below this: two of them may be added to a third, or be taken off. */
enum { CONV_LIMIT = 1 << 29 };

/** Where places and taps are that are not there: below every position, whatever is added. */
enum { OUTSIDE = -(1 << 30) };

/** One of the dims S; where a convolution has fewer, the first ones have size 1. */
struct conv_dim {
    divisor places, taps; /* how many there are */
    int32_t place_step, tap_step,
        before;           /* positions: place * place_step + tap * tap_step - before */
    divisor divided_by;   /* and what they are divided by; those with a rest have no element */
    int32_t size;         /* of the gathered operand */
    int64_t stride;       /* in elements */
    int64_t plain_stride; /* of the plain operand, along taps, of dw along places */
};

/** Strides in elements. Of each group the plain operand is a matrix of rows whose elements are
 *  counted like what is summed over: `outer` is its outermost dim. */
struct conv_arguments {
    conv_dim dim[WF_SPATIAL];
    int64_t groups, rows, columns, depth; /* of each group; depth: what is summed over */
    int64_t depth_of_split;               /* a multiple of every tile's depth */
    uint32_t channels;                    /* that are gathered, of each group */
    divisor plane, row_divisor;           /* places of an image; rows */
    wide_divisor wide_plane, wide_planes; /* the same; planes of an image of the result */
    wide_divisor row_tiles, column_tiles; /* of each group */
    int64_t first_block, end_block;       /* of this launch */
    struct {
        int64_t group, row, outer;
    } plain_stride;
    struct {
        int64_t image, group, channel;
    } gathered_stride;
    struct {
        int64_t group, row;
    } bias_stride;
    struct {
        int64_t image, group, row;
    } result_stride;
    int64_t results; /* of all groups */
    bool packed;     /* every four columns of a row of the result lie together, aligned */
    bool partial;    /* the result is of the computing type, and each split's has its own */
    const void *plain, *gathered, *bias;
    void *result;
};

/** Who computes it. A kernel's blocks are counted by blockIdx.x from first_block on, its splits by
 *  blockIdx.y. */
struct conv_kernel {
    void (*run)(conv_arguments p);
    unsigned threads;
    int64_t rows, columns; /* that a block computes; 0: it has `threads` results of any planes */
};

conv_kernel wf_cuda_window_product(uint8_t dtype, bool by_places, bool divided);
conv_kernel wf_cuda_window_sum(uint8_t dtype, bool by_places, bool divided);

/* ---- in kernels ---- */

/** What a place or a tap adds to the offset and to the positions of a gathered element. */
struct conv_part {
    int64_t offset;
    int32_t at[WF_SPATIAL];
};

__device__ __forceinline__ conv_part conv_part_outside() { return {0, {OUTSIDE, 0, 0}}; }

/** The place that is so many behind the first one of `image`, and where the plain operand of dw has
 *  it. */
__device__ __forceinline__ conv_part place_part(const conv_arguments &p, int64_t image,
                                                uint32_t number, int64_t *plain)
{
    conv_part part = {};

    *plain = 0;
#pragma unroll
    for (int d = WF_SPATIAL - 1; d >= 0; d--) {
        const conv_dim &dim = p.dim[d];
        uint32_t outer = divide(number, dim.places), at = number - outer * dim.places.value;

        part.at[d] = (int32_t)at * dim.place_step - dim.before;
        part.offset += part.at[d] * dim.stride;
        *plain += at * dim.plain_stride;
        number = outer;
    }
    image += number;
    part.offset += image * p.gathered_stride.image;
    *plain += image * p.plain_stride.outer;
    return part;
}

/** The tap of this number, and where the plain operand of conv and dx has it. */
__device__ __forceinline__ conv_part tap_part(const conv_arguments &p, uint32_t number,
                                              int64_t *plain)
{
    conv_part part = {};

    *plain = 0;
#pragma unroll
    for (int d = WF_SPATIAL - 1; d >= 0; d--) {
        const conv_dim &dim = p.dim[d];
        uint32_t outer = divide(number, dim.taps), at = number - outer * dim.taps.value;

        part.at[d] = (int32_t)at * dim.tap_step;
        part.offset += part.at[d] * dim.stride;
        *plain += at * dim.plain_stride;
        number = outer;
    }
    part.offset += number * p.gathered_stride.channel;
    *plain += number * p.plain_stride.outer;
    return part;
}

/** Whether a position has an element, and its index. */
template <bool divided>
__device__ __forceinline__ bool conv_index(const conv_dim &dim, int32_t position, uint32_t *index)
{
    *index = divided ? divide((uint32_t)position, dim.divided_by) : (uint32_t)position;
    if (divided && (position < 0 || *index * dim.divided_by.value != (uint32_t)position))
        return false;
    return *index < (uint32_t)dim.size;
}

/** An element of the gathered operand x, or 0. */
template <bool divided, class E>
__device__ __forceinline__ E gather(const conv_arguments &p, const E *x, const conv_part &place,
                                    const conv_part &tap)
{
    int64_t offset = place.offset + tap.offset;
    bool there = true;

#pragma unroll
    for (int d = 0; d < WF_SPATIAL; d++) {
        int32_t position = place.at[d] + tap.at[d];
        uint32_t index;

        there = conv_index<divided>(p.dim[d], position, &index) && there;
        if (divided) offset += ((int64_t)index - position) * p.dim[d].stride;
    }
    return there ? x[offset] : E{};
}

/** Number of an image, and of a place behind its first. */
struct conv_origin {
    int64_t image;
    uint32_t place;
};

__device__ __forceinline__ conv_origin origin_of(const conv_arguments &p, int64_t place)
{
    int64_t image = divide_wide(place, p.wide_plane);

    return {image, (uint32_t)(place - image * (int64_t)p.wide_plane.value)};
}

/** What a block computes: the tile of a group that begins there, from k_begin to k_end of what is
 *  summed over. */
struct conv_tile {
    int64_t group, row, column, k_begin, k_end;
};

__device__ __forceinline__ conv_tile conv_tile_of(const conv_arguments &p, int64_t rows,
                                                  int64_t columns)
{
    int64_t number = p.first_block + blockIdx.x, outer = divide_wide(number, p.row_tiles);
    conv_tile at;

    at.group = divide_wide(outer, p.column_tiles);
    at.row = (number - outer * (int64_t)p.row_tiles.value) * rows;
    at.column = (outer - at.group * (int64_t)p.column_tiles.value) * columns;
    at.k_begin = blockIdx.y * p.depth_of_split;
    at.k_end = at.k_begin + p.depth_of_split;
    if (at.k_end > p.depth) at.k_end = p.depth;
    return at;
}
