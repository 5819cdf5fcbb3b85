/* distributions.cu: numbers that are computed as f64, or as integers, and cast to the output's
 * dtype. */
#include "kernels/cuda/random/random_kernel.h"

/* What a distribution makes of numbers in (0, 1). Some host's and some device's business: what
 * does not change within a call is worked out when it is made. */

/* Bounds above the mean are mirrored: shares near 0 have more digits than those near 1. */
struct trunc_normal_of {
    double first, width, base, scale, low, high;

    trunc_normal_of(const struct wf_scalars *scalars, uint8_t dtype)
        : base(scalars->s[0]), low(scalars->s[2]), high(scalars->s[3])
    {
        double std = scalars->s[1], sign = low > base ? -1 : 1;

        first = normcdf_f64(((sign > 0 ? low : high) - base) * sign / std);
        width = normcdf_f64(((sign > 0 ? high : low) - base) * sign / std) - first;
        scale = sign * std;
        wf_random_bounds(dtype, &low, &high);
    }
    __device__ __forceinline__ double operator()(double u) const
    {
        return clamp(base + scale * normal_quantile(first + width * u), low, high);
    }
};

struct exponential_of {
    double rate;

    exponential_of(const struct wf_scalars *scalars, uint8_t) : rate(scalars->s[0]) {}
    __device__ __forceinline__ double operator()(double u) const
    {
        return exponential_time(u, rate);
    }
};

struct geometric_of {
    double log_failure, most;

    geometric_of(const struct wf_scalars *scalars, uint8_t dtype)
        : log_failure(log_one_minus(scalars->s[0])), most(wf_random_largest_integer(dtype))
    {
    }
    __device__ __forceinline__ double operator()(double u) const
    {
        return clamp(geometric_trials(u, log_failure), 1, most);
    }
};

template <class E, class Of> struct of_open_uniform {
    typedef E Y;
    typedef absent X;
    philox_key key;
    Of of;

    of_open_uniform(const struct wf_scalars *scalars, uint8_t dtype)
        : key(scalars), of(scalars, dtype)
    {
    }
    __device__ __forceinline__ void operator()(int64_t group, const X (&)[WF_GROUP],
                                               Y (&y)[WF_GROUP]) const
    {
        double u[WF_GROUP];

        open_uniform_numbers(key, group, u);
#pragma unroll
        for (int i = 0; i < WF_GROUP; i++) y[i] = cast_to<E>(of(u[i]));
    }
};
template <class E> using trunc_normal = of_open_uniform<E, trunc_normal_of>;
template <class E> using exponential = of_open_uniform<E, exponential_of>;
template <class E> using geometric = of_open_uniform<E, geometric_of>;

template <class E> struct log_normal {
    typedef E Y;
    typedef absent X;
    philox_key key;
    double mean, std;

    log_normal(const struct wf_scalars *scalars, uint8_t)
        : key(scalars), mean(scalars->s[0]), std(scalars->s[1])
    {
    }
    __device__ __forceinline__ void operator()(int64_t group, const X (&)[WF_GROUP],
                                               Y (&y)[WF_GROUP]) const
    {
        double value[WF_GROUP];

        normal_numbers(key, group, value);
#pragma unroll
        for (int i = 0; i < WF_GROUP; i++) y[i] = cast_to<E>(exp_f64(mean + std * value[i]));
    }
};

template <class E> struct randint {
    typedef E Y;
    typedef absent X;
    philox_key key;
    uint64_t base, range;

    randint(const struct wf_scalars *scalars, uint8_t)
        : key(scalars), base((uint64_t)scalars->v[2]), range((uint64_t)scalars->v[3])
    {
    }
    __device__ __forceinline__ void operator()(int64_t group, const X (&)[WF_GROUP],
                                               Y (&y)[WF_GROUP]) const
    {
        struct wf_philox_words high = key.first_words(group), low = key.second_words(group);

#pragma unroll
        for (int i = 0; i < WF_GROUP; i++)
            y[i] = cast_to<E>((int64_t)(base + uniform_below(range, high.w[i], low.w[i])));
    }
};

weft_status wf_cuda_trunc_normal(struct wf_kernel_call *k)
{
    return wf_cuda_random_prepare(k, wf_cuda_random_of_float<trunc_normal>(k->out[0]->dtype));
}

weft_status wf_cuda_log_normal(struct wf_kernel_call *k)
{
    return wf_cuda_random_prepare(k, wf_cuda_random_of_float<log_normal>(k->out[0]->dtype));
}

weft_status wf_cuda_exponential(struct wf_kernel_call *k)
{
    return wf_cuda_random_prepare(k, wf_cuda_random_of_float<exponential>(k->out[0]->dtype));
}

weft_status wf_cuda_geometric(struct wf_kernel_call *k)
{
    if (k->out[0]->dtype == WEFT_BOOL) return wf_cuda_fail_no_kernel(k, WEFT_BOOL);
    return wf_cuda_random_prepare(k, wf_cuda_random_of<geometric>(k->out[0]->dtype));
}

weft_status wf_cuda_randint(struct wf_kernel_call *k)
{
    return wf_cuda_random_prepare(k, wf_cuda_random_of<randint>(k->out[0]->dtype));
}
