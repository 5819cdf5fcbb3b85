/*
 * model.c: a convolution whose step is as long as its kernel makes a word of each patch; then a
 * transformer in which every word sees every other, and a first word that stands for the image.
 */
#include "vit/model.h"

#include <stdio.h>
#include <stdlib.h>

static const double eps = 1e-12; /* of the norms */

/* ---- the model, on one device ---- */

/* images [B,C,H,W] -> [B,patches,features] */
static weft_tensor *words(weft_module *m, weft_tensor *images)
{
    weft_tensor *x = weft_call(weft_module_child(m, "patch"), images);

    return weft_transpose(weft_flatten(x, 2, 3), 1, 2);
}

static weft_tensor *forward(weft_module *m, weft_tensor *const *in, int n)
{
    weft_tensor *cls = weft_module_parameter(m, "cls"), *x = words(m, in[0]), *logits;

    cls = weft_expand(cls, (int64_t[]){weft_size(x, 0), 1, weft_size(x, 2)}, 3);
    x = weft_cat((weft_tensor *[]){cls, x}, 2, 1);
    x = weft_call(weft_module_child(m, "positions"), x);
    x = weft_call(weft_module_child(m, "blocks"), x);
    x = weft_select(weft_call(weft_module_child(m, "norm"), x), 1, 0);
    logits = weft_call(weft_module_child(m, "head"), x);
    if (n == 1) return logits;
    return weft_call_n(weft_module_child(m, "loss"), (weft_tensor *[]){logits, in[1]}, 2);
}

static weft_module *blocks_new(const struct vit_model *v)
{
    weft_module *blocks = weft_sequential_new();
    char name[16];

    for (int i = 0; i < v->layers; i++) {
        snprintf(name, sizeof name, "%d", i);
        weft_module_add_child(blocks, name,
                              weft_block_new((weft_block_config){.width = v->features,
                                                                 .heads = v->heads,
                                                                 .hidden = v->hidden,
                                                                 .eps = eps,
                                                                 .bidirectional = true,
                                                                 .dtype = v->dtype}));
    }
    return blocks;
}

static weft_module *patch_new(const struct vit_model *v)
{
    return weft_conv2d_new((weft_conv_config){.in = v->channels,
                                              .out = v->features,
                                              .kernel = {v->patch, v->patch},
                                              .options = {.stride = {v->patch, v->patch}},
                                              .dtype = v->dtype});
}

/* A failure of one part is that of whoever adds it, and stays recorded. */
weft_module *vit_model_new(struct vit_model v)
{
    static const weft_module_class kind = {
        .type = "vision transformer", .forward = forward, .optional = 1};
    weft_module *m = weft_module_new(&kind, NULL);
    int64_t patches = v.height / v.patch * (v.width / v.patch);
    weft_position_config positions = {
        .length = patches + 1, .width = v.features, .std = 0.02, .dtype = v.dtype};
    weft_norm_config norm = {.width = v.features, .eps = eps, .dtype = v.dtype};
    weft_linear_config head = {.in = {v.features}, .out = {v.classes}, .dtype = v.dtype};
    weft_cross_entropy_config loss = {.classes = v.classes};
    weft_scope *scope = weft_scope_open();
    weft_status status = weft_module_add_parameter(
        m, "cls", weft_full(v.dtype, (int64_t[]){1, 1, v.features}, 3, 0));

    weft_scope_close(scope);
    if (!status) status = weft_module_add_child(m, "patch", patch_new(&v));
    if (!status) status = weft_module_add_child(m, "positions", weft_position_new(positions));
    if (!status) status = weft_module_add_child(m, "blocks", blocks_new(&v));
    if (!status) status = weft_module_add_child(m, "norm", weft_layer_norm_new(norm));
    if (!status) status = weft_module_add_child(m, "head", weft_linear_new(head));
    if (!status) status = weft_module_add_child(m, "loss", weft_cross_entropy_new(loss));
    if (!status) return m;
    weft_module_release(m);
    return NULL;
}

/* ---- over ranks ---- */

/* Each rank makes some of the features: its rows of the weight, and of the bias. */
static weft_status split_features(weft_module *m, weft_mesh *mesh, void *payload)
{
    static const char *const names[] = {"weight", "bias"};
    const weft_placement rows = weft_shard(0);
    weft_status status = WEFT_OK;

    (void)payload;
    for (int i = 0; i < 2 && !status; i++) {
        weft_tensor *whole = weft_module_parameter(m, names[i]);

        status =
            weft_module_set_parameter(m, names[i], weft_distribute_tensor(whole, mesh, &rows, -1));
    }
    return status;
}

/* All ranks have the same images. */
static weft_status take_images(weft_module *m, weft_tensor **in, int n, weft_mesh *mesh,
                               void *payload)
{
    (void)m, (void)n, (void)payload;
    in[0] = weft_from_local(in[0], mesh, NULL, NULL);
    return in[0] ? WEFT_OK : weft_error_status();
}

/* Blocks want all features of a word. */
static weft_tensor *give_all(weft_module *m, weft_tensor *out, weft_mesh *mesh, void *payload)
{
    (void)m, (void)mesh, (void)payload;
    return weft_full_tensor(out);
}

static const weft_style_functions patch_style = {.name = "convolution, by output channels",
                                                 .partition = split_features,
                                                 .input = take_images,
                                                 .output = give_all};

const weft_plan vit_model_plan[] = {
    {"patch", {.kind = WEFT_STYLE_CUSTOM, .functions = &patch_style}},
    {"blocks.*.attn.qkv", {.kind = WEFT_STYLE_COLWISE}},
    {"blocks.*.attn.proj", {.kind = WEFT_STYLE_ROWWISE}},
    {"blocks.*.mlp.up", {.kind = WEFT_STYLE_COLWISE}},
    {"blocks.*.mlp.down", {.kind = WEFT_STYLE_ROWWISE}},
    {"head", {.kind = WEFT_STYLE_COLWISE, .options = {.keep_distributed = true}}},
    {"loss", {.kind = WEFT_STYLE_LOSS}},
    {0},
};
