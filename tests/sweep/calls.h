/* calls.h: the calls of calls.def. */
#pragma once

#include "autograd/sampled.h"

struct wt_call {
    const char *name;
    struct wt_op_case sample; /* its operands */
    weft_tensor *(*call)(weft_tensor *const *in);
    bool two_axes;
};

extern const struct wt_call wt_calls[];
extern const int wt_call_count;

weft_tensor *wt_call_run(const struct wt_call *call, weft_tensor *const *in);

/** Backward of a weighted sum of the result. mesh: NULL: plain tensors */
bool wt_differentiate(weft_tensor *y, weft_mesh *mesh);

/** An operand of floats, which is there. */
bool wt_wants_gradient(const struct wt_operand *o);
