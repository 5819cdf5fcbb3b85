/*
 * strided_copy.c: strided copies for packing and unpacking. Dims that follow each other on
 * both sides are merged when the copy is planned; runs are moved whole, short ones without a call.
 */
#include "redistribute/strided_copy.h"

#include <stdbool.h>
#include <string.h>

#include "base/int_math.h"

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

void wf_strided_copy_init(struct wf_strided_copy *copy, int ndim, const int64_t *shape,
                          const int64_t *src_stride, const int64_t *dst_stride, size_t element)
{
    int64_t bytes = (int64_t)element;
    int last;

    *copy = (struct wf_strided_copy){.run = element};
    for (int d = 0; d < ndim; d++)
        if (shape[d] != 1)
            add_copy_loop(copy, shape[d], src_stride[d] * bytes, dst_stride[d] * bytes);
    last = copy->loops - 1;
    if (last < 0 || copy->src_step[last] != bytes || copy->dst_step[last] != bytes) return;
    copy->run = (size_t)(copy->count[last] * bytes);
    copy->loops--;
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
        memcpy(dst, src, bytes);
    }
}

/* `bytes` is a constant in the calls for element sizes, so that the loop is a plain move. */
static inline void copy_strided_row(char *dst, const char *src, int64_t count, int64_t dst_step,
                                    int64_t src_step, size_t bytes)
{
    for (int64_t i = 0; i < count; i++)
        copy_contiguous_run(dst + i * dst_step, src + i * src_step, bytes);
}

static void copy_innermost_loop(const struct wf_strided_copy *c, char *dst, const char *src)
{
    int last = c->loops - 1;
    int64_t count = c->count[last], to = c->dst_step[last], from = c->src_step[last];

    switch (c->run) {
    case 1:
        copy_strided_row(dst, src, count, to, from, 1);
        break;
    case 2:
        copy_strided_row(dst, src, count, to, from, 2);
        break;
    case 4:
        copy_strided_row(dst, src, count, to, from, 4);
        break;
    case 8:
        copy_strided_row(dst, src, count, to, from, 8);
        break;
    default:
        copy_strided_row(dst, src, count, to, from, c->run);
    }
}

/* NOTE [tiles] Where the source runs along another dim than the destination (a transposed view),
 * row after row would fetch a line per element. Loops over tiles use each line while it is there.
 */
enum { TILE = 16 };

static bool is_transposed_loop(const struct wf_strided_copy *c, int outer)
{
    int inner = outer + 1;

    return c->src_step[outer] < c->src_step[inner] && c->dst_step[outer] > c->dst_step[inner] &&
           c->count[outer] > TILE && c->count[inner] > TILE;
}

static void copy_in_tiles(const struct wf_strided_copy *c, int outer, char *dst, const char *src)
{
    struct wf_strided_copy row = *c;
    int inner = outer + 1;

    for (int64_t j = 0; j < c->count[inner]; j += TILE) {
        row.count[inner] = wf_min_i64(TILE, c->count[inner] - j);
        for (int64_t i = 0; i < c->count[outer]; i++)
            copy_innermost_loop(&row, dst + i * c->dst_step[outer] + j * c->dst_step[inner],
                                src + i * c->src_step[outer] + j * c->src_step[inner]);
    }
}

static void copy_nested_loops(const struct wf_strided_copy *c, int loop, char *dst, const char *src)
{
    if (loop == c->loops - 1) {
        copy_innermost_loop(c, dst, src);
        return;
    }
    if (loop == c->loops - 2 && is_transposed_loop(c, loop)) {
        copy_in_tiles(c, loop, dst, src);
        return;
    }
    for (int64_t i = 0; i < c->count[loop]; i++)
        copy_nested_loops(c, loop + 1, dst + i * c->dst_step[loop], src + i * c->src_step[loop]);
}

void wf_strided_copy_run(const struct wf_strided_copy *copy, void *dst, const void *src)
{
    char *to = (char *)dst + copy->dst_offset;
    const char *from = (const char *)src + copy->src_offset;

    if (copy->loops == 0)
        memcpy(to, from, copy->run);
    else
        copy_nested_loops(copy, 0, to, from);
}
