/* adapter.h: low-rank adapters (Hu et al. 2021) in the place of linear layers of a ready model. */
#pragma once

#include <weft/weft.h>

/** How an adapter is made: x -> base(x) + scale * b(a(x)), where a gives `rank` features. */
struct adapter {
    int64_t in[WEFT_MAX_DIMS], out[WEFT_MAX_DIMS]; /* as weft_linear_config's, also the next two */
    int in_split, out_split;
    int64_t rank;
    double scale;
    weft_dtype dtype;
};

/**
 * Put an adapter in the place of the linear layer at a path, which goes on under it as "base",
 * beside "a" (normal) and "b" (zeros, so that the model computes what it did before).
 */
weft_status adapt(weft_module *model, const char *path, struct adapter adapter);

/** Freeze all parameters but those of adapters; how many elements are trained. */
int64_t freeze_base(weft_module *model);
