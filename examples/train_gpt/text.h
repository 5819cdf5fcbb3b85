/* text.h: bytes to learn from, and batches of them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct text {
    unsigned char *bytes;
    int64_t train;      /* the first bytes are for training, */
    int64_t validation; /* the rest to measure with; 0 where they would not fill one context */
};

/**
 * Read a file. Needs context + 1 bytes at least.
 * On failure returns false with a sentence in `problem`.
 */
bool text_load(struct text *text, const char *path, int context, char *problem, int room);
void text_free(struct text *text);

enum part { TRAIN, VALIDATION };

/**
 * Fill a batch: token bytes [batch, context], and targets, which are one byte further.
 *
 * Which pieces of the text it holds depends on seed and step alone, so every rank draws the same
 * batch, at every number of ranks.
 */
void text_batch(const struct text *text, enum part part, uint64_t seed, int64_t step, int batch,
                int context, int32_t *tokens, int32_t *targets);
