/*
 * bpe.h: byte-level byte pair encoding, as GPT-2 has it (Sennrich et al. 2016, Radford et al.
 * 2019).
 *
 * Text is cut into words, each with the blank before it; a word begins as bytes, and pairs of
 * neighbours are joined, the pair that was learned first before all others, until none is left.
 *
 * Not done: other ways to cut (Llama 3's), other alphabets (SentencePiece), special tokens spelled
 * out in the text; digits of other scripts count as letters.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct bpe;

/** From tokenizer.json, or vocab.json and merges.txt, in a folder. NULL when there is neither, and
 * with a sentence in `problem` for files that cannot be used. */
struct bpe *bpe_read(const char *folder, char *problem, int room);
void bpe_free(struct bpe *bpe);

/** The tokens of a text; the caller frees `*ids`. -1 without memory. */
int64_t bpe_encode(const struct bpe *bpe, const char *text, int32_t **ids);

/** The bytes that a token stands for, often less than a character; returns how many. */
size_t bpe_bytes(const struct bpe *bpe, int32_t id, const char **bytes);
