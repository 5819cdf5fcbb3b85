/*
 * token_lists.cu: see the header. Tokens are counted, and each row is given as many places of the
 * list. Then there are two ways:
 *
 *   few tokens, or a row that has many of them: warps go through all tokens in order, each for the
 *   rows of its class (row number modulo the number of classes), and write them down;
 *   else each token takes the next place of its row, whoever comes first, and then the one that
 *   it has in order, by counting those before it.
 */
#include "kernels/cuda/group_reduce.h"
#include "kernels/cuda/moves/token_lists.h"

extern "C" {
#include "kernels/cuda/driver_kernels.h"
}

namespace
{

enum {
    MOST_CLASSES = 1024,  /* a power of two; enough warps for all multiprocessors */
    TOKENS_OF_CLASS = 32, /* fewer are not worth a class: each block reads the rows of all tokens */
    LISTING = 1024,       /* threads of a block that lists tokens */
    CLASSES = LISTING / WARP, /* of a block */
    TOKENS_AT_ONCE = 4096,
    KEPT_ROWS = 256, /* of a class, whose places fit into shared memory */
    FEW_TOKENS = 1 << 14,
    COUNTED = 1024 /* of a row; more are not worth to be compared with each other */
};

/* Which places a row gets depends on the order in which warps come; what is in them does not. */
__global__ void __launch_bounds__(BLOCK) give_places(int64_t rows, token_lists l)
{
    int64_t row = (int64_t)blockIdx.x * BLOCK + threadIdx.x;
    unsigned lane = threadIdx.x % WARP, count = row < rows ? l.count[row] : 0, sum = count,
             first = 0;

    for (unsigned distance = 1; distance < WARP; distance *= 2) {
        unsigned before = __shfl_up_sync(~0u, sum, distance);

        if (lane >= distance) sum += before;
    }
    if (lane == WARP - 1 && sum) first = atomicAdd(l.used, sum);
    first = __shfl_sync(~0u, first, WARP - 1);
    if (row < rows) l.place[row] = first + sum - count;
}

/* A token's row, -1 where it has none here, or no more than `few` tokens; few 0: not asked. */
__device__ __forceinline__ int32_t row_of_many(const token_lists &l, int64_t token, uint32_t few)
{
    int32_t row = l.row[token];

    return few && row >= 0 && l.count[row] <= few ? -1 : row;
}

__global__ void __launch_bounds__(BLOCK) take_places(int64_t tokens, token_lists l)
{
    int64_t token = (int64_t)blockIdx.x * BLOCK + threadIdx.x;
    int32_t row = token < tokens ? l.row[token] : -1;

    if (row < 0) return;
    if (l.count[row] > COUNTED)
        atomicAdd(l.left_over, 1u);
    else
        l.any_order[atomicAdd(&l.place[row], 1u)] = (uint32_t)token;
}

__global__ void __launch_bounds__(BLOCK) order_places(int64_t tokens, token_lists l)
{
    int64_t token = (int64_t)blockIdx.x * BLOCK + threadIdx.x;
    int32_t row = token < tokens ? l.row[token] : -1;
    uint32_t begin, count, before = 0;

    if (row < 0 || l.count[row] > COUNTED) return;
    count = l.count[row];
    begin = l.place[row] - count;
    for (uint32_t i = 0; i < count; i++) before += l.any_order[begin + i] < (uint32_t)token;
    l.token[begin + before] = (uint32_t)token;
}

/* Where the next token of a row is listed, while they are: of a class of few rows in shared memory.
 */
template <bool kept> struct row_places {
    uint32_t *place; /* l.place, or the block's in shared memory */
    int shift;       /* classes are 1 << shift */

    __device__ __forceinline__ uint32_t &of(int row) const
    {
        return place[kept ? (row >> shift) * CLASSES + (int)threadIdx.x / WARP : row];
    }
    /* use(place, row) for the block's rows: bring their places, or take them back. */
    template <class Use> __device__ __forceinline__ void move(int64_t rows, const Use &use) const
    {
        int64_t number = (int64_t)blockIdx.x * CLASSES + threadIdx.x % CLASSES;

        for (int i = threadIdx.x; kept && number < 1 << shift; i += LISTING) {
            int64_t row = ((int64_t)(i / CLASSES) << shift) + number;

            if (row >= rows) return;
            use(place[i], row);
        }
    }
};

/* The tokens of the lanes in `mine`, in order, into the lists of their rows. */
template <bool kept>
__device__ __forceinline__ void list_some_tokens(const row_places<kept> &places,
                                                 const token_lists &l, unsigned mine, int row,
                                                 uint32_t token)
{
    unsigned lane = threadIdx.x % WARP;

    while (mine) {
        int some = __shfl_sync(~0u, row, __ffs((int)mine) - 1);
        unsigned same = __ballot_sync(~0u, row == some) & mine;
        uint32_t place = places.of(some);

        if (same >> lane & 1) l.token[place + (unsigned)__popc(same & ((1u << lane) - 1))] = token;
        __syncwarp();
        if (lane == 0) places.of(some) = place + (unsigned)__popc(same);
        __syncwarp();
        mine &= ~same;
    }
}

/* The rows of the tokens, TOKENS_AT_ONCE at a time, are read by the block, and then by each of its
 * warps, which has a class. few: rows with no more tokens are done. */
template <bool kept>
__global__ void __launch_bounds__(LISTING)
    list_tokens(int64_t tokens, int64_t table_rows, int shift, uint32_t few, token_lists l)
{
    GPU_SHARED(int32_t, rows, [TOKENS_AT_ONCE]);
    GPU_DYNAMIC_SHARED(uint32_t, shared);
    row_places<kept> places = {kept ? shared : l.place, shift};
    int number = (int)(blockIdx.x * CLASSES + threadIdx.x / WARP), classes = 1 << shift;

    if (few && !*l.left_over) return;
    places.move(table_rows, [&](uint32_t &place, int64_t row) { place = l.place[row]; });
    for (int64_t begin = 0; begin < tokens; begin += TOKENS_AT_ONCE) {
        int left = tokens - begin < TOKENS_AT_ONCE ? (int)(tokens - begin) : TOKENS_AT_ONCE;
        int n = (left + WARP - 1) / WARP * WARP;

        __syncthreads();
        for (int i = threadIdx.x; i < n; i += LISTING)
            rows[i] = i < left ? row_of_many(l, begin + i, few) : -1;
        __syncthreads();
        for (int i = threadIdx.x % WARP; i < n && number < classes; i += WARP) {
            int row = rows[i];
            unsigned mine = __ballot_sync(~0u, row >= 0 && (row & (classes - 1)) == number);

            if (mine) list_some_tokens(places, l, mine, row, (uint32_t)(begin + i));
        }
    }
    __syncthreads();
    places.move(table_rows, [&](uint32_t &place, int64_t row) { l.place[row] = place; });
}

} // namespace

token_lists wf_cuda_token_lists_begin(int64_t tokens_, int64_t rows_)
{
    size_t tokens = (size_t)tokens_, rows = (size_t)rows_;
    size_t ordered = tokens > FEW_TOKENS ? tokens : 0;
    uint32_t *words =
        (uint32_t *)wf_cuda_scratch((2 * tokens + ordered + 2 * rows + 2) * sizeof *words);
    token_lists l = {.row = (int32_t *)words,
                     .count = words + tokens,
                     .place = words + tokens + rows + 2,
                     .used = words + tokens + rows,
                     .left_over = words + tokens + rows + 1,
                     .token = words + tokens + 2 * rows + 2,
                     .any_order = words + 2 * tokens + 2 * rows + 2};
    const uint32_t zero = 0;

    wf_cuda_fill_elements(l.count, &zero, sizeof zero, rows + 2); /* used and left_over too */
    return l;
}

void wf_cuda_token_lists_end(const wf_kernel_call *k, const token_lists &l, int64_t tokens,
                             int64_t rows)
{
    const int64_t most = (int64_t)MOST_CLASSES * KEPT_ROWS;
    uint32_t few = tokens > FEW_TOKENS ? COUNTED : 0;
    int shift = 0;

    while (1 << shift < MOST_CLASSES && ((int64_t)TOKENS_OF_CLASS << shift < tokens ||
                                         (rows <= most && (int64_t)KEPT_ROWS << shift < rows)))
        shift++;
    WF_CUDA_LAUNCH(k, give_places, blocks_for(rows, BLOCK), BLOCK, 0, rows, l);
    if (!tokens) return;
    if (few) {
        WF_CUDA_LAUNCH(k, take_places, blocks_for(tokens, BLOCK), BLOCK, 0, tokens, l);
        WF_CUDA_LAUNCH(k, order_places, blocks_for(tokens, BLOCK), BLOCK, 0, tokens, l);
    }
    if (rows <= most)
        WF_CUDA_LAUNCH(k, list_tokens<true>, blocks_for(1 << shift, CLASSES), LISTING,
                       (size_t)(((rows - 1) >> shift) + 1) * CLASSES * sizeof(uint32_t), tokens,
                       rows, shift, few, l);
    else
        WF_CUDA_LAUNCH(k, list_tokens<false>, blocks_for(1 << shift, CLASSES), LISTING, 0, tokens,
                       rows, shift, few, l);
}
