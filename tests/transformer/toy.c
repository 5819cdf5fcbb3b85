/*
 * toy.c: a transformer with queries, keys and values apart, written with public modules only.
 *
 * Its forward says nothing of ranks: [B, T, dim] may be a plain tensor, a rank's shard of one or a
 * distributed one, as the plan has it. Children are in the order in which they are added.
 */
#include "transformer/toy.h"

#include <stdlib.h>

/* ---- attention ---- */

enum { WQ, WK, WV, WO };

struct attention {
    int64_t head_dim;
    bool flat;
};

/* [B, T, heads head_dim] -> [B, T, heads, head_dim], for as many heads as there are here. */
static weft_tensor *by_heads(const struct attention *a, weft_tensor *x)
{
    if (!x || !a->flat) return x;
    return weft_reshape(x, (int64_t[]){weft_size(x, 0), weft_size(x, 1), -1, a->head_dim}, 4);
}

static weft_tensor *attend(weft_module *m, weft_tensor *const *in, int n)
{
    const struct attention *a = weft_module_payload(m);
    weft_tensor *heads[3], *y;

    (void)n;
    for (int i = WQ; i <= WV; i++)
        heads[i] = by_heads(a, weft_call(weft_module_child_at(m, i), in[0]));
    y = weft_attention(heads[WQ], heads[WK], heads[WV], true, 0);
    if (y && a->flat) y = weft_reshape(y, (int64_t[]){weft_size(y, 0), weft_size(y, 1), -1}, 3);
    return weft_call(weft_module_child_at(m, WO), y);
}

static weft_linear_config projection(const struct toy_config *c, bool out)
{
    weft_linear_config linear = {.no_bias = true, .dtype = c->dtype};
    int64_t *heads = out ? linear.in : linear.out;

    *(out ? linear.out : linear.in) = c->dim;
    heads[0] = c->flat ? c->dim : c->heads;
    heads[1] = c->flat ? 0 : c->dim / c->heads;
    return linear;
}

static weft_module *attention_new(const struct toy_config *c)
{
    static const weft_module_class kind = {
        .type = "toy attention", .forward = attend, .free = free};
    struct attention *a = malloc(sizeof *a);
    weft_module *m = weft_module_new(&kind, a);

    *a = (struct attention){c->dim / c->heads, c->flat};
    weft_module_add_child(m, "wq", weft_linear_new(projection(c, false)));
    weft_module_add_child(m, "wk", weft_linear_new(projection(c, false)));
    weft_module_add_child(m, "wv", weft_linear_new(projection(c, false)));
    weft_module_add_child(m, "wo", weft_linear_new(projection(c, true)));
    return m;
}

/* ---- a layer ---- */

static weft_tensor *feed(weft_module *m, weft_tensor *const *in, int n)
{
    (void)n;
    return weft_call(weft_module_child_at(m, 1),
                     weft_gelu(weft_call(weft_module_child_at(m, 0), in[0])));
}

static weft_module *feed_forward_new(const struct toy_config *c)
{
    static const weft_module_class kind = {.type = "toy feed forward", .forward = feed};
    weft_module *m = weft_module_new(&kind, NULL);

    weft_module_add_child(m, "w1",
                          weft_linear_new((weft_linear_config){
                              .in = {c->dim}, .out = {c->hidden}, .dtype = c->dtype}));
    weft_module_add_child(m, "w2",
                          weft_linear_new((weft_linear_config){
                              .in = {c->hidden}, .out = {c->dim}, .dtype = c->dtype}));
    return m;
}

static weft_tensor *layer(weft_module *m, weft_tensor *const *in, int n)
{
    weft_tensor *x = in[0];

    (void)n;
    for (int i = 0; i < 4; i += 2)
        x = weft_add(
            x, weft_call(weft_module_child_at(m, i + 1), weft_call(weft_module_child_at(m, i), x)));
    return x;
}

static weft_module *norm_new(const struct toy_config *c)
{
    return weft_layer_norm_new((weft_norm_config){.width = c->dim, .dtype = c->dtype});
}

static weft_module *layer_new(const struct toy_config *c)
{
    static const weft_module_class kind = {.type = "toy layer", .forward = layer};
    weft_module *m = weft_module_new(&kind, NULL);

    weft_module_add_child(m, "attention_norm", norm_new(c));
    weft_module_add_child(m, "attention", attention_new(c));
    weft_module_add_child(m, "ffn_norm", norm_new(c));
    weft_module_add_child(m, "feed_forward", feed_forward_new(c));
    return m;
}

/* ---- the whole ---- */

enum { TOKENS, POSITIONS, LAYERS, NORM, OUTPUT };

static weft_tensor *transform(weft_module *m, weft_tensor *const *in, int n)
{
    weft_tensor *order = weft_make_arange(
        (weft_spec){.dtype = WEFT_I64, .ndim = 1, .shape = {weft_size(in[0], 1)}}, 0, 1);
    weft_tensor *x = weft_add(weft_call(weft_module_child_at(m, TOKENS), in[0]),
                              weft_call(weft_module_child_at(m, POSITIONS), order));

    (void)n;
    for (int i = LAYERS; i <= OUTPUT; i++) x = weft_call(weft_module_child_at(m, i), x);
    return x;
}

static weft_module *embedding_new(const struct toy_config *c, int64_t rows)
{
    return weft_embedding_new(
        (weft_embedding_config){.rows = rows, .width = c->dim, .dtype = c->dtype});
}

weft_module *toy_new(struct toy_config c)
{
    static const weft_module_class kind = {.type = "toy", .forward = transform};
    weft_module *m = weft_module_new(&kind, NULL), *layers = weft_sequential_new();

    weft_manual_seed(5);
    weft_module_add_child(m, "tok_embeddings", embedding_new(&c, c.vocab));
    weft_module_add_child(m, "pos_embeddings", embedding_new(&c, c.length));
    for (int i = 0; i < c.layers; i++)
        weft_module_add_child(layers, (char[]){(char)('0' + i), 0}, layer_new(&c));
    weft_module_add_child(m, "layers", layers);
    weft_module_add_child(m, "norm", norm_new(&c));
    weft_module_add_child(m, "output",
                          weft_linear_new((weft_linear_config){
                              .in = {c.dim}, .out = {c.vocab}, .no_bias = true, .dtype = c.dtype}));
    if (c.tied)
        weft_module_set_parameter(weft_module_child(m, "output"), "weight",
                                  weft_module_parameter(m, "tok_embeddings.weight"));
    return m;
}

/* ---- plans ---- */

static weft_style rowwise(const char *output, bool keep)
{
    return weft_rowwise_parallel_with(
        (weft_style_options){.output_layouts = output, .keep_distributed = keep});
}

static weft_style colwise(const char *input, const char *output, bool keep)
{
    return weft_colwise_parallel_with((weft_style_options){
        .input_layouts = input, .output_layouts = output, .keep_distributed = keep});
}

/* Parameters that a partition leaves plain become replicated. */
static weft_status nothing(weft_module *m, weft_mesh *mesh, void *payload)
{
    (void)m;
    (void)mesh;
    (void)payload;
    return WEFT_OK;
}

weft_status toy_parallelize(weft_module *toy, weft_mesh *mesh, struct toy_plan p)
{
    static const weft_style_functions replicate = {.name = "replicate", .partition = nothing};
    const char *part = p.sequence ? "S(1)" : NULL, *rows = p.sequence ? "S(0)" : NULL;
    weft_style norm = p.sequence ? weft_sequence_parallel() : weft_custom_style(&replicate, NULL);
    const weft_plan plan[] = {
        {"tok_embeddings", rowwise(part, p.keep)},
        {"pos_embeddings", rowwise(rows, p.keep)},
        {"layers.*.attention.w[qkv]", weft_colwise_parallel()},
        {"layers.*.attention.wo", rowwise(part, p.keep)},
        {"layers.*.feed_forward.w1", colwise(part, NULL, p.keep)},
        {"layers.*.feed_forward.w2", rowwise(part, p.keep)},
        {"output", colwise(part, "R", false)},
        {p.sequence || p.keep ? "layers.*.*_norm" : NULL, norm},
        {"norm", norm},
        {p.sequence ? "layers.*.attention" : NULL, weft_prepare_module_input("S(1)", "R")},
        {0},
    };

    return weft_parallelize_module_strict(toy, mesh, plan);
}

weft_tensor *toy_tokens(int64_t batch, int64_t length, int64_t vocab, int shift)
{
    int64_t *at = malloc((size_t)(batch * length + 1) * sizeof *at);
    weft_tensor *t;

    for (int64_t i = 0; i < batch * length; i++) at[i] = (i * 37 + i / 7 + shift) % vocab;
    t = weft_from_data(WEFT_I64, (int64_t[]){batch, length}, 2, at);
    free(at);
    return t;
}
