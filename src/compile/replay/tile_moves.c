/* tile_moves.c: requests ahead, and stores past the cache where the processor has them. */
#include "compile/replay/tile_moves.h"

#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum { LINE = 64 };

void wf_tile_ask_for(const char *from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += LINE) __builtin_prefetch(from + i);
}

#ifdef __SSE2__
void wf_tile_store(char *to, const char *from, size_t bytes)
{
    size_t head = (LINE - (uintptr_t)to % LINE) % LINE, i;

    if (head > bytes) head = bytes;
    memcpy(to, from, head);
    for (i = head; i + LINE <= bytes; i += LINE)
        for (size_t k = 0; k < LINE; k += sizeof(__m128i)) {
            __m128i piece;

            memcpy(&piece, from + i + k, sizeof piece);
            _mm_stream_si128((__m128i *)(void *)(to + i + k), piece);
        }
    memcpy(to + i, from + i, bytes - i);
}

void wf_tile_flush(void) { _mm_sfence(); }
#else
void wf_tile_store(char *to, const char *from, size_t bytes) { memcpy(to, from, bytes); }

void wf_tile_flush(void) {}
#endif
