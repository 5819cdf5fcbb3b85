/*
 * randperm.cu: a random permutation, of which each rank computes its own elements only
 * (isa/permutation.h). Few elements are put in order by one block, in shared memory: its threads
 * work out who changes places with whom, one of them changes the places.
 */
#include "kernels/cuda/random/random_kernel.h"

extern "C" {
#define inline __host__ __device__ inline
#include "kernels/cpu/isa/permutation.h"
#undef inline
}

/* ---- few ---- */

struct shuffle_arguments {
    void *y;
    bool wide; /* y is i64 */
    int n;
    int64_t step;                /* of y, in elements */
    int64_t global, local, size; /* elements of the whole that y gets, from `local` on */
};

__device__ __forceinline__ void store_index(void *y, bool wide, int64_t at, int64_t value)
{
    if (wide)
        ((int64_t *)y)[at] = value;
    else
        ((int32_t *)y)[at] = (int32_t)value;
}

__global__ void __launch_bounds__(WF_CUDA_BLOCK)
    shuffle_few(philox_key key, struct shuffle_arguments p)
{
    GPU_SHARED(int16_t, order, [WF_PERMUTE_WHOLE]);
    GPU_SHARED(int16_t, partner, [WF_PERMUTE_WHOLE]);

    for (int group = threadIdx.x; group * WF_GROUP < p.n; group += WF_CUDA_BLOCK) {
        struct wf_philox_words high = key.first_words(group), low = key.second_words(group);

#pragma unroll
        for (int l = 0; l < WF_GROUP; l++) { /* behind n too: there is room */
            int i = WF_GROUP * group + l;

            order[i] = (int16_t)i;
            partner[i] = (int16_t)fisher_yates_partner(i, high.w[l], low.w[l]);
        }
    }
    __syncthreads();
    for (int i = p.n - 1; i > 0 && threadIdx.x == 0; i--) {
        int16_t kept = order[i];

        order[i] = order[partner[i]];
        order[partner[i]] = kept;
    }
    __syncthreads();
    for (int64_t i = threadIdx.x; i < p.size; i += WF_CUDA_BLOCK)
        store_index(p.y, p.wide, (p.local + i) * p.step, order[p.global + i]);
}

static void run_few(const struct wf_kernel_call *k, void *const *out, const void *const *,
                    const struct wf_scalars *scalars)
{
    const struct wf_tensor_desc *y = k->out[0];
    struct wf_index_range whole = {y->offset[0], y->shape[0]};
    int64_t runs = y->runs ? y->runs->count[0] : 1, local = 0;

    for (int64_t r = 0; r < runs; r++) {
        struct wf_index_range run = y->runs ? y->runs->of[0][r] : whole;
        struct shuffle_arguments p = {out[0],       y->dtype == WEFT_I64, (int)y->global[0],
                                      y->stride[0], run.offset,           local,
                                      run.size};

        WF_CUDA_LAUNCH(k, shuffle_few, dim3(1), dim3(WF_CUDA_BLOCK), 0, philox_key(scalars), p);
        local += run.size;
    }
}

/* ---- many ---- */

template <class E> struct permuted {
    typedef E Y;
    typedef absent X;
    struct wf_permutation map;

    __device__ __forceinline__ void operator()(int64_t group, const X (&)[WF_GROUP],
                                               Y (&y)[WF_GROUP]) const
    {
#pragma unroll 1
        for (int i = 0; i < WF_GROUP; i++) {
            int64_t index = WF_GROUP * group + i;
            E value = index < map.n ? (E)permuted_index(&map, index) : 0;

#pragma unroll
            for (int j = 0; j < WF_GROUP; j++) y[j] = i == j ? value : y[j];
        }
    }
};

template <class E>
static void run_randperm_blocks(const struct wf_kernel_call *k, void *const *out,
                                const void *const *, const struct wf_scalars *scalars)
{
    struct wf_permutation map =
        make_permutation(k->out[0]->global[0], (uint64_t)scalars->v[1], (uint64_t)scalars->v[0]);

    wf_global_run(k, permuted<E>{map}, wf_cuda_random_places(k), out[0], nullptr);
}

weft_status wf_cuda_randperm(struct wf_kernel_call *k)
{
    const struct wf_tensor_desc *y = k->out[0];

    if (y->dtype != WEFT_I32 && y->dtype != WEFT_I64) return wf_cuda_fail_no_kernel(k, y->dtype);
    WF_TRY(wf_cuda_random_prepare(k, y->dtype == WEFT_I32 ? run_randperm_blocks<int32_t>
                                                          : run_randperm_blocks<int64_t>));
    if (y->numel == 0)
        k->run = wf_cuda_run_nothing;
    else if (y->global[0] <= WF_PERMUTE_WHOLE)
        k->run = run_few;
    return WEFT_OK;
}
