/* layers.c: the modules of the rows and their parameters, made the same on every rank. */
#include <stdio.h>
#include <string.h>

#include "suite.h"

/* ---- modules ---- */

/* What the layers are made from. */
struct make {
    enum ws_size size;
    int ways;
    bool no_bias;
    weft_dtype dtype;
};

#define SIZE(letter) ws_size_of((letter), m->size, m->ways)

static weft_module *make_linear(const struct make *m)
{
    return weft_linear_new((weft_linear_config){
        .in = {SIZE('C')}, .out = {SIZE('O')}, .no_bias = m->no_bias, .dtype = m->dtype});
}

static weft_module *make_transposed(const struct make *m)
{
    return weft_linear_new((weft_linear_config){.in = {SIZE('C')},
                                                .out = {SIZE('O')},
                                                .transposed = true,
                                                .no_bias = m->no_bias,
                                                .dtype = m->dtype});
}

/* Three things in one dim of the output, or of the input. */
static weft_module *make_fused(const struct make *m)
{
    return weft_linear_new((weft_linear_config){
        .in = {SIZE('C')}, .out = {SIZE('Q')}, .no_bias = m->no_bias, .dtype = m->dtype});
}

static weft_module *make_unfused(const struct make *m)
{
    return weft_linear_new((weft_linear_config){
        .in = {SIZE('Q')}, .out = {SIZE('O')}, .no_bias = m->no_bias, .dtype = m->dtype});
}

static weft_module *make_heads(const struct make *m)
{
    return weft_linear_new((weft_linear_config){.in = {SIZE('C')},
                                                .out = {3, SIZE('H'), SIZE('D')},
                                                .out_split = 1,
                                                .no_bias = m->no_bias,
                                                .dtype = m->dtype});
}

static weft_module *make_join(const struct make *m)
{
    return weft_linear_new((weft_linear_config){.in = {SIZE('H'), SIZE('D')},
                                                .out = {SIZE('O')},
                                                .no_bias = m->no_bias,
                                                .dtype = m->dtype});
}

static weft_module *make_embedding(const struct make *m)
{
    return weft_embedding_new(
        (weft_embedding_config){.rows = SIZE('V'), .width = SIZE('C'), .dtype = m->dtype});
}

static weft_module *make_layer_norm(const struct make *m)
{
    return weft_layer_norm_new(
        (weft_norm_config){.width = SIZE('W'), .no_bias = m->no_bias, .dtype = m->dtype});
}

static weft_module *make_rms_norm(const struct make *m)
{
    return weft_rms_norm_new((weft_norm_config){.width = SIZE('W'), .dtype = m->dtype});
}

static weft_module *make_dropout(const struct make *m)
{
    (void)m;
    return weft_dropout_new(0.5);
}

static weft_module *make_position(const struct make *m)
{
    return weft_position_new(
        (weft_position_config){.length = SIZE('T'), .width = SIZE('C'), .dtype = m->dtype});
}

static weft_module *make_cross_entropy(const struct make *m)
{
    return weft_cross_entropy_new((weft_cross_entropy_config){.classes = SIZE('V')});
}

static weft_tensor *twice(weft_module *m, weft_tensor *const *inputs, int n)
{
    (void)m;
    (void)n;
    return weft_mul_scalar(inputs[0], 2);
}

/* A linear function, so that a partial sum passes through. */
static weft_module *make_scale(const struct make *m)
{
    static const weft_module_class kind = {.type = "scale", .forward = twice};

    (void)m;
    return weft_module_new(&kind, NULL);
}

static weft_module *make_mlp(const struct make *m)
{
    return weft_mlp((weft_mlp_config){.in = SIZE('C'),
                                      .hidden = SIZE('F'),
                                      .out = SIZE('O'),
                                      .no_bias = m->no_bias,
                                      .dtype = m->dtype});
}

static weft_module *make_gated_mlp(const struct make *m)
{
    return weft_mlp((weft_mlp_config){.in = SIZE('C'),
                                      .hidden = SIZE('F'),
                                      .out = SIZE('O'),
                                      .act = WEFT_SILU,
                                      .gated = true,
                                      .no_bias = m->no_bias,
                                      .dtype = m->dtype});
}

static weft_module *make_attention(const struct make *m)
{
    return weft_attention_new((weft_attention_config){
        .width = SIZE('A'), .heads = SIZE('A') / 4, .no_bias = m->no_bias, .dtype = m->dtype});
}

static weft_module *make_grouped(const struct make *m)
{
    return weft_attention_new((weft_attention_config){.width = SIZE('G'),
                                                      .heads = SIZE('G') / 2,
                                                      .kv_heads = SIZE('G') / 4,
                                                      .rotary = {.base = 10000},
                                                      .no_bias = m->no_bias,
                                                      .dtype = m->dtype});
}

/* All heads look at one key and value. */
static weft_module *make_shared(const struct make *m)
{
    return weft_attention_new((weft_attention_config){.width = SIZE('M'),
                                                      .heads = SIZE('M') / 4,
                                                      .kv_heads = 1,
                                                      .by_heads = true,
                                                      .rotary = {.base = 10000},
                                                      .no_bias = m->no_bias,
                                                      .dtype = m->dtype});
}

/* Where the patterns of the ready plans find it. */
static weft_module *make_block(const struct make *m, weft_block_config config)
{
    weft_module *model = weft_sequential_new(), *blocks = weft_sequential_new();

    config.hidden = SIZE('F');
    config.dtype = m->dtype;
    weft_module_add_child(blocks, "0", weft_block_new(config));
    weft_module_add_child(model, "blocks", blocks);
    if (weft_error_status() == WEFT_OK) return model;
    weft_module_release(model);
    return NULL;
}

static weft_module *make_gpt_block(const struct make *m)
{
    return make_block(m, (weft_block_config){.width = SIZE('A'),
                                             .heads = SIZE('A') / 4,
                                             .act = WEFT_GELU_TANH,
                                             .no_bias = m->no_bias});
}

static weft_module *make_llama_block(const struct make *m)
{
    return make_block(m, (weft_block_config){.width = SIZE('G'),
                                             .heads = SIZE('G') / 2,
                                             .kv_heads = SIZE('G') / 4,
                                             .rotary = {.base = 10000},
                                             .rms = true,
                                             .gated = true,
                                             .act = WEFT_SILU,
                                             .no_bias = true});
}

static weft_module *make_bert_block(const struct make *m)
{
    return make_block(m, (weft_block_config){.width = SIZE('A'),
                                             .heads = SIZE('A') / 4,
                                             .bidirectional = true,
                                             .post_norm = true,
                                             .no_bias = m->no_bias});
}

#undef SIZE

static weft_module *(*const makers[WS_LAYERS])(const struct make *) = {
#define WS_LAYER(id, make, input, output, known, depth) [WS_##id] = make_##make,
#include "rows.def"
#undef WS_LAYER
};

weft_module *ws_module(const struct ws_case *c, int ways, uint64_t seed)
{
    struct make make = {(enum ws_size)c->at[WS_SIZE_COLUMN], ways, !ws_has_bias(c), ws_dtype_of(c)};
    struct ws_parameters p;
    weft_module *m;

    weft_manual_seed(seed);
    m = makers[ws_subject_of(c)->layer](&make);
    ws_parameters_of(&p, m);
    for (int i = 0; i < p.n; i++) /* of norms: neither ones nor zeros, which hide mistakes */
        if (weft_ndim(p.at[i].tensor) == 1) weft_uniform_(p.at[i].tensor, 0.25, 1.5, NULL);
    return m;
}

/* ---- parameters ---- */

static weft_status collect(weft_module *m, const char *name, weft_tensor *parameter, void *payload)
{
    static const char around[] = "blocks.0.";
    const char *path = weft_module_path(m);
    struct ws_parameters *p = payload;

    if (strncmp(path, around, sizeof around - 1) == 0) path += sizeof around - 1;
    snprintf(p->at[p->n].name, sizeof p->at->name, "%s%s%s", path, *path ? "." : "", name);
    p->at[p->n++].tensor = parameter;
    return p->n < WS_PARAMETERS ? WEFT_OK : WEFT_ERR_ARG;
}

void ws_parameters_of(struct ws_parameters *p, weft_module *m)
{
    p->n = 0;
    if (m) weft_module_each_parameter(m, collect, p);
}

/* "up.weight=S(0) down.bias=R+later": the word that begins with the name. */
bool ws_parameter_layout(weft_placement *layout, bool *later, const struct ws_case *c,
                         const char *name, const weft_tensor *parameter, int ways)
{
    const char *at = ws_subject_of(c)->parameters;
    size_t length = strlen(name);
    bool shared;
    char text[32];

    while (*at && (strncmp(at, name, length) != 0 || at[length] != '=')) {
        at += strcspn(at, " ");
        at += strspn(at, " ");
    }
    *later = false;
    if (!*at) return false;
    at += length + 1;
    snprintf(text, sizeof text, "%.*s", (int)strcspn(at, "+ "), at);
    at += strlen(text);
    shared = strncmp(at, "+shared", 7) == 0; /* by all ranks; one rank shares with nobody */
    *later = strncmp(at, "+later", 6) == 0 || (shared && ways > 1);
    *layout = ws_placement(shared && ways == 1 ? "S(0)" : text, weft_ndim(parameter));
    return true;
}
