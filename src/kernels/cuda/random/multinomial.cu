/*
 * multinomial.cu: indices drawn from rows of weights, a block per row. What is drawn is what the
 * CPU draws (kernels/cpu/random/multinomial.c), which is decided by numbers alone:
 *
 * Without replacement the n smallest times are taken, one after the other.
 *
 * With replacement the CPU compares with a sum that runs through the row, rounded at each weight.
 * A block adds in another order. Where u times the total comes so near to a sum that rounding could
 * decide, the row's sums are made again as the CPU makes them; else there is no difference.
 */
#include "kernels/cuda/fault.h"
#include "kernels/cuda/random/random_numbers.h"

enum { X, Y, INDEX, OPERANDS };
enum { ROW_GROUP = 4, TILE = ROW_GROUP * WF_CUDA_BLOCK }; /* weights of a thread, of a block */

struct multinomial_arguments {
    const char *x;
    int64_t *y;
    int64_t step;  /* bytes between the weights of a row */
    int64_t index; /* global number of the first row's first result, or weight */
    int64_t width, n;
    double *scratch; /* `width` numbers for each block */
    struct wf_cuda_fault *fault;
    index_map<OPERANDS> rows;
};

/* One row as a block sees it. */
struct row {
    const char *x;
    int64_t *y, index;
    double *number; /* of each weight: sums, or times */
};

__device__ __forceinline__ struct row row_of(const struct multinomial_arguments &p, uint32_t number)
{
    int64_t at[OPERANDS] = {};

    index_map_locate(p.rows, number, at);
    return {p.x + at[X], (int64_t *)((char *)p.y + at[Y]), p.index + at[INDEX],
            p.scratch + blockIdx.x * p.width};
}

/* A number in (0, 1) of a global element. */
__device__ __forceinline__ double open_uniform_of(const philox_key &key, int64_t element)
{
    struct wf_philox_words high = key.first_words(element / 4), low = key.second_words(element / 4);
    int lane = (int)(element % 4);

    return open_unit_f64(
        lane < 2 ? (lane ? high.w[1] : high.w[0]) : (lane == 2 ? high.w[2] : high.w[3]),
        lane < 2 ? (lane ? low.w[1] : low.w[0]) : (lane == 2 ? low.w[2] : low.w[3]));
}

/* Of each thread's value and those before it. */
__device__ __forceinline__ double scan_block(double value, double (&shared)[WF_CUDA_BLOCK])
{
    shared[threadIdx.x] = value;
    for (unsigned distance = 1; distance < WF_CUDA_BLOCK; distance *= 2) {
        double before;

        __syncthreads();
        before = threadIdx.x >= distance ? shared[threadIdx.x - distance] : 0;
        __syncthreads();
        value += before;
        shared[threadIdx.x] = value;
    }
    __syncthreads();
    return value;
}

/* ---- weights ---- */

/* 0 for a weight that is none, and behind the row. */
template <class E>
__device__ __forceinline__ double weight_of(const struct multinomial_arguments &p,
                                            const struct row &row, int64_t j)
{
    double weight = j < p.width ? (double)to_real(*(const E *)(row.x + j * p.step)) : 0;

    return weight >= 0 && weight < (double)INFINITY ? weight : 0;
}

/* What is no weight is told, and too few that are positive. */
template <class E>
__device__ __forceinline__ void check_weights(const struct multinomial_arguments &p,
                                              const struct row &row, int64_t needed,
                                              double (&shared)[WF_CUDA_BLOCK])
{
    double positive = 0;

    for (int64_t j = threadIdx.x; j < p.width; j += WF_CUDA_BLOCK) {
        double weight = (double)to_real(*(const E *)(row.x + j * p.step));

        if (!(weight >= 0 && weight < (double)INFINITY))
            record_fault(p.fault, WF_CUDA_FAULT_WEIGHT, j, 0, weight);
        positive += weight > 0;
    }
    positive = scan_block(positive, shared);
    if (threadIdx.x == WF_CUDA_BLOCK - 1 && positive < (double)needed)
        record_fault(p.fault, WF_CUDA_FAULT_FEW_WEIGHTS, (int64_t)positive, needed, 0);
}

/* ---- sums that run through a row ---- */

/* In whatever order is fast. gives: the total */
template <class E>
__device__ __forceinline__ double sum_in_tiles(const struct multinomial_arguments &p,
                                               const struct row &row,
                                               double (&shared)[WF_CUDA_BLOCK])
{
    double carry = 0;

    for (int64_t tile = 0; tile < p.width; tile += TILE) {
        int64_t first = tile + threadIdx.x * ROW_GROUP;
        double sum[ROW_GROUP], before = 0;

#pragma unroll
        for (int i = 0; i < ROW_GROUP; i++) {
            before += weight_of<E>(p, row, first + i);
            sum[i] = before;
        }
        before = carry + (scan_block(before, shared) - before);
#pragma unroll
        for (int i = 0; i < ROW_GROUP; i++)
            if (first + i < p.width) row.number[first + i] = before + sum[i];
        carry += shared[WF_CUDA_BLOCK - 1];
        __syncthreads();
    }
    return carry;
}

/* As the CPU adds: one thread, from weights that all have fetched. */
template <class E>
__device__ __forceinline__ double sum_in_order(const struct multinomial_arguments &p,
                                               const struct row &row,
                                               double (&shared)[WF_CUDA_BLOCK])
{
    double sum = 0;

    for (int64_t tile = 0; tile < p.width; tile += WF_CUDA_BLOCK) {
        int64_t j = tile + threadIdx.x;

        shared[threadIdx.x] = weight_of<E>(p, row, j);
        __syncthreads();
        for (int i = 0; i < WF_CUDA_BLOCK && threadIdx.x == 0; i++) shared[i] = sum += shared[i];
        __syncthreads();
        if (j < p.width) row.number[j] = shared[threadIdx.x];
        __syncthreads();
    }
    return row.number[p.width - 1];
}

/* The first index whose sum is more than `value`; the last, where none is. */
__device__ __forceinline__ int64_t search_sums(const double *sums, int64_t n, double value)
{
    int64_t low = 0, high = n - 1;

    while (low < high) {
        int64_t middle = (low + high) / 2;

        if (sums[middle] > value)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* ---- kernels ---- */

template <class E>
__global__ void __launch_bounds__(WF_CUDA_BLOCK)
    draw_with_replacement(philox_key key, struct multinomial_arguments p)
{
    GPU_SHARED(double, shared, [WF_CUDA_BLOCK]);
    /* Either way of adding is off by less than `width` roundings of the total, sums and total. */
    const double roundings = 8 * (double)(p.width + 4) * 0x1p-53;

    for (uint32_t number = blockIdx.x; number < p.rows.count; number += gridDim.x) {
        struct row row = row_of(p, number);
        double total, near_a_sum = 0;

        check_weights<E>(p, row, 1, shared);
        total = sum_in_tiles<E>(p, row, shared);
        for (int64_t s = threadIdx.x; s < p.n; s += WF_CUDA_BLOCK) {
            double value = open_uniform_of(key, row.index + s) * total, bound = roundings * total;
            int64_t j = search_sums(row.number, p.width, value);

            row.y[s] = j;
            near_a_sum +=
                row.number[j] - value <= bound || (j && value - row.number[j - 1] <= bound);
        }
        (void)scan_block(near_a_sum, shared);
        near_a_sum = shared[WF_CUDA_BLOCK - 1];
        __syncthreads();
        if (near_a_sum > 0) {
            total = sum_in_order<E>(p, row, shared);
            for (int64_t s = threadIdx.x; s < p.n; s += WF_CUDA_BLOCK)
                row.y[s] =
                    search_sums(row.number, p.width, open_uniform_of(key, row.index + s) * total);
        }
    } /* a row's sums are read until all have checked the next row's weights */
}

/* A time and whose it is; of two, the earlier, and of equal ones the first. */
struct arrival {
    double time; /* not a number: nobody's */
    int64_t j;
};

__device__ __forceinline__ bool is_before(const struct arrival &a, const struct arrival &b)
{
    return a.time < b.time || (a.time == b.time && a.j < b.j) || b.time != b.time;
}

/* The earliest of all threads', in shared[0]. */
__device__ __forceinline__ void find_earliest(struct arrival mine,
                                              struct arrival (&shared)[WF_CUDA_BLOCK])
{
    shared[threadIdx.x] = mine;
    for (unsigned n = WF_CUDA_BLOCK / 2; n; n /= 2) {
        __syncthreads();
        if (threadIdx.x < n && is_before(shared[threadIdx.x + n], shared[threadIdx.x]))
            shared[threadIdx.x] = shared[threadIdx.x + n];
    }
    __syncthreads();
}

template <class E>
__global__ void __launch_bounds__(WF_CUDA_BLOCK)
    draw_without_replacement(philox_key key, struct multinomial_arguments p)
{
    GPU_SHARED(struct arrival, shared, [WF_CUDA_BLOCK]);
    GPU_SHARED(double, sums, [WF_CUDA_BLOCK]);

    for (uint32_t number = blockIdx.x; number < p.rows.count; number += gridDim.x) {
        struct row row = row_of(p, number);
        struct arrival last = {-1, -1};

        check_weights<E>(p, row, p.n, sums);
        for (int64_t j = threadIdx.x; j < p.width; j += WF_CUDA_BLOCK) {
            double weight = weight_of<E>(p, row, j);

            row.number[j] = weight > 0
                                ? exponential_time(open_uniform_of(key, row.index + j), 1) / weight
                                : (double)NAN;
        }
        for (int64_t s = 0; s < p.n; s++) {
            struct arrival best = {(double)NAN, 0};

            for (int64_t j = threadIdx.x; j < p.width; j += WF_CUDA_BLOCK) {
                struct arrival at = {row.number[j], j};

                if (at.time == at.time && is_before(last, at) && is_before(at, best)) best = at;
            }
            find_earliest(best, shared);
            last = shared[0];
            if (threadIdx.x == 0) row.y[s] = last.j;
            __syncthreads();
        }
    }
}

/* ---- running ---- */

struct multinomial {
    int64_t step; /* bytes between the weights of a row */
    bool replacement;
};

typedef void multinomial_kernel(philox_key, struct multinomial_arguments);

template <class E> static multinomial_kernel *kernel_of(bool replacement)
{
    return replacement ? draw_with_replacement<E> : draw_without_replacement<E>;
}

/* Rows of a box: its outer dims. */
static void launch_multinomial_rows(const struct wf_kernel_call *k, const struct wf_box *box,
                                    multinomial_kernel *kernel, philox_key key,
                                    struct multinomial_arguments p)
{
    const struct multinomial *m = (const struct multinomial *)k->prep;
    const struct wf_tensor_desc *x = k->in[0], *y = k->out[0], *of = m->replacement ? y : x;
    struct wf_operand_strides operands[OPERANDS];
    struct wf_loop_nest nest;

    operands[X] = wf_strides_broadcast(x, x->shape, x->ndim);
    operands[Y] = wf_strides_row_major(sizeof(int64_t), y->shape, y->ndim);
    operands[INDEX] = wf_strides_row_major(1, of->global, of->ndim);
    for (int d = 0; d < x->ndim - 1; d++) {
        p.x += box->local[d] * operands[X].stride[d] * operands[X].bytes;
        p.y += box->local[d] * operands[Y].stride[d];
        p.index += box->global[d] * operands[INDEX].stride[d];
    }
    wf_loop_nest_make(&nest, box->size, x->ndim - 1, operands, OPERANDS);
    for_each_sub_nest(
        &nest, wf_cuda_index_limit, [&](const struct wf_loop_nest &part, const int64_t *at) {
            struct multinomial_arguments of_part = p;
            int64_t blocks = 4 * wf_cuda_multiprocessors();

            if (blocks > part.count) blocks = part.count;
            of_part.x += at[X];
            of_part.y += at[Y] / (int64_t)sizeof *p.y;
            of_part.index += at[INDEX];
            of_part.scratch =
                (double *)wf_cuda_scratch((size_t)(blocks * p.width) * sizeof *p.scratch);
            index_map_make(&of_part.rows, &part);
            WF_CUDA_LAUNCH(k, kernel, dim3((uint32_t)blocks), dim3(WF_CUDA_BLOCK), 0, key, of_part);
        });
}

static void run_multinomial(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                            const struct wf_scalars *scalars)
{
    const struct multinomial *m = (const struct multinomial *)k->prep;
    const struct wf_tensor_desc *x = k->in[0];
    multinomial_kernel *kernel = nullptr;
    struct multinomial_arguments p = {};

    with_float_type(
        x->dtype, [&](auto e) { kernel = kernel_of<typename decltype(e)::type>(m->replacement); });
    p.x = (const char *)in[0];
    p.y = (int64_t *)out[0];
    p.width = x->shape[x->ndim - 1];
    p.n = k->attrs->multinomial.n;
    p.step = m->step;
    p.fault = wf_cuda_fault_memory();
    for (int64_t i = 0; i < wf_box_count(x, x->ndim - 1); i++) {
        struct wf_box box = wf_box_of(x, x->ndim - 1, i);

        launch_multinomial_rows(k, &box, kernel, philox_key(scalars), p);
    }
}

weft_status wf_cuda_multinomial(struct wf_kernel_call *k)
{
    const struct wf_tensor_desc *x = k->in[0];
    struct multinomial *m;

    if (x->dtype >= WF_CUDA_FLOAT_DTYPES) return wf_cuda_fail_no_kernel(k, x->dtype);
    k->prep = m = WF_NEW(struct multinomial);
    m->replacement = k->attrs->multinomial.replacement;
    m->step = x->stride[x->ndim - 1] * wf_dtypes[x->dtype].size;
    k->run = k->out[0]->numel ? run_multinomial : wf_cuda_run_nothing;
    return WEFT_OK;
}
