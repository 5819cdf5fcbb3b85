/*
 * rows.h: strided operands of one shape as rows along one of its dims, and a row in the registers
 * of a group of threads.
 */
#pragma once

#include "kernels/cuda/offset_map.h"
#include "kernels/cuda/prepare.h"
#include "kernels/cuda/reductions/row_loop.h"

enum { MAX_ROW_OPERANDS = 3 };

/** Rows along a dim of out[0] (operand 0) and the first inputs (operands 1, 2). */
struct strided_rows {
    int64_t count, n;
    offset_map outer[MAX_ROW_OPERANDS]; /* number of a row -> its first element */
    int64_t step[MAX_ROW_OPERANDS];     /* along a row */
    bool packed;                        /* strides let every row be moved in packs of 16 bytes */
};

/** True where elements of so many bytes lie together and rows begin at whole packs. */
static inline bool strides_are_packed(const offset_map *outer, int64_t step, int64_t n,
                                      int64_t bytes)
{
    bool packed = step == 1 && n * bytes % 16 == 0;

    for (int d = 0; d < outer->n_dims; d++) packed = packed && outer->step[d] * bytes % 16 == 0;
    return packed;
}

static inline bool is_aligned(const void *p) { return (uintptr_t)p % 16 == 0; }

static inline strided_rows rows_of(const wf_kernel_call *k, int n_in, int dim)
{
    const wf_tensor_desc *y = k->out[0];
    int64_t bytes = wf_dtypes[y->dtype].size, shape[WEFT_MAX_DIMS];
    wf_operand_strides operands[MAX_ROW_OPERANDS];
    wf_loop_nest outer;
    strided_rows r = {};

    memcpy(shape, y->shape, sizeof shape);
    shape[dim] = 1;
    operands[0] = wf_strides_row_major(bytes, y->shape, y->ndim);
    for (int i = 0; i < n_in; i++)
        operands[i + 1] = wf_strides_broadcast(k->in[i], y->shape, y->ndim);
    wf_loop_nest_make(&outer, shape, y->ndim, operands, n_in + 1);
    r.count = outer.count;
    r.n = y->shape[dim];
    r.packed = true;
    for (int i = 0; i <= n_in; i++) {
        r.outer[i] = offset_map_of(&outer, i, bytes);
        r.step[i] = operands[i].stride[dim];
        r.packed = r.packed && strides_are_packed(&r.outer[i], r.step[i], r.n, bytes);
    }
    return r;
}

/** For kernels whose plan is the rows of all operands along `dim`. run: of the result's dtype;
 * NULL: there is none. */
static inline weft_status prepare_rows(wf_kernel_call *k, int dim, wf_kernel_run *run)
{
    uint8_t dtype = k->out[0]->dtype;
    strided_rows *p;

    if (!run) return wf_cuda_fail_no_kernel(k, dtype);
    WF_TRY(wf_check_input_dtypes(k, 0, dtype));
    k->run = wf_cuda_run_nothing;
    if (k->out[0]->numel == 0) return WEFT_OK;
    k->prep = p = WF_NEW(strided_rows);
    *p = rows_of(k, k->n_in, dim);
    k->run = run;
    return WEFT_OK;
}

/** What a thread of a group of blockDim.x has of a row, up to `packs` packs. packed: in packs;
 * otherwise neighbouring threads have neighbouring elements. */
template <class E, int packs, bool packed> struct row_part {
    static const int size = pack<E>::n, n = packs * size;
    real<E> at[n];

    /** Threads for a row of so many elements, whole warps. */
    static int threads(int64_t row)
    {
        int64_t warps = (row + WARP * n - 1) / (WARP * n);

        return (int)(warps > 0 ? warps : 1) * WARP;
    }

    /** Number in the row of at[i]. */
    static __device__ __forceinline__ int number(int i)
    {
        int thread = threadIdx.x, width = blockDim.x;

        return packed ? (i / size * width + thread) * size + i % size : i * width + thread;
    }

    /** The elements as they lie in memory; beyond the row's end, `beyond`. */
    static __device__ __forceinline__ void load_elements(E (&to)[n], const E *x, int row,
                                                         int64_t step, E beyond)
    {
#pragma unroll
        for (int k = 0; k < packs && packed; k++) {
            pack<E> v;

            for (int i = 0; i < size; i++) v.at[i] = beyond;
            if (number(k * size) < row) v = *(const pack<E> *)(x + number(k * size));
#pragma unroll
            for (int i = 0; i < size; i++) to[k * size + i] = v.at[i];
        }
#pragma unroll
        for (int i = 0; i < n && !packed; i++)
            to[i] = number(i) < row ? x[number(i) * step] : beyond;
    }

    __device__ __forceinline__ void load(const E *x, int row, int64_t step, E beyond)
    {
        E elements[n];

        load_elements(elements, x, row, step, beyond);
#pragma unroll
        for (int i = 0; i < n; i++) at[i] = to_real(elements[i]);
    }

    __device__ __forceinline__ void store(E *y, int row, int64_t step) const
    {
#pragma unroll
        for (int k = 0; k < packs && packed; k++) {
            pack<E> v;

            if (number(k * size) >= row) continue;
#pragma unroll
            for (int i = 0; i < size; i++) v.at[i] = from_real<E>(at[k * size + i]);
            *(pack<E> *)(y + number(k * size)) = v;
        }
#pragma unroll
        for (int i = 0; i < n && !packed; i++)
            if (number(i) < row) y[number(i) * step] = from_real<E>(at[i]);
    }
};
