/* where_fill.cu: kernels that take elements as they are; one per size of an element. */
#include "kernels/cuda/pointwise/elementwise.h"

/* ---- where ---- */

template <class E> struct where_of : makes<E, uint8_t, E, E> {
    explicit where_of(const struct wf_scalars *) {}
    __device__ __forceinline__ E operator()(uint8_t condition, E a, E b) const
    {
        return condition ? a : b;
    }
};

static wf_kernel_run *where_kernel_for_size(int bytes)
{
    return bytes == 1   ? wf_elementwise_run<where_of<uint8_t>>
           : bytes == 2 ? wf_elementwise_run<where_of<uint16_t>>
           : bytes == 4 ? wf_elementwise_run<where_of<uint32_t>>
                        : wf_elementwise_run<where_of<uint64_t>>;
}

weft_status wf_cuda_where(struct wf_kernel_call *k)
{
    uint8_t dtype = k->out[0]->dtype;

    WF_NEED(k->in[0]->dtype == WEFT_BOOL, WEFT_ERR_DTYPE, "%s: condition is %s, not bool", k->op,
            wf_dtypes[k->in[0]->dtype].name);
    WF_TRY(wf_check_input_dtypes(k, 1, dtype));
    return wf_elementwise_prepare(k, where_kernel_for_size(wf_dtypes[dtype].size));
}

/* ---- fill ---- */

template <class E> struct fill_of : makes<E> {
    E value;

    explicit fill_of(E element) : value(element) {}
    __device__ __forceinline__ E operator()(absent, absent, absent) const { return value; }
};

template <class E>
static void run_fill(const struct wf_kernel_call *k, void *const *out, const void *const *,
                     const struct wf_scalars *scalars)
{
    char *operands[WF_ELEMENTWISE_OPERANDS] = {(char *)out[0]};
    E value;

    wf_dtypes[k->out[0]->dtype].store(&value, scalars->s[0]);
    wf_elementwise_run_plan(k, fill_of<E>(value), (const struct wf_elementwise_plan *)k->prep,
                            operands);
}

/* The output may be strided. */
weft_status wf_cuda_fill(struct wf_kernel_call *k)
{
    const struct wf_tensor_desc *y = k->out[0];
    struct wf_operand_strides to = wf_strides_broadcast(y, y->shape, y->ndim);
    struct wf_elementwise_plan *plan = WF_NEW(struct wf_elementwise_plan);

    wf_elementwise_plan_make(plan, y->ndim, y->shape, 1, &to);
    k->prep = plan;
    k->run = y->numel == 0   ? wf_cuda_run_nothing
             : to.bytes == 1 ? run_fill<uint8_t>
             : to.bytes == 2 ? run_fill<uint16_t>
             : to.bytes == 4 ? run_fill<uint32_t>
                             : run_fill<uint64_t>;
    return WEFT_OK;
}
