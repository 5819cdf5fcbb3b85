/*
 * plain_attention.cu: attention with plain arithmetic, for f32 and f64, and for heads of 16-bit
 * floats that are too large for tensor cores.
 *
 * A block has a tile of own rows of one head and some columns of its results: blockIdx.y counts
 * those that a block has room for. Forward walks over the keys with a running maximum and sum per
 * query (Dao et al. 2022); the gradients compute the probabilities again from lse:
 *
 *     P = e^(S - lse)    dS = P (dO V^T - delta)    dQ = scale dS K    dV = P^T dO
 *     dK = scale dS^T Q
 */
#include "kernels/cuda/attention/plain_scores.h"

namespace
{

/* The maximum or sum of a row, over the 16 threads that have it. */
template <class T, class Take> __device__ __forceinline__ T row_reduce(T value, Take take)
{
#pragma unroll
    for (int lanes = SIDE_THREADS / 2; lanes; lanes /= 2)
        value = take(value, shuffle_xor(value, lanes));
    return value;
}

/* Running maximum and sum of a thread's rows; each thread sums its own columns. */
template <class T> struct running_softmax {
    static const int own = plain_tile<T>::own;
    T most[own], sum[own];

    __device__ __forceinline__ running_softmax()
    {
#pragma unroll
        for (int i = 0; i < own; i++) most[i] = -INFINITY, sum[i] = 0;
    }

    /* s becomes e^(s - maximum); shrink[i] is what sums from before are multiplied by. */
    __device__ __forceinline__ void add(T (&s)[own][own], T (&shrink)[own])
    {
#pragma unroll
        for (int i = 0; i < own; i++) {
            T high = most[i], safe;

#pragma unroll
            for (int j = 0; j < own; j++) high = s[i][j] > high ? s[i][j] : high;
            high = row_reduce(high, take_max());
            safe = high == (T)-INFINITY ? 0 : high; /* no key seen yet */
            shrink[i] = real_exp(most[i] - safe);
            most[i] = high;
            sum[i] *= shrink[i];
#pragma unroll
            for (int j = 0; j < own; j++) sum[i] += s[i][j] = real_exp(s[i][j] - safe);
        }
    }
};

template <class E, int groups>
__global__ void __launch_bounds__(THREADS, 1) attend(attention_arguments p)
{
    typedef real<E> T;
    const int own = plain_tile<T>::own, side = plain_tile<T>::side;
    GPU_SHARED(plain_tile<T>, shared, [1]);
    query_tile tile(p, side);
    const attention_head &at = tile.at;
    int64_t query = tile.query, c = blockIdx.y * (groups * side);
    int64_t row = query + threadIdx.x / SIDE_THREADS * own;
    plain_rows<E> q(p, WF_ATT_Q, at, query, p.queries);
    running_softmax<T> softmax;
    T o[own][groups][own] = {}, s[own][own], factor[own];
    int stage = 0;

    for (int64_t key = 0; key < tile.seen; key += side) {
        plain_rows<E> k(p, WF_ATT_K, at, key, p.keys), v(p, WF_ATT_V, at, key, p.keys);

        multiply_rows(s, shared[0], stage, q, k, p.d);
        adjust_scores<E>(p, at, query, key, false, s);
        softmax.add(s, factor);
#pragma unroll
        for (int i = 0; i < own * groups * own; i++)
            o[i / own / groups][i / own % groups][i % own] *= factor[i / own / groups];
        if (p.d == 0) continue;
        keep_scores(s, shared[0]);
        add_product<T, E, groups>(o, shared[0], stage, v, c);
    }
#pragma unroll
    for (int i = 0; i < own; i++) {
        T sum = row_reduce(softmax.sum[i], take_sum());

        factor[i] = sum == 0 ? 0 : 1 / sum;
        if (threadIdx.x % SIDE_THREADS || blockIdx.y || row + i >= p.queries) continue;
        ((T *)p.lse.x)[head_offset(p.lse, at) + (row + i) * p.lse.row] =
            sum == 0 ? (T)-INFINITY : softmax.most[i] + real_log(sum);
    }
    store_sums<E>(p, WF_ATT_O, at, query, p.queries, c, o, factor);
}

template <class E, int groups>
__global__ void __launch_bounds__(THREADS, 1) take_query_gradient(attention_arguments p)
{
    typedef real<E> T;
    const int own = plain_tile<T>::own, side = plain_tile<T>::side;
    GPU_SHARED(plain_tile<T>, shared, [1]);
    query_tile tile(p, side);
    const attention_head &at = tile.at;
    int64_t query = tile.query, c = blockIdx.y * (groups * side);
    T dq[own][groups][own] = {}, probs[own][own], ds[own][own], factor[own];
    int stage = 0;

    for (int64_t key = 0; key < tile.seen; key += side) {
        plain_rows<E> k(p, WF_ATT_K, at, key, p.keys);

        score_gradients<E>(p, at, query, key, false, shared[0], stage, probs, ds);
        keep_scores(ds, shared[0]);
        add_product<T, E, groups>(dq, shared[0], stage, k, c);
    }
#pragma unroll
    for (int i = 0; i < own; i++) factor[i] = (T)p.scale;
    store_sums<E>(p, WF_ATT_DQ, at, query, p.queries, c, dq, factor);
}

/* dK and dV of a tile of keys, from all queries of the heads that share them. */
template <class E, int groups>
__global__ void __launch_bounds__(THREADS, 1) take_key_gradients(attention_arguments p)
{
    typedef real<E> T;
    const int own = plain_tile<T>::own, side = plain_tile<T>::side;
    GPU_SHARED(plain_tile<T>, shared, [1]);
    int64_t tiles = (p.key_rows + side - 1) / side;
    attention_head at = head_of(p, blockIdx.x / tiles, 1);
    int64_t key = blockIdx.x % tiles * side, c = blockIdx.y * (groups * side);
    int64_t first = first_query_seeing(p, key) / side * side;
    T dk[own][groups][own] = {}, dv[own][groups][own] = {};
    T probs[own][own], ds[own][own], factor[own], one[own];
    int stage = 0;

    if (key >= p.keys) first = p.queries;
    for (; at.repeat < p.repeats; at.repeat++)
        for (int64_t query = first; query < p.queries; query += side) {
            plain_rows<E> q(p, WF_ATT_Q, at, query, p.queries);
            plain_rows<E> d(p, WF_ATT_DO, at, query, p.queries);

            score_gradients<E>(p, at, query, key, true, shared[0], stage, probs, ds);
            keep_scores(probs, shared[0]);
            add_product<T, E, groups>(dv, shared[0], stage, d, c);
            __syncthreads(); /* before others' probabilities are written over */
            keep_scores(ds, shared[0]);
            add_product<T, E, groups>(dk, shared[0], stage, q, c);
        }
    at.repeat = 0;
#pragma unroll
    for (int i = 0; i < own; i++) factor[i] = (T)p.scale, one[i] = 1;
    if (p.role[WF_ATT_DK].x) store_sums<E>(p, WF_ATT_DK, at, key, p.key_rows, c, dk, factor);
    if (p.role[WF_ATT_DV].x) store_sums<E>(p, WF_ATT_DV, at, key, p.key_rows, c, dv, one);
}

/* A block for each tile of rows of each head, and for the columns that a block has room for. */
template <class E, int groups>
void launch(const wf_kernel_call *k, const attention_arguments &p,
            void (*kernel)(attention_arguments), int64_t heads, int64_t rows)
{
    const int side = plain_tile<real<E>>::side;
    int64_t blocks = heads * attention_tiles(rows, side);
    int64_t columns = attention_tiles(p.d, groups * side);

    if (blocks == 0) return;
    WF_CUDA_LAUNCH(k, kernel, dim3((unsigned)blocks, columns ? (unsigned)columns : 1), THREADS, 0,
                   p);
}

template <class E, int groups> struct launches {
    static void forward(const wf_kernel_call *k, const attention_arguments &p)
    {
        launch<E, groups>(k, p, attend<E, groups>, p.batches * p.groups * p.repeats, p.queries);
    }
    static void query_gradient(const wf_kernel_call *k, const attention_arguments &p)
    {
        if (p.d)
            launch<E, groups>(k, p, take_query_gradient<E, groups>,
                              p.batches * p.groups * p.repeats, p.queries);
    }
    static void key_gradients(const wf_kernel_call *k, const attention_arguments &p)
    {
        if (p.d)
            launch<E, groups>(k, p, take_key_gradients<E, groups>, p.batches * p.groups,
                              p.key_rows);
    }
};

template <class E, int groups> attention_kernels kernels_of()
{
    typedef launches<E, groups> of;

    return {of::forward, of::query_gradient, of::key_gradients};
}

} // namespace

attention_kernels wf_cuda_plain_attention(uint8_t dtype, int64_t d)
{
    if (dtype == WEFT_BF16) return kernels_of<bf16, 2>();
    if (dtype == WEFT_F16) return kernels_of<f16, 2>();
    if (dtype == WEFT_F64)
        return d > plain_tile<double>::side ? kernels_of<double, 2>() : kernels_of<double, 1>();
    return d > plain_tile<float>::side ? kernels_of<float, 2>() : kernels_of<float, 1>();
}
