/*
 * strided_copy.cu: strided copies (base/elements/strided_copy.h) of device memory. Bytes that lie
 * together on both sides move as words of up to 16 bytes. Where the source runs along another dim
 * than the destination, tiles go through shared memory, so that both are read and written along
 * their own rows.
 */
extern "C" {
#include "kernels/cuda/driver_kernels.h"
}
#include "kernels/cuda/moves/words.h"

enum { TO, FROM, SIDES };

struct copy_arguments {
    char *to;
    const char *from;
    index_map<SIDES> map;
};

static const struct wf_kernel_call *as_call()
{
    static const struct wf_kernel_call call = {nullptr, nullptr, nullptr, "strided copy", 0,
                                               0,       {},      {},      nullptr};

    return &call;
}

/* ---- words ---- */

enum { WORDS = 4 }; /* that a thread has under way at once */

template <class Word>
__global__ void __launch_bounds__(WF_CUDA_BLOCK) copy_words(struct copy_arguments p)
{
    uint32_t first = blockIdx.x * (uint32_t)(WF_CUDA_BLOCK * WORDS) + threadIdx.x;
    int64_t at[WORDS][SIDES] = {};
    Word word[WORDS];

#pragma unroll
    for (int i = 0; i < WORDS; i++) {
        if (first + i * WF_CUDA_BLOCK >= p.map.count) break;
        index_map_locate(p.map, first + i * WF_CUDA_BLOCK, at[i]);
        word[i] = *(const Word *)(p.from + at[i][FROM]);
    }
#pragma unroll
    for (int i = 0; i < WORDS; i++) {
        if (first + i * WF_CUDA_BLOCK >= p.map.count) break;
        *(Word *)(p.to + at[i][TO]) = word[i];
    }
}

template <class Word>
static void launch_word_copies(const struct wf_loop_nest *nest, char *to, const char *from)
{
    for_each_sub_nest(nest, wf_cuda_index_limit,
                      [&](const struct wf_loop_nest &part, const int64_t *at) {
                          struct copy_arguments p = {to + at[TO], from + at[FROM], {}};
                          const int64_t per_block = WF_CUDA_BLOCK * WORDS;

                          index_map_make(&p.map, &part);
                          WF_CUDA_LAUNCH(as_call(), (copy_words<Word>),
                                         dim3((uint32_t)((part.count + per_block - 1) / per_block)),
                                         dim3(WF_CUDA_BLOCK), 0, p);
                      });
}

/* `run` bytes for each index of the nest, which has room for one more dim. */
static void copy_runs(struct wf_loop_nest nest, int64_t run, char *to, const char *from)
{
    int word =
        word_bytes_of((uint64_t)run | joined_steps(&nest, SIDES) | (uintptr_t)to | (uintptr_t)from);

    append_words(&nest, SIDES, run, word);
    launch_for_word(word, [&](auto zero) { launch_word_copies<decltype(zero)>(&nest, to, from); });
}

/* ---- tiles ---- */

/* Rows of the destination are dim 0 of a tile, its columns dim 1; the source lies closest along
 * rows. */
struct tile_arguments {
    char *to;
    const char *from;
    uint32_t rows, columns;
    int64_t to_step[2], from_step[2];
    struct divisor row_tiles, column_tiles;
    index_map<SIDES> outer; /* of whole matrices */
};

enum { LANES = 32, LINES = 8 }; /* threads of a block */

/* A tile's row is so long that the words of a column lie in different banks. */
template <class Word> constexpr int tile_size() { return sizeof(Word) > 2 ? 32 : 64; }
template <class Word> constexpr int tile_padding()
{
    return sizeof(Word) > 2 ? 1 : 4 / sizeof(Word);
}

template <class Word, int size, int padding>
__global__ void __launch_bounds__(LANES *LINES) copy_tiles(struct tile_arguments p)
{
    GPU_SHARED(Word, tile, [size][size + padding]);
    uint32_t row_tiles = divide(blockIdx.x, p.column_tiles);
    uint32_t matrix = divide(row_tiles, p.row_tiles);
    uint32_t row = (row_tiles - matrix * p.row_tiles.value) * size;
    uint32_t column = (blockIdx.x - row_tiles * p.column_tiles.value) * size;
    int64_t at[SIDES] = {};
    const char *from;
    char *to;

    index_map_locate(p.outer, matrix, at);
    from = p.from + at[FROM] + row * p.from_step[0] + column * p.from_step[1];
    to = p.to + at[TO] + row * p.to_step[0] + column * p.to_step[1];
#pragma unroll
    for (int c = 0; c < size; c += LINES)
#pragma unroll
        for (int r = 0; r < size; r += LANES) {
            uint32_t y = c + threadIdx.y, x = r + threadIdx.x;

            if (row + x < p.rows && column + y < p.columns)
                tile[x][y] = *(const Word *)(from + x * p.from_step[0] + y * p.from_step[1]);
        }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < size; r += LINES)
#pragma unroll
        for (int c = 0; c < size; c += LANES) {
            uint32_t y = r + threadIdx.y, x = c + threadIdx.x;

            if (row + y < p.rows && column + x < p.columns)
                *(Word *)(to + y * p.to_step[0] + x * p.to_step[1]) = tile[y][x];
        }
}

template <class Word>
static void launch_tiled_copies(const struct wf_loop_nest *outer, struct tile_arguments p)
{
    const int size = tile_size<Word>(), padding = tile_padding<Word>();
    int64_t row_tiles = ((int64_t)p.rows + size - 1) / size;
    int64_t column_tiles = ((int64_t)p.columns + size - 1) / size, tiles = row_tiles * column_tiles;
    char *to = p.to;
    const char *from = p.from;

    p.row_tiles = divisor_of((uint32_t)row_tiles);
    p.column_tiles = divisor_of((uint32_t)column_tiles);
    for_each_sub_nest(outer, wf_cuda_index_limit / tiles,
                      [&](const struct wf_loop_nest &part, const int64_t *at) {
                          p.to = to + at[TO];
                          p.from = from + at[FROM];
                          index_map_make(&p.outer, &part);
                          WF_CUDA_LAUNCH(as_call(), (copy_tiles<Word, size, padding>),
                                         dim3((uint32_t)(part.count * tiles)), dim3(LANES, LINES),
                                         0, p);
                      });
}

/* The two innermost dims of the nest, in tiles. */
static void copy_matrices(struct wf_loop_nest nest, int word, char *to, const char *from)
{
    struct wf_loop_dim columns = wf_loop_nest_remove_dim(&nest, nest.n_dims - 1);
    struct wf_loop_dim rows = wf_loop_nest_remove_dim(&nest, nest.n_dims - 1);
    struct tile_arguments p = {to,
                               from,
                               (uint32_t)rows.size,
                               (uint32_t)columns.size,
                               {rows.step[TO], columns.step[TO]},
                               {rows.step[FROM], columns.step[FROM]},
                               {},
                               {},
                               {}};

    launch_for_word(word, [&](auto zero) { launch_tiled_copies<decltype(zero)>(&nest, p); });
}

/* ---- copies ---- */

/* Whether a matrix of runs can go through tiles: they are words, and there is a tile for every
 * block. */
static bool fits_tiles(const struct wf_strided_copy *copy, const struct wf_loop_nest *nest,
                       const char *to, const char *from)
{
    int64_t rows, columns;

    if (!copy->tiled || copy->run > 16 || (copy->run & (copy->run - 1))) return false;
    rows = copy->count[copy->loops - 2];
    columns = copy->count[copy->loops - 1];
    if (rows > INT32_MAX || columns > INT32_MAX ||
        (rows / 32 + 1) * (columns / 32 + 1) > wf_cuda_index_limit)
        return false;
    return ((joined_steps(nest, SIDES) | (uintptr_t)to | (uintptr_t)from) & (copy->run - 1)) == 0;
}

/* Loops [first, copy->loops), which leave a dim of a nest for words. */
static void copy_loops(const struct wf_strided_copy *copy, int first, char *to, const char *from)
{
    struct wf_loop_nest nest = {};

    nest.n_operands = SIDES;
    nest.count = 1;
    for (int i = first; i < copy->loops; i++) {
        struct wf_loop_dim *dim = &nest.dim[nest.n_dims++];

        dim->size = copy->count[i];
        dim->step[TO] = copy->dst_step[i];
        dim->step[FROM] = copy->src_step[i];
        nest.count *= copy->count[i];
    }
    if (fits_tiles(copy, &nest, to, from))
        copy_matrices(nest, (int)copy->run, to, from);
    else
        copy_runs(nest, (int64_t)copy->run, to, from);
}

/* A nest has room for WEFT_MAX_DIMS loops; those of a copy that are more, which is rare, are
 * walked here. */
static void copy_outer_loops(const struct wf_strided_copy *copy, int first, char *to,
                             const char *from)
{
    if (copy->loops - first < WEFT_MAX_DIMS) {
        copy_loops(copy, first, to, from);
        return;
    }
    for (int64_t i = 0; i < copy->count[first]; i++)
        copy_outer_loops(copy, first + 1, to + i * copy->dst_step[first],
                         from + i * copy->src_step[first]);
}

/* What lies together as a whole: as many wide words as it has, then the rest. */
static void copy_together(size_t bytes, char *to, const char *from)
{
    const struct wf_loop_nest one = {0, SIDES, 1, {}};
    size_t wide = bytes & ~(size_t)15;

    if (((uintptr_t)to | (uintptr_t)from) & 15) wide = 0;
    if (wide) copy_runs(one, (int64_t)wide, to, from);
    if (bytes > wide) copy_runs(one, (int64_t)(bytes - wide), to + wide, from + wide);
}

void wf_cuda_strided_copy(const struct wf_strided_copy *copy, void *to, const void *from)
{
    char *begin = (char *)to + copy->dst_offset;
    const char *source = (const char *)from + copy->src_offset;

    if (copy->run == 0) return;
    if (copy->loops == 0)
        copy_together(copy->run, begin, source);
    else
        copy_outer_loops(copy, 0, begin, source);
}
