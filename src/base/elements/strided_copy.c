/*
 * strided_copy.c: strided copies. Dims that follow each other on both sides are merged when the
 * copy is planned; runs are moved whole, short ones without a call; where one side runs along
 * another dim than the other, two loops are walked in tiles, elements of 4 bytes in quads
 * (transposed_copy.h).
 */
#include "base/elements/strided_copy.h"

#include <stdbool.h>
#include <string.h>

#include "base/elements/stream_copy.h"
#include "base/elements/transposed_copy.h"
#include "base/int_math.h"

/* NOTE [tiles] Where the source runs along another dim than the destination (a transposed view),
 * row after row would fetch a line per element. Tiles use each line while it is there;
 * they are narrow because lines a power of two apart fall into the same few places of the cache. */
enum { TILE = 16 };

/* ---- plan ---- */

/* Make the dim of `count` elements one more loop, inside those that are there. */
static void add_copy_loop(struct wf_strided_copy *c, int64_t count, int64_t src_step,
                          int64_t dst_step)
{
    int last = c->loops - 1;

    if (last >= 0 && c->src_step[last] == count * src_step &&
        c->dst_step[last] == count * dst_step) {
        c->count[last] *= count;
        c->src_step[last] = src_step;
        c->dst_step[last] = dst_step;
        return;
    }
    c->count[c->loops] = count;
    c->src_step[c->loops] = src_step;
    c->dst_step[c->loops++] = dst_step;
}

static void move_loop(struct wf_strided_copy *c, int from, int to)
{
    int64_t count = c->count[from], src_step = c->src_step[from], dst_step = c->dst_step[from];

    for (int i = from; i < to; i++) {
        c->count[i] = c->count[i + 1];
        c->src_step[i] = c->src_step[i + 1];
        c->dst_step[i] = c->dst_step[i + 1];
    }
    c->count[to] = count;
    c->src_step[to] = src_step;
    c->dst_step[to] = dst_step;
}

/* The outer loop along which the source lies closest, if closer than along the innermost. */
static void choose_tiling(struct wf_strided_copy *c)
{
    int inner = c->loops - 1, outer = -1;

    for (int i = 0; i < inner; i++)
        if (c->src_step[i] > 0 && c->src_step[i] < c->src_step[outer < 0 ? inner : outer] &&
            c->dst_step[i] > c->dst_step[inner] && c->count[i] >= TILE && c->count[inner] >= TILE)
            outer = i;
    c->tiled = outer >= 0;
    if (outer >= 0) move_loop(c, outer, inner - 1);
}

void wf_strided_copy_init(struct wf_strided_copy *copy, const int64_t *shape,
                          const int64_t *src_stride, const int64_t *dst_stride, int ndim,
                          size_t element)
{
    int64_t bytes = (int64_t)element, rows = 1;
    int last;

    *copy = (struct wf_strided_copy){.run = element};
    for (int d = 0; d < ndim; d++) {
        if (shape[d] == 0) {
            *copy = (struct wf_strided_copy){0};
            return;
        }
        if (shape[d] != 1)
            add_copy_loop(copy, shape[d], src_stride[d] * bytes, dst_stride[d] * bytes);
    }
    last = copy->loops - 1;
    if (last >= 0 && copy->src_step[last] == bytes && copy->dst_step[last] == bytes) {
        copy->run = (size_t)(copy->count[last] * bytes);
        copy->loops--;
    }
    choose_tiling(copy);
    wf_transposed_copy_plan(copy);
    for (int i = 0; i < copy->loops; i++) rows *= copy->count[i];
    wf_strided_copy_stream(copy, rows * (int64_t)copy->run);
}

void wf_strided_copy_stream(struct wf_strided_copy *copy, int64_t total)
{
    if (copy->transposed)
        copy->streamed = wf_is_streamed_by_lines(total);
    else
        copy->streamed =
            copy->loops > 0 && !copy->tiled && wf_is_streamed(total, (int64_t)copy->run);
}

int64_t wf_row_major_strides(int64_t *stride, const int64_t *shape, int ndim)
{
    int64_t step = 1;

    for (int d = ndim - 1; d >= 0; d--) {
        stride[d] = step;
        step *= shape[d];
    }
    return step;
}

/* ---- run ---- */

/* Overlapping moves of fixed size cover any length from 8 to 32 bytes. */
static inline void copy_contiguous_run(char *dst, const char *src, size_t bytes)
{
    char first[16], last[16];

    if (bytes >= 16 && bytes <= 32) {
        memcpy(first, src, 16);
        memcpy(last, src + bytes - 16, 16);
        memcpy(dst, first, 16);
        memcpy(dst + bytes - 16, last, 16);
    } else if (bytes >= 8 && bytes < 16) {
        memcpy(first, src, 8);
        memcpy(last, src + bytes - 8, 8);
        memcpy(dst, first, 8);
        memcpy(dst + bytes - 8, last, 8);
    } else {
        wf_copy_row(dst, src, bytes);
    }
}

/* `bytes` is a constant in the calls for element sizes, so that the loop is a plain move. */
static inline void copy_strided_row(char *dst, const char *src, int64_t count, int64_t dst_step,
                                    int64_t src_step, size_t bytes)
{
    for (int64_t i = 0; i < count; i++)
        copy_contiguous_run(dst + i * dst_step, src + i * src_step, bytes);
}

static inline void copy_tiled(const struct wf_strided_copy *c, char *dst, const char *src,
                              size_t bytes)
{
    int inner = c->loops - 1, outer = inner - 1;
    int64_t rows = c->count[outer], n = c->count[inner];
    int64_t to_row = c->dst_step[outer], to = c->dst_step[inner];
    int64_t from_row = c->src_step[outer], from = c->src_step[inner];

    for (int64_t i = 0; i < n; i += TILE)
        for (int64_t r = 0; r < rows; r++)
            copy_strided_row(dst + r * to_row + i * to, src + r * from_row + i * from,
                             wf_min_i64(TILE, n - i), to, from, bytes);
}

static void stream_rows(const struct wf_strided_copy *c, char *dst, const char *src)
{
    int last = c->loops - 1;

    for (int64_t i = 0; i < c->count[last]; i++)
        wf_stream_row(dst + i * c->dst_step[last], src + i * c->src_step[last], c->run,
                      c->dst_step[last]);
}

static inline void copy_inner_loops(const struct wf_strided_copy *c, char *dst, const char *src,
                                    size_t bytes)
{
    int last = c->loops - 1;

    if (c->tiled)
        copy_tiled(c, dst, src, bytes);
    else
        copy_strided_row(dst, src, c->count[last], c->dst_step[last], c->src_step[last], bytes);
}

static void copy_loops_around_transpose(const struct wf_strided_copy *c, int loop, char *dst,
                                        const char *src)
{
    if (loop == c->columns || loop == c->outer_columns)
        copy_loops_around_transpose(c, loop + 1, dst, src);
    else if (loop == c->loops - 1)
        wf_transposed_copy_run(c, dst, src);
    else
        for (int64_t i = 0; i < c->count[loop]; i++)
            copy_loops_around_transpose(c, loop + 1, dst + i * c->dst_step[loop],
                                        src + i * c->src_step[loop]);
}

static void copy_nested_loops(const struct wf_strided_copy *c, int loop, char *dst, const char *src)
{
    if (loop < c->loops - 1 - c->tiled) {
        for (int64_t i = 0; i < c->count[loop]; i++)
            copy_nested_loops(c, loop + 1, dst + i * c->dst_step[loop],
                              src + i * c->src_step[loop]);
        return;
    }
    if (c->streamed) {
        stream_rows(c, dst, src);
        return;
    }
    switch (c->run) {
    case 1:
        copy_inner_loops(c, dst, src, 1);
        break;
    case 2:
        copy_inner_loops(c, dst, src, 2);
        break;
    case 4:
        copy_inner_loops(c, dst, src, 4);
        break;
    case 8:
        copy_inner_loops(c, dst, src, 8);
        break;
    case 16:
        copy_inner_loops(c, dst, src, 16);
        break;
    default:
        copy_inner_loops(c, dst, src, c->run);
    }
}

void wf_strided_copy_run(const struct wf_strided_copy *copy, void *dst, const void *src)
{
    char *to;
    const char *from;

    if (copy->run == 0) return;
    to = (char *)dst + copy->dst_offset;
    from = (const char *)src + copy->src_offset;
    if (copy->loops == 0)
        memcpy(to, from, copy->run);
    else if (copy->transposed)
        copy_loops_around_transpose(copy, 0, to, from);
    else
        copy_nested_loops(copy, 0, to, from);
    if (copy->streamed) wf_stream_end();
}
