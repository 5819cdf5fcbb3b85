/* prefetch.h: memory that is read soon is asked for before its turn. */
#pragma once

#include <stdint.h>

enum { WF_CACHE_LINE = 64 };

/**
 * Asks for `bytes` from `from` on.
 *
 * NOTE [empty asm]. gcc takes a function that only prefetches for one without effect and drops the
 * calls of it that it has not inlined by then; the empty asm is an effect that costs nothing.
 */
static inline void wf_prefetch(const void *from, int64_t bytes)
{
    __asm__ volatile("");
    for (int64_t i = 0; i < bytes; i += WF_CACHE_LINE) __builtin_prefetch((const char *)from + i);
}
