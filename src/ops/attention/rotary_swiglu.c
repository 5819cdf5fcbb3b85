/* rotary_swiglu.c: rotary positions and SwiGLU. */
#include <weft/ops.h>

#include "base/error.h"
#include "ops/op_functions.h"
#include "ops/op_plan.h"

/* ---- rotary positions ---- */

/* x [B,T,...,D], positions [B,T] or none */
weft_status wf_shape_rotary(struct wf_infer *call)
{
    const struct wf_tensor_desc *x = &call->in[0]->desc, *at;
    int64_t dims = call->attrs->rotary.dims;

    WF_NEED(x->ndim >= 3 && weft_dtype_is_float((weft_dtype)x->dtype) && dims >= 0 &&
                dims % 2 == 0 && dims <= x->global[x->ndim - 1],
            WEFT_ERR_SHAPE,
            "rotary: needs x [B,T,...,D] and an even number of dims <= D, not %lld: "
            "%s",
            (long long)dims, wf_infer_inputs_text(call));
    wf_infer_output_like(call, 0, call->in[0]);
    if (call->n_in < 2 || !call->in[1]) return WEFT_OK;
    at = &call->in[1]->desc;
    WF_NEED((at->dtype == WEFT_I32 || at->dtype == WEFT_I64) && at->ndim == 2 &&
                at->global[0] == x->global[0] && at->global[1] == x->global[1],
            WEFT_ERR_SHAPE, "rotary: positions are i32 or i64 [B,T]: %s",
            wf_infer_inputs_text(call));
    return WEFT_OK;
}

/* Every dim but the last; not the one before it when only some of its entries turn. */
void wf_rule_rotary(const struct wf_infer *call, struct wf_dim_labels *labels)
{
    int n = call->out[0].ndim;
    bool some = n > 3 && call->attrs->rotary.heads < call->out[0].shape[n - 2];

    for (int d = 0; d < n - 1 - some; d++) {
        labels->in[0][d] = labels->out[0][d] = (int8_t)(d + 1);
        if (d < 2) labels->in[1][d] = (int8_t)(d + 1);
    }
    labels->count = n - 1;
}

static weft_tensor *call_rotary(weft_tensor *x, weft_tensor *positions,
                                const struct wf_rotary_attrs *attrs, int64_t offset)
{
    struct wf_op_args args = {.attr_words = (int)(sizeof *attrs / sizeof(uint64_t)),
                              .attrs = attrs,
                              .scalars.v = {offset}};

    return wf_dispatch_op_one_output(WF_OP_rotary, (weft_tensor *[]){x, positions}, 2, &args);
}

void wf_vjp_rotary(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    weft_tensor *positions = wf_tape_node_op_plan(n)->n_in > 1 ? wf_saved_input(n, 1) : NULL;
    struct wf_rotary_attrs attrs = wf_tape_node_op_plan(n)->attrs.rotary;

    attrs.backward = !attrs.backward;
    in[0] = call_rotary(g, positions, &attrs, n->v[0]);
}

weft_tensor *weft_rotary(weft_tensor *x, weft_tensor *positions, weft_rotary_options o)
{
    struct wf_rotary_attrs attrs;
    double factor = o.factor > 0 ? o.factor : 1;

    if (!x) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "rotary"));
    WF_NEED_PTR(o.base >= 0 && o.factor >= 0 && o.dims >= 0 && o.heads >= 0, WEFT_ERR_ARG,
                "rotary: base, factor, dims and heads cannot be negative");
    WF_NEED_PTR((o.low == 0) == (o.high == 0) && (o.low == 0) == (o.length == 0) &&
                    o.low <= o.high && (o.low == 0 || o.low < o.high),
                WEFT_ERR_ARG, "rotary: Llama's scaling needs low < high and length");
    attrs = (struct wf_rotary_attrs){.interleaved = o.interleaved,
                                     .scaling = o.length > 0  ? WF_ROTARY_LLAMA3
                                                : factor != 1 ? WF_ROTARY_LINEAR
                                                              : WF_ROTARY_UNSCALED,
                                     .dims = o.dims ? o.dims : weft_size(x, -1),
                                     .heads = o.heads ? o.heads : INT64_MAX,
                                     .base = o.base > 0 ? o.base : 10000,
                                     .factor = factor,
                                     .low = o.low,
                                     .high = o.high,
                                     .length = o.length};
    return call_rotary(x, positions, &attrs, o.offset);
}

/* ---- SwiGLU ---- */

/* x [*,2,h] -> [*,h] */
weft_status wf_shape_swiglu(struct wf_infer *call)
{
    const struct wf_tensor_desc *x = &call->in[0]->desc;

    WF_NEED(x->ndim >= 2 && x->global[x->ndim - 2] == 2 &&
                weft_dtype_is_float((weft_dtype)x->dtype),
            WEFT_ERR_SHAPE, "swiglu: needs gate and up stacked, [*,2,h]: %s",
            wf_infer_inputs_text(call));
    wf_infer_output_like(call, 0, call->in[0]);
    call->out[0].ndim--;
    call->out[0].shape[x->ndim - 2] = x->global[x->ndim - 1];
    return WEFT_OK;
}

weft_status wf_shape_swiglu_grad(struct wf_infer *call)
{
    wf_infer_output_like(call, 0, call->in[1]);
    return WEFT_OK;
}

void wf_vjp_swiglu(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    in[0] = wf_dispatch_binary_op(WF_OP_swiglu_grad, g, wf_saved_input(n, 0));
}

weft_tensor *weft_swiglu(weft_tensor *x) { return wf_dispatch_unary_op(WF_OP_swiglu, x); }
