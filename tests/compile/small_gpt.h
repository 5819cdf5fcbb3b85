/* small_gpt.h: the model that tests of compiled training steps train, and its batches. */
#pragma once

#include "support/given.h"

enum { SMALL_GPT_BATCH = 2, SMALL_GPT_CONTEXT = 8, SMALL_GPT_VOCAB = 19 };

/** Two layers of width 24 in tensor parallel; the same first values each time. */
weft_module *given_small_gpt(struct wt_world *w, double dropout);
/** The same with a head that is the embedding. */
weft_module *given_tied_small_gpt(struct wt_world *w, double dropout);

/** One of two sets of tokens of a step: inputs (7 + step, 3), targets (5, step). */
weft_tensor *given_gpt_tokens(int64_t step, int64_t start);
