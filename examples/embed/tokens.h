/*
 * tokens.h: text to token numbers as BERT's uncased models want it (WordPiece).
 *
 * A line becomes [CLS] pieces [SEP]: characters in lower case and without accents, cut at spaces,
 * around punctuation and around Chinese characters; each word from its longest beginnings that are
 * in the vocabulary, [UNK] when there is none.
 *
 * Not done: special tokens spelled out in the text ("[MASK]" is four tokens), pairs of sentences,
 * and lower case, accents and punctuation of scripts that characters.c does not know.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct vocabulary;

/** Read vocab.txt, a piece per line, the first numbered 0. On failure NULL with a sentence in
 * `problem`. */
struct vocabulary *vocabulary_read(const char *path, char *problem, int room);
void vocabulary_free(struct vocabulary *vocabulary);

/** The numbers of a line into `ids`; what does not fit into `room` (at least 2) is left out.
 *  Returns how many there are. */
int tokenize(const struct vocabulary *vocabulary, const char *line, int32_t *ids, int room);
