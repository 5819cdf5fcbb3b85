/*
 * attention.c: O = softmax(scale Q K^T) V per batch entry and head, and its gradient.
 *
 *   attention          q [B,Tq,H,D]  k, v [B,Tk,H,D] -> o [B,Tq,H,D], lse [B,H,Tq]
 *   attention_packed   qkv [B,T,3,H,D]               -> the same
 *
 * This file finds each head's rows in the operands, packed or not; the arithmetic is in isa/.
 * With the causal attribute query i sees keys up to i + Tk - Tq; a query that sees none gives 0.
 */
#include "kernels/cpu/attention.h"

#include "base/dtype.h"
#include "base/error.h"
#include "base/mem.h"
#include "kernels/cpu/lines.h"
#include "kernels/cpu/operand.h"
#include "kernels/cpu/scratch.h"

/* Where one of Q, K, V, O, ... lies: operand `index` of the inputs or outputs, and its strides. */
struct role {
    bool used, is_out;
    int index;
    int64_t offset, batch, row, head, col; /* elements */
};

struct attention {
    const struct wf_attention_loops *loops;
    struct wf_attention shape;
    int64_t batches, heads, bytes, lse_bytes;
    struct role role[WF_ATT_GRAD_HEADS];
    struct wf_operand lse; /* as an input */
    int lse_index;
    bool backward;
};

static void attention_drop(void *prep)
{
    struct attention *p = prep;

    wf_operand_drop(&p->lse);
    wf_scratch_release();
    wf_free(p);
}

/* Roles of one head. `first` holds each role's operand. */
static void heads_at(const struct attention *p, char *const *first, int64_t b, int64_t h,
                     struct wf_head *heads)
{
    for (int i = 0; i < WF_ATT_GRAD_HEADS; i++) {
        const struct role *r = &p->role[i];
        int64_t at = r->offset + b * r->batch + h * r->head;

        heads[i] = (struct wf_head){first[i] ? first[i] + at * p->bytes : NULL, r->row, r->col};
    }
}

static void attention_run(const struct wf_kcall *k, void *const *out, const void *const *in,
                          const struct wf_scalars *scalars)
{
    const struct attention *p = k->prep;
    struct wf_attention shape = p->shape;
    char *scratch = wf_scratch(), *first[WF_ATT_GRAD_HEADS] = {0};
    const char *lse_in = p->backward ? wf_operand_ready(&p->lse, in[p->lse_index], scratch) : NULL;

    shape.scale = scalars->s[0];
    for (int i = 0; i < WF_ATT_GRAD_HEADS; i++) {
        const struct role *r = &p->role[i];

        if (r->used) first[i] = r->is_out ? out[r->index] : (void *)(uintptr_t)in[r->index];
    }
    for (int64_t i = 0; i < p->batches * p->heads; i++) {
        struct wf_head heads[WF_ATT_GRAD_HEADS];
        int64_t lse = i * shape.tq * p->lse_bytes;

        heads_at(p, first, i / p->heads, i % p->heads, heads);
        if (p->backward)
            p->loops->backward(&shape, heads, lse_in + lse, scratch + p->lse.scratch);
        else
            p->loops->forward(&shape, heads, (char *)out[p->lse_index] + lse, scratch);
    }
}

static const struct wf_attention_loops *loops_for(uint8_t dtype)
{
    if (dtype == WEFT_F32) return WF_ISA_PICK(wf_attention_f32);
    if (dtype == WEFT_F64) return WF_ISA_PICK(wf_attention_f64);
    return dtype == WEFT_BF16 ? WF_ISA_PICK(wf_attention_bf16) : NULL;
}

/* [B,T,H,D], or with `part` 0..2 a third of [B,T,3,H,D]. */
static void role_set(struct attention *p, int role, const struct wf_kcall *k, bool is_out,
                     int index, int part)
{
    const struct wf_desc *d = is_out ? k->out[index] : k->in[index];
    int packed = part >= 0;

    if (!d) return;
    p->role[role] = (struct role){
        .used = true,
        .is_out = is_out,
        .index = index,
        .offset = packed ? part * d->stride[2] : 0,
        .batch = d->stride[0],
        .row = d->stride[1],
        .head = d->stride[2 + packed],
        .col = d->stride[3 + packed],
    };
}

static struct attention *attention_new(struct wf_kcall *k, const struct wf_desc *q,
                                       const struct wf_desc *keys, bool packed)
{
    struct attention *p = WF_NEW(struct attention);

    p->loops = loops_for(q->dtype);
    p->bytes = wf_dtypes[q->dtype].size;
    p->lse_bytes = q->dtype == WEFT_F64 ? (int64_t)sizeof(double) : (int64_t)sizeof(float);
    p->batches = q->shape[0];
    p->heads = q->shape[2 + packed];
    p->shape = (struct wf_attention){.tq = q->shape[1],
                                     .tk = keys->shape[1],
                                     .d = q->shape[3 + packed],
                                     .causal = k->attr[0] != 0};
    k->prep = p;
    k->drop = attention_drop;
    k->run = attention_run;
    return p;
}

static weft_status need_dtypes(const struct wf_kcall *k, int lse_input)
{
    uint8_t dtype = k->in[0]->dtype, lse = dtype == WEFT_F64 ? WEFT_F64 : WEFT_F32;

    if (!loops_for(dtype)) return wf_no_kernel(k, dtype);
    for (int i = 0; i < k->n_in; i++) {
        uint8_t want = i == lse_input ? lse : dtype;

        WF_NEED(k->in[i]->dtype == want, WEFT_ERR_DTYPE, "%s: %s where %s belongs", k->op,
                wf_dtypes[k->in[i]->dtype].name, wf_dtypes[want].name);
    }
    return WEFT_OK;
}

static void finish_forward(struct attention *p)
{
    p->lse_index = 1;
    wf_scratch_reserve(p->loops->scratch(&p->shape));
}

static void finish_backward(struct attention *p, const struct wf_kcall *k, int lse_index)
{
    p->backward = true;
    p->lse_index = lse_index;
    wf_operand_prepare_dense(&p->lse, k->in[lse_index]);
    wf_scratch_reserve(p->lse.scratch + p->loops->grad_scratch(&p->shape));
}

weft_status wf_cpu_attention(struct wf_kcall *k)
{
    struct attention *p;

    WF_TRY(need_dtypes(k, -1));
    p = attention_new(k, k->in[0], k->in[1], false);
    for (int i = WF_ATT_Q; i <= WF_ATT_V; i++) role_set(p, i, k, false, i, -1);
    role_set(p, WF_ATT_O, k, true, 0, -1);
    finish_forward(p);
    return WEFT_OK;
}

weft_status wf_cpu_attention_packed(struct wf_kcall *k)
{
    struct attention *p;

    WF_TRY(need_dtypes(k, -1));
    p = attention_new(k, k->in[0], k->in[0], true);
    for (int i = WF_ATT_Q; i <= WF_ATT_V; i++) role_set(p, i, k, false, 0, i);
    role_set(p, WF_ATT_O, k, true, 0, -1);
    finish_forward(p);
    return WEFT_OK;
}

/* in: do, q, k, v, o, lse */
weft_status wf_cpu_attention_grad(struct wf_kcall *k)
{
    struct attention *p;

    WF_TRY(need_dtypes(k, 5));
    p = attention_new(k, k->in[1], k->in[2], false);
    role_set(p, WF_ATT_DO, k, false, 0, -1);
    for (int i = WF_ATT_Q; i <= WF_ATT_O; i++) role_set(p, i, k, false, 1 + i, -1);
    for (int i = 0; i < 3; i++) role_set(p, WF_ATT_DQ + i, k, true, i, -1);
    finish_backward(p, k, 5);
    return WEFT_OK;
}

/* in: do, qkv, o, lse */
weft_status wf_cpu_attention_packed_grad(struct wf_kcall *k)
{
    struct attention *p;

    WF_TRY(need_dtypes(k, 3));
    p = attention_new(k, k->in[1], k->in[1], true);
    role_set(p, WF_ATT_DO, k, false, 0, -1);
    role_set(p, WF_ATT_O, k, false, 2, -1);
    for (int i = 0; i < 3; i++) {
        role_set(p, WF_ATT_Q + i, k, false, 1, i);
        role_set(p, WF_ATT_DQ + i, k, true, 0, i);
    }
    finish_backward(p, k, 3);
    return WEFT_OK;
}
