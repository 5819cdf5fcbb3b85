/*
 * embedding_grad.cu: the gradient of a table: dtable[r][j] = sum over i with index[i] = r of
 * d[i][j], added in the order of the tokens, as on the CPU, without atomic sums of floats.
 *
 * First the tokens of each row are listed: they are counted, each row is given as many places of
 * the list, and warps go through all tokens in order, each for the rows of its class (row number
 * modulo the number of classes), and write them down. Then a warp adds up some columns of a row and
 * writes them once; rows that no token means get zeros.
 */
#include "kernels/cuda/group_reduce.h"
#include "kernels/cuda/moves/embedding.h"

extern "C" {
#include "kernels/cuda/driver_kernels.h"
}

namespace
{

enum {
    MOST_CLASSES = 1024, /* a power of two; enough warps for all multiprocessors */
    TOKENS_OF_CLASS = 8, /* fewer are not worth a class */
    AT_ONCE = 4          /* tokens whose loads are in flight together */
};

struct embedding_grad {
    embedding_lookup lookup;
    int64_t rows;                          /* of all items */
    int64_t columns, column_step, padding; /* padding: the row here that takes nothing, or -1 */
    offset_map at_d;                       /* number of a token -> its first element */
    int classes;
};

/* In scratch; numbers of rows count those of all items. */
struct token_lists {
    int32_t *row;    /* of each token, -1: none here */
    uint32_t *count; /* tokens of each row */
    uint32_t
        *place;     /* where the row's tokens are listed; while they are, where the next one goes */
    uint32_t *used; /* places given so far */
    uint32_t *token; /* the lists */
};

__global__ void __launch_bounds__(BLOCK) count_tokens(embedding_grad p, token_lists l)
{
    int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x, row;

    if (i >= p.lookup.tokens) return;
    row = p.lookup.row_of_token(i, true);
    if (row == p.padding) row = -1;
    if (row >= 0) row += p.lookup.item_of_token(i) * p.lookup.rows;
    l.row[i] = (int32_t)row;
    if (row >= 0) atomicAdd(&l.count[row], 1u);
}

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

/* The tokens of the lanes in `mine`, in order, into the lists of their rows. */
__device__ __forceinline__ void list_some_tokens(const token_lists &l, unsigned mine, int row,
                                                 uint32_t token)
{
    unsigned lane = threadIdx.x % WARP;

    while (mine) {
        int some = __shfl_sync(~0u, row, __ffs((int)mine) - 1);
        unsigned same = __ballot_sync(~0u, row == some) & mine;
        bool listed = same >> lane & 1;
        uint32_t place = 0;

        if (listed) {
            place = l.place[row];
            l.token[place + (unsigned)__popc(same & ((1u << lane) - 1))] = token;
        }
        __syncwarp();
        if (listed && (same & ((1u << lane) - 1)) == 0)
            l.place[row] = place + (unsigned)__popc(same);
        __syncwarp();
        mine &= ~same;
    }
}

__global__ void __launch_bounds__(BLOCK) list_tokens(int64_t tokens, int classes, token_lists l)
{
    int number = (int)(blockIdx.x * WARPS + threadIdx.x / WARP), lane = threadIdx.x % WARP;

    if (number >= classes) return;
    for (int64_t i = lane; i - lane < tokens; i += WARP) {
        int row = i < tokens ? l.row[i] : -1;
        unsigned mine = __ballot_sync(~0u, row >= 0 && (row & (classes - 1)) == number);

        if (mine) list_some_tokens(l, mine, row, (uint32_t)i);
    }
}

/* A warp has WARP packs of a row; after list_tokens a row's places lie before l.place. */
template <class E, int n>
__global__ void __launch_bounds__(BLOCK)
    add_up_rows(embedding_grad p, token_lists l, const E *d, E *table)
{
    typedef pack<E, n> elements;
    int64_t row = (int64_t)blockIdx.x * WARPS + threadIdx.x / WARP;
    int64_t column = ((int64_t)blockIdx.y * WARP + threadIdx.x % WARP) * n;
    real<E> sum[n] = {};
    const uint32_t *token;
    uint32_t count;
    elements to;

    if (row >= p.rows || column >= p.columns) return;
    count = l.count[row];
    token = l.token + l.place[row] - count;
    d += column * p.column_step;
    for (uint32_t first = 0; first < count; first += AT_ONCE) {
        elements v[AT_ONCE] = {};

#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            if (first + i < count)
                v[i] = *(const elements *)(d + map_offset(p.at_d, token[first + i]));
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            for (int c = 0; c < n && first + i < count; c++) sum[c] += to_real(v[i].at[c]);
    }
    for (int c = 0; c < n; c++) to.at[c] = from_real<E>(sum[c]);
    *(elements *)(table + row * p.columns + column) = to;
}

token_lists lists_in_scratch(const embedding_grad *p)
{
    size_t tokens = (size_t)p->lookup.tokens, rows = (size_t)p->rows;
    uint32_t *words = (uint32_t *)wf_cuda_scratch((2 * tokens + 2 * rows + 1) * sizeof *words);
    token_lists l = {(int32_t *)words, words + tokens, words + tokens + rows + 1,
                     words + tokens + rows, words + tokens + 2 * rows + 1};

    return l;
}

template <class E>
void run_embedding_grad(const wf_kernel_call *k, void *const *out, const void *const *in,
                        const wf_scalars *)
{
    embedding_grad p = *(const embedding_grad *)k->prep;
    token_lists l = lists_in_scratch(&p);
    unsigned rows = blocks_for(p.rows, WARPS);
    const uint32_t zero = 0;
    bool packed = p.column_step == 1 && p.columns % pack<E>::n == 0 && (uintptr_t)in[0] % 16 == 0 &&
                  (uintptr_t)out[0] % 16 == 0;

    for (int i = 0; i < p.at_d.n_dims; i++) packed = packed && p.at_d.step[i] % pack<E>::n == 0;
    p.lookup.index = in[1];
    p.lookup.fault = wf_cuda_fault_memory();
    wf_cuda_fill_elements(l.count, &zero, sizeof zero, (size_t)p.rows + 1); /* used too */
    if (p.lookup.tokens)
        WF_CUDA_LAUNCH(k, count_tokens, blocks_for(p.lookup.tokens, BLOCK), BLOCK, 0, p, l);
    WF_CUDA_LAUNCH(k, give_places, blocks_for(p.rows, BLOCK), BLOCK, 0, p.rows, l);
    if (p.lookup.tokens)
        WF_CUDA_LAUNCH(k, list_tokens, blocks_for(p.classes, WARPS), BLOCK, 0, p.lookup.tokens,
                       p.classes, l);
    if (packed)
        WF_CUDA_LAUNCH(k, (add_up_rows<E, pack<E>::n>),
                       dim3(rows, blocks_for(p.columns, WARP * pack<E>::n)), BLOCK, 0, p, l,
                       (const E *)in[0], (E *)out[0]);
    else
        WF_CUDA_LAUNCH(k, (add_up_rows<E, 1>), dim3(rows, blocks_for(p.columns, WARP)), BLOCK, 0, p,
                       l, (const E *)in[0], (E *)out[0]);
}

/* The map of tokens: all dims of d but the last. */
offset_map map_of_tokens(const wf_tensor_desc *d)
{
    wf_tensor_desc tokens = *d;

    tokens.ndim--;
    return offset_map_of_elements(&tokens);
}

} // namespace

extern "C" weft_status wf_cuda_embedding_grad(struct wf_kernel_call *k)
{
    static wf_kernel_run *const runs[] = {run_embedding_grad<float>, run_embedding_grad<double>,
                                          run_embedding_grad<bf16>, run_embedding_grad<f16>};
    const wf_tensor_desc *d = k->in[0], *table = k->out[0];
    int rows = table->ndim - 2;
    int64_t padding = k->attrs->embedding_grad.padding_row;
    embedding_grad *p;

    if (table->dtype >= WF_CUDA_FLOAT_DTYPES || d->dtype != table->dtype)
        return wf_cuda_fail_no_kernel(k, d->dtype);
    WF_TRY(wf_check_embedding_index(k));
    k->run = wf_cuda_run_nothing;
    if (table->numel == 0) return WEFT_OK;
    k->prep = p = WF_NEW(embedding_grad);
    p->lookup = embedding_lookup_of(k, table);
    p->rows = table->numel / table->shape[rows + 1];
    p->columns = table->shape[rows + 1];
    WF_NEED_LOCAL(p->rows <= INT32_MAX && p->lookup.tokens <= INT32_MAX, WEFT_ERR_SHAPE,
                  "%s: %lld tokens and %lld rows are more than 32 bits count", k->op,
                  (long long)p->lookup.tokens, (long long)p->rows);
    p->column_step = d->stride[d->ndim - 1];
    p->padding = padding >= 0 ? padding - table->offset[rows] : -1;
    p->at_d = map_of_tokens(d);
    for (p->classes = 1;
         p->classes < MOST_CLASSES && p->classes * TOKENS_OF_CLASS < p->lookup.tokens;)
        p->classes *= 2;
    k->run = runs[table->dtype];
    return WEFT_OK;
}
