/* attention_inputs.h: what an attention is given beside the tokens that it reads. */
#pragma once

#include "nn/module.h"

/** Each may be NULL. */
struct wf_attention_inputs {
    weft_tensor *mask;      /* of weft_attention_options */
    weft_tensor *bias;      /* of weft_attention_options: at least 4 dims */
    weft_tensor *positions; /* [B,T] of i32 or i64: where each token is, for rotary positions */
};

/** Inputs in any order, distinguished by dtype and dims. WEFT_ERR_ARG for two of a kind. */
weft_status wf_attention_sort_inputs(struct wf_attention_inputs *in, const char *layer,
                                     weft_tensor *const *inputs, int n);

/** WEFT_ERR_ARG naming the layer where its `inputs` are more than a mask and a bias. */
weft_status wf_attention_refuse_positions(const struct wf_attention_inputs *in, const char *layer);

/**
 * Where each of the `count` tokens from number `first` on is, [B, count] of i64, counted from the
 * first token that a mask [B, tokens] of bool shows; 0 for those before.
 */
weft_tensor *wf_positions_from_mask(weft_tensor *mask, int64_t first, int64_t count);
