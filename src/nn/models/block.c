/*
 * block.c: a transformer block, normalised before its branches (GPT, Llama) or after (BERT), and
 * which of it is recomputed in backward instead of saved.
 */
#include <string.h>

#include <weft/autograd.h>
#include <weft/ops.h>

#include "nn/layer_construction.h"

struct block {
    weft_module *norm1, *attn, *norm2, *mlp;
    weft_module *drop; /* NULL without dropout */
    bool post_norm;
    weft_recompute recompute;
};

/* x + body(norm(x)), or norm(x + body(x)); in[0] is x, the rest goes to the body as it is. */
static weft_tensor *residual_branch(const struct block *block, weft_module *norm, weft_module *body,
                                    weft_tensor *const *in, int n)
{
    weft_tensor *inner[WEFT_MODULE_INPUTS], *y_btc, *sum_btc;

    memcpy(inner, in, (size_t)n * sizeof *inner);
    inner[0] = block->post_norm ? in[0] : weft_call(norm, in[0]);
    y_btc = weft_call_n(body, inner, n);
    sum_btc = weft_add(in[0], block->drop ? weft_call(block->drop, y_btc) : y_btc);
    return block->post_norm ? weft_call(norm, sum_btc) : sum_btc;
}

static weft_tensor *mlp_branch(weft_tensor *const *in, int n, void *payload)
{
    const struct block *block = payload;

    return residual_branch(block, block->norm2, block->mlp, in, n);
}

static weft_tensor *attention_and_mlp_branches(weft_tensor *const *in, int n, void *payload)
{
    const struct block *block = payload;
    weft_tensor *h_btc = residual_branch(block, block->norm1, block->attn, in, n);

    return mlp_branch(&h_btc, 1, payload);
}

static weft_tensor *block_forward(weft_module *m, weft_tensor *const *inputs, int n)
{
    struct block *block = m->payload;
    weft_tensor *h_btc;

    if (block->recompute == WEFT_RECOMPUTE_BLOCK)
        return weft_recomputed(attention_and_mlp_branches, inputs, n, block, NULL);
    h_btc = residual_branch(block, block->norm1, block->attn, inputs, n);
    if (block->recompute == WEFT_RECOMPUTE_MLP)
        return weft_recomputed(mlp_branch, &h_btc, 1, block, NULL);
    return mlp_branch(&h_btc, 1, block);
}

static const weft_module_class class_block = {
    .type = "block", .forward = block_forward, .free = wf_free, .optional = 3};

static weft_module *new_block_norm(const weft_block_config *c)
{
    weft_norm_config norm = {
        .width = c->width, .eps = c->eps, .no_bias = c->no_bias, .dtype = c->dtype};

    return c->rms ? weft_rms_norm_new(norm) : weft_layer_norm_new(norm);
}

static weft_status add_attention(weft_module *m, const weft_block_config *c)
{
    struct block *block = m->payload;
    bool no_bias = c->no_bias && !c->attention_bias;

    block->norm1 = new_block_norm(c);
    WF_TRY(wf_layer_add_child(m, "norm1", &block->norm1));
    block->attn = weft_attention_new((weft_attention_config){.width = c->width,
                                                             .head_dim = c->head_dim,
                                                             .dropout = c->attention_dropout,
                                                             .heads = c->heads,
                                                             .kv_heads = c->kv_heads,
                                                             .by_heads = c->by_heads,
                                                             .bidirectional = c->bidirectional,
                                                             .rotary = c->rotary,
                                                             .transposed = c->transposed,
                                                             .no_bias = no_bias,
                                                             .std = c->std,
                                                             .out_std = c->out_std,
                                                             .dtype = c->dtype});
    return wf_layer_add_child(m, "attn", &block->attn);
}

static weft_status add_mlp(weft_module *m, const weft_block_config *c)
{
    struct block *block = m->payload;

    block->norm2 = new_block_norm(c);
    WF_TRY(wf_layer_add_child(m, "norm2", &block->norm2));
    block->mlp = weft_mlp((weft_mlp_config){.in = c->width,
                                            .hidden = c->hidden ? c->hidden : 4 * c->width,
                                            .out = c->width,
                                            .act = c->act,
                                            .gated = c->gated,
                                            .transposed = c->transposed,
                                            .no_bias = c->no_bias && !c->mlp_bias,
                                            .std = c->std,
                                            .out_std = c->out_std,
                                            .dtype = c->dtype});
    WF_TRY(wf_layer_add_child(m, "mlp", &block->mlp));
    if (c->dropout <= 0) return WEFT_OK;
    block->drop = weft_dropout_new(c->dropout);
    return wf_layer_add_child(m, "drop", &block->drop);
}

static weft_status build_block(weft_module *m, const weft_block_config *c)
{
    struct block *block = m->payload;

    WF_NEED(c->dropout >= 0 && c->dropout <= 1, WEFT_ERR_ARG, "block: dropout is %g", c->dropout);
    WF_NEED((unsigned)c->recompute <= WEFT_RECOMPUTE_BLOCK, WEFT_ERR_ARG, "block: recompute is %d",
            (int)c->recompute);
    block->post_norm = c->post_norm;
    block->recompute = c->recompute;
    WF_TRY(add_attention(m, c));
    return add_mlp(m, c);
}

weft_module *weft_block_new(weft_block_config config)
{
    weft_module *m = wf_layer_new(&class_block, sizeof(struct block));

    return wf_layer_finish(m, build_block(m, &config));
}
