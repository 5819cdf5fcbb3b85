/*
 * swiglu.cu: y = silu(gate) up and its gradient, gate and up stacked in the dim before the last: x
 * [*,2,n]. They are elementwise over [*,n]: up is the array that begins one step of the stacked dim
 * behind gate.
 */
#include "kernels/cuda/pointwise/elementwise.h"

template <class E> struct swiglu_of : makes<E, E, E> {
    typedef real<E> T;

    __device__ __forceinline__ E operator()(E gate, E up, absent) const
    {
        const T g = to_real(gate);

        return from_real<E>(g * WF_SIGMOID(g) * to_real(up));
    }
};

struct swiglu {
    struct wf_elementwise_plan plan;
    int64_t x_second, dx_second; /* bytes from gate to up, from dgate to dup */
};

/* The strides of x [*,2,n] as those of an array [*,n]; *second: bytes between its two halves. */
static struct wf_operand_strides without_stacked_dim(struct wf_operand_strides strides, int ndim,
                                                     int64_t *second)
{
    *second = strides.stride[ndim - 2] * strides.bytes;
    strides.stride[ndim - 2] = strides.stride[ndim - 1];
    return strides;
}

/* ---- forward ---- */

template <class E>
static void run_swiglu(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                       const struct wf_scalars *)
{
    const struct swiglu *p = (const struct swiglu *)k->prep;
    char *operands[WF_ELEMENTWISE_OPERANDS] = {(char *)out[0], (char *)in[0],
                                               (char *)in[0] + p->x_second};

    wf_elementwise_run_plan(k, swiglu_of<E>(), &p->plan, operands);
}

weft_status wf_cuda_swiglu(struct wf_kernel_call *k)
{
    const struct wf_tensor_desc *x = k->in[0], *y = k->out[0];
    struct wf_operand_strides operands[3];
    struct swiglu *p;

    if (x->dtype >= WF_CUDA_FLOAT_DTYPES) return wf_cuda_fail_no_kernel(k, x->dtype);
    k->prep = p = WF_NEW(struct swiglu);
    operands[0] = wf_strides_row_major(wf_dtypes[y->dtype].size, y->shape, y->ndim);
    operands[1] = operands[2] =
        without_stacked_dim(wf_strides_broadcast(x, x->shape, x->ndim), x->ndim, &p->x_second);
    wf_elementwise_plan_make(&p->plan, y->ndim, y->shape, 3, operands);
    k->run = wf_cuda_run_nothing;
    if (y->numel == 0) return WEFT_OK;
    with_float_type(x->dtype, [&](auto e) { k->run = run_swiglu<typename decltype(e)::type>; });
    return WEFT_OK;
}

/* ---- gradient: two outputs of one pass ---- */

enum { DX, D, X, OPERANDS };

struct gradient_arguments {
    char *at[OPERANDS];
    int64_t x_second, dx_second;
    index_map<WF_ELEMENTWISE_OPERANDS> map;
};

template <class E, int length>
__global__ void __launch_bounds__(WF_CUDA_BLOCK) swiglu_gradient(struct gradient_arguments p)
{
    uint32_t number = blockIdx.x * (uint32_t)WF_CUDA_BLOCK + threadIdx.x;
    int64_t at[OPERANDS] = {};
    pack<E, length> d, gate, up;

    if (number >= p.map.count) return;
    index_map_locate(p.map, number, at);
    d = *(const pack<E, length> *)(p.at[D] + at[D]);
    gate = *(const pack<E, length> *)(p.at[X] + at[X]);
    up = *(const pack<E, length> *)(p.at[X] + at[X] + p.x_second);
#pragma unroll
    for (int i = 0; i < length; i++) {
        const real<E> di = to_real(d.at[i]), g = to_real(gate.at[i]);

        gate.at[i] = from_real<E>(di * to_real(up.at[i]) * WF_DSILU(g));
        up.at[i] = from_real<E>(di * g * WF_SIGMOID(g));
    }
    *(pack<E, length> *)(p.at[DX] + at[DX]) = gate;
    *(pack<E, length> *)(p.at[DX] + at[DX] + p.dx_second) = up;
}

template <class E, int length>
static void launch_gradient(const struct wf_kernel_call *k, const struct wf_loop_nest *nest,
                            struct gradient_arguments p)
{
    char *begin[OPERANDS];

    memcpy(begin, p.at, sizeof begin);
    for_each_sub_nest(
        nest, wf_cuda_index_limit, [&](const struct wf_loop_nest &part, const int64_t *at) {
            dim3 blocks((uint32_t)((part.count + WF_CUDA_BLOCK - 1) / WF_CUDA_BLOCK));

            for (int i = 0; i < OPERANDS; i++) p.at[i] = begin[i] + at[i];
            index_map_make(&p.map, &part);
            WF_CUDA_LAUNCH(k, (swiglu_gradient<E, length>), blocks, dim3(WF_CUDA_BLOCK), 0, p);
        });
}

/* Packs, where both halves of x and dx are aligned too and nothing is left over. */
template <class E>
static void run_gradient(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                         const struct wf_scalars *)
{
    const struct swiglu *p = (const struct swiglu *)k->prep;
    const int length = pack<E>::n;
    struct gradient_arguments a = {
        {(char *)out[0], (char *)in[0], (char *)in[1]}, p->x_second, p->dx_second, {}};
    bool repeats = p->plan.packs.one[D] || p->plan.packs.one[X];

    if (wf_elementwise_fits_packs(&p->plan, a.at) && !p->plan.packs.tail && !repeats &&
        p->x_second % 16 == 0 && p->dx_second % 16 == 0)
        launch_gradient<E, length>(k, &p->plan.packs.nest, a);
    else
        launch_gradient<E, 1>(k, &p->plan.singles.nest, a);
}

weft_status wf_cuda_swiglu_grad(struct wf_kernel_call *k)
{
    const struct wf_tensor_desc *d = k->in[0], *x = k->in[1];
    struct wf_operand_strides operands[OPERANDS];
    struct swiglu *p;

    if (x->dtype >= WF_CUDA_FLOAT_DTYPES) return wf_cuda_fail_no_kernel(k, x->dtype);
    WF_TRY(wf_check_input_dtypes(k, 0, x->dtype));
    k->prep = p = WF_NEW(struct swiglu);
    operands[DX] = without_stacked_dim(
        wf_strides_row_major(wf_dtypes[x->dtype].size, x->shape, x->ndim), x->ndim, &p->dx_second);
    operands[D] = wf_strides_broadcast(d, d->shape, d->ndim);
    operands[X] =
        without_stacked_dim(wf_strides_broadcast(x, x->shape, x->ndim), x->ndim, &p->x_second);
    wf_elementwise_plan_make(&p->plan, d->ndim, d->shape, OPERANDS, operands);
    k->run = wf_cuda_run_nothing;
    if (x->numel == 0) return WEFT_OK;
    with_float_type(x->dtype, [&](auto e) { k->run = run_gradient<typename decltype(e)::type>; });
    return WEFT_OK;
}
