/*
 * stream_copy.h: copies of rows; those of large results past the caches: what is written does not
 * fit in them anyway, and a row that is written as usual is read from memory first.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/elements/prefetch.h"

enum { WF_ROW_PIECE = 512, WF_ROW_MOST = 8192 };

/** memcpy; rows of half a KiB to some KiB in pieces, because the C library copies longer ones
 * backwards where the two sides lie alike within their pages, as rows often do, and nothing
 * foresees that. */
static inline void wf_copy_row(void *to, const void *from, size_t bytes)
{
    const char *x = (const char *)from;
    char *y = (char *)to;
    size_t left = bytes, piece = bytes > WF_ROW_MOST ? bytes : WF_ROW_PIECE;

    for (; left > piece; left -= piece, x += piece, y += piece) memcpy(y, x, piece);
    memcpy(y, x, left);
}

/** Bytes of a table from which on its rows are asked for before their turn: it has no place in the
 *  second-level cache. */
enum { WF_FAR_TABLE = 1 << 20 };

/** Bytes of a whole result from which on its rows are worth it: beside what it is made from, less
 *  stays in the last cache, where the next op reads it. */
enum { WF_STREAM_LEAST = 16 << 20 };

#if defined(__SSE2__)
#include <emmintrin.h>

/** A result of `total` bytes that is written in whole lines. */
static inline bool wf_is_streamed_by_lines(int64_t total) { return total >= WF_STREAM_LEAST; }

/** Rows of a result of `total` bytes, of which `row` lie together. */
static inline bool wf_is_streamed(int64_t total, int64_t row)
{
    return total >= WF_STREAM_LEAST && row >= 256 && row % 16 == 0;
}

/** Copies a line; `to` starts one. */
static inline void wf_stream_cache_line(char *to, const char *from)
{
    const __m128i *x = (const __m128i *)(const void *)from;
    __m128i *y = (__m128i *)(void *)to;
    __m128i a = _mm_loadu_si128(x), b = _mm_loadu_si128(x + 1), c = _mm_loadu_si128(x + 2),
            d = _mm_loadu_si128(x + 3);

    _mm_stream_si128(y, a);
    _mm_stream_si128(y + 1, b);
    _mm_stream_si128(y + 2, c);
    _mm_stream_si128(y + 3, d);
}

/** Copies: whole lines of `to` past the caches, what is beside them as usual. Of any length;
 *  wf_is_streamed says whether it is worth it. */
static inline void wf_stream_copy(void *to, const void *from, size_t bytes)
{
    const char *x = from;
    char *y = to;
    size_t head = -(uintptr_t)y % WF_CACHE_LINE, i;

    if (head > bytes) head = bytes;
    memcpy(y, x, head);
    for (i = head; i + WF_CACHE_LINE <= bytes; i += WF_CACHE_LINE)
        wf_stream_cache_line(y + i, x + i);
    memcpy(y + i, x + i, bytes - i);
}

/** As wf_stream_copy from the last line to the first, for rows that are read in falling order: the
 * processor foresees what comes next where all reads fall. */
static inline void wf_stream_copy_backward(void *to, const void *from, size_t bytes)
{
    const char *x = from;
    char *y = to;
    size_t head = -(uintptr_t)y % WF_CACHE_LINE, tail, end;

    if (head > bytes) head = bytes;
    tail = (bytes - head) % WF_CACHE_LINE, end = bytes - tail;
    memcpy(y + end, x + end, tail);
    for (; end > head; end -= WF_CACHE_LINE)
        wf_stream_cache_line(y + end - WF_CACHE_LINE, x + end - WF_CACHE_LINE);
    memcpy(y, x, head);
}

/** Behind the last row: other threads see the rows. */
static inline void wf_stream_end(void) { _mm_sfence(); }
#else
static inline bool wf_is_streamed_by_lines(int64_t total) { return (void)total, false; }
static inline bool wf_is_streamed(int64_t total, int64_t row)
{
    return (void)total, (void)row, false;
}
static inline void wf_stream_cache_line(char *to, const char *from)
{
    memcpy(to, from, WF_CACHE_LINE);
}
static inline void wf_stream_copy(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}
static inline void wf_stream_copy_backward(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}
static inline void wf_stream_end(void) {}
#endif

/** wf_stream_copy of one of the rows of a result, which lie `step` bytes apart. Lines that a row
 *  shares with what lies beside it are read before they are written, and the writes behind them
 *  wait for that: those of a later row are prefetched. */
static inline void wf_stream_row(char *to, const char *from, size_t bytes, int64_t step)
{
    enum { ROWS_AHEAD_OF_WRITES = 8 };
    const char *later = to + ROWS_AHEAD_OF_WRITES * step;

    if ((uintptr_t)later % WF_CACHE_LINE) __builtin_prefetch(later, 1);
    if ((uintptr_t)(later + bytes) % WF_CACHE_LINE) __builtin_prefetch(later + bytes, 1);
    wf_stream_copy(to, from, bytes);
}
