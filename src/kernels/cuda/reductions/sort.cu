/*
 * sort.cu: rows in order, stable; NaN is largest.
 *
 * A merge sort: a block puts a tile of a row in order in shared memory, then runs twice as long are
 * made in scratch memory, until one is left. In each step a thread has one element: its place is
 * its number in its own run and how many of the other run come before it, which a search by halves
 * tells.
 */
#include "kernels/cuda/prepare.h"
#include "kernels/cuda/reductions/rows.h"

namespace
{

enum { TILE = 1024, TILE_THREADS = 256 };

template <class E> struct entry {
    real<E> value;
    int32_t place;
};

/* Whether b must stand before a, which stands before it now. */
template <class T> __device__ __forceinline__ bool goes_before(T b, T a, bool descending)
{
    if (descending) return b > a || (b != b && a == a);
    return b < a || (a != a && b == b);
}

/* Where element i of n goes when each two neighbouring runs of `run` become one. */
template <class Entry>
__device__ __forceinline__ int64_t place_when_merged(const Entry *e, int64_t i, int64_t run,
                                                     int64_t n, bool descending)
{
    int64_t own = i / run * run, pair = own / (2 * run) * (2 * run);
    bool second = own != pair;
    int64_t other = second ? pair : pair + run, low, high;
    auto value = e[i].value;

    low = other < n ? other : n;
    high = other + run < n ? other + run : n;
    other = low;
    while (low < high) { /* the first of the other run that stays behind this one */
        int64_t middle = (low + high) / 2;
        bool before = second ? !goes_before(value, e[middle].value, descending)
                             : goes_before(e[middle].value, value, descending);

        if (before)
            low = middle + 1;
        else
            high = middle;
    }
    return pair + (i - own) + (low - other);
}

/* Rows of n entries, in order by tiles. */
template <class E>
__global__ void __launch_bounds__(TILE_THREADS)
    sort_tiles(strided_rows p, wide_divisor tiles, const E *x, entry<E> *to, bool descending)
{
    GPU_SHARED(entry<E>, shared, [2][TILE]);
    int64_t row = divide_wide(blockIdx.x, tiles);
    int64_t first = (blockIdx.x - row * (int64_t)tiles.value) * TILE;
    int n = p.n - first < TILE ? (int)(p.n - first) : TILE;
    entry<E> *from = shared[0], *other = shared[1];

    x += map_offset(p.outer[1], row);
    to += row * p.n + first;
    for (int i = threadIdx.x; i < n; i += TILE_THREADS)
        from[i] = {to_real(x[(first + i) * p.step[1]]), (int32_t)(first + i)};
    __syncthreads();
    for (int run = 1; run < n; run *= 2) {
        entry<E> *made = other;

        for (int i = threadIdx.x; i < n; i += TILE_THREADS)
            made[place_when_merged(from, i, run, n, descending)] = from[i];
        __syncthreads();
        other = from;
        from = made;
    }
    for (int i = threadIdx.x; i < n; i += TILE_THREADS) to[i] = from[i];
}

template <class E>
__global__ void __launch_bounds__(BLOCK)
    merge_runs(int64_t count, wide_divisor n, int64_t run, const entry<E> *from, entry<E> *to,
               bool descending)
{
    int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x, row;

    if (i >= count) return;
    row = divide_wide(i, n) * (int64_t)n.value;
    to[row + place_when_merged(from + row, i - row, run, (int64_t)n.value, descending)] = from[i];
}

/* Not the loaded value is written: the bits of NaN stay. */
template <class E>
__global__ void __launch_bounds__(BLOCK)
    write_in_order(strided_rows p, wide_divisor n, const entry<E> *from, const E *x, E *y,
                   int64_t *indices)
{
    int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x, row;
    int32_t place;

    if (i >= p.count * p.n) return;
    row = divide_wide(i, n);
    place = from[i].place;
    y[i] = x[map_offset(p.outer[1], row) + place * p.step[1]];
    indices[i] = place;
}

template <class E>
void run_sort(const wf_kernel_call *k, void *const *out, const void *const *in, const wf_scalars *)
{
    const strided_rows *p = (const strided_rows *)k->prep;
    const E *x = (const E *)in[0];
    int64_t count = p->count * p->n, tiles = (p->n + TILE - 1) / TILE;
    wide_divisor n = wide_divisor_of(p->n);
    bool descending = k->attrs->sort.descending;
    entry<E> *from = (entry<E> *)wf_cuda_scratch(2 * (size_t)count * sizeof *from);
    entry<E> *to = from + count;

    WF_CUDA_LAUNCH(k, sort_tiles<E>, (unsigned)(p->count * tiles), TILE_THREADS, 0, *p,
                   wide_divisor_of(tiles), x, from, descending);
    for (int64_t run = TILE; run < p->n; run *= 2) {
        entry<E> *made = to;

        WF_CUDA_LAUNCH(k, merge_runs<E>, blocks_for(count, BLOCK), BLOCK, 0, count, n, run, from,
                       made, descending);
        to = from;
        from = made;
    }
    WF_CUDA_LAUNCH(k, write_in_order<E>, blocks_for(count, BLOCK), BLOCK, 0, *p, n, from, x,
                   (E *)out[0], (int64_t *)out[1]);
}

} // namespace

extern "C" weft_status wf_cuda_sort(struct wf_kernel_call *k)
{
    static wf_kernel_run *const runs[WEFT_DTYPE_COUNT] = {
        run_sort<float>,   run_sort<double>,  run_sort<bf16>,    run_sort<f16>,
        run_sort<int32_t>, run_sort<int64_t>, run_sort<uint8_t>, run_sort<boolean>};
    const wf_tensor_desc *x = k->in[0];
    strided_rows *p;

    if (!runs[x->dtype] || x->ndim == 0 || x->shape[x->ndim - 1] > INT32_MAX)
        return wf_cuda_fail_no_kernel(k, x->dtype);
    k->run = wf_cuda_run_nothing;
    if (k->out[0]->numel == 0) return WEFT_OK;
    k->prep = p = WF_NEW(strided_rows);
    *p = rows_of(k, 1, x->ndim - 1);
    k->run = runs[x->dtype];
    return WEFT_OK;
}
