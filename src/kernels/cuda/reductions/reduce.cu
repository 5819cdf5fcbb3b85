/*
 * reduce.cu: sums (times s[0]), products, extremes and counts over any dims (reduce_loops.h).
 *
 * Sums of floats are added up in their computing type over a few elements and then in f64, integers
 * in i64.
 */
#include "kernels/cuda/reductions/reduce_loops.h"

namespace
{

template <class E, class Out> struct sum_to : reduction<E, real<E>, double, Out, take_sum> {
    static __device__ real<E> start() { return 0; }
    static __device__ Out finish(double value, double scale)
    {
        return from_real<Out>((real<Out>)(value * scale));
    }
};

/* Integers wrap; their sums are never scaled. */
template <class E, class Out>
struct integer_sum_to : reduction<E, int64_t, int64_t, Out, take_sum> {
    static __device__ int64_t start() { return 0; }
    static __device__ Out finish(int64_t value, double) { return (Out)value; }
};

template <class E, class Out> struct max_to : reduction<E, real<E>, real<E>, Out, take_max> {
    static __device__ real<E> start() { return lowest<real<E>>(); }
};
template <>
struct max_to<uint8_t, uint8_t> : reduction<uint8_t, int32_t, int32_t, uint8_t, take_max> {
    static __device__ int32_t start() { return 0; }
};
template <>
struct max_to<boolean, boolean> : reduction<boolean, int32_t, int32_t, boolean, take_max> {
    static __device__ int32_t start() { return 0; }
};

template <class E, class Out> struct min_to : reduction<E, real<E>, real<E>, Out, take_min> {
    static __device__ real<E> start() { return highest<real<E>>(); }
};
template <>
struct min_to<uint8_t, uint8_t> : reduction<uint8_t, int32_t, int32_t, uint8_t, take_min> {
    static __device__ int32_t start() { return UINT8_MAX; }
};
template <>
struct min_to<boolean, boolean> : reduction<boolean, int32_t, int32_t, boolean, take_min> {
    static __device__ int32_t start() { return 1; }
};

template <class E, class Out> struct product_to : reduction<E, real<E>, double, Out, take_product> {
    static __device__ real<E> start() { return 1; }
};
template <class E>
struct integer_product_to : reduction<E, int64_t, int64_t, int64_t, take_product> {
    static __device__ int64_t start() { return 1; }
};

template <class E> struct count_of : reduction<E, int32_t, int64_t, int64_t, take_sum> {
    static __device__ int32_t start() { return 0; }
    static __device__ int32_t map(real<E> v, int32_t) { return v != 0; }
};

template <template <class, class> class Op, class E> constexpr wf_kernel_run *own()
{
    return run_reduce<Op<E, E>, E>;
}

template <template <class, class> class Op, class E, class Out> constexpr wf_kernel_run *wide()
{
    return run_reduce<Op<E, Out>, E>;
}

template <class E> constexpr wf_kernel_run *count() { return run_reduce<count_of<E>, E>; }

/* By dtype: f32, f64, bf16, f16, i32, i64, u8, bool. */
const reduce_runs sums[] = {
    {own<sum_to, float>(), NULL},
    {own<sum_to, double>(), NULL},
    {own<sum_to, bf16>(), wide<sum_to, bf16, float>()},
    {own<sum_to, f16>(), wide<sum_to, f16, float>()},
    {own<integer_sum_to, int32_t>(), wide<integer_sum_to, int32_t, int64_t>()},
    {own<integer_sum_to, int64_t>(), NULL},
    {NULL, wide<integer_sum_to, uint8_t, int64_t>()},
    {NULL, wide<integer_sum_to, boolean, int64_t>()},
};

template <template <class, class> class Op> struct extremes {
    static constexpr reduce_runs runs[] = {
        {own<Op, float>(), NULL},
        {own<Op, double>(), NULL},
        {own<Op, bf16>(), wide<Op, bf16, float>()},
        {own<Op, f16>(), wide<Op, f16, float>()},
        {own<Op, int32_t>(), NULL},
        {own<Op, int64_t>(), NULL},
        {own<Op, uint8_t>(), NULL},
        {own<Op, boolean>(), NULL},
    };
};

const reduce_runs products[] = {
    {own<product_to, float>(), NULL},
    {own<product_to, double>(), NULL},
    {own<product_to, bf16>(), wide<product_to, bf16, float>()},
    {own<product_to, f16>(), wide<product_to, f16, float>()},
    {NULL, run_reduce<integer_product_to<int32_t>, int32_t>},
    {run_reduce<integer_product_to<int64_t>, int64_t>, NULL},
    {NULL, run_reduce<integer_product_to<uint8_t>, uint8_t>},
    {NULL, run_reduce<integer_product_to<boolean>, boolean>},
};

wf_kernel_run *const counts[] = {count<float>(),   count<double>(),  count<bf16>(),
                                 count<f16>(),     count<int32_t>(), count<int64_t>(),
                                 count<uint8_t>(), count<boolean>()};

} // namespace

extern "C" weft_status wf_cuda_sum(struct wf_kernel_call *k)
{
    return prepare_reduce(k, sums, true, 1, 0);
}

extern "C" weft_status wf_cuda_max(struct wf_kernel_call *k)
{
    return prepare_reduce(k, extremes<max_to>::runs, false, 1, 0);
}

extern "C" weft_status wf_cuda_min(struct wf_kernel_call *k)
{
    return prepare_reduce(k, extremes<min_to>::runs, false, 1, 0);
}

extern "C" weft_status wf_cuda_prod(struct wf_kernel_call *k)
{
    return prepare_reduce(k, products, false, 1, 0);
}

/* Counts are i64, whatever x is. */
extern "C" weft_status wf_cuda_count_nonzero(struct wf_kernel_call *k)
{
    uint8_t x = k->in[0]->dtype;

    if (k->out[0]->dtype != WEFT_I64) return wf_cuda_fail_no_kernel(k, x);
    return prepare_reduce_with(k, counts[x], false, 1, 0);
}
