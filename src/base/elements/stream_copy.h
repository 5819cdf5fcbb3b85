/*
 * stream_copy.h: copies of rows; those of large results past the caches: what is written does not
 * fit in them anyway, and a row that is written as usual is read from memory first.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { WF_ROW_PIECE = 512, WF_ROW_MOST = 8192, WF_LINE = 64 };

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

/** Asks for a row. */
static inline void wf_prefetch_row(const void *row, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i += WF_LINE) __builtin_prefetch((const char *)row + i);
}

/** Bytes of a whole result from which on its rows are worth it: less stays in the last cache. */
enum { WF_STREAM_LEAST = 24 << 20 };

#if defined(__SSE2__)
#include <emmintrin.h>

/** Rows of a result of `total` bytes, of which `row` lie together. */
static inline bool wf_is_streamed(int64_t total, int64_t row)
{
    return total >= WF_STREAM_LEAST && row >= 256 && row % 16 == 0;
}

/** For rows that wf_is_streamed has said yes to; elsewhere memcpy. */
static inline void wf_stream_copy(void *to, const void *from, size_t bytes)
{
    const char *x = from;
    char *y = to;

    if ((uintptr_t)y % 16) {
        memcpy(to, from, bytes);
        return;
    }
    for (size_t i = 0; i < bytes; i += 16)
        _mm_stream_si128((__m128i *)(void *)(y + i),
                         _mm_loadu_si128((const __m128i *)(const void *)(x + i)));
}

/** Behind the last row: other threads see the rows. */
static inline void wf_stream_end(void) { _mm_sfence(); }
#else
static inline bool wf_is_streamed(int64_t total, int64_t row)
{
    return (void)total, (void)row, false;
}
static inline void wf_stream_copy(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}
static inline void wf_stream_end(void) {}
#endif
