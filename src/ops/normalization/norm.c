/* norm.c: layer norm (Ba et al. 2016) and RMS norm (Zhang and Sennrich 2019) over the last dim. */
#include <weft/ops.h>

#include <string.h>

#include "base/error.h"
#include "ops/op_functions.h"
#include "ops/op_plan.h"

/* Output j: one statistic per row, in f32 (f64 for f64). */
static void infer_statistic_output(struct wf_infer *call, int j)
{
    const struct wf_tensor_desc *x = &call->in[0]->desc;

    call->out[j].dtype = x->dtype == WEFT_F64 ? WEFT_F64 : WEFT_F32;
    call->out[j].ndim = x->ndim - 1;
    memcpy(call->out[j].shape, x->global, sizeof x->global);
}

static weft_status check_norm_inputs(const struct wf_infer *call, int first)
{
    const struct wf_tensor_desc *x = &call->in[0]->desc;

    WF_NEED(x->ndim >= 1 && weft_dtype_is_float((weft_dtype)x->dtype), WEFT_ERR_SHAPE,
            "%s: needs floating-point rows: %s", call->row->name, wf_infer_inputs_text(call));
    for (int i = first; i < call->n_in; i++) {
        if (!call->in[i]) continue;
        WF_NEED(call->in[i]->desc.ndim == 1 &&
                    call->in[i]->desc.global[0] == x->global[x->ndim - 1] &&
                    call->in[i]->desc.dtype == x->dtype,
                WEFT_ERR_SHAPE, "%s: weight and bias must have the last dim's size and dtype: %s",
                call->row->name, wf_infer_inputs_text(call));
    }
    return WEFT_OK;
}

weft_status wf_shape_layer_norm(struct wf_infer *call)
{
    WF_TRY(check_norm_inputs(call, 1));
    wf_infer_output_like(call, 0, call->in[0]);
    infer_statistic_output(call, 1);
    infer_statistic_output(call, 2);
    return WEFT_OK;
}

weft_status wf_shape_rms_norm(struct wf_infer *call)
{
    WF_TRY(check_norm_inputs(call, 1));
    wf_infer_output_like(call, 0, call->in[0]);
    infer_statistic_output(call, 1);
    return WEFT_OK;
}

/* d, x, weight, mean, rstd -> dx, dweight, dbias */
static void infer_row_sum_output(struct wf_infer *call, int j, bool made)
{
    const struct wf_tensor_desc *x = &call->in[1]->desc;

    call->out[j].dtype = (weft_dtype)x->dtype;
    call->out[j].ndim = made ? 1 : -1;
    call->out[j].shape[0] = x->global[x->ndim - 1];
}

weft_status wf_shape_layer_norm_grad(struct wf_infer *call)
{
    wf_infer_output_like(call, 0, call->in[1]);
    infer_row_sum_output(call, 1, call->attrs->norm_grad.has_weight);
    infer_row_sum_output(call, 2, call->attrs->norm_grad.has_bias);
    return WEFT_OK;
}

weft_status wf_shape_rms_norm_grad(struct wf_infer *call)
{
    wf_infer_output_like(call, 0, call->in[1]);
    infer_row_sum_output(call, 1, call->attrs->norm_grad.has_weight);
    return WEFT_OK;
}

void wf_vjp_layer_norm(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    const struct wf_op_plan *plan = wf_tape_node_op_plan(n);
    struct wf_op_args args = {WF_ATTRS(norm_grad, .has_weight = plan->n_in > 1 && plan->in[1],
                                       .has_bias = plan->n_in > 2 && plan->in[2])};
    weft_tensor *x = wf_saved_input(n, 0), *weight = wf_saved_input(n, 1);
    weft_tensor *mean = wf_saved_output(n, 1), *rstd = wf_saved_output(n, 2);
    weft_tensor *operands[] = {g, x, weight, mean, rstd}, *more[2] = {0};

    in[0] = wf_dispatch_op(WF_OP_layer_norm_grad, operands, 5, &args, more);
    in[1] = more[0];
    in[2] = more[1];
}

void wf_vjp_rms_norm(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    const struct wf_op_plan *plan = wf_tape_node_op_plan(n);
    struct wf_op_args args = {WF_ATTRS(norm_grad, .has_weight = plan->n_in > 1 && plan->in[1])};
    weft_tensor *x = wf_saved_input(n, 0), *weight = wf_saved_input(n, 1);
    weft_tensor *operands[] = {g, x, weight, wf_saved_output(n, 1)}, *more[1] = {0};

    in[0] = wf_dispatch_op(WF_OP_rms_norm_grad, operands, 4, &args, more);
    in[1] = more[0];
}

/* ---- rows that are sharded: nothing is gathered, their statistics are all-reduced ---- */

/* x times weight plus bias, each NULL or [n]; in the dtype of `like`. */
static weft_tensor *scale_and_shift(weft_tensor *x, weft_tensor *weight, weft_tensor *bias,
                                    const weft_tensor *like)
{
    if (x && weight) x = weft_mul(x, weft_cast(weight, weft_tensor_dtype(x)));
    if (x && bias) x = weft_add(x, weft_cast(bias, weft_tensor_dtype(x)));
    return x ? weft_cast(x, weft_tensor_dtype(like)) : NULL;
}

static weft_tensor *sharded_layer_norm(weft_tensor *x, weft_tensor *weight, weft_tensor *bias,
                                       double eps)
{
    weft_tensor *y = weft_cast(wf_reduce_partial_operand("layer_norm", x), wf_computing_dtype(x));

    return scale_and_shift(wf_normalize_dims(y, (int64_t)1 << (weft_ndim(x) - 1), eps, NULL, NULL),
                           weight, bias, x);
}

static weft_tensor *sharded_rms_norm(weft_tensor *x, weft_tensor *weight, double eps)
{
    weft_tensor *y = weft_cast(wf_reduce_partial_operand("rms_norm", x), wf_computing_dtype(x));
    weft_tensor *square;
    int64_t mask = (int64_t)1 << (weft_ndim(x) - 1);

    if (!y) return NULL;
    square = wf_reduce_if_partial(wf_mean_mask(weft_square(y), mask, true, false));
    return scale_and_shift(weft_mul(y, weft_rsqrt(weft_add_scalar(square, eps))), weight, NULL, x);
}

/* As the rows' shape functions check, before anything is sent. */
static weft_status check_sharded_norm(const char *who, const weft_tensor *x, const weft_tensor *w)
{
    WF_NEED(!w || (weft_ndim(w) == 1 && weft_size(w, 0) == weft_size(x, -1) &&
                   weft_tensor_dtype(w) == weft_tensor_dtype(x)),
            WEFT_ERR_SHAPE, "%s: weight and bias must have the last dim's size and dtype", who);
    return WEFT_OK;
}

static bool has_sharded_rows(enum wf_op op, const weft_tensor *x)
{
    return weft_ndim(x) > 0 && weft_dtype_is_float(weft_tensor_dtype(x)) &&
           wf_is_sharded_along(x, weft_ndim(x) - 1) && !wf_op_has_user_rule(op);
}

weft_tensor *weft_layer_norm(weft_tensor *x, weft_tensor *weight, weft_tensor *bias, double eps)
{
    struct wf_op_args args = {.scalars.s = {eps}};
    weft_tensor *more[2];

    if (!x) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "layer_norm"));
    if (has_sharded_rows(WF_OP_layer_norm, x)) {
        WF_TRY_PTR(check_sharded_norm("layer_norm", x, weight));
        WF_TRY_PTR(check_sharded_norm("layer_norm", x, bias));
        return sharded_layer_norm(x, weight, bias, eps);
    }
    return wf_dispatch_op(WF_OP_layer_norm, (weft_tensor *[]){x, weight, bias}, 3, &args, more);
}

weft_tensor *weft_rms_norm(weft_tensor *x, weft_tensor *weight, double eps)
{
    struct wf_op_args args = {.scalars.s = {eps}};
    weft_tensor *more[1];

    if (!x) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "rms_norm"));
    if (has_sharded_rows(WF_OP_rms_norm, x)) {
        WF_TRY_PTR(check_sharded_norm("rms_norm", x, weight));
        return sharded_rms_norm(x, weight, eps);
    }
    return wf_dispatch_op(WF_OP_rms_norm, (weft_tensor *[]){x, weight}, 2, &args, more);
}
