/* words.h: where GPT-2 cuts a text before its pieces are encoded. */
#pragma once

/** The end of the word that begins at `at`, in UTF-8; `at` itself at the end of the text. */
const char *word_end(const char *at);
