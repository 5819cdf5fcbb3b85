/*
 * toy.h: the transformer of the end-to-end cases, as a user of the library writes one: modules of
 * one's own around linear layers, embeddings and norms. And its plans.
 */
#pragma once

#include <weft/weft.h>

struct toy_config {
    int64_t vocab, length, dim, heads, hidden; /* length: positions there are */
    int layers;
    bool tied; /* output.weight is tok_embeddings.weight */
    bool flat; /* wq, wk, wv, wo are [dim, dim]; without, heads are a dim of theirs */
    weft_dtype dtype;
};

/**
 * Tokens [B, T] -> logits [B, T, vocab]. Children tok_embeddings, pos_embeddings, layers.N with
 * attention_norm, attention (wq, wk, wv, wo), ffn_norm and feed_forward (w1, w2), then norm and
 * output. Equal weights on all ranks, whichever tensor they are in: seeded before.
 */
weft_module *toy_new(struct toy_config config);

/** Which plan. */
struct toy_plan {
    bool sequence; /* norms and the residual stream by parts of the sequence */
    bool keep;     /* modules hand on distributed tensors: parts may then be uneven */
};

/** Spread a toy, all ranks of the mesh alike. Ties survive. Norms are replicated where distributed
 *  tensors come to them. */
weft_status toy_parallelize(weft_module *toy, weft_mesh *mesh, struct toy_plan plan);

/** Token numbers below `vocab`, the same on every rank; `shift` makes others. */
weft_tensor *toy_tokens(int64_t batch, int64_t length, int64_t vocab, int shift);
