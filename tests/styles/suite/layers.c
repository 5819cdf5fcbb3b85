/*
 * layers.c: the modules of the rows, made the same on every rank, with the numbers that go into
 * them. Everything follows from a seed and global indexes.
 */
#include <stdio.h>
#include <string.h>

#include "suite.h"

/* ---- sizes ---- */

struct dim {
    char letter;
    int scale, unit, least;
};

static const struct dim dims[] = {
#define WS_DIM(letter, scale, unit, least) {letter, scale, unit, least},
#include "rows.def"
#undef WS_DIM
};

static int64_t scaled(int scale, enum ws_size size, int ways)
{
    int less = ways / 2 + scale % 2;

    if (size == WS_EVEN) return (int64_t)scale * ways;
    if (size == WS_UNEVEN) return (int64_t)(scale + 1) * ways - 1;
    return less < ways ? less : ways - 1;
}

static int64_t size_of(char letter, enum ws_size size, int ways)
{
    const struct dim *d = dims;
    int64_t n;

    if (letter >= '0' && letter <= '9') return letter - '0';
    while (d->letter != letter) d++;
    n = scaled(d->scale, size, ways) * d->unit;
    return n > d->least ? n : d->least;
}

int ws_shape(int64_t *shape, const char *letters, enum ws_size size, int ways)
{
    int ndim = (int)strlen(letters);

    for (int d = 0; d < ndim; d++) shape[d] = size_of(letters[d], size, ways);
    return ndim;
}

/* ---- numbers ---- */

/* The finalizer of splitmix64 (Steele et al. 2014). */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static uint64_t draw(struct ws_source source, int which, int64_t i)
{
    return mix(mix(mix(source.seed) + (uint64_t)source.group * 16 + (uint64_t)which) + (uint64_t)i);
}

double ws_element(struct ws_source source, enum ws_which which, int64_t i)
{
    return ((double)(draw(source, which, i) % 33) - 16) / 16;
}

double ws_term(struct ws_source source, int index, int ways, int64_t i)
{
    double first = ws_element(source, WS_X, i), term = 0;

    for (int r = 1; r < ways; r++) {
        double of_r = ((double)(draw(source, WS_TERM + r, i) % 9) - 4) / 16;

        if (r == index) term = of_r;
        first -= of_r;
    }
    return index ? term : first;
}

/* ---- tensors ---- */

static enum ws_size class_of(const struct ws_case *c)
{
    return (enum ws_size)c->at[WS_SIZE_COLUMN];
}

/* Rows of a table, or classes. With `ignored` about a quarter says that it has no target. */
static weft_tensor *index_tensor(const struct ws_case *c, int ways, struct ws_source source,
                                 bool ignored)
{
    int64_t shape[WEFT_MAX_DIMS], rows = size_of('V', class_of(c), ways), *of;
    weft_tensor *t = weft_empty(WEFT_I64, ws_shape(shape, "BT", class_of(c), ways), shape);

    if (!t) return NULL;
    of = weft_data(t);
    for (int64_t i = 0; i < weft_numel(t); i++) {
        uint64_t drawn = draw(source, WS_TARGET, i);

        of[i] = ignored && i % 4 == 1 ? -100 : (int64_t)(drawn % (uint64_t)rows);
    }
    return t;
}

/* Term `index` of the input; -1: all of it. */
static weft_tensor *input_tensor(const struct ws_case *c, int index, int ways,
                                 struct ws_source source)
{
    int64_t shape[WEFT_MAX_DIMS];
    int ndim = ws_shape(shape, ws_layer_of(c)->input, class_of(c), ways);
    weft_tensor *t = weft_empty(WEFT_F64, ndim, shape);
    double *of;

    if (!t) return NULL;
    of = weft_data(t);
    for (int64_t i = 0; i < weft_numel(t); i++)
        of[i] = index < 0 ? ws_element(source, WS_X, i) : ws_term(source, index, ways, i);
    return weft_cast(t, ws_dtype_of(c));
}

weft_tensor *ws_input(const struct ws_case *c, int ways, struct ws_source source)
{
    if (ws_subject_of(c)->layer == WS_EMBEDDING) return index_tensor(c, ways, source, false);
    return input_tensor(c, -1, ways, source);
}

weft_tensor *ws_input_term(const struct ws_case *c, int index, int ways, struct ws_source source)
{
    return input_tensor(c, index, ways, source);
}

weft_tensor *ws_target(const struct ws_case *c, int ways, struct ws_source source)
{
    if (ws_subject_of(c)->layer != WS_CROSS_ENTROPY) return NULL;
    return index_tensor(c, ways, source, true);
}

weft_tensor *ws_output_gradient(const weft_tensor *y, struct ws_source source)
{
    int64_t shape[WEFT_MAX_DIMS] = {0};
    weft_tensor *t;
    double *of;

    for (int d = 0; d < weft_ndim(y); d++) shape[d] = weft_size(y, d);
    t = weft_empty(WEFT_F64, weft_ndim(y), shape);
    if (!t) return NULL;
    of = weft_data(t);
    for (int64_t i = 0; i < weft_numel(t); i++) of[i] = ws_element(source, WS_G, i);
    if (weft_ndim(y) == 0) of[0] = 0.75; /* a loss must not be lost */
    return weft_cast(t, weft_tensor_dtype(y));
}

/* ---- modules ---- */

/* What the layers are made from. */
struct make {
    enum ws_size size;
    int ways;
    bool no_bias;
    weft_dtype dtype;
};

#define SIZE(letter) size_of((letter), m->size, m->ways)

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

/* A linear function, so that a pending sum passes through. */
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
    struct make make = {class_of(c), ways, !ws_has_bias(c), ws_dtype_of(c)};
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
