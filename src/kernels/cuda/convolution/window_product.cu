/*
 * window_product.cu: convolutions with many channels, and their gradients, as products of tiles.
 *
 * A block has a tile of SIDE rows and SIDE columns of a group's result, each thread four by four of
 * it. Both operands of the product are read into registers while the ones before are multiplied,
 * and lie in shared memory along what is summed over. Of the gathered one a thread has either a
 * column that is a place, and takes the taps from a table of the step, or a place of each step, and
 * takes the columns, which are taps, from a table of the block. Sums of 16-bit floats are f32.
 *
 * What lies outside of the gathered operand counts as 0 times the other: NaN where that is
 * infinite.
 */
#include "kernels/cuda/convolution/convolution.h"
#include "kernels/cuda/group_reduce.h"

namespace
{

enum { SIDE_THREADS = 16, THREADS = SIDE_THREADS * SIDE_THREADS, DEPTH = 16, FOUR = 4 };
enum { SIDE = FOUR * SIDE_THREADS, LOADS = SIDE * DEPTH / THREADS };

template <class T> struct tile_pair {
    T plain[DEPTH][SIDE + FOUR], gathered[DEPTH][SIDE + FOUR];
};

struct tap_entry {
    conv_part part;
    int64_t plain; /* offset in a row of the plain operand */
};

/* Tables of taps: of each step, two of them, or one of all columns of the block. */
struct tap_tables {
    tap_entry entry[2][DEPTH];
    conv_part column[SIDE];
};

/* What a thread brings of the tiles of a step. It has one number of what is summed over, of the
 * plain operand and with by_places of the gathered one too; elsewhere one column of that. */
template <class E> struct loaded {
    E plain[LOADS], gathered[LOADS];
};

__device__ __forceinline__ int own_depth() { return threadIdx.x % DEPTH; }
__device__ __forceinline__ int own_line(int i)
{
    return threadIdx.x / DEPTH + i * (THREADS / DEPTH);
}

/* The plain operand's elements at `offset` of the rows of the tile. */
template <class E>
__device__ __forceinline__ void load_plain(const conv_arguments &p, loaded<E> *to, const E *rows,
                                           int rows_left, int64_t offset, bool there)
{
#pragma unroll
    for (int i = 0; i < LOADS; i++)
        to->plain[i] = there && own_line(i) < rows_left
                           ? rows[own_line(i) * p.plain_stride.row + offset]
                           : E{};
}

/* Columns are places, the sum runs over taps: a convolution and dx. */
template <class E, bool divided> struct sum_over_taps {
    conv_part place;
    uint32_t k, k_end; /* the tap whose entry a thread writes next */

    __device__ __forceinline__ void write_entry(const conv_arguments &p, tap_tables &tables,
                                                int stage)
    {
        tap_entry entry = {conv_part_outside(), 0};

        if (threadIdx.x < DEPTH) {
            if (k < k_end) entry.part = tap_part(p, k, &entry.plain);
            tables.entry[stage][threadIdx.x] = entry;
        }
        k += DEPTH;
    }

    __device__ __forceinline__ sum_over_taps(const conv_arguments &p, const conv_tile &at,
                                             tap_tables &tables)
    {
        conv_origin first = origin_of(p, at.column);
        int column = threadIdx.x % SIDE;
        int64_t unused;

        place = conv_part_outside();
        if (at.column + column < p.columns)
            place = place_part(p, first.image, first.place + (uint32_t)column, &unused);
        k = (uint32_t)at.k_begin + threadIdx.x;
        k_end = (uint32_t)at.k_end;
        write_entry(p, tables, 0);
    }

    __device__ __forceinline__ void load(const conv_arguments &p, loaded<E> *to, const E *rows,
                                         int rows_left, const E *x, const tap_tables &tables,
                                         int stage)
    {
        const tap_entry &own = tables.entry[stage][own_depth()];

        load_plain(p, to, rows, rows_left, own.plain, own.part.at[0] != OUTSIDE);
#pragma unroll
        for (int i = 0; i < LOADS; i++)
            to->gathered[i] = gather<divided>(
                p, x, place, tables.entry[stage][threadIdx.x / SIDE + i * (THREADS / SIDE)].part);
    }

    template <class T>
    static __device__ __forceinline__ void store_gathered(tile_pair<T> &tile, const loaded<E> &from)
    {
#pragma unroll
        for (int i = 0; i < LOADS; i++)
            tile.gathered[threadIdx.x / SIDE + i * (THREADS / SIDE)][threadIdx.x % SIDE] =
                to_real(from.gathered[i]);
    }

    /* Where column number i of the tile is in a row of the result. */
    static __device__ __forceinline__ int64_t column_offset(const conv_arguments &p,
                                                            const conv_origin &first,
                                                            const conv_tile &, int i)
    {
        uint32_t number = first.place + (uint32_t)i, image = divide(number, p.plane);

        return (first.image + image) * p.result_stride.image + (number - image * p.plane.value);
    }
};

/* Columns are taps, the sum runs over places: dw. */
template <class E, bool divided> struct sum_over_places {
    conv_origin first;
    uint32_t k, k_count; /* from the first place of the split */

    __device__ __forceinline__ void write_entry(const conv_arguments &, tap_tables &, int) {}

    __device__ __forceinline__ sum_over_places(const conv_arguments &p, const conv_tile &at,
                                               tap_tables &tables)
    {
        int64_t column = at.column + threadIdx.x, unused;

        first = origin_of(p, at.k_begin);
        k = (uint32_t)own_depth();
        k_count = (uint32_t)(at.k_end - at.k_begin);
        if (threadIdx.x < SIDE)
            tables.column[threadIdx.x] =
                column < p.columns ? tap_part(p, (uint32_t)column, &unused) : conv_part_outside();
    }

    __device__ __forceinline__ void load(const conv_arguments &p, loaded<E> *to, const E *rows,
                                         int rows_left, const E *x, const tap_tables &tables, int)
    {
        conv_part place = conv_part_outside();
        int64_t offset = 0;

        if (k < k_count) place = place_part(p, first.image, first.place + k, &offset);
        load_plain(p, to, rows, rows_left, offset, k < k_count);
#pragma unroll
        for (int i = 0; i < LOADS; i++)
            to->gathered[i] = gather<divided>(p, x, place, tables.column[own_line(i)]);
        k += DEPTH;
    }

    template <class T>
    static __device__ __forceinline__ void store_gathered(tile_pair<T> &tile, const loaded<E> &from)
    {
#pragma unroll
        for (int i = 0; i < LOADS; i++)
            tile.gathered[own_depth()][own_line(i)] = to_real(from.gathered[i]);
    }

    static __device__ __forceinline__ int64_t column_offset(const conv_arguments &,
                                                            const conv_origin &,
                                                            const conv_tile &at, int i)
    {
        return at.column + i;
    }
};

/* A thread's four elements of one number of what is summed over. */
template <class T> __device__ __forceinline__ void load_own(T (&to)[FOUR], const T *from)
{
#pragma unroll
    for (int g = 0; g < FOUR; g += pack<T>::n) {
        pack<T> some = *(const pack<T> *)(from + g);

#pragma unroll
        for (int i = 0; i < pack<T>::n; i++) to[g + i] = some.at[i];
    }
}

template <class T>
__device__ __forceinline__ void multiply_tile(T (&sum)[FOUR][FOUR], const tile_pair<T> &tile)
{
    int row = threadIdx.x / SIDE_THREADS * FOUR, column = threadIdx.x % SIDE_THREADS * FOUR;

#pragma unroll 4
    for (int k = 0; k < DEPTH; k++) {
        T a[FOUR], b[FOUR];

        load_own(a, &tile.plain[k][row]);
        load_own(b, &tile.gathered[k][column]);
#pragma unroll
        for (int i = 0; i < FOUR; i++)
#pragma unroll
            for (int j = 0; j < FOUR; j++) sum[i][j] += a[i] * b[j];
    }
}

/* Four results of a row, of which `have` are there, at these offsets. */
template <class Out, class T>
__device__ __forceinline__ void store_four(Out *row, const T (&sum)[FOUR], T bias,
                                           const int64_t (&offset)[FOUR], int have, bool packed)
{
    Out v[FOUR];

#pragma unroll
    for (int j = 0; j < FOUR; j++) v[j] = from_real<Out>(sum[j] + bias);
    if (packed && have == FOUR) {
        store_words(v, row + offset[0]);
        return;
    }
#pragma unroll
    for (int j = 0; j < FOUR; j++)
        if (j < have) row[offset[j]] = v[j];
}

template <class E, class Sum>
__device__ __forceinline__ void store_tile(const conv_arguments &p, const conv_tile &at,
                                           const real<E> (&sum)[FOUR][FOUR])
{
    typedef real<E> T;
    int row = threadIdx.x / SIDE_THREADS * FOUR, column = threadIdx.x % SIDE_THREADS * FOUR;
    int64_t left = p.columns - at.column - column, offset[FOUR];
    conv_origin first = origin_of(p, at.column);
    int have = left < FOUR ? (int)left : (int)FOUR;

#pragma unroll
    for (int j = 0; j < FOUR; j++) offset[j] = Sum::column_offset(p, first, at, column + j);
#pragma unroll
    for (int i = 0; i < FOUR; i++) {
        int64_t r = at.row + row + i;
        int64_t result = at.group * p.result_stride.group + r * p.result_stride.row;
        T bias = 0;

        if (r >= p.rows) break;
        if (p.bias)
            bias = to_real(
                ((const E *)p.bias)[at.group * p.bias_stride.group + r * p.bias_stride.row]);
        if (p.partial)
            store_four((T *)p.result + blockIdx.y * p.results + result, sum[i], bias, offset, have,
                       p.packed);
        else
            store_four((E *)p.result + result, sum[i], bias, offset, have, p.packed);
    }
}

template <class E, class Sum>
__global__ void __launch_bounds__(THREADS, 2) multiply_windows(conv_arguments p)
{
    typedef real<E> T;
    typedef tile_pair<T> tile;
    GPU_SHARED(tile, tiles, [2]);
    GPU_SHARED(tap_tables, tables, [1]);
    conv_tile at = conv_tile_of(p, SIDE, SIDE);
    const E *x = (const E *)p.gathered + at.group * p.gathered_stride.group;
    const E *rows =
        (const E *)p.plain + at.group * p.plain_stride.group + at.row * p.plain_stride.row;
    int rows_left = p.rows - at.row < SIDE ? (int)(p.rows - at.row) : (int)SIDE, stage = 0;
    T sum[FOUR][FOUR] = {};
    loaded<E> next;
    Sum over(p, at, tables[0]);

    __syncthreads();
    over.load(p, &next, rows, rows_left, x, tables[0], 0);
    for (int64_t k = at.k_begin; k < at.k_end; k += DEPTH, stage = 1 - stage) {
#pragma unroll
        for (int i = 0; i < LOADS; i++)
            tiles[stage].plain[own_depth()][own_line(i)] = to_real(next.plain[i]);
        Sum::store_gathered(tiles[stage], next);
        over.write_entry(p, tables[0], 1 - stage);
        __syncthreads(); /* and nobody reads the other stage any more */
        over.load(p, &next, rows, rows_left, x, tables[0], 1 - stage);
        multiply_tile(sum, tiles[stage]);
    }
    store_tile<E, Sum>(p, at, sum);
}

template <bool by_places, bool divided> conv_kernel kernel_for(uint8_t dtype)
{
    conv_kernel kernel = {NULL, THREADS, SIDE, SIDE};

    with_float_type(dtype, [&](auto e) {
        typedef typename decltype(e)::type E;
        typedef std::conditional_t<by_places, sum_over_places<E, divided>,
                                   sum_over_taps<E, divided>>
            Sum;

        kernel.run = multiply_windows<E, Sum>;
    });
    return kernel;
}

} // namespace

conv_kernel wf_cuda_window_product(uint8_t dtype, bool by_places, bool divided)
{
    if (by_places) return kernel_for<true, false>(dtype);
    return divided ? kernel_for<false, true>(dtype) : kernel_for<false, false>(dtype);
}
