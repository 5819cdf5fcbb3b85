/*
 * transposed_copy.c: rows of the source become columns of the destination, 16 x 16 elements of 4
 * bytes at a time: a line of each row is read and a line of each column is written.
 *
 * Columns may be two loops of which the source's elements follow each other through both: an
 * image's places, or a kernel's channels and taps, which lie in another order in the destination.
 */
#include "base/elements/transposed_copy.h"

#include <string.h>

#include "base/elements/stream_copy.h"
#include "base/int_math.h"

enum { ELEMENT = 4, QUAD = 4, TILE = 16 };

/* How many columns before their turn a row's elements are asked for: the processor does not foresee
 * sixteen rows side by side. */
enum { AHEAD = 4 * TILE };

typedef uint32_t quad __attribute__((vector_size(ELEMENT * QUAD), aligned(1), may_alias));

/* ---- plan ---- */

static int find_loop_with_src_step(const struct wf_strided_copy *c, int64_t step)
{
    for (int i = 0; i < c->loops - 1; i++)
        if (c->src_step[i] == step) return i;
    return -1;
}

void wf_transposed_copy_plan(struct wf_strided_copy *c)
{
    int rows = c->loops - 1, columns;

    c->transposed = false;
    if (rows < 1 || c->run != ELEMENT || c->dst_step[rows] != ELEMENT || c->count[rows] < QUAD)
        return;
    columns = find_loop_with_src_step(c, ELEMENT);
    if (columns < 0) return;
    c->outer_columns = (int8_t)find_loop_with_src_step(c, c->count[columns] * ELEMENT);
    c->columns = (int8_t)columns;
    c->transposed = c->count[columns] >= QUAD || c->outer_columns >= 0;
}

/* ---- run ---- */

/* Where the next columns go. */
struct column_walk {
    int64_t at, count, step; /* within the inner loop */
    int64_t outer_step;      /* once it is through */
    char *to;
};

static char *next_column_address(struct column_walk *walk)
{
    char *to = walk->to;

    walk->to += walk->step;
    if (++walk->at == walk->count) {
        walk->at = 0;
        walk->to += walk->outer_step - walk->count * walk->step;
    }
    return to;
}

/* to[j][at + i] = from[i][j] for 4 x 4 elements. */
static inline void transpose_4x4(const char *from, int64_t row, char *const *to, int64_t at)
{
    quad a = *(const quad *)(const void *)from, b = *(const quad *)(const void *)(from + row),
         c = *(const quad *)(const void *)(from + 2 * row),
         d = *(const quad *)(const void *)(from + 3 * row);
    quad ab = __builtin_shufflevector(a, b, 0, 4, 1, 5),
         cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);

    *(quad *)(void *)(to[0] + at) = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
    *(quad *)(void *)(to[1] + at) = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
    ab = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    cd = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    *(quad *)(void *)(to[2] + at) = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
    *(quad *)(void *)(to[3] + at) = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
}

/* Up to TILE x TILE elements; to[j] + at is where column j of the first row goes. */
static inline void transpose_tile(int64_t rows, int64_t columns, const char *from, int64_t row,
                                  char *const *to, int64_t at)
{
    int64_t whole_rows = rows - rows % QUAD, whole_columns = columns - columns % QUAD;

    for (int64_t i = 0; i < whole_rows; i += QUAD)
        for (int64_t j = 0; j < whole_columns; j += QUAD)
            transpose_4x4(from + i * row + j * ELEMENT, row, to + j, at + i * ELEMENT);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = i < whole_rows ? whole_columns : 0; j < columns; j++)
            memcpy(to[j] + at + i * ELEMENT, from + i * row + j * ELEMENT, ELEMENT);
}

/* A whole tile whose columns are lines that go past the caches. */
static inline void stream_tile(const char *from, int64_t row, char *const *to, int64_t at)
{
    char lines[TILE][WF_CACHE_LINE], *line[TILE];

    for (int j = 0; j < TILE; j++) line[j] = lines[j];
    transpose_tile(TILE, TILE, from, row, line, 0);
    for (int j = 0; j < TILE; j++) {
        if ((uintptr_t)(to[j] + at) % WF_CACHE_LINE)
            memcpy(to[j] + at, line[j], WF_CACHE_LINE);
        else
            wf_stream_cache_line(to[j] + at, line[j]);
    }
}

void wf_transposed_copy_run(const struct wf_strided_copy *c, char *dst, const char *src)
{
    int last = c->loops - 1, outer = c->outer_columns;
    int64_t rows = c->count[last], row = c->src_step[last], inner = c->count[c->columns];
    int64_t columns = inner * (outer < 0 ? 1 : c->count[outer]);

    for (int64_t i = 0; i < rows; i += TILE) {
        struct column_walk walk = {.count = inner,
                                   .step = c->dst_step[c->columns],
                                   .outer_step = outer < 0 ? 0 : c->dst_step[outer],
                                   .to = dst};

        for (int64_t j = 0; j < columns; j += TILE) {
            int64_t n = wf_min_i64(TILE, columns - j);
            char *to[TILE];

            for (int64_t k = 0; k < n; k++) to[k] = next_column_address(&walk);
            for (int64_t k = i; k < wf_min_i64(i + TILE, rows); k++)
                __builtin_prefetch(src + k * row + (j + AHEAD) * ELEMENT);
            if (c->streamed && n == TILE && rows - i >= TILE)
                stream_tile(src + i * row + j * ELEMENT, row, to, i * ELEMENT);
            else
                transpose_tile(wf_min_i64(TILE, rows - i), n, src + i * row + j * ELEMENT, row, to,
                               i * ELEMENT);
        }
    }
}
