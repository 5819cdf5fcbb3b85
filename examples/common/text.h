/* text.h: tokens to learn from, and batches of them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct text {
    unsigned char *bytes;
    int token_bytes;
    int64_t train;      /* the first tokens are for training, */
    int64_t validation; /* the rest to measure with; 0 where they would not fill one context */
};

/**
 * Read a file of tokens of 1, 2 or 4 bytes each, all below `vocab`. Needs context + 1 at least.
 * On failure returns false with a sentence in `problem`.
 */
bool text_load(struct text *text, const char *path, int token_bytes, int64_t vocab, int context,
               char *problem, int room);
void text_free(struct text *text);

int32_t text_token(const struct text *text, int64_t index);

enum part { TRAIN, VALIDATION };

/** A batch out of many: which one, its rows of them, and how long they are. */
struct piece {
    enum part part;
    uint64_t seed;
    int64_t step;
    int first_row, rows, context;
};

/**
 * Fill tokens [rows, context], and targets, which are one token further.
 *
 * Which pieces of the text a row holds depends on seed, step and its number alone: equal at every
 * number of ranks, and after a resumption.
 */
void text_batch(const struct text *text, struct piece piece, int32_t *tokens, int32_t *targets);
