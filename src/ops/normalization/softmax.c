/* softmax.c: softmax and its logarithm along a dim. */
#include <weft/normalization.h>

#include "base/error.h"
#include "ops/op_functions.h"
#include "ops/op_plan.h"

static weft_tensor *call_along_dim(enum wf_op op, weft_tensor *a, weft_tensor *b, int64_t dim)
{
    struct wf_op_args args = {WF_ATTRS(dim, .dim = dim)};

    return wf_dispatch_op_one_output(op, (weft_tensor *[]){a, b}, b ? 2 : 1, &args);
}

void wf_vjp_softmax(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    in[0] = call_along_dim(WF_OP_softmax_grad, g, wf_saved_output(n, 0),
                           wf_tape_node_op_plan(n)->attrs.dim.dim);
}

void wf_vjp_log_softmax(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    in[0] = call_along_dim(WF_OP_log_softmax_grad, g, wf_saved_output(n, 0),
                           wf_tape_node_op_plan(n)->attrs.dim.dim);
}

weft_tensor *weft_softmax(weft_tensor *x, int dim)
{
    int d;

    if (!x) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "softmax"));
    d = wf_normalize_dim(dim, weft_ndim(x), "softmax");
    return d < 0 ? NULL : call_along_dim(WF_OP_softmax, x, NULL, d);
}

weft_tensor *weft_log_softmax(weft_tensor *x, int dim)
{
    int d;

    if (!x) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "log_softmax"));
    d = wf_normalize_dim(dim, weft_ndim(x), "log_softmax");
    return d < 0 ? NULL : call_along_dim(WF_OP_log_softmax, x, NULL, d);
}
