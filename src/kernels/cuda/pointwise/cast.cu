/* cast.cu: cast between any two dtypes. Floats to integers are cut; what does not fit gives the
 * nearest. */
#include "kernels/cuda/pointwise/elementwise.h"

template <class Y, class X> struct cast_of : makes<Y, X> {
    explicit cast_of(const struct wf_scalars *) {}
    __device__ __forceinline__ Y operator()(X x, absent, absent) const
    {
        return cast_to<Y>(to_real(x));
    }
};

/* By the order of weft_dtype. */
#define CASTS_FROM(X)                                                                              \
    {                                                                                              \
        wf_elementwise_run<cast_of<float, X>>, wf_elementwise_run<cast_of<double, X>>,             \
            wf_elementwise_run<cast_of<bf16, X>>, wf_elementwise_run<cast_of<f16, X>>,             \
            wf_elementwise_run<cast_of<int32_t, X>>, wf_elementwise_run<cast_of<int64_t, X>>,      \
            wf_elementwise_run<cast_of<uint8_t, X>>, wf_elementwise_run<cast_of<boolean, X>>,      \
            wf_elementwise_run<cast_of<int16_t, X>>, wf_elementwise_run<cast_of<int8_t, X>>        \
    }
static wf_kernel_run *const casts[WEFT_DTYPE_COUNT][WEFT_DTYPE_COUNT] = {
    CASTS_FROM(float),   CASTS_FROM(double),  CASTS_FROM(bf16),    CASTS_FROM(f16),
    CASTS_FROM(int32_t), CASTS_FROM(int64_t), CASTS_FROM(uint8_t), CASTS_FROM(uint8_t),
    CASTS_FROM(int16_t), CASTS_FROM(int8_t)};

weft_status wf_cuda_cast(struct wf_kernel_call *k)
{
    return wf_elementwise_prepare(k, casts[k->in[0]->dtype][k->out[0]->dtype]);
}
