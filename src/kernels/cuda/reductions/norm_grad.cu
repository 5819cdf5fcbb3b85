/*
 * norm_grad.cu: the gradients of layer_norm and rms_norm.
 *
 * What the weight and the bias get is added up in two stages, so that its bits are the same in
 * every call: a block adds up the rows that it has in registers anyway, and norm_add_partial_sums
 * takes the blocks in order. Rows that are too long for registers are read again for it.
 */
#include "kernels/cuda/prepare.h"
#include "kernels/cuda/reductions/norm.h"

namespace
{

enum {
    MOST_BLOCKS =
        224,           /* that have partial sums of their own: with more these are a tenth of a
                          model's rows, which takes longer than an H100's 132 multiprocessors gain */
    STATISTICS = WARP, /* rows whose statistics a group reads at once */
    SUM_COLUMNS = WARP,
    SUM_ROWS = 16
};

/* A thread's share of partial sums, that of the bias in `second`. */
template <class E, int n> struct parameter_sums {
    real<E> dweight[n], dbias[n];
};

/* Where shared memory has a thread's sum i, while groups add theirs up. Of each `size` columns that
 * a thread has side by side one is in each of `size` lines, so far apart that the columns of a warp
 * lie in different banks both when they are added and in the order of columns. */
template <class E, bool packed> struct sum_place {
    typedef row_part<E, NORM_GRAD_PACKS, packed> part;
    static const int side = packed ? part::size : 1, banks = 128 / (int)sizeof(real<E>);
    static const int gap = banks / side;

    /** Elements for groups of `width` threads. */
    static __host__ __device__ constexpr int room(int width) { return part::n * (width + gap); }
    static __device__ __forceinline__ int of_thread(int i)
    {
        return i * ((int)blockDim.x + gap) + (int)threadIdx.x;
    }
    /** Of column j: the place of the thread and the sum that part::number gives it. */
    static __device__ __forceinline__ int of_column(int j)
    {
        int width = (int)blockDim.x, pack_number = j / side;

        return (pack_number / width * side + j % side) * (width + gap) + pack_number % width;
    }
};

/* What the groups of a block have, in their order, becomes the block's partial sums. */
template <class E, bool packed, int n>
__device__ __forceinline__ void write_partial_sums(const real<E> (&sums)[n], int columns,
                                                   real<E> *shared, real<E> *to)
{
    typedef sum_place<E, packed> place;

    for (unsigned group = 0; group < blockDim.y; group++) {
        __syncthreads();
#pragma unroll
        for (int i = 0; i < n; i++) {
            real<E> *sum = &shared[place::of_thread(i)];

            if (threadIdx.y == group) *sum = (group ? *sum : 0) + sums[i];
        }
    }
    __syncthreads();
    for (int j = (int)(threadIdx.y * blockDim.x + threadIdx.x); j < columns;
         j += (int)(blockDim.x * blockDim.y))
        to[j] = shared[place::of_column(j)];
}

/** Two sums at once. */
template <class T> struct sums {
    T first, second;
};

struct take_sums {
    template <class T>
    __device__ __forceinline__ sums<T> operator()(const sums<T> &a, const sums<T> &b) const
    {
        return {a.first + b.first, a.second + b.second};
    }
};

/* A group has `rows_of_group` rows one after the other. Shared memory has the weight, and then the
 * sums of the block. */
template <class E, bool centred, bool parameters, bool packed>
__global__ void __launch_bounds__(NORM_THREADS, 1)
    norm_grad_in_registers(norm_operands<E> p, int64_t rows_of_group)
{
    typedef real<E> T;
    typedef row_part<E, NORM_GRAD_PACKS, packed> part;
    GPU_SHARED(sums<T>, shared, [NORM_WARPS]);
    GPU_DYNAMIC_SHARED(E, weight);
    int n = (int)p.rows.n, lane = threadIdx.x % WARP;
    int64_t first = ((int64_t)blockIdx.x * blockDim.y + threadIdx.y) * rows_of_group;
    int64_t left = p.rows.count - first, rows = left < rows_of_group ? left : rows_of_group;
    parameter_sums<E, part::n> added = {};
    T mean = 0, rstd = 0; /* of row `first` + a multiple of STATISTICS + this lane */

    if (p.weight) {
        keep_parameter<E, packed>(weight, p.weight, n, p.weight_step);
        __syncthreads();
    }
    for (int64_t number = 0; number < rows_of_group; number++) {
        int64_t r = first + number;
        int at = (int)(number % STATISTICS);
        bool have = number < rows; /* the others wait at the barriers with them */
        T mean_of_row, rstd_of_row;
        sums<T> e = {0, 0};
        part d = {}, h = {};

        if (at == 0 && number + lane < rows) {
            if (centred) mean = p.saved_mean[r + lane];
            rstd = p.saved_rstd[r + lane];
        }
        mean_of_row = centred ? value_of_lane(mean, at) : 0;
        rstd_of_row = value_of_lane(rstd, at);
        if (have) {
            d.load(p.d + map_offset(p.rows.outer[1], r), n, p.rows.step[1], E{});
            h.load(p.x + map_offset(p.rows.outer[2], r), n, p.rows.step[2], E{});
        }
        for (int i = 0; i < part::n; i++) {
            h.at[i] = (h.at[i] - mean_of_row) * rstd_of_row; /* beyond the row d is 0 */
            if (parameters) added.dweight[i] += d.at[i] * h.at[i];
            if (parameters && centred) added.dbias[i] += d.at[i];
        }
        if (p.weight)
            for_kept<E, NORM_GRAD_PACKS, packed>(weight, n,
                                                 [&](int i, E w) { d.at[i] *= to_real(w); });
        for (int i = 0; i < part::n; i++) {
            if (centred) e.first += d.at[i];
            e.second += d.at[i] * h.at[i];
        }
        e = group_reduce(e, take_sums(), shared);
        for (int i = 0; i < part::n; i++)
            d.at[i] = rstd_of_row * (d.at[i] - e.first / n - h.at[i] * (e.second / n));
        if (have) d.store(p.y + map_offset(p.rows.outer[0], r), n, p.rows.step[0]);
    }
    if (parameters) {
        T *to = p.partial + (int64_t)blockIdx.x * 2 * n;

        write_partial_sums<E, packed>(added.dweight, n, (T *)weight, to);
        if (centred) write_partial_sums<E, packed>(added.dbias, n, (T *)weight, to + n);
    }
}

template <class E, bool centred>
__global__ void __launch_bounds__(NORM_THREADS, 1) norm_grad_of_long_rows(norm_operands<E> p)
{
    typedef real<E> T;
    GPU_SHARED(sums<T>, shared, [NORM_WARPS]);
    const E *d = p.d + map_offset(p.rows.outer[1], blockIdx.x);
    const E *x = p.x + map_offset(p.rows.outer[2], blockIdx.x);
    E *dx = p.y + map_offset(p.rows.outer[0], blockIdx.x);
    T mean = centred ? p.saved_mean[blockIdx.x] : 0, rstd = p.saved_rstd[blockIdx.x],
      n = (T)p.rows.n;
    sums<T> e = {0, 0};

    for_row_packs(d, p.rows.n, p.rows.step[1], [&](const pack<E> &v, int64_t j, int count) {
        pack<E> beside = load_beside(x, j, p.rows.step[2], count), w = v;

        if (p.weight) w = load_beside(p.weight, j, p.weight_step, count);
        for (int i = 0; i < count; i++) {
            T g = to_real(v.at[i]) * (p.weight ? to_real(w.at[i]) : 1);

            if (centred) e.first += g;
            e.second += g * (to_real(beside.at[i]) - mean) * rstd;
        }
    });
    e = group_reduce(e, take_sums(), shared);
    for_row_packs(d, p.rows.n, p.rows.step[1], [&](const pack<E> &v, int64_t j, int count) {
        pack<E> beside = load_beside(x, j, p.rows.step[2], count), w = v, to;

        if (p.weight) w = load_beside(p.weight, j, p.weight_step, count);
        for (int i = 0; i < count; i++) {
            T g = to_real(v.at[i]) * (p.weight ? to_real(w.at[i]) : 1);
            T h = (to_real(beside.at[i]) - mean) * rstd;

            to.at[i] = from_real<E>(rstd * (g - e.first / n - h * (e.second / n)));
        }
        store_beside(dx, j, p.rows.step[0], count, to);
    });
}

/* Partial sums of rows that are too long for registers: a thread has a column of a block's rows. */
template <class E, bool centred>
__global__ void __launch_bounds__(BLOCK) norm_sum_long_rows(norm_operands<E> p)
{
    int64_t j = (int64_t)blockIdx.y * BLOCK + threadIdx.x;
    real<E> *to = p.partial + (int64_t)blockIdx.x * 2 * p.rows.n;
    real<E> dweight = 0, dbias = 0;

    if (j >= p.rows.n) return;
    for (int64_t r = blockIdx.x; r < p.rows.count; r += gridDim.x) {
        real<E> d = to_real(p.d[map_offset(p.rows.outer[1], r) + j * p.rows.step[1]]);
        real<E> x = to_real(p.x[map_offset(p.rows.outer[2], r) + j * p.rows.step[2]]);

        dweight += d * (x - (centred ? p.saved_mean[r] : 0)) * p.saved_rstd[r];
        dbias += d;
    }
    to[j] = dweight;
    to[p.rows.n + j] = dbias;
}

/* dweight and dbias (or NULL) from the partial sums of so many blocks. */
template <class E>
__global__ void __launch_bounds__(SUM_COLUMNS *SUM_ROWS)
    norm_add_partial_sums(const real<E> *partial, int blocks, int64_t n, E *dweight, E *dbias)
{
    GPU_SHARED(double, shared, [SUM_ROWS][SUM_COLUMNS]);
    int64_t j = (int64_t)blockIdx.x * SUM_COLUMNS + threadIdx.x;
    E *to = blockIdx.y ? dbias : dweight;
    double sum = 0;

    if (!to) return;
    for (int b = threadIdx.y; b < blocks && j < n; b += SUM_ROWS)
        sum += (double)partial[(2 * (int64_t)b + blockIdx.y) * n + j];
    shared[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y || j >= n) return;
    for (int i = 1; i < SUM_ROWS; i++) sum += shared[i][threadIdx.x];
    to[j] = from_real<E>((real<E>)sum);
}

struct norm_grad {
    struct strided_rows rows;
    int64_t weight_step;
};

template <class E, bool centred>
norm_operands<E> operands_of(const wf_kernel_call *k, void *const *out, const void *const *in)
{
    const norm_grad *p = (const norm_grad *)k->prep;
    norm_operands<E> o = {};

    o.rows = p->rows;
    o.y = (E *)out[0];
    o.d = (const E *)in[0];
    o.x = (const E *)in[1];
    o.weight = (const E *)in[2];
    o.weight_step = p->weight_step;
    o.bias_step = 1;
    o.saved_mean = centred ? (const real<E> *)in[3] : NULL;
    o.saved_rstd = (const real<E> *)in[centred ? 4 : 3];
    o.rows.packed = norm_is_packed(o);
    return o;
}

/* dx, and partial sums from so many blocks, of rows that are too long for registers. */
template <class E, bool centred>
void launch_long_rows(const wf_kernel_call *k, const norm_operands<E> &o, int blocks)
{
    WF_CUDA_LAUNCH(k, (norm_grad_of_long_rows<E, centred>), (unsigned)o.rows.count, NORM_THREADS, 0,
                   o);
    if (o.partial)
        WF_CUDA_LAUNCH(k, (norm_sum_long_rows<E, centred>),
                       dim3((unsigned)blocks, blocks_for(o.rows.n, BLOCK)), BLOCK, 0, o);
}

/* The same where a group of `block.x` threads has a row in registers. */
template <class E, bool centred, bool parameters, bool packed>
void launch_short_rows(const wf_kernel_call *k, const norm_operands<E> &o, dim3 block, int blocks)
{
    const int64_t groups = (int64_t)blocks * block.y;
    size_t shared = o.weight ? (size_t)o.rows.n * sizeof(E) : 0;
    size_t sums = (size_t)sum_place<E, packed>::room((int)block.x) * sizeof(real<E>);

    if (parameters && sums > shared) shared = sums;
    WF_CUDA_LAUNCH(k, (norm_grad_in_registers<E, centred, parameters, packed>), (unsigned)blocks,
                   block, shared, o, (o.rows.count + groups - 1) / groups);
}

template <class E, bool centred>
void run_norm_grad(const wf_kernel_call *k, void *const *out, const void *const *in,
                   const wf_scalars *)
{
    norm_operands<E> o = operands_of<E, centred>(k, out, in);
    int threads = row_part<E, NORM_GRAD_PACKS, true>::threads(o.rows.n);
    bool in_registers = threads <= NORM_THREADS;
    dim3 block = norm_block(threads);
    int64_t blocks = in_registers ? blocks_for(o.rows.count, block.y) : o.rows.count;
    E *dweight = NULL, *dbias = NULL;

    if (blocks > MOST_BLOCKS) blocks = MOST_BLOCKS;
    if (in_registers && blocks) { /* as many as rows are for, when each takes as many */
        int64_t rows = (o.rows.count + blocks * block.y - 1) / (blocks * block.y) * block.y;

        blocks = (o.rows.count + rows - 1) / rows;
    }
    if (k->n_out > 1 && k->out[1]) dweight = (E *)out[1];
    if (centred && k->n_out > 2 && k->out[2]) dbias = (E *)out[2];
    if (dweight || dbias)
        o.partial = (real<E> *)wf_cuda_scratch((size_t)(blocks * 2 * o.rows.n) * sizeof(real<E>));
    if (blocks && !in_registers)
        launch_long_rows<E, centred>(k, o, (int)blocks);
    else if (blocks)
        (o.partial       ? o.rows.packed ? launch_short_rows<E, centred, true, true>
                                         : launch_short_rows<E, centred, true, false>
               : o.rows.packed ? launch_short_rows<E, centred, false, true>
                         : launch_short_rows<E, centred, false, false>)(k, o, block, (int)blocks);
    if (dweight || dbias)
        WF_CUDA_LAUNCH(k, norm_add_partial_sums<E>, dim3(blocks_for(o.rows.n, SUM_COLUMNS), 2),
                       dim3(SUM_COLUMNS, SUM_ROWS), 0, o.partial, (int)blocks, o.rows.n, dweight,
                       dbias);
}

weft_status check_dtypes(const wf_kernel_call *k)
{
    uint8_t dtype = k->out[0]->dtype, statistics = dtype == WEFT_F64 ? WEFT_F64 : WEFT_F32;

    if (dtype >= WF_CUDA_FLOAT_DTYPES) return wf_cuda_fail_no_kernel(k, dtype);
    for (int i = 0; i < k->n_in; i++)
        WF_NEED(!k->in[i] || k->in[i]->dtype == (i > 2 ? statistics : dtype), WEFT_ERR_DTYPE,
                "%s: input %d is %s beside %s", k->op, i, wf_dtypes[k->in[i]->dtype].name,
                wf_dtypes[dtype].name);
    WF_NEED(k->out[0]->ndim > 0, WEFT_ERR_SHAPE, "%s: a scalar has no dim to normalise", k->op);
    return WEFT_OK;
}

weft_status prepare_norm_grad(wf_kernel_call *k, wf_kernel_run *const *runs)
{
    norm_grad *p;

    WF_TRY(check_dtypes(k));
    k->prep = p = WF_NEW(norm_grad);
    p->rows = rows_of(k, 2, k->out[0]->ndim - 1);
    p->weight_step = step_of_parameter(k, 2);
    k->run = p->rows.n ? runs[k->out[0]->dtype] : wf_cuda_run_nothing;
    return WEFT_OK;
}

} // namespace

extern "C" weft_status wf_cuda_layer_norm_grad(struct wf_kernel_call *k)
{
    static wf_kernel_run *const runs[] = {run_norm_grad<float, true>, run_norm_grad<double, true>,
                                          run_norm_grad<bf16, true>, run_norm_grad<f16, true>};

    return prepare_norm_grad(k, runs);
}

extern "C" weft_status wf_cuda_rms_norm_grad(struct wf_kernel_call *k)
{
    static wf_kernel_run *const runs[] = {run_norm_grad<float, false>, run_norm_grad<double, false>,
                                          run_norm_grad<bf16, false>, run_norm_grad<f16, false>};

    return prepare_norm_grad(k, runs);
}
