/*
 * tensor_product.cu: our own product of bf16 or f16 on tensor cores, with sums in f32.
 *
 * A block has a tile of C and goes along k in steps of DEPTH. Tiles of A and B come by asynchronous
 * copies, STAGES of them in flight or in use; they lie in shared memory as in global memory, and
 * ldmatrix turns those that are turned.
 */
#include "kernels/cuda/fragments.h"
#include "kernels/cuda/products/grouped_mm.h"

namespace
{

enum { DEPTH = 32, STAGES = 3, IN_FLIGHT = STAGES - 2 };

/* A tile of C of warps_m x warps_n warps; each has m x n products of MMA_M x MMA_N. */
template <int warps_m_, int warps_n_, int m_, int n_> struct tile_form {
    static const int warps_m = warps_m_, warps_n = warps_n_, m = m_, n = n_;
    static const int threads = warps_m * warps_n * WARP;
    static const int side = warps_m * m * MMA_M;
};
typedef tile_form<2, 4, 4, 4> large_form; /* 128 x 128 */
typedef tile_form<2, 2, 2, 4> small_form; /* 64 x 64 */

/* A tile of an operand in shared memory: `side` rows of DEPTH elements along k, or, along the other
 * dim, DEPTH rows of `side`. */
template <int side, bool along_k> struct operand_tile {
    static const int rows = along_k ? side : DEPTH, columns = along_k ? DEPTH : side;
    static const int elements = rows * (columns + FRAGMENT_GAP);
};

/* Start to bring the tile for k from `k` on, of an operand whose row or column number 0 of the tile
 * is `first` of `count`. */
template <int side, bool along_k, int threads, class E>
__device__ __forceinline__ void load_operand(E *to, const E *x, int64_t ld, int64_t first,
                                             int64_t count, int64_t k, int64_t k_end, bool packed)
{
    typedef operand_tile<side, along_k> tile;
    tile_source<E> from = {x + first * ld + k, ld, 1, count - first, k_end - k, packed};

    if (!along_k) from = {x + k * ld + first, ld, 1, k_end - k, count - first, packed};
    load_tile<tile::rows, tile::columns, threads>(to, from);
}

template <class Form, bool a_along_k, bool b_along_k, class E>
__device__ __forceinline__ void multiply_stage(float (&sum)[Form::m][Form::n][4], const E *a,
                                               const E *b, int row, int column)
{
#pragma unroll
    for (int k = 0; k < DEPTH; k += MMA_K) {
        uint32_t of_a[Form::m][4];

#pragma unroll
        for (int i = 0; i < Form::m; i++)
            load_a_fragment<a_along_k, operand_tile<Form::side, a_along_k>::columns>(
                of_a[i], a, row + i * MMA_M, k);
#pragma unroll
        for (int j = 0; j < Form::n; j += 2) {
            uint32_t of_b[4];

            load_b_fragments<b_along_k, operand_tile<Form::side, b_along_k>::columns>(
                of_b, b, column + j * MMA_N, k);
#pragma unroll
            for (int i = 0; i < Form::m; i++)
                multiply_fragments<E>(sum[i][j], sum[i][j + 1], of_a[i], of_b);
        }
    }
}

/* The warp's part of C, whose first element is (row, column). */
template <class E, class Form, class Arguments, class Out>
__device__ __forceinline__ void store_sums(const Arguments &p, Out *c,
                                           float (&sum)[Form::m][Form::n][4], int64_t row,
                                           int64_t column, const product_tile_place &tile)
{
    const E *bias = (const E *)p.bias;

#pragma unroll
    for (int j = 0; j < Form::n; j += 2) {
        int64_t first = column + j * MMA_N;
        float added[2][2] = {};

        for (int e = 0; e < 4 && bias; e++) {
            int64_t at = first + e / 2 * MMA_N + fragment_column() + e % 2;

            if (at < p.n) added[e / 2][e % 2] = to_real(bias[map_offset(p.bias_map, at)]);
        }
#pragma unroll
        for (int i = 0; i < Form::m * 2; i++) {
            const float *one = &sum[i / 2][j][i % 2 * 2], *other = &sum[i / 2][j + 1][i % 2 * 2];
            float v[2][2] = {{one[0] + added[0][0], one[1] + added[0][1]},
                             {other[0] + added[1][0], other[1] + added[1][1]}};
            int64_t r = row + i / 2 * MMA_M + i % 2 * 8 + fragment_row();

            store_row_of_fragments(c + r * p.n + first, v[0], v[1],
                                   r < end_of_rows(p, tile) ? p.n - first : 0, p.packed_c);
        }
    }
}

template <class E, class Form, bool a_along_k, bool b_along_k, class Arguments>
__global__ void __launch_bounds__(Form::threads, 2) multiply_on_tensor_cores(Arguments p)
{
    typedef operand_tile<Form::side, a_along_k> a_tile;
    typedef operand_tile<Form::side, b_along_k> b_tile;
    const int stage = a_tile::elements + b_tile::elements;
    GPU_DYNAMIC_SHARED(E, shared);
    product_tile_place at = product_place<Form::side>(p);
    if (!tile_is_there(p, at)) return;
    const E *a = (const E *)p.a + map_offset(p.a_batch, at.batch);
    const E *b = (const E *)p.b + map_offset(p.b_batch, at.batch);
    int warp = threadIdx.x / WARP, row = warp / Form::warps_n * Form::m * MMA_M;
    int column = warp % Form::warps_n * Form::n * MMA_N;
    float sum[Form::m][Form::n][4] = {};
    auto load_stage = [&](int64_t k, int slot) {
        E *to = shared + slot * stage;

        if (at.k_end > k) {
            load_operand<Form::side, a_along_k, Form::threads>(
                to, a, p.lda, at.row, end_of_rows(p, at), k, at.k_end, p.packed_a);
            load_operand<Form::side, b_along_k, Form::threads>(
                to + a_tile::elements, b, p.ldb, at.column, p.n, k, at.k_end, p.packed_b);
        }
        gpu_copy_commit();
    };

    for (int s = 0; s < STAGES - 1; s++) load_stage(at.k_begin + s * DEPTH, s);
    for (int64_t k = at.k_begin, s = 0; k < at.k_end; k += DEPTH, s = (s + 1) % STAGES) {
        const E *tiles = shared + s * stage;

        gpu_copy_wait<IN_FLIGHT>();
        __syncthreads(); /* the tiles are there, and the slot that is filled next is no longer read
                          */
        load_stage(k + (STAGES - 1) * DEPTH, (int)((s + STAGES - 1) % STAGES));
        multiply_stage<Form, a_along_k, b_along_k>(sum, tiles, tiles + a_tile::elements, row,
                                                   column);
    }
    if (p.c_is_real)
        store_sums<E, Form>(p, (float *)p.c + product_c_offset(p, at), sum, at.row + row,
                            at.column + column, at);
    else
        store_sums<E, Form>(p, (E *)p.c + product_c_offset(p, at), sum, at.row + row,
                            at.column + column, at);
}

template <class Form, bool a_along_k, bool b_along_k>
constexpr size_t stage_elements =
    operand_tile<Form::side, a_along_k>::elements + operand_tile<Form::side, b_along_k>::elements;

template <class E, class Form, bool a_along_k, bool b_along_k> product_kernel kernel_of()
{
    return {multiply_on_tensor_cores<E, Form, a_along_k, b_along_k, product_arguments>,
            Form::threads, STAGES * stage_elements<Form, a_along_k, b_along_k> * sizeof(E)};
}

template <class E, class Form> product_kernel kernel_for(bool turned_a, bool turned_b)
{
    if (turned_a)
        return turned_b ? kernel_of<E, Form, false, true>() : kernel_of<E, Form, false, false>();
    return turned_b ? kernel_of<E, Form, true, true>() : kernel_of<E, Form, true, false>();
}

template <class E, class Form> grouped_kernel grouped_kernel_for(grouped_form form)
{
    if (form == GROUPED_MATRICES)
        return {NULL, multiply_on_tensor_cores<E, Form, false, false, grouped_matrices>,
                Form::threads, STAGES * stage_elements<Form, false, false> * sizeof(E)};
    if (form == GROUPED_ROWS_TURNED)
        return {multiply_on_tensor_cores<E, Form, true, true, grouped_rows>, NULL, Form::threads,
                STAGES * stage_elements<Form, true, true> * sizeof(E)};
    return {multiply_on_tensor_cores<E, Form, true, false, grouped_rows>, NULL, Form::threads,
            STAGES * stage_elements<Form, true, false> * sizeof(E)};
}

} // namespace

product_kernel wf_cuda_tensor_product(uint8_t dtype, bool turned_a, bool turned_b, bool large)
{
    if (dtype == WEFT_BF16)
        return large ? kernel_for<bf16, large_form>(turned_a, turned_b)
                     : kernel_for<bf16, small_form>(turned_a, turned_b);
    return large ? kernel_for<f16, large_form>(turned_a, turned_b)
                 : kernel_for<f16, small_form>(turned_a, turned_b);
}

grouped_kernel wf_cuda_tensor_grouped_product(uint8_t dtype, grouped_form form, bool large)
{
    if (dtype == WEFT_BF16)
        return large ? grouped_kernel_for<bf16, large_form>(form)
                     : grouped_kernel_for<bf16, small_form>(form);
    return large ? grouped_kernel_for<f16, large_form>(form)
                 : grouped_kernel_for<f16, small_form>(form);
}
