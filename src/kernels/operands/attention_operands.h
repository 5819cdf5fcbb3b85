/*
 * attention_operands.h: how operands of attention hold heads, for kernels of every device.
 *
 *   attention          q [B,Tq,H,D]    k, v [B,Tk,H,D]  -> o [B,Tq,H,D], lse [B,H,Tq]
 *                      q [B,Tq,G,R,D]  k, v [B,Tk,G,D]  -> o [B,Tq,G,R,D], lse [B,G,R,Tq]
 *   attention_packed   qkv [B,T,3,H,D] or, grouped, [B,T,G,R+2,D]  -> the same
 *
 * R query heads of a group share its keys and values; H heads are H groups of one. mask [B or 1, Tq
 * or 1, Tk] is left out, bool (true: seen) or added. bias [B or 1, heads or 1, Tq or 1, Tk], with a
 * dim per dim of heads (G, R), is added and has a gradient of its own size.
 */
#pragma once

#include "kernels/kernels.h"

enum wf_attention_role {
    WF_ATT_Q,
    WF_ATT_K,
    WF_ATT_V,
    WF_ATT_O,
    WF_ATT_HEADS, /* of the forward */
    WF_ATT_DO = WF_ATT_HEADS,
    WF_ATT_DQ,
    WF_ATT_DK,
    WF_ATT_DV,
    WF_ATT_GRAD_HEADS
};

/** Where Q, K, V, O, ... lies: operand `index` of the inputs or outputs, and its strides in
 * elements. */
struct wf_attention_heads {
    bool used, is_out;
    int index;
    int64_t offset, batch, row, group, repeat, col;
};

/** Strides of numbers per query and key, or per query; 0 where one serves all. */
struct wf_attention_scores {
    int index; /* -1: none */
    int64_t batch, group, repeat, row, col;
};

struct wf_attention_operands {
    uint8_t dtype;
    int64_t batches, groups, repeats, queries, keys, d;
    bool causal;
    struct wf_attention_heads role[WF_ATT_GRAD_HEADS];
    struct wf_attention_scores
        lse; /* per query: an output of the forward, an input of the gradient */
    struct wf_attention_scores mask, bias;
    bool mask_is_bool;
    struct wf_attention_scores bias_gradient; /* among the outputs */
    const struct wf_tensor_desc *bias_gradient_desc;
};

enum wf_attention_form {
    WF_ATTENTION,             /* in: q, k, v, mask, bias */
    WF_ATTENTION_PACKED,      /* in: qkv, mask, bias */
    WF_ATTENTION_GRAD,        /* in: do, q, k, v, o, lse, mask, bias */
    WF_ATTENTION_PACKED_GRAD, /* in: do, qkv, o, lse, mask, bias */
};

/** Which dtype lse has beside queries of dtype. */
static inline uint8_t wf_attention_lse_dtype(uint8_t dtype)
{
    return dtype == WEFT_F64 ? WEFT_F64 : WEFT_F32;
}

/** fails: WEFT_ERR_DTYPE where an input does not go with the first */
weft_status wf_attention_check_dtypes(const struct wf_kernel_call *k, enum wf_attention_form form);

void wf_attention_operands_make(struct wf_attention_operands *o, const struct wf_kernel_call *k,
                                enum wf_attention_form form);

/** Of a forward with a single query per head: the heads of a group are rows that all see the same
 * keys. */
void wf_attention_merge_query_heads(struct wf_attention_operands *o);
