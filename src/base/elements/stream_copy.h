/*
 * stream_copy.h: rows of large results, past the caches. What is written does not fit in them
 * anyway, and a row that is written as usual is read from memory first.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

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
