/*
 * planes.h: operands whose last one to three dims are planes over which windows move; dims that
 * there are not have size 1. Numbers of elements in a launch have 32 bits, so it has some of the
 * planes.
 */
#pragma once

#include "kernels/cuda/group_reduce.h"
#include "kernels/cuda/index_map.h"
#include "kernels/cuda/offset_map.h"
#include "kernels/cuda/prepare.h"
#include "kernels/operands/spatial_dims.h"

/** What there is for each of `dims` dims, as of WF_SPATIAL dims; `other` for those that are not. */
static inline void spread_to_spatial_dims(int32_t (&to)[WF_SPATIAL], const int32_t *from, int dims,
                                          int other)
{
    for (int i = 0; i < WF_SPATIAL; i++)
        to[i] = i < WF_SPATIAL - dims ? other : from[i - (WF_SPATIAL - dims)];
}

/** How an operand's planes lie. */
struct strided_planes {
    offset_map first; /* number of a plane -> its first element */
    int64_t step[WF_SPATIAL];

    __device__ __forceinline__ int64_t offset(int64_t i, int64_t j, int64_t k) const
    {
        return i * step[0] + j * step[1] + k * step[2];
    }
};

static inline strided_planes planes_of(const wf_tensor_desc *d, int dims)
{
    wf_tensor_desc planes = *d;
    strided_planes p = {};

    for (int i = 0; i < dims; i++) {
        planes.shape[d->ndim - dims + i] = 1;
        p.step[WF_SPATIAL - dims + i] = d->stride[d->ndim - dims + i];
    }
    p.first = offset_map_of_elements(&planes);
    return p;
}

/** The elements of a row-major result, plane after plane. */
struct plane_elements {
    int64_t planes;
    divisor each, rows, columns; /* elements of a plane; the last two dims */
};

/** Where an element of a result lies. */
struct plane_place {
    uint32_t plane, number; /* in the launch, in the plane */
    int32_t at[WF_SPATIAL];
};

__device__ __forceinline__ plane_place place_of_element(const plane_elements &e, uint32_t number)
{
    plane_place p;
    uint32_t row, outer;

    p.plane = divide(number, e.each);
    p.number = number - p.plane * e.each.value;
    row = divide(p.number, e.columns);
    outer = divide(row, e.rows);
    p.at[0] = (int32_t)outer;
    p.at[1] = (int32_t)(row - outer * e.rows.value);
    p.at[2] = (int32_t)(p.number - row * e.columns.value);
    return p;
}

/** Whether numbers of a launch count the elements of a plane. */
static inline bool plane_fits_launch(const wf_tensor_desc *d, int dims)
{
    int64_t elements = 1;

    for (int i = d->ndim - dims; i < d->ndim; i++) elements *= d->shape[i];
    return elements <= (int64_t)1 << 30;
}

/** Of a result that is not empty, and whose planes fit. */
static inline plane_elements plane_elements_of(const wf_tensor_desc *d, int dims)
{
    uint32_t size[WF_SPATIAL] = {1, 1, 1}, each;

    for (int i = 0; i < dims; i++)
        size[WF_SPATIAL - dims + i] = (uint32_t)d->shape[d->ndim - dims + i];
    each = size[0] * size[1] * size[2];
    return {d->numel / each, divisor_of(each), divisor_of(size[1]), divisor_of(size[2])};
}

/** launch(first plane, elements) for all planes, as few times as may be. */
template <class Launch> static inline void launch_by_planes(const plane_elements &e, Launch launch)
{
    int64_t each = e.each.value, at_once = wf_cuda_index_limit / each;

    if (at_once < 1) at_once = 1;
    for (int64_t first = 0; first < e.planes; first += at_once)
        launch(first, (uint32_t)((e.planes - first < at_once ? e.planes - first : at_once) * each));
}
