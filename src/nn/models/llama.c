/* llama.c: a decoder like Llama. */
#include "nn/models/decoder.h"

static const weft_module_class class_llama = {
    .type = "llama", .forward = wf_decoder_forward, .free = wf_free, .optional = 2};

static const double llama_std = 0.02, llama_base = 10000;

weft_module *weft_llama(weft_llama_config c)
{
    struct wf_decoder_config decoder = {
        .name = "llama", .vocab = c.vocab, .layers = c.layers, .std = llama_std, .tied = c.tied};

    decoder.padding_idx = c.padding_idx;
    if (c.rotary.base == 0) c.rotary.base = llama_base;
    decoder.block = (weft_block_config){.width = c.width,
                                        .heads = c.heads,
                                        .kv_heads = c.kv_heads,
                                        .by_heads = c.by_heads,
                                        .head_dim = c.head_dim,
                                        .attention_bias = c.attention_bias,
                                        .mlp_bias = c.mlp_bias,
                                        .attention_dropout = c.attention_dropout,
                                        .hidden = c.hidden,
                                        .act = WEFT_SILU,
                                        .gated = true,
                                        .rms = true,
                                        .rotary = c.rotary,
                                        .no_bias = true,
                                        .eps = c.eps,
                                        .std = llama_std,
                                        .dtype = c.dtype,
                                        .recompute = c.recompute};
    return wf_decoder_new(&class_llama, &decoder);
}
