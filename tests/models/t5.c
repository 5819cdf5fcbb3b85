/*
 * t5.c: an encoder and a decoder whose scores have a bias per head, by how far apart tokens are.
 *
 * The bias is looked up once for all layers of a stack. By rows of [buckets, heads] split over
 * heads each rank looks up that of its own heads; nothing below says so.
 */
#include "models/t5.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- relative positions ---- */

/* Half of the buckets are for single distances, the others grow up to `distance`. */
static int64_t bucket(int64_t apart, int64_t buckets, int64_t distance)
{
    int64_t exact = buckets / 2, far;

    if (apart < exact) return apart;
    far =
        exact + (int64_t)(logf((float)apart / (float)exact) /
                          (float)log((double)distance / (double)exact) * (float)(buckets - exact));
    return far < buckets ? far : buckets - 1;
}

static int64_t bucket_of(int64_t query, int64_t key, bool both_ways, const struct t5_config *c)
{
    int64_t half = c->buckets / 2;

    if (!both_ways) return bucket(key < query ? query - key : 0, c->buckets, c->distance);
    return (key > query ? half : 0) + bucket(llabs(key - query), half, c->distance);
}

/* [1, heads that are here, T, T] */
static weft_tensor *bias_of(weft_module *rel, int64_t t, bool both_ways, const struct t5_config *c)
{
    static const int heads_first[] = {2, 0, 1};
    int64_t *buckets = malloc((size_t)(t * t + 1) * sizeof *buckets);
    weft_tensor *index, *bias;

    for (int64_t i = 0; i < t * t; i++) buckets[i] = bucket_of(i / t, i % t, both_ways, c);
    index = weft_from_data(WEFT_I64, (int64_t[]){t, t}, 2, buckets);
    free(buckets);
    bias = weft_permute(weft_call(rel, index), heads_first);
    return bias ? weft_reshape(bias, (int64_t[]){1, weft_size(bias, 0), t, t}, 4) : NULL;
}

/* ---- a layer: x + f(norm(x)) for attention, attention to the encoder, the MLP ---- */

static weft_tensor *branch(weft_module *m, const char *norm, const char *body, weft_tensor *x,
                           int n, weft_tensor *const *more)
{
    weft_tensor *in[4] = {weft_call(weft_module_child(m, norm), x)};

    for (int i = 0; i < n; i++) in[1 + i] = more[i];
    return weft_add(x, weft_call_n(weft_module_child(m, body), in, 1 + n));
}

/* x, bias, mask */
static weft_tensor *encoder_layer(weft_module *m, weft_tensor *const *in, int n)
{
    weft_tensor *x = branch(m, "norm_sa", "sa", in[0], n - 1, in + 1);

    return branch(m, "norm_ff", "ff", x, 0, NULL);
}

/* x, bias, what the encoder gave, its mask */
static weft_tensor *decoder_layer(weft_module *m, weft_tensor *const *in, int n)
{
    weft_tensor *x = branch(m, "norm_sa", "sa", in[0], 1, in + 1);

    x = branch(m, "norm_ca", "ca", x, n - 2, in + 2);
    return branch(m, "norm_ff", "ff", x, 0, NULL);
}

static weft_module *norm_new(const struct t5_config *c)
{
    return weft_rms_norm_new((weft_norm_config){.width = c->width, .eps = 1e-6, .dtype = c->dtype});
}

static weft_module *layer_new(const struct t5_config *c, bool decoder)
{
    static const weft_module_class encoders = {
        .type = "t5 encoder layer", .forward = encoder_layer, .inputs = 3};
    static const weft_module_class decoders = {
        .type = "t5 decoder layer", .forward = decoder_layer, .inputs = 4};
    weft_module *m = weft_module_new(decoder ? &decoders : &encoders, NULL);

    weft_module_add_child(m, "norm_sa", norm_new(c));
    weft_module_add_child(m, "sa",
                          weft_attention_new((weft_attention_config){.width = c->width,
                                                                     .heads = c->heads,
                                                                     .head_dim = c->head_dim,
                                                                     .bidirectional = !decoder,
                                                                     .no_bias = true,
                                                                     .scale = 1,
                                                                     .dtype = c->dtype}));
    if (decoder) {
        weft_module_add_child(m, "norm_ca", norm_new(c));
        weft_module_add_child(
            m, "ca",
            weft_cross_attention_new((weft_cross_attention_config){.width = c->width,
                                                                   .heads = c->heads,
                                                                   .head_dim = c->head_dim,
                                                                   .no_bias = true,
                                                                   .scale = 1,
                                                                   .dtype = c->dtype}));
    }
    weft_module_add_child(m, "norm_ff", norm_new(c));
    weft_module_add_child(m, "ff",
                          weft_mlp((weft_mlp_config){.in = c->width,
                                                     .hidden = c->hidden,
                                                     .out = c->width,
                                                     .act = WEFT_RELU,
                                                     .no_bias = true,
                                                     .dtype = c->dtype}));
    return m;
}

/* ---- encoder and decoder ---- */

struct stack {
    struct t5_config config;
    bool decoder;
};

/* x and what every layer takes behind its bias */
static weft_tensor *stacked(weft_module *m, weft_tensor *const *in, int n)
{
    const struct stack *s = weft_module_payload(m);
    weft_module *layers = weft_module_child(m, "layers");
    weft_tensor *each[4] = {in[0]}, *x;

    each[1] = bias_of(weft_module_child(m, "rel"), weft_size(in[0], 1), !s->decoder, &s->config);
    for (int i = 1; i < n; i++) each[1 + i] = in[i];
    x = weft_call_n(layers, each, 1 + n);
    return weft_call(weft_module_child(m, "norm"), x);
}

static weft_module *stack_new(const struct t5_config *c, bool decoder)
{
    static const weft_module_class kind = {
        .type = "t5 stack", .forward = stacked, .free = free, .inputs = 2, .optional = 1};
    struct stack *stack = malloc(sizeof *stack);
    weft_module *m = weft_module_new(&kind, stack), *layers = weft_sequential_new();
    char name[16];

    *stack = (struct stack){*c, decoder};
    weft_module_add_child(m, "rel",
                          weft_embedding_new((weft_embedding_config){
                              .rows = c->buckets, .width = c->heads, .dtype = c->dtype}));
    weft_module_add_child(m, "layers", layers);
    for (int i = 0; i < c->layers; i++) {
        snprintf(name, sizeof name, "%d", i);
        weft_module_add_child(layers, name, layer_new(c, decoder));
    }
    weft_module_add_child(m, "norm", norm_new(c));
    return m;
}

/* ---- the whole ---- */

static weft_tensor *answer(weft_module *m, weft_tensor *const *in, int n)
{
    weft_module *shared = weft_module_child(m, "shared");
    weft_tensor *memory, *x, *logits;

    memory = weft_call_n(weft_module_child(m, "encoder"),
                         (weft_tensor *[]){weft_call(shared, in[0]), in[1]}, 2);
    x = weft_call_n(weft_module_child(m, "decoder"),
                    (weft_tensor *[]){weft_call(shared, in[2]), memory, in[1]}, 3);
    if (!x) return NULL;
    x = weft_mul_scalar(x, 1 / sqrt((double)weft_size(x, -1)));
    logits = weft_call(weft_module_child(m, "head"), x);
    if (n == 3) return logits;
    return weft_call_n(weft_module_child(m, "loss"), (weft_tensor *[]){logits, in[3]}, 2);
}

weft_module *t5_new(struct t5_config c)
{
    static const weft_module_class kind = {
        .type = "t5", .forward = answer, .inputs = 3, .optional = 1};
    weft_module *m = weft_module_new(&kind, NULL), *head;

    weft_module_add_child(m, "shared",
                          weft_embedding_new((weft_embedding_config){
                              .rows = c.vocab, .width = c.width, .dtype = c.dtype}));
    weft_module_add_child(m, "encoder", stack_new(&c, false));
    weft_module_add_child(m, "decoder", stack_new(&c, true));
    head = weft_linear_new(
        (weft_linear_config){.in = {c.width}, .out = {c.vocab}, .no_bias = true, .dtype = c.dtype});
    weft_module_add_child(m, "head", head);
    weft_module_set_parameter(head, "weight", weft_module_parameter(m, "shared.weight"));
    weft_module_add_child(m, "loss",
                          weft_cross_entropy_new((weft_cross_entropy_config){.classes = c.vocab}));
    return m;
}

/* ---- names ---- */

#define STACK(stack, last)                                                                         \
    {.parameter = stack ".rel.weight",                                                             \
     .name = stack ".block.0.layer.0.SelfAttention.relative_attention_bias.weight"},               \
        {.parameter = stack ".layers.*.norm_sa.weight",                                            \
         .name = stack ".block.*.layer.0.layer_norm.weight"},                                      \
        {.parameter = stack ".layers.*.sa.qkv.weight",                                             \
         .name = stack ".block.*.layer.0.SelfAttention.q.weight + " stack                          \
                       ".block.*.layer.0.SelfAttention.k.weight + " stack                          \
                       ".block.*.layer.0.SelfAttention.v.weight",                                  \
         .rows = 3},                                                                               \
        {.parameter = stack ".layers.*.sa.proj.weight",                                            \
         .name = stack ".block.*.layer.0.SelfAttention.o.weight"},                                 \
        {.parameter = stack ".layers.*.norm_ff.weight",                                            \
         .name = stack ".block.*.layer." last ".layer_norm.weight"},                               \
        {.parameter = stack ".layers.*.ff.up.weight",                                              \
         .name = stack ".block.*.layer." last ".DenseReluDense.wi.weight"},                        \
        {.parameter = stack ".layers.*.ff.down.weight",                                            \
         .name = stack ".block.*.layer." last ".DenseReluDense.wo.weight"},                        \
    {                                                                                              \
        .parameter = stack ".norm.weight", .name = stack ".final_layer_norm.weight"                \
    }

static const weft_weight_rule rules[] = {
    {.parameter = "shared.weight", .name = "shared.weight"},
    {.parameter = "head.weight", .name = "shared.weight"},
    STACK("encoder", "1"),
    STACK("decoder", "2"),
    {.parameter = "decoder.layers.*.norm_ca.weight",
     .name = "decoder.block.*.layer.1.layer_norm.weight"},
    {.parameter = "decoder.layers.*.ca.q.weight",
     .name = "decoder.block.*.layer.1.EncDecAttention.q.weight",
     .rows = 2},
    {.parameter = "decoder.layers.*.ca.kv.weight",
     .name = "decoder.block.*.layer.1.EncDecAttention.k.weight + "
             "decoder.block.*.layer.1.EncDecAttention.v.weight",
     .rows = 3},
    {.parameter = "decoder.layers.*.ca.proj.weight",
     .name = "decoder.block.*.layer.1.EncDecAttention.o.weight"},
};

const weft_weight_names t5_names = {
    .family = "t5", .n_rules = (int)(sizeof rules / sizeof *rules), .rules = rules};
