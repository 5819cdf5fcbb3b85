/*
 * scan.cu: running sums and products along a dim, and linear recurrences.
 *
 * What runs along is f64 for floats, i64 for integers, as on the CPU, and in its order: products of
 * many elements taken first may leave the range of a number that the result never leaves. So a
 * thread has a row of its own. Where rows lie along memory, a warp brings pieces of its rows into
 * shared memory. Only sums may be cut: where there are few rows, a block has one.
 */
#include "kernels/cuda/prepare.h"
#include "kernels/cuda/reductions/row_tiles.h"
#include "kernels/cuda/reductions/rows.h"

namespace
{

enum {
    AT_ONCE = 4,    /* steps whose loads are in flight together */
    ROW_WARPS = 2,  /* of a block whose warps have WARP rows each */
    FEW_ROWS = 256, /* fewer of at least LONG_ROW elements: a block has one */
    LONG_ROW = 1024
};

template <class E> struct runs_in {
    typedef typename std::conditional<std::is_floating_point<real<E>>::value, double, int64_t>::type
        type;
};

__device__ __forceinline__ double add(double a, double b) { return a + b; }
__device__ __forceinline__ int64_t add(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

/* What is stored at a step with elements a and b, and what goes on to the next, of type R. */
template <bool back_> struct running_sum {
    static const bool back = back_, sums = true;
    static const int inputs = 1, start = 0;
    template <class R> static __device__ __forceinline__ R value(R run, R a, R)
    {
        return add(run, a);
    }
    template <class R> static __device__ __forceinline__ R carry(R made, R) { return made; }
};
struct running_product {
    static const bool back = false, sums = false;
    static const int inputs = 1, start = 1;
    template <class R> static __device__ __forceinline__ R value(R run, R a, R)
    {
        return take_product()(run, a);
    }
    template <class R> static __device__ __forceinline__ R carry(R made, R) { return made; }
};
struct recurrence {
    static const bool back = false, sums = false;
    static const int inputs = 2, start = 0;
    static __device__ __forceinline__ double value(double run, double a, double b)
    {
        return a * run + b;
    }
    static __device__ __forceinline__ double carry(double made, double) { return made; }
};
struct recurrence_grad {
    static const bool back = true, sums = false;
    static const int inputs = 2, start = 0;
    static __device__ __forceinline__ double value(double run, double a, double) { return a + run; }
    static __device__ __forceinline__ double carry(double made, double b) { return b * made; }
};

template <class E, class R> __device__ __forceinline__ E rounded(R made)
{
    return from_real<E>((real<E>)made);
}

/* Neighbouring threads have neighbouring rows. */
template <class Op, class E>
__global__ void __launch_bounds__(BLOCK) scan_columns(strided_rows p, E *y, const E *a, const E *b)
{
    typedef typename runs_in<E>::type R;
    int64_t r = (int64_t)blockIdx.x * BLOCK + threadIdx.x;
    R run = Op::start;

    if (r >= p.count) return;
    y += map_offset(p.outer[0], r);
    a += map_offset(p.outer[1], r);
    if (Op::inputs > 1) b += map_offset(p.outer[2], r);
    for (int64_t first = 0; first < p.n; first += AT_ONCE) {
        R as[AT_ONCE] = {}, bs[AT_ONCE] = {};

#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            int64_t at = place_of_step<Op::back>(first + i, p.n);

            if (first + i >= p.n) continue;
            as[i] = (R)to_real(a[at * p.step[1]]);
            if (Op::inputs > 1) bs[i] = (R)to_real(b[at * p.step[2]]);
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            R made = Op::value(run, as[i], bs[i]);

            if (first + i >= p.n) continue;
            y[place_of_step<Op::back>(first + i, p.n) * p.step[0]] = rounded<E>(made);
            run = Op::carry(made, bs[i]);
        }
    }
}

template <class Op, class E>
__global__ void __launch_bounds__(ROW_WARPS *WARP)
    scan_rows(strided_rows p, E *y, const E *a, const E *b)
{
    typedef typename runs_in<E>::type R;
    GPU_SHARED(E, tiles, [ROW_WARPS][Op::inputs][WARP][WARP + 1]);
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    int64_t first_row = ((int64_t)blockIdx.x * ROW_WARPS + warp) * WARP;
    int64_t rows = p.count - first_row, r = first_row + lane;
    int64_t to = r < p.count ? map_offset(p.outer[0], r) : 0;
    int64_t at_a = r < p.count ? map_offset(p.outer[1], r) : 0;
    int64_t at_b = r < p.count && Op::inputs > 1 ? map_offset(p.outer[2], r) : 0;
    E(*of_a)[WARP + 1] = tiles[warp][0], (*of_b)[WARP + 1] = tiles[warp][Op::inputs - 1];
    R run = Op::start;

    if (rows <= 0) return;
    for (int64_t first = 0; first < p.n; first += WARP) {
        int steps = p.n - first < WARP ? (int)(p.n - first) : WARP;

        move_tile<Op::back, false>(of_a, a, at_a, p.step[1], rows, first, p.n);
        if (Op::inputs > 1) move_tile<Op::back, false>(of_b, b, at_b, p.step[2], rows, first, p.n);
        __syncwarp();
        for (int i = 0; i < steps && r < p.count; i++) {
            R other = Op::inputs > 1 ? (R)to_real(of_b[lane][i]) : R{};
            R made = Op::value(run, (R)to_real(of_a[lane][i]), other);

            of_a[lane][i] = rounded<E>(made);
            run = Op::carry(made, other);
        }
        __syncwarp();
        move_tile<Op::back, true>(of_a, y, to, p.step[0], rows, first, p.n);
    } /* each lane fills the column next that it has just read */
}

/* The sum of a thread's value and those of the lanes before it. */
template <class R> __device__ __forceinline__ R sum_up_to_lane(R value)
{
#pragma unroll
    for (int distance = 1; distance < WARP; distance *= 2) {
        int lane = threadIdx.x % WARP;
        R before = value_of_lane(value, lane >= distance ? lane - distance : lane);

        if (lane >= distance) value = add(before, value);
    }
    return value;
}

/* A block has a row, BLOCK elements at a time. */
template <class Op, class E>
__global__ void __launch_bounds__(BLOCK) sum_long_rows(strided_rows p, E *y, const E *x)
{
    typedef typename runs_in<E>::type R;
    GPU_SHARED(R, sums, [WARPS]);
    int warp = threadIdx.x / WARP;
    R run = 0;

    y += map_offset(p.outer[0], blockIdx.x);
    x += map_offset(p.outer[1], blockIdx.x);
    for (int64_t first = 0; first < p.n; first += BLOCK) {
        bool have = first + threadIdx.x < p.n;
        int64_t at = place_of_step<Op::back>(first + threadIdx.x, p.n);
        R value = sum_up_to_lane(have ? (R)to_real(x[at * p.step[1]]) : R{}), before = run;

        if (threadIdx.x % WARP == WARP - 1) sums[warp] = value;
        __syncthreads();
        for (int w = 0; w < WARPS; w++) {
            if (w == warp) before = run;
            run = add(run, sums[w]);
        }
        if (have) y[at * p.step[0]] = rounded<E>(add(before, value));
        __syncthreads();
    }
}

template <class Op, class E>
void run_scan(const wf_kernel_call *k, void *const *out, const void *const *in, const wf_scalars *)
{
    const strided_rows *p = (const strided_rows *)k->prep;
    E *y = (E *)out[0];
    const E *a = (const E *)in[0], *b = (const E *)(Op::inputs > 1 ? in[1] : NULL);

    if constexpr (Op::sums) {
        if (p->count < FEW_ROWS && p->n >= LONG_ROW) {
            WF_CUDA_LAUNCH(k, (sum_long_rows<Op, E>), (unsigned)p->count, BLOCK, 0, *p, y, a);
            return;
        }
    }
    if (p->step[1] == 1 && p->step[0] == 1)
        WF_CUDA_LAUNCH(k, (scan_rows<Op, E>), blocks_for(p->count, ROW_WARPS * WARP),
                       ROW_WARPS * WARP, 0, *p, y, a, b);
    else
        WF_CUDA_LAUNCH(k, (scan_columns<Op, E>), blocks_for(p->count, BLOCK), BLOCK, 0, *p, y, a,
                       b);
}

/* By dtype: f32, f64, bf16, f16, i32, i64. */
template <class Op> struct of_floats {
    static constexpr wf_kernel_run *runs[WEFT_DTYPE_COUNT] = {
        run_scan<Op, float>, run_scan<Op, double>, run_scan<Op, bf16>, run_scan<Op, f16>};
};
template <class Op> struct of_numbers {
    static constexpr wf_kernel_run *runs[WEFT_DTYPE_COUNT] = {
        run_scan<Op, float>, run_scan<Op, double>,  run_scan<Op, bf16>,
        run_scan<Op, f16>,   run_scan<Op, int32_t>, run_scan<Op, int64_t>};
};

weft_status prepare_scan(wf_kernel_call *k, wf_kernel_run *const *runs)
{
    return prepare_rows(k, (int)k->attrs->scan.dim, runs[k->out[0]->dtype]);
}

} // namespace

extern "C" weft_status wf_cuda_cumsum(struct wf_kernel_call *k)
{
    return prepare_scan(k, k->attrs->scan.back ? of_numbers<running_sum<true>>::runs
                                               : of_numbers<running_sum<false>>::runs);
}

extern "C" weft_status wf_cuda_cumprod(struct wf_kernel_call *k)
{
    return prepare_scan(k, of_numbers<running_product>::runs);
}

extern "C" weft_status wf_cuda_linear_scan(struct wf_kernel_call *k)
{
    return prepare_scan(k, of_floats<recurrence>::runs);
}

extern "C" weft_status wf_cuda_linear_scan_grad(struct wf_kernel_call *k)
{
    return prepare_scan(k, of_floats<recurrence_grad>::runs);
}
