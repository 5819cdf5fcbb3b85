/*
 * gpt.c: a decoder-only transformer in GPT-2's form, with an untied head.
 *
 * With targets it computes the loss inside the module, so that the logits are a temporary of the
 * call and a style can keep them sharded between head and loss.
 */
#include <math.h>
#include <stdio.h>

#include "nn/layer.h"

struct gpt {
    weft_module *wte, *wpe, *blocks, *norm_f, *head, *loss;
    weft_module *drop; /* NULL without dropout */
};

static weft_tensor *forward(weft_module *m, weft_tensor *const *inputs, int n)
{
    const struct gpt *gpt = m->payload;
    weft_tensor *x_btc, *pair[2];

    WF_NEED_PTR(weft_ndim(inputs[0]) == 2, WEFT_ERR_SHAPE, "gpt: tokens have %d dims, not 2",
                weft_ndim(inputs[0]));
    x_btc = weft_call(gpt->wpe, weft_call(gpt->wte, inputs[0]));
    if (gpt->drop) x_btc = weft_call(gpt->drop, x_btc);
    x_btc = weft_call(gpt->norm_f, weft_call(gpt->blocks, x_btc));
    pair[0] = weft_call(gpt->head, x_btc);
    pair[1] = inputs[n - 1];
    return n == 1 ? pair[0] : weft_call_n(gpt->loss, pair, 2);
}

static const weft_module_class class_gpt = {
    .type = "gpt", .forward = forward, .free = wf_free, .optional = 1};

static const double gpt2_std = 0.02;

static weft_status check(const weft_gpt_config *c)
{
    WF_TRY(wf_need_size("gpt", "vocab", c->vocab));
    WF_TRY(wf_need_size("gpt", "context", c->context));
    WF_TRY(wf_need_size("gpt", "width", c->width));
    WF_TRY(wf_need_size("gpt", "heads", c->heads));
    return wf_need_size("gpt", "layers", c->layers);
}

static weft_status add_embeddings(weft_module *m, const weft_gpt_config *c, double std)
{
    struct gpt *gpt = m->payload;

    gpt->wte = weft_embedding_new((weft_embedding_config){
        .rows = c->vocab, .width = c->width, .std = std, .dtype = c->dtype});
    WF_TRY(weft_module_add_child(m, "wte", gpt->wte));
    gpt->wpe = weft_position_new((weft_position_config){
        .length = c->context, .width = c->width, .std = std, .dtype = c->dtype});
    WF_TRY(weft_module_add_child(m, "wpe", gpt->wpe));
    if (c->dropout <= 0) return WEFT_OK;
    gpt->drop = weft_dropout_new(c->dropout);
    return weft_module_add_child(m, "drop", gpt->drop);
}

static weft_status add_blocks(weft_module *m, const weft_gpt_config *c, double std)
{
    struct gpt *gpt = m->payload;
    weft_block_config block = {.width = c->width,
                               .heads = c->heads,
                               .hidden = c->hidden,
                               .act = c->act,
                               .dropout = c->dropout,
                               .std = std,
                               .out_std = std / sqrt(2.0 * c->layers),
                               .dtype = c->dtype};
    char name[16];

    gpt->blocks = weft_sequential_new();
    WF_TRY(weft_module_add_child(m, "blocks", gpt->blocks));
    for (int i = 0; i < c->layers; i++) {
        snprintf(name, sizeof name, "%d", i);
        WF_TRY(weft_module_add_child(gpt->blocks, name, weft_block_new(block)));
    }
    return WEFT_OK;
}

static weft_status add_head(weft_module *m, const weft_gpt_config *c, double std)
{
    struct gpt *gpt = m->payload;

    gpt->norm_f = weft_layer_norm_new((weft_norm_config){.width = c->width, .dtype = c->dtype});
    WF_TRY(weft_module_add_child(m, "norm_f", gpt->norm_f));
    gpt->head = weft_linear_new((weft_linear_config){
        .in = {c->width}, .out = {c->vocab}, .no_bias = true, .std = std, .dtype = c->dtype});
    WF_TRY(weft_module_add_child(m, "head", gpt->head));
    gpt->loss = weft_cross_entropy_new((weft_cross_entropy_config){.classes = c->vocab});
    return weft_module_add_child(m, "loss", gpt->loss);
}

static weft_status build(weft_module *m, const weft_gpt_config *c)
{
    WF_TRY(check(c));
    WF_TRY(add_embeddings(m, c, gpt2_std));
    WF_TRY(add_blocks(m, c, gpt2_std));
    return add_head(m, c, gpt2_std);
}

weft_module *weft_gpt(weft_gpt_config config)
{
    weft_module *m = wf_layer_new(&class_gpt, sizeof(struct gpt));

    return wf_layer_done(m, build(m, &config));
}

weft_tensor *weft_gpt_loss(weft_module *gpt, weft_tensor *tokens, weft_tensor *targets)
{
    weft_tensor *inputs[] = {tokens, targets};

    return weft_call_n(gpt, inputs, 2);
}
