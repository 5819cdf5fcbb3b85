/*
 * global_elements.h: kernels whose elements are a function of their place in the whole tensor:
 * random numbers, ranges, bands. A rank's shard is one box of the whole, or several; in a box,
 * elements of the innermost dim are a row of consecutive global indices.
 *
 * A thread makes those of the four elements 4 g .. 4 g + 3 of the whole that its row has: a block
 * of Philox, and 4 elements that are written at once where the shard has them all. What it makes is
 * a functor's business:
 *
 *     struct F { typedef float Y; typedef absent X;     output, input
 *         __device__ void operator()(int64_t group, const X (&x)[4], Y (&y)[4]) const; };
 */
#pragma once

#include "kernels/cuda/element.h"
#include "kernels/cuda/index_map.h"
#include "kernels/cuda/prepare.h"

enum { WF_GROUP = 4 }; /* elements */

/* Operands of a box's rows; the global index is an address of which a step is 1. */
enum { WF_GLOBAL_Y, WF_GLOBAL_INDEX, WF_GLOBAL_X, WF_GLOBAL_OPERANDS };

/** A box of a shard: of each dim one range, where it begins in the whole and in the shard. */
struct wf_box {
    int64_t global[WEFT_MAX_DIMS], local[WEFT_MAX_DIMS], size[WEFT_MAX_DIMS];
};

/** Boxes that the ranges of the first `ndim` dims span, and number `number` of them. */
int64_t wf_box_count(const struct wf_tensor_desc *y, int ndim);
struct wf_box wf_box_of(const struct wf_tensor_desc *y, int ndim, int64_t number);

/** Rows of one box. */
struct wf_global_rows {
    struct wf_loop_nest nest;       /* of rows */
    int64_t size;                   /* elements of a row */
    int64_t at[WF_GLOBAL_OPERANDS]; /* of the first one */
    int64_t step[WF_GLOBAL_OPERANDS];
};

struct wf_global_elements {
    int n_boxes;
    struct wf_global_rows *boxes;
};

/** The places of y's elements, and where those of x lie, which broadcasts to y; x NULL: none.
 *  Strides of y are those of its description. */
void wf_global_elements_make(struct wf_global_elements *places, const struct wf_tensor_desc *y,
                             const struct wf_tensor_desc *x);
void wf_global_elements_free(struct wf_global_elements *places);

struct wf_global_arguments {
    char *y;
    const char *x;
    int64_t first, size; /* global index where rows begin; elements of a row */
    int64_t y_step, x_step;
    struct divisor groups; /* that a row meets, at most */
    uint32_t count;        /* threads */
    index_map<WF_GLOBAL_OPERANDS> rows;
};

/* ---- kernel ---- */

__device__ __forceinline__ bool is_aligned(const void *p, size_t bytes)
{
    return ((uintptr_t)p & (bytes - 1)) == 0;
}

/* Elements [begin, end) of a group, of which element 0 lies at `from`. */
template <class E>
__device__ __forceinline__ void load_group(E (&to)[WF_GROUP], const char *from, int64_t step,
                                           int begin, int end)
{
    if (end - begin == WF_GROUP && step == sizeof(E) &&
        is_aligned(from, sizeof(pack<E, WF_GROUP>))) {
        pack<E, WF_GROUP> all = *(const pack<E, WF_GROUP> *)from;

#pragma unroll
        for (int i = 0; i < WF_GROUP; i++) to[i] = all.at[i];
        return;
    }
#pragma unroll
    for (int i = 0; i < WF_GROUP; i++)
        if (i >= begin && i < end) to[i] = *(const E *)(from + i * step);
}
__device__ __forceinline__ void load_group(absent (&)[WF_GROUP], const char *, int64_t, int, int) {}

template <class E>
__device__ __forceinline__ void store_group(const E (&from)[WF_GROUP], char *to, int64_t step,
                                            int begin, int end)
{
    if (end - begin == WF_GROUP && step == sizeof(E) && is_aligned(to, sizeof(pack<E, WF_GROUP>))) {
        pack<E, WF_GROUP> all;

#pragma unroll
        for (int i = 0; i < WF_GROUP; i++) all.at[i] = from[i];
        *(pack<E, WF_GROUP> *)to = all;
        return;
    }
#pragma unroll
    for (int i = 0; i < WF_GROUP; i++)
        if (i >= begin && i < end) *(E *)(to + i * step) = from[i];
}

template <class F>
__global__ void __launch_bounds__(WF_CUDA_BLOCK) wf_global_kernel(F f, struct wf_global_arguments p)
{
    uint32_t number = blockIdx.x * (uint32_t)WF_CUDA_BLOCK + threadIdx.x;
    uint32_t row = divide(number, p.groups);
    int64_t at[WF_GLOBAL_OPERANDS] = {}, first, group, skip;
    int begin, end;
    typename F::X x[WF_GROUP] = {};
    typename F::Y y[WF_GROUP];

    if (number >= p.count) return;
    index_map_locate(p.rows, row, at);
    first = p.first + at[WF_GLOBAL_INDEX];
    group = first / WF_GROUP + (number - row * p.groups.value);
    skip = WF_GROUP * group - first; /* elements of the row before the group; less than 0: none */
    begin = skip < 0 ? (int)-skip : 0;
    end = p.size - skip < WF_GROUP ? (int)(p.size - skip) : WF_GROUP;
    if (end <= begin) return;
    load_group(x, p.x + at[WF_GLOBAL_X] + skip * p.x_step, p.x_step, begin, end);
    f(group, x, y);
    store_group(y, p.y + at[WF_GLOBAL_Y] + skip * p.y_step, p.y_step, begin, end);
}

/* ---- running ---- */

template <class F>
static void wf_global_launch(const struct wf_kernel_call *k, const F &f,
                             const struct wf_global_rows *box, char *y, const char *x)
{
    int64_t groups = (box->size + WF_GROUP - 2) / WF_GROUP + 1;
    struct wf_global_arguments p = {};

    p.size = box->size;
    p.y_step = box->step[WF_GLOBAL_Y];
    p.x_step = box->step[WF_GLOBAL_X];
    p.groups = divisor_of((uint32_t)groups);
    for_each_sub_nest(&box->nest, wf_cuda_index_limit / groups,
                      [&](const struct wf_loop_nest &part, const int64_t *at) {
                          p.first = box->at[WF_GLOBAL_INDEX] + at[WF_GLOBAL_INDEX];
                          p.y = y + box->at[WF_GLOBAL_Y] + at[WF_GLOBAL_Y];
                          p.x = x + box->at[WF_GLOBAL_X] + at[WF_GLOBAL_X];
                          p.count = (uint32_t)(part.count * groups);
                          index_map_make(&p.rows, &part);
                          WF_CUDA_LAUNCH(k, wf_global_kernel<F>,
                                         dim3((p.count + WF_CUDA_BLOCK - 1) / WF_CUDA_BLOCK),
                                         dim3(WF_CUDA_BLOCK), 0, f, p);
                      });
}

template <class F>
static void wf_global_run(const struct wf_kernel_call *k, const F &f,
                          const struct wf_global_elements *places, void *y, const void *x)
{
    for (int i = 0; i < places->n_boxes; i++)
        wf_global_launch(k, f, &places->boxes[i], (char *)y, (const char *)x);
}
