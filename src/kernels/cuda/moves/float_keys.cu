/*
 * float_keys.cu: integers in the order of floats, and back (base/elements/float_key.h), for
 * maxima and minima over ranks that are to keep a NaN (driver_kernels.h).
 */
#include "kernels/cuda/gpu.h"

extern "C" {
#include "kernels/cuda/driver_kernels.h"
#define inline __host__ __device__ inline
#include "base/elements/float_key.h"
#undef inline
}
#include "kernels/cuda/pointwise/arrays.h"

/* Of 16 bits too: NCCL has no integers of these. */
template <class E> struct key_type {
    typedef int32_t type;
};
template <> struct key_type<double> {
    typedef int64_t type;
};

static __device__ __forceinline__ int32_t key_of_real(float x, bool nan_is_largest)
{
    return wf_key_of_f32(x, nan_is_largest);
}
static __device__ __forceinline__ int64_t key_of_real(double x, bool nan_is_largest)
{
    return wf_key_of_f64(x, nan_is_largest);
}
static __device__ __forceinline__ float real_of_key(int32_t key) { return wf_f32_of_key(key); }
static __device__ __forceinline__ double real_of_key(int64_t key) { return wf_f64_of_key(key); }

template <class E> struct key_of : makes<typename key_type<E>::type, E> {
    bool nan_is_largest;

    explicit key_of(bool largest) : nan_is_largest(largest) {}
    __device__ __forceinline__ typename key_type<E>::type operator()(E x, absent, absent) const
    {
        return key_of_real(to_real(x), nan_is_largest);
    }
};

template <class E> struct element_of : makes<E, typename key_type<E>::type> {
    __device__ __forceinline__ E operator()(typename key_type<E>::type key, absent, absent) const
    {
        return from_real<E>(real_of_key(key));
    }
};

void wf_cuda_keys_of_floats(weft_dtype dtype, bool nan_is_largest, size_t count, void *keys,
                            const void *x)
{
    char *const at[WF_ELEMENTWISE_OPERANDS] = {(char *)keys, (char *)x};

    with_float_type(dtype, [&](auto e) {
        wf_arrays_run("keys_of_floats", key_of<typename decltype(e)::type>(nan_is_largest),
                      (int64_t)count, at);
    });
}

void wf_cuda_floats_of_keys(weft_dtype dtype, size_t count, void *x, const void *keys)
{
    char *const at[WF_ELEMENTWISE_OPERANDS] = {(char *)x, (char *)keys};

    with_float_type(dtype, [&](auto e) {
        wf_arrays_run("floats_of_keys", element_of<typename decltype(e)::type>(), (int64_t)count,
                      at);
    });
}
