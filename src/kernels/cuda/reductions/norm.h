/*
 * norm.h: what the files of layer_norm and rms_norm share.
 *
 *   forward   h = (x - mean) rstd;  y = h w + b;  rstd = 1 / sqrt(mean((x - mean)^2) + eps)
 *   backward  e = d w;  dx = rstd (e - mean(e) - h mean(e h));  dw = sum d h;  db = sum d
 *
 * rms_norm is the same with mean = 0 and without the term mean(e). `centred` is true for
 * layer_norm.
 */
#pragma once

#include "kernels/cuda/reductions/rows.h"

enum {
    NORM_PACKS = 4, /* of a row that a thread has: 1,024 elements of 16 bits are one warp's, which
                       waits for no other */
    NORM_GRAD_PACKS = 2, /* of two operands and sums for the parameters */
    NORM_THREADS = 512,  /* most, for one row */
    NORM_GROUPED = 256,  /* of several groups, each with a row of its own */
    NORM_WARPS = NORM_THREADS / WARP
};

/** Operands of all kernels; those that are left out are NULL. */
template <class E> struct norm_operands {
    struct strided_rows
        rows; /* operands: y or dx; x forward, d and x backward. packed: parameters too */
    E *y;
    const E *d, *x, *weight, *bias;
    int64_t weight_step, bias_step;
    real<E> *mean, *rstd;                   /* one per row, written by the forward */
    const real<E> *saved_mean, *saved_rstd; /* read by the backward */
    real<E> eps;
    real<E> *partial; /* [blocks][2][n]: what each block adds to dw and db */
};

/** The threads of a block whose groups have `width` each. */
static inline dim3 norm_block(int width)
{
    return dim3((unsigned)width, width < NORM_GROUPED ? (unsigned)(NORM_GROUPED / width) : 1);
}

/** Elements of a parameter into shared memory, by all threads of the block. */
template <class E, bool packed>
__device__ __forceinline__ void keep_parameter(E *shared, const E *from, int n, int64_t step)
{
    int thread = (int)(threadIdx.y * blockDim.x + threadIdx.x);
    int threads = (int)(blockDim.x * blockDim.y);

    for (int j = thread * pack<E>::n; j < n && packed; j += threads * pack<E>::n)
        *(pack<E> *)(shared + j) = *(const pack<E> *)(from + j);
    for (int j = thread; j < n && !packed; j += threads) shared[j] = from[j * step];
}

/** What a thread of a group has of a row that lies in shared memory, as it reads its part of
 * `packs` packs: use(i, element). */
template <class E, int packs, bool packed, class Use>
__device__ __forceinline__ void for_kept(const E *shared, int n, const Use &use)
{
    typedef row_part<E, packs, packed> part;

#pragma unroll
    for (int i = 0; i < part::n && !packed; i++)
        if (part::number(i) < n) use(i, shared[part::number(i)]);
#pragma unroll
    for (int k = 0; k < packs && packed; k++) {
        if (part::number(k * part::size) >= n) continue;
        pack<E> v = *(const pack<E> *)(shared + part::number(k * part::size));

#pragma unroll
        for (int i = 0; i < part::size; i++) use(k * part::size + i, v.at[i]);
    }
}

static inline int64_t step_of_parameter(const wf_kernel_call *k, int place)
{
    return place < k->n_in && k->in[place] && k->in[place]->numel > 1 ? k->in[place]->stride[0] : 1;
}

/** True where all operands of this call can be moved in packs. */
template <class E> static inline bool norm_is_packed(const norm_operands<E> &p)
{
    return p.rows.packed && p.weight_step == 1 && p.bias_step == 1 && is_aligned(p.y) &&
           is_aligned(p.d) && is_aligned(p.x) && is_aligned(p.weight) && is_aligned(p.bias);
}
