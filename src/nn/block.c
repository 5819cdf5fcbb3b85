/* block.c: a pre-norm transformer block. */
#include <weft/ops.h>

#include "nn/layer.h"

struct block {
    weft_module *norm1, *attn, *norm2, *mlp;
    weft_module *drop; /* NULL without dropout */
};

static weft_tensor *branch(const struct block *block, weft_module *norm, weft_module *body,
                           weft_tensor *x_btc)
{
    weft_tensor *y_btc = weft_call(body, weft_call(norm, x_btc));

    return weft_add(x_btc, block->drop ? weft_call(block->drop, y_btc) : y_btc);
}

static weft_tensor *forward(weft_module *m, weft_tensor *const *inputs, int n)
{
    const struct block *block = m->payload;
    weft_tensor *h_btc = branch(block, block->norm1, block->attn, inputs[0]);

    (void)n;
    return branch(block, block->norm2, block->mlp, h_btc);
}

static const weft_module_class class_block = {.type = "block", .forward = forward, .free = wf_free};

static weft_status add_attention(weft_module *m, const weft_block_config *c)
{
    struct block *block = m->payload;

    block->norm1 = weft_layer_norm_new((weft_norm_config){
        .width = c->width, .eps = c->eps, .no_bias = c->no_bias, .dtype = c->dtype});
    WF_TRY(weft_module_add_child(m, "norm1", block->norm1));
    block->attn = weft_attention_new((weft_attention_config){.width = c->width,
                                                             .heads = c->heads,
                                                             .no_bias = c->no_bias,
                                                             .std = c->std,
                                                             .out_std = c->out_std,
                                                             .dtype = c->dtype});
    return weft_module_add_child(m, "attn", block->attn);
}

static weft_status add_mlp(weft_module *m, const weft_block_config *c)
{
    struct block *block = m->payload;

    block->norm2 = weft_layer_norm_new((weft_norm_config){
        .width = c->width, .eps = c->eps, .no_bias = c->no_bias, .dtype = c->dtype});
    WF_TRY(weft_module_add_child(m, "norm2", block->norm2));
    block->mlp = weft_mlp((weft_mlp_config){.in = c->width,
                                            .hidden = c->hidden ? c->hidden : 4 * c->width,
                                            .out = c->width,
                                            .act = c->act,
                                            .no_bias = c->no_bias,
                                            .std = c->std,
                                            .out_std = c->out_std,
                                            .dtype = c->dtype});
    WF_TRY(weft_module_add_child(m, "mlp", block->mlp));
    if (c->dropout <= 0) return WEFT_OK;
    block->drop = weft_dropout_new(c->dropout);
    return weft_module_add_child(m, "drop", block->drop);
}

static weft_status build(weft_module *m, const weft_block_config *c)
{
    WF_NEED(c->dropout >= 0 && c->dropout <= 1, WEFT_ERR_ARG, "block: dropout is %g", c->dropout);
    WF_TRY(add_attention(m, c));
    return add_mlp(m, c);
}

weft_module *weft_block_new(weft_block_config config)
{
    weft_module *m = wf_layer_new(&class_block, sizeof(struct block));

    return wf_layer_done(m, build(m, &config));
}
