/* gradients.cu: scaling, adding and clamping of gradients; the table of optimizer_kernels.h. */
#include "kernels/cuda/optimizer/optimizer_kernels.h"
#include "kernels/cuda/pointwise/arrays.h"

template <class E> struct scaled : makes<E, E> {
    real<E> factor;

    explicit scaled(double s) : factor((real<E>)s) {}
    __device__ __forceinline__ E operator()(E x, absent, absent) const
    {
        return from_real<E>(to_real(x) * factor);
    }
};

template <class E> struct scaled_by : makes<E, E> {
    const double *factor;

    explicit scaled_by(const double *s) : factor(s) {}
    __device__ __forceinline__ E operator()(E x, absent, absent) const
    {
        return from_real<E>(to_real(x) * (real<E>)__ldg(factor));
    }
};

template <class E> struct sum_with : makes<E, E, E> {
    real<E> a;

    explicit sum_with(double s) : a((real<E>)s) {}
    __device__ __forceinline__ E operator()(E y, E x, absent) const
    {
        return from_real<E>(to_real(y) + a * to_real(x));
    }
};

template <class E> struct clamped : makes<E, E> {
    real<E> most;

    explicit clamped(double limit) : most((real<E>)limit) {}
    __device__ __forceinline__ E operator()(E x, absent, absent) const
    {
        const real<E> v = to_real(x);

        return from_real<E>(v > most ? most : v < -most ? -most : v);
    }
};

/* One thread; the formula is the CPU's. */
static __global__ void find_clip_factor(double *total, double p, double max_norm)
{
    double norm = isinf(p) ? *total : p == 2 ? sqrt(*total) : pow(*total, 1 / p);
    double factor = max_norm / (norm + 1e-6);

    *total = factor < 1 ? factor : 1;
}

template <class R> struct synced : makes<float, float, R> {
    __device__ __forceinline__ float operator()(float master, R w, absent) const
    {
        return synced_master(master, w);
    }
};

/* Run a functor that is made of one number, in place. */
template <template <class> class F>
static void run_in_place(const char *op, weft_dtype dtype, int64_t count, void *x, double number)
{
    with_float_type(dtype, [&](auto e) {
        wf_arrays_run_in_place(op, F<typename decltype(e)::type>(number), count, x);
    });
}

static void scale(weft_dtype dtype, int64_t count, void *x, double s)
{
    run_in_place<scaled>("scale", dtype, count, x, s);
}

static void clamp(weft_dtype dtype, int64_t count, void *x, double limit)
{
    run_in_place<clamped>("clamp", dtype, count, x, limit);
}

static void scale_by(weft_dtype dtype, int64_t count, void *x, const double *s)
{
    with_float_type(dtype, [&](auto e) {
        wf_arrays_run_in_place("scale_by", scaled_by<typename decltype(e)::type>(s), count, x);
    });
}

static void make_clip_factor(double *total, double p, double max_norm)
{
    wf_cuda_check_launch(gpu_launch(find_clip_factor, dim3(1), dim3(1), 0, wf_cuda_compute_stream(),
                                    total, p, max_norm),
                         "clip factor");
}

static void axpy(weft_dtype dtype, int64_t count, void *y, double a, const void *x)
{
    char *const at[WF_ELEMENTWISE_OPERANDS] = {(char *)y, (char *)y, (char *)x};

    with_float_type(dtype, [&](auto e) {
        wf_arrays_run("axpy", sum_with<typename decltype(e)::type>(a), count, at);
    });
}

static void sync_master_weights(weft_dtype dtype, int64_t count, float *master, const void *w)
{
    char *const at[WF_ELEMENTWISE_OPERANDS] = {(char *)master, (char *)master, (char *)w};

    if (dtype == WEFT_BF16)
        wf_arrays_run("sync of master weights", synced<bf16>(), count, at);
    else
        wf_arrays_run("sync of master weights", synced<f16>(), count, at);
}

const struct wf_optimizer_kernels wf_cuda_optimizer_kernels = {wf_cuda_optimizer_steps,
                                                               sync_master_weights,
                                                               wf_cuda_add_squares,
                                                               wf_cuda_add_powers,
                                                               wf_cuda_atomic_max,
                                                               scale,
                                                               axpy,
                                                               clamp,
                                                               make_clip_factor,
                                                               scale_by};
