/*
 * softmax.cu: softmax, log_softmax and their gradients along any dim.
 *
 *   softmax      y = e^(x - max) / sum;          dx = y (d - sum(d y))
 *   log_softmax  y = x - max - log(sum);         dx = d - e^y sum(d)
 *
 * A row of the last dim is read once, into the registers of a warp or a block; a longer one is read
 * twice. Along another dim, neighbouring threads have neighbouring rows (columns), so that memory
 * is read in order there too.
 */
#include "kernels/cuda/prepare.h"
#include "kernels/cuda/reductions/rows.h"

namespace
{

enum { PACKS = 2, LARGEST_BLOCK = 512, COLUMNS = WARP, COLUMN_ROWS = BLOCK / COLUMNS };

/* What is known of the elements of a row so far, and what each of them becomes in the end. x is the
 * element of the first input, y that of the second. */
template <class T, bool logs> struct forward {
    static const int inputs = 1;
    T most, sum; /* of e^(x - most) */

    __device__ __forceinline__ forward() : most(lowest<T>()), sum(0) {}

    __device__ __forceinline__ void take(T x, T)
    {
        T apart = x == most ? 1 : real_exp(x > most ? most - x : x - most);

        sum = x > most ? sum * apart + 1 : sum + apart;
        if (x > most || x != x) most = x;
    }

    /* The other state's elements too. Lowest values alone, or none, weigh nothing beside others. */
    __device__ __forceinline__ void merge(const forward &other)
    {
        T larger = take_max()(most, other.most);

        sum = weight(larger) + other.weight(larger);
        most = larger;
    }

    __device__ __forceinline__ T weight(T larger) const
    {
        return most == larger ? sum : sum * real_exp(most - larger);
    }

    __device__ __forceinline__ T result(T x, T) const
    {
        return logs ? x - most - real_log(sum) : real_exp(x - most) / sum;
    }
};

template <class T, bool logs> struct backward {
    static const int inputs = 2;
    T sum;

    __device__ __forceinline__ backward() : sum(0) {}
    __device__ __forceinline__ void take(T d, T y) { sum += logs ? d : d * y; }
    __device__ __forceinline__ void merge(const backward &other) { sum += other.sum; }
    __device__ __forceinline__ T result(T d, T y) const
    {
        return logs ? d - real_exp(y) * sum : y * (d - sum);
    }
};

/* The states of a group's threads become one, in every thread. */
template <class T, bool logs>
__device__ __forceinline__ void merge_group(forward<T, logs> &s, T *shared)
{
    T most = group_reduce(s.most, take_max(), shared);

    s.sum = group_reduce(s.weight(most), take_sum(), shared);
    s.most = most;
}
template <class T, bool logs>
__device__ __forceinline__ void merge_group(backward<T, logs> &s, T *shared)
{
    s.sum = group_reduce(s.sum, take_sum(), shared);
}

/* A thread's share of a row in registers becomes results. */
template <class T, bool logs, int n>
__device__ __forceinline__ void finish_row(forward<T, logs>, T (&x)[n], const T (&)[n], T *shared)
{
    T most = x[0], sum = 0;

    for (int i = 1; i < n; i++) most = take_max()(most, x[i]);
    most = group_reduce(most, take_max(), shared);
    for (int i = 0; i < n; i++) {
        T e = x[i] == lowest<T>() && most != x[i] ? 0 : real_exp(x[i] - most);

        sum += e;
        x[i] = logs ? x[i] - most : e;
    }
    sum = group_reduce(sum, take_sum(), shared);
    for (int i = 0; i < n; i++) x[i] = logs ? x[i] - real_log(sum) : x[i] * (1 / sum);
}
template <class T, bool logs, int n>
__device__ __forceinline__ void finish_row(backward<T, logs> s, T (&d)[n], const T (&y)[n],
                                           T *shared)
{
    for (int i = 0; i < n; i++) s.take(d[i], y[i]);
    merge_group(s, shared);
    for (int i = 0; i < n; i++) d[i] = s.result(d[i], y[i]);
}

/* A thread has `packs` packs of a row. */
template <class E, class Form, bool packed, int packs>
__global__ void __launch_bounds__(LARGEST_BLOCK, 1)
    softmax_in_registers(strided_rows p, E *out, const E *x, const E *y)
{
    typedef row_part<E, packs, packed> part;
    GPU_SHARED(real<E>, shared, [LARGEST_BLOCK / WARP]);
    int64_t r = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
    int n = (int)p.n;
    part first, second;

    if (r >= p.count) return;
    out += map_offset(p.outer[0], r);
    x += map_offset(p.outer[1], r);
    if (Form::inputs > 1) {
        y += map_offset(p.outer[2], r);
        second.load(y, n, p.step[2], E{});
    }
    first.load(x, n, p.step[1], Form::inputs > 1 ? E{} : from_real<E>(lowest<real<E>>()));
    finish_row(Form(), first.at, second.at, shared);
    first.store(out, n, p.step[0]);
}

template <class E, class Form>
__global__ void __launch_bounds__(LARGEST_BLOCK, 1)
    softmax_twice_read(strided_rows p, E *out, const E *x, const E *y)
{
    const bool two = Form::inputs > 1;
    GPU_SHARED(real<E>, shared, [LARGEST_BLOCK / WARP]);
    Form s;

    out += map_offset(p.outer[0], blockIdx.x);
    x += map_offset(p.outer[1], blockIdx.x);
    if (two) y += map_offset(p.outer[2], blockIdx.x);
    for_row_packs(x, p.n, p.step[1], [&](const pack<E> &v, int64_t j, int count) {
        pack<E> beside = two ? load_beside(y, j, p.step[2], count) : v;

        for (int i = 0; i < count; i++) s.take(to_real(v.at[i]), to_real(beside.at[i]));
    });
    merge_group(s, shared);
    for_row_packs(x, p.n, p.step[1], [&](const pack<E> &v, int64_t j, int count) {
        pack<E> beside = two ? load_beside(y, j, p.step[2], count) : v, to;

        for (int i = 0; i < count; i++)
            to.at[i] = from_real<E>(s.result(to_real(v.at[i]), to_real(beside.at[i])));
        store_beside(out, j, p.step[0], count, to);
    });
}

/* Each row by COLUMN_ROWS threads, neighbouring rows by the threads of a warp. */
template <class E, class Form>
__global__ void __launch_bounds__(BLOCK)
    softmax_of_columns(strided_rows p, E *out, const E *x, const E *y)
{
    const bool two = Form::inputs > 1;
    GPU_SHARED(unsigned char, shared, [BLOCK * sizeof(Form)]);
    Form *states = (Form *)shared, s;
    int64_t r = (int64_t)blockIdx.x * COLUMNS + threadIdx.x;

    if (r < p.count) {
        out += map_offset(p.outer[0], r);
        x += map_offset(p.outer[1], r);
        if (two) y += map_offset(p.outer[2], r);
        for (int64_t i = threadIdx.y; i < p.n; i += COLUMN_ROWS)
            s.take(to_real(x[i * p.step[1]]), two ? to_real(y[i * p.step[2]]) : 0);
    }
    states[threadIdx.y * COLUMNS + threadIdx.x] = s;
    __syncthreads();
    if (r >= p.count) return;
    s = states[threadIdx.x];
    for (int i = 1; i < COLUMN_ROWS; i++) s.merge(states[i * COLUMNS + threadIdx.x]);
    for (int64_t i = threadIdx.y; i < p.n; i += COLUMN_ROWS)
        out[i * p.step[0]] =
            from_real<E>(s.result(to_real(x[i * p.step[1]]), two ? to_real(y[i * p.step[2]]) : 0));
}

/* Long rows are better by fewer threads that have more; a gradient, of two operands, lacks the
 * registers. */
template <class Form> constexpr int most_packs() { return Form::inputs == 1 ? 2 * PACKS : PACKS; }
template <class Form> constexpr int threads_of_few_packs()
{
    return LARGEST_BLOCK * PACKS / most_packs<Form>();
}

template <class E, class Form, int packs>
void launch_in_registers(const wf_kernel_call *k, const strided_rows &p, E *to, const E *x,
                         const E *y)
{
    dim3 block = block_dim_for_groups(row_part<E, packs, true>::threads(p.n));

    WF_CUDA_LAUNCH(k,
                   (p.packed ? softmax_in_registers<E, Form, true, packs>
                             : softmax_in_registers<E, Form, false, packs>),
                   blocks_for(p.count, block.y), block, 0, p, to, x, y);
}

template <class E, class Form>
void run_softmax(const wf_kernel_call *k, void *const *out, const void *const *in,
                 const wf_scalars *)
{
    strided_rows p = *(const strided_rows *)k->prep;
    E *to = (E *)out[0];
    const E *x = (const E *)in[0], *y = (const E *)(Form::inputs > 1 ? in[1] : NULL);

    p.packed = p.packed && is_aligned(to) && is_aligned(x) && is_aligned(y);
    if (p.step[0] != 1 && p.n > 1)
        WF_CUDA_LAUNCH(k, (softmax_of_columns<E, Form>), blocks_for(p.count, COLUMNS),
                       dim3(COLUMNS, COLUMN_ROWS), 0, p, to, x, y);
    else if (row_part<E, PACKS, true>::threads(p.n) <= threads_of_few_packs<Form>())
        launch_in_registers<E, Form, PACKS>(k, p, to, x, y);
    else if (row_part<E, most_packs<Form>(), true>::threads(p.n) <= LARGEST_BLOCK)
        launch_in_registers<E, Form, most_packs<Form>()>(k, p, to, x, y);
    else
        WF_CUDA_LAUNCH(k, (softmax_twice_read<E, Form>), (unsigned)p.count, LARGEST_BLOCK, 0, p, to,
                       x, y);
}

weft_status prepare_softmax(wf_kernel_call *k, wf_kernel_run *const *runs)
{
    uint8_t dtype = k->out[0]->dtype;

    return prepare_rows(k, (int)k->attrs->dim.dim,
                        dtype < WF_CUDA_FLOAT_DTYPES ? runs[dtype] : NULL);
}

#define RUNS(form, logs)                                                                           \
    {                                                                                              \
        run_softmax<float, form<float, logs>>, run_softmax<double, form<double, logs>>,            \
            run_softmax<bf16, form<float, logs>>, run_softmax<f16, form<float, logs>>              \
    }

} // namespace

extern "C" weft_status wf_cuda_softmax(struct wf_kernel_call *k)
{
    static wf_kernel_run *const runs[] = RUNS(forward, false);

    return prepare_softmax(k, runs);
}

extern "C" weft_status wf_cuda_log_softmax(struct wf_kernel_call *k)
{
    static wf_kernel_run *const runs[] = RUNS(forward, true);

    return prepare_softmax(k, runs);
}

extern "C" weft_status wf_cuda_softmax_grad(struct wf_kernel_call *k)
{
    static wf_kernel_run *const runs[] = RUNS(backward, false);

    return prepare_softmax(k, runs);
}

extern "C" weft_status wf_cuda_log_softmax_grad(struct wf_kernel_call *k)
{
    static wf_kernel_run *const runs[] = RUNS(backward, true);

    return prepare_softmax(k, runs);
}
