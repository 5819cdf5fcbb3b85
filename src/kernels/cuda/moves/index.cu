/*
 * index.cu: elements of a table taken by index tensors: index counts whole dims, gather one dim for
 * each element. A thread moves a word of a row; where this rank has not the row, zeros.
 */
#include "kernels/cuda/moves/index_walk.h"
#include "kernels/cuda/moves/words.h"

namespace
{

struct take {
    cuda_index_walk walk;
    uint64_t bits; /* of all steps and the bytes of a row: words must divide them */
};

template <class Word>
__global__ void __launch_bounds__(WF_CUDA_BLOCK)
    take_rows(cuda_index_walk walk, wide_divisor words, index_pointers pointers, const char *table,
              Word *y)
{
    int64_t i = (int64_t)blockIdx.x * WF_CUDA_BLOCK + threadIdx.x;
    int64_t row = divide_wide(i, words), number = i - row * (int64_t)words.value, place;
    Word word = {};

    if (row >= walk.count) return;
    place = place_of_row(walk, pointers, row, number == 0);
    if (place >= 0) word = ((const Word *)(table + place))[number];
    y[i] = word;
}

template <class Word>
void launch_take(const wf_kernel_call *k, void *const *out, const void *const *in)
{
    const take *p = (const take *)k->prep;
    int64_t words = p->walk.row_bytes / (int64_t)sizeof(Word), count = p->walk.count * words;
    index_pointers pointers = {};

    for (int i = 0; i < p->walk.n_indices; i++) pointers.of[i] = (const char *)in[i + 1];
    pointers.fault = wf_cuda_fault_memory();
    WF_CUDA_LAUNCH(k, take_rows<Word>, (unsigned)((count + WF_CUDA_BLOCK - 1) / WF_CUDA_BLOCK),
                   WF_CUDA_BLOCK, 0, p->walk, wide_divisor_of(words), pointers, (const char *)in[0],
                   (Word *)out[0]);
}

void run_take(const wf_kernel_call *k, void *const *out, const void *const *in, const wf_scalars *)
{
    const take *p = (const take *)k->prep;

    switch (word_bytes_of(p->bits | (uint64_t)(uintptr_t)in[0] | (uint64_t)(uintptr_t)out[0])) {
    case 16:
        return launch_take<wide_word>(k, out, in);
    case 8:
        return launch_take<uint64_t>(k, out, in);
    case 4:
        return launch_take<uint32_t>(k, out, in);
    case 2:
        return launch_take<uint16_t>(k, out, in);
    default:
        return launch_take<uint8_t>(k, out, in);
    }
}

weft_status prepare_take(wf_kernel_call *k, const wf_index_operands &operands)
{
    take *p;

    if (k->in[0]->dtype != k->out[0]->dtype) return wf_cuda_fail_no_kernel(k, k->in[0]->dtype);
    k->run = wf_cuda_run_nothing;
    k->prep = p = WF_NEW(take);
    WF_TRY(make_cuda_walk(k, operands, &p->walk));
    if (k->out[0]->numel == 0) return WEFT_OK;
    p->bits = (uint64_t)p->walk.row_bytes;
    for (int d = 0; d < p->walk.n_dims; d++) p->bits |= (uint64_t)p->walk.table_step[d];
    for (int i = 0; i < p->walk.n_indices; i++) p->bits |= (uint64_t)p->walk.index[i].table_step;
    k->run = run_take;
    return WEFT_OK;
}

} // namespace

extern "C" weft_status wf_cuda_index(struct wf_kernel_call *k)
{
    wf_index_operands o = wf_index_operands_of_dims(k->in[0], k->in[0]->stride, k->out[0],
                                                    k->attrs->index.at, k->attrs->index.dim);

    o.wrap = k->attrs->index.wrap;
    o.n_indices = k->n_in - 1;
    for (int i = 0; i < o.n_indices; i++) o.index[i] = k->in[i + 1];
    wf_index_operands_align(&o, (int)k->attrs->index.at);
    return prepare_take(k, o);
}

extern "C" weft_status wf_cuda_gather(struct wf_kernel_call *k)
{
    wf_index_operands o = {};

    o.rows = k->out[0];
    o.table = k->in[0];
    o.n_indices = 1;
    o.index[0] = k->in[1];
    o.counted_dim[0] = (int)k->attrs->dim.dim;
    for (int d = 0; d < o.rows->ndim; d++)
        o.table_stride[d] = d == k->attrs->dim.dim ? 0 : k->in[0]->stride[d];
    return prepare_take(k, o);
}
