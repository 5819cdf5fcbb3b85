/*
 * view.c: ops that look at the same elements in another shape, and their opposites.
 *
 * A view's strides and offset follow from its input's and are part of the plan; only a slice's
 * start changes from call to call.
 */
#include <weft/ops.h>

#include <string.h>

#include "base/error.h"
#include "ops/op_functions.h"
#include "ops/op_plan.h"
#include "tensor/shape.h"

static weft_tensor *dispatch_to_shape(enum wf_op op, weft_tensor *t, const int64_t *shape, int ndim,
                                      struct wf_layout *want)
{
    struct wf_op_args args = {
        .attr_words = WF_ATTR_WORDS(shape, size, ndim), .attrs = shape, .want = want};

    return wf_dispatch_op_one_output(op, &t, 1, &args);
}

/* A word of the attributes for each dim of the result. */
static int ndim_of_shape(const struct wf_infer *call) { return call->attr_words; }

/* ---- reshape ---- */

weft_status wf_shape_reshape(struct wf_infer *call)
{
    const struct wf_shape_attrs *to = &call->attrs->shape;
    int ndim = ndim_of_shape(call);
    int64_t count = wf_shape_numel(to->size, ndim);

    call->out[0].dtype = (weft_dtype)call->in[0]->desc.dtype;
    call->out[0].ndim = ndim;
    for (int d = 0; d < ndim; d++) call->out[0].shape[d] = to->size[d];
    WF_NEED(count >= 0, WEFT_ERR_SHAPE, "reshape: no shape for %s", wf_infer_inputs_text(call));
    WF_NEED(count == call->in[0]->numel, WEFT_ERR_SHAPE, "reshape: %lld elements cannot hold %s",
            (long long)count, wf_infer_inputs_text(call));
    return WEFT_OK;
}

/* Split the old box into runs that lie without gaps, and cut each new dim out of one run. */
bool wf_view_reshape(const struct wf_infer *call, const struct wf_tensor_desc *in,
                     const int64_t *shape, struct wf_view *view)
{
    int old = in->ndim - 1, n = call->out[0].ndim;
    int64_t run_size = 1, run_stride = 1, taken = 1;

    if (in->numel == 0) {
        for (int d = 0; d < n; d++) view->stride[d] = 1;
        return true;
    }
    for (int d = n - 1; d >= 0; d--) {
        if (shape[d] == 1) {
            view->stride[d] = 1;
            continue;
        }
        if (taken == run_size) {
            while (old >= 0 && in->shape[old] == 1) old--;
            if (old < 0) return false;
            run_stride = in->stride[old];
            run_size = in->shape[old--];
            taken = 1;
            while (old >= 0 && (in->shape[old] == 1 || in->stride[old] == run_stride * run_size)) {
                run_size *= in->shape[old];
                old--;
            }
        }
        view->stride[d] = run_stride * taken;
        taken *= shape[d];
        if (run_size % taken) return false;
    }
    return true;
}

weft_tensor *wf_reshape_to(weft_tensor *t, const int64_t *shape, int ndim, struct wf_layout *want)
{
    return dispatch_to_shape(WF_OP_reshape, t, shape, ndim, want);
}

void wf_vjp_reshape(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    struct wf_layout *x = wf_tape_node_input_layout(n, 0);

    in[0] = wf_reshape_to(g, x->desc.global, x->desc.ndim, x);
}

weft_status wf_reshape_sizes(const weft_tensor *x, const int64_t *shape, int ndim, int64_t *sizes)
{
    int64_t rest;
    int open = -1;

    WF_TRY(wf_tensor_need_alive(x, "reshape"));
    WF_NEED(ndim >= 0 && ndim <= WEFT_MAX_DIMS, WEFT_ERR_SHAPE, "reshape: %d dims", ndim);
    WF_NEED(shape || ndim == 0, WEFT_ERR_ARG, "reshape: no shape");
    for (int d = 0; d < ndim; d++) {
        sizes[d] = shape[d];
        if (shape[d] >= 0) continue;
        WF_NEED(shape[d] == -1 && open < 0, WEFT_ERR_SHAPE,
                "reshape: size %lld in dim %d; one size may be -1", (long long)shape[d], d);
        open = d;
        sizes[d] = 1;
    }
    if (open < 0) return WEFT_OK;
    rest = wf_shape_numel(sizes, ndim);
    WF_NEED(rest > 0 && x->layout->numel % rest == 0, WEFT_ERR_SHAPE,
            "reshape: %lld elements do not divide by %lld", (long long)x->layout->numel,
            (long long)rest);
    sizes[open] = x->layout->numel / rest;
    return WEFT_OK;
}

weft_tensor *weft_reshape(weft_tensor *x, const int64_t *shape, int ndim)
{
    int64_t sizes[WEFT_MAX_DIMS];

    if (!x) return NULL;
    WF_TRY_PTR(wf_reshape_sizes(x, shape, ndim, sizes));
    return wf_reshape_to(x, sizes, ndim, NULL);
}

/* ---- permute ---- */

static weft_tensor *call_permute(weft_tensor *t, const struct wf_permute_attrs *attrs,
                                 struct wf_layout *want)
{
    struct wf_op_args args = {
        .attr_words = (int)(sizeof *attrs / sizeof(uint64_t)), .attrs = attrs, .want = want};

    return wf_dispatch_op_one_output(WF_OP_permute, &t, 1, &args);
}

weft_status wf_shape_permute(struct wf_infer *call)
{
    const struct wf_tensor_desc *x = &call->in[0]->desc;
    unsigned seen = 0;

    call->out[0].dtype = (weft_dtype)x->dtype;
    call->out[0].ndim = x->ndim;
    for (int d = 0; d < x->ndim; d++) {
        int from = call->attrs->permute.order[d];

        WF_NEED(from >= 0 && from < x->ndim && !(seen >> from & 1), WEFT_ERR_ARG,
                "permute: the order must name each dim of %s once", wf_infer_inputs_text(call));
        seen |= 1u << from;
        call->out[0].shape[d] = x->global[from];
    }
    return WEFT_OK;
}

bool wf_view_permute(const struct wf_infer *call, const struct wf_tensor_desc *in,
                     const int64_t *shape, struct wf_view *view)
{
    (void)shape;
    for (int d = 0; d < in->ndim; d++) view->stride[d] = in->stride[call->attrs->permute.order[d]];
    return true;
}

void wf_vjp_permute(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    const struct wf_op_plan *plan = wf_tape_node_op_plan(n);
    const struct wf_permute_attrs *there = &plan->attrs.permute;
    struct wf_permute_attrs back = {.ndim = there->ndim};

    for (int d = 0; d < there->ndim; d++) back.order[there->order[d]] = (int8_t)d;
    in[0] = call_permute(g, &back, plan->in[0]);
}

weft_tensor *weft_permute(weft_tensor *x, const int *order)
{
    struct wf_permute_attrs attrs = {0};

    if (!x) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "permute"));
    attrs.ndim = weft_ndim(x);
    WF_NEED_PTR(order || weft_ndim(x) == 0, WEFT_ERR_ARG, "permute: no order");
    for (int d = 0; d < weft_ndim(x); d++) {
        int from = wf_normalize_dim(order[d], weft_ndim(x), "permute");

        if (from < 0) return NULL;
        attrs.order[d] = (int8_t)from;
    }
    return call_permute(x, &attrs, NULL);
}

weft_tensor *weft_transpose(weft_tensor *x, int dim0, int dim1)
{
    struct wf_permute_attrs attrs = {0};
    int a, b;

    if (!x) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "transpose"));
    if (wf_is_dim_of_scalar(x, dim0) && wf_is_dim_of_scalar(x, dim1)) return x;
    attrs.ndim = weft_ndim(x);
    a = wf_normalize_dim(dim0, weft_ndim(x), "transpose");
    b = wf_normalize_dim(dim1, weft_ndim(x), "transpose");
    if (a < 0 || b < 0) return NULL;
    for (int d = 0; d < weft_ndim(x); d++) attrs.order[d] = (int8_t)(d == a ? b : d == b ? a : d);
    return call_permute(x, &attrs, NULL);
}

/* ---- expand ---- */

weft_status wf_shape_expand(struct wf_infer *call)
{
    const struct wf_tensor_desc *x = &call->in[0]->desc;
    const struct wf_shape_attrs *to = &call->attrs->shape;
    int ndim = ndim_of_shape(call), missing = ndim - x->ndim;

    WF_NEED(missing >= 0, WEFT_ERR_SHAPE, "expand: %d dims are fewer than those of %s", ndim,
            wf_infer_inputs_text(call));
    call->out[0].dtype = (weft_dtype)x->dtype;
    call->out[0].ndim = ndim;
    for (int d = 0; d < ndim; d++) {
        int64_t size = to->size[d];

        WF_NEED(size >= 0 &&
                    (d < missing || x->global[d - missing] == size || x->global[d - missing] == 1),
                WEFT_ERR_SHAPE, "expand: size %lld in dim %d does not repeat %s", (long long)size,
                d, wf_infer_inputs_text(call));
        call->out[0].shape[d] = size;
    }
    return WEFT_OK;
}

bool wf_view_expand(const struct wf_infer *call, const struct wf_tensor_desc *in,
                    const int64_t *shape, struct wf_view *view)
{
    const struct wf_shape_attrs *to = &call->attrs->shape;
    int ndim = ndim_of_shape(call), missing = ndim - in->ndim;

    (void)shape;
    for (int d = 0; d < ndim; d++) {
        bool repeated = d < missing || in->global[d - missing] != to->size[d];

        view->stride[d] = repeated ? 0 : in->stride[d - missing];
    }
    return true;
}

weft_tensor *wf_expand_to_shape_of(weft_tensor *t, struct wf_layout *layout)
{
    return dispatch_to_shape(WF_OP_expand, t, layout->desc.global, layout->desc.ndim, layout);
}

void wf_vjp_expand(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    in[0] = wf_sum_to_shape_of(g, wf_tape_node_input_layout(n, 0));
}

weft_tensor *weft_expand(weft_tensor *x, const int64_t *shape, int ndim)
{
    int64_t sizes[WEFT_MAX_DIMS];

    if (!x) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "expand"));
    WF_NEED_PTR(ndim >= 0 && ndim <= WEFT_MAX_DIMS, WEFT_ERR_SHAPE, "expand: %d dims", ndim);
    WF_NEED_PTR(shape || ndim == 0, WEFT_ERR_ARG, "expand: no shape");
    for (int d = 0; d < ndim; d++) {
        int own = d - (ndim - weft_ndim(x));

        sizes[d] = shape[d] == -1 && own >= 0 ? x->layout->desc.global[own] : shape[d];
    }
    return dispatch_to_shape(WF_OP_expand, x, sizes, ndim, NULL);
}

bool wf_view_unchanged(const struct wf_infer *call, const struct wf_tensor_desc *in,
                       const int64_t *shape, struct wf_view *view)
{
    (void)call;
    (void)shape;
    memcpy(view->stride, in->stride, sizeof in->stride);
    return true;
}

weft_tensor *wf_without_grad_types(weft_tensor *t)
{
    return t && t->layout->grad_types.mesh ? wf_dispatch_unary_op(WF_OP_untyped, t) : t;
}

weft_tensor *weft_detach(weft_tensor *x) { return wf_dispatch_unary_op(WF_OP_detach, x); }
