/*
 * decoder.c: a decoder-only transformer.
 *
 * With targets it computes the loss inside the module, so that the logits are a temporary of the
 * call and a style can keep them sharded between head and loss.
 */
#include "nn/models/decoder.h"

#include <stdio.h>

#include <weft/ops.h>

#include "nn/attention/attention_inputs.h"
#include "nn/attention/kv_cache.h"

struct decoder {
    weft_module *wte, *blocks, *norm_f, *head, *loss;
    weft_module *wpe;  /* NULL without learned positions */
    weft_module *drop; /* NULL without dropout */
};

struct decoder_inputs {
    weft_tensor *tokens_bt, *targets_bt, *mask_bt; /* the last two may be NULL */
};

/* A mask is what is bool. */
static weft_status sort_decoder_inputs(struct decoder_inputs *in, const char *type,
                                       weft_tensor *const *inputs, int n)
{
    *in = (struct decoder_inputs){.tokens_bt = inputs[0]};
    for (int i = 1; i < n; i++) {
        bool is_mask = weft_tensor_dtype(inputs[i]) == WEFT_BOOL;
        weft_tensor **to = is_mask ? &in->mask_bt : &in->targets_bt;

        WF_NEED(!*to, WEFT_ERR_ARG, "%s: two inputs are %s: a mask is bool, targets are not", type,
                is_mask ? "masks" : "targets");
        *to = inputs[i];
    }
    return WEFT_OK;
}

static weft_status check_decoder_inputs(const weft_module *m, const struct decoder_inputs *in)
{
    const struct decoder *d = m->payload;
    int64_t room = wf_kv_cache_capacity(d->blocks), columns;

    WF_NEED(weft_ndim(in->tokens_bt) == 2, WEFT_ERR_SHAPE, "%s: tokens have %d dims, not 2",
            m->kind->type, weft_ndim(in->tokens_bt));
    WF_NEED(!in->mask_bt ||
                (weft_tensor_dtype(in->mask_bt) == WEFT_BOOL && weft_ndim(in->mask_bt) == 2 &&
                 weft_size(in->mask_bt, 0) == weft_size(in->tokens_bt, 0)),
            WEFT_ERR_SHAPE, "%s: a mask is [B, T] of bool, true for the tokens that are there",
            m->kind->type);
    columns = room ? room : weft_size(in->tokens_bt, 1);
    WF_NEED(!in->mask_bt || weft_size(in->mask_bt, 1) == columns, WEFT_ERR_SHAPE,
            "%s: a mask says of %lld tokens whether they are there; there are %lld%s",
            m->kind->type, (long long)weft_size(in->mask_bt, 1), (long long)columns,
            room ? ", all for which the cache has room" : "");
    return WEFT_OK;
}

static weft_tensor *embed_and_run_blocks(const weft_module *m, const struct decoder_inputs *in)
{
    const struct decoder *d = m->payload;
    weft_tensor *positions_bt = NULL, *x_btc, *more[3];
    int n = 1;

    if (in->mask_bt) {
        positions_bt = wf_positions_from_mask(in->mask_bt, weft_module_cached(d->blocks),
                                              weft_size(in->tokens_bt, 1));
        if (!positions_bt) return NULL;
    }
    x_btc = weft_call(d->wte, in->tokens_bt);
    if (d->wpe)
        x_btc = weft_call_n(d->wpe, (weft_tensor *[]){x_btc, positions_bt}, positions_bt ? 2 : 1);
    if (d->drop) x_btc = weft_call(d->drop, x_btc);
    more[0] = x_btc;
    if (in->mask_bt) more[n++] = in->mask_bt;
    if (in->mask_bt && !d->wpe) more[n++] = positions_bt;
    return weft_call_n(d->blocks, more, n);
}

/* The output of the last block. When a layer fails, the caches of those before it are rewound. */
static weft_tensor *compute_hidden_states(weft_module *m, const struct decoder_inputs *in)
{
    int64_t cached = weft_module_cached(m);
    weft_tensor *x_btc;

    WF_TRY_PTR(check_decoder_inputs(m, in));
    x_btc = embed_and_run_blocks(m, in);
    if (!x_btc) weft_module_cache_rewind(m, cached);
    return x_btc;
}

weft_tensor *wf_decoder_forward(weft_module *m, weft_tensor *const *inputs, int n)
{
    const struct decoder *d = m->payload;
    struct decoder_inputs in;
    weft_tensor *logits;

    WF_TRY_PTR(sort_decoder_inputs(&in, m->kind->type, inputs, n));
    logits = weft_call(d->head, weft_call(d->norm_f, compute_hidden_states(m, &in)));
    if (!in.targets_bt) return logits;
    return weft_call_n(d->loss, (weft_tensor *[]){logits, in.targets_bt}, 2);
}

weft_tensor *weft_gpt_next(weft_module *gpt, weft_tensor *tokens)
{
    return tokens ? weft_gpt_next_masked(gpt, tokens, NULL) : NULL;
}

weft_tensor *weft_gpt_next_masked(weft_module *gpt, weft_tensor *tokens, weft_tensor *mask)
{
    struct decoder_inputs in = {.tokens_bt = tokens, .mask_bt = mask};
    const struct decoder *d;
    weft_tensor *x_btc;

    if (!gpt || !tokens) return NULL;
    WF_NEED_PTR(gpt->kind->forward == wf_decoder_forward, WEFT_ERR_ARG,
                "gpt_next: a %s says nothing of the next token", gpt->kind->type);
    d = gpt->payload;
    x_btc = compute_hidden_states(gpt, &in);
    if (!x_btc) return NULL;
    x_btc = weft_slice(x_btc, 1, weft_size(x_btc, 1) - 1, weft_size(x_btc, 1));
    return weft_select(weft_call(d->head, weft_call(d->norm_f, x_btc)), 1, 0);
}

static weft_status check_decoder_config(const struct wf_decoder_config *c)
{
    WF_TRY(wf_check_positive_size(c->name, "vocab", c->vocab));
    WF_TRY(wf_check_positive_size(c->name, "width", c->block.width));
    WF_TRY(wf_check_positive_size(c->name, "heads", c->block.heads));
    return wf_check_positive_size(c->name, "layers", c->layers);
}

static weft_status add_embeddings(weft_module *m, const struct wf_decoder_config *c)
{
    struct decoder *d = m->payload;
    int64_t width = c->block.width;

    d->wte = weft_embedding_new((weft_embedding_config){.rows = c->vocab,
                                                        .width = width,
                                                        .padding_idx = c->padding_idx,
                                                        .std = c->std,
                                                        .dtype = c->block.dtype});
    WF_TRY(wf_layer_add_child(m, "wte", &d->wte));
    if (c->context) {
        d->wpe = weft_position_new((weft_position_config){
            .length = c->context, .width = width, .std = c->std, .dtype = c->block.dtype});
        WF_TRY(wf_layer_add_child(m, "wpe", &d->wpe));
    }
    if (c->block.dropout <= 0) return WEFT_OK;
    d->drop = weft_dropout_new(c->block.dropout);
    return wf_layer_add_child(m, "drop", &d->drop);
}

weft_module *wf_add_transformer_blocks(weft_module *m, int layers, weft_block_config block)
{
    weft_module *blocks = weft_sequential_new();
    char name[16];

    WF_TRY_PTR(weft_module_add_child(m, "blocks", blocks));
    for (int i = 0; i < layers; i++) {
        snprintf(name, sizeof name, "%d", i);
        WF_TRY_PTR(weft_module_add_child(blocks, name, weft_block_new(block)));
    }
    return blocks;
}

static weft_status add_head(weft_module *m, const struct wf_decoder_config *c)
{
    struct decoder *d = m->payload;
    weft_norm_config norm = {.width = c->block.width, .eps = c->block.eps, .dtype = c->block.dtype};

    d->norm_f = c->block.rms ? weft_rms_norm_new(norm) : weft_layer_norm_new(norm);
    WF_TRY(wf_layer_add_child(m, "norm_f", &d->norm_f));
    d->head = weft_linear_new((weft_linear_config){.in = {c->block.width},
                                                   .out = {c->vocab},
                                                   .no_bias = true,
                                                   .std = c->std,
                                                   .dtype = c->block.dtype});
    WF_TRY(wf_layer_add_child(m, "head", &d->head));
    if (c->tied)
        WF_TRY(
            weft_module_set_parameter(d->head, "weight", weft_module_parameter(d->wte, "weight")));
    d->loss = weft_cross_entropy_new((weft_cross_entropy_config){.classes = c->vocab});
    return wf_layer_add_child(m, "loss", &d->loss);
}

static weft_status build_decoder(weft_module *m, const struct wf_decoder_config *c)
{
    struct decoder *d = m->payload;

    WF_TRY(check_decoder_config(c));
    WF_TRY(add_embeddings(m, c));
    d->blocks = wf_add_transformer_blocks(m, c->layers, c->block);
    if (!d->blocks) return weft_error_status();
    d->blocks->parent_slot = &d->blocks;
    return add_head(m, c);
}

weft_module *wf_decoder_new(const weft_module_class *class, const struct wf_decoder_config *c)
{
    weft_module *m = wf_layer_new(class, sizeof(struct decoder));

    return wf_layer_finish(m, build_decoder(m, c));
}
