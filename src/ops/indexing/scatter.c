/*
 * scatter.c: elements put along a dim where an index tensor with all dims says, in their order:
 * rows values, index, and the tensor that they are put into (NULL: zeros).
 */
#include <weft/ops.h>

#include <math.h>

#include "base/elements/dtype.h"
#include "base/error.h"
#include "ops/call_dims.h"
#include "ops/indexing/gather_calls.h"
#include "ops/indexing/index_calls.h"
#include "ops/op_functions.h"
#include "ops/op_plan.h"

weft_status wf_shape_scatter(struct wf_infer *call)
{
    const struct wf_tensor_desc *values = &call->in[0]->desc, *index = &call->in[1]->desc;
    const struct wf_layout *x = call->in[2];
    int dim = (int)call->attrs->scatter.dim;
    bool fits = values->ndim == index->ndim && (!x || x->desc.ndim == index->ndim);

    WF_NEED(wf_is_index_dtype(call->in[1]), WEFT_ERR_DTYPE,
            "%s: the index, the second, is i32 or i64: %s", call->name, wf_infer_inputs_text(call));
    wf_infer_output_like(call, 0, x ? x : call->in[0]);
    if (!x) call->out[0].shape[dim] = call->attrs->scatter.size;
    for (int d = 0; fits && d < index->ndim; d++)
        fits = values->global[d] == index->global[d] &&
               (d == dim || index->global[d] <= call->out[0].shape[d]);
    WF_NEED(fits && (!x || x->desc.dtype == values->dtype), WEFT_ERR_SHAPE,
            "%s: shapes or dtypes of values, index and what they are put into do not go together: "
            "%s",
            call->name, wf_infer_inputs_text(call));
    return WEFT_OK;
}

/* As index_put: the dim itself is cut in the result and in what is put into; in values and index
 * only where they are added. */
static void label_scatter(const struct wf_infer *call, struct wf_dim_labels *labels, bool add)
{
    int ndim = call->out[0].ndim, dim = (int)wf_dim_of_op(call);

    labels->count = ndim;
    for (int d = 0; d < ndim; d++) {
        bool whole = wf_size_of_input(call, 1, d) == call->out[0].shape[d];
        int8_t label = (int8_t)(d == dim ? ++labels->count : whole ? d + 1 : 0);

        if (d == dim ? add : whole) {
            labels->in[0][d] = (int8_t)(d + 1);
            labels->in[1][d] = (int8_t)(d + 1);
        }
        labels->out[0][d] = label;
        if (call->in[2]) labels->in[2][d] = label;
    }
}

void wf_rule_scatter(const struct wf_infer *call, struct wf_dim_labels *labels)
{
    label_scatter(call, labels, false);
}

void wf_rule_scatter_add(const struct wf_infer *call, struct wf_dim_labels *labels)
{
    weft_dtype dtype = call->out[0].dtype;

    label_scatter(call, labels, wf_dtype_can_reduce(dtype, WEFT_SUM));
}

static weft_tensor *call_scatter(enum wf_op op, weft_tensor *x, int64_t dim, weft_tensor *index,
                                 weft_tensor *values, weft_reduce reduce, struct wf_layout *want)
{
    struct wf_op_args args = {WF_ATTRS(scatter, .dim = dim, .reduce = reduce), .want = want};

    if (!x || !index || !values) return NULL;
    return wf_dispatch_op_one_output(op, (weft_tensor *[]){values, index, x}, 3, &args);
}

/* One number with the shape of `like`. */
static weft_tensor *number_shaped_as(const weft_tensor *on, weft_dtype dtype, double value,
                                     const struct wf_layout *like)
{
    return weft_expand(wf_replicated_number(on, dtype, value), like->desc.global, like->desc.ndim);
}

/* ---- gradients ---- */

/* Which of the values stay: each writes its place along the dim, and those stay that find it. */
static weft_tensor *values_that_stay(const struct wf_layout *x, int dim, weft_tensor *index)
{
    weft_tensor *number, *last;

    number = wf_replicated_count(index, weft_size(index, dim));
    for (int d = dim + 1; number && d < weft_ndim(index); d++) number = weft_unsqueeze(number, -1);
    number = number ? weft_expand_as(number, index) : NULL;
    last = call_scatter(WF_OP_scatter, number_shaped_as(index, WEFT_I64, 0, x), dim, index, number,
                        WEFT_SUM, NULL);
    return last ? weft_eq(weft_gather(last, dim, index), number) : NULL;
}

/* What g has in the places of the index: x may be larger than it. */
static weft_tensor *gather_back(weft_tensor *g, int dim, weft_tensor *index)
{
    return weft_gather(g, dim, index);
}

void wf_vjp_scatter(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    const struct wf_op_plan *plan = wf_tape_node_op_plan(n);
    int dim = (int)plan->attrs.scatter.dim;
    weft_tensor *index = wf_saved_input(n, 1);

    if (wf_tape_node_needs_grad(n, 0)) {
        weft_tensor *stays = values_that_stay(plan->in[2], dim, index);
        weft_tensor *back = stays ? gather_back(g, dim, index) : NULL;

        in[0] = back ? weft_where(stays, back, weft_full(weft_tensor_dtype(g), NULL, 0, 0)) : NULL;
    }
    if (wf_tape_node_needs_grad(n, 2))
        in[2] = call_scatter(WF_OP_scatter, g, dim, index,
                             number_shaped_as(g, weft_tensor_dtype(g), 0, plan->in[1]), WEFT_SUM,
                             plan->in[2]);
}

void wf_vjp_scatter_add(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    int dim = (int)wf_tape_node_op_plan(n)->attrs.scatter.dim;

    if (wf_tape_node_needs_grad(n, 0)) in[0] = gather_back(g, dim, wf_saved_input(n, 1));
    if (wf_tape_node_needs_grad(n, 2)) in[2] = g;
}

/* 1 where two tensors are equal, else 0. */
static weft_tensor *equal_as_number(weft_tensor *a, weft_tensor *b)
{
    return weft_cast(weft_eq(a, b), weft_tensor_dtype(b));
}

/* The largest (or smallest) elements of a place share its gradient. */
static void gradient_of_extremes(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in,
                                 int dim)
{
    weft_tensor *values = wf_saved_input(n, 0), *index = wf_saved_input(n, 1),
                *x = wf_saved_input(n, 2), *result = wf_saved_output(n, 0);
    weft_tensor *x_is = equal_as_number(x, result),
                *value_is = equal_as_number(values, weft_gather(result, dim, index));
    weft_tensor *share =
        weft_div(g, call_scatter(WF_OP_scatter_add, x_is, dim, index, value_is, WEFT_SUM, NULL));

    if (wf_tape_node_needs_grad(n, 0)) in[0] = weft_mul(value_is, gather_back(share, dim, index));
    if (wf_tape_node_needs_grad(n, 2)) in[2] = weft_mul(x_is, share);
}

/* The product of the other factors: of all that are not 0, or 0 where another one is 0. */
static weft_tensor *product_of_others(weft_tensor *factor, weft_tensor *is_zero,
                                      weft_tensor *product, weft_tensor *zeros)
{
    weft_tensor *others = weft_div(product, weft_add(factor, is_zero));

    return weft_where(
        weft_eq(weft_sub(zeros, is_zero), weft_full(weft_tensor_dtype(factor), NULL, 0, 0)), others,
        weft_full(weft_tensor_dtype(factor), NULL, 0, 0));
}

static void gradient_of_product(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in,
                                int dim)
{
    weft_tensor *values = wf_saved_input(n, 0), *index = wf_saved_input(n, 1),
                *x = wf_saved_input(n, 2), *zero = weft_full(weft_tensor_dtype(g), NULL, 0, 0);
    weft_tensor *x_zero = equal_as_number(zero, x), *value_zero = equal_as_number(zero, values);
    weft_tensor *zeros =
        call_scatter(WF_OP_scatter_add, x_zero, dim, index, value_zero, WEFT_SUM, NULL);
    weft_tensor *product = call_scatter(WF_OP_scatter_reduce, weft_add(x, x_zero), dim, index,
                                        weft_add(values, value_zero), WEFT_PRODUCT, NULL);

    if (wf_tape_node_needs_grad(n, 0))
        in[0] = weft_mul(gather_back(g, dim, index),
                         product_of_others(values, value_zero, weft_gather(product, dim, index),
                                           weft_gather(zeros, dim, index)));
    if (wf_tape_node_needs_grad(n, 2))
        in[2] = weft_mul(g, product_of_others(x, x_zero, product, zeros));
}

void wf_vjp_scatter_reduce(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    const struct wf_scatter_attrs *attrs = &wf_tape_node_op_plan(n)->attrs.scatter;

    if (attrs->reduce == WEFT_PRODUCT)
        gradient_of_product(n, g, in, (int)attrs->dim);
    else
        gradient_of_extremes(n, g, in, (int)attrs->dim);
}

/* ---- public functions ---- */

/* Operands of any scatter: values as far as the index goes. gives: the dim, -1 with an error */
static int check_scatter(const char *who, weft_tensor *x, int dim, weft_tensor *index,
                         weft_tensor **values)
{
    int d;

    if (wf_tensor_need_alive(x, who) != WEFT_OK || wf_tensor_need_alive(index, who) != WEFT_OK ||
        (values && wf_tensor_need_alive(*values, who) != WEFT_OK))
        return -1;
    d = wf_normalize_dim(dim, weft_ndim(x), who);
    for (int i = 0;
         d >= 0 && values && weft_ndim(*values) == weft_ndim(index) && i < weft_ndim(index); i++) {
        if (weft_size(*values, i) <= weft_size(index, i)) continue;
        *values = weft_slice(*values, i, 0, weft_size(index, i));
        if (!*values) return -1;
    }
    return d;
}

static weft_tensor *scatter(const char *who, enum wf_op op, weft_tensor *x, int dim,
                            weft_tensor *index, weft_tensor *values, weft_reduce reduce)
{
    int d;

    if (!x || !index || !values) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, who));
    if (wf_is_dim_of_scalar(x, dim))
        return weft_reshape(scatter(who, op, weft_atleast_nd(x, 1), 0, weft_atleast_nd(index, 1),
                                    weft_atleast_nd(values, 1), reduce),
                            NULL, 0);
    d = check_scatter(who, x, dim, index, &values);
    return d < 0 ? NULL : call_scatter(op, x, d, index, values, reduce, NULL);
}

weft_tensor *weft_scatter(weft_tensor *x, int dim, weft_tensor *index, weft_tensor *values)
{
    return scatter("scatter", WF_OP_scatter, x, dim, index, values, WEFT_SUM);
}

weft_tensor *weft_scatter_value(weft_tensor *x, int dim, weft_tensor *index, double value)
{
    int d;

    if (!x || !index) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "scatter_value"));
    if (wf_is_dim_of_scalar(x, dim))
        return weft_reshape(
            weft_scatter_value(weft_atleast_nd(x, 1), 0, weft_atleast_nd(index, 1), value), NULL,
            0);
    d = check_scatter("scatter_value", x, dim, index, NULL);
    if (d < 0) return NULL;
    return call_scatter(WF_OP_scatter, x, d, index,
                        number_shaped_as(x, weft_tensor_dtype(x), value, index->layout), WEFT_SUM,
                        NULL);
}

weft_tensor *weft_scatter_add(weft_tensor *x, int dim, weft_tensor *index, weft_tensor *values)
{
    return scatter("scatter_add", WF_OP_scatter_add, x, dim, index, values, WEFT_SUM);
}

/* What x has where values will come, so that it does not count: what leaves them as they are. */
static weft_tensor *without_own(weft_tensor *x, int dim, weft_tensor *index, weft_tensor *values,
                                weft_reduce reduce)
{
    bool real = weft_dtype_is_float(weft_tensor_dtype(x));

    if (reduce == WEFT_PRODUCT) return weft_scatter_value(x, dim, index, 1);
    if (reduce == WEFT_SUM || reduce == WEFT_AVG) return weft_scatter_value(x, dim, index, 0);
    if (real) return weft_scatter_value(x, dim, index, reduce == WEFT_MAX ? -INFINITY : INFINITY);
    return weft_scatter(x, dim, index, values); /* one of them, which changes no maximum */
}

/* The sum, divided by how many there were of each. */
static weft_tensor *scatter_mean(weft_tensor *x, int dim, weft_tensor *index, weft_tensor *values,
                                 bool include_self)
{
    weft_dtype dtype = weft_tensor_dtype(x);
    weft_tensor *ones = number_shaped_as(x, dtype, 1, x->layout), *count;

    WF_NEED_PTR(weft_dtype_is_float(dtype), WEFT_ERR_DTYPE,
                "scatter_reduce: a mean of %s; only floating-point numbers have one",
                weft_dtype_name(dtype));
    if (!include_self) ones = weft_scatter_value(ones, dim, index, 0);
    count = scatter("scatter_reduce", WF_OP_scatter_add, ones, dim, index,
                    number_shaped_as(x, dtype, 1, index->layout), WEFT_SUM);
    return count ? weft_div(weft_scatter_add(x, dim, index, values), count) : NULL;
}

weft_tensor *weft_scatter_reduce(weft_tensor *x, int dim, weft_tensor *index, weft_tensor *values,
                                 weft_reduce reduce, bool include_self)
{
    weft_tensor *self = x;

    if (!x || !index || !values) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "scatter_reduce"));
    if (wf_is_dim_of_scalar(x, dim))
        return weft_reshape(weft_scatter_reduce(weft_atleast_nd(x, 1), 0, weft_atleast_nd(index, 1),
                                                weft_atleast_nd(values, 1), reduce, include_self),
                            NULL, 0);
    if (check_scatter("scatter_reduce", x, dim, index, &values) < 0) return NULL;
    WF_NEED_PTR(reduce == WEFT_SUM || reduce == WEFT_AVG || reduce == WEFT_PRODUCT ||
                    reduce == WEFT_MAX || reduce == WEFT_MIN,
                WEFT_ERR_ARG, "scatter_reduce: not by reduction %d", (int)reduce);
    if (!include_self) self = without_own(x, dim, index, values, reduce);
    if (!self) return NULL;
    if (reduce == WEFT_SUM) return weft_scatter_add(self, dim, index, values);
    if (reduce == WEFT_AVG) return scatter_mean(self, dim, index, values, include_self);
    return scatter("scatter_reduce", WF_OP_scatter_reduce, self, dim, index, values, reduce);
}

/* One more than the largest of the whole tensor, -1 with an error. */
static int64_t infer_class_count(weft_tensor *index)
{
    weft_tensor *largest =
        weft_numel(index) > 0 ? wf_reduce_if_partial(weft_amax(index, NULL, 0, false)) : NULL;
    double most = largest ? weft_item(largest) : NAN;

    if (most >= 0) return (int64_t)most + 1;
    if (isnan(most) && weft_numel(index) > 0) return -1; /* it cannot be read: it is said why */
    WF_FAIL(WEFT_ERR_ARG, "one_hot: no class is in the index");
    return -1;
}

weft_tensor *weft_one_hot(weft_tensor *index, int64_t classes)
{
    int64_t shape[WEFT_MAX_DIMS];
    weft_tensor *zero;
    int n;

    if (!index) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(index, "one_hot"));
    n = weft_ndim(index);
    WF_NEED_PTR(wf_is_index_dtype(index->layout), WEFT_ERR_DTYPE,
                "one_hot: classes are i32 or i64, not %s",
                weft_dtype_name(weft_tensor_dtype(index)));
    if (classes == -1) classes = infer_class_count(index);
    if (classes == -1) return NULL;
    WF_NEED_PTR(classes > 0 && n < WEFT_MAX_DIMS, WEFT_ERR_ARG,
                "one_hot: %lld classes for a tensor with %d dims", (long long)classes, n);
    for (int d = 0; d < n; d++) shape[d] = weft_size(index, d);
    shape[n] = classes;
    zero = weft_expand(wf_replicated_number(index, WEFT_I64, 0), shape, n + 1);
    return zero ? weft_scatter_value(zero, -1, weft_unsqueeze(index, -1), 1) : NULL;
}
