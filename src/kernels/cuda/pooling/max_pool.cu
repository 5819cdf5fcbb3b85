/*
 * max_pool.cu: the largest element of each window of the last dims, and its gradient.
 *
 * Of equal elements the first is the largest, what is not a number is larger than all, and the last
 * of those is taken. For a gradient each element of x asks the windows that reach it whether it is
 * theirs, and adds up in their order.
 */
#include "kernels/cuda/element.h"
#include "kernels/cuda/pooling/planes.h"

namespace
{

struct max_windows {
    int32_t size[WF_SPATIAL], to[WF_SPATIAL], kernel[WF_SPATIAL];
    int32_t stride[WF_SPATIAL], before[WF_SPATIAL], dilation[WF_SPATIAL];
};

struct max_pool {
    max_windows windows;
    plane_elements elements; /* of the result */
    strided_planes in;       /* x, or d */
    strided_planes indices;  /* of a gradient */
    divisor stride[WF_SPATIAL];
};

template <class E>
__global__ void __launch_bounds__(BLOCK)
    max_pool_planes(max_pool p, int64_t first_plane, uint32_t count, const E *x, E *y,
                    int64_t *indices)
{
    const max_windows &w = p.windows;
    uint32_t number = blockIdx.x * BLOCK + threadIdx.x;
    int32_t start[WF_SPATIAL], index = -1;
    real<E> best = lowest<real<E>>();
    plane_place o;

    if (number >= count) return;
    o = place_of_element(p.elements, number);
    x += map_offset(p.in.first, first_plane + o.plane);
#pragma unroll
    for (int d = 0; d < WF_SPATIAL; d++) start[d] = o.at[d] * w.stride[d] - w.before[d];
    for (int a = 0, i = start[0]; a < w.kernel[0]; a++, i += w.dilation[0]) {
        if (i < 0 || i >= w.size[0]) continue;
        for (int b = 0, j = start[1]; b < w.kernel[1]; b++, j += w.dilation[1]) {
            const E *line = x + (i * p.in.step[0] + j * p.in.step[1]);

            if (j < 0 || j >= w.size[1]) continue;
            for (int c = 0, k = start[2]; c < w.kernel[2]; c++, k += w.dilation[2]) {
                real<E> v;

                if (k < 0 || k >= w.size[2]) continue;
                v = to_real(line[k * p.in.step[2]]);
                if (index >= 0 && !(v > best) && v == v) continue;
                best = v;
                index = (i * w.size[1] + j) * w.size[2] + k;
            }
        }
    }
    y[number] = from_real<E>(best);
    indices[number] = index;
}

/* The windows of a dim that may reach element `at`: [first, end). */
__device__ __forceinline__ void windows_at(const max_pool &p, int d, int32_t at, int32_t *first,
                                           int32_t *end)
{
    const max_windows &w = p.windows;
    int32_t last = at + w.before[d], earliest = last - (w.kernel[d] - 1) * w.dilation[d];

    *first =
        earliest > 0 ? (int32_t)divide((uint32_t)(earliest + w.stride[d] - 1), p.stride[d]) : 0;
    *end = (int32_t)divide((uint32_t)last, p.stride[d]) + 1;
    if (*end > w.to[d]) *end = w.to[d];
}

template <class E>
__global__ void __launch_bounds__(BLOCK)
    max_pool_grad_planes(max_pool p, int64_t first_plane, uint32_t count, const E *d,
                         const int64_t *indices, E *dx)
{
    uint32_t number = blockIdx.x * BLOCK + threadIdx.x;
    int32_t first[WF_SPATIAL], end[WF_SPATIAL];
    real<E> sum = 0;
    plane_place o;

    if (number >= count) return;
    o = place_of_element(p.elements, number);
    d += map_offset(p.in.first, first_plane + o.plane);
    indices += map_offset(p.indices.first, first_plane + o.plane);
#pragma unroll
    for (int i = 0; i < WF_SPATIAL; i++) windows_at(p, i, o.at[i], &first[i], &end[i]);
    for (int i = first[0]; i < end[0]; i++)
        for (int j = first[1]; j < end[1]; j++)
            for (int k = first[2]; k < end[2]; k++)
                if (indices[p.indices.offset(i, j, k)] == (int64_t)o.number)
                    sum += to_real(d[p.in.offset(i, j, k)]);
    dx[number] = from_real<E>(sum);
}

template <class E>
void run_max_pool(const wf_kernel_call *k, void *const *out, const void *const *in,
                  const wf_scalars *)
{
    const max_pool *p = (const max_pool *)k->prep;

    launch_by_planes(p->elements, [&](int64_t first, uint32_t count) {
        int64_t before = first * p->elements.each.value;

        WF_CUDA_LAUNCH(k, max_pool_planes<E>, blocks_for(count, BLOCK), BLOCK, 0, *p, first, count,
                       (const E *)in[0], (E *)out[0] + before, (int64_t *)out[1] + before);
    });
}

template <class E>
void run_max_pool_grad(const wf_kernel_call *k, void *const *out, const void *const *in,
                       const wf_scalars *)
{
    const max_pool *p = (const max_pool *)k->prep;

    launch_by_planes(p->elements, [&](int64_t first, uint32_t count) {
        WF_CUDA_LAUNCH(k, max_pool_grad_planes<E>, blocks_for(count, BLOCK), BLOCK, 0, *p, first,
                       count, (const E *)in[0], (const int64_t *)in[1],
                       (E *)out[0] + first * p->elements.each.value);
    });
}

max_windows windows_from_attrs(const wf_windows_attrs &a)
{
    max_windows w;

    spread_to_spatial_dims(w.size, a.size, a.dims, 1);
    spread_to_spatial_dims(w.to, a.to, a.dims, 1);
    spread_to_spatial_dims(w.kernel, a.kernel, a.dims, 1);
    spread_to_spatial_dims(w.stride, a.stride, a.dims, 1);
    spread_to_spatial_dims(w.before, a.before, a.dims, 0);
    spread_to_spatial_dims(w.dilation, a.dilation, a.dims, 1);
    return w;
}

weft_status prepare_max_pool(wf_kernel_call *k, wf_kernel_run *const *runs)
{
    const wf_windows_attrs &a = k->attrs->windows;
    uint8_t dtype = k->out[0]->dtype;
    max_pool *p;

    if (dtype >= WF_CUDA_FLOAT_DTYPES) return wf_cuda_fail_no_kernel(k, dtype);
    if (k->in[0]->dtype != dtype) return wf_cuda_fail_no_kernel(k, k->in[0]->dtype);
    if (k->n_in > 1 && k->in[1]->dtype != WEFT_I64)
        return wf_cuda_fail_no_kernel(k, k->in[1]->dtype);
    k->run = wf_cuda_run_nothing;
    if (k->out[0]->numel == 0) return WEFT_OK;
    if (!plane_fits_launch(k->out[0], a.dims) || !plane_fits_launch(k->in[0], a.dims))
        return wf_cuda_fail_no_kernel(k, dtype);
    k->prep = p = WF_NEW(max_pool);
    p->windows = windows_from_attrs(a);
    p->elements = plane_elements_of(k->out[0], a.dims);
    p->in = planes_of(k->in[0], a.dims);
    if (k->n_in > 1) p->indices = planes_of(k->in[1], a.dims);
    for (int d = 0; d < WF_SPATIAL; d++) p->stride[d] = divisor_of((uint32_t)p->windows.stride[d]);
    k->run = runs[dtype];
    return WEFT_OK;
}

} // namespace

extern "C" weft_status wf_cuda_max_pool(struct wf_kernel_call *k)
{
    static wf_kernel_run *const runs[] = {run_max_pool<float>, run_max_pool<double>,
                                          run_max_pool<bf16>, run_max_pool<f16>};

    return prepare_max_pool(k, runs);
}

extern "C" weft_status wf_cuda_max_pool_grad(struct wf_kernel_call *k)
{
    static wf_kernel_run *const runs[] = {run_max_pool_grad<float>, run_max_pool_grad<double>,
                                          run_max_pool_grad<bf16>, run_max_pool_grad<f16>};

    return prepare_max_pool(k, runs);
}
