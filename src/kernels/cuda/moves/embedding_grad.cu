/*
 * embedding_grad.cu: the gradient of a table: dtable[r][j] = sum over i with index[i] = r of
 * d[i][j], added in the order of the tokens, as on the CPU, without atomic sums of floats.
 *
 * First the tokens of each row are listed (token_lists.h). Then a warp adds up the columns of a
 * row, or some, and writes them once; rows that no token means get zeros.
 */
#include "kernels/cuda/group_reduce.h"
#include "kernels/cuda/moves/embedding.h"
#include "kernels/cuda/moves/token_lists.h"

namespace
{

enum {
    ENOUGH_BLOCKS = 512,
    ROWS_OF_WARP = 2, /* whose lists are looked up at once */
    AT_ONCE = 4       /* tokens whose loads are in flight together */
};

struct embedding_grad {
    embedding_lookup lookup;
    int64_t rows;                          /* of all items */
    int64_t columns, column_step, padding; /* padding: the row here that takes nothing, or -1 */
    offset_map at_d;                       /* number of a token -> its first element */
};

__global__ void __launch_bounds__(BLOCK) count_tokens(embedding_grad p, token_lists l)
{
    int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x, row;

    if (i >= p.lookup.tokens) return;
    row = p.lookup.row_of_token(i, true);
    if (row == p.padding) row = -1;
    if (row >= 0) row += p.lookup.item_of_token(i) * p.lookup.rows;
    note_token(l, i, row);
}

/* The sum of a row's packs at `column`, of the tokens in its list. */
template <class E, int n>
__device__ __forceinline__ void add_up_pack(const embedding_grad &p, const uint32_t *token,
                                            uint32_t count, int64_t column, const E *d, E *to)
{
    typedef pack<E, n> elements;
    unsigned lane = threadIdx.x % WARP;
    bool have = column < p.columns;
    real<E> sum[n] = {};
    elements made;

    d += column * p.column_step;
    for (uint32_t begin = 0; begin < count; begin += WARP) {
        uint32_t mine = begin + lane < count ? token[begin + lane] : 0;

        for (uint32_t first = begin; first < count && first < begin + WARP; first += AT_ONCE) {
            elements v[AT_ONCE] = {};

#pragma unroll
            for (int i = 0; i < AT_ONCE; i++) {
                uint32_t number = __shfl_sync(~0u, mine, (int)(first - begin) + i);

                if (first + i < count && have)
                    v[i] = *(const elements *)(d + map_offset(p.at_d, number));
            }
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++)
                for (int c = 0; c < n && first + i < count; c++) sum[c] += to_real(v[i].at[c]);
        }
    }
    if (!have) return;
    for (int c = 0; c < n; c++) made.at[c] = from_real<E>(sum[c]);
    if constexpr (sizeof made == 16)
        store_pack(to + column, made);
    else
        *(elements *)(to + column) = made;
}

/* A warp has WARP packs of a row at a time; behind wf_cuda_token_lists_end a row's places lie
 * before l.place. */
template <class E, int n>
__global__ void __launch_bounds__(BLOCK, 2)
    add_up_rows(embedding_grad p, token_lists l, const E *d, E *table)
{
    int64_t first_row = ((int64_t)blockIdx.x * WARPS + threadIdx.x / WARP) * (int64_t)ROWS_OF_WARP;
    int64_t of_lane = first_row + threadIdx.x % WARP;
    bool have = threadIdx.x % WARP < ROWS_OF_WARP && of_lane < p.rows;
    uint32_t count = have ? l.count[of_lane] : 0, end = have ? l.place[of_lane] : 0;

    for (int i = 0; i < ROWS_OF_WARP && first_row + i < p.rows; i++) {
        uint32_t tokens = __shfl_sync(~0u, count, i), behind = __shfl_sync(~0u, end, i);

        for (int64_t first = (int64_t)blockIdx.y * WARP * n; first < p.columns;
             first += (int64_t)gridDim.y * WARP * n)
            add_up_pack<E, n>(p, l.token + behind - tokens, tokens, first + threadIdx.x % WARP * n,
                              d, table + (first_row + i) * p.columns);
    }
}

/* The grid of add_up_rows: a warp goes on to a row's other columns where rows are enough. */
dim3 grid_of_rows(const embedding_grad &p, int n)
{
    unsigned rows = blocks_for(p.rows, WARPS * ROWS_OF_WARP);
    unsigned pieces = blocks_for(p.columns, WARP * n), enough = (ENOUGH_BLOCKS - 1) / rows + 1;

    return dim3(rows, enough < pieces ? enough : pieces);
}

template <class E>
void run_embedding_grad(const wf_kernel_call *k, void *const *out, const void *const *in,
                        const wf_scalars *)
{
    embedding_grad p = *(const embedding_grad *)k->prep;
    token_lists l = wf_cuda_token_lists_begin(p.lookup.tokens, p.rows);
    bool packed = p.column_step == 1 && p.columns % pack<E>::n == 0 && (uintptr_t)in[0] % 16 == 0 &&
                  (uintptr_t)out[0] % 16 == 0;

    for (int i = 0; i < p.at_d.n_dims; i++) packed = packed && p.at_d.step[i] % pack<E>::n == 0;
    p.lookup.index = in[1];
    p.lookup.fault = wf_cuda_fault_memory();
    if (p.lookup.tokens)
        WF_CUDA_LAUNCH(k, count_tokens, blocks_for(p.lookup.tokens, BLOCK), BLOCK, 0, p, l);
    wf_cuda_token_lists_end(k, l, p.lookup.tokens, p.rows);
    if (packed)
        WF_CUDA_LAUNCH(k, (add_up_rows<E, pack<E>::n>), grid_of_rows(p, pack<E>::n), BLOCK, 0, p, l,
                       (const E *)in[0], (E *)out[0]);
    else
        WF_CUDA_LAUNCH(k, (add_up_rows<E, 1>), grid_of_rows(p, 1), BLOCK, 0, p, l, (const E *)in[0],
                       (E *)out[0]);
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
    k->run = runs[table->dtype];
    return WEFT_OK;
}
