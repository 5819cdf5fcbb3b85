/* uniform_normal.cu: uniform and normal numbers of the computing type; preparing of all random
 * kernels. */
#include "kernels/cuda/random/random_kernel.h"

/* ---- preparing ---- */

static void free_random_elements(void *prep)
{
    struct wf_global_elements *places = (struct wf_global_elements *)prep;

    wf_global_elements_free(places);
    wf_free(places);
}

weft_status wf_cuda_random_prepare(struct wf_kernel_call *k, wf_kernel_run *run)
{
    struct wf_global_elements *places;

    if (!run) return wf_cuda_fail_no_kernel(k, k->out[0]->dtype);
    for (int i = 0; i < k->n_in; i++)
        WF_NEED(k->in[i]->dtype == k->out[0]->dtype, WEFT_ERR_DTYPE, "%s: %s beside %s", k->op,
                wf_dtypes[k->out[0]->dtype].name, wf_dtypes[k->in[i]->dtype].name);
    k->prep = places = WF_NEW(struct wf_global_elements);
    k->drop = free_random_elements;
    wf_global_elements_make(places, k->out[0], k->n_in ? k->in[0] : NULL);
    k->run = run;
    return WEFT_OK;
}

/* ---- kernels ---- */

/* base + scale * value as elements; results that do not lie below `limit` become `cap`. */
template <class E> struct affine {
    real<E> base, scale, limit, cap;

    __device__ __forceinline__ E operator()(real<E> value) const
    {
        E e = from_real<E>(base + scale * value);

        return to_real(e) >= limit ? from_real<E>(cap) : e;
    }
};

template <class E> struct uniform {
    typedef E Y;
    typedef absent X;
    philox_key key;
    affine<E> of;

    uniform(const struct wf_scalars *scalars, uint8_t dtype) : key(scalars)
    {
        double low = scalars->s[0], high = scalars->s[1];

        of = {(real<E>)low, (real<E>)(high - low), (real<E>)(low < high ? high : INFINITY),
              (real<E>)wf_random_largest_below(dtype, low, high)};
    }
    __device__ __forceinline__ void operator()(int64_t group, const X (&)[WF_GROUP],
                                               Y (&y)[WF_GROUP]) const
    {
        real<E> value[WF_GROUP];

        uniform_numbers(key, group, value);
#pragma unroll
        for (int i = 0; i < WF_GROUP; i++) y[i] = of(value[i]);
    }
};

template <class E> struct normal {
    typedef E Y;
    typedef absent X;
    philox_key key;
    affine<E> of;

    normal(const struct wf_scalars *scalars, uint8_t) : key(scalars)
    {
        of = {(real<E>)scalars->s[0], (real<E>)scalars->s[1], (real<E>)INFINITY, (real<E>)INFINITY};
    }
    __device__ __forceinline__ void operator()(int64_t group, const X (&)[WF_GROUP],
                                               Y (&y)[WF_GROUP]) const
    {
        real<E> value[WF_GROUP];

        normal_numbers(key, group, value);
#pragma unroll
        for (int i = 0; i < WF_GROUP; i++) y[i] = of(value[i]);
    }
};

weft_status wf_cuda_uniform(struct wf_kernel_call *k)
{
    return wf_cuda_random_prepare(k, wf_cuda_random_of_float<uniform>(k->out[0]->dtype));
}

weft_status wf_cuda_normal(struct wf_kernel_call *k)
{
    return wf_cuda_random_prepare(k, wf_cuda_random_of_float<normal>(k->out[0]->dtype));
}
