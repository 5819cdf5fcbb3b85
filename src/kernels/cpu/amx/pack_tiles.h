/*
 * pack_tiles.h: operands of a product as tiles: 16 rows of 64 bytes, one after the other.
 *
 * A tile of A is 16 lines (rows of A) of 32 k. A tile of B is 16 pairs of k, each with its two
 * elements of 16 lines (columns of B). Read as words of 32 bits, pairs of k, the two are each
 * other's transpose, so an operand is loaded in the order in which it lies and turned where its
 * product wants the other. What a tile has beyond the operand is zero.
 */
#pragma once

#include <immintrin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/elements/dtype.h"

enum { LINES = 16, DEPTH = 32, TILE = LINES * DEPTH };

#define AMX_INLINE static inline __attribute__((always_inline))
#define AMX_UNROLL _Pragma("GCC unroll 16")

/** How one operand lies: line l, k at from[l ld + k], or, across, at from[k ld + l]. */
struct wf_amx_operand {
    const wf_bf16 *from;
    int64_t ld;
    bool across;
};

AMX_INLINE uint32_t mask_of_first(int64_t count)
{
    return count >= 32 ? ~(uint32_t)0 : count <= 0 ? 0 : ((uint32_t)1 << count) - 1;
}

/** word[l] = the 32 k of line l. */
AMX_INLINE void load_line_major(__m512i *word, const wf_bf16 *from, int64_t ld, int64_t lines,
                                int64_t depth)
{
    __mmask32 mask = mask_of_first(depth);

    AMX_UNROLL for (int l = 0; l < LINES; l++) word[l] =
        l < lines ? _mm512_maskz_loadu_epi16(mask, from + l * ld) : _mm512_setzero_si512();
}

AMX_INLINE __m512i load_line_widened(const wf_bf16 *from, __mmask16 mask)
{
    return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from));
}

/** word[p] = k = 2p and 2p + 1 of each of the 16 lines. */
AMX_INLINE void load_k_major(__m512i *word, const wf_bf16 *from, int64_t ld, int64_t lines,
                             int64_t depth)
{
    __mmask16 mask = (__mmask16)mask_of_first(lines);

    AMX_UNROLL for (int p = 0; p < DEPTH / 2; p++)
    {
        __m512i even = load_line_widened(from + 2 * p * ld, 2 * p < depth ? mask : 0);
        __m512i odd = load_line_widened(from + (2 * p + 1) * ld, 2 * p + 1 < depth ? mask : 0);

        word[p] = _mm512_or_si512(even, _mm512_slli_epi32(odd, 16));
    }
}

/** The transpose of 16 x 16 words, by halves of 2, 4, 8 and 16. */
AMX_INLINE void transpose_16x16(__m512i *word)
{
    __m512i half[LINES];

    AMX_UNROLL for (int i = 0; i < LINES; i += 2)
    {
        half[i] = _mm512_unpacklo_epi32(word[i], word[i + 1]);
        half[i + 1] = _mm512_unpackhi_epi32(word[i], word[i + 1]);
    }
    AMX_UNROLL for (int i = 0; i < LINES; i += 4) AMX_UNROLL for (int j = 0; j < 2; j++)
    {
        word[i + 2 * j] = _mm512_unpacklo_epi64(half[i + j], half[i + j + 2]);
        word[i + 2 * j + 1] = _mm512_unpackhi_epi64(half[i + j], half[i + j + 2]);
    }
    AMX_UNROLL for (int i = 0; i < LINES; i += 8) AMX_UNROLL for (int j = 0; j < 4; j++)
    {
        half[i + j] = _mm512_shuffle_i32x4(word[i + j], word[i + j + 4], 0x88);
        half[i + j + 4] = _mm512_shuffle_i32x4(word[i + j], word[i + j + 4], 0xdd);
    }
    AMX_UNROLL for (int j = 0; j < 8; j++)
    {
        word[j] = _mm512_shuffle_i32x4(half[j], half[j + 8], 0x88);
        word[j + 8] = _mm512_shuffle_i32x4(half[j], half[j + 8], 0xdd);
    }
}

AMX_INLINE void pack_tile(bool across, bool turned, const wf_bf16 *from, int64_t ld, int64_t lines,
                          int64_t depth, wf_bf16 *to)
{
    __m512i word[LINES];

    if (across)
        load_k_major(word, from, ld, lines, depth);
    else
        load_line_major(word, from, ld, lines, depth);
    if (turned) transpose_16x16(word);
    AMX_UNROLL for (int i = 0; i < LINES; i++)
        _mm512_store_si512((void *)(to + i * DEPTH), word[i]);
}

/** 16 lines that lie along k, tile after tile. */
AMX_INLINE void pack_line_strip(bool turned, const wf_bf16 *from, int64_t ld, int64_t lines,
                                int64_t depth, wf_bf16 *to)
{
    if (lines >= LINES)
        for (; depth >= DEPTH; depth -= DEPTH, from += DEPTH, to += TILE)
            pack_tile(false, turned, from, ld, LINES, DEPTH, to);
    for (; depth > 0; depth -= DEPTH, from += DEPTH, to += TILE)
        pack_tile(false, turned, from, ld, lines, depth, to);
}

/** 32 k of lines that lie across, whose tiles are `next` apart. */
AMX_INLINE void pack_k_step(bool turned, const wf_bf16 *from, int64_t ld, int64_t lines,
                            int64_t depth, wf_bf16 *to, int64_t next)
{
    if (depth >= DEPTH)
        for (; lines >= LINES; lines -= LINES, from += LINES, to += next)
            pack_tile(true, turned, from, ld, LINES, DEPTH, to);
    for (; lines > 0; lines -= LINES, from += LINES, to += next)
        pack_tile(true, turned, from, ld, lines, depth, to);
}

static void pack_line_major(bool turned, const wf_bf16 *from, int64_t ld, int64_t lines,
                            int64_t depth, wf_bf16 *to, int64_t next)
{
    for (int64_t l = 0; l < lines; l += LINES, from += LINES * ld, to += next)
        if (turned)
            pack_line_strip(true, from, ld, lines - l, depth, to);
        else
            pack_line_strip(false, from, ld, lines - l, depth, to);
}

/* By k, so that memory is read in order and whole cache lines at a time. */
static void pack_k_major(bool turned, const wf_bf16 *from, int64_t ld, int64_t lines, int64_t depth,
                         wf_bf16 *to, int64_t next)
{
    for (int64_t k = 0; k < depth; k += DEPTH, from += DEPTH * ld, to += TILE)
        if (turned)
            pack_k_step(true, from, ld, lines, depth - k, to, next);
        else
            pack_k_step(false, from, ld, lines, depth - k, to, next);
}

/** Elements of 16 packed lines. */
AMX_INLINE int64_t packed_line_elements(int64_t depth)
{
    return (depth + DEPTH - 1) / DEPTH * TILE;
}

/**
 * Lines from `line` on, k from `k` on, as tiles of the left or the right operand. A block of 32 may
 * read 16 lines more, whatever they are: their sums are not used.
 */
static void pack_operand(const struct wf_amx_operand *s, bool right, int64_t line, int64_t lines,
                         int64_t k, int64_t depth, wf_bf16 *to)
{
    int64_t next = packed_line_elements(depth);

    if (s->across)
        pack_k_major(!right, s->from + k * s->ld + line, s->ld, lines, depth, to, next);
    else
        pack_line_major(right, s->from + line * s->ld + k, s->ld, lines, depth, to, next);
}
