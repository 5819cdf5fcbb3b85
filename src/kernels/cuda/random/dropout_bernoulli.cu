/* dropout_bernoulli.cu: kernels that ask of each element's word only whether it lies below a
 * share of all words. */
#include "kernels/cuda/random/random_kernel.h"

template <class E> struct bernoulli {
    typedef E Y;
    typedef absent X;
    philox_key key;
    uint64_t threshold;

    bernoulli(const struct wf_scalars *scalars, uint8_t)
        : key(scalars), threshold(wf_random_threshold(scalars->s[0]))
    {
    }
    __device__ __forceinline__ void operator()(int64_t group, const X (&)[WF_GROUP],
                                               Y (&y)[WF_GROUP]) const
    {
        struct wf_philox_words words = key.first_words(group);

#pragma unroll
        for (int i = 0; i < WF_GROUP; i++) y[i] = cast_to<E>((int32_t)(words.w[i] < threshold));
    }
};

template <class E> struct bernoulli_of {
    typedef E Y, X;
    philox_key key;

    bernoulli_of(const struct wf_scalars *scalars, uint8_t) : key(scalars) {}
    __device__ __forceinline__ void operator()(int64_t group, const X (&p)[WF_GROUP],
                                               Y (&y)[WF_GROUP]) const
    {
        struct wf_philox_words words = key.first_words(group);

#pragma unroll
        for (int i = 0; i < WF_GROUP; i++)
            y[i] = cast_to<E>(is_below_share(words.w[i], (double)to_real(p[i])));
    }
};

template <class E> struct dropout {
    typedef E Y, X;
    philox_key key;
    uint32_t threshold; /* of the words that keep an element */
    bool drops_all;
    real<E> scale;

    dropout(const struct wf_scalars *scalars, uint8_t) : key(scalars)
    {
        uint64_t share = wf_random_threshold(scalars->s[0]);

        threshold = (uint32_t)share;
        drops_all = share >> 32;
        scale = (real<E>)(1 / (1 - scalars->s[0]));
    }
    __device__ __forceinline__ void operator()(int64_t group, const X (&x)[WF_GROUP],
                                               Y (&y)[WF_GROUP]) const
    {
        struct wf_philox_words words = key.first_words(group);

#pragma unroll
        for (int i = 0; i < WF_GROUP; i++)
            y[i] = from_real<E>(words.w[i] >= threshold && !drops_all ? to_real(x[i]) * scale : 0);
    }
};

weft_status wf_cuda_bernoulli(struct wf_kernel_call *k)
{
    return wf_cuda_random_prepare(k, wf_cuda_random_of<bernoulli>(k->out[0]->dtype));
}

weft_status wf_cuda_bernoulli_of(struct wf_kernel_call *k)
{
    return wf_cuda_random_prepare(k, wf_cuda_random_of_float<bernoulli_of>(k->out[0]->dtype));
}

weft_status wf_cuda_dropout(struct wf_kernel_call *k)
{
    return wf_cuda_random_prepare(k, wf_cuda_random_of_float<dropout>(k->out[0]->dtype));
}
