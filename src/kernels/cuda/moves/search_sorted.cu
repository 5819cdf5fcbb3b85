/*
 * search_sorted.cu: how many elements of a sorted row are less than each value, or not greater. A
 * thread has a value and halves the row until one place is left. NaN comes after all numbers.
 */
#include "kernels/cuda/element.h"
#include "kernels/cuda/offset_map.h"
#include "kernels/cuda/prepare.h"

namespace
{

enum { SORTED, VALUES };

struct search {
    int64_t count, n;     /* values; elements of a sorted row */
    int64_t step;         /* between elements of a sorted row */
    wide_divisor per_row; /* values of each sorted row */
    offset_map rows;      /* number of a sorted row -> its first element */
    offset_map values;    /* number of a value -> where it lies */
};

template <class T> __device__ __forceinline__ bool comes_before(T a, T b)
{
    return a < b || (b != b && a == a);
}

/* right: equal elements come before the value too. */
template <class E, bool right>
__global__ void __launch_bounds__(WF_CUDA_BLOCK)
    count_before(search p, const E *sorted, const E *values, int64_t *y)
{
    int64_t i = (int64_t)blockIdx.x * WF_CUDA_BLOCK + threadIdx.x, low = 0, high = p.n;
    real<E> value;

    if (i >= p.count) return;
    value = to_real(values[map_offset(p.values, i)]);
    sorted += map_offset(p.rows, divide_wide(i, p.per_row));
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        real<E> element = to_real(sorted[middle * p.step]);

        if (right ? !comes_before(value, element) : comes_before(element, value))
            low = middle + 1;
        else
            high = middle;
    }
    y[i] = low;
}

template <class E>
void run_search(const wf_kernel_call *k, void *const *out, const void *const *in,
                const wf_scalars *)
{
    const search *p = (const search *)k->prep;

    WF_CUDA_LAUNCH(k, (k->attrs->search.right ? count_before<E, true> : count_before<E, false>),
                   (unsigned)((p->count + WF_CUDA_BLOCK - 1) / WF_CUDA_BLOCK), WF_CUDA_BLOCK, 0, *p,
                   (const E *)in[SORTED], (const E *)in[VALUES], (int64_t *)out[0]);
}

/* The number of a row -> its first element. */
offset_map rows_of_sorted(const wf_tensor_desc *sorted)
{
    wf_tensor_desc rows = *sorted;

    rows.shape[rows.ndim - 1] = 1;
    return offset_map_of_elements(&rows);
}

} // namespace

extern "C" weft_status wf_cuda_search_sorted(struct wf_kernel_call *k)
{
    static wf_kernel_run *const runs[WEFT_DTYPE_COUNT] = {
        run_search<float>,   run_search<double>,  run_search<bf16>,    run_search<f16>,
        run_search<int32_t>, run_search<int64_t>, run_search<uint8_t>, NULL,
        run_search<int16_t>, run_search<int8_t>};
    const wf_tensor_desc *sorted = k->in[SORTED], *values = k->in[VALUES];
    int64_t rows = 1;
    search *p;

    if (!runs[sorted->dtype] || sorted->dtype != values->dtype)
        return wf_cuda_fail_no_kernel(k, sorted->dtype);
    k->run = wf_cuda_run_nothing;
    if (k->out[0]->numel == 0) return WEFT_OK;
    k->prep = p = WF_NEW(search);
    for (int d = 0; d < sorted->ndim - 1; d++) rows *= sorted->shape[d];
    p->count = values->numel;
    p->n = sorted->shape[sorted->ndim - 1];
    p->step = sorted->stride[sorted->ndim - 1];
    p->per_row = wide_divisor_of(values->numel / rows);
    p->rows = rows_of_sorted(sorted);
    p->values = offset_map_of_elements(values);
    k->run = runs[sorted->dtype];
    return WEFT_OK;
}
