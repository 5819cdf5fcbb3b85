/*
 * index_put.cu: elements put into a table by index tensors, or joined with those that are there, in
 * the order of the elements, as on the CPU: index_put and index_add are the opposite of index,
 * scatter and its kin of gather.
 *
 * The result begins as a copy of the table, or zeros without one. Then:
 *
 *   put       of the rows that come to a row of the result, the last is found by atomicMax of their
 *             numbers, and copied
 *   others    the rows that come are listed by the row of the result that they mean, in order
 *             (token_lists.h); a thread joins one element with what comes to it. 16-bit floats are
 *             joined in f32 and rounded once.
 */
#include "kernels/cuda/group_reduce.h"
#include "kernels/cuda/moves/index_walk.h"
#include "kernels/cuda/moves/token_lists.h"

extern "C" {
#include "kernels/cuda/driver_kernels.h"
#include <weft/types.h>
}

namespace
{

enum joins { PUT = -1, ADD, MULTIPLY, LARGER, SMALLER };

struct put {
    cuda_index_walk walk;
    wf_strided_copy begin; /* the table into the result */
    int64_t n, bytes;      /* of the result */
    int64_t rows, columns; /* columns: elements of a row */
    wide_divisor split;    /* by columns */
    offset_map values;     /* number of a value -> its offset */
    int value_operand, table_operand, index_operand[WF_MAX_INDICES];
};

/* Integers wrap. */
template <class T> struct wrapping {
    typedef T type;
};
template <> struct wrapping<int32_t> {
    typedef uint32_t type;
};
template <> struct wrapping<int64_t> {
    typedef uint64_t type;
};
struct add_up {
    template <class T> __device__ __forceinline__ T operator()(T a, T b) const
    {
        typedef typename wrapping<T>::type W;

        return (T)((W)a + (W)b);
    }
};
struct multiply {
    template <class T> __device__ __forceinline__ T operator()(T a, T b) const
    {
        typedef typename wrapping<T>::type W;

        return (T)((W)a * (W)b);
    }
};
struct keep_larger {
    template <class T> __device__ __forceinline__ T operator()(T a, T b) const
    {
        return a > b || a != a ? a : b;
    }
};
struct keep_smaller {
    template <class T> __device__ __forceinline__ T operator()(T a, T b) const
    {
        return a < b || a != a ? a : b;
    }
};

__global__ void __launch_bounds__(BLOCK)
    note_rows(cuda_index_walk walk, wide_divisor row_bytes, index_pointers pointers, token_lists l)
{
    int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x, place;

    if (i >= walk.count) return;
    place = place_of_row(walk, pointers, i, true);
    note_token(l, i, place < 0 ? -1 : divide_wide(place, row_bytes));
}

template <class Join, class E>
__global__ void __launch_bounds__(BLOCK) join_rows(put p, token_lists l, const E *values, E *y)
{
    int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x;
    int64_t row = divide_wide(i, p.split), column = i - row * p.columns;
    const uint32_t *token;
    uint32_t count;
    real<E> value;
    Join join;

    if (i >= p.n) return;
    count = l.count[row];
    if (count == 0) return;
    token = tokens_of_row(l, row);
    value = to_real(y[i]);
    for (uint32_t t = 0; t < count; t++)
        value = join(value, to_real(values[map_offset(p.values, token[t] * p.columns + column)]));
    y[i] = from_real<E>(value);
}

/* What comes: the row of the result that each row means, -1: none here; and for each row of the
 * result 1 more than the number of the last that means it, 0: none. */
struct last_rows {
    int32_t *row;
    uint32_t *last;
};

__global__ void __launch_bounds__(BLOCK)
    find_last_rows(cuda_index_walk walk, wide_divisor row_bytes, index_pointers pointers,
                   last_rows l)
{
    int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x, place;
    int32_t row;

    if (i >= walk.count) return;
    place = place_of_row(walk, pointers, i, true);
    row = place < 0 ? -1 : (int32_t)divide_wide(place, row_bytes);
    l.row[i] = row;
    if (row >= 0) atomicMax(&l.last[row], (uint32_t)i + 1);
}

/* A thread for each element that comes. */
template <class E>
__global__ void __launch_bounds__(BLOCK) put_last_rows(put p, last_rows l, const E *values, E *y)
{
    int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x;
    int64_t from = divide_wide(i, p.split), column = i - from * p.columns;
    int32_t row;

    if (from >= p.walk.count) return;
    row = l.row[from];
    if (row >= 0 && l.last[row] == (uint32_t)from + 1)
        y[row * p.columns + column] = values[map_offset(p.values, i)];
}

/* The table or zeros; false where no rows come. */
bool begin_result(const wf_kernel_call *k, void *const *out, const void *const *in)
{
    const put *p = (const put *)k->prep;
    const uint64_t zero = 0;

    if (p->table_operand < k->n_in && k->in[p->table_operand] && in[p->table_operand])
        wf_cuda_strided_copy(&p->begin, out[0], in[p->table_operand]);
    else
        wf_cuda_fill_elements(out[0], &zero, (size_t)p->bytes, (size_t)p->n);
    return p->walk.count != 0 && p->columns != 0;
}

index_pointers pointers_of(const put *p, const void *const *in)
{
    index_pointers pointers = {};

    for (int i = 0; i < p->walk.n_indices; i++)
        pointers.of[i] = (const char *)in[p->index_operand[i]];
    pointers.fault = wf_cuda_fault_memory();
    return pointers;
}

template <class E>
void run_put(const wf_kernel_call *k, void *const *out, const void *const *in, const wf_scalars *)
{
    const put *p = (const put *)k->prep;
    const uint32_t zero = 0;
    last_rows l;

    if (!begin_result(k, out, in)) return;
    l.row = (int32_t *)wf_cuda_scratch((size_t)(p->walk.count + p->rows) * sizeof(uint32_t));
    l.last = (uint32_t *)l.row + p->walk.count;
    wf_cuda_fill_elements(l.last, &zero, sizeof zero, (size_t)p->rows);
    WF_CUDA_LAUNCH(k, find_last_rows, blocks_for(p->walk.count, BLOCK), BLOCK, 0, p->walk,
                   wide_divisor_of(p->walk.row_bytes), pointers_of(p, in), l);
    WF_CUDA_LAUNCH(k, (put_last_rows<E>), blocks_for(p->walk.count * p->columns, BLOCK), BLOCK, 0,
                   *p, l, (const E *)in[p->value_operand], (E *)out[0]);
}

template <class Join, class E>
void run_join(const wf_kernel_call *k, void *const *out, const void *const *in, const wf_scalars *)
{
    const put *p = (const put *)k->prep;
    token_lists l;

    if (!begin_result(k, out, in)) return;
    l = wf_cuda_token_lists_begin(p->walk.count, p->rows);
    WF_CUDA_LAUNCH(k, note_rows, blocks_for(p->walk.count, BLOCK), BLOCK, 0, p->walk,
                   wide_divisor_of(p->walk.row_bytes), pointers_of(p, in), l);
    wf_cuda_token_lists_end(k, l, p->walk.count, p->rows);
    WF_CUDA_LAUNCH(k, (join_rows<Join, E>), blocks_for(p->n, BLOCK), BLOCK, 0, *p, l,
                   (const E *)in[p->value_operand], (E *)out[0]);
}

/* By dtype: f32, f64, bf16, f16, i32, i64, u8. */
template <class Join> struct of_numbers {
    static constexpr wf_kernel_run *runs[WEFT_DTYPE_COUNT] = {
        run_join<Join, float>,  run_join<Join, double>,  run_join<Join, bf16>,
        run_join<Join, f16>,    run_join<Join, int32_t>, run_join<Join, int64_t>,
        run_join<Join, uint8_t>};
};

wf_kernel_run *run_of(uint8_t dtype, joins join)
{
    switch (join) {
    case PUT:
        return wf_dtypes[dtype].size == 1   ? run_put<uint8_t>
               : wf_dtypes[dtype].size == 2 ? run_put<uint16_t>
               : wf_dtypes[dtype].size == 4 ? run_put<uint32_t>
                                            : run_put<uint64_t>;
    case ADD:
        return of_numbers<add_up>::runs[dtype];
    case MULTIPLY:
        return of_numbers<multiply>::runs[dtype];
    case LARGER:
        return of_numbers<keep_larger>::runs[dtype];
    default:
        return of_numbers<keep_smaller>::runs[dtype];
    }
}

/* Rows of several elements are rows of the result only where all places are multiples of them; else
 * each element is a row. */
bool rows_are_whole(const cuda_index_walk &w)
{
    for (int d = 0; d < w.n_dims; d++)
        if (w.row_bytes && w.table_step[d] % w.row_bytes) return false;
    for (int i = 0; i < w.n_indices; i++)
        if (w.row_bytes && w.index[i].table_step % w.row_bytes) return false;
    return true;
}

weft_status prepare_put(wf_kernel_call *k, wf_index_operands *o, joins join)
{
    const wf_tensor_desc *y = k->out[0], *values = k->in[0];
    const wf_tensor_desc *table = k->n_in > 2 ? k->in[2] : NULL;
    wf_kernel_run *run = run_of(y->dtype, join);
    wf_operand_strides to;
    put *p;

    if (!run || values->dtype != y->dtype || (table && table->dtype != y->dtype))
        return wf_cuda_fail_no_kernel(k, values->dtype);
    k->prep = p = WF_NEW(put);
    o->table = y;
    o->rows = values;
    WF_TRY(make_cuda_walk(k, *o, &p->walk));
    p->bytes = wf_dtypes[y->dtype].size;
    p->n = y->numel;
    p->columns = p->walk.row_bytes / p->bytes;
    if (!rows_are_whole(p->walk) || y->numel > INT32_MAX || values->numel > INT32_MAX)
        return wf_cuda_fail_no_kernel(k, values->dtype);
    k->run = wf_cuda_run_nothing;
    if (y->numel == 0) return WEFT_OK;
    p->rows = p->columns ? p->n / p->columns : 0;
    p->split = wide_divisor_of(p->columns ? p->columns : 1);
    p->values = offset_map_of_elements(values);
    p->table_operand = 2;
    if (table) {
        to = wf_strides_row_major(p->bytes, y->shape, y->ndim);
        wf_strided_copy_init(&p->begin, y->shape, table->stride, to.stride, y->ndim,
                             (size_t)p->bytes);
    }
    for (int i = 0; i < o->n_indices; i++) p->index_operand[i] = i == 0 ? 1 : i + 2;
    k->run = run;
    return WEFT_OK;
}

/* values, index 0, table or NULL, the other index tensors */
weft_status prepare_index_put(wf_kernel_call *k, joins join)
{
    const struct wf_index_put_attrs *attrs = &k->attrs->index_put;
    wf_index_operands o =
        wf_index_operands_of_dims(k->out[0], k->out[0]->stride, k->in[0], attrs->at, attrs->dim);

    o.wrap = attrs->wrap;
    o.index[o.n_indices++] = k->in[1];
    for (int i = 3; i < k->n_in; i++) o.index[o.n_indices++] = k->in[i];
    wf_index_operands_align(&o, (int)attrs->at);
    return prepare_put(k, &o, join);
}

/* values, index, table or NULL */
weft_status prepare_scatter(wf_kernel_call *k, joins join)
{
    int dim = (int)k->attrs->scatter.dim;
    wf_index_operands o = {};

    o.n_indices = 1;
    o.index[0] = k->in[1];
    o.counted_dim[0] = dim;
    for (int d = 0; d < k->out[0]->ndim; d++)
        o.table_stride[d] = d == dim ? 0 : k->out[0]->stride[d];
    return prepare_put(k, &o, join);
}

} // namespace

extern "C" weft_status wf_cuda_index_put(struct wf_kernel_call *k)
{
    return prepare_index_put(k, PUT);
}
extern "C" weft_status wf_cuda_index_add(struct wf_kernel_call *k)
{
    return prepare_index_put(k, ADD);
}
extern "C" weft_status wf_cuda_scatter(struct wf_kernel_call *k) { return prepare_scatter(k, PUT); }
extern "C" weft_status wf_cuda_scatter_add(struct wf_kernel_call *k)
{
    return prepare_scatter(k, ADD);
}

extern "C" weft_status wf_cuda_scatter_reduce(struct wf_kernel_call *k)
{
    weft_reduce reduce = (weft_reduce)k->attrs->scatter.reduce;

    return prepare_scatter(k, reduce == WEFT_PRODUCT ? MULTIPLY
                              : reduce == WEFT_MAX   ? LARGER
                                                     : SMALLER);
}
