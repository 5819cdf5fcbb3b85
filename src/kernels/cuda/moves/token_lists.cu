/*
 * token_lists.cu: see the header. Tokens are counted, each row is given as many places of the list,
 * and warps go through all tokens in order, each for the rows of its class (row number modulo the
 * number of classes), and write them down.
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
    KEPT_ROWS = 256 /* of a class, whose places fit into shared memory */
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
 * warps, which has a class. */
template <bool kept>
__global__ void __launch_bounds__(LISTING)
    list_tokens(int64_t tokens, int64_t table_rows, int shift, token_lists l)
{
    GPU_SHARED(int32_t, rows, [TOKENS_AT_ONCE]);
    GPU_DYNAMIC_SHARED(uint32_t, shared);
    row_places<kept> places = {kept ? shared : l.place, shift};
    int number = (int)(blockIdx.x * CLASSES + threadIdx.x / WARP), classes = 1 << shift;

    places.move(table_rows, [&](uint32_t &place, int64_t row) { place = l.place[row]; });
    for (int64_t begin = 0; begin < tokens; begin += TOKENS_AT_ONCE) {
        int left = tokens - begin < TOKENS_AT_ONCE ? (int)(tokens - begin) : TOKENS_AT_ONCE;
        int n = (left + WARP - 1) / WARP * WARP;

        __syncthreads();
        for (int i = threadIdx.x; i < n; i += LISTING) rows[i] = i < left ? l.row[begin + i] : -1;
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
    uint32_t *words = (uint32_t *)wf_cuda_scratch((2 * tokens + 2 * rows + 1) * sizeof *words);
    token_lists l = {(int32_t *)words, words + tokens, words + tokens + rows + 1,
                     words + tokens + rows, words + tokens + 2 * rows + 1};
    const uint32_t zero = 0;

    wf_cuda_fill_elements(l.count, &zero, sizeof zero, rows + 1); /* used too */
    return l;
}

void wf_cuda_token_lists_end(const wf_kernel_call *k, const token_lists &l, int64_t tokens,
                             int64_t rows)
{
    const int64_t most = (int64_t)MOST_CLASSES * KEPT_ROWS;
    int shift = 0;

    while (1 << shift < MOST_CLASSES && ((int64_t)TOKENS_OF_CLASS << shift < tokens ||
                                         (rows <= most && (int64_t)KEPT_ROWS << shift < rows)))
        shift++;
    WF_CUDA_LAUNCH(k, give_places, blocks_for(rows, BLOCK), BLOCK, 0, rows, l);
    if (!tokens) return;
    if (rows <= most)
        WF_CUDA_LAUNCH(k, list_tokens<true>, blocks_for(1 << shift, CLASSES), LISTING,
                       (size_t)(((rows - 1) >> shift) + 1) * CLASSES * sizeof(uint32_t), tokens,
                       rows, shift, l);
    else
        WF_CUDA_LAUNCH(k, list_tokens<false>, blocks_for(1 << shift, CLASSES), LISTING, 0, tokens,
                       rows, shift, l);
}
