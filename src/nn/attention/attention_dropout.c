/*
 * attention_dropout.c: attention step by step, because dropout needs the weights themselves.
 *
 * Shapes: B batch, T tokens, H heads, or G groups of R heads, D head size. Weights are [B,H,T,T] or
 * [B,G,R,T,T], in both shapes the same elements in the same order, and which of them are dropped
 * depends on their global index, which the module that made q, k and v knows (its
 * `distributed_callbacks`).
 */
#include "nn/attention/attention_dropout.h"

#include <math.h>

#include <weft/factory.h>
#include <weft/ops.h>

/* exp of it is 0, and the dtype has it. */
static double far_below(const weft_tensor *like)
{
    return weft_tensor_dtype(like) == WEFT_F16 ? -65504 : -1e30;
}

/* [B,T,H,D] -> [B,H,T,D], [B,T,G,R,D] -> [B,G,R,T,D] */
static weft_tensor *to_heads_first(weft_tensor *x)
{
    static const int four[] = {0, 2, 1, 3}, five[] = {0, 2, 3, 1, 4};

    return x ? weft_permute(x, weft_ndim(x) == 5 ? five : four) : NULL;
}

static weft_tensor *to_tokens_first(weft_tensor *x)
{
    static const int four[] = {0, 2, 1, 3}, five[] = {0, 3, 1, 2, 4};

    return x ? weft_permute(x, weft_ndim(x) == 5 ? five : four) : NULL;
}

/* Keys or values [B,T,G,D] with the dims of to_heads_first(q). */
static weft_tensor *match_dims_of_queries(weft_tensor *k, int ndim)
{
    int64_t shape[5];

    k = to_heads_first(k);
    if (!k || ndim == 4) return k;
    for (int d = 0; d < 2; d++) shape[d] = weft_size(k, d);
    shape[2] = 1;
    for (int d = 2; d < 4; d++) shape[d + 1] = weft_size(k, d);
    return weft_reshape(k, shape, 5);
}

/* A mask [B,T] or [B or 1,T or 1,T] with the dims of the scores. */
static weft_tensor *expand_mask_dims(weft_tensor *mask, int ndim)
{
    int64_t shape[5] = {1, 1, 1, 1, 1};

    shape[0] = weft_size(mask, 0);
    if (weft_ndim(mask) == 3) shape[ndim - 2] = weft_size(mask, 1);
    shape[ndim - 1] = weft_size(mask, -1);
    return weft_reshape(mask, shape, ndim);
}

/* A bias with the dims of the scores: that of all heads, [B or 1,H or 1,T or 1,T], in groups. */
static weft_tensor *split_bias_into_groups(weft_tensor *bias, const weft_tensor *scores)
{
    int64_t shape[5];

    if (weft_ndim(bias) == weft_ndim(scores)) return bias;
    for (int d = 1; d < 3; d++) shape[d] = weft_size(bias, 1) == 1 ? 1 : weft_size(scores, d);
    shape[0] = weft_size(bias, 0);
    for (int d = 2; d < 4; d++) shape[d + 1] = weft_size(bias, d);
    return weft_reshape(bias, shape, 5);
}

static weft_tensor *scalar_like(const weft_tensor *like, double value)
{
    return weft_to_device(weft_make_full((weft_spec){.dtype = weft_tensor_dtype(like)}, value),
                          weft_tensor_device(like));
}

/* A tensor that every rank has, replicated over the mesh of the scores. */
static weft_tensor *to_layout_of_scores(const struct wf_dropout_attention *a, weft_tensor *t,
                                        const weft_tensor *scores)
{
    const struct wf_distributed_callbacks *distributed_callbacks =
        a->made_by->distributed_callbacks;

    t = weft_to_device(t, weft_tensor_device(scores));
    return distributed_callbacks ? distributed_callbacks->to_mesh_of(t, scores) : t;
}

/* True where a query sees a key; NULL: everywhere. */
static weft_tensor *make_visible_keys_mask(const struct wf_dropout_attention *a, weft_tensor *mask,
                                           const weft_tensor *scores)
{
    int64_t t = weft_size(scores, -1);
    weft_spec square = {.dtype = WEFT_BOOL, .ndim = 2, .shape = {t, t}},
              none = {.dtype = WEFT_BOOL};
    weft_tensor *causal =
        a->causal ? to_layout_of_scores(a, weft_make_tril(square, 0), scores) : NULL;

    if (!mask) return causal;
    if (weft_tensor_dtype(mask) != WEFT_BOOL)
        mask = weft_gt(mask, scalar_like(mask, far_below(mask)));
    if (!causal) return mask;
    return weft_where(causal, mask,
                      weft_to_device(weft_make_zeros(none), weft_tensor_device(scores)));
}

/* A query that sees no key has weights of 0, as in weft_attention_with. */
static weft_tensor *masked_softmax(weft_tensor *scores, weft_tensor *seen)
{
    if (!seen) return weft_softmax(scores, -1);
    scores = weft_where(seen, scores, scalar_like(scores, far_below(scores)));
    return scores ? weft_where(seen, weft_softmax(scores, -1), scalar_like(scores, 0)) : NULL;
}

/* Heads are dim 1 of the weights. */
static weft_tensor *drop_attention_weights(weft_tensor *weights,
                                           const struct wf_dropout_attention *a)
{
    const struct wf_distributed_callbacks *distributed_callbacks =
        a->made_by->distributed_callbacks;

    return distributed_callbacks
               ? distributed_callbacks->drop(a->made_by, weights, 1, a->heads_in_all, a->p)
               : weft_dropout(weights, a->p, NULL);
}

weft_tensor *wf_attention_with_dropout(const struct wf_dropout_attention *a)
{
    weft_tensor *q = to_heads_first(a->q), *scores, *mask = NULL, *weights;
    int n;

    if (!q || !a->k || !a->v) return NULL;
    n = weft_ndim(q);
    scores = weft_mul_scalar(weft_matmul_t(q, match_dims_of_queries(a->k, n), false, true),
                             a->scale > 0 ? a->scale : 1 / sqrt((double)weft_size(q, -1)));
    if (!scores) return NULL;
    if (a->bias) scores = weft_add(scores, split_bias_into_groups(a->bias, scores));
    if (!scores) return NULL;
    if (a->mask) mask = to_layout_of_scores(a, expand_mask_dims(a->mask, n), scores);
    if (mask && weft_tensor_dtype(mask) != WEFT_BOOL) scores = weft_add(scores, mask);
    weights = masked_softmax(scores, make_visible_keys_mask(a, mask, scores));
    return to_tokens_first(
        weft_matmul(drop_attention_weights(weights, a), match_dims_of_queries(a->v, n)));
}
