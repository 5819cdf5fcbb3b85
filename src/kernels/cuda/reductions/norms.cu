/*
 * norms.cu: p-norms, squares about a number and exponentials less a number, added up over any dims
 * (reduce_loops.h).
 */
#include "kernels/cuda/reductions/reduce_loops.h"

namespace
{

/* The number of every output, and what the result is finished by, is p: 0, 1 or 2. Squares of f32
 * may be larger than any f32. */
template <class E, class Out> struct norm_to : reduction<E, double, double, Out, take_sum> {
    static __device__ double start() { return 0; }
    static __device__ double map(real<E> v, double p)
    {
        double size = v < 0 ? -(double)v : (double)v;

        return p == 2 ? size * size : p == 1 ? size : size != 0;
    }
    static __device__ Out finish(double value, double p)
    {
        return from_real<Out>((real<Out>)(p == 2 ? sqrt(value) : value));
    }
};

/* Of another p than 0, 1 and 2. */
template <class E, class Out> struct power_to : norm_to<E, Out> {
    static const bool has_long_map = true;
    static __device__ double map(real<E> v, double p)
    {
        return pow(v < 0 ? -(double)v : (double)v, p);
    }
    static __device__ Out finish(double value, double p)
    {
        return from_real<Out>((real<Out>)pow(value, 1 / p));
    }
};

template <class E, class Out> struct largest_to : reduction<E, real<E>, real<E>, Out, take_max> {
    static __device__ real<E> start() { return 0; }
    static __device__ real<E> map(real<E> v, real<E>) { return v < 0 ? -v : v; }
};

template <class E, class Out> struct least_to : reduction<E, real<E>, real<E>, Out, take_min> {
    static __device__ real<E> start() { return highest<real<E>>(); }
    static __device__ real<E> map(real<E> v, real<E>) { return v < 0 ? -v : v; }
};

template <class E, class Out> struct deviation_to : reduction<E, real<E>, double, Out, take_sum> {
    static __device__ real<E> start() { return 0; }
    static __device__ real<E> map(real<E> v, real<E> q) { return (v - q) * (v - q); }
};

template <class E, class Out> struct sum_exp_to : reduction<E, real<E>, double, Out, take_sum> {
    static __device__ real<E> start() { return 0; }
    static __device__ real<E> map(real<E> v, real<E> q) { return real_exp(v - q); }
};

template <template <class, class> class Op> struct of_floats {
    static constexpr reduce_runs runs[WEFT_DTYPE_COUNT] = {
        {run_reduce<Op<float, float>, float>, NULL},
        {run_reduce<Op<double, double>, double>, NULL},
        {NULL, run_reduce<Op<bf16, float>, bf16>},
        {NULL, run_reduce<Op<f16, float>, f16>},
    };
};

} // namespace

extern "C" weft_status wf_cuda_norm(struct wf_kernel_call *k)
{
    double p = k->attrs->norm.p;

    if (isinf(p))
        return prepare_reduce(k, p > 0 ? of_floats<largest_to>::runs : of_floats<least_to>::runs,
                              false, 1, 0);
    return prepare_reduce(
        k, p == 0 || p == 1 || p == 2 ? of_floats<norm_to>::runs : of_floats<power_to>::runs, false,
        p, p);
}

extern "C" weft_status wf_cuda_deviation(struct wf_kernel_call *k)
{
    return prepare_reduce(k, of_floats<deviation_to>::runs, false, 1, 0);
}

extern "C" weft_status wf_cuda_sum_exp(struct wf_kernel_call *k)
{
    return prepare_reduce(k, of_floats<sum_exp_to>::runs, false, 1, 0);
}
