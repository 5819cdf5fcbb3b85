/*
 * norm.cu: layer_norm and rms_norm over the last dim.
 *
 * A row is read once, into the registers of a group of warps; a longer one, and one whose weight
 * and bias are too much for shared memory, is read again for each pass.
 */
#include "kernels/cuda/prepare.h"
#include "kernels/cuda/reductions/norm.h"

namespace
{

enum {
    MOST_BLOCKS = 512, /* each reads the parameters; enough for all multiprocessors */
    MOST_BLOCKS_OF_SHORT_ROWS = 2048, /* whose threads have few registers, so more of them run */
    MOST_SHARED =
        47 * 1024 /* bytes of parameters: what a block may have without asking, less the sums */
};

/* Weight and bias are in shared memory, which a block fills once for all its rows. */
template <class E, int packs, bool centred, bool packed>
__global__ void __launch_bounds__(NORM_THREADS, 1) norm_in_registers(norm_operands<E> p)
{
    typedef real<E> T;
    typedef row_part<E, packs, packed> part;
    GPU_SHARED(T, shared, [NORM_WARPS]);
    GPU_DYNAMIC_SHARED(E, weight);
    int n = (int)p.rows.n;
    E *bias = weight + (p.weight ? n : 0);

    if (p.weight) keep_parameter<E, packed>(weight, p.weight, n, p.weight_step);
    if (p.bias) keep_parameter<E, packed>(bias, p.bias, n, p.bias_step);
    if (p.weight || p.bias) __syncthreads();
    for (int64_t first = (int64_t)blockIdx.x * blockDim.y; first < p.rows.count;
         first += (int64_t)gridDim.x * blockDim.y) {
        int64_t r = first + threadIdx.y;
        bool have = r < p.rows.count; /* the others wait at the barriers with them */
        T mean = 0, square = 0, rstd;
        part v = {};

        if (have) v.load(p.x + map_offset(p.rows.outer[1], r), n, p.rows.step[1], E{});
        if (centred) {
            for (int i = 0; i < part::n; i++) mean += v.at[i];
            mean = group_reduce(mean, take_sum(), shared) / n;
        }
        for (int i = 0; i < part::n; i++) {
            T apart = v.at[i] - mean;

            if (part::number(i) < n) square += apart * apart;
        }
        rstd = 1 / real_sqrt(group_reduce(square, take_sum(), shared) / n + p.eps);
        if (!have) continue;
        for (int i = 0; i < part::n; i++) v.at[i] = (v.at[i] - mean) * rstd;
        if (p.weight)
            for_kept<E, packs, packed>(weight, n, [&](int i, E w) { v.at[i] *= to_real(w); });
        if (centred && p.bias)
            for_kept<E, packs, packed>(bias, n, [&](int i, E b) { v.at[i] += to_real(b); });
        v.store(p.y + map_offset(p.rows.outer[0], r), n, p.rows.step[0]);
        if (threadIdx.x) continue;
        if (centred && p.mean) p.mean[r] = mean;
        if (p.rstd) p.rstd[r] = rstd;
    }
}

template <class E, bool centred>
__global__ void __launch_bounds__(NORM_THREADS, 1) norm_of_long_rows(norm_operands<E> p)
{
    typedef real<E> T;
    GPU_SHARED(T, shared, [NORM_WARPS]);
    const E *x = p.x + map_offset(p.rows.outer[1], blockIdx.x);
    E *y = p.y + map_offset(p.rows.outer[0], blockIdx.x);
    int64_t n = p.rows.n, step = p.rows.step[1];
    T mean = 0, square = 0, rstd;

    if (centred) {
        for_row_packs(x, n, step, [&](const pack<E> &v, int64_t, int count) {
            for (int i = 0; i < count; i++) mean += to_real(v.at[i]);
        });
        mean = group_reduce(mean, take_sum(), shared) / (T)n;
    }
    for_row_packs(x, n, step, [&](const pack<E> &v, int64_t, int count) {
        for (int i = 0; i < count; i++)
            square += (to_real(v.at[i]) - mean) * (to_real(v.at[i]) - mean);
    });
    rstd = 1 / real_sqrt(group_reduce(square, take_sum(), shared) / (T)n + p.eps);
    for_row_packs(x, n, step, [&](const pack<E> &v, int64_t j, int count) {
        pack<E> w = v, b = v, to;

        if (p.weight) w = load_beside(p.weight, j, p.weight_step, count);
        if (p.bias) b = load_beside(p.bias, j, p.bias_step, count);
        for (int i = 0; i < count; i++) {
            T h = (to_real(v.at[i]) - mean) * rstd * (p.weight ? to_real(w.at[i]) : 1);

            to.at[i] = from_real<E>(centred && p.bias ? h + to_real(b.at[i]) : h);
        }
        store_beside(y, j, p.rows.step[0], count, to);
    });
    if (threadIdx.x) return;
    if (centred && p.mean) p.mean[blockIdx.x] = mean;
    if (p.rstd) p.rstd[blockIdx.x] = rstd;
}

struct norm_plan {
    struct strided_rows rows;
    int64_t weight_step, bias_step;
};

/* False where a group of threads or shared memory has no room for a row or its parameters. */
template <class E, int packs, bool centred>
bool launch_norm_in_registers(const wf_kernel_call *k, const norm_operands<E> &o)
{
    int threads = row_part<E, packs, true>::threads(o.rows.n);
    size_t parameters =
        (size_t)((o.weight != NULL) + (o.bias != NULL)) * (size_t)o.rows.n * sizeof(E);
    dim3 block = norm_block(threads);
    int64_t most =
        (packs < NORM_PACKS ? MOST_BLOCKS_OF_SHORT_ROWS : MOST_BLOCKS) * (int64_t)block.y;

    if (threads > NORM_THREADS || parameters > MOST_SHARED) return false;
    WF_CUDA_LAUNCH(k,
                   (o.rows.packed ? norm_in_registers<E, packs, centred, true>
                                  : norm_in_registers<E, packs, centred, false>),
                   blocks_for(o.rows.count < most ? o.rows.count : most, block.y), block,
                   parameters, o);
    return true;
}

template <class E, bool centred>
void run_norm(const wf_kernel_call *k, void *const *out, const void *const *in,
              const wf_scalars *scalars)
{
    const norm_plan *p = (const norm_plan *)k->prep;
    int rstd = centred ? 2 : 1;
    norm_operands<E> o = {};

    o.rows = p->rows;
    o.y = (E *)out[0];
    o.x = (const E *)in[0];
    o.weight = (const E *)(k->n_in > 1 ? in[1] : NULL);
    o.bias = (const E *)(centred && k->n_in > 2 ? in[2] : NULL);
    o.weight_step = p->weight_step;
    o.bias_step = p->bias_step;
    if (centred && k->n_out > 1 && k->out[1]) o.mean = (real<E> *)out[1];
    if (k->n_out > rstd && k->out[rstd]) o.rstd = (real<E> *)out[rstd];
    o.eps = (real<E>)scalars->s[0];
    o.rows.packed = norm_is_packed(o);
    if (o.rows.n <= WARP * pack<E>::n) {
        launch_norm_in_registers<E, 1, centred>(k, o); /* one warp, at most 1 KiB of parameters */
        return;
    }
    if (launch_norm_in_registers<E, NORM_PACKS, centred>(k, o)) return;
    WF_CUDA_LAUNCH(k, (norm_of_long_rows<E, centred>), (unsigned)p->rows.count, NORM_THREADS, 0, o);
}

weft_status prepare_norm(wf_kernel_call *k, wf_kernel_run *const *runs)
{
    uint8_t dtype = k->out[0]->dtype;
    norm_plan *p;

    if (dtype >= WF_CUDA_FLOAT_DTYPES) return wf_cuda_fail_no_kernel(k, dtype);
    WF_TRY(wf_check_input_dtypes(k, 0, dtype));
    WF_NEED(k->out[0]->ndim > 0, WEFT_ERR_SHAPE, "%s: a scalar has no dim to normalise", k->op);
    k->prep = p = WF_NEW(norm_plan);
    p->rows = rows_of(k, 1, k->out[0]->ndim - 1);
    p->weight_step = step_of_parameter(k, 1);
    p->bias_step = step_of_parameter(k, 2);
    k->run = p->rows.count ? runs[dtype] : wf_cuda_run_nothing;
    return WEFT_OK;
}

} // namespace

extern "C" weft_status wf_cuda_layer_norm(struct wf_kernel_call *k)
{
    static wf_kernel_run *const runs[] = {run_norm<float, true>, run_norm<double, true>,
                                          run_norm<bf16, true>, run_norm<f16, true>};

    return prepare_norm(k, runs);
}

extern "C" weft_status wf_cuda_rms_norm(struct wf_kernel_call *k)
{
    static wf_kernel_run *const runs[] = {run_norm<float, false>, run_norm<double, false>,
                                          run_norm<bf16, false>, run_norm<f16, false>};

    return prepare_norm(k, runs);
}
