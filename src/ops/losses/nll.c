/* nll.c: the negative log-likelihood of classes, of log-probabilities whose classes may be sharded:
 * a rank picks what it has, and the ranks' terms are added up as two numbers per token, or two. */
#include <weft/ops.h>

#include <string.h>

#include "base/error.h"
#include "ops/losses/cross_entropy.h"
#include "ops/op_functions.h"
#include "ops/op_plan.h"
#include "tensor/scope.h"

static bool has_shape_of_rows(const struct wf_tensor_desc *target, const struct wf_tensor_desc *x)
{
    return x->ndim == target->ndim + 1 &&
           (target->dtype == WEFT_I32 || target->dtype == WEFT_I64) &&
           memcmp(x->global, target->global, (size_t)target->ndim * sizeof(int64_t)) == 0;
}

/* x [*,V], target [*], w [V] -> [*], [*] */
weft_status wf_shape_nll_pick(struct wf_infer *call)
{
    const struct wf_tensor_desc *x = &call->in[0]->desc;
    const struct wf_tensor_desc *w = call->n_in > 2 && call->in[2] ? &call->in[2]->desc : NULL;

    WF_NEED(x->ndim >= 1 && weft_dtype_is_float((weft_dtype)x->dtype) &&
                has_shape_of_rows(&call->in[1]->desc, x),
            WEFT_ERR_SHAPE,
            "nll_loss: needs log-probabilities [*,V] and an i32 or i64 target [*]: %s",
            wf_infer_inputs_text(call));
    WF_NEED(!w || (w->ndim == 1 && w->dtype == x->dtype && w->global[0] == x->global[x->ndim - 1]),
            WEFT_ERR_SHAPE, "nll_loss: class weights are [V], of the same dtype: %s",
            wf_infer_inputs_text(call));
    for (int j = 0; j < 2; j++) {
        wf_infer_output_like(call, j, call->in[1]);
        call->out[j].dtype = (weft_dtype)x->dtype;
    }
    return WEFT_OK;
}

/* d [*], target [*], w [V] -> [*,V] */
weft_status wf_shape_nll_pick_grad(struct wf_infer *call)
{
    wf_infer_output_like(call, 0, call->in[0]);
    call->out[0].shape[call->out[0].ndim++] = call->attrs->topk_grad.row_size;
    return WEFT_OK;
}

void wf_vjp_nll_pick(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    struct wf_layout *x = wf_tape_node_input_layout(n, 0);
    bool weighted = wf_tape_node_op_plan(n)->n_in > 2;
    struct wf_op_args args = {WF_ATTRS(topk_grad, .row_size = x->desc.global[x->desc.ndim - 1]),
                              .scalars.v = {n->v[0]}, .want = x};
    weft_tensor *operands[] = {g, wf_saved_input(n, 1), weighted ? wf_saved_input(n, 2) : NULL};

    in[0] = wf_dispatch_op_one_output(WF_OP_nll_pick_grad, operands, weighted ? 3 : 2, &args);
}

static weft_tensor *nll_loss(weft_tensor *log_p, weft_tensor *target,
                             const weft_cross_entropy_options *o, int64_t ignored)
{
    struct wf_op_args args = {.scalars.v = {ignored}};
    weft_tensor *x = wf_permute_classes_last(log_p, o->class_dim), *picked, *weights = NULL, *loss;
    weft_tensor *operands[] = {x, target, o->weight};

    if (!x) return NULL;
    if (wf_scope_modes() & WF_MODE_LOSS_PARALLEL && wf_is_sharded_along(x, weft_ndim(x) - 1))
        WF_TRY_PTR(wf_prepare_loss_parallel_operands("nll_loss", x, &operands[1], &operands[2]));
    picked = wf_dispatch_op(WF_OP_nll_pick, operands, o->weight ? 3 : 2, &args, &weights);
    loss = weft_neg(picked);
    if (o->reduction == WEFT_LOSS_NONE) return loss;
    loss = weft_sum_all(loss);
    return o->reduction == WEFT_LOSS_SUM ? loss : weft_div(loss, weft_sum_all(weights));
}

weft_tensor *weft_nll_loss(weft_tensor *log_p, weft_tensor *target, weft_cross_entropy_options o)
{
    int64_t ignored = o.ignore_index == 0                  ? -100
                      : o.ignore_index == WEFT_IGNORE_ZERO ? 0
                                                           : o.ignore_index;
    weft_scope *scope;

    if (!log_p || !target) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(log_p, "nll_loss"));
    WF_TRY_PTR(wf_tensor_need_alive(target, "nll_loss"));
    WF_NEED_PTR(o.smoothing == 0 && o.z_loss == 0, WEFT_ERR_ARG,
                "nll_loss: smoothing and z_loss are of weft_cross_entropy_with");
    WF_NEED_PTR((unsigned)o.reduction <= WEFT_LOSS_NONE, WEFT_ERR_ARG,
                "nll_loss: there is no reduction %d", (int)o.reduction);
    WF_NEED_PTR(!o.weight || !weft_requires_grad(o.weight), WEFT_ERR_ARG,
                "nll_loss: class weights have no gradient");
    scope = weft_scope_open();
    return weft_scope_return(scope, nll_loss(log_p, target, &o, ignored));
}
