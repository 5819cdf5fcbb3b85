/*
 * reduce_loops.h: reductions over any dims of strided inputs; reduce.cu and norms.cu say which.
 *
 *   x, numbers or none  ->  y, x's shape without the dims of reduce.dims (or with size 1)
 *
 * Where x has stride 1 along a dim that is kept, neighbouring threads have neighbouring outputs
 * (columns); elsewhere a warp or a block has one output and its threads lie along what is reduced
 * (lines). Where that makes few blocks, what is reduced is split: every piece leaves a partial
 * result in scratch, and combine_pieces takes them in one order. How a call is split follows from
 * its shape alone, so its bits are the same on every device of one architecture.
 *
 * An op maps an element, with the number of its output where it has one, to a `part`; a few parts
 * meet as such, then in a `total`, which is finished to `out`.
 */
#pragma once

#include "kernels/cuda/offset_map.h"
#include "kernels/cuda/prepare.h"
#include "kernels/cuda/reductions/row_loop.h"

namespace
{

enum {
    COLUMN_THREADS = 32, /* along columns; the others of a block take other rows */
    ROW_THREADS = BLOCK / COLUMN_THREADS,
    ROWS_AT_ONCE = 4,         /* whose loads are in flight together */
    FEWEST_COLUMNS = 16,      /* below, lines use more of a warp */
    SHORT_LINE = 1024,        /* up to here a warp is enough for a line */
    WANTED_LINE_BLOCKS = 512, /* for all multiprocessors of any device */
    WANTED_COLUMN_BLOCKS = 1024,
    COMBINING = 16,                              /* threads for the pieces of one output */
    SHORTEST_PIECE = 8192,                       /* of a line */
    FEWEST_ROWS = 4 * ROWS_AT_ONCE * ROW_THREADS /* of a piece of columns: with fewer, partial
                                                    results are a tenth of what is read */
};

/* What most ops are: elements as they are, which are taken together and stored. */
template <class E, class Part, class Total, class Out, class Take> struct reduction {
    typedef Part part;
    typedef Total total;
    typedef Out out;
    typedef Take take;
    typedef real<E> number;
    /* Of many columns at once it would be too many instructions: nvcc would take arrays to local
     * memory instead. */
    static const bool has_long_map = false;
    static __device__ part map(real<E> v, part) { return (part)v; }
    static __device__ out finish(total value, double) { return from_real<out>((real<out>)value); }
};

struct pieces {
    int64_t outputs, count, size; /* `count` elements of each output, `size` in a piece */
    offset_map to;                /* number of an output -> its place in y */
    double number;                /* for all outputs, where an op has none for each */
};

struct lines {
    struct pieces pieces;
    offset_map kept, reduced; /* numbers of outputs and of what is reduced -> offsets in x */
};

struct columns {
    struct pieces pieces;
    offset_map kept, reduced; /* the kept dims without the columns */
    int64_t columns;
    wide_divisor tiles; /* of columns: COLUMN_THREADS threads have one */
};

/* What MAP needs beside an element. */
template <class Op>
__device__ __forceinline__ typename Op::part number_of(const pieces &p, int64_t output,
                                                       const typename Op::number *numbers)
{
    return numbers ? (typename Op::part)numbers[map_offset(p.to, output)]
                   : (typename Op::part)p.number;
}

/* A finished output, or one piece of it. */
template <class Op>
__device__ __forceinline__ void write_result(const pieces &p, int64_t output,
                                             typename Op::total value, typename Op::out *y,
                                             typename Op::total *partial, double scale)
{
    if (gridDim.y > 1)
        partial[blockIdx.y * p.outputs + output] = value;
    else
        y[map_offset(p.to, output)] = Op::finish(value, scale);
}

__device__ __forceinline__ int64_t end_of_piece(const pieces &p)
{
    int64_t end = (blockIdx.y + 1) * p.size;

    return end < p.count ? end : p.count;
}

template <class Op, class E>
__global__ void __launch_bounds__(BLOCK, 2)
    reduce_lines(lines p, const E *x, const typename Op::number *numbers, typename Op::out *y,
                 typename Op::total *partial, double scale)
{
    typedef typename Op::total total;
    typename Op::take take;
    GPU_SHARED(total, shared, [WARPS]);
    int64_t output = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
    int64_t begin = blockIdx.y * p.pieces.size, end = end_of_piece(p.pieces);
    total value = Op::start();
    typename Op::part q;

    if (output >= p.pieces.outputs) return;
    q = number_of<Op>(p.pieces, output, numbers);
    x += map_offset(p.kept, output);
    if (p.reduced.n_dims <= 1)
        for_row_packs(x + begin * p.reduced.step[0], end - begin, p.reduced.step[0],
                      [&](const pack<E> &v, int64_t, int count) {
                          typename Op::part part = Op::map(to_real(v.at[0]), q);

                          for (int i = 1; i < count; i++)
                              part = take(part, Op::map(to_real(v.at[i]), q));
                          value = take(value, (total)part);
                      });
    else
        for (int64_t i = begin + threadIdx.x; i < end; i += blockDim.x)
            value = take(value, (total)Op::map(to_real(x[map_offset(p.reduced, i)]), q));
    value = group_reduce(value, take, shared);
    if (threadIdx.x == 0) write_result<Op>(p.pieces, output, value, y, partial, scale);
}

/* What this thread's rows make of `n` neighbouring columns. */
template <class Op, class E, int n>
__device__ __forceinline__ void reduce_rows(const columns &p, const E *x,
                                            const typename Op::part (&q)[n],
                                            typename Op::total (&value)[n])
{
    typename Op::take take;
    int64_t end = end_of_piece(p.pieces);
    struct alignas(n * sizeof(E)) neighbours {
        E at[n];
    };

    for (int64_t r = blockIdx.y * p.pieces.size + threadIdx.y; r < end;
         r += ROWS_AT_ONCE * blockDim.y) {
        typename Op::part part[n];

#pragma unroll
        for (int i = 0; i < n; i++) part[i] = Op::start();
#pragma unroll
        for (int k = 0; k < ROWS_AT_ONCE; k++) {
            int64_t row = r + k * blockDim.y;

            if (row >= end) continue;
            neighbours v = *(const neighbours *)(x + map_offset(p.reduced, row));
#pragma unroll
            for (int i = 0; i < n; i++) part[i] = take(part[i], Op::map(to_real(v.at[i]), q[i]));
        }
#pragma unroll
        for (int i = 0; i < n; i++) value[i] = take(value[i], (typename Op::total)part[i]);
    }
}

template <class Op, class E, int n>
__global__ void __launch_bounds__(BLOCK, 2)
    reduce_columns(columns p, const E *x, const typename Op::number *numbers, typename Op::out *y,
                   typename Op::total *partial, double scale)
{
    typedef typename Op::total total;
    /* Of each n columns of a thread one is in each of n lines, so far apart that the columns of a
     * warp lie in different banks both when they are written and in the order of columns. */
    constexpr int banks = 128 / sizeof(total);
    constexpr int line = COLUMN_THREADS + (n < banks ? banks / n : 1);
    GPU_SHARED(total, shared, [ROW_THREADS][n * line]);
    typename Op::take take;
    int64_t outer = divide_wide(blockIdx.x, p.tiles);
    int64_t first = (blockIdx.x - outer * (int64_t)p.tiles.value) * COLUMN_THREADS * n;
    int64_t column = first + threadIdx.x * n;
    total value[n];
    typename Op::part q[n];

#pragma unroll
    for (int i = 0; i < n; i++) value[i] = Op::start();
#pragma unroll
    for (int i = 0; i < n && column + i < p.columns; i++)
        q[i] = number_of<Op>(p.pieces, outer * p.columns + column + i, numbers);
    if (column < p.columns)
        reduce_rows<Op, E, n>(p, x + map_offset(p.kept, outer) + column, q, value);
#pragma unroll
    for (int i = 0; i < n; i++) shared[threadIdx.y][i * line + threadIdx.x] = value[i];
    __syncthreads();
    for (int i = threadIdx.y * COLUMN_THREADS + threadIdx.x; i < COLUMN_THREADS * n;
         i += blockDim.y * COLUMN_THREADS) {
        int at = i % n * line + i / n;
        total sum = shared[0][at];

        if (first + i >= p.columns) break;
        for (unsigned r = 1; r < blockDim.y; r++) sum = take(sum, shared[r][at]);
        write_result<Op>(p.pieces, outer * p.columns + first + i, sum, y, partial, scale);
    }
}

/* Neighbouring threads have neighbouring outputs, of which COMBINING threads take the pieces by
 * turns. */
template <class Op>
__global__ void __launch_bounds__(COMBINING *COLUMN_THREADS, 1)
    combine_pieces(pieces p, int n, const typename Op::total *partial, typename Op::out *y,
                   double scale)
{
    typedef typename Op::total total;
    GPU_SHARED(total, shared, [COMBINING][COLUMN_THREADS]);
    int64_t output = (int64_t)blockIdx.x * COLUMN_THREADS + threadIdx.x;
    typename Op::take take;
    total value = Op::start();

    for (int i = threadIdx.y; i < n && output < p.outputs; i += COMBINING)
        value = take(value, partial[i * p.outputs + output]);
    shared[threadIdx.y][threadIdx.x] = value;
    __syncthreads();
    if (threadIdx.y > 0 || output >= p.outputs) return;
    for (int r = 1; r < COMBINING && r < n; r++) value = take(value, shared[r][threadIdx.x]);
    y[map_offset(p.to, output)] = Op::finish(value, scale);
}

struct reduce {
    struct lines lines;
    struct columns columns;
    bool along_columns, packed; /* packed: all strides allow packs of 16 bytes */
    int pieces, rows;           /* rows: of threads in a block of columns */
    int64_t blocks;             /* of lines, per piece */
    bool scaled;                /* by the call's number; else by `scale` */
    double scale;
};

template <class Op, class E, int n>
void launch_columns(const wf_kernel_call *k, const E *x, const typename Op::number *numbers,
                    typename Op::out *y, typename Op::total *partial, double scale)
{
    const reduce *p = (const reduce *)k->prep;
    columns c = p->columns;
    int64_t tiles = (c.columns + COLUMN_THREADS * n - 1) / (COLUMN_THREADS * n);

    c.tiles = wide_divisor_of(tiles);
    WF_CUDA_LAUNCH(k, (reduce_columns<Op, E, n>),
                   dim3((unsigned)(tiles * (c.pieces.outputs / c.columns)), (unsigned)p->pieces),
                   dim3(COLUMN_THREADS, (unsigned)p->rows), 0, c, x, numbers, y, partial, scale);
}

template <class Op, class E>
void launch_lines(const wf_kernel_call *k, const E *x, const typename Op::number *numbers,
                  typename Op::out *y, typename Op::total *partial, double scale)
{
    const reduce *p = (const reduce *)k->prep;

    WF_CUDA_LAUNCH(k, (reduce_lines<Op, E>), dim3((unsigned)p->blocks, (unsigned)p->pieces),
                   block_dim_for_groups(p->lines.pieces.count <= SHORT_LINE ? WARP : BLOCK), 0,
                   p->lines, x, numbers, y, partial, scale);
}

template <class Op, class E>
void run_reduce(const wf_kernel_call *k, void *const *out, const void *const *in,
                const wf_scalars *scalars)
{
    typedef typename Op::total total;
    const reduce *p = (const reduce *)k->prep;
    const pieces &split = p->along_columns ? p->columns.pieces : p->lines.pieces;
    const E *x = (const E *)in[0];
    const typename Op::number *numbers = (const typename Op::number *)(k->n_in > 1 ? in[1] : NULL);
    typename Op::out *y = (typename Op::out *)out[0];
    double scale = p->scaled ? scalars->s[0] : p->scale;
    total *partial = NULL;

    if (p->pieces > 1)
        partial = (total *)wf_cuda_scratch((size_t)(p->pieces * split.outputs) * sizeof(total));
    if (!p->along_columns)
        launch_lines<Op, E>(k, x, numbers, y, partial, scale);
    else if (p->packed && (uintptr_t)x % sizeof(pack<E>) == 0)
        launch_columns<Op, E, Op::has_long_map ? 1 : pack<E>::n>(k, x, numbers, y, partial, scale);
    else
        launch_columns<Op, E, 1>(k, x, numbers, y, partial, scale);
    if (p->pieces > 1)
        WF_CUDA_LAUNCH(k, combine_pieces<Op>, blocks_for(split.outputs, COLUMN_THREADS),
                       dim3(COLUMN_THREADS, COMBINING), 0, split, p->pieces, partial, y, scale);
}

enum { X, Y };

/* The innermost dim along which x has stride 1 and that fills a warp; -1: none. */
int dim_of_columns(const wf_loop_nest *kept, int64_t bytes)
{
    for (int d = kept->n_dims - 1; d >= 0; d--)
        if (kept->dim[d].step[X] == bytes && kept->dim[d].size >= FEWEST_COLUMNS) return d;
    return -1;
}

bool steps_are_packs(const offset_map *m, int64_t bytes)
{
    for (int d = 0; d < m->n_dims; d++)
        if (m->step[d] * bytes % 16) return false;
    return true;
}

void split_into_pieces(reduce *p, pieces *split, int64_t blocks, int64_t wanted, int64_t shortest)
{
    int64_t n = blocks < wanted ? wanted / blocks : 1;

    if (n > split->count / shortest) n = split->count / shortest;
    if (n < 1) n = 1;
    p->pieces = (int)n;
    p->blocks = blocks;
    split->size = (split->count + n - 1) / n;
}

void prepare_columns(reduce *p, wf_loop_nest *kept, const wf_loop_nest *reduced, int dim,
                     int64_t bytes)
{
    columns *c = &p->columns;
    wf_loop_nest order = *kept; /* as outputs are numbered: the columns innermost */
    wf_loop_dim along = wf_loop_nest_remove_dim(kept, dim);
    int64_t tile;

    wf_loop_nest_remove_dim(&order, dim);
    order.dim[order.n_dims++] = along;
    p->along_columns = true;
    c->columns = along.size;
    c->kept = offset_map_of(kept, X, bytes);
    c->reduced = offset_map_of(reduced, X, bytes);
    c->pieces.outputs = kept->count * along.size;
    c->pieces.count = reduced->count;
    c->pieces.to = offset_map_of(&order, Y, bytes);
    for (p->rows = 1; p->rows < ROW_THREADS && p->rows < reduced->count;) p->rows *= 2;
    p->packed = steps_are_packs(&c->kept, bytes) && steps_are_packs(&c->reduced, bytes) &&
                along.size * bytes % 16 == 0;
    tile = COLUMN_THREADS * (p->packed ? 16 / bytes : 1);
    split_into_pieces(p, &c->pieces, kept->count * ((along.size + tile - 1) / tile),
                      WANTED_COLUMN_BLOCKS, FEWEST_ROWS);
}

void prepare_lines(reduce *p, const wf_loop_nest *kept, const wf_loop_nest *reduced, int64_t bytes)
{
    lines *l = &p->lines;
    int64_t lines_of_block = reduced->count <= SHORT_LINE ? WARPS : 1;

    l->kept = offset_map_of(kept, X, bytes);
    l->reduced = offset_map_of(reduced, X, bytes);
    l->pieces.outputs = kept->count;
    l->pieces.count = reduced->count;
    l->pieces.to.n_dims = 1;
    l->pieces.to.step[0] = 1;
    split_into_pieces(p, &l->pieces, (kept->count + lines_of_block - 1) / lines_of_block,
                      WANTED_LINE_BLOCKS, SHORTEST_PIECE);
}

/* The kernels of an op for a dtype: with a result of this dtype, and of the one that it is computed
 * in. NULL: there is none. */
struct reduce_runs {
    wf_kernel_run *own, *wide;
};

uint8_t wide_dtype_of(uint8_t x)
{
    if (!wf_dtype_is_float(x)) return WEFT_I64;
    return wf_dtype_is_16_bit_float(x) ? (uint8_t)WEFT_F32 : x;
}

/* Numbers, one for each output, of the computing dtype; as they lie they must be dense. */
bool takes_numbers(const wf_kernel_call *k)
{
    return k->n_in < 2 ||
           (k->in[1]->contiguous && k->in[1]->dtype == wide_dtype_of(k->in[0]->dtype));
}

/* run NULL: the op has no kernel of these dtypes. */
weft_status prepare_reduce_with(wf_kernel_call *k, wf_kernel_run *run, bool scaled, double scale,
                                double number)
{
    const wf_tensor_desc *x = k->in[0];
    int64_t bytes = wf_dtypes[x->dtype].size;
    wf_loop_nest kept, reduced;
    reduce *p;
    int dim;

    if (!run || !takes_numbers(k)) return wf_cuda_fail_no_kernel(k, x->dtype);
    k->run = wf_cuda_run_nothing;
    if (k->out[0]->numel == 0) return WEFT_OK;
    k->prep = p = WF_NEW(reduce);
    k->run = run;
    p->scaled = scaled;
    p->scale = scale;
    wf_loop_nest_of_dims(&kept, x, k->attrs->reduce.dims, false);
    wf_loop_nest_of_dims(&reduced, x, k->attrs->reduce.dims, true);
    dim = dim_of_columns(&kept, bytes);
    if (dim >= 0)
        prepare_columns(p, &kept, &reduced, dim, bytes);
    else
        prepare_lines(p, &kept, &reduced, bytes);
    p->lines.pieces.number = p->columns.pieces.number = number;
    return WEFT_OK;
}

/* `runs` has WEFT_DTYPE_COUNT entries. */
weft_status prepare_reduce(wf_kernel_call *k, const reduce_runs *runs, bool scaled, double scale,
                           double number)
{
    uint8_t x = k->in[0]->dtype, y = k->out[0]->dtype;
    wf_kernel_run *run = y == x ? runs[x].own : y == wide_dtype_of(x) ? runs[x].wide : NULL;

    return prepare_reduce_with(k, run, scaled, scale, number);
}

} // namespace
