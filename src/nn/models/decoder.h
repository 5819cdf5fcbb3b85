/* decoder.h: what GPT-2 and Llama share: embeddings, pre-norm blocks, a final norm, a head, a loss.
 */
#pragma once

#include "nn/layer_construction.h"

struct wf_decoder_config {
    const char *name; /* for messages */
    int64_t vocab;
    int64_t context; /* learned positions; 0: none */
    int64_t padding_idx;
    int layers;
    double std;
    bool tied;
    weft_block_config block;
};

/** The module of a class whose forward is wf_decoder_forward; NULL with an error. */
weft_module *wf_decoder_new(const weft_module_class *class, const struct wf_decoder_config *c);

weft_tensor *wf_decoder_forward(weft_module *m, weft_tensor *const *inputs, int n);

/** Blocks named 0, 1, ... under m.blocks, which is returned; NULL with an error. */
weft_module *wf_add_transformer_blocks(weft_module *m, int layers, weft_block_config block);
