/* attention_dropout.h: attention that leaves out some of its weights, for training. */
#pragma once

#include "nn/module.h"

struct wf_dropout_attention {
    weft_tensor *q;     /* [B,T,H,D] or [B,T,G,R,D] */
    weft_tensor *k, *v; /* [B,T,H,D], [B,T,G,D] */
    weft_tensor *mask;  /* as in weft_attention_options, or NULL */
    weft_tensor *bias;  /* the same */
    bool causal;
    double scale; /* 0: 1/sqrt(D) */
    double p;
    weft_module *made_by; /* of q, k and v: it knows whose heads these are */
    int64_t heads_in_all; /* global H or G, where q has one rank's shard of them */
};

/** softmax(scale q kT + mask + bias), some of it zero and the rest larger, times v: shaped as q. */
weft_tensor *wf_attention_with_dropout(const struct wf_dropout_attention *a);
