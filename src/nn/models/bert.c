/* bert.c: an encoder like BERT: tokens, sentence numbers and positions, post-norm blocks. */
#include <weft/ops.h>

#include "nn/models/decoder.h"

struct bert {
    weft_module *wte, *wtt, *wpe, *norm_e, *blocks;
    weft_module *drop, *pooler;                          /* may be NULL */
    weft_module *transform, *act, *norm_t, *head, *loss; /* NULL without masked_lm */
};

static weft_tensor *embed_tokens(const struct bert *bert, weft_tensor *tokens, weft_tensor *types)
{
    weft_tensor *x_btc;

    if (!types) types = weft_mul_scalar(tokens, 0);
    x_btc = weft_add(weft_call(bert->wte, tokens), weft_call(bert->wtt, types));
    x_btc = weft_call(bert->norm_e, weft_call(bert->wpe, x_btc));
    return bert->drop ? weft_call(bert->drop, x_btc) : x_btc;
}

static weft_tensor *bert_forward(weft_module *m, weft_tensor *const *inputs, int n)
{
    const struct bert *bert = m->payload;
    weft_tensor *in[2];

    WF_NEED_PTR(weft_ndim(inputs[0]) == 2, WEFT_ERR_SHAPE, "bert: tokens have %d dims, not 2",
                weft_ndim(inputs[0]));
    in[0] = embed_tokens(bert, inputs[0], n > 2 ? inputs[2] : NULL);
    in[1] = n > 1 ? inputs[1] : NULL;
    return weft_call_n(bert->blocks, in, n > 1 ? 2 : 1);
}

static const weft_module_class class_bert = {
    .type = "bert", .forward = bert_forward, .free = wf_free, .optional = 2};

static const double bert_std = 0.02, bert_eps = 1e-12;

static weft_status check_bert_config(const weft_bert_config *c)
{
    WF_TRY(wf_check_positive_size("bert", "vocab", c->vocab));
    WF_TRY(wf_check_positive_size("bert", "context", c->context));
    WF_TRY(wf_check_positive_size("bert", "width", c->width));
    WF_TRY(wf_check_positive_size("bert", "heads", c->heads));
    WF_NEED(c->types >= 0, WEFT_ERR_ARG, "bert: types is %lld", (long long)c->types);
    return wf_check_positive_size("bert", "layers", c->layers);
}

static weft_module *new_embedding_table(const weft_bert_config *c, int64_t rows,
                                        int64_t padding_idx)
{
    return weft_embedding_new((weft_embedding_config){.rows = rows,
                                                      .width = c->width,
                                                      .padding_idx = padding_idx,
                                                      .std = bert_std,
                                                      .dtype = c->dtype});
}

static weft_module *new_layer_norm(const weft_bert_config *c)
{
    return weft_layer_norm_new((weft_norm_config){
        .width = c->width, .eps = c->eps > 0 ? c->eps : bert_eps, .dtype = c->dtype});
}

static weft_status add_embedding_modules(weft_module *m, const weft_bert_config *c)
{
    struct bert *bert = m->payload;

    bert->wte = new_embedding_table(c, c->vocab, c->padding_idx);
    WF_TRY(wf_layer_add_child(m, "wte", &bert->wte));
    bert->wtt = new_embedding_table(c, c->types ? c->types : 2, 0);
    WF_TRY(wf_layer_add_child(m, "wtt", &bert->wtt));
    bert->wpe = weft_position_new((weft_position_config){
        .length = c->context, .width = c->width, .std = bert_std, .dtype = c->dtype});
    WF_TRY(wf_layer_add_child(m, "wpe", &bert->wpe));
    bert->norm_e = new_layer_norm(c);
    WF_TRY(wf_layer_add_child(m, "norm_e", &bert->norm_e));
    if (c->dropout <= 0) return WEFT_OK;
    bert->drop = weft_dropout_new(c->dropout);
    return wf_layer_add_child(m, "drop", &bert->drop);
}

static weft_status add_pooler(weft_module *m, const weft_bert_config *c)
{
    struct bert *bert = m->payload;

    if (!c->pooler) return WEFT_OK;
    bert->pooler = weft_linear_new((weft_linear_config){
        .in = {c->width}, .out = {c->width}, .std = bert_std, .dtype = c->dtype});
    return wf_layer_add_child(m, "pooler", &bert->pooler);
}

static weft_status add_masked_lm(weft_module *m, const weft_bert_config *c)
{
    struct bert *bert = m->payload;

    if (!c->masked_lm) return WEFT_OK;
    bert->transform = weft_linear_new((weft_linear_config){
        .in = {c->width}, .out = {c->width}, .std = bert_std, .dtype = c->dtype});
    WF_TRY(wf_layer_add_child(m, "transform", &bert->transform));
    bert->act = weft_activation_new(c->act);
    WF_TRY(wf_layer_add_child(m, "act", &bert->act));
    bert->norm_t = new_layer_norm(c);
    WF_TRY(wf_layer_add_child(m, "norm_t", &bert->norm_t));
    bert->head = weft_linear_new((weft_linear_config){
        .in = {c->width}, .out = {c->vocab}, .std = bert_std, .dtype = c->dtype});
    WF_TRY(wf_layer_add_child(m, "head", &bert->head));
    if (!c->untied)
        WF_TRY(weft_module_set_parameter(bert->head, "weight",
                                         weft_module_parameter(bert->wte, "weight")));
    bert->loss = weft_cross_entropy_new((weft_cross_entropy_config){.classes = c->vocab});
    return wf_layer_add_child(m, "loss", &bert->loss);
}

static weft_status build_bert(weft_module *m, const weft_bert_config *c)
{
    struct bert *bert = m->payload;

    WF_TRY(check_bert_config(c));
    WF_TRY(add_embedding_modules(m, c));
    bert->blocks =
        wf_add_transformer_blocks(m, c->layers,
                                  (weft_block_config){.width = c->width,
                                                      .heads = c->heads,
                                                      .hidden = c->hidden,
                                                      .act = c->act,
                                                      .dropout = c->dropout,
                                                      .attention_dropout = c->attention_dropout,
                                                      .eps = c->eps > 0 ? c->eps : bert_eps,
                                                      .bidirectional = true,
                                                      .post_norm = true,
                                                      .std = bert_std,
                                                      .dtype = c->dtype,
                                                      .recompute = c->recompute});
    if (!bert->blocks) return weft_error_status();
    bert->blocks->parent_slot = &bert->blocks;
    WF_TRY(add_pooler(m, c));
    return add_masked_lm(m, c);
}

weft_module *weft_bert(weft_bert_config config)
{
    weft_module *m = wf_layer_new(&class_bert, sizeof(struct bert));

    return wf_layer_finish(m, build_bert(m, &config));
}

weft_tensor *weft_bert_pooled(weft_module *m, weft_tensor *hidden)
{
    if (!m || !hidden) return NULL;
    WF_NEED_PTR(m->kind == &class_bert && ((struct bert *)m->payload)->pooler, WEFT_ERR_NOT_FOUND,
                "bert pooled: module '%s' (%s) has no pooler", m->path, m->kind->type);
    return weft_tanh(weft_call(((struct bert *)m->payload)->pooler, weft_select(hidden, 1, 0)));
}

weft_tensor *weft_bert_masked_lm(weft_module *m, weft_tensor *hidden)
{
    const struct bert *bert;

    if (!m || !hidden) return NULL;
    WF_NEED_PTR(m->kind == &class_bert && ((struct bert *)m->payload)->head, WEFT_ERR_NOT_FOUND,
                "bert masked_lm: module '%s' (%s) has no masked_lm", m->path, m->kind->type);
    bert = m->payload;
    hidden = weft_call(bert->act, weft_call(bert->transform, hidden));
    return weft_call(bert->head, weft_call(bert->norm_t, hidden));
}

weft_tensor *weft_bert_masked_lm_loss(weft_module *m, weft_tensor *hidden, weft_tensor *targets)
{
    weft_tensor *logits = weft_bert_masked_lm(m, hidden);

    if (!logits || !targets) return NULL;
    return weft_call_n(((struct bert *)m->payload)->loss, (weft_tensor *[]){logits, targets}, 2);
}
