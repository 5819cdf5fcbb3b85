/* matmul.c: shapes and gradients of products. */
#include <weft/ops.h>

#include <string.h>

#include "base/elements/dtype.h"
#include "base/error.h"
#include "ops/op_functions.h"
#include "ops/op_plan.h"
#include "ops/products/integer_products.h"

static weft_status check_same_float_dtype(struct wf_infer *call)
{
    for (int i = 0; i < call->n_in; i++) {
        if (!call->in[i]) continue;
        WF_NEED(weft_dtype_is_float((weft_dtype)call->in[i]->desc.dtype) &&
                    call->in[i]->desc.dtype == call->in[0]->desc.dtype,
                WEFT_ERR_DTYPE, "%s: needs floating-point tensors of one dtype: %s",
                call->row->name, wf_infer_inputs_text(call));
    }
    call->out[0].dtype = (weft_dtype)call->in[0]->desc.dtype;
    return WEFT_OK;
}

weft_status wf_shape_matmul(struct wf_infer *call)
{
    const struct wf_tensor_desc *a = &call->in[0]->desc, *b = &call->in[1]->desc;
    int ndim = a->ndim > b->ndim ? a->ndim : b->ndim;
    bool ta = call->attrs->matmul.transpose_a, tb = call->attrs->matmul.transpose_b;

    if (wf_is_integer_product((weft_dtype)a->dtype) && a->dtype == b->dtype)
        call->out[0].dtype = (weft_dtype)a->dtype;
    else
        WF_TRY(check_same_float_dtype(call));
    WF_NEED(a->ndim >= 2 && b->ndim >= 2, WEFT_ERR_SHAPE, "matmul: both need two dims or more: %s",
            wf_infer_inputs_text(call));
    WF_NEED(a->global[a->ndim - (ta ? 2 : 1)] == b->global[b->ndim - (tb ? 1 : 2)], WEFT_ERR_SHAPE,
            "matmul: inner sizes differ: %s", wf_infer_inputs_text(call));
    call->out[0].ndim = ndim;
    for (int r = 2; r < ndim; r++) {
        int64_t m = r < a->ndim ? a->global[a->ndim - 1 - r] : 1,
                n = r < b->ndim ? b->global[b->ndim - 1 - r] : 1;

        WF_NEED(m == n || m == 1 || n == 1, WEFT_ERR_SHAPE,
                "matmul: leading dims do not broadcast: %s", wf_infer_inputs_text(call));
        call->out[0].shape[ndim - 1 - r] = m == 1 ? n : m;
    }
    call->out[0].shape[ndim - 2] = a->global[a->ndim - (ta ? 1 : 2)];
    call->out[0].shape[ndim - 1] = b->global[b->ndim - (tb ? 2 : 1)];
    return WEFT_OK;
}

/* Output 0: `n` dims of `a` from `from_a`, then `m` dims of `b` from `from_b`. */
static weft_status concat_output_dims(struct wf_infer *call, const struct wf_tensor_desc *a,
                                      int from_a, int n, const struct wf_tensor_desc *b, int from_b,
                                      int m)
{
    WF_NEED(n + m <= WEFT_MAX_DIMS, WEFT_ERR_SHAPE, "%s: the result would have %d dims: %s",
            call->row->name, n + m, wf_infer_inputs_text(call));
    call->out[0].ndim = n + m;
    memcpy(call->out[0].shape, a->global + from_a, (size_t)n * sizeof(int64_t));
    memcpy(call->out[0].shape + n, b->global + from_b, (size_t)m * sizeof(int64_t));
    return WEFT_OK;
}

static bool dim_sizes_equal(const struct wf_tensor_desc *a, int from_a,
                            const struct wf_tensor_desc *b, int from_b, int n)
{
    return memcmp(a->global + from_a, b->global + from_b, (size_t)n * sizeof(int64_t)) == 0;
}

/* A product of 16-bit floats is a sum in f32; who adds products up may want it before it is
 * rounded. */
static void widen_output_dtype(struct wf_infer *call)
{
    if (call->attrs->linear.wide && wf_dtype_is_16_bit_float(call->out[0].dtype))
        call->out[0].dtype = WEFT_F32;
}

weft_status wf_shape_linear(struct wf_infer *call)
{
    const struct wf_tensor_desc *x = &call->in[0]->desc, *w = &call->in[1]->desc;
    bool turned = call->attrs->linear.transposed;
    int k = call->attrs->linear.k_dims, n, lead, from_k, from_n; /* the last two: dims of w */

    WF_TRY(check_same_float_dtype(call));
    widen_output_dtype(call);
    WF_NEED(k >= 1 && k < w->ndim && k <= x->ndim, WEFT_ERR_SHAPE,
            "linear: %d contracted dims do not fit: %s", k, wf_infer_inputs_text(call));
    n = w->ndim - k;
    lead = x->ndim - k;
    from_k = turned ? 0 : n;
    from_n = turned ? k : 0;
    WF_NEED(dim_sizes_equal(x, lead, w, from_k, k), WEFT_ERR_SHAPE,
            "linear: inner sizes differ: %s", wf_infer_inputs_text(call));
    if (call->n_in > 2 && call->in[2])
        WF_NEED(call->in[2]->desc.ndim == n && dim_sizes_equal(&call->in[2]->desc, 0, w, from_n, n),
                WEFT_ERR_SHAPE, "linear: the bias must have the weight's output dims: %s",
                wf_infer_inputs_text(call));
    return concat_output_dims(call, x, 0, lead, w, from_n, n);
}

weft_status wf_shape_linear_dx(struct wf_infer *call)
{
    const struct wf_tensor_desc *d = &call->in[0]->desc, *w = &call->in[1]->desc;
    int k = call->attrs->linear.k_dims, n = w->ndim - k;

    WF_TRY(check_same_float_dtype(call));
    widen_output_dtype(call);
    return concat_output_dims(call, d, 0, d->ndim - n, w, call->attrs->linear.transposed ? 0 : n,
                              k);
}

weft_status wf_shape_linear_dw(struct wf_infer *call)
{
    const struct wf_tensor_desc *d = &call->in[0]->desc, *x = &call->in[1]->desc;
    int k = call->attrs->linear_dw.k_dims, n = call->attrs->linear_dw.n_dims;

    WF_TRY(check_same_float_dtype(call));
    return concat_output_dims(call, d, d->ndim - n, n, x, x->ndim - k, k);
}

/* One matrix b under a batch of matrices a, whose rows follow one another. */
static bool batch_shares_matrix(const struct wf_op_plan *plan)
{
    return plan->in[1]->desc.ndim == 2 && plan->in[0]->desc.ndim > 2 &&
           !plan->attrs.matmul.transpose_a;
}

/* One product over all rows of the batch, not one per matrix and then their sum. */
static weft_tensor *gradient_of_shared_matrix(const struct wf_op_plan *plan, weft_tensor *a,
                                              weft_tensor *g)
{
    struct wf_op_args args = {WF_ATTRS(linear_dw, .k_dims = 1, .n_dims = 1), .want = plan->in[1]};
    bool tb = plan->attrs.matmul.transpose_b;

    return wf_dispatch_op_one_output(WF_OP_linear_dw, (weft_tensor *[]){tb ? g : a, tb ? a : g}, 2,
                                     &args);
}

/* c = op(a) op(b); da = g op(b)^T, db = op(a)^T g, each transposed once more if its input was. */
void wf_vjp_matmul(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    const struct wf_op_plan *plan = wf_tape_node_op_plan(n);
    const struct wf_matmul_attrs *attrs = &plan->attrs.matmul;
    bool ta = attrs->transpose_a, tb = attrs->transpose_b;
    weft_tensor *a = wf_saved_input(n, 0), *b = wf_saved_input(n, 1);

    if (wf_tape_node_needs_grad(n, 0))
        in[0] =
            wf_sum_to_shape_of(ta ? weft_matmul_t(b, g, tb, true) : weft_matmul_t(g, b, false, !tb),
                               wf_tape_node_input_layout(n, 0));
    if (wf_tape_node_needs_grad(n, 1))
        in[1] = batch_shares_matrix(plan) ? gradient_of_shared_matrix(plan, a, g)
                                          : wf_sum_to_shape_of(tb ? weft_matmul_t(g, a, true, ta)
                                                                  : weft_matmul_t(a, g, !ta, false),
                                                               wf_tape_node_input_layout(n, 1));
}

void wf_vjp_linear(const struct wf_tape_node *node, weft_tensor *g, weft_tensor **in)
{
    const struct wf_op_plan *plan = wf_tape_node_op_plan(node);
    const struct wf_linear_attrs *attrs = &plan->attrs.linear;
    int k = attrs->k_dims, n = plan->in[1]->desc.ndim - k, lead = weft_ndim(g) - n;
    weft_tensor *x = wf_saved_input(node, 0), *w = wf_saved_input(node, 1);

    if (weft_tensor_dtype(g) != (weft_dtype)plan->in[0]->desc.dtype) /* of a wide product */
        g = weft_cast(g, (weft_dtype)plan->in[0]->desc.dtype);
    if (wf_tape_node_needs_grad(node, 0)) {
        struct wf_op_args args = {WF_ATTRS(linear, .k_dims = k, .transposed = attrs->transposed,
                                           .wide = attrs->wide_gradient),
                                  .want = plan->in[0]};

        in[0] = wf_dispatch_op_one_output(WF_OP_linear_dx, (weft_tensor *[]){g, w}, 2, &args);
    }
    if (wf_tape_node_needs_grad(node, 1)) {
        bool transposed = attrs->transposed; /* of d^T x: its transpose, x^T d */
        struct wf_op_args args = {
            WF_ATTRS(linear_dw, .k_dims = transposed ? n : k, .n_dims = transposed ? k : n),
            .want = plan->in[1]};

        in[1] = wf_dispatch_op_one_output(
            WF_OP_linear_dw, (weft_tensor *[]){transposed ? x : g, transposed ? g : x}, 2, &args);
    }
    if (plan->n_in > 2 && wf_tape_node_needs_grad(node, 2))
        in[2] = wf_sum_masked_dims(g, ((int64_t)1 << lead) - 1, false, 1, plan->in[2]);
}

weft_tensor *weft_matmul_t(weft_tensor *a, weft_tensor *b, bool ta, bool tb)
{
    struct wf_op_args args = {WF_ATTRS(matmul, .transpose_a = ta, .transpose_b = tb)};

    return wf_dispatch_op_one_output(WF_OP_matmul, (weft_tensor *[]){a, b}, 2, &args);
}

weft_tensor *weft_linear_with(weft_tensor *x, weft_tensor *w, weft_tensor *bias,
                              weft_linear_options o)
{
    struct wf_op_args args = {WF_ATTRS(linear, .k_dims = o.k_dims ? o.k_dims : 1,
                                       .transposed = o.transposed, .wide = o.wide,
                                       .wide_gradient = o.wide_gradient)};

    return wf_dispatch_op_one_output(WF_OP_linear, (weft_tensor *[]){x, w, bias}, bias ? 3 : 2,
                                     &args);
}

weft_tensor *weft_linear(weft_tensor *x, weft_tensor *w, weft_tensor *bias, int k_dims)
{
    struct wf_op_args args = {WF_ATTRS(linear, .k_dims = k_dims)};

    return wf_dispatch_op_one_output(WF_OP_linear, (weft_tensor *[]){x, w, bias}, bias ? 3 : 2,
                                     &args);
}
