/*
 * attention.c: attention over separate and packed heads: shapes, sharding rules, gradients.
 *
 * Batch entries, groups of heads and, where they are a dim, the query heads of a group may be
 * sharded; positions and head size may not. What a mask or a bias of size 1 in a dim says holds for
 * all of it; the gradient of a bias that holds for all of a sharded dim is a partial sum.
 */
#include <weft/ops.h>

#include <string.h>

#include "base/error.h"
#include "ops/attention/log_sum_exp.h"
#include "ops/op_functions.h"
#include "ops/op_plan.h"

enum { BATCH = 1, GROUP, REPEAT, LETTERS = REPEAT };

/* Inputs and outputs: of attention, of its gradient, of attention_packed, of its gradient. */
enum { Q, K, V, MASK, BIAS };
enum { O, LSE };
enum { GRAD_MASK = 6, GRAD_BIAS = 7, GRAD_DBIAS = 3 };
enum { QKV, PACKED_MASK, PACKED_BIAS };
enum { PACKED_GRAD_MASK = 4, PACKED_GRAD_BIAS = 5, PACKED_GRAD_DBIAS = 1 };

static bool is_float(const struct wf_tensor_desc *d)
{
    return weft_dtype_is_float((weft_dtype)d->dtype);
}

/* lse: [B,H,T] or [B,G,R,T]: the heads of the output before its positions. */
static void infer_log_sum_exp_shape(struct wf_infer *call)
{
    int n = call->out[0].ndim;
    const int64_t *o = call->out[0].shape;

    call->out[1].dtype = call->out[0].dtype == WEFT_F64 ? WEFT_F64 : WEFT_F32;
    call->out[1].ndim = n - 1;
    call->out[1].shape[0] = o[0];
    for (int d = 2; d < n - 1; d++) call->out[1].shape[d - 1] = o[d];
    call->out[1].shape[n - 2] = o[1];
}

/* mask [B or 1, Tq or 1, Tk], bool or of the scores' dtype */
static weft_status check_mask(const struct wf_infer *call, int index, int64_t tk)
{
    const struct wf_tensor_desc *x = &call->in[0]->desc, *mask;

    if (index >= call->n_in || !call->in[index]) return WEFT_OK;
    mask = &call->in[index]->desc;
    WF_NEED(mask->ndim == 3 && (mask->global[0] == 1 || mask->global[0] == x->global[0]) &&
                (mask->global[1] == 1 || mask->global[1] == x->global[1]) &&
                mask->global[2] == tk && (mask->dtype == WEFT_BOOL || mask->dtype == x->dtype),
            WEFT_ERR_SHAPE,
            "%s: a mask is [B or 1, Tq or 1, Tk], bool or of the queries' dtype: %s", call->name,
            wf_infer_inputs_text(call));
    return WEFT_OK;
}

/*
 * bias [B or 1, H or 1, Tq or 1, Tk], or with G or 1, R or 1 in the place of H, of the scores'
 * dtype; heads [B,Tq,H,D] or [B,Tq,G,R,D] as in the first output.
 */
static weft_status check_bias(const struct wf_infer *call, int index, int64_t tk)
{
    const struct wf_tensor_desc *x = &call->in[0]->desc, *bias;
    const int64_t *heads = call->out[0].shape;
    int n = call->out[0].ndim;
    bool fits;

    if (index >= call->n_in || !call->in[index]) return WEFT_OK;
    bias = &call->in[index]->desc;
    fits = bias->ndim == n && bias->dtype == x->dtype && bias->global[n - 1] == tk &&
           (bias->global[0] == 1 || bias->global[0] == heads[0]) &&
           (bias->global[n - 2] == 1 || bias->global[n - 2] == heads[1]);
    for (int d = 1; fits && d < n - 2; d++)
        fits = bias->global[d] == 1 || bias->global[d] == heads[d + 1];
    WF_NEED(fits, WEFT_ERR_SHAPE, "%s: a bias is %s, of the queries' dtype: %s", call->name,
            n == 5 ? "[B or 1, G or 1, R or 1, Tq or 1, Tk]" : "[B or 1, H or 1, Tq or 1, Tk]",
            wf_infer_inputs_text(call));
    return WEFT_OK;
}

/* Output j is the gradient of the bias, where it is wanted. */
static void infer_bias_gradient_shape(struct wf_infer *call, int j, int index, bool wanted)
{
    if (wanted)
        wf_infer_output_like(call, j, call->in[index]);
    else
        call->out[j].ndim = -1;
}

/* q [B,T,H,D] or [B,T,G,R,D], k and v [B,Tk,H or G,D], mask, bias */
weft_status wf_shape_attention(struct wf_infer *call)
{
    const struct wf_tensor_desc *q = &call->in[Q]->desc, *k = &call->in[K]->desc,
                                *v = &call->in[V]->desc;

    WF_NEED((q->ndim == 4 || q->ndim == 5) && k->ndim == 4 && v->ndim == 4 &&
                q->dtype == k->dtype && q->dtype == v->dtype && is_float(q),
            WEFT_ERR_SHAPE,
            "attention: needs q [B,T,H,D] or [B,T,G,R,D] and k, v [B,T,H,D] of one floating-point "
            "dtype: %s",
            wf_infer_inputs_text(call));
    WF_NEED(memcmp(k->global, v->global, 4 * sizeof(int64_t)) == 0 &&
                q->global[0] == k->global[0] && q->global[2] == k->global[2] &&
                q->global[q->ndim - 1] == k->global[3],
            WEFT_ERR_SHAPE, "attention: batch, heads or head size differ: %s",
            wf_infer_inputs_text(call));
    WF_TRY(check_mask(call, MASK, k->global[1]));
    wf_infer_output_like(call, 0, call->in[0]);
    WF_TRY(check_bias(call, BIAS, k->global[1]));
    infer_log_sum_exp_shape(call);
    return WEFT_OK;
}

weft_status wf_shape_attention_grad(struct wf_infer *call)
{
    for (int j = 0; j < 3; j++) wf_infer_output_like(call, j, call->in[1 + j]);
    infer_bias_gradient_shape(call, GRAD_DBIAS, GRAD_BIAS, call->attrs->attention.bias_gradient);
    return WEFT_OK;
}

/* qkv [B,T,3,H,D], or grouped [B,T,G,R+2,D], mask, bias */
weft_status wf_shape_attention_packed(struct wf_infer *call)
{
    const struct wf_tensor_desc *qkv = &call->in[QKV]->desc;
    bool grouped = call->attrs->attention.grouped, fits = qkv->ndim == 5 && is_float(qkv);

    WF_NEED(fits && (grouped ? qkv->global[3] > 2 : qkv->global[2] == 3), WEFT_ERR_SHAPE,
            "attention_packed: needs qkv %s: %s", grouped ? "[B,T,G,R+2,D]" : "[B,T,3,H,D]",
            wf_infer_inputs_text(call));
    WF_TRY(check_mask(call, PACKED_MASK, qkv->global[1]));
    wf_infer_output_like(call, 0, call->in[0]);
    if (grouped) {
        call->out[0].shape[3] -= 2;
    } else {
        call->out[0].ndim = 4;
        memmove(&call->out[0].shape[2], &call->out[0].shape[3], 2 * sizeof(int64_t));
    }
    WF_TRY(check_bias(call, PACKED_BIAS, qkv->global[1]));
    infer_log_sum_exp_shape(call);
    return WEFT_OK;
}

weft_status wf_shape_attention_packed_grad(struct wf_infer *call)
{
    wf_infer_output_like(call, 0, call->in[1]);
    infer_bias_gradient_shape(call, PACKED_GRAD_DBIAS, PACKED_GRAD_BIAS,
                              call->attrs->attention.bias_gradient);
    return WEFT_OK;
}

/* ---- rules ---- */

/* Letters of [B,T,H,D] or [B,T,G,R,D]. */
static void label_heads(int8_t *dims, int n)
{
    dims[0] = BATCH;
    dims[2] = GROUP;
    if (n == 5) dims[3] = REPEAT;
}

static void label_lse(int8_t *dims, int n)
{
    dims[0] = BATCH;
    dims[1] = GROUP;
    if (n == 4) dims[2] = REPEAT;
}

static void label_mask(const struct wf_infer *call, int i, struct wf_dim_labels *labels)
{
    if (i < call->n_in && call->in[i] && call->in[i]->desc.global[0] == call->in[0]->desc.global[0])
        labels->in[i][0] = BATCH;
}

/* A bias, or its gradient: letters of the dims that it has. */
static void label_bias(const struct wf_infer *call, int i, int64_t groups, int64_t repeats,
                       int8_t *dims)
{
    const struct wf_tensor_desc *bias = i < call->n_in && call->in[i] ? &call->in[i]->desc : NULL;

    if (!bias) return;
    if (bias->global[0] == call->in[0]->desc.global[0]) dims[0] = BATCH;
    if (bias->global[1] == groups) dims[1] = GROUP;
    if (bias->ndim == 5 && bias->global[2] == repeats) dims[2] = REPEAT;
}

void wf_rule_attention(const struct wf_infer *call, struct wf_dim_labels *labels)
{
    const struct wf_tensor_desc *q = &call->in[0]->desc;
    int n = q->ndim;

    label_heads(labels->in[0], n);
    label_heads(labels->in[1], 4);
    label_heads(labels->in[2], 4);
    label_mask(call, MASK, labels);
    label_bias(call, BIAS, q->global[2], q->global[3], labels->in[BIAS]);
    label_heads(labels->out[0], n);
    label_lse(labels->out[1], n - 1);
    labels->count = LETTERS;
}

/* do, q, k, v, o, lse, mask, bias -> dq, dk, dv, dbias */
void wf_rule_attention_grad(const struct wf_infer *call, struct wf_dim_labels *labels)
{
    const struct wf_tensor_desc *q = &call->in[0]->desc;
    int n = q->ndim;

    label_heads(labels->in[0], n);
    label_heads(labels->in[1], n);
    label_heads(labels->in[2], 4);
    label_heads(labels->in[3], 4);
    label_heads(labels->in[4], n);
    label_lse(labels->in[5], n - 1);
    label_mask(call, GRAD_MASK, labels);
    label_bias(call, GRAD_BIAS, q->global[2], q->global[3], labels->in[GRAD_BIAS]);
    label_heads(labels->out[0], n);
    label_heads(labels->out[1], 4);
    label_heads(labels->out[2], 4);
    label_bias(call, GRAD_BIAS, q->global[2], q->global[3], labels->out[GRAD_DBIAS]);
    labels->count = LETTERS;
}

static int packed_qkv_group_dim(const struct wf_infer *call)
{
    return call->attrs->attention.grouped ? 2 : 3;
}

/* The query heads of a group lie in one dim with its key and value, so that dim stays whole. */
static void label_packed(const struct wf_infer *call, int8_t *dims)
{
    dims[0] = BATCH;
    dims[packed_qkv_group_dim(call)] = GROUP;
}

void wf_rule_attention_packed(const struct wf_infer *call, struct wf_dim_labels *labels)
{
    label_packed(call, labels->in[0]);
    label_mask(call, PACKED_MASK, labels);
    label_bias(call, PACKED_BIAS, call->in[QKV]->desc.global[packed_qkv_group_dim(call)], -1,
               labels->in[PACKED_BIAS]);
    label_heads(labels->out[0], 4);
    label_lse(labels->out[1], 3);
    labels->count = LETTERS;
}

/* do, qkv, o, lse, mask, bias -> dqkv, dbias */
void wf_rule_attention_packed_grad(const struct wf_infer *call, struct wf_dim_labels *labels)
{
    int64_t groups = call->in[1]->desc.global[packed_qkv_group_dim(call)];

    label_heads(labels->in[0], 4);
    label_packed(call, labels->in[1]);
    label_heads(labels->in[2], 4);
    label_lse(labels->in[3], 3);
    label_mask(call, PACKED_GRAD_MASK, labels);
    label_bias(call, PACKED_GRAD_BIAS, groups, -1, labels->in[PACKED_GRAD_BIAS]);
    label_packed(call, labels->out[0]);
    label_bias(call, PACKED_GRAD_BIAS, groups, -1, labels->out[PACKED_GRAD_DBIAS]);
    labels->count = LETTERS;
}

/* ---- gradients ---- */

/* The mask or the bias, where there is one. */
static weft_tensor *saved_optional_input(const struct wf_tape_node *n, int input)
{
    return wf_tape_node_op_plan(n)->n_in > input ? wf_saved_input(n, input) : NULL;
}

static bool needs_bias_gradient(const struct wf_tape_node *n, int input)
{
    return saved_optional_input(n, input) && wf_tape_node_needs_grad(n, input);
}

void wf_vjp_attention(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    struct wf_op_args args = {WF_ATTRS(attention,
                                       .causal = wf_tape_node_op_plan(n)->attrs.attention.causal,
                                       .bias_gradient = needs_bias_gradient(n, BIAS)),
                              .scalars.s = {n->s[0]}, .scalars.v = {n->v[0]}};
    weft_tensor *operands[] = {g,
                               wf_saved_input(n, Q),
                               wf_saved_input(n, K),
                               wf_saved_input(n, V),
                               wf_saved_output(n, O),
                               wf_saved_output(n, LSE),
                               saved_optional_input(n, MASK),
                               saved_optional_input(n, BIAS)},
                *grads[4] = {0};

    if (n->further_grads[0])
        wf_attention_gradients_with_lse(operands, 8, n->further_grads[0], &args, grads);
    else
        grads[0] = wf_dispatch_op(WF_OP_attention_grad, operands, 8, &args, grads + 1);
    for (int i = 0; i < 3; i++) in[i] = grads[i];
    in[BIAS] = grads[3];
}

void wf_vjp_attention_packed(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    const struct wf_attention_attrs *forward = &wf_tape_node_op_plan(n)->attrs.attention;
    struct wf_op_args args = {WF_ATTRS(attention, .causal = forward->causal,
                                       .grouped = forward->grouped,
                                       .bias_gradient = needs_bias_gradient(n, PACKED_BIAS)),
                              .scalars.s = {n->s[0]}};
    weft_tensor *operands[] = {g,
                               wf_saved_input(n, QKV),
                               wf_saved_output(n, O),
                               wf_saved_output(n, LSE),
                               saved_optional_input(n, PACKED_MASK),
                               saved_optional_input(n, PACKED_BIAS)},
                *more[1] = {0};

    in[0] = wf_dispatch_op(WF_OP_attention_packed_grad, operands, 6, &args, more);
    in[PACKED_BIAS] = more[0];
}
