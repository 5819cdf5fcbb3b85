/* sample.h: text written by the model. */
#pragma once

#include <weft/weft.h>

struct sampling {
    int64_t vocab;
    int32_t first; /* the token to go on from */
    int count, context;
    uint64_t seed;
    bool bytes; /* tokens are characters; else they are printed as numbers */
};

/** Generate and print `count` tokens; every rank computes, rank 0 prints. */
weft_status sample_text(weft_module *model, const struct sampling *s);
