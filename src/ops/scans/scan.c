/*
 * scan.c: running sums and products along a dim, and linear recurrences.
 *
 * For sums and products a dim that is sharded is brought together. A recurrence over sharded time
 * stays where it is: each rank runs its own steps from 0, all learn what the others end with, and
 * add what was carried into their shard.
 */
#include <weft/factory.h>
#include <weft/ops.h>

#include <string.h>

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

/* b NULL: the op has one operand. */
static weft_tensor *scan(enum wf_op op, weft_tensor *a, weft_tensor *b, int64_t dim, bool back)
{
    struct wf_op_args args = {WF_ATTRS(scan, .dim = dim, .back = back)};

    return wf_dispatch_op_one_output(op, (weft_tensor *[]){a, b}, b ? 2 : 1, &args);
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
    weft_tensor *first = weft_slice(h, dim, 0, 1), *parts[2];

    if (!first) return NULL;
    parts[0] = weft_full_like(first, 0);
    parts[1] = weft_slice(h, dim, 0, weft_size(h, dim) - 1);
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

/* ---- a recurrence over time that is sharded ---- */

/* The one axis that cuts the dim, in plain chunks; -1: none does, or not so. */
static int axis_of_time(const weft_tensor *t, int dim)
{
    int found = -1;

    for (int a = 0; a < t->layout->n_axes; a++) {
        weft_placement p = t->layout->placements[a];

        if (!weft_shards(p, dim)) continue;
        if (found >= 0 || !weft_placement_equal(p, weft_shard(dim))) return -1;
        found = a;
    }
    return found;
}

static bool have_same_layout(const weft_tensor *a, const weft_tensor *b)
{
    if (a->layout->mesh != b->layout->mesh || weft_ndim(a) != weft_ndim(b)) return false;
    for (int axis = 0; axis < a->layout->n_axes; axis++)
        if (!weft_placement_equal(a->layout->placements[axis], b->layout->placements[axis]))
            return false;
    for (int d = 0; d < weft_ndim(a); d++)
        if (weft_size(a, d) != weft_size(b, d)) return false;
    return true;
}

/* What this rank's steps make of 0, and the factor of what they start with: [*,2,*]. A rank
 * without steps passes on what it is given. */
static weft_tensor *ends_of_steps(weft_tensor *a, weft_tensor *h, int dim)
{
    int64_t n = weft_size(h, dim);
    weft_tensor *ends[] = {weft_prod(a, &dim, 1, true),
                           n > 0 ? weft_slice(h, dim, n - 1, n) : weft_sum(h, &dim, 1, true)};

    return weft_cat(ends, 2, dim);
}

/* All ranks' ends -> what each rank begins with, [*,ranks,*], cut as time is. */
static weft_tensor *carry_ends(weft_tensor *ends, const weft_tensor *a, int dim, int axis)
{
    weft_placement cut[WEFT_MAX_AXES], whole[WEFT_MAX_AXES];
    int64_t ranks = weft_mesh_axis_size(a->layout->mesh, axis), shape[WEFT_MAX_DIMS], at = 0;
    weft_tensor *pairs;

    memcpy(cut, a->layout->placements, sizeof cut);
    memcpy(whole, cut, sizeof whole);
    whole[axis] = weft_replicate();
    for (int d = 0; d < weft_ndim(a); d++) shape[d] = d == dim ? 2 * ranks : weft_size(a, d);
    ends = weft_redistribute(weft_from_local(ends, a->layout->mesh, cut, shape), whole);
    for (int d = 0; d < weft_ndim(a); d++) {
        shape[at++] = d == dim ? ranks : weft_size(a, d);
        if (d == dim) shape[at++] = 2;
    }
    pairs = weft_reshape(ends, shape, (int)at);
    return weft_redistribute(step_before(scan(WF_OP_linear_scan, weft_select(pairs, dim + 1, 0),
                                              weft_select(pairs, dim + 1, 1), dim, false),
                                         dim),
                             cut);
}

/* Each rank's own steps, and what was carried into them. */
static weft_tensor *scan_sharded_time(weft_tensor *a, weft_tensor *b, int dim, int axis)
{
    /* shards of a scan's dim are no shards to the types: what is made of them is put right here */
    weft_tensor *own_a = wf_without_grad_types(weft_to_local(a, NULL));
    weft_tensor *own_b = wf_without_grad_types(weft_to_local(b, NULL));
    weft_tensor *h = scan(WF_OP_linear_scan, own_a, own_b, dim, false), *carried;

    if (!h) return NULL;
    carried = carry_ends(ends_of_steps(own_a, h, dim), a, dim, axis);
    carried = wf_without_grad_types(weft_to_local(carried, NULL));
    h = weft_add(h, weft_mul(scan(WF_OP_cumprod, own_a, NULL, dim, false), carried));
    return weft_from_local(h, a->layout->mesh, a->layout->placements, a->layout->desc.global);
}

static weft_tensor *linear_scan(weft_tensor *a, weft_tensor *b, int dim)
{
    int axis = have_same_layout(a, b) && !a->layout->partial && weft_ndim(a) < WEFT_MAX_DIMS
                   ? axis_of_time(a, dim)
                   : -1;

    return axis < 0 ? scan(WF_OP_linear_scan, a, b, dim, false)
                    : scan_sharded_time(a, b, dim, axis);
}

/* ---- public functions ---- */

static weft_tensor *scan_dim(enum wf_op op, const char *who, weft_tensor *x, int dim)
{
    weft_dtype dtype;
    int d;

    if (!x) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, who));
    if (wf_is_dim_of_scalar(x, dim))
        return weft_reshape(scan_dim(op, who, weft_atleast_nd(x, 1), 0), NULL, 0);
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
    h = linear_scan(a, b, d);
    if (!before) return h;
    return weft_add(h, weft_mul(weft_cumprod(a, d), before));
}
