/*
 * places.c: where the largest and the smallest elements are.
 *
 * Two reductions: the extreme along the dims, then the least index at which an element equals it.
 * Both combine over ranks, so a sharded dim costs two all-reduces of one number per result, in
 * whatever way it is cut; and of equal elements the first of the whole tensor is found.
 */
#include <weft/ops.h>

#include "base/error.h"
#include "ops/op_functions.h"

/* The extreme with the reduced dims, whole on every rank. */
static weft_tensor *whole_extreme(enum wf_op op, weft_tensor *x, int64_t mask)
{
    return wf_reduce_if_partial(wf_reduce_mask(op, x, mask, true, false));
}

/* Where in x its extreme stands; x is not partial. */
static weft_tensor *place_of_extreme(weft_tensor *x, weft_tensor *extreme, int64_t mask, bool keep)
{
    struct wf_op_args args = {WF_ATTRS(reduce, .dims = (uint32_t)mask, .keep = keep)};

    return extreme ? wf_reduce_if_partial(wf_dispatch_op_one_output(
                         WF_OP_index_of, (weft_tensor *[]){x, extreme}, 2, &args))
                   : NULL;
}

static weft_tensor *place(enum wf_op op, const char *who, weft_tensor *x, const int *dims, int n,
                          bool keep)
{
    weft_tensor *at = NULL;
    int64_t mask = x ? wf_dims_with_elements(x, dims, n, who) : -1;

    if (mask < 0) return NULL;
    weft_no_grad_open();
    x = wf_widen_small_integers(wf_reduce_partial_operand(who, x));
    if (x) at = place_of_extreme(x, whole_extreme(op, x, mask), mask, keep);
    weft_no_grad_close();
    return at;
}

weft_tensor *weft_argmax(weft_tensor *x, int dim) { return weft_argmax_with(x, dim, false); }

weft_tensor *weft_argmin(weft_tensor *x, int dim) { return weft_argmin_with(x, dim, false); }

weft_tensor *weft_argmax_with(weft_tensor *x, int dim, bool keep)
{
    return place(WF_OP_max, "argmax", x, &dim, 1, keep);
}

weft_tensor *weft_argmin_with(weft_tensor *x, int dim, bool keep)
{
    return place(WF_OP_min, "argmin", x, &dim, 1, keep);
}

weft_tensor *weft_argmax_all(weft_tensor *x)
{
    return place(WF_OP_max, "argmax", x, NULL, 0, false);
}

weft_tensor *weft_argmin_all(weft_tensor *x)
{
    return place(WF_OP_min, "argmin", x, NULL, 0, false);
}

/* ---- the extreme and its place; the gradient goes to that one element ---- */

enum { PLACE }; /* saved */

static void release_layout(void *layout) { wf_layout_release(layout); }

/* The gradient and the place, both with their dim last and of size 1, give x's with it last. */
static void vjp_extreme(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    struct wf_layout *x = n->context;
    int last = x->desc.ndim - 1, dim = (int)n->v[0];
    struct wf_op_args args = {WF_ATTRS(topk_grad, .row_size = x->desc.global[dim])};
    weft_tensor *at = weft_transpose(n->saved[PLACE], dim, last), *dx;

    g = weft_transpose(wf_reshape_to_kept_dims(g, &x->desc, (int64_t)1 << dim), dim, last);
    dx = wf_dispatch_op_one_output(WF_OP_topk_grad, (weft_tensor *[]){g, at}, 2, &args);
    in[0] = dx ? weft_transpose(dx, dim, last) : NULL;
}

static void record_extreme(weft_tensor *y, weft_tensor *at, weft_tensor *x, int dim)
{
    struct wf_tape_node *node;

    if (!wf_should_record(&x, 1)) return;
    node = wf_tape_record(y, vjp_extreme, "max_with_index", &x, 1);
    node->v[0] = dim;
    node->context = wf_layout_retain(x->layout);
    node->release_context = release_layout;
    wf_tape_node_save(node, PLACE, at);
    wf_tape_node_shard_saved(node);
}

/* A result without its dim of size 1. */
static weft_tensor *drop_dim(weft_tensor *t, int dim)
{
    int64_t shape[WEFT_MAX_DIMS];
    int n = 0;

    for (int d = 0; d < weft_ndim(t); d++)
        if (d != dim) shape[n++] = weft_size(t, d);
    return wf_reshape_to(t, shape, n, NULL);
}

static weft_tensor *extreme_with_index(enum wf_op op, const char *who, weft_tensor *x, int dim,
                                       bool keep, weft_tensor **indices)
{
    weft_tensor *y, *at, *whole;
    int d;

    if (indices) *indices = NULL;
    if (!x) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, who));
    if (wf_is_dim_of_scalar(x, dim))
        return wf_squeeze_to_scalar(
            extreme_with_index(op, who, weft_atleast_nd(x, 1), 0, false, indices), indices);
    d = wf_normalize_dim(dim, weft_ndim(x), who);
    if (d < 0) return NULL;
    WF_TRY_PTR(wf_need_elements(x, (int64_t)1 << d, who));
    weft_no_grad_open();
    whole = wf_widen_small_integers(wf_reduce_partial_operand(who, x));
    y = whole ? whole_extreme(op, whole, (int64_t)1 << d) : NULL;
    at = whole ? place_of_extreme(whole, y, (int64_t)1 << d, true) : NULL;
    y = wf_narrow_small_integers(y, weft_tensor_dtype(x));
    weft_no_grad_close();
    if (!y || !at) return NULL;
    record_extreme(y, at, x, d);
    if (indices) *indices = keep ? at : drop_dim(at, d);
    return keep ? y : drop_dim(y, d);
}

weft_tensor *weft_max_with_index(weft_tensor *x, int dim, bool keep, weft_tensor **indices)
{
    return extreme_with_index(WF_OP_max, "max", x, dim, keep, indices);
}

weft_tensor *weft_min_with_index(weft_tensor *x, int dim, bool keep, weft_tensor **indices)
{
    return extreme_with_index(WF_OP_min, "min", x, dim, keep, indices);
}
