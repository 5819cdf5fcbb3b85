/*
 * plain_product.cu: our own product of f32 and f64, with sums in the same type.
 *
 * A block has a tile of C, each thread groups of four rows and of four columns of it. Tiles of A
 * and B are read into registers while the ones before are multiplied, and lie in shared memory
 * along k.
 */
#include "kernels/cuda/group_reduce.h"
#include "kernels/cuda/products/grouped_mm.h"

namespace
{

enum { SIDE_THREADS = 16, THREADS = SIDE_THREADS * SIDE_THREADS, DEPTH = 8, FOUR = 4 };

/* Tiles of `side` x `side`: a thread has `groups` groups of rows and as many of columns, which lie
 * SIDE_THREADS groups apart. */
template <class T, int side> struct tile_form {
    static const int groups = side / (FOUR * SIDE_THREADS), own = groups * FOUR;
    static const int row = side + FOUR;              /* elements of a tile from one k to the next */
    static const int loads = side * DEPTH / THREADS; /* elements of a tile that a thread brings */

    T tile[2][2][DEPTH][row]; /* two stages of A and B */
};

/* What a thread brings of the tiles of an operand, one tile after the other. Neighbouring threads
 * have neighbouring elements in memory; a thread's elements of a tile lie `step` apart. */
template <class T, int side, bool along_k> struct tile_reader {
    static const int threads_along = along_k ? (int)DEPTH : side; /* memory */
    static const int apart = THREADS / threads_along; /* elements of a thread, the other way */
    const T *at;
    int64_t step, next; /* next: to the tile behind */
    int k, k_left;      /* of the first element in its tile; from it to the end of k */
    int other, other_left;

    __device__ __forceinline__ tile_reader(const T *x, int64_t ld, int64_t first, int64_t count,
                                           int64_t k_begin, int64_t k_end)
    {
        int along = threadIdx.x % threads_along, across = threadIdx.x / threads_along;

        k = along_k ? along : across;
        other = along_k ? across : along;
        k_left = (int)(k_end - k_begin) - k;
        other_left = (int)(count - first < side ? count - first : side) - other;
        at =
            x + (along_k ? (first + other) * ld + k_begin + k : (k_begin + k) * ld + first + other);
        step = apart * ld;
        next = along_k ? (int64_t)DEPTH : DEPTH * ld;
    }
};

/* A thread's elements of a tile; the reader goes on to the next. */
template <class T, int side, bool along_k>
__device__ __forceinline__ void load_part(T (&to)[tile_form<T, side>::loads],
                                          tile_reader<T, side, along_k> &from)
{
    const int apart = tile_reader<T, side, along_k>::apart;

#pragma unroll
    for (int i = 0; i < tile_form<T, side>::loads; i++) {
        int k = along_k ? 0 : i * apart, other = along_k ? i * apart : 0;
        bool there = k < from.k_left && other < from.other_left;

        to[i] = there ? from.at[i * from.step] : 0;
    }
    from.at += from.next;
    from.k_left -= DEPTH;
}

template <class T, int side, bool along_k>
__device__ __forceinline__ void store_part(T (&tile)[DEPTH][tile_form<T, side>::row],
                                           const T (&from)[tile_form<T, side>::loads],
                                           const tile_reader<T, side, along_k> &place)
{
    const int apart = tile_reader<T, side, along_k>::apart;

#pragma unroll
    for (int i = 0; i < tile_form<T, side>::loads; i++)
        tile[place.k + (along_k ? 0 : i * apart)][place.other + (along_k ? i * apart : 0)] =
            from[i];
}

/* The row or column of a tile that a thread's i-th is. */
__device__ __forceinline__ int own_place(int i, int thread)
{
    return (i / FOUR * SIDE_THREADS + thread) * FOUR + i % FOUR;
}

/* A thread's elements of one k: groups of four. */
template <class T, int side>
__device__ __forceinline__ void load_own(T (&to)[tile_form<T, side>::own],
                                         const T (&tile)[tile_form<T, side>::row], int thread)
{
#pragma unroll
    for (int g = 0; g < tile_form<T, side>::own; g += pack<T>::n) {
        const T *group = tile + own_place(g, thread);
        pack<T> some = *(const pack<T> *)group;

#pragma unroll
        for (int i = 0; i < pack<T>::n; i++) to[g + i] = some.at[i];
    }
}

/* Adds what one k contributes. */
template <class T, int side>
__device__ __forceinline__ void
multiply_one(T (&sum)[tile_form<T, side>::own][tile_form<T, side>::own],
             const T (&a)[tile_form<T, side>::row], const T (&b)[tile_form<T, side>::row], int row,
             int column)
{
    const int own = tile_form<T, side>::own;
    T of_a[own], of_b[own];

    load_own<T, side>(of_a, a, row);
    load_own<T, side>(of_b, b, column);
#pragma unroll
    for (int i = 0; i < own; i++)
#pragma unroll
        for (int j = 0; j < own; j++) sum[i][j] += of_a[i] * of_b[j];
}

/* Four neighbouring results of row `to`, of which `columns` are there. */
template <class T>
__device__ __forceinline__ void store_four(T *to, const T *sum, const T *bias,
                                           const offset_map &bias_map, int64_t column,
                                           int64_t columns, bool packed)
{
    pack<T> v[FOUR / pack<T>::n];

#pragma unroll
    for (int i = 0; i < FOUR; i++) {
        T added = bias && i < columns ? bias[map_offset(bias_map, column + i)] : 0;

        v[i / pack<T>::n].at[i % pack<T>::n] = sum[i] + added;
    }
    if (packed && FOUR <= columns) {
        for (int i = 0; i < FOUR / pack<T>::n; i++) ((pack<T> *)to)[i] = v[i];
        return;
    }
#pragma unroll
    for (int i = 0; i < FOUR; i++)
        if (i < columns) to[i] = v[i / pack<T>::n].at[i % pack<T>::n];
}

template <class T, int side, bool a_along_k, bool b_along_k, class Arguments>
__global__ void __launch_bounds__(THREADS, 2) multiply_plainly(Arguments p)
{
    typedef tile_form<T, side> form;
    GPU_SHARED(form, shared, [1]);
    product_tile_place at = product_place<side>(p);
    if (!tile_is_there(p, at)) return;
    T *c = (T *)p.c + product_c_offset(p, at);
    int row = threadIdx.x / SIDE_THREADS, column = threadIdx.x % SIDE_THREADS, stage = 0;
    T sum[form::own][form::own] = {}, next_a[form::loads], next_b[form::loads];
    tile_reader<T, side, a_along_k> a((const T *)p.a + map_offset(p.a_batch, at.batch), p.lda,
                                      at.row, end_of_rows(p, at), at.k_begin, at.k_end);
    tile_reader<T, side, b_along_k> b((const T *)p.b + map_offset(p.b_batch, at.batch), p.ldb,
                                      at.column, p.n, at.k_begin, at.k_end);

    load_part(next_a, a);
    load_part(next_b, b);
    for (int64_t k = at.k_begin; k < at.k_end; k += DEPTH, stage = 1 - stage) {
        store_part(shared[0].tile[stage][0], next_a, a);
        store_part(shared[0].tile[stage][1], next_b, b);
        __syncthreads(); /* and nobody reads the other stage any more */
        load_part(next_a, a);
        load_part(next_b, b);
#pragma unroll 2
        for (int l = 0; l < DEPTH; l++)
            multiply_one<T, side>(sum, shared[0].tile[stage][0][l], shared[0].tile[stage][1][l],
                                  row, column);
    }
#pragma unroll
    for (int i = 0; i < form::own; i++)
#pragma unroll
        for (int g = 0; g < form::own; g += FOUR) {
            int64_t r = at.row + own_place(i, row), to = at.column + own_place(g, column);

            if (r < end_of_rows(p, at))
                store_four(c + r * p.n + to, &sum[i][g], (const T *)p.bias, p.bias_map, to,
                           p.n - to, p.packed_c);
        }
}

template <class T, int side> product_kernel kernel_for(bool turned_a, bool turned_b)
{
    if (turned_a)
        return {turned_b ? multiply_plainly<T, side, false, true, product_arguments>
                         : multiply_plainly<T, side, false, false, product_arguments>,
                THREADS, 0};
    return {turned_b ? multiply_plainly<T, side, true, true, product_arguments>
                     : multiply_plainly<T, side, true, false, product_arguments>,
            THREADS, 0};
}

template <class T, int side> grouped_kernel grouped_kernel_for(grouped_form form)
{
    if (form == GROUPED_MATRICES)
        return {NULL, multiply_plainly<T, side, false, false, grouped_matrices>, THREADS, 0};
    return {form == GROUPED_ROWS_TURNED ? multiply_plainly<T, side, true, true, grouped_rows>
                                        : multiply_plainly<T, side, true, false, grouped_rows>,
            NULL, THREADS, 0};
}

} // namespace

product_kernel wf_cuda_plain_product(uint8_t dtype, bool turned_a, bool turned_b, bool large)
{
    if (dtype == WEFT_F64) return kernel_for<double, 64>(turned_a, turned_b);
    return large ? kernel_for<float, 128>(turned_a, turned_b)
                 : kernel_for<float, 64>(turned_a, turned_b);
}

grouped_kernel wf_cuda_plain_grouped_product(uint8_t dtype, grouped_form form, bool large)
{
    if (dtype == WEFT_F64) return grouped_kernel_for<double, 64>(form);
    return large ? grouped_kernel_for<float, 128>(form) : grouped_kernel_for<float, 64>(form);
}
