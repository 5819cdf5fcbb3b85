/*
 * tensor_attention.cu: attention of bf16 and f16 on tensor cores, with sums in f32. What is
 * computed, and in which order, is in plain_attention.cu; here a block walks over tiles of other
 * rows with the next one in flight.
 */
#include "kernels/cuda/attention/tensor_tiles.h"

namespace
{

/* Others of a gradient's tile: as many as registers are left for. */
template <class E, int D> using forward_tiles = tensor_tiles<E, D, 1, 64>;
template <class E, int D> using gradient_tiles = tensor_tiles<E, D, 2, D == 64 ? 64 : 32>;

/* Blocks of a multiprocessor that registers must do for. */
__host__ __device__ constexpr int blocks_at_once(int D) { return D == 64 ? 3 : 1; }

/* Start to bring the keys from `key` on that queries see, and their values. */
template <int D, class Tiles>
__device__ __forceinline__ void load_keys(const attention_arguments &p, const query_tile &own,
                                          int64_t key, const Tiles &tile, int stage)
{
    if (key >= own.seen) return;
    load_head_rows<Tiles::others, D>(tile.other(stage, 0), p, WF_ATT_K, own.at, key, p.keys);
    load_head_rows<Tiles::others, D>(tile.other(stage, 1), p, WF_ATT_V, own.at, key, p.keys);
    gpu_copy_commit();
}

/* s becomes 2^(s - maximum) in the two rows of this lane; the sums so far shrink. */
template <int D, int others>
__device__ __forceinline__ void add_to_softmax(float (&s)[others / MMA_N][4], float (&most)[2],
                                               float (&sum)[2], float (&o)[D / MMA_N][4])
{
    float safe[2], shrink[2];

#pragma unroll
    for (int half = 0; half < 2; half++) {
        float high = most[half];

#pragma unroll
        for (int j = 0; j < others / MMA_N * 2; j++) {
            float one = s[j / 2][half * 2 + j % 2];

            high = one > high ? one : high;
        }
        high = quad_reduce(high, take_max());
        safe[half] = high == -INFINITY ? 0 : high; /* no key seen yet */
        shrink[half] = gpu_exp2(most[half] - safe[half]);
        most[half] = high;
        sum[half] *= shrink[half];
    }
#pragma unroll
    for (int j = 0; j < others / MMA_N; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) sum[e / 2] += s[j][e] = gpu_exp2(s[j][e] - safe[e / 2]);
#pragma unroll
    for (int j = 0; j < D / MMA_N; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) o[j][e] *= shrink[e / 2];
}

template <class E, int D>
__global__ void __launch_bounds__(TENSOR_THREADS, blocks_at_once(D))
    attend_on_tensor_cores(attention_arguments p)
{
    typedef forward_tiles<E, D> tiles;
    GPU_DYNAMIC_SHARED(E, shared);
    tiles tile = {shared};
    query_tile own(p, OWN);
    float o[D / MMA_N][4] = {}, most[2] = {-INFINITY, -INFINITY}, sum[2] = {}, factor[2];
    int stage = 0;

    load_head_rows<OWN, D>(tile.own(0), p, WF_ATT_Q, own.at, own.query, p.queries);
    load_keys<D>(p, own, 0, tile, 0);
    for (int64_t key = 0; key < own.seen; key += tiles::others, stage = 1 - stage) {
        float s[tiles::others / MMA_N][4];

        gpu_copy_wait<0>();
        __syncthreads(); /* the tiles are there; nobody reads the other stage any more */
        load_keys<D>(p, own, key + tiles::others, tile, 1 - stage);
        multiply_rows<D, tiles::others>(s, tile.own(0), tile.other(stage, 0));
        adjust_scores<E, tiles::others>(p, own.at, own.query, key, false, s);
        add_to_softmax<D, tiles::others>(s, most, sum, o);
        add_product<D, tiles::others>(o, s, tile.other(stage, 1));
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int64_t row = own.query + warp_row() + half * 8 + fragment_row();
        float all = quad_reduce(sum[half], take_sum());

        factor[half] = all == 0 ? 0 : 1 / all;
        if (threadIdx.x % 4 == 0 && row < p.queries)
            ((float *)p.lse.x)[head_offset(p.lse, own.at) + row * p.lse.row] =
                all == 0 ? -INFINITY : most[half] * LOG_2 + real_log(all);
    }
    store_sums<E, D>(p, WF_ATT_O, own.at, own.query, p.queries, o, factor);
}

/* s becomes P and t, which is dO V^T, dS. lse (times LOG2_E) and delta are those of the rows, or,
 * with keys_are_rows, of the columns. */
template <int others, bool keys_are_rows>
__device__ __forceinline__ void take_score_gradients(float (&s)[others / MMA_N][4],
                                                     float (&t)[others / MMA_N][4],
                                                     const float *lse, const float *delta)
{
#pragma unroll
    for (int j = 0; j < others / MMA_N; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            int n = keys_are_rows ? j * MMA_N + fragment_column() + e % 2 : e / 2;

            s[j][e] = gpu_exp2(s[j][e] - lse[n]);
            t[j][e] = s[j][e] * (t[j][e] - delta[n]);
        }
}

template <class E, int D>
__global__ void __launch_bounds__(TENSOR_THREADS, blocks_at_once(D))
    take_query_gradient_on_tensor_cores(attention_arguments p)
{
    typedef gradient_tiles<E, D> tiles;
    GPU_DYNAMIC_SHARED(E, shared);
    tiles tile = {shared};
    query_tile own(p, OWN);
    float dq[D / MMA_N][4] = {}, lse[2], delta[2], factor[2] = {(float)p.scale, (float)p.scale};
    int stage = 0;

#pragma unroll
    for (int half = 0; half < 2; half++) {
        int64_t row = own.query + warp_row() + half * 8 + fragment_row();

        lse[half] = number_of_query<float>(p, p.lse, own.at, row) * LOG2_E;
        delta[half] = number_of_query<float>(p, p.delta, own.at, row);
    }
    load_head_rows<OWN, D>(tile.own(0), p, WF_ATT_Q, own.at, own.query, p.queries);
    load_head_rows<OWN, D>(tile.own(1), p, WF_ATT_DO, own.at, own.query, p.queries);
    load_keys<D>(p, own, 0, tile, 0);
    for (int64_t key = 0; key < own.seen; key += tiles::others, stage = 1 - stage) {
        float s[tiles::others / MMA_N][4], t[tiles::others / MMA_N][4];

        gpu_copy_wait<0>();
        __syncthreads();
        load_keys<D>(p, own, key + tiles::others, tile, 1 - stage);
        multiply_rows<D, tiles::others>(s, tile.own(0), tile.other(stage, 0));
        multiply_rows<D, tiles::others>(t, tile.own(1), tile.other(stage, 1));
        adjust_scores<E, tiles::others>(p, own.at, own.query, key, false, s);
        take_score_gradients<tiles::others, false>(s, t, lse, delta);
        add_product<D, tiles::others>(dq, t, tile.other(stage, 0));
    }
    store_sums<E, D>(p, WF_ATT_DQ, own.at, own.query, p.queries, dq, factor);
}

/* Tiles of queries one after the other, of all heads that share keys. */
struct query_walk {
    int64_t first, queries; /* of each head */
    int64_t repeat, query;

    __device__ __forceinline__ void next(int step)
    {
        query += step;
        if (query < queries) return;
        query = first;
        repeat++;
    }
};

/* dK and dV of a tile of keys, from all queries of the heads that share them. */
template <class E, int D>
__global__ void __launch_bounds__(TENSOR_THREADS)
    take_key_gradients_on_tensor_cores(attention_arguments p)
{
    typedef gradient_tiles<E, D> tiles;
    GPU_DYNAMIC_SHARED(E, shared);
    GPU_SHARED(float, of_queries, [2][2][tiles::others]); /* stages of lse and delta */
    tiles tile = {shared};
    int64_t key_tiles = (p.key_rows + OWN - 1) / OWN, key = blockIdx.x % key_tiles * OWN;
    attention_head at = head_of(p, blockIdx.x / key_tiles, 1);
    int64_t first = first_query_seeing(p, key) / tiles::others * tiles::others;
    query_walk walk = {first, p.queries, 0, first};
    float dk[D / MMA_N][4] = {}, dv[D / MMA_N][4] = {};
    const float factor[2] = {(float)p.scale, (float)p.scale}, one[2] = {1, 1};
    int stage = 0;
    auto load_queries = [&](const query_walk &of, int to) {
        attention_head head = {at.batch, at.group, of.repeat};

        if (of.repeat >= p.repeats) return;
        load_head_rows<tiles::others, D>(tile.other(to, 0), p, WF_ATT_Q, head, of.query, p.queries);
        load_head_rows<tiles::others, D>(tile.other(to, 1), p, WF_ATT_DO, head, of.query,
                                         p.queries);
        gpu_copy_commit();
        if (threadIdx.x >= tiles::others) return;
        of_queries[to][0][threadIdx.x] =
            number_of_query<float>(p, p.lse, head, of.query + threadIdx.x) * LOG2_E;
        of_queries[to][1][threadIdx.x] =
            number_of_query<float>(p, p.delta, head, of.query + threadIdx.x);
    };

    if (key >= p.keys || first >= p.queries) walk.repeat = p.repeats;
    load_head_rows<OWN, D>(tile.own(0), p, WF_ATT_K, at, key, p.keys);
    load_head_rows<OWN, D>(tile.own(1), p, WF_ATT_V, at, key, p.keys);
    load_queries(walk, 0);
    for (; walk.repeat < p.repeats; stage = 1 - stage) {
        float s[tiles::others / MMA_N][4], t[tiles::others / MMA_N][4];

        at.repeat = walk.repeat;
        int64_t query = walk.query;

        walk.next(tiles::others);
        gpu_copy_wait<0>();
        __syncthreads();
        load_queries(walk, 1 - stage);
        multiply_rows<D, tiles::others>(s, tile.own(0), tile.other(stage, 0));
        multiply_rows<D, tiles::others>(t, tile.own(1), tile.other(stage, 1));
        adjust_scores<E, tiles::others>(p, at, query, key, true, s);
        take_score_gradients<tiles::others, true>(s, t, of_queries[stage][0], of_queries[stage][1]);
        add_product<D, tiles::others>(dv, s, tile.other(stage, 1));
        add_product<D, tiles::others>(dk, t, tile.other(stage, 0));
    }
    at.repeat = 0;
    if (p.role[WF_ATT_DK].x) store_sums<E, D>(p, WF_ATT_DK, at, key, p.key_rows, dk, factor);
    if (p.role[WF_ATT_DV].x) store_sums<E, D>(p, WF_ATT_DV, at, key, p.key_rows, dv, one);
}

void launch(const wf_kernel_call *k, const attention_arguments &p,
            void (*kernel)(attention_arguments), size_t shared, int64_t heads, int64_t rows)
{
    int64_t blocks = heads * attention_tiles(rows, OWN);

    if (blocks) WF_CUDA_LAUNCH(k, kernel, dim3((unsigned)blocks), TENSOR_THREADS, shared, p);
}

template <class E, int D> struct launches {
    static void forward(const wf_kernel_call *k, const attention_arguments &p)
    {
        launch(k, p, attend_on_tensor_cores<E, D>, forward_tiles<E, D>::bytes,
               p.batches * p.groups * p.repeats, p.queries);
    }
    static void query_gradient(const wf_kernel_call *k, const attention_arguments &p)
    {
        launch(k, p, take_query_gradient_on_tensor_cores<E, D>, gradient_tiles<E, D>::bytes,
               p.batches * p.groups * p.repeats, p.queries);
    }
    static void key_gradients(const wf_kernel_call *k, const attention_arguments &p)
    {
        launch(k, p, take_key_gradients_on_tensor_cores<E, D>, gradient_tiles<E, D>::bytes,
               p.batches * p.groups, p.key_rows);
    }
};

template <class E, int D> attention_kernels kernels_of(const char *op)
{
    typedef launches<E, D> of;

    wf_cuda_check_launch(gpu_allow_shared(attend_on_tensor_cores<E, D>, forward_tiles<E, D>::bytes),
                         op);
    wf_cuda_check_launch(
        gpu_allow_shared(take_query_gradient_on_tensor_cores<E, D>, gradient_tiles<E, D>::bytes),
        op);
    wf_cuda_check_launch(
        gpu_allow_shared(take_key_gradients_on_tensor_cores<E, D>, gradient_tiles<E, D>::bytes),
        op);
    return {of::forward, of::query_gradient, of::key_gradients};
}

} // namespace

attention_kernels wf_cuda_tensor_attention(uint8_t dtype, int64_t d, const char *op)
{
    if (dtype == WEFT_BF16) return d <= 64 ? kernels_of<bf16, 64>(op) : kernels_of<bf16, 128>(op);
    return d <= 64 ? kernels_of<f16, 64>(op) : kernels_of<f16, 128>(op);
}
