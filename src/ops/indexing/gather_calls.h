/* gather_calls.h: what gather.c and scatter.c share. */
#pragma once

#include "ops/dispatch_op.h"

bool wf_is_index_dtype(const struct wf_layout *layout);

/** gather where the sizes of x and index are equal but in `dim`. */
weft_tensor *wf_call_gather(weft_tensor *x, int64_t dim, weft_tensor *index);
