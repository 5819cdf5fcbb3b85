/*
 * histogram.cu: how many elements lie in each of some equal bins between two numbers.
 *
 * Counts are integers, so additions in any order give the same: each warp of a block has counters
 * in shared memory where they fit, else some share them, and blocks add theirs to counters in
 * global memory. Where there are more bins than shared memory has room for, elements are counted
 * there at once.
 */
#include "kernels/cuda/offset_map.h"
#include "kernels/cuda/prepare.h"
#include "kernels/cuda/reductions/row_loop.h"

extern "C" {
#include "kernels/cuda/driver_kernels.h"
}

namespace
{

enum {
    X,
    RANGE,
    SHARED_COUNTERS = 8192, /* of a block: 32 KiB */
    BLOCKS_OF_PROCESSOR = 4
};

struct histogram {
    int64_t count, step; /* elements of x; between them, of a single dim */
    bool one_dim;
    int bins, copies; /* of the counters of a block; 0: they do not fit */
    int64_t range_step;
    offset_map elements; /* number of an element -> where it lies */
};

/* The counters of a block, or of all. */
struct counters {
    uint32_t *of_block; /* of this warp; NULL: there are none */
    unsigned long long *of_all;
};

/* The bins as numbers of type T. */
template <class T> struct bin_range {
    T least, most, scale;

    __device__ __forceinline__ void count(const counters &to, uint32_t bins, T v) const
    {
        T place;
        uint32_t bin;

        v *= scale;
        place = (v - least) / (most - least) * (T)bins;
        if (!(v >= least && v <= most && place >= 0)) return; /* no number: of an infinite range */
        bin = (uint32_t)(int)place;
        if (bin >= bins) bin = bins - 1; /* the last one has its end too */
        if (to.of_block)
            atomicAdd(&to.of_block[bin], 1u);
        else
            atomicAdd(&to.of_all[bin], 1ull);
    }
};

template <class E>
__device__ __forceinline__ bin_range<real<E>> range_of(const E *range, int64_t step)
{
    bin_range<real<E>> r = {to_real(range[0]), to_real(range[step]), 1};

    if (r.least == r.most) { /* as of equal elements */
        r.least -= 1;
        r.most += 1;
    }
    /* of ends so far apart that their difference is infinite */
    if (!(r.most - r.least <= real_most<real<E>>())) r.scale = (real<E>)0.5;
    r.least *= r.scale;
    r.most *= r.scale;
    return r;
}

/* Part blockIdx.x of gridDim.x of the elements, in packs where they lie together. */
template <class E>
__device__ __forceinline__ void count_part(const histogram &p, const counters &to, const E *x,
                                           const E *range)
{
    bin_range<real<E>> r = range_of(range, p.range_step);
    int64_t each = (p.count + gridDim.x - 1) / gridDim.x;
    int64_t first = blockIdx.x * each, n = p.count - first < each ? p.count - first : each;

    if (p.one_dim) {
        for_row_packs(x + first * p.step, n, p.step, [&](const pack<E> &v, int64_t, int count) {
            for (int i = 0; i < count; i++) r.count(to, (uint32_t)p.bins, to_real(v.at[i]));
        });
        return;
    }
    for (int64_t i = first + threadIdx.x; i < first + n; i += BLOCK)
        r.count(to, (uint32_t)p.bins, to_real(x[map_offset(p.elements, i)]));
}

template <class E>
__global__ void __launch_bounds__(BLOCK)
    count_by_blocks(histogram p, const E *x, const E *range, unsigned long long *counts)
{
    GPU_DYNAMIC_SHARED(uint32_t, of_copies);
    int all = p.bins * p.copies;

    for (int i = threadIdx.x; i < all; i += BLOCK) of_copies[i] = 0;
    __syncthreads();
    count_part(p, {of_copies + (threadIdx.x / WARP % p.copies) * p.bins, counts}, x, range);
    __syncthreads();
    for (int bin = threadIdx.x; bin < p.bins; bin += BLOCK) {
        uint32_t sum = 0;

        for (int copy = 0; copy < p.copies; copy++) sum += of_copies[copy * p.bins + bin];
        if (sum) atomicAdd(&counts[bin], (unsigned long long)sum);
    }
}

template <class E>
__global__ void __launch_bounds__(BLOCK)
    count_at_once(histogram p, const E *x, const E *range, unsigned long long *counts)
{
    count_part(p, {NULL, counts}, x, range);
}

template <class E>
__global__ void __launch_bounds__(BLOCK)
    store_counts(int bins, const unsigned long long *counts, E *y)
{
    int bin = blockIdx.x * BLOCK + threadIdx.x;

    if (bin < bins) y[bin] = from_real<E>((real<E>)counts[bin]);
}

template <class E>
void run_histogram(const wf_kernel_call *k, void *const *out, const void *const *in,
                   const wf_scalars *)
{
    const histogram *p = (const histogram *)k->prep;
    size_t bytes = (size_t)p->bins * sizeof(unsigned long long);
    unsigned long long *counts = (unsigned long long *)wf_cuda_scratch(bytes), zero = 0;
    unsigned blocks = blocks_for(p->count, (int64_t)BLOCK * pack<E>::n);
    unsigned most = (unsigned)(wf_cuda_multiprocessors() * BLOCKS_OF_PROCESSOR);

    if (blocks > most) blocks = most;
    wf_cuda_fill_elements(counts, &zero, sizeof zero, (size_t)p->bins);
    if (blocks && p->copies)
        WF_CUDA_LAUNCH(k, count_by_blocks<E>, blocks, BLOCK,
                       (size_t)(p->copies * p->bins) * sizeof(uint32_t), *p, (const E *)in[X],
                       (const E *)in[RANGE], counts);
    else if (blocks)
        WF_CUDA_LAUNCH(k, count_at_once<E>, blocks, BLOCK, 0, *p, (const E *)in[X],
                       (const E *)in[RANGE], counts);
    WF_CUDA_LAUNCH(k, store_counts<E>, blocks_for(p->bins, BLOCK), BLOCK, 0, p->bins,
                   (const unsigned long long *)counts, (E *)out[0]);
}

} // namespace

extern "C" weft_status wf_cuda_histogram(struct wf_kernel_call *k)
{
    static wf_kernel_run *const runs[] = {run_histogram<float>, run_histogram<double>,
                                          run_histogram<bf16>, run_histogram<f16>};
    const wf_tensor_desc *x = k->in[X];
    int64_t bins = k->attrs->histogram.bins;
    wf_loop_nest nest;
    histogram *p;

    if (x->dtype >= WF_CUDA_FLOAT_DTYPES || bins > INT32_MAX)
        return wf_cuda_fail_no_kernel(k, x->dtype);
    WF_TRY(wf_check_input_dtypes(k, 0, x->dtype));
    k->run = wf_cuda_run_nothing;
    if (k->out[0]->numel == 0) return WEFT_OK;
    k->prep = p = WF_NEW(histogram);
    wf_loop_nest_of_dims(&nest, x, -1, true);
    p->elements = offset_map_of(&nest, 0, wf_dtypes[x->dtype].size);
    p->count = x->numel;
    p->one_dim = nest.n_dims <= 1;
    p->step = nest.n_dims ? p->elements.step[0] : 1;
    p->range_step = k->in[RANGE]->stride[0];
    p->bins = (int)bins;
    p->copies = bins <= SHARED_COUNTERS / WARPS ? WARPS : (int)(SHARED_COUNTERS / bins);
    k->run = runs[x->dtype];
    return WEFT_OK;
}
