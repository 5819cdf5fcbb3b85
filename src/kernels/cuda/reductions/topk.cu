/*
 * topk.cu: the k largest elements of each row, and the gradient that puts theirs back.
 *
 *   x [*,n]  labels [*,n] of i64 or NULL  ->  values [*,k], indices [*,k] of i64
 *
 * Indices are labels, or positions counted from v[0]. An element with a negative label is not
 * there. Of equal elements the one with the smaller label comes first; the labels of a row differ.
 *
 *   d [*,k]  indices [*,k] of i64  ->  dx [*,n]: d where it belongs, 0 elsewhere
 *
 * A few elements are found one after the other: each is the first of those that rank behind the one
 * before. A long row is cut into pieces for it, whose largest are then searched in the same way.
 * More elements are found by sorting the row (bitonic sort, Batcher 1968).
 */
#include "kernels/cuda/offset_map.h"
#include "kernels/cuda/prepare.h"
#include "kernels/cuda/reductions/row_loop.h"

extern "C" {
#include "kernels/cuda/driver_kernels.h"
}

namespace
{

enum {
    FEW = 64,            /* up to so many are found one after the other */
    SHORT_ROW = 1024,    /* up to here a warp has a row */
    PIECE = 4096,        /* elements of a row */
    ENOUGH_ROWS = 512,   /* for all multiprocessors: rows are not cut */
    CHUNK = 1024,        /* entries that a block sorts in shared memory */
    SORT_BYTES = 1 << 26 /* of entries that are sorted at once, unless a row has more */
};

/* A negative label: there is none. */
template <class T> struct entry {
    int64_t label;
    T value;
};

/* Not-a-number is larger than any number, as in PyTorch. */
template <class T> __device__ __forceinline__ bool is_larger(T a, T b)
{
    return a > b || (a != a && b == b);
}

template <class T>
__device__ __forceinline__ bool ranks_before(const entry<T> &a, const entry<T> &b)
{
    if (a.label < 0 || b.label < 0) return a.label >= 0;
    if (is_larger(a.value, b.value)) return true;
    return a.label < b.label && !is_larger(b.value, a.value);
}

struct take_first {
    template <class T>
    __device__ __forceinline__ entry<T> operator()(const entry<T> &a, const entry<T> &b) const
    {
        return ranks_before(b, a) ? b : a;
    }
};

template <class E>
__device__ __forceinline__ void write_entry(const entry<real<E>> &e, E *value, int64_t *index)
{
    *value = from_real<E>(e.label < 0 ? lowest<real<E>>() : e.value);
    *index = e.label < 0 ? -1 : e.label;
}

/* Rows of x, cut into pieces of `length` elements. */
template <class E> struct topk_rows {
    int64_t count, n, length;
    wide_divisor pieces;        /* of a row */
    int64_t step, label_step;   /* along a row */
    offset_map at_x, at_labels; /* number of a row -> its first element */
    const E *x;
    const int64_t *labels; /* NULL: first, first + 1, ... */
    int64_t first;

    __device__ __forceinline__ entry<real<E>> load(const E *row, const int64_t *row_labels,
                                                   int64_t j) const
    {
        return {row_labels ? row_labels[j * label_step] : first + j, to_real(row[j * step])};
    }
};

/* The k largest of each piece: values and indices [count * pieces][k]. */
template <class E>
__global__ void __launch_bounds__(BLOCK, 2)
    find_one_by_one(topk_rows<E> p, int k, E *values, int64_t *indices)
{
    typedef entry<real<E>> element;
    GPU_SHARED(element, shared, [WARPS]);
    int64_t number = (int64_t)blockIdx.x * blockDim.y + threadIdx.y,
            row = divide_wide(number, p.pieces);
    int64_t begin = (number - row * (int64_t)p.pieces.value) * p.length;
    int64_t end = begin + p.length < p.n ? begin + p.length : p.n;
    const E *x = p.x + map_offset(p.at_x, row);
    const int64_t *labels = p.labels ? p.labels + map_offset(p.at_labels, row) : NULL;
    element last = {-1, 0};

    if (number >= p.count * (int64_t)p.pieces.value) return;
    for (int i = 0; i < k; i++) {
        element best = {-1, 0};

        for (int64_t j = begin + threadIdx.x; j < end && (i == 0 || last.label >= 0);
             j += blockDim.x) {
            element e = p.load(x, labels, j);

            if (ranks_before(e, best) && (i == 0 || ranks_before(last, e))) best = e;
        }
        last = group_reduce(best, take_first(), shared);
        if (threadIdx.x == 0)
            write_entry<E>(last, &values[number * k + i], &indices[number * k + i]);
    }
}

/* ---- sorting: `length` entries for each row, a power of two that CHUNK divides ---- */

template <class E>
__global__ void __launch_bounds__(BLOCK)
    load_entries(topk_rows<E> p, int64_t first_row, int64_t length, entry<real<E>> *to)
{
    int64_t j = (int64_t)blockIdx.x * BLOCK + threadIdx.x, row = first_row + blockIdx.y;
    entry<real<E>> e = {-1, 0};

    if (j < p.n)
        e = p.load(p.x + map_offset(p.at_x, row),
                   p.labels ? p.labels + map_offset(p.at_labels, row) : NULL, j);
    to[blockIdx.y * length + j] = e;
}

/* Swap a and b where they are not in the order that runs of `size` have at place `at`. */
template <class T>
__device__ __forceinline__ void put_in_order(entry<T> &a, entry<T> &b, int64_t at, int64_t size)
{
    bool ascending = (at & size) == 0;

    if (ascending ? ranks_before(b, a) : ranks_before(a, b)) {
        entry<T> kept = a;

        a = b;
        b = kept;
    }
}

/* The lower place of pair number i, of two that are `stride` apart. */
__device__ __forceinline__ int64_t lower_of_pair(int64_t i, int64_t stride)
{
    return 2 * i - (i & (stride - 1));
}

template <class T>
__global__ void __launch_bounds__(BLOCK)
    sort_step(entry<T> *entries, int64_t length, int64_t size, int64_t stride)
{
    int64_t at = lower_of_pair((int64_t)blockIdx.x * BLOCK + threadIdx.x, stride);
    entry<T> *row = entries + blockIdx.y * length;

    put_in_order(row[at], row[at + stride], at, size);
}

/* All steps of strides below CHUNK, for sizes from `size` to `last`. */
template <class T>
__global__ void __launch_bounds__(CHUNK / 2)
    sort_chunk(entry<T> *entries, int64_t length, int64_t size, int64_t last)
{
    typedef entry<T> element;
    GPU_SHARED(element, chunk, [CHUNK]);
    int64_t first = (int64_t)blockIdx.x * CHUNK;
    entry<T> *from = entries + blockIdx.y * length + first;

    for (int i = threadIdx.x; i < CHUNK; i += CHUNK / 2) chunk[i] = from[i];
    for (; size <= last; size *= 2)
        for (int64_t stride = size / 2 < CHUNK / 2 ? size / 2 : CHUNK / 2; stride > 0;
             stride /= 2) {
            int64_t at = lower_of_pair(threadIdx.x, stride);

            __syncthreads();
            put_in_order(chunk[at], chunk[at + stride], first + at, size);
        }
    __syncthreads();
    for (int i = threadIdx.x; i < CHUNK; i += CHUNK / 2) from[i] = chunk[i];
}

template <class E>
__global__ void __launch_bounds__(BLOCK)
    write_largest(const entry<real<E>> *entries, int64_t length, int64_t k, E *values,
                  int64_t *indices)
{
    int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x, to = blockIdx.y * k + i;
    entry<real<E>> e = {-1, 0};

    if (i >= k) return;
    if (i < length) e = entries[blockIdx.y * length + i];
    write_entry<E>(e, &values[to], &indices[to]);
}

/* ---- running ---- */

struct topk {
    int64_t rows, n, step, label_step;
    offset_map x, labels;
};

template <class E>
void launch_one_by_one(const wf_kernel_call *k, const topk_rows<E> &p, int64_t most, E *values,
                       int64_t *indices)
{
    dim3 block = block_dim_for_groups(p.length <= SHORT_ROW ? WARP : BLOCK);

    WF_CUDA_LAUNCH(k, find_one_by_one<E>, blocks_for(p.count * (int64_t)p.pieces.value, block.y),
                   block, 0, p, (int)most, values, indices);
}

/* The k largest of all pieces' k largest. */
template <class E>
void find_in_pieces(const wf_kernel_call *k, topk_rows<E> p, int64_t most, E *values,
                    int64_t *indices)
{
    topk_rows<E> found = {};
    int64_t *labels;
    E *x;

    p.pieces = wide_divisor_of((p.n + PIECE - 1) / PIECE);
    p.length = PIECE;
    found.count = p.count;
    found.pieces = wide_divisor_of(1);
    found.n = found.length = (int64_t)p.pieces.value * most;
    found.step = found.label_step = found.at_x.n_dims = found.at_labels.n_dims = 1;
    found.at_x.step[0] = found.at_labels.step[0] = found.n;
    labels = (int64_t *)wf_cuda_scratch((size_t)(p.count * found.n) * (sizeof *labels + sizeof *x));
    x = (E *)(labels + p.count * found.n);
    found.labels = labels;
    found.x = x;
    launch_one_by_one(k, p, most, x, labels);
    launch_one_by_one(k, found, most, values, indices);
}

/* Rows first_row to first_row + rows, whose entries fit into scratch. */
template <class E>
void sort_rows(const wf_kernel_call *k, const topk_rows<E> &p, int64_t first_row, unsigned rows,
               int64_t length, entry<real<E>> *entries)
{
    unsigned chunks = (unsigned)(length / CHUNK);

    WF_CUDA_LAUNCH(k, load_entries<E>, dim3((unsigned)(length / BLOCK), rows), BLOCK, 0, p,
                   first_row, length, entries);
    WF_CUDA_LAUNCH(k, sort_chunk<real<E>>, dim3(chunks, rows), CHUNK / 2, 0, entries, length,
                   (int64_t)2, (int64_t)CHUNK);
    for (int64_t size = 2 * CHUNK; size <= length; size *= 2) {
        for (int64_t stride = size / 2; stride >= CHUNK; stride /= 2)
            WF_CUDA_LAUNCH(k, sort_step<real<E>>, dim3((unsigned)(length / 2 / BLOCK), rows), BLOCK,
                           0, entries, length, size, stride);
        WF_CUDA_LAUNCH(k, sort_chunk<real<E>>, dim3(chunks, rows), CHUNK / 2, 0, entries, length,
                       size, size);
    }
}

template <class E>
void topk_by_sorting(const wf_kernel_call *k, const topk_rows<E> &p, int64_t most, E *values,
                     int64_t *indices)
{
    int64_t length = CHUNK, rows;
    entry<real<E>> *entries;

    while (length < p.n) length *= 2;
    rows = SORT_BYTES / (length * (int64_t)sizeof *entries);
    rows = rows < 1 ? 1 : rows > 65535 ? 65535 : rows;
    if (rows > p.count) rows = p.count;
    entries = (entry<real<E>> *)wf_cuda_scratch((size_t)(rows * length) * sizeof *entries);
    for (int64_t r = 0; r < p.count; r += rows) {
        unsigned some = (unsigned)(p.count - r < rows ? p.count - r : rows);

        sort_rows(k, p, r, some, length, entries);
        WF_CUDA_LAUNCH(k, write_largest<E>, dim3(blocks_for(most, BLOCK), some), BLOCK, 0,
                       (const entry<real<E>> *)entries, length, most, values + r * most,
                       indices + r * most);
    }
}

template <class E>
void run_topk(const wf_kernel_call *k, void *const *out, const void *const *in,
              const wf_scalars *scalars)
{
    const topk *p = (const topk *)k->prep;
    int64_t most = k->attrs->topk.k, *indices = (int64_t *)out[1];
    topk_rows<E> rows = {};

    rows.count = p->rows;
    rows.n = rows.length = p->n;
    rows.pieces = wide_divisor_of(1);
    rows.step = p->step;
    rows.label_step = p->label_step;
    rows.at_x = p->x;
    rows.at_labels = p->labels;
    rows.x = (const E *)in[0];
    rows.labels = (const int64_t *)(k->n_in > 1 && k->in[1] ? in[1] : NULL);
    rows.first = scalars ? scalars->v[0] : 0;
    if (most > FEW)
        topk_by_sorting(k, rows, most, (E *)out[0], indices);
    else if (rows.n >= 2 * PIECE && rows.count < ENOUGH_ROWS)
        find_in_pieces(k, rows, most, (E *)out[0], indices);
    else
        launch_one_by_one(k, rows, most, (E *)out[0], indices);
}

/* Maps of the rows of two operands, of which the second may be missing. */
int64_t map_rows(const wf_tensor_desc *a, const wf_tensor_desc *b, offset_map *at_a,
                 offset_map *at_b)
{
    wf_operand_strides strides[2] = {};
    wf_loop_nest nest;

    strides[0].bytes = strides[1].bytes = 1;
    for (int d = 0; d < a->ndim - 1; d++) {
        strides[0].stride[d] = a->stride[d];
        strides[1].stride[d] = b ? b->stride[d] : 0;
    }
    wf_loop_nest_make(&nest, a->shape, a->ndim - 1, strides, 2);
    *at_a = offset_map_of(&nest, 0, 1);
    *at_b = offset_map_of(&nest, 1, 1);
    return nest.count;
}

/* ---- gradient ---- */

struct topk_grad {
    int64_t rows, n, first; /* n of the row's elements, from `first` on, are here */
    wide_divisor k;
    int64_t step, index_step;
    offset_map d, indices;
};

template <class Word>
__global__ void __launch_bounds__(BLOCK)
    put_back(topk_grad p, const Word *d, const int64_t *indices, Word *dx)
{
    int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x, row = divide_wide(i, p.k), at;
    int64_t j = i - row * (int64_t)p.k.value;

    if (i >= p.rows * (int64_t)p.k.value) return;
    at = indices[map_offset(p.indices, row) + j * p.index_step] - p.first;
    if (at >= 0 && at < p.n) dx[row * p.n + at] = d[map_offset(p.d, row) + j * p.step];
}

template <class Word>
void run_topk_grad(const wf_kernel_call *k, void *const *out, const void *const *in,
                   const wf_scalars *)
{
    const topk_grad *p = (const topk_grad *)k->prep;
    const Word zero = 0;

    wf_cuda_fill_elements(out[0], &zero, sizeof zero, (size_t)k->out[0]->numel);
    if (k->in[0]->numel)
        WF_CUDA_LAUNCH(k, put_back<Word>, blocks_for(k->in[0]->numel, BLOCK), BLOCK, 0, *p,
                       (const Word *)in[0], (const int64_t *)in[1], (Word *)out[0]);
}

} // namespace

extern "C" weft_status wf_cuda_topk(struct wf_kernel_call *k)
{
    static wf_kernel_run *const runs[] = {run_topk<float>, run_topk<double>,  run_topk<bf16>,
                                          run_topk<f16>,   run_topk<int32_t>, run_topk<int64_t>};
    const wf_tensor_desc *x = k->in[0], *labels = k->n_in > 1 ? k->in[1] : NULL;
    topk *p;

    if (x->dtype > WEFT_I64 || !runs[x->dtype]) return wf_cuda_fail_no_kernel(k, x->dtype);
    k->run = wf_cuda_run_nothing;
    if (k->out[0]->numel == 0) return WEFT_OK;
    k->prep = p = WF_NEW(topk);
    p->rows = map_rows(x, labels, &p->x, &p->labels);
    p->n = x->shape[x->ndim - 1];
    p->step = x->stride[x->ndim - 1];
    p->label_step = labels ? labels->stride[x->ndim - 1] : 0;
    k->run = runs[x->dtype];
    return WEFT_OK;
}

extern "C" weft_status wf_cuda_topk_grad(struct wf_kernel_call *k)
{
    const wf_tensor_desc *d = k->in[0], *indices = k->in[1], *dx = k->out[0];
    int last = dx->ndim - 1, bytes = wf_dtypes[d->dtype].size;
    topk_grad *p;

    if (indices->dtype != WEFT_I64) return wf_cuda_fail_no_kernel(k, indices->dtype);
    k->run = wf_cuda_run_nothing;
    if (dx->numel == 0) return WEFT_OK;
    k->prep = p = WF_NEW(topk_grad);
    p->rows = map_rows(d, indices, &p->d, &p->indices);
    p->k = wide_divisor_of(d->shape[last]);
    p->n = dx->shape[last];
    p->first = dx->offset[last];
    p->step = d->stride[last];
    p->index_step = indices->stride[last];
    k->run = bytes == 8   ? run_topk_grad<uint64_t>
             : bytes == 4 ? run_topk_grad<uint32_t>
             : bytes == 2 ? run_topk_grad<uint16_t>
                          : run_topk_grad<uint8_t>;
    return WEFT_OK;
}
