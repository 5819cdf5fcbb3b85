/* t5.h: T5 (Raffel et al. 2020), written with public modules as a user would. */
#pragma once

#include <weft/weft.h>

struct t5_config {
    int64_t vocab, width, head_dim, heads, hidden;
    int layers; /* of the encoder, and as many of the decoder */
    int64_t buckets, distance;
    weft_dtype dtype;
};

/**
 * (tokens [B,S], mask [B,S] of bool, answers [B,T] [, targets [B,T]]) -> logits [B,T,vocab], or the
 * mean loss.
 *
 * Children shared (the embedding), encoder and decoder with rel (the bias of relative positions,
 * [buckets, heads]), layers.0 ..., norm; head (the embedding's weight), loss.
 */
weft_module *t5_new(struct t5_config config);

/** How transformers names the weights. */
extern const weft_weight_names t5_names;
