/*
 * index_of.cu: where in the whole tensor the first element stands that equals a value, of which
 * there is one per output. Where x has stride 1 along a kept dim, neighbouring threads have
 * neighbouring outputs; elsewhere a warp has one, until it is found.
 */
#include "kernels/cuda/offset_map.h"
#include "kernels/cuda/prepare.h"
#include "kernels/cuda/reductions/row_loop.h"

namespace
{

enum { X, FEWEST_COLUMNS = 16 };

struct index_of {
    int64_t outputs, count;   /* elements of each output */
    offset_map kept, reduced; /* numbers of outputs and of what is searched -> offsets in x */
    offset_map values;        /* number of an output -> its value */
    bool along_columns;
    int n_dims; /* that are searched, as they are counted: innermost last */
    wide_divisor size[WEFT_MAX_DIMS];
    int64_t offset[WEFT_MAX_DIMS], weight[WEFT_MAX_DIMS];
};

/* Of the element that is number i of this rank's. */
__device__ __forceinline__ int64_t index_in_whole(const index_of &p, int64_t i)
{
    int64_t index = 0;

    for (int d = p.n_dims - 1; d >= 0; d--) {
        int64_t outer = d > 0 ? divide_wide(i, p.size[d]) : 0;

        index += (i - outer * (int64_t)p.size[d].value + p.offset[d]) * p.weight[d];
        i = outer;
    }
    return index;
}

template <class T> __device__ __forceinline__ bool is_same(T a, T b)
{
    return a == b || (a != a && b != b);
}

template <class E>
__global__ void __launch_bounds__(BLOCK)
    find_in_columns(index_of p, const E *x, const E *values, int64_t *y)
{
    int64_t output = (int64_t)blockIdx.x * BLOCK + threadIdx.x, found = INT64_MAX;
    real<E> value;

    if (output >= p.outputs) return;
    value = to_real(values[map_offset(p.values, output)]);
    x += map_offset(p.kept, output);
    for (int64_t i = 0; i < p.count && found == INT64_MAX; i++)
        if (is_same(to_real(x[map_offset(p.reduced, i)]), value)) found = index_in_whole(p, i);
    y[output] = found;
}

template <class E>
__global__ void __launch_bounds__(BLOCK)
    find_in_lines(index_of p, const E *x, const E *values, int64_t *y)
{
    int64_t output = (int64_t)blockIdx.x * WARPS + threadIdx.x / WARP, found = INT64_MAX;
    int lane = threadIdx.x % WARP;
    real<E> value;

    if (output >= p.outputs) return;
    value = to_real(values[map_offset(p.values, output)]);
    x += map_offset(p.kept, output);
    for (int64_t first = 0; first < p.count; first += WARP) {
        bool have = first + lane < p.count;
        unsigned same = __ballot_sync(
            ~0u,
            have && is_same(to_real(x[have ? map_offset(p.reduced, first + lane) : 0]), value));

        if (!same) continue;
        found = index_in_whole(p, first + __ffs((int)same) - 1);
        break;
    }
    if (lane == 0) y[output] = found;
}

template <class E>
void run_index_of(const wf_kernel_call *k, void *const *out, const void *const *in,
                  const wf_scalars *)
{
    const index_of *p = (const index_of *)k->prep;

    if (p->along_columns)
        WF_CUDA_LAUNCH(k, find_in_columns<E>, blocks_for(p->outputs, BLOCK), BLOCK, 0, *p,
                       (const E *)in[0], (const E *)in[1], (int64_t *)out[0]);
    else
        WF_CUDA_LAUNCH(k, find_in_lines<E>, blocks_for(p->outputs, WARPS), BLOCK, 0, *p,
                       (const E *)in[0], (const E *)in[1], (int64_t *)out[0]);
}

/* The dims that are searched, each with what its index counts in the whole. */
void list_dims(index_of *p, const wf_tensor_desc *x, uint32_t dims)
{
    int64_t weight = 1;
    int n = 0;

    for (int d = 0; d < x->ndim; d++) p->n_dims += dims >> d & 1;
    for (int d = x->ndim - 1; d >= 0; d--) {
        int at = p->n_dims - 1 - n;

        if (!(dims >> d & 1)) continue;
        p->size[at] = wide_divisor_of(x->shape[d]);
        p->offset[at] = x->offset[d];
        p->weight[at] = weight;
        weight *= x->global[d];
        n++;
    }
}

} // namespace

extern "C" weft_status wf_cuda_index_of(struct wf_kernel_call *k)
{
    static wf_kernel_run *const runs[WEFT_DTYPE_COUNT] = {
        run_index_of<float>,   run_index_of<double>,  run_index_of<bf16>,    run_index_of<f16>,
        run_index_of<int32_t>, run_index_of<int64_t>, run_index_of<uint8_t>, run_index_of<boolean>};
    const wf_tensor_desc *x = k->in[0], *values = k->in[1];
    wf_loop_nest kept, reduced;
    int64_t bytes = wf_dtypes[x->dtype].size;
    index_of *p;

    if (!runs[x->dtype] || values->dtype != x->dtype || x->runs)
        return wf_cuda_fail_no_kernel(k, x->dtype);
    k->run = wf_cuda_run_nothing;
    if (k->out[0]->numel == 0) return WEFT_OK;
    k->prep = p = WF_NEW(index_of);
    wf_loop_nest_of_dims(&kept, x, k->attrs->reduce.dims, false);
    wf_loop_nest_of_dims(&reduced, x, k->attrs->reduce.dims, true);
    p->outputs = kept.count;
    p->count = reduced.count;
    p->kept = offset_map_of(&kept, X, bytes);
    p->reduced = offset_map_of(&reduced, X, bytes);
    p->values = offset_map_of_elements(values);
    p->along_columns = kept.n_dims > 0 && kept.dim[kept.n_dims - 1].step[X] == bytes &&
                       kept.dim[kept.n_dims - 1].size >= FEWEST_COLUMNS;
    list_dims(p, x, (uint32_t)k->attrs->reduce.dims);
    k->run = runs[x->dtype];
    return WEFT_OK;
}
