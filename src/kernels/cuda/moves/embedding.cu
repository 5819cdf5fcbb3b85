/*
 * embedding.cu: rows of a table by index: y[i][j] = table[index[i]][j]. Rows held elsewhere give
 * zeros, so the ranks' results add up to the whole.
 */
#include "kernels/cuda/moves/embedding.h"
#include "kernels/cuda/moves/words.h"

namespace
{

enum { TOKENS = 8, WORD_THREADS = 32 }; /* of a block: a warp has a token */

struct embedding {
    embedding_lookup lookup;
    int64_t columns;
    int64_t item_step, row_step, column_step; /* bytes */
};

/* columns: words of a row. */
template <class Word>
__global__ void __launch_bounds__(TOKENS *WORD_THREADS)
    copy_rows_by_index(embedding p, const char *table, Word *y)
{
    int64_t i = (int64_t)blockIdx.x * TOKENS + threadIdx.y, row;

    if (i >= p.lookup.tokens) return;
    row = p.lookup.row_of_token(i, threadIdx.x == 0);
    table += p.lookup.item_of_token(i) * p.item_step + row * p.row_step;
    for (int64_t j = threadIdx.x; j < p.columns; j += WORD_THREADS) {
        Word word = {};

        if (row >= 0) word = *(const Word *)(table + j * p.column_step);
        y[i * p.columns + j] = word;
    }
}

template <class Word>
void launch_copy(const wf_kernel_call *k, embedding p, int64_t bytes, void *const *out,
                 const void *const *in)
{
    if (p.column_step == bytes) {
        p.columns = p.columns * bytes / (int64_t)sizeof(Word);
        p.column_step = sizeof(Word);
    }
    WF_CUDA_LAUNCH(k, copy_rows_by_index<Word>, (unsigned)((p.lookup.tokens + TOKENS - 1) / TOKENS),
                   dim3(WORD_THREADS, TOKENS), 0, p, (const char *)in[0], (Word *)out[0]);
}

void run_embedding(const wf_kernel_call *k, void *const *out, const void *const *in,
                   const wf_scalars *)
{
    embedding p = *(const embedding *)k->prep;
    int64_t bytes = wf_dtypes[k->in[0]->dtype].size;
    int word = (int)bytes;

    p.lookup.index = in[1];
    p.lookup.fault = wf_cuda_fault_memory();
    if (p.column_step == bytes)
        word = word_bytes_of((uint64_t)(p.columns * bytes | p.row_step | p.item_step) |
                             (uint64_t)(uintptr_t)in[0] | (uint64_t)(uintptr_t)out[0]);
    switch (word) {
    case 16:
        return launch_copy<wide_word>(k, p, bytes, out, in);
    case 8:
        return launch_copy<uint64_t>(k, p, bytes, out, in);
    case 4:
        return launch_copy<uint32_t>(k, p, bytes, out, in);
    case 2:
        return launch_copy<uint16_t>(k, p, bytes, out, in);
    default:
        return launch_copy<uint8_t>(k, p, bytes, out, in);
    }
}

} // namespace

extern "C" weft_status wf_cuda_embedding(struct wf_kernel_call *k)
{
    const wf_tensor_desc *table = k->in[0];
    int rows = table->ndim - 2;
    int64_t bytes = wf_dtypes[table->dtype].size;
    embedding *p;

    WF_TRY(wf_check_embedding_index(k));
    k->run = wf_cuda_run_nothing;
    if (k->out[0]->numel == 0) return WEFT_OK;
    k->prep = p = WF_NEW(embedding);
    p->lookup = embedding_lookup_of(k, table);
    p->columns = table->shape[rows + 1];
    p->item_step = rows ? table->stride[0] * bytes : 0;
    p->row_step = table->stride[rows] * bytes;
    p->column_step = table->stride[rows + 1] * bytes;
    k->run = run_embedding;
    return WEFT_OK;
}
