/* calls.c: the table of calls, as functions. */
#include "sweep/calls.h"

#include <math.h>
#include <string.h>

#include <weft/weft.h>

#define DIMS(...) ((const int[]){__VA_ARGS__})
#define SIZES(...) ((const int64_t[]){__VA_ARGS__})

/* What calls that give several tensors give: the last one counts. */
static _Thread_local weft_tensor *pieces[16];

static weft_tensor *piece(bool failed)
{
    int last = 0;

    while (last < 15 && pieces[last + 1]) last++;
    return failed ? NULL : pieces[last];
}

#define CALL(name, operands, expression)                                                           \
    static weft_tensor *call_##name(weft_tensor *const *in) { return expression; }
#define PAIR CALL
#include "sweep/calls.def"
#undef CALL
#undef PAIR

const struct wt_call wt_calls[] = {
#define CALL(name, operands_, expression) {#name, {.operands = operands_}, call_##name, false},
#define PAIR(name, operands_, expression) {#name, {.operands = operands_}, call_##name, true},
#include "sweep/calls.def"
#undef CALL
#undef PAIR
};
const int wt_call_count = sizeof wt_calls / sizeof wt_calls[0];

weft_tensor *wt_call_run(const struct wt_call *call, weft_tensor *const *in)
{
    memset(pieces, 0, sizeof pieces);
    return call->call(in);
}

bool wt_differentiate(weft_tensor *y, weft_mesh *mesh)
{
    static const weft_placement replicated[WEFT_MAX_AXES];
    weft_tensor *weights = wt_weights_like(y);

    if (mesh) weights = weft_distribute_tensor(weights, mesh, replicated, -1);
    return weft_backward(weft_sum_all(weft_mul(y, weights))) == WEFT_OK;
}

bool wt_wants_gradient(const struct wt_operand *o)
{
    return o->present && weft_dtype_is_float(o->dtype);
}
