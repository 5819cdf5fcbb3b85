/* compare.h: a product of whole tensors beside the same of spread ones. */
#pragma once

#include "support/worlds.h"

#define LIKE(got, plain) WT_ALL(wt_near_tensors((got), (plain), WT_WITHIN(2e-5)))

weft_tensor *vector(int which, int64_t n);
weft_tensor *leaf(weft_tensor *t);

typedef weft_tensor *product(weft_tensor *const *in);

/** Values, and gradients of the first `wanted` operands; gives the spread result. */
weft_tensor *compare(struct wt_world *w, product *f, weft_tensor *const *whole,
                     const char *const *layouts, int n, int wanted);
