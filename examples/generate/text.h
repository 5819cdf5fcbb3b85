/* text.h: between text and token numbers: by the model's byte-level tokenizer, or bytes. */
#pragma once

#include <stdint.h>

#include "common/printable.h"

struct text;

/** The tokenizer in a folder (NULL: there is none); without one tokens are bytes. NULL with a
 * sentence in `problem` for files that cannot be read. */
struct text *text_open(const char *folder, char *problem, int room);
void text_close(struct text *text);

/** The tokens of a text / numbers between blanks; `*ids` is freed by the caller. -1 with a sentence
 *  in `problem`. */
int64_t text_tokens(const struct text *text, const char *words, int64_t vocab, int32_t **ids,
                    char *problem, int room);
int64_t text_numbers(const char *numbers, int64_t vocab, int32_t **ids, char *problem, int room);

/** Print what a token stands for. */
void text_print(const struct text *text, int32_t id, struct printable *out);
