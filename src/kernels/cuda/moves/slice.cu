/*
 * slice.cu: a run of a dim's elements taken out of a shard of the whole, and put back into one.
 * Every element of the output is written once: a copy of an element of the input, or zero where the
 * input has none.
 *
 * Where the dim is cut, a rank has some of the run's elements, or none: it gives those, and zeros
 * for the rest, so that the ranks' results add up to the whole.
 */
#include "kernels/cuda/moves/words.h"
extern "C" {
#include "kernels/cuda/driver_kernels.h"
}

/* Operands of a nest over the output: its index along the dim is an address too, of which a step
 * is 1. */
enum { Y, X, INDEX, OPERANDS };

struct slice_arguments {
    char *y;
    const char *x;  /* where index 0 of the dim would be */
    int64_t x_step; /* bytes to the next index of the dim */
    int64_t shift;  /* from an index of the output to that of the input */
    uint64_t limit; /* the input has indices [0, limit) */
    index_map<OPERANDS> map;
};

template <class Word>
__global__ void __launch_bounds__(WF_CUDA_BLOCK) copy_slice(struct slice_arguments p)
{
    uint32_t number = blockIdx.x * (uint32_t)WF_CUDA_BLOCK + threadIdx.x;
    int64_t at[OPERANDS] = {};
    Word word = {};

    if (number >= p.map.count) return;
    index_map_locate(p.map, number, at);
    if ((uint64_t)(at[INDEX] + p.shift) < p.limit)
        word = *(const Word *)(p.x + at[X] + p.shift * p.x_step);
    *(Word *)(p.y + at[Y]) = word;
}

struct slice {
    struct wf_loop_nest nest;   /* of runs of bytes that lie together in both */
    int64_t run, x_step, limit; /* limit: indices that the input has */
    int64_t y_first, x_first;   /* index along the dim, in the whole, of their first */
    bool grad;                  /* the output is the whole, the input the slice */
    /* A shard that is not a box: from which strided copies are made at each call. */
    struct wf_operand_strides to, from;
};

/* ---- a box ---- */

template <class Word>
static void launch_slice(const struct wf_kernel_call *k, const struct wf_loop_nest *nest,
                         struct slice_arguments p)
{
    char *y = p.y;
    const char *x = p.x;
    int64_t shift = p.shift;

    for_each_sub_nest(
        nest, wf_cuda_index_limit, [&](const struct wf_loop_nest &part, const int64_t *at) {
            p.y = y + at[Y];
            p.x = x + at[X] - at[INDEX] * p.x_step;
            p.shift = shift + at[INDEX];
            index_map_make(&p.map, &part);
            WF_CUDA_LAUNCH(k, (copy_slice<Word>),
                           dim3((uint32_t)((part.count + WF_CUDA_BLOCK - 1) / WF_CUDA_BLOCK)),
                           dim3(WF_CUDA_BLOCK), 0, p);
        });
}

static void run_slice_box(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                          const struct wf_scalars *scalars)
{
    const struct slice *p = (const struct slice *)k->prep;
    struct slice_arguments a = {
        (char *)out[0], (const char *)in[0], p->x_step, 0, (uint64_t)p->limit, {}};
    struct wf_loop_nest nest = p->nest;
    int word;

    a.shift = p->grad ? p->y_first - scalars->v[0] : scalars->v[0] - p->x_first;
    word = word_bytes_of((uint64_t)p->run | joined_steps(&nest, INDEX) | (uintptr_t)out[0] |
                         (uintptr_t)in[0] | (uint64_t)(a.shift * p->x_step));
    append_words(&nest, INDEX, p->run, word);
    launch_for_word(word, [&](auto zero) { launch_slice<decltype(zero)>(k, &nest, a); });
}

/* ---- several runs of indices ---- */

/* Copy those of the slice's indices that the shard's run has, whose first is its local index
 * `local`. */
static void copy_range(const struct wf_kernel_call *k, struct wf_index_range run, int64_t local,
                       int64_t start, char *y, const char *x)
{
    const struct slice *p = (const struct slice *)k->prep;
    const struct wf_tensor_desc *whole = p->grad ? k->out[0] : k->in[0];
    const struct wf_tensor_desc *slice = p->grad ? k->in[0] : k->out[0];
    int dim = (int)k->attrs->slice.dim;
    struct wf_index_range both = wf_index_range_intersect(run, {start, slice->shape[dim]});
    int64_t in_shard = local + both.offset - run.offset, in_slice = both.offset - start;
    int64_t shape[WEFT_MAX_DIMS];
    struct wf_strided_copy copy;

    memcpy(shape, whole->shape, sizeof shape);
    shape[dim] = both.size;
    wf_strided_copy_init(&copy, shape, p->from.stride, p->to.stride, whole->ndim,
                         (size_t)p->to.bytes);
    copy.dst_offset = (p->grad ? in_shard : in_slice) * p->to.stride[dim] * p->to.bytes;
    copy.src_offset = (p->grad ? in_slice : in_shard) * p->from.stride[dim] * p->from.bytes;
    wf_cuda_strided_copy(&copy, y, x);
}

static void run_ranges(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                       const struct wf_scalars *scalars)
{
    const struct slice *p = (const struct slice *)k->prep;
    const struct wf_index_ranges *runs = (p->grad ? k->out[0] : k->in[0])->runs;
    const uint64_t zero = 0;
    int dim = (int)k->attrs->slice.dim;

    wf_cuda_fill_elements(out[0], &zero, 1, (size_t)(k->out[0]->numel * p->to.bytes));
    for (int64_t r = 0, local = 0; r < runs->count[dim]; local += runs->of[dim][r++].size)
        copy_range(k, runs->of[dim][r], local, scalars->v[0], (char *)out[0], (const char *)in[0]);
}

/* ---- preparing ---- */

/* Over the output's indices; the innermost dim, if it lies together in both, becomes the run. */
static void make_nest(struct slice *p, const struct wf_tensor_desc *y, int dim)
{
    struct wf_operand_strides operands[OPERANDS] = {p->to, p->from, {}};
    const struct wf_loop_dim *inner;

    operands[INDEX].bytes = 1;
    operands[INDEX].stride[dim] = 1;
    wf_loop_nest_make(&p->nest, y->shape, y->ndim, operands, OPERANDS);
    p->run = p->to.bytes;
    if (p->nest.n_dims == 0) return;
    inner = &p->nest.dim[p->nest.n_dims - 1];
    if (inner->step[INDEX] == 0 && inner->step[Y] == p->run && inner->step[X] == p->run)
        p->run *= wf_loop_nest_remove_dim(&p->nest, p->nest.n_dims - 1).size;
}

static weft_status prepare_slice(struct wf_kernel_call *k, bool grad)
{
    const struct wf_tensor_desc *x = k->in[0], *y = k->out[0];
    int dim = (int)k->attrs->slice.dim;
    struct slice *p;

    WF_TRY(wf_check_input_dtypes(k, 0, y->dtype));
    k->prep = p = WF_NEW(struct slice);
    p->grad = grad;
    p->to = wf_strides_row_major(wf_dtypes[y->dtype].size, y->shape, y->ndim);
    p->from = wf_strides_broadcast(x, x->shape, x->ndim);
    p->x_step = p->from.stride[dim] * p->from.bytes;
    p->limit = x->shape[dim];
    p->y_first = y->offset[dim];
    p->x_first = x->offset[dim];
    make_nest(p, y, dim);
    k->run = y->numel == 0          ? wf_cuda_run_nothing
             : (grad ? y : x)->runs ? run_ranges
                                    : run_slice_box;
    return WEFT_OK;
}

weft_status wf_cuda_slice_masked(struct wf_kernel_call *k) { return prepare_slice(k, false); }

weft_status wf_cuda_slice_grad(struct wf_kernel_call *k) { return prepare_slice(k, true); }
