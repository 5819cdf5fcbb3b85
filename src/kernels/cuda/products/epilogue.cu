/*
 * epilogue.cu: what stands behind a product or beside it, where cuBLASLt does not compute it in the
 * product's own pass: a launch over the result, or over the rows of an operand.
 */
#include "kernels/cuda/products/epilogue.h"

#include "kernels/cuda/group_reduce.h"
#include "kernels/cuda/index_map.h"

namespace
{

/* second: an element of another matrix, or the factor of a scale. */
template <class R> __device__ __forceinline__ R apply(uint8_t epilogue, R x, R second)
{
    switch (epilogue) {
    case WF_EPILOGUE_GELU_TANH:
        return x * real_sigmoid(real_gelu_u(x));
    case WF_EPILOGUE_ADD:
        return x + second;
    case WF_EPILOGUE_SCALE:
        return x * second;
    default:
        return x * real_dgelu_tanh(second);
    }
}

template <class E>
__global__ void __launch_bounds__(BLOCK)
    finish_elements(uint8_t epilogue, const E *product, const E *beside, real<E> scale, E *out,
                    int64_t count)
{
    int64_t step = (int64_t)gridDim.x * BLOCK;

    for (int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x; i < count; i += step)
        out[i] = from_real<E>(
            apply<real<E>>(epilogue, to_real(product[i]), beside ? to_real(beside[i]) : scale));
}

/* Columns of a matrix whose rows are `row` elements apart and whose columns are `column`. */
template <class E>
__global__ void __launch_bounds__(BLOCK)
    sum_rows(const E *x, int64_t rows, int64_t columns, int64_t row, int64_t column, E *out)
{
    int64_t step = (int64_t)gridDim.x * BLOCK;

    for (int64_t j = (int64_t)blockIdx.x * BLOCK + threadIdx.x; j < columns; j += step) {
        real<E> sum = 0;

        for (int64_t i = 0; i < rows; i++) sum += to_real(x[i * row + j * column]);
        out[j] = from_real<E>(sum);
    }
}

dim3 blocks_for(int64_t n)
{
    int64_t blocks = (n + BLOCK - 1) / BLOCK;

    return dim3((unsigned)(blocks < wf_cuda_index_limit ? blocks : wf_cuda_index_limit));
}

} // namespace

void wf_cuda_finish_product(const wf_kernel_call *k, const product_shape &s, const void *product,
                            const product_data &data)
{
    int64_t count = s.batches * s.m * s.n;

    with_float_type(s.dtype, [&](auto e) {
        typedef typename decltype(e)::type E;

        WF_CUDA_LAUNCH(k, (finish_elements<E>), blocks_for(count), BLOCK, 0, s.epilogue,
                       (const E *)product, (const E *)data.read, (real<E>)data.scale, (E *)data.c,
                       count);
    });
}

void wf_cuda_sum_operand(const wf_kernel_call *k, const product_shape &s, const void *a,
                         const void *b, void *out)
{
    bool left = s.summed == WF_SUMMED_LEFT;
    const product_operand &o = left ? s.a : s.b;
    int64_t columns = left ? s.m : s.n;
    bool rows_apart = left ? o.turned : !o.turned; /* stored [k, columns] */

    with_float_type(s.dtype, [&](auto e) {
        typedef typename decltype(e)::type E;

        WF_CUDA_LAUNCH(k, (sum_rows<E>), blocks_for(columns), BLOCK, 0, (const E *)(left ? a : b),
                       s.k, columns, rows_apart ? o.ld : 1, rows_apart ? 1 : o.ld, (E *)out);
    });
}
