/* characters.h: what kind of character it is, and how BERT's uncased models see it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { CHARACTER_BYTES = 4 };

/** The next character of UTF-8 text, which moves on; 0 at its end. Bytes that are no UTF-8 are
 * passed over. */
uint32_t character_next(const char **text);

/** Write a character as UTF-8 of up to CHARACTER_BYTES bytes, unended; returns how many. */
int character_put(char *out, uint32_t c);

bool character_is_space(uint32_t c);
bool character_is_dropped(uint32_t c);     /* control characters and marks of format */
bool character_is_punctuation(uint32_t c); /* a token by itself */
bool character_is_ideograph(uint32_t c);   /* Chinese: a token by itself too */

/** In lower case and without accents: up to 3 characters into `out`; returns how many, 0 for an
 * accent that follows its letter. */
int character_fold(uint32_t c, uint32_t out[3]);
