/* model.c: embedding and attention. */
#include <weft/ops.h>

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "ops/families.h"
#include "ops/plan.h"

static bool is_index(const struct wf_layout *layout)
{
    return layout->desc.dtype == WEFT_I32 || layout->desc.dtype == WEFT_I64;
}

/* table [V,D], index [*] -> [*,D] */
weft_status wf_shape_embedding(struct wf_infer *call)
{
    const struct wf_desc *table = &call->in[0]->desc, *index = &call->in[1]->desc;

    WF_NEED(table->ndim == 2 && weft_dtype_is_float((weft_dtype)table->dtype) &&
                is_index(call->in[1]) && index->ndim < WEFT_MAX_DIMS,
            WEFT_ERR_SHAPE,
            "embedding: needs a floating-point table [V,D] and an i32 or i64 index: %s",
            wf_infer_text(call));
    wf_infer_like(call, 0, call->in[1]);
    call->out[0].dtype = (weft_dtype)table->dtype;
    call->out[0].shape[call->out[0].ndim++] = table->global[1];
    return WEFT_OK;
}

/* d [*,D], index [*] -> [attr[0], D] */
weft_status wf_shape_embedding_grad(struct wf_infer *call)
{
    const struct wf_desc *d = &call->in[0]->desc;

    call->out[0].dtype = (weft_dtype)d->dtype;
    call->out[0].ndim = 2;
    call->out[0].shape[0] = call->attr[0];
    call->out[0].shape[1] = d->global[d->ndim - 1];
    return WEFT_OK;
}

void wf_vjp_embedding(const struct wf_node *n, weft_tensor *g, weft_tensor **in)
{
    struct wf_layout *table = wf_node_in(n, 0);
    struct wf_args args = {WF_ATTR(table->desc.global[0]), .want = table};

    in[0] = wf_call(WF_OP_embedding_grad, 2, (weft_tensor *[]){g, n->saved[1]}, &args);
}

weft_tensor *weft_embedding(weft_tensor *table, weft_tensor *index)
{
    return wf_call2(WF_OP_embedding, table, index);
}

/* table [B,V,D], index [B,*] -> [B,*,D] */
weft_status wf_shape_embedding_batch(struct wf_infer *call)
{
    const struct wf_desc *table = &call->in[0]->desc, *index = &call->in[1]->desc;

    WF_NEED(table->ndim == 3 && weft_dtype_is_float((weft_dtype)table->dtype) &&
                is_index(call->in[1]) && index->ndim >= 1 && index->ndim < WEFT_MAX_DIMS &&
                table->global[0] == index->global[0],
            WEFT_ERR_SHAPE,
            "embedding_batch: needs floating-point tables [B,V,D] and an i32 or i64 index [B,*]: "
            "%s",
            wf_infer_text(call));
    wf_infer_like(call, 0, call->in[1]);
    call->out[0].dtype = (weft_dtype)table->dtype;
    call->out[0].shape[call->out[0].ndim++] = table->global[2];
    return WEFT_OK;
}

/* d [B,*,D], index [B,*] -> [B, attr[0], D] */
weft_status wf_shape_embedding_batch_grad(struct wf_infer *call)
{
    const struct wf_desc *d = &call->in[0]->desc;

    call->out[0].dtype = (weft_dtype)d->dtype;
    call->out[0].ndim = 3;
    call->out[0].shape[0] = d->global[0];
    call->out[0].shape[1] = call->attr[0];
    call->out[0].shape[2] = d->global[d->ndim - 1];
    return WEFT_OK;
}

void wf_vjp_embedding_batch(const struct wf_node *n, weft_tensor *g, weft_tensor **in)
{
    struct wf_layout *table = wf_node_in(n, 0);
    struct wf_args args = {WF_ATTR(table->desc.global[1]), .want = table};

    in[0] = wf_call(WF_OP_embedding_batch_grad, 2, (weft_tensor *[]){g, n->saved[1]}, &args);
}

weft_tensor *weft_embedding_batch(weft_tensor *tables, weft_tensor *index)
{
    return wf_call2(WF_OP_embedding_batch, tables, index);
}

/* ---- attention ---- */

static void log_sum_exp(struct wf_infer *call, const struct wf_desc *q, int64_t heads)
{
    call->out[1].dtype = q->dtype == WEFT_F64 ? WEFT_F64 : WEFT_F32;
    call->out[1].ndim = 3;
    call->out[1].shape[0] = q->global[0];
    call->out[1].shape[1] = heads;
    call->out[1].shape[2] = q->global[1];
}

weft_status wf_shape_attention(struct wf_infer *call)
{
    const struct wf_desc *q = &call->in[0]->desc, *k = &call->in[1]->desc, *v = &call->in[2]->desc;

    WF_NEED(q->ndim == 4 && k->ndim == 4 && v->ndim == 4 && q->dtype == k->dtype &&
                q->dtype == v->dtype && weft_dtype_is_float((weft_dtype)q->dtype),
            WEFT_ERR_SHAPE, "attention: needs q, k, v [B,T,H,D] of one floating-point dtype: %s",
            wf_infer_text(call));
    WF_NEED(memcmp(k->global, v->global, 4 * sizeof(int64_t)) == 0 &&
                q->global[0] == k->global[0] && q->global[2] == k->global[2] &&
                q->global[3] == k->global[3],
            WEFT_ERR_SHAPE, "attention: batch, heads or head size differ: %s", wf_infer_text(call));
    wf_infer_like(call, 0, call->in[0]);
    log_sum_exp(call, q, q->global[2]);
    return WEFT_OK;
}

weft_status wf_shape_attention_grad(struct wf_infer *call)
{
    for (int j = 0; j < 3; j++) wf_infer_like(call, j, call->in[1 + j]);
    return WEFT_OK;
}

/* qkv [B,T,3,H,D] -> [B,T,H,D], [B,H,T] */
weft_status wf_shape_attention_packed(struct wf_infer *call)
{
    const struct wf_desc *qkv = &call->in[0]->desc;

    WF_NEED(qkv->ndim == 5 && qkv->global[2] == 3 && weft_dtype_is_float((weft_dtype)qkv->dtype),
            WEFT_ERR_SHAPE, "attention_packed: needs qkv [B,T,3,H,D]: %s", wf_infer_text(call));
    call->out[0].dtype = (weft_dtype)qkv->dtype;
    call->out[0].ndim = 4;
    call->out[0].shape[0] = qkv->global[0];
    call->out[0].shape[1] = qkv->global[1];
    call->out[0].shape[2] = qkv->global[3];
    call->out[0].shape[3] = qkv->global[4];
    log_sum_exp(call, qkv, qkv->global[3]);
    return WEFT_OK;
}

weft_status wf_shape_attention_packed_grad(struct wf_infer *call)
{
    wf_infer_like(call, 0, call->in[1]);
    return WEFT_OK;
}

void wf_vjp_attention(const struct wf_node *n, weft_tensor *g, weft_tensor **in)
{
    struct wf_args args = {WF_ATTR(wf_node_plan(n)->attr[0]), .scalars.s = {n->s[0]}};
    weft_tensor *operands[] = {g, n->saved[0], n->saved[1], n->saved[2], n->saved[8], n->saved[9]},
                *more[2] = {0};

    in[0] = wf_call_outs(WF_OP_attention_grad, 6, operands, &args, more);
    in[1] = more[0];
    in[2] = more[1];
}

void wf_vjp_attention_packed(const struct wf_node *n, weft_tensor *g, weft_tensor **in)
{
    struct wf_args args = {WF_ATTR(wf_node_plan(n)->attr[0]), .scalars.s = {n->s[0]}};
    weft_tensor *operands[] = {g, n->saved[0], n->saved[8], n->saved[9]};

    in[0] = wf_call(WF_OP_attention_packed_grad, 4, operands, &args);
}

static double scale_or_default(double scale, const weft_tensor *t)
{
    int64_t d = weft_ndim(t) ? t->layout->desc.global[weft_ndim(t) - 1] : 1;

    return scale != 0 ? scale : 1 / sqrt((double)(d ? d : 1));
}

weft_tensor *weft_attention(weft_tensor *q, weft_tensor *k, weft_tensor *v, bool causal,
                            double scale)
{
    struct wf_args args = {WF_ATTR(causal)};
    weft_tensor *more[1];

    if (!q) return NULL;
    args.scalars.s[0] = scale_or_default(scale, q);
    return wf_call_outs(WF_OP_attention, 3, (weft_tensor *[]){q, k, v}, &args, more);
}

weft_tensor *weft_attention_packed(weft_tensor *qkv, bool causal, double scale)
{
    struct wf_args args = {WF_ATTR(causal)};
    weft_tensor *more[1];

    if (!qkv) return NULL;
    args.scalars.s[0] = scale_or_default(scale, qkv);
    return wf_call_outs(WF_OP_attention_packed, 1, &qkv, &args, more);
}
