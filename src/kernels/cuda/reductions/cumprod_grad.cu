/*
 * cumprod_grad.cu: d, x -> dx of the running products of x along a dim, in f64 and in the CPU's
 * order.
 *
 * Before the first zero of a row, dx is the sum behind it of d y over x; at that zero the products
 * leave it out, up to the next zero; behind it dx is 0. So a thread walks its row twice: once for
 * the whole sums, once for what of them lies behind each element. Where rows lie along memory, a
 * warp brings pieces of its rows into shared memory, as in scan.cu.
 */
#include "kernels/cuda/prepare.h"
#include "kernels/cuda/reductions/row_tiles.h"
#include "kernels/cuda/reductions/rows.h"

namespace
{

enum { DX, D, X }; /* operands of strided_rows */

enum {
    AT_ONCE = 4,     /* steps whose loads are in flight together */
    ROW_WARPS = 2,   /* of a block whose warps have WARP rows each */
    ZEROS_MATTER = 2 /* behind the second all gradients are 0 */
};

/* The sums of a whole row, by which its gradients are told. */
struct whole_sums {
    double product, before_zero, at_zero;
    int zeros;

    /* `before_zero` gets the terms up to the first zero, `at_zero` those without it up to the
     * second. */
    __device__ __forceinline__ void take(double d, double x)
    {
        if (x == 0)
            zeros++;
        else
            product *= x;
        if (zeros == 0)
            before_zero += d * product;
        else if (zeros < ZEROS_MATTER)
            at_zero += d * product;
    }
};

/* The gradients of a row, element after element. */
struct gradients {
    double before_zero, at_zero; /* of the whole row */
    double product, sum;         /* of the elements before this one */
    bool behind_zero;

    __device__ __forceinline__ double next(double d, double x)
    {
        double dx;

        if (behind_zero) return 0;
        if (x == 0) {
            behind_zero = true;
            return at_zero;
        }
        dx = (before_zero - sum) / x;
        product *= x;
        sum += d * product;
        return dx;
    }
};

template <class E> __device__ __forceinline__ double wide(E e) { return (double)to_real(e); }
template <class E> __device__ __forceinline__ E narrow(double v)
{
    return from_real<E>((real<E>)v);
}

/* use(i, d, x) for the elements of a column, in order. */
template <class E, class Use>
__device__ __forceinline__ void walk_column(const strided_rows &p, const E *d, const E *x, Use use)
{
    for (int64_t first = 0; first < p.n; first += AT_ONCE) {
        double ds[AT_ONCE] = {}, xs[AT_ONCE] = {};

#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            if (first + i >= p.n) continue;
            ds[i] = wide(d[(first + i) * p.step[D]]);
            xs[i] = wide(x[(first + i) * p.step[X]]);
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            if (first + i < p.n) use(first + i, ds[i], xs[i]);
    }
}

/* Neighbouring threads have neighbouring rows. */
template <class E>
__global__ void __launch_bounds__(BLOCK)
    cumprod_grad_columns(strided_rows p, E *dx, const E *d, const E *x)
{
    int64_t r = (int64_t)blockIdx.x * BLOCK + threadIdx.x;
    whole_sums whole = {1, 0, 0, 0};
    gradients gradient;

    if (r >= p.count) return;
    dx += map_offset(p.outer[DX], r);
    d += map_offset(p.outer[D], r);
    x += map_offset(p.outer[X], r);
    walk_column(p, d, x, [&](int64_t, double a, double b) { whole.take(a, b); });
    gradient = {whole.before_zero, whole.at_zero, 1, 0, false};
    walk_column(p, d, x, [&](int64_t i, double a, double b) {
        dx[i * p.step[DX]] = narrow<E>(gradient.next(a, b));
    });
}

/* The rows of a warp, and pieces of them in shared memory. */
template <class E> struct warp_rows {
    E (*of_d)[WARP + 1], (*of_x)[WARP + 1];
    int64_t count, at_dx, at_d, at_x; /* rows; where this lane's begins */

    /* use(d, x) for the elements of this lane's row, in order; store: what it gives is written. */
    template <bool store, class Use>
    __device__ __forceinline__ void walk(const strided_rows &p, E *dx, const E *d, const E *x,
                                         Use use) const
    {
        int lane = threadIdx.x % WARP;

        for (int64_t first = 0; first < p.n; first += WARP) {
            int steps = p.n - first < WARP ? (int)(p.n - first) : WARP;

            move_tile<false, false>(of_d, d, at_d, p.step[D], count, first, p.n);
            move_tile<false, false>(of_x, x, at_x, p.step[X], count, first, p.n);
            __syncwarp();
            for (int i = 0; i < steps && lane < count; i++) {
                double made = use(wide(of_d[lane][i]), wide(of_x[lane][i]));

                if (store) of_d[lane][i] = narrow<E>(made);
            }
            __syncwarp();
            if (store) move_tile<false, true>(of_d, dx, at_dx, p.step[DX], count, first, p.n);
        } /* each lane fills the column next that it has just read */
    }
};

template <class E>
__global__ void __launch_bounds__(ROW_WARPS *WARP)
    cumprod_grad_rows(strided_rows p, E *dx, const E *d, const E *x)
{
    GPU_SHARED(E, tiles, [ROW_WARPS][2][WARP][WARP + 1]);
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    int64_t first_row = ((int64_t)blockIdx.x * ROW_WARPS + warp) * WARP, r = first_row + lane;
    bool have = r < p.count;
    warp_rows<E> rows = {tiles[warp][0],
                         tiles[warp][1],
                         p.count - first_row,
                         have ? map_offset(p.outer[DX], r) : 0,
                         have ? map_offset(p.outer[D], r) : 0,
                         have ? map_offset(p.outer[X], r) : 0};
    whole_sums whole = {1, 0, 0, 0};
    gradients gradient;

    if (rows.count <= 0) return;
    rows.template walk<false>(p, dx, d, x, [&](double a, double b) {
        whole.take(a, b);
        return 0.0;
    });
    gradient = {whole.before_zero, whole.at_zero, 1, 0, false};
    rows.template walk<true>(p, dx, d, x, [&](double a, double b) { return gradient.next(a, b); });
}

template <class E>
void run_cumprod_grad(const wf_kernel_call *k, void *const *out, const void *const *in,
                      const wf_scalars *)
{
    const strided_rows *p = (const strided_rows *)k->prep;

    if (p->step[DX] == 1 && p->step[D] == 1)
        WF_CUDA_LAUNCH(k, cumprod_grad_rows<E>, blocks_for(p->count, ROW_WARPS * WARP),
                       ROW_WARPS * WARP, 0, *p, (E *)out[0], (const E *)in[0], (const E *)in[1]);
    else
        WF_CUDA_LAUNCH(k, cumprod_grad_columns<E>, blocks_for(p->count, BLOCK), BLOCK, 0, *p,
                       (E *)out[0], (const E *)in[0], (const E *)in[1]);
}

} // namespace

extern "C" weft_status wf_cuda_cumprod_grad(struct wf_kernel_call *k)
{
    static wf_kernel_run *const runs[] = {run_cumprod_grad<float>, run_cumprod_grad<double>,
                                          run_cumprod_grad<bf16>, run_cumprod_grad<f16>};
    uint8_t dtype = k->out[0]->dtype;

    return prepare_rows(k, (int)k->attrs->scan.dim,
                        dtype < WF_CUDA_FLOAT_DTYPES ? runs[dtype] : NULL);
}
