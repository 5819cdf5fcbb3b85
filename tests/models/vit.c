/*
 * vit.c: patches are the words. A convolution whose step is as long as its kernel is a product: the
 * image is cut into patches by a view, and all elements of one are contracted.
 */
#include "models/vit.h"

#include <stdio.h>
#include <stdlib.h>

/* images [B,C,H,W] -> [B,patches,C,p,p] */
static weft_tensor *patches(weft_tensor *x, const struct vit_config *c)
{
    static const int order[] = {0, 2, 4, 1, 3, 5};
    int64_t rows = c->height / c->patch, columns = c->width / c->patch, p = c->patch;
    int64_t cut[] = {weft_size(x, 0), c->channels, rows, p, columns, p};
    int64_t row[] = {weft_size(x, 0), rows * columns, c->channels, p, p};

    return weft_reshape(weft_permute(weft_reshape(x, cut, 6), order), row, 5);
}

static weft_tensor *classify(weft_module *m, weft_tensor *const *in, int n)
{
    const struct vit_config *c = weft_module_payload(m);
    weft_tensor *cls = weft_module_parameter(m, "cls"), *x, *logits;

    x = weft_call(weft_module_child(m, "patch"), patches(in[0], c));
    cls = weft_expand(cls, (int64_t[]){weft_size(in[0], 0), 1, c->features}, 3);
    x = weft_cat((weft_tensor *[]){cls, x}, 2, 1);
    x = weft_call(weft_module_child(m, "positions"), x);
    x = weft_call(weft_module_child(m, "blocks"), x);
    x = weft_select(weft_call(weft_module_child(m, "norm"), x), 1, 0);
    logits = weft_call(weft_module_child(m, "head"), x);
    if (n == 1) return logits;
    return weft_call_n(weft_module_child(m, "loss"), (weft_tensor *[]){logits, in[1]}, 2);
}

static weft_module *blocks_new(const struct vit_config *c)
{
    weft_module *blocks = weft_sequential_new();
    char name[16];

    for (int i = 0; i < c->layers; i++) {
        snprintf(name, sizeof name, "%d", i);
        weft_module_add_child(blocks, name,
                              weft_block_new((weft_block_config){.width = c->features,
                                                                 .heads = c->heads,
                                                                 .hidden = c->hidden,
                                                                 .eps = 1e-12,
                                                                 .bidirectional = true,
                                                                 .dtype = c->dtype}));
    }
    return blocks;
}

weft_module *vit_new(struct vit_config c)
{
    static const weft_module_class kind = {
        .type = "vit", .forward = classify, .free = free, .optional = 1};
    struct vit_config *own = malloc(sizeof *own);
    weft_module *m = weft_module_new(&kind, own);
    int64_t tokens = c.height / c.patch * (c.width / c.patch) + 1;
    weft_scope *scope = weft_scope_open();

    *own = c;
    weft_module_add_parameter(m, "cls", weft_full(c.dtype, (int64_t[]){1, 1, c.features}, 3, 0));
    weft_scope_close(scope);
    weft_module_add_child(m, "patch",
                          weft_linear_new((weft_linear_config){.in = {c.channels, c.patch, c.patch},
                                                               .out = {c.features},
                                                               .dtype = c.dtype}));
    weft_module_add_child(m, "positions",
                          weft_position_new((weft_position_config){
                              .length = tokens, .width = c.features, .dtype = c.dtype}));
    weft_module_add_child(m, "blocks", blocks_new(&c));
    weft_module_add_child(m, "norm",
                          weft_layer_norm_new((weft_norm_config){
                              .width = c.features, .eps = 1e-12, .dtype = c.dtype}));
    weft_module_add_child(m, "head",
                          weft_linear_new((weft_linear_config){
                              .in = {c.features}, .out = {c.classes}, .dtype = c.dtype}));
    weft_module_add_child(
        m, "loss", weft_cross_entropy_new((weft_cross_entropy_config){.classes = c.classes}));
    return m;
}

static const weft_weight_rule rules[] = {
    {.parameter = "cls", .name = "vit.embeddings.cls_token"},
    {.parameter = "patch.*", .name = "vit.embeddings.patch_embeddings.projection.*"},
    {.parameter = "positions.weight", .name = "vit.embeddings.position_embeddings"},
    {.parameter = "blocks.*.norm1.*", .name = "vit.layers.*.layernorm_before.*"},
    {.parameter = "blocks.*.attn.qkv.*",
     .name = "vit.layers.*.attention.q_proj.* + vit.layers.*.attention.k_proj.* + "
             "vit.layers.*.attention.v_proj.*",
     .rows = 3},
    {.parameter = "blocks.*.attn.proj.*", .name = "vit.layers.*.attention.o_proj.*"},
    {.parameter = "blocks.*.norm2.*", .name = "vit.layers.*.layernorm_after.*"},
    {.parameter = "blocks.*.mlp.up.*", .name = "vit.layers.*.mlp.fc1.*"},
    {.parameter = "blocks.*.mlp.down.*", .name = "vit.layers.*.mlp.fc2.*"},
    {.parameter = "norm.*", .name = "vit.layernorm.*"},
    {.parameter = "head.*", .name = "classifier.*"},
};

const weft_weight_names vit_names = {
    .family = "vit", .n_rules = (int)(sizeof rules / sizeof *rules), .rules = rules};
