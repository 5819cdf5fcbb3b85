/*
 * words.h: moving elements as words of up to 16 bytes: the largest word that divides the bytes
 * which lie together on both sides, every step, and both addresses.
 */
#pragma once

#include "kernels/cuda/element.h"
#include "kernels/cuda/index_map.h"
#include "kernels/cuda/prepare.h"

/** A word of 16 bytes. */
struct wide_word {
    uint32_t part[4];
} __attribute__((aligned(16)));

/** The largest power of two up to 16 that divides all of `bits`, which are numbers joined by |. */
static inline int word_bytes_of(uint64_t bits)
{
    int bytes = 16;

    while (bits & (uint64_t)(bytes - 1)) bytes /= 2;
    return bytes;
}

/** The steps of a nest's first n operands, joined by |. */
static inline uint64_t joined_steps(const struct wf_loop_nest *nest, int n)
{
    uint64_t bits = 0;

    for (int d = 0; d < nest->n_dims; d++)
        for (int i = 0; i < n; i++) bits |= (uint64_t)nest->dim[d].step[i];
    return bits;
}

/** Append to the nest, innermost, the words of `run` bytes that lie together in its first n
 *  operands. There is room: a dim that was taken out. */
static inline void append_words(struct wf_loop_nest *nest, int n, int64_t run, int word)
{
    struct wf_loop_dim *inner = &nest->dim[nest->n_dims];

    if (run == word) return;
    *inner = {};
    inner->size = run / word;
    for (int i = 0; i < n; i++) inner->step[i] = word;
    nest->count *= inner->size;
    nest->n_dims++;
}

/** launch(Word()) for the word of so many bytes. */
template <class Launch> static inline void launch_for_word(int bytes, Launch launch)
{
    switch (bytes) {
    case 16:
        return launch(wide_word());
    case 8:
        return launch(uint64_t());
    case 4:
        return launch(uint32_t());
    case 2:
        return launch(uint16_t());
    default:
        return launch(uint8_t());
    }
}
