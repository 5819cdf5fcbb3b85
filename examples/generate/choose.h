/* choose.h: the next token of each sequence, from logits that stay where they are. */
#pragma once

#include <weft/weft.h>

struct choice {
    double temperature; /* 0: the likeliest token */
    int64_t top_k;      /* among so many; 0: among all */
    double top_p;       /* among the likeliest that have this probability together */
    weft_generator *g;  /* draws once per token */
};

/**
 * Choose a token for each row of logits [B, V], however they are split.
 *
 * ranks: all of the logits' mesh, which get the same tokens
 */
weft_status choose(weft_tensor *logits, const struct choice *c, int32_t *tokens);
