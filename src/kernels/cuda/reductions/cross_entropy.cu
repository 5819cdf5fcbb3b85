/*
 * cross_entropy.cu: cross-entropy with logits, in three steps that a sharded vocabulary can reduce
 * between.
 *
 *   sum    s = sum_j e^(z_j - m), p = sum_j w_j q_j (z_j - m)
 *   loss   W log s - p + zeta (m + log s)^2
 *   grad   dz_j = g ((W + 2 zeta (m + log s)) e^(z_j - m) / s - w_j q_j)
 *
 * with class weights w (1 unless given), the target's distribution q_j = (1 - eps) [j = target] +
 * eps / V under smoothing eps over all V classes, W = sum_j w_j q_j and zeta the z-loss. z may be
 * some columns of the global vocabulary: s and p are then this rank's terms. Rows whose target is
 * ignored give p = 0, loss 0 and gradient 0; those whose target is no class are counted, and their
 * loss is NaN.
 *
 * A warp or a block has a row of z, which is read once.
 */
#include "kernels/cuda/offset_map.h"
#include "kernels/cuda/prepare.h"
#include "kernels/cuda/reductions/row_loop.h"

namespace
{

enum { SHORT_ROW = 1024 /* up to here a warp has a row */, MOST_BLOCKS = 512 };

/* Operands that have a number per row, or a row; each finds its own by a map. */
enum { LOGITS, MOST, TARGET, SUMS, GRADIENT, OPERANDS };

struct xent_rows {
    int64_t count, columns, first; /* of the classes this rank has */
    int64_t step;                  /* between logits of a row */
    int64_t sums_step;             /* from s to p */
    offset_map at[OPERANDS];
};

enum { IGNORED = -1, NO_CLASS = -2 };

/* What all rows of a call share. T: the type of sums. */
template <class T> struct xent_terms {
    const T *weights; /* NULL: all are 1 */
    int64_t weight_step;
    const double *all_weights;   /* their sum, with smoothing and weights; else NULL, and */
    T target_share, class_share; /* 1 - eps; eps / V */
    T zeta;
    int64_t classes, ignored;
    bool wide_targets; /* i64 */
    const void *targets;

    __device__ __forceinline__ int64_t class_of_row(const xent_rows &p, int64_t r) const
    {
        int64_t at = map_offset(p.at[TARGET], r);
        int64_t target =
            wide_targets ? ((const int64_t *)targets)[at] : ((const int32_t *)targets)[at];

        if (target == ignored) return IGNORED;
        if (target < 0 || target >= classes) return NO_CLASS;
        return target;
    }

    __device__ __forceinline__ T weight(int64_t number) const
    {
        return weights ? weights[number * weight_step] : 1;
    }

    /* W of a row: what its terms weigh together. */
    __device__ __forceinline__ T total_weight(int64_t number) const
    {
        T all = class_share == 0 ? 0 : class_share * (all_weights ? (T)*all_weights : (T)classes);

        return target_share * weight(number) + all;
    }
};

struct xent_sums {
    double exponentials, terms; /* of e^(z - m); of w (z - m), under smoothing only */
};

template <class T>
__global__ void __launch_bounds__(BLOCK)
    add_up_weights(const T *weights, int64_t step, int64_t n, double *sum)
{
    GPU_SHARED(double, shared, [WARPS]);
    double value = 0;

    for (int64_t j = threadIdx.x; j < n; j += BLOCK) value += (double)weights[j * step];
    value = group_reduce(value, take_sum(), shared);
    if (threadIdx.x == 0) *sum = value;
}

/* Adds what the group's threads read of a row. */
template <bool smoothing, class E>
__device__ __forceinline__ xent_sums add_up_row(const xent_rows &p, const xent_terms<real<E>> &t,
                                                const E *z, real<E> most)
{
    xent_sums s = {0, 0};

    for_row_packs(z, p.columns, p.step, [&](const pack<E> &v, int64_t j, int count) {
        real<E> sum = 0, terms = 0;

        for (int i = 0; i < count; i++) {
            real<E> x = to_real(v.at[i]) - most;

            sum += real_exp(x);
            if (smoothing) terms += t.weight(p.first + j + i) * x;
        }
        s.exponentials += (double)sum;
        if (smoothing) s.terms += (double)terms;
    });
    return s;
}

template <class E, bool smoothing>
__global__ void __launch_bounds__(BLOCK, 2)
    xent_sum_rows(xent_rows p, xent_terms<real<E>> t, const E *z, const real<E> *m, real<E> *sp)
{
    typedef real<E> T;
    GPU_SHARED(double, shared, [WARPS]);
    int64_t r = (int64_t)blockIdx.x * blockDim.y + threadIdx.y, number, column;
    xent_sums s;
    T most, picked;

    if (r >= p.count) return;
    z += map_offset(p.at[LOGITS], r);
    most = m[map_offset(p.at[MOST], r)];
    s = add_up_row<smoothing>(p, t, z, most);
    s.exponentials = group_reduce(s.exponentials, take_sum(), shared);
    if (smoothing) s.terms = group_reduce(s.terms, take_sum(), shared);
    if (threadIdx.x) return;
    number = t.class_of_row(p, r);
    column = number - p.first;
    picked = smoothing && number >= 0 ? t.class_share * (T)s.terms : 0;
    if (number >= 0 && column >= 0 && column < p.columns)
        picked += t.target_share * t.weight(number) * (to_real(z[column * p.step]) - most);
    sp[r] = (T)s.exponentials;
    sp[p.count + r] = picked;
}

/* The loss of each row, and what a block's rows have together. */
struct xent_totals {
    double loss, weights, bad;
};

struct take_totals {
    __device__ __forceinline__ xent_totals operator()(const xent_totals &a,
                                                      const xent_totals &b) const
    {
        return {a.loss + b.loss, a.weights + b.weights, a.bad + b.bad};
    }
};

template <class T>
__global__ void __launch_bounds__(BLOCK) xent_loss_rows(xent_rows p, xent_terms<T> t, const T *sp,
                                                        const T *m, T *loss, xent_totals *partial)
{
    GPU_SHARED(xent_totals, shared, [WARPS]);
    xent_totals total = {0, 0, 0};

    for (int64_t r = (int64_t)blockIdx.x * BLOCK + threadIdx.x; r < p.count;
         r += (int64_t)gridDim.x * BLOCK) {
        int64_t at = map_offset(p.at[SUMS], r), number = t.class_of_row(p, r);
        T log_s = real_log(sp[at]), lse = m[map_offset(p.at[MOST], r)] + log_s, value = 0;

        if (number >= 0) {
            value = t.total_weight(number) * log_s - sp[at + p.sums_step];
            if (t.zeta != 0) value += t.zeta * lse * lse;
            total.weights += (double)t.weight(number);
        } else if (number == NO_CLASS) {
            value = (T)NAN;
            total.bad += 1;
        }
        loss[r] = value;
        total.loss += (double)value;
    }
    total = group_reduce(total, take_totals(), shared);
    if (threadIdx.x == 0) partial[blockIdx.x] = total;
}

template <class T>
__global__ void __launch_bounds__(BLOCK)
    xent_add_up_totals(const xent_totals *partial, int blocks, T *totals)
{
    GPU_SHARED(xent_totals, shared, [WARPS]);
    xent_totals total = {0, 0, 0};

    for (int b = threadIdx.x; b < blocks; b += BLOCK) total = take_totals()(total, partial[b]);
    total = group_reduce(total, take_totals(), shared);
    if (threadIdx.x) return;
    totals[0] = (T)total.loss;
    totals[1] = (T)total.weights;
    totals[2] = (T)total.bad;
}

/* dz_j = factor e^(z_j - m) - each w_j, but for the target's column, which has a value of its own.
 */
template <class E>
__device__ __forceinline__ void
write_gradients(const xent_rows &p, const xent_terms<real<E>> &t, const E *z, real<E> most,
                real<E> factor, real<E> each, int64_t column, real<E> of_target, E *dz)
{
    for_row_packs(z, p.columns, p.step, [&](const pack<E> &v, int64_t j, int count) {
        pack<E> to;

        for (int i = 0; i < count; i++) {
            real<E> value = factor * real_exp(to_real(v.at[i]) - most);

            if (each != 0) value -= each * t.weight(p.first + j + i);
            to.at[i] = from_real<E>(j + i == column ? of_target : value);
        }
        store_beside(dz, j, 1, count, to);
    });
}

template <class E>
__global__ void __launch_bounds__(BLOCK, 2)
    xent_grad_rows(xent_rows p, xent_terms<real<E>> t, const E *z, const real<E> *m,
                   const real<E> *sp, const real<E> *gradient, E *dz)
{
    typedef real<E> T;
    int64_t r = (int64_t)blockIdx.x * blockDim.y + threadIdx.y, number, column;
    T most, s, g, share, of_target = 0;

    if (r >= p.count) return;
    z += map_offset(p.at[LOGITS], r);
    dz += r * p.columns;
    number = t.class_of_row(p, r);
    column = number - p.first;
    if (number < 0) {
        for_row_packs(dz, p.columns, 1, [&](const pack<E> &, int64_t j, int count) {
            store_beside(dz, j, 1, count, pack<E>{});
        });
        return;
    }
    most = m[map_offset(p.at[MOST], r)];
    s = sp[map_offset(p.at[SUMS], r)];
    g = gradient[map_offset(p.at[GRADIENT], r)];
    share = t.total_weight(number);
    if (t.zeta != 0) share += 2 * t.zeta * (most + real_log(s));
    if (column >= 0 && column < p.columns)
        of_target = g * (share * real_exp(to_real(z[column * p.step]) - most) / s -
                         (t.target_share + t.class_share) * t.weight(number));
    write_gradients<E>(p, t, z, most, g * share / s, g * t.class_share, column, of_target, dz);
}

struct xent {
    xent_rows rows;
    int target, weight; /* which inputs they are */
    int64_t weight_step, classes;
};

/* all_weights: where their sum is to be written; NULL: it is not read. */
template <class T>
xent_terms<T> terms_of(const wf_kernel_call *k, const void *const *in, int64_t classes,
                       const wf_scalars *scalars, double *all_weights)
{
    const xent *p = (const xent *)k->prep;
    xent_terms<T> t = {};

    t.targets = in[p->target];
    t.wide_targets = k->in[p->target]->dtype == WEFT_I64;
    if (p->weight < k->n_in && k->in[p->weight]) t.weights = (const T *)in[p->weight];
    t.weight_step = p->weight_step;
    t.target_share = (T)(1 - scalars->s[0]);
    t.class_share = (T)(scalars->s[0] / (double)classes);
    t.classes = classes;
    t.ignored = scalars->v[0];
    if (scalars->s[0] != 0 && t.weights && all_weights) {
        t.all_weights = all_weights;
        WF_CUDA_LAUNCH(k, add_up_weights<T>, 1, BLOCK, 0, t.weights, t.weight_step, classes,
                       all_weights);
    }
    return t;
}

template <class E>
void run_sum(const wf_kernel_call *k, void *const *out, const void *const *in,
             const wf_scalars *scalars)
{
    const xent *p = (const xent *)k->prep;
    xent_terms<real<E>> t = terms_of<real<E>>(k, in, p->classes, scalars, NULL);
    dim3 block = block_dim_for_groups(p->rows.columns <= SHORT_ROW ? WARP : BLOCK);

    WF_CUDA_LAUNCH(k, (t.class_share != 0 ? xent_sum_rows<E, true> : xent_sum_rows<E, false>),
                   blocks_for(p->rows.count, block.y), block, 0, p->rows, t, (const E *)in[0],
                   (const real<E> *)in[1], (real<E> *)out[0]);
}

template <class T>
void run_loss(const wf_kernel_call *k, void *const *out, const void *const *in,
              const wf_scalars *scalars)
{
    const xent *p = (const xent *)k->prep;
    int blocks = (int)blocks_for(p->rows.count, BLOCK);
    xent_totals *partial = (xent_totals *)wf_cuda_scratch((MOST_BLOCKS + 1) * sizeof *partial);
    xent_terms<T> t = terms_of<T>(k, in, scalars->v[1], scalars, &partial[MOST_BLOCKS].loss);

    t.zeta = (T)scalars->s[1];
    if (blocks > MOST_BLOCKS) blocks = MOST_BLOCKS;
    if (blocks)
        WF_CUDA_LAUNCH(k, xent_loss_rows<T>, (unsigned)blocks, BLOCK, 0, p->rows, t,
                       (const T *)in[0], (const T *)in[1], (T *)out[0], partial);
    WF_CUDA_LAUNCH(k, xent_add_up_totals<T>, 1, BLOCK, 0, (const xent_totals *)partial, blocks,
                   (T *)out[1]);
}

template <class E>
void run_grad(const wf_kernel_call *k, void *const *out, const void *const *in,
              const wf_scalars *scalars)
{
    const xent *p = (const xent *)k->prep;
    double *all_weights = (double *)wf_cuda_scratch(sizeof *all_weights);
    xent_terms<real<E>> t = terms_of<real<E>>(k, in, p->classes, scalars, all_weights);
    dim3 block = block_dim_for_groups(p->rows.columns <= SHORT_ROW ? WARP : BLOCK);

    t.zeta = (real<E>)scalars->s[1];
    WF_CUDA_LAUNCH(k, xent_grad_rows<E>, blocks_for(p->rows.count, block.y), block, 0, p->rows, t,
                   (const E *)in[0], (const real<E> *)in[1], (const real<E> *)in[2],
                   (const real<E> *)in[4], (E *)out[0]);
}

/* Which input is which operand; -1: none. */
struct places {
    int operand[OPERANDS], weight;
};

xent_rows rows_of_operands(const wf_kernel_call *k, const places &place)
{
    const wf_tensor_desc *rows = k->in[place.operand[MOST]];
    wf_operand_strides strides[OPERANDS] = {};
    wf_loop_nest nest;
    xent_rows r = {};

    for (int i = 0; i < OPERANDS; i++) {
        const wf_tensor_desc *d = place.operand[i] < 0 ? NULL : k->in[place.operand[i]];

        strides[i].bytes = 1;
        for (int dim = 0; d && dim < rows->ndim; dim++)
            strides[i].stride[dim] = d->stride[i == SUMS ? dim + 1 : dim];
        if (d && i == SUMS) r.sums_step = d->stride[0];
        if (d && i == LOGITS) {
            r.columns = d->shape[rows->ndim];
            r.first = d->offset[rows->ndim];
            r.step = d->stride[rows->ndim];
        }
    }
    wf_loop_nest_make(&nest, rows->shape, rows->ndim, strides, OPERANDS);
    r.count = nest.count;
    for (int i = 0; i < OPERANDS; i++) r.at[i] = offset_map_of(&nest, i, 1);
    return r;
}

weft_status prepare_xent(wf_kernel_call *k, const places &place, wf_kernel_run *const *runs)
{
    const wf_tensor_desc *weight = place.weight < k->n_in ? k->in[place.weight] : NULL;
    int logits = place.operand[LOGITS];
    xent *p;

    if (k->in[0]->dtype >= WF_CUDA_FLOAT_DTYPES) return wf_cuda_fail_no_kernel(k, k->in[0]->dtype);
    WF_TRY(wf_check_cross_entropy_inputs(k, logits + 1, place.operand[TARGET]));
    k->prep = p = WF_NEW(xent);
    p->rows = rows_of_operands(k, place);
    p->target = place.operand[TARGET];
    p->weight = place.weight;
    p->weight_step = weight ? weight->stride[0] : 0;
    if (logits >= 0) p->classes = k->in[logits]->global[k->in[logits]->ndim - 1];
    k->run = k->out[0]->numel || k->n_out > 1 ? runs[k->in[0]->dtype] : wf_cuda_run_nothing;
    return WEFT_OK;
}

} // namespace

extern "C" weft_status wf_cuda_xent_sum(struct wf_kernel_call *k)
{
    static wf_kernel_run *const runs[] = {run_sum<float>, run_sum<double>, run_sum<bf16>,
                                          run_sum<f16>};

    return prepare_xent(k, {{0, 1, 2, -1, -1}, 3}, runs);
}

extern "C" weft_status wf_cuda_xent_loss(struct wf_kernel_call *k)
{
    static wf_kernel_run *const runs[] = {run_loss<float>, run_loss<double>};

    return prepare_xent(k, {{-1, 1, 2, 0, -1}, 3}, runs);
}

extern "C" weft_status wf_cuda_xent_grad(struct wf_kernel_call *k)
{
    static wf_kernel_run *const runs[] = {run_grad<float>, run_grad<double>, run_grad<bf16>,
                                          run_grad<f16>};

    return prepare_xent(k, {{0, 1, 3, 2, 4}, 5}, runs);
}
