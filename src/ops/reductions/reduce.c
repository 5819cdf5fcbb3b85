/* reduce.c: sums, means and maxima. */
#include <weft/ops.h>

#include "base/error.h"
#include "ops/call_dims.h"
#include "ops/op_functions.h"
#include "ops/op_plan.h"

weft_status wf_shape_reduce(struct wf_infer *call)
{
    const struct wf_reduce_attrs *attrs = &call->attrs->reduce;
    const struct wf_tensor_desc *x = &call->in[0]->desc;
    int at = 0;

    call->averages = attrs->mean;
    call->out[0].dtype = (weft_dtype)x->dtype;
    for (int d = 0; d < x->ndim; d++) {
        if (!(attrs->dims >> d & 1))
            call->out[0].shape[at++] = x->global[d];
        else if (attrs->keep)
            call->out[0].shape[at++] = 1;
    }
    call->out[0].ndim = at;
    return WEFT_OK;
}

/* A reduced dim's label is missing in the result. */
void wf_rule_reduce(const struct wf_infer *call, struct wf_dim_labels *labels)
{
    int n = wf_ndim_of_input(call, 0), at = 0;

    for (int d = 0; d < n; d++) {
        bool reduced = call->attrs->reduce.dims >> d & 1;

        labels->in[0][d] = (int8_t)(d + 1);
        if (!reduced)
            labels->out[0][at++] = (int8_t)(d + 1);
        else if (call->attrs->reduce.keep)
            at++;
    }
    labels->count = n;
}

int64_t wf_dims_to_mask(const weft_tensor *t, const int *dims, int n, const char *who)
{
    int64_t mask = 0;

    if (n == 0) return ((int64_t)1 << weft_ndim(t)) - 1;
    if (!dims) {
        WF_FAIL(WEFT_ERR_ARG, "%s: %d dims, but no list of them", who, n);
        return -1;
    }
    for (int i = 0; i < n; i++) {
        int d = wf_normalize_dim(dims[i], weft_ndim(t), who);

        if (d < 0) return -1;
        if (mask >> d & 1) {
            WF_FAIL(WEFT_ERR_ARG, "%s: dim %d is named twice", who, d);
            return -1;
        }
        mask |= (int64_t)1 << d;
    }
    return mask;
}

weft_tensor *wf_sum_masked_dims(weft_tensor *t, int64_t mask, bool keep, double scale,
                                struct wf_layout *want)
{
    struct wf_op_args args = {WF_ATTRS(reduce, .dims = (uint32_t)mask, .keep = keep),
                              .scalars.s = {scale}, .want = want};

    return mask < 0 ? NULL : wf_dispatch_op_one_output(WF_OP_sum, &t, 1, &args);
}

/* The reduced result with its dims put back at size 1, so that it broadcasts against the input. */
static weft_tensor *restore_reduced_dims(const struct wf_tape_node *n, weft_tensor *t)
{
    const struct wf_op_plan *plan = wf_tape_node_op_plan(n);
    int64_t shape[WEFT_MAX_DIMS];
    int ndim = plan->in[0]->desc.ndim;

    if (plan->attrs.reduce.keep || !t || weft_ndim(t) == 0)
        return t; /* without dims it broadcasts anyway */
    for (int d = 0; d < ndim; d++)
        shape[d] = plan->attrs.reduce.dims >> d & 1 ? 1 : plan->in[0]->desc.global[d];
    return wf_reshape_to(t, shape, ndim, NULL);
}

void wf_vjp_sum(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    if (n->s[0] != 1) g = weft_mul_scalar(g, n->s[0]);
    in[0] = wf_expand_to_shape_of(restore_reduced_dims(n, g), wf_tape_node_input_layout(n, 0));
}

void wf_vjp_max(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    weft_tensor *x = wf_saved_input(n, 0), *y = wf_saved_output(n, 0);
    weft_tensor *hit = weft_cast(weft_eq(x, restore_reduced_dims(n, y)), weft_tensor_dtype(x));
    weft_tensor *hits =
        wf_sum_masked_dims(hit, wf_tape_node_op_plan(n)->attrs.reduce.dims, true, 1, NULL);

    in[0] = weft_mul(hit, weft_div(restore_reduced_dims(n, g), hits));
}

weft_tensor *weft_sum(weft_tensor *x, const int *dims, int n, bool keep)
{
    WF_TRY_PTR(wf_tensor_need_alive(x, "sum"));
    return x ? wf_sum_masked_dims(x, wf_dims_to_mask(x, dims, n, "sum"), keep, 1, NULL) : NULL;
}

/* A sum scaled by one over the GLOBAL count, so uneven shards weigh as they should. */
weft_tensor *weft_mean(weft_tensor *x, const int *dims, int n, bool keep)
{
    int64_t mask, count = 1;
    struct wf_op_args args;

    if (!x) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "mean"));
    WF_NEED_PTR(weft_dtype_is_float(weft_tensor_dtype(x)), WEFT_ERR_DTYPE,
                "mean: needs floating-point numbers, not %s",
                weft_dtype_name(weft_tensor_dtype(x)));
    mask = wf_dims_to_mask(x, dims, n, "mean");
    for (int d = 0; mask > 0 && d < weft_ndim(x); d++)
        if (mask >> d & 1) count *= x->layout->desc.global[d];
    args = (struct wf_op_args){WF_ATTRS(reduce, .dims = (uint32_t)mask, .keep = keep, .mean = true),
                               .scalars.s = {1.0 / (double)count}};
    return mask < 0 ? NULL : wf_dispatch_op_one_output(WF_OP_sum, &x, 1, &args);
}

weft_tensor *weft_amax(weft_tensor *x, const int *dims, int n, bool keep)
{
    struct wf_op_args args;
    int64_t mask;

    if (!x) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "max"));
    mask = wf_dims_to_mask(x, dims, n, "max");
    args = (struct wf_op_args){WF_ATTRS(reduce, .dims = (uint32_t)mask, .keep = keep)};
    return mask < 0 ? NULL : wf_dispatch_op_one_output(WF_OP_max, &x, 1, &args);
}

weft_tensor *weft_sum_all(weft_tensor *x)
{
    return x ? wf_sum_masked_dims(x, ((int64_t)1 << weft_ndim(x)) - 1, false, 1, NULL) : NULL;
}

weft_tensor *weft_mean_all(weft_tensor *x) { return weft_mean(x, NULL, 0, false); }
