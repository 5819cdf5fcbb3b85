/*
 * resample.cu: weighted sums of windows of the last dims: means of windows, and elements between
 * elements; transposed, the gradient.
 *
 * Weights are products of one per dim. A small launch writes for each result of a dim which
 * elements it takes, and their weights; then a thread adds up each element of the result. Of the
 * gradient, the results that take an element are neighbours, because what a result takes only moves
 * on from one to the next: the first is found by halving.
 */
#include "kernels/cuda/element.h"
#include "kernels/cuda/pooling/planes.h"

extern "C" {
#define inline __host__ __device__ __forceinline__
#include "kernels/operands/element_taps.h"
#undef inline
}

namespace
{

/* A dim alone, as number 0 of attributes. */
struct resample_dim {
    wf_resample_attrs attrs;
    int32_t from, to; /* elements of the input and of the result of this call */
    int32_t most;     /* that a result takes */
};

struct resample {
    resample_dim dim[WF_SPATIAL];
    plane_elements elements; /* of the result */
    strided_planes in;
    bool transposed, narrow; /* places are computed in f32 */
};

/* A result takes `n` elements from `first` on; before the first and behind the last it takes that
 * one again. */
struct taken {
    int32_t first, n;
};

template <class T> struct weight_table {
    taken *elements; /* [to] */
    T *weights;      /* [to, most] */
};
template <class T> struct weight_tables {
    weight_table<T> of[WF_SPATIAL];
};

/* ---- tables ---- */

template <class T>
__device__ __forceinline__ void write_taps(const resample_dim &dim, bool narrow, int32_t i,
                                           taken *elements, T *weights)
{
    wf_element_taps e = wf_element_taps_of(&dim.attrs, 0, i, narrow);

    *elements = {(int32_t)e.first, (int32_t)e.n};
    for (int64_t t = 0; t < e.n; t++) weights[t] = (T)wf_element_tap_weight(&e, t);
}

/* Of element `at` in a result whose taps have it; of the first and the last some may be it. */
__device__ __forceinline__ double weight_of_element(const wf_element_taps &e, int64_t at,
                                                    int64_t size)
{
    double weight = 0;

    if (at > 0 && at < size - 1) return wf_element_tap_weight(&e, at - e.first);
    for (int64_t t = 0; t < e.n; t++)
        if (wf_element_tap_index(&e, t, size) == at) weight += wf_element_tap_weight(&e, t);
    return weight;
}

/* The first result whose last tap is element `at` or behind it. */
__device__ __forceinline__ int32_t first_result_of(const resample_dim &dim, bool narrow, int32_t at)
{
    int32_t low = 0, high = dim.from;

    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        wf_element_taps e = wf_element_taps_of(&dim.attrs, 0, middle, narrow);

        if (wf_element_tap_index(&e, e.n - 1, dim.to) < at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

template <class T>
__device__ __forceinline__ void write_results(const resample_dim &dim, bool narrow, int32_t at,
                                              taken *results, T *weights)
{
    int32_t first = first_result_of(dim, narrow, at), n = 0;

    for (; first + n < dim.from && n < dim.most; n++) {
        wf_element_taps e = wf_element_taps_of(&dim.attrs, 0, first + n, narrow);

        if (wf_element_tap_index(&e, 0, dim.to) > at) break;
        weights[n] = (T)weight_of_element(e, at, dim.to);
    }
    *results = {first, n};
}

template <class T>
__global__ void __launch_bounds__(BLOCK) make_tables(resample p, weight_tables<T> tables)
{
    const resample_dim &dim = p.dim[blockIdx.y];
    weight_table<T> table = blockIdx.y == 0   ? tables.of[0]
                            : blockIdx.y == 1 ? tables.of[1]
                                              : tables.of[2]; /* an index would copy all of it */
    int32_t i = blockIdx.x * BLOCK + threadIdx.x;

    if (i >= dim.to) return;
    table.elements += i;
    table.weights += (int64_t)i * dim.most;
    if (p.transposed)
        write_results(dim, p.narrow, i, table.elements, table.weights);
    else
        write_taps(dim, p.narrow, i, table.elements, table.weights);
}

/* ---- sums ---- */

template <class E>
__global__ void __launch_bounds__(BLOCK)
    resample_planes(resample p, weight_tables<real<E>> tables, int64_t first_plane, uint32_t count,
                    const E *x, E *y)
{
    uint32_t number = blockIdx.x * BLOCK + threadIdx.x;
    const real<E> *weights[WF_SPATIAL];
    taken at[WF_SPATIAL];
    real<E> sum = 0;
    plane_place o;

    if (number >= count) return;
    o = place_of_element(p.elements, number);
    x += map_offset(p.in.first, first_plane + o.plane);
#pragma unroll
    for (int d = 0; d < WF_SPATIAL; d++) {
        at[d] = tables.of[d].elements[o.at[d]];
        weights[d] = tables.of[d].weights + (int64_t)o.at[d] * p.dim[d].most;
    }
    for (int a = 0; a < at[0].n; a++) {
        int64_t i = wf_index_within(at[0].first + a, p.dim[0].from);

        for (int b = 0; b < at[1].n; b++) {
            int64_t j = wf_index_within(at[1].first + b, p.dim[1].from);
            real<E> line = 0;

            for (int c = 0; c < at[2].n; c++) {
                int64_t k = wf_index_within(at[2].first + c, p.dim[2].from);

                line += weights[2][c] * to_real(x[p.in.offset(i, j, k)]);
            }
            sum += weights[0][a] * weights[1][b] * line;
        }
    }
    y[number] = from_real<E>(sum);
}

/* ---- calls ---- */

/* Tables in scratch memory: weights of all dims, then what is taken. */
template <class T> weight_tables<T> tables_in_scratch(const resample *p)
{
    size_t weights = 0, results = 0;
    weight_tables<T> tables;
    taken *elements;
    T *at;

    for (int d = 0; d < WF_SPATIAL; d++) {
        weights += (size_t)p->dim[d].to * (size_t)p->dim[d].most;
        results += (size_t)p->dim[d].to;
    }
    weights += weights % 2; /* what follows is aligned to 8 bytes */
    at = (T *)wf_cuda_scratch(weights * sizeof(T) + results * sizeof(taken));
    elements = (taken *)(at + weights);
    for (int d = 0; d < WF_SPATIAL; d++) {
        tables.of[d] = {elements, at};
        elements += p->dim[d].to;
        at += (int64_t)p->dim[d].to * p->dim[d].most;
    }
    return tables;
}

template <class E>
void run_resample(const wf_kernel_call *k, void *const *out, const void *const *in,
                  const wf_scalars *)
{
    const resample *p = (const resample *)k->prep;
    weight_tables<real<E>> tables = tables_in_scratch<real<E>>(p);
    int32_t longest = 1;

    for (int d = 0; d < WF_SPATIAL; d++)
        if (p->dim[d].to > longest) longest = p->dim[d].to;
    WF_CUDA_LAUNCH(k, make_tables<real<E>>, dim3(blocks_for(longest, BLOCK), WF_SPATIAL), BLOCK, 0,
                   *p, tables);
    launch_by_planes(p->elements, [&](int64_t first, uint32_t count) {
        WF_CUDA_LAUNCH(k, resample_planes<E>, blocks_for(count, BLOCK), BLOCK, 0, *p, tables, first,
                       count, (const E *)in[0], (E *)out[0] + first * p->elements.each.value);
    });
}

/* The most elements that a result takes. */
int32_t largest_tap_count(const wf_resample_attrs &a, bool narrow)
{
    int64_t most = 1;

    for (int64_t i = 0; i < a.to[0]; i++) {
        int64_t n = wf_element_taps_of(&a, 0, i, narrow).n;

        if (n > most) most = n;
    }
    return (int32_t)most;
}

/* The most results that take the same element; those from i to j - 1 take the last one of i. Two
 * more, since a GPU may round a place, which two results at most depend on, another way. */
int32_t largest_result_count(const wf_resample_attrs &a, bool narrow)
{
    int64_t most = 1, j = 0;

    for (int64_t i = 0; i < a.to[0]; i++) {
        wf_element_taps e = wf_element_taps_of(&a, 0, i, narrow), next;
        int64_t last = wf_element_tap_index(&e, e.n - 1, a.size[0]);

        for (; j < a.to[0]; j++) {
            next = wf_element_taps_of(&a, 0, j, narrow);
            if (wf_element_tap_index(&next, 0, a.size[0]) > last) break;
        }
        if (j - i > most) most = j - i;
    }
    return (int32_t)most + 2;
}

/* Dim d of WF_SPATIAL; one that there is not stays as it is. */
resample_dim dim_of(const wf_resample_attrs &a, int d, bool narrow)
{
    int own = d - (WF_SPATIAL - a.dims);
    resample_dim dim = {};

    dim.attrs.mode = own < 0 ? (uint8_t)WF_RESAMPLE_NEAREST : a.mode;
    dim.attrs.option = a.option;
    dim.attrs.size[0] = own < 0 ? 1 : a.size[own];
    dim.attrs.to[0] = own < 0 ? 1 : a.to[own];
    dim.attrs.kernel[0] = own < 0 ? 1 : a.kernel[own];
    dim.attrs.stride[0] = own < 0 ? 1 : a.stride[own];
    dim.attrs.before[0] = own < 0 ? 0 : a.before[own];
    dim.attrs.scale[0] = own < 0 ? 0 : a.scale[own];
    dim.from = a.transposed ? dim.attrs.to[0] : dim.attrs.size[0];
    dim.to = a.transposed ? dim.attrs.size[0] : dim.attrs.to[0];
    dim.most = a.transposed ? largest_result_count(dim.attrs, narrow)
                            : largest_tap_count(dim.attrs, narrow);
    return dim;
}

} // namespace

extern "C" weft_status wf_cuda_resample(struct wf_kernel_call *k)
{
    static wf_kernel_run *const runs[] = {run_resample<float>, run_resample<double>,
                                          run_resample<bf16>, run_resample<f16>};
    const wf_resample_attrs &a = k->attrs->resample;
    uint8_t dtype = k->out[0]->dtype;
    resample *p;

    if (dtype >= WF_CUDA_FLOAT_DTYPES) return wf_cuda_fail_no_kernel(k, dtype);
    if (k->in[0]->dtype != dtype) return wf_cuda_fail_no_kernel(k, k->in[0]->dtype);
    k->run = wf_cuda_run_nothing;
    if (k->out[0]->numel == 0) return WEFT_OK;
    if (!plane_fits_launch(k->out[0], a.dims)) return wf_cuda_fail_no_kernel(k, dtype);
    k->prep = p = WF_NEW(resample);
    p->narrow = dtype != WEFT_F64;
    p->transposed = a.transposed;
    p->elements = plane_elements_of(k->out[0], a.dims);
    p->in = planes_of(k->in[0], a.dims);
    for (int d = 0; d < WF_SPATIAL; d++) p->dim[d] = dim_of(a, d, p->narrow);
    k->run = runs[dtype];
    return WEFT_OK;
}
