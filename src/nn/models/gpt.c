/* gpt.c: a decoder like GPT-2. */
#include <math.h>

#include <weft/ops.h>

#include "nn/models/decoder.h"

static const weft_module_class class_gpt = {
    .type = "gpt", .forward = wf_decoder_forward, .free = wf_free, .optional = 2};

static const double gpt2_std = 0.02;

weft_module *weft_gpt(weft_gpt_config c)
{
    struct wf_decoder_config decoder = {
        .name = "gpt", .vocab = c.vocab, .layers = c.layers, .std = gpt2_std, .tied = c.tied};

    WF_TRY_PTR(wf_check_positive_size("gpt", "context", c.context));
    decoder.context = c.context;
    decoder.block = (weft_block_config){.width = c.width,
                                        .heads = c.heads,
                                        .hidden = c.hidden,
                                        .act = c.act,
                                        .transposed = c.transposed,
                                        .dropout = c.dropout,
                                        .attention_dropout = c.attention_dropout,
                                        .eps = c.eps,
                                        .std = gpt2_std,
                                        .out_std = gpt2_std / sqrt(2.0 * c.layers),
                                        .dtype = c.dtype,
                                        .recompute = c.recompute};
    return wf_decoder_new(&class_gpt, &decoder);
}

weft_tensor *weft_gpt_loss(weft_module *gpt, weft_tensor *tokens, weft_tensor *targets)
{
    weft_tensor *inputs[] = {tokens, targets};

    return weft_call_n(gpt, inputs, 2);
}

weft_tensor *weft_gpt_loss_shifted(weft_module *gpt, weft_tensor *tokens, weft_tensor *labels)
{
    int64_t length;

    if (!gpt || !tokens || !labels) return NULL;
    WF_NEED_PTR(weft_ndim(tokens) == 2 && weft_ndim(labels) == 2, WEFT_ERR_SHAPE,
                "gpt_loss_shifted: tokens have %d dims and labels %d, not 2", weft_ndim(tokens),
                weft_ndim(labels));
    length = weft_size(tokens, 1);
    WF_NEED_PTR(length > 1 && weft_size(labels, 1) == length, WEFT_ERR_SHAPE,
                "gpt_loss_shifted: %lld tokens and %lld labels; there is one for each of two or "
                "more",
                (long long)length, (long long)weft_size(labels, 1));
    return weft_gpt_loss(gpt, weft_slice(tokens, 1, 0, length - 1),
                         weft_slice(labels, 1, 1, length));
}
