/* attention_operands.c: which operand has which role, and its strides. */
#include "kernels/operands/attention_operands.h"

#include "base/elements/dtype.h"
#include "base/error.h"

/* The ways operands hold heads: what comes after [B, T]. */
enum head_layout {
    HEADS,         /* [H,D] */
    GROUPS,        /* [G,R,D] */
    PACKED_HEADS,  /* [3,H,D] */
    PACKED_GROUPS, /* [G,R+2,D] */
};

/* Where inputs stand. */
static const struct places {
    int queries, lse, mask;
} places[] = {[WF_ATTENTION] = {0, -1, 3},
              [WF_ATTENTION_PACKED] = {0, -1, 1},
              [WF_ATTENTION_GRAD] = {1, 5, 6},
              [WF_ATTENTION_PACKED_GRAD] = {1, 3, 4}};

weft_status wf_attention_check_dtypes(const struct wf_kernel_call *k, enum wf_attention_form form)
{
    uint8_t dtype = k->in[0]->dtype;

    for (int i = 0; i < k->n_in; i++) {
        uint8_t want = i == places[form].lse ? wf_attention_lse_dtype(dtype) : dtype;

        if (!k->in[i] || (i == places[form].mask && k->in[i]->dtype == WEFT_BOOL)) continue;
        WF_NEED(k->in[i]->dtype == want, WEFT_ERR_DTYPE, "%s: %s where %s belongs", k->op,
                wf_dtypes[k->in[i]->dtype].name, wf_dtypes[want].name);
    }
    return WEFT_OK;
}

/* Part 0 is Q (or O), 1 K, 2 V; only packed forms have several. */
static void set_role(struct wf_attention_operands *o, int role, const struct wf_kernel_call *k,
                     bool is_out, int index, enum head_layout layout, int part)
{
    const struct wf_tensor_desc *d = is_out ? k->out[index] : k->in[index];
    struct wf_attention_heads *r = &o->role[role];

    if (!d) return;
    *r = (struct wf_attention_heads){.used = true,
                                     .is_out = is_out,
                                     .index = index,
                                     .batch = d->stride[0],
                                     .row = d->stride[1],
                                     .group = d->stride[layout == PACKED_HEADS ? 3 : 2],
                                     .col = d->stride[layout == HEADS ? 3 : 4]};
    if (layout == PACKED_HEADS) r->offset = part * d->stride[2];
    if (layout == PACKED_GROUPS && part) r->offset = (o->repeats + part - 1) * d->stride[3];
    if (layout == GROUPS || (layout == PACKED_GROUPS && part == 0)) r->repeat = d->stride[3];
}

static void set_shape(struct wf_attention_operands *o, const struct wf_kernel_call *k,
                      const struct wf_tensor_desc *q, const struct wf_tensor_desc *keys,
                      enum head_layout layout)
{
    *o = (struct wf_attention_operands){
        .dtype = q->dtype,
        .batches = q->shape[0],
        .groups = q->shape[layout == PACKED_HEADS ? 3 : 2],
        .repeats = layout == GROUPS          ? q->shape[3]
                   : layout == PACKED_GROUPS ? q->shape[3] - 2
                                             : 1,
        .queries = q->shape[1],
        .keys = keys->shape[1],
        .d = q->shape[layout == HEADS ? 3 : 4],
        .causal = k->attrs->attention.causal,
        .mask = {.index = -1},
        .bias = {.index = -1},
        .bias_gradient = {.index = -1},
    };
}

static int64_t stride_or_shared(const struct wf_tensor_desc *d, int dim)
{
    return d->global[dim] == 1 ? 0 : d->stride[dim];
}

static void set_mask(struct wf_attention_operands *o, const struct wf_kernel_call *k, int index)
{
    const struct wf_tensor_desc *mask = index < k->n_in ? k->in[index] : NULL;

    if (!mask) return;
    o->mask_is_bool = mask->dtype == WEFT_BOOL;
    o->mask = (struct wf_attention_scores){.index = index,
                                           .batch = stride_or_shared(mask, 0),
                                           .row = stride_or_shared(mask, 1),
                                           .col = mask->stride[2]};
}

/* Of a bias, or of its gradient: [B,H,Tq,Tk] or [B,G,R,Tq,Tk]. */
static struct wf_attention_scores bias_strides(const struct wf_tensor_desc *d, int index)
{
    return (struct wf_attention_scores){.index = index,
                                        .batch = stride_or_shared(d, 0),
                                        .group = stride_or_shared(d, 1),
                                        .repeat = d->ndim == 5 ? stride_or_shared(d, 2) : 0,
                                        .row = stride_or_shared(d, d->ndim - 2),
                                        .col = d->stride[d->ndim - 1]};
}

static void set_bias(struct wf_attention_operands *o, const struct wf_kernel_call *k, int index,
                     int gradient)
{
    const struct wf_tensor_desc *bias = index < k->n_in ? k->in[index] : NULL;
    const struct wf_tensor_desc *to = bias && gradient < k->n_out ? k->out[gradient] : NULL;

    if (bias) o->bias = bias_strides(bias, index);
    if (!to) return;
    o->bias_gradient = bias_strides(to, gradient);
    o->bias_gradient_desc = to;
}

/* [B,H,Tq] or [B,G,R,Tq] */
static void set_lse_strides(struct wf_attention_operands *o, const struct wf_tensor_desc *d,
                            int index)
{
    o->lse = (struct wf_attention_scores){.index = index,
                                          .batch = d->stride[0],
                                          .group = d->stride[1],
                                          .repeat = d->ndim == 4 ? d->stride[2] : 0,
                                          .row = d->stride[d->ndim - 1]};
}

static void set_separate_qkv(struct wf_attention_operands *o, const struct wf_kernel_call *k,
                             bool backward)
{
    int q = places[backward ? WF_ATTENTION_GRAD : WF_ATTENTION].queries;
    enum head_layout layout = k->in[q]->ndim == 5 ? GROUPS : HEADS;

    set_shape(o, k, k->in[q], k->in[q + 1], layout);
    set_role(o, WF_ATT_Q, k, false, q, layout, 0);
    set_role(o, WF_ATT_K, k, false, q + 1, HEADS, 0);
    set_role(o, WF_ATT_V, k, false, q + 2, HEADS, 0);
    set_role(o, WF_ATT_O, k, !backward, backward ? 4 : 0, layout, 0);
    if (!backward) return;
    set_role(o, WF_ATT_DO, k, false, 0, layout, 0);
    set_role(o, WF_ATT_DQ, k, true, 0, layout, 0);
    set_role(o, WF_ATT_DK, k, true, 1, HEADS, 0);
    set_role(o, WF_ATT_DV, k, true, 2, HEADS, 0);
}

static void set_packed_qkv(struct wf_attention_operands *o, const struct wf_kernel_call *k,
                           bool backward)
{
    int qkv = places[backward ? WF_ATTENTION_PACKED_GRAD : WF_ATTENTION_PACKED].queries;
    bool grouped = k->attrs->attention.grouped;
    enum head_layout layout = grouped ? PACKED_GROUPS : PACKED_HEADS,
                     heads = grouped ? GROUPS : HEADS;

    set_shape(o, k, k->in[qkv], k->in[qkv], layout);
    for (int i = 0; i < 3; i++) {
        set_role(o, WF_ATT_Q + i, k, false, qkv, layout, i);
        if (backward) set_role(o, WF_ATT_DQ + i, k, true, 0, layout, i);
    }
    set_role(o, WF_ATT_O, k, !backward, backward ? 2 : 0, heads, 0);
    if (backward) set_role(o, WF_ATT_DO, k, false, 0, heads, 0);
}

void wf_attention_operands_make(struct wf_attention_operands *o, const struct wf_kernel_call *k,
                                enum wf_attention_form form)
{
    bool backward = form == WF_ATTENTION_GRAD || form == WF_ATTENTION_PACKED_GRAD;
    bool packed = form == WF_ATTENTION_PACKED || form == WF_ATTENTION_PACKED_GRAD;

    if (packed)
        set_packed_qkv(o, k, backward);
    else
        set_separate_qkv(o, k, backward);
    set_lse_strides(o, backward ? k->in[places[form].lse] : k->out[1],
                    backward ? places[form].lse : 1);
    set_mask(o, k, places[form].mask);
    set_bias(o, k, places[form].mask + 1, !backward ? WF_MAX_OUT : packed ? 1 : 3);
}

void wf_attention_merge_query_heads(struct wf_attention_operands *o)
{
    if (o->queries != 1 || o->repeats == 1) return;
    o->queries = o->repeats;
    o->causal = false;
    o->mask.row = 0;
    o->bias.row = o->bias.repeat;
    o->bias.repeat = 0;
    o->lse.row = o->lse.repeat;
    o->lse.repeat = 0;
    o->role[WF_ATT_Q].row = o->role[WF_ATT_Q].repeat;
    o->role[WF_ATT_O].row = o->role[WF_ATT_O].repeat;
    o->repeats = 1;
}
