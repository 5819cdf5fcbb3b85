/*
 * nll_pick.cu: the element of each row that its target names, times the class's weight, and its
 * gradient, which is 0 but for one element of a row. A thread has a row; of a gradient the zeros
 * are written first.
 *
 * This rank may have some of the columns: other targets give 0. A target that is no class and is
 * not ignored is told as a fault (fault.h).
 */
#include "kernels/cuda/fault.h"
#include "kernels/cuda/group_reduce.h"
#include "kernels/cuda/offset_map.h"
#include "kernels/cuda/prepare.h"

extern "C" {
#include "kernels/cuda/driver_kernels.h"
}

namespace
{

/* Inputs: the rows of x, or a number for each row of d; targets; class weights. */
enum { ROW_INPUT, TARGET, OPERANDS, WEIGHT = OPERANDS };

struct pick {
    int64_t rows, classes;
    wf_index_range columns; /* of the classes */
    int64_t step;           /* between elements of a row of x */
    int64_t weight_step;
    bool wide_targets;       /* i64 */
    offset_map at[OPERANDS]; /* number of a row -> its first element, its target */
};

struct target_pointers {
    const void *targets;
    int64_t ignored;
    wf_cuda_fault *fault;
};

/* The column of a row's target among those of this rank; -1: it is ignored, or another rank's. */
__device__ __forceinline__ int64_t column_of_row(const pick &p, const target_pointers &t, int64_t r)
{
    int64_t at = map_offset(p.at[TARGET], r), column;
    int64_t target =
        p.wide_targets ? ((const int64_t *)t.targets)[at] : ((const int32_t *)t.targets)[at];

    if (target == t.ignored) return -1;
    if (target < 0 || target >= p.classes) {
        record_fault(t.fault, WF_CUDA_FAULT_CLASS, target, p.classes, 0);
        return -1;
    }
    column = target - p.columns.offset;
    return column >= 0 && column < p.columns.size ? column : -1;
}

template <class E>
__device__ __forceinline__ real<E> weight_of_column(const pick &p, const E *weights, int64_t column)
{
    return weights ? to_real(weights[(p.columns.offset + column) * p.weight_step]) : 1;
}

template <class E>
__global__ void __launch_bounds__(BLOCK)
    pick_elements(pick p, target_pointers t, const E *x, const E *weights, E *y, E *picked_weights)
{
    int64_t r = (int64_t)blockIdx.x * BLOCK + threadIdx.x, column;
    real<E> weight = 0, value = 0;

    if (r >= p.rows) return;
    column = column_of_row(p, t, r);
    if (column >= 0) {
        weight = weight_of_column(p, weights, column);
        value = weight * to_real(x[map_offset(p.at[ROW_INPUT], r) + column * p.step]);
    }
    y[r] = from_real<E>(value);
    if (picked_weights) picked_weights[r] = from_real<E>(weight);
}

/* dx holds zeros. */
template <class E>
__global__ void __launch_bounds__(BLOCK)
    put_gradients(pick p, target_pointers t, const E *d, const E *weights, E *dx)
{
    int64_t r = (int64_t)blockIdx.x * BLOCK + threadIdx.x, column;

    if (r >= p.rows) return;
    column = column_of_row(p, t, r);
    if (column < 0) return;
    dx[r * p.columns.size + column] = from_real<E>(weight_of_column(p, weights, column) *
                                                   to_real(d[map_offset(p.at[ROW_INPUT], r)]));
}

const void *weights_of(const wf_kernel_call *k, const void *const *in)
{
    return k->n_in > WEIGHT && k->in[WEIGHT] ? in[WEIGHT] : NULL;
}

target_pointers targets_of(const void *const *in, const wf_scalars *scalars)
{
    return {in[TARGET], scalars->v[0], wf_cuda_fault_memory()};
}

template <class E>
void run_pick(const wf_kernel_call *k, void *const *out, const void *const *in,
              const wf_scalars *scalars)
{
    const pick *p = (const pick *)k->prep;

    WF_CUDA_LAUNCH(k, pick_elements<E>, blocks_for(p->rows, BLOCK), BLOCK, 0, *p,
                   targets_of(in, scalars), (const E *)in[ROW_INPUT], (const E *)weights_of(k, in),
                   (E *)out[0], (E *)(k->n_out > 1 && k->out[1] ? out[1] : NULL));
}

template <class E>
void run_pick_grad(const wf_kernel_call *k, void *const *out, const void *const *in,
                   const wf_scalars *scalars)
{
    const pick *p = (const pick *)k->prep;
    uint64_t zero = 0;

    wf_cuda_fill_elements(out[0], &zero, sizeof(E), (size_t)k->out[0]->numel);
    WF_CUDA_LAUNCH(k, put_gradients<E>, blocks_for(p->rows, BLOCK), BLOCK, 0, *p,
                   targets_of(in, scalars), (const E *)in[ROW_INPUT], (const E *)weights_of(k, in),
                   (E *)out[0]);
}

/* `whole`: the operand with the columns. */
weft_status prepare_pick(wf_kernel_call *k, const wf_tensor_desc *whole, wf_kernel_run *const *runs)
{
    const wf_tensor_desc *target = k->in[TARGET];
    const wf_tensor_desc *weight = k->n_in > WEIGHT ? k->in[WEIGHT] : NULL;
    uint8_t dtype = k->in[ROW_INPUT]->dtype;
    int last = whole->ndim - 1;
    wf_operand_strides strides[OPERANDS] = {};
    wf_loop_nest nest;
    pick *p;

    if (dtype >= WF_CUDA_FLOAT_DTYPES) return wf_cuda_fail_no_kernel(k, dtype);
    if (weight && weight->dtype != dtype) return wf_cuda_fail_no_kernel(k, weight->dtype);
    if (target->dtype != WEFT_I32 && target->dtype != WEFT_I64)
        return wf_cuda_fail_no_kernel(k, target->dtype);
    k->run = wf_cuda_run_nothing;
    if (k->out[0]->numel == 0) return WEFT_OK;
    k->prep = p = WF_NEW(pick);
    for (int i = 0; i < OPERANDS; i++) {
        strides[i].bytes = 1;
        for (int d = 0; d < target->ndim; d++) strides[i].stride[d] = k->in[i]->stride[d];
    }
    wf_loop_nest_make(&nest, target->shape, target->ndim, strides, OPERANDS);
    for (int i = 0; i < OPERANDS; i++) p->at[i] = offset_map_of(&nest, i, 1);
    p->rows = nest.count;
    p->classes = whole->global[last];
    p->columns = {whole->offset[last], whole->shape[last]};
    p->step = whole->stride[last];
    p->weight_step = weight ? weight->stride[0] : 0;
    p->wide_targets = target->dtype == WEFT_I64;
    k->run = runs[dtype];
    return WEFT_OK;
}

} // namespace

extern "C" weft_status wf_cuda_nll_pick(struct wf_kernel_call *k)
{
    static wf_kernel_run *const runs[] = {run_pick<float>, run_pick<double>, run_pick<bf16>,
                                          run_pick<f16>};

    return prepare_pick(k, k->in[ROW_INPUT], runs);
}

extern "C" weft_status wf_cuda_nll_pick_grad(struct wf_kernel_call *k)
{
    static wf_kernel_run *const runs[] = {run_pick_grad<float>, run_pick_grad<double>,
                                          run_pick_grad<bf16>, run_pick_grad<f16>};

    return prepare_pick(k, k->out[0], runs);
}
