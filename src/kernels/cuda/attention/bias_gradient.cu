/*
 * bias_gradient.cu: what attention's gradient needs beside the products: delta, and the gradient of
 * a bias.
 *
 * dbias = dS, summed over the batch entries, heads and queries that share an element. A block has a
 * tile of it and walks over all that do, one after the other.
 */
#include "kernels/cuda/attention/plain_scores.h"

namespace
{

/* A warp for each query. */
template <class E>
__global__ void __launch_bounds__(BLOCK) multiply_by_output(attention_arguments p, int64_t count)
{
    typedef real<E> T;
    int64_t n = (int64_t)blockIdx.x * WARPS + threadIdx.x / WARP;
    attention_head at = head_of(p, n / p.queries, p.repeats);
    int64_t query = n % p.queries;
    const attention_rows &of_o = p.role[WF_ATT_O], &of_d = p.role[WF_ATT_DO];
    T sum = 0;

    if (n >= count) return;
    for (int64_t j = threadIdx.x % WARP; j < p.d; j += WARP)
        sum += to_real(head_rows<const E>(of_o, at)[query * of_o.row + j * of_o.column]) *
               to_real(head_rows<const E>(of_d, at)[query * of_d.row + j * of_d.column]);
    sum = warp_reduce(sum, take_sum());
    if (threadIdx.x % WARP == 0)
        ((T *)p.delta.x)[head_offset(p.delta, at) + query * p.delta.row] = sum;
}

/* First and last of those that share one element, of which there are `count`. */
struct sharers {
    int64_t first, end;
};

__device__ __forceinline__ sharers sharers_of(int64_t step, int64_t count, int64_t &number)
{
    if (step == 0) return {0, count};
    int64_t one = number % count;

    number /= count;
    return {one, one + 1};
}

/* Rows from `query` on, of which x is number 0. */
template <class E, class T>
__device__ __forceinline__ void store_tile(const attention_arguments &p, E *x, int64_t query,
                                           int64_t key,
                                           const T (&sum)[plain_tile<T>::own][plain_tile<T>::own])
{
    const int own = plain_tile<T>::own;
    int column = threadIdx.x % SIDE_THREADS * own;

    query += threadIdx.x / SIDE_THREADS * own;
#pragma unroll
    for (int i = 0; i < own; i++)
#pragma unroll
        for (int j = 0; j < own; j++)
            if (query + i < p.queries && key + column + j < p.key_rows)
                x[(query + i) * p.bias_gradient.row + column + j] = from_real<E>(sum[i][j]);
}

/* The sums over all rows, by way of a row of sums for each 16 threads. */
template <class E, class T>
__device__ __forceinline__ void
store_column_sums(const attention_arguments &p, E *x, int64_t key,
                  const T (&sum)[plain_tile<T>::own][plain_tile<T>::own],
                  T (&sums)[plain_tile<T>::side][plain_tile<T>::side + plain_tile<T>::pack_size])
{
    const int own = plain_tile<T>::own, side = plain_tile<T>::side;
    int row = threadIdx.x / SIDE_THREADS, column = threadIdx.x % SIDE_THREADS * own;
    T total = 0;

#pragma unroll
    for (int j = 0; j < own; j++) {
        T of_column = 0;

#pragma unroll
        for (int i = 0; i < own; i++) of_column += sum[i][j];
        sums[row][column + j] = of_column;
    }
    __syncthreads();
    if (threadIdx.x >= side || key + threadIdx.x >= p.key_rows) return;
    for (int i = 0; i < SIDE_THREADS; i++) total += sums[i][threadIdx.x];
    x[threadIdx.x] = from_real<E>(total);
}

template <class E>
__global__ void __launch_bounds__(THREADS, 1) sum_score_gradients(attention_arguments p)
{
    typedef real<E> T;
    const int own = plain_tile<T>::own, side = plain_tile<T>::side;
    GPU_SHARED(plain_tile<T>, shared, [1]);
    const attention_numbers &to = p.bias_gradient;
    int64_t key_tiles = (p.key_rows + side - 1) / side, query_tiles = (p.queries + side - 1) / side;
    int64_t key = blockIdx.x % key_tiles * side, number = blockIdx.x / key_tiles;
    sharers tiles = sharers_of(to.row, query_tiles, number);
    sharers repeats = sharers_of(to.repeat, p.repeats, number);
    sharers groups = sharers_of(to.group, p.groups, number);
    sharers batches = sharers_of(to.batch, p.batches, number);
    int64_t heads =
        (batches.end - batches.first) * (groups.end - groups.first) * (repeats.end - repeats.first);
    T sum[own][own] = {}, probs[own][own], ds[own][own];
    int stage = 0;

    for (int64_t h = 0; h < heads; h++) {
        int64_t r = repeats.end - repeats.first, g = groups.end - groups.first;
        attention_head at = {batches.first + h / r / g, groups.first + h / r % g,
                             repeats.first + h % r};

        for (int64_t t = tiles.first; t < tiles.end; t++) {
            if (key >= keys_seen(p, t * side + side - 1)) continue;
            score_gradients<E>(p, at, t * side, key, false, shared[0], stage, probs, ds);
#pragma unroll
            for (int i = 0; i < own * own; i++) sum[i / own][i % own] += ds[i / own][i % own];
        }
    }
    E *x = (E *)to.x + batches.first * to.batch + groups.first * to.group +
           repeats.first * to.repeat + key;

    if (to.row)
        store_tile(p, x, tiles.first * side, key, sum);
    else
        store_column_sums(p, x, key, sum, shared[0].score);
}

template <class E> void launch_bias_gradient(const wf_kernel_call *k, const attention_arguments &p)
{
    const int side = plain_tile<real<E>>::side;
    const attention_numbers &to = p.bias_gradient;
    int64_t blocks = (to.batch ? p.batches : 1) * (to.group ? p.groups : 1) *
                     (to.repeat ? p.repeats : 1) * (to.row ? attention_tiles(p.queries, side) : 1) *
                     attention_tiles(p.key_rows, side);

    if (blocks) WF_CUDA_LAUNCH(k, sum_score_gradients<E>, dim3((unsigned)blocks), THREADS, 0, p);
}

template <class E> void launch_delta(const wf_kernel_call *k, const attention_arguments &p)
{
    int64_t count = p.batches * p.groups * p.repeats * p.queries;

    if (count)
        WF_CUDA_LAUNCH(k, multiply_by_output<E>, dim3(blocks_for(count, WARPS)), BLOCK, 0, p,
                       count);
}

} // namespace

void wf_cuda_attention_delta(const wf_kernel_call *k, const attention_arguments &p, uint8_t dtype)
{
    with_float_type(dtype, [&](auto e) { launch_delta<typename decltype(e)::type>(k, p); });
}

void wf_cuda_attention_bias_gradient(const wf_kernel_call *k, const attention_arguments &p,
                                     uint8_t dtype)
{
    with_float_type(dtype, [&](auto e) { launch_bias_gradient<typename decltype(e)::type>(k, p); });
}
