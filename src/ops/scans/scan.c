/*
 * scan.c: running sums and products along a dim, and linear recurrences.
 *
 * For sums and products a dim that is sharded is brought together. A recurrence over sharded time
 * stays where it is: each rank runs its own steps from 0, all learn what the others end with, and
 * add what was carried into their shard.
 */
#include <weft/factory.h>
#include <weft/ops.h>

#include "base/error.h"
#include "ops/op_functions.h"
#include "ops/op_plan.h"

weft_status wf_shape_alike(struct wf_infer *call)
{
    const struct wf_tensor_desc *a = &call->in[0]->desc, *b = &call->in[1]->desc;
    bool alike = a->ndim == b->ndim && a->dtype == b->dtype;

    for (int d = 0; alike && d < a->ndim; d++) alike = a->global[d] == b->global[d];
    WF_NEED(alike, WEFT_ERR_SHAPE, "%s: shapes or dtypes differ: %s", call->row->name,
            wf_infer_inputs_text(call));
    return wf_shape_same(call);
}

static weft_tensor *scan_with_want(enum wf_op op, weft_tensor *a, weft_tensor *b, int64_t dim,
                                   bool back, struct wf_layout *want)
{
    struct wf_op_args args = {WF_ATTRS(scan, .dim = dim, .back = back), .want = want};

    return wf_dispatch_op_one_output(op, (weft_tensor *[]){a, b}, b ? 2 : 1, &args);
}

static weft_tensor *scan(enum wf_op op, weft_tensor *a, weft_tensor *b, int64_t dim, bool back)
{
    return scan_with_want(op, a, b, dim, back, NULL);
}

/* ---- gradients ---- */

void wf_vjp_cumsum(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    const struct wf_scan_attrs *attrs = &wf_tape_node_op_plan(n)->attrs.scan;

    in[0] = scan(WF_OP_cumsum, g, NULL, attrs->dim, !attrs->back);
}

void wf_vjp_cumprod(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    in[0] = scan(WF_OP_cumprod_grad, g, wf_saved_input(n, 0),
                 wf_tape_node_op_plan(n)->attrs.scan.dim, false);
}

/* h with each step's place taken by the step before it: 0, h_0, h_1, ... */
static weft_tensor *step_before(weft_tensor *h, int dim)
{
    weft_tensor *first = weft_slice(h, dim, 0, 1);
    weft_tensor *parts[] = {first ? weft_full_like(first, 0) : NULL,
                            weft_slice(h, dim, 0, weft_size(h, dim) - 1)};

    return weft_cat(parts, 2, dim);
}

/* e = d + a' e' of the step behind is the gradient of b; that of a is e times h of the step
 * before. */
void wf_vjp_linear_scan(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    int dim = (int)wf_tape_node_op_plan(n)->attrs.scan.dim;
    weft_tensor *h = wf_saved_output(n, 0);
    weft_tensor *e = scan(WF_OP_linear_scan_grad, g, wf_saved_input(n, 0), dim, true);

    if (wf_tape_node_needs_grad(n, 0))
        in[0] = weft_size(h, dim) > 0 ? weft_mul(e, step_before(h, dim)) : e;
    if (wf_tape_node_needs_grad(n, 1)) in[1] = e;
}

/* ---- public functions ---- */

static weft_tensor *scan_dim(enum wf_op op, const char *who, weft_tensor *x, int dim)
{
    weft_dtype dtype;
    int d;

    if (!x) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, who));
    d = wf_normalize_dim(dim, weft_ndim(x), who);
    if (d < 0) return NULL;
    dtype = weft_tensor_dtype(x);
    return scan(op, weft_dtype_is_float(dtype) ? x : weft_cast(x, WEFT_I64), NULL, d, false);
}

weft_tensor *weft_cumsum(weft_tensor *x, int dim)
{
    return scan_dim(WF_OP_cumsum, "cumsum", x, dim);
}

weft_tensor *weft_cumprod(weft_tensor *x, int dim)
{
    return scan_dim(WF_OP_cumprod, "cumprod", x, dim);
}

weft_tensor *weft_linear_scan(weft_tensor *a, weft_tensor *b, weft_tensor *before, int dim)
{
    weft_tensor *h;
    int d;

    if (!a || !b) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(a, "linear_scan"));
    WF_TRY_PTR(wf_tensor_need_alive(b, "linear_scan"));
    WF_TRY_PTR(wf_need_float(a, "linear_scan"));
    d = wf_normalize_dim(dim, weft_ndim(a), "linear_scan");
    if (d < 0) return NULL;
    h = scan(WF_OP_linear_scan, a, b, d, false);
    if (!before) return h;
    return weft_add(h, weft_mul(scan(WF_OP_cumprod, a, NULL, d, false), before));
}
