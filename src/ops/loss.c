/*
 * loss.c: cross-entropy and mean squared error.
 *
 * Cross-entropy is three rows: the maximum over the vocabulary, the sum of exponentials with the
 * picked logit, and the loss. With logits sharded over the vocabulary the first two are pending
 * reductions of one and two numbers per token, and the backward needs no communication, since it
 * recomputes each rank's part of the softmax from its own logits (Megatron-LM, Shoeybi et al.
 * 2019).
 */
#include <weft/ops.h>

#include <string.h>

#include "base/error.h"
#include "ops/families.h"
#include "ops/plan.h"
#include <weft/dtensor.h>

static weft_status check(const struct wf_infer *call, int logits, int target)
{
    const struct wf_desc *z = &call->in[logits]->desc, *t = &call->in[target]->desc;

    WF_NEED(z->ndim >= 1 && z->ndim == t->ndim + 1 && weft_dtype_is_float((weft_dtype)z->dtype) &&
                (t->dtype == WEFT_I32 || t->dtype == WEFT_I64) &&
                memcmp(z->global, t->global, (size_t)t->ndim * sizeof(int64_t)) == 0,
            WEFT_ERR_SHAPE, "cross_entropy: needs logits [*,V] and an i32 or i64 target [*]: %s",
            wf_infer_text(call));
    return WEFT_OK;
}

/* z [*,V], m [*], target [*] -> [2,*] */
weft_status wf_shape_xent_sum(struct wf_infer *call)
{
    const struct wf_desc *m = &call->in[1]->desc;

    WF_TRY(check(call, 0, 2));
    WF_NEED(m->ndim + 1 <= WEFT_MAX_DIMS, WEFT_ERR_SHAPE, "cross_entropy: too many dims: %s",
            wf_infer_text(call));
    call->out[0].dtype = m->dtype == WEFT_F64 ? WEFT_F64 : WEFT_F32;
    call->out[0].ndim = m->ndim + 1;
    call->out[0].shape[0] = 2;
    memcpy(call->out[0].shape + 1, m->global, (size_t)m->ndim * sizeof(int64_t));
    return WEFT_OK;
}

/* sp [2,*], target [*] -> [*] */
weft_status wf_shape_xent_loss(struct wf_infer *call)
{
    wf_infer_like(call, 0, call->in[1]);
    call->out[0].dtype = (weft_dtype)call->in[0]->desc.dtype;
    return WEFT_OK;
}

enum { LOGITS, MAXIMUM, SUMS, TARGET, COUNT };

/* d loss / d logits = (softmax - one-hot) g / count, in the logits' own layout. */
static void vjp_cross_entropy(const struct wf_node *n, weft_tensor *g, weft_tensor **in)
{
    struct wf_args args = {.scalars.v = {n->v[0]}};
    weft_tensor *target = n->saved[TARGET];
    weft_tensor *share = weft_div(g, n->saved[COUNT]);
    weft_tensor *per_token = wf_expand_to(share, n->saved[MAXIMUM]->layout);
    weft_tensor *operands[] = {n->saved[LOGITS], n->saved[MAXIMUM], n->saved[SUMS], target,
                               per_token};

    in[0] = wf_call(WF_OP_xent_grad, 5, operands, &args);
}

static weft_tensor *whole(weft_tensor *t)
{
    weft_placement replicated[WEFT_MAX_AXES];

    if (!t || !t->layout->partial) return t;
    for (int a = 0; a < t->layout->n_axes; a++) {
        replicated[a] = t->layout->placements[a];
        if (replicated[a].kind == WEFT_KIND_PARTIAL) replicated[a] = weft_replicate();
    }
    return weft_redistribute(t, replicated);
}

static weft_tensor *count_targets(weft_tensor *target, int64_t ignore_index, weft_dtype dtype)
{
    weft_tensor *ignored = weft_full(weft_tensor_dtype(target), 0, NULL, (double)ignore_index);

    return whole(weft_sum_all(weft_cast(weft_ne(target, ignored), dtype)));
}

weft_tensor *weft_cross_entropy(weft_tensor *logits, weft_tensor *target, int64_t ignore_index)
{
    struct wf_args args = {.scalars.v = {ignore_index}};
    weft_tensor *m, *sums, *losses, *count, *loss;
    weft_scope *scope;
    int last = -1;

    if (!logits || !target) return NULL;
    scope = weft_scope_open();
    weft_no_grad_begin();
    m = weft_ndim(logits) ? whole(weft_max(logits, 1, &last, false)) : NULL;
    if (m && weft_tensor_dtype(m) == WEFT_BF16) m = weft_cast(m, WEFT_F32);
    sums = whole(wf_call(WF_OP_xent_sum, 3, (weft_tensor *[]){logits, m, target}, &args));
    losses = wf_call(WF_OP_xent_loss, 2, (weft_tensor *[]){sums, target}, &args);
    count = losses ? count_targets(target, ignore_index, weft_tensor_dtype(losses)) : NULL;
    loss = weft_div(whole(weft_sum_all(losses)), count);
    weft_no_grad_end();
    if (loss && logits->requires_grad && wf_recording()) {
        struct wf_node *n = wf_node_record(loss, vjp_cross_entropy, "cross_entropy", 1, &logits);

        n->v[0] = ignore_index;
        wf_node_save(n, LOGITS, logits);
        wf_node_save(n, MAXIMUM, m);
        wf_node_save(n, SUMS, sums);
        wf_node_save(n, TARGET, target);
        wf_node_save(n, COUNT, count);
    }
    return weft_scope_return(scope, loss);
}

weft_tensor *weft_mse(weft_tensor *a, weft_tensor *b)
{
    return weft_mean_all(weft_square(weft_sub(a, b)));
}
