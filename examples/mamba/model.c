/* model.c: mixers one after the other, each beside the stream of words. */
#include "mamba/model.h"

#include <stdio.h>

static weft_tensor *block_forward(weft_module *m, weft_tensor *const *in, int n)
{
    weft_tensor *x = weft_call(weft_module_child(m, "norm"), in[0]);

    (void)n;
    return weft_add(in[0], weft_call(weft_module_child(m, "mixer"), x));
}

static weft_module *norm_new(const struct mamba *c)
{
    return weft_rms_norm_new((weft_norm_config){.width = c->mixer.width, .dtype = c->mixer.dtype});
}

static weft_module *block_new(const struct mamba *c)
{
    static const weft_module_class kind = {.type = "mamba block", .forward = block_forward};
    weft_module *m = weft_module_new(&kind, NULL);
    weft_status status = weft_module_add_child(m, "norm", norm_new(c));

    if (!status) status = weft_module_add_child(m, "mixer", mixer_new(c->mixer));
    if (!status) return m;
    weft_module_release(m);
    return NULL;
}

static weft_module *blocks_new(const struct mamba *c)
{
    weft_module *blocks = weft_sequential_new();
    weft_status status = WEFT_OK;
    char name[16];

    for (int i = 0; i < c->layers && !status; i++) {
        snprintf(name, sizeof name, "%d", i);
        status = weft_module_add_child(blocks, name, block_new(c));
    }
    if (!status) return blocks;
    weft_module_release(blocks);
    return NULL;
}

static weft_tensor *forward(weft_module *m, weft_tensor *const *in, int n)
{
    weft_tensor *x = weft_call(weft_module_child(m, "wte"), in[0]);

    x = weft_call(weft_module_child(m, "blocks"), x);
    x = weft_call(weft_module_child(m, "norm_f"), x);
    x = weft_call(weft_module_child(m, "head"), x);
    if (n == 1) return x;
    return weft_call_n(weft_module_child(m, "loss"), (weft_tensor *[]){x, in[1]}, 2);
}

weft_module *mamba_new(struct mamba c)
{
    static const weft_module_class kind = {.type = "mamba", .forward = forward, .optional = 1};
    weft_embedding_config wte = {
        .rows = c.vocab, .width = c.mixer.width, .std = 0.02, .dtype = c.mixer.dtype};
    weft_linear_config head = {
        .in = {c.mixer.width}, .out = {c.vocab}, .no_bias = true, .dtype = c.mixer.dtype};
    weft_cross_entropy_config loss = {.classes = c.vocab};
    weft_module *m = weft_module_new(&kind, NULL);
    weft_status status = weft_module_add_child(m, "wte", weft_embedding_new(wte));

    if (!status) status = weft_module_add_child(m, "blocks", blocks_new(&c));
    if (!status) status = weft_module_add_child(m, "norm_f", norm_new(&c));
    if (!status) status = weft_module_add_child(m, "head", weft_linear_new(head));
    if (!status) status = weft_module_add_child(m, "loss", weft_cross_entropy_new(loss));
    if (!status) return m;
    weft_module_release(m);
    return NULL;
}

#define HANDS_ON                                                                                   \
    {                                                                                              \
        .keep_distributed = true                                                                   \
    }

const weft_plan mamba_plan[] = {
    {"wte", {.kind = WEFT_STYLE_ROWWISE}},
    {"blocks.*.mixer.in", {.kind = WEFT_STYLE_COLWISE, .options = HANDS_ON}},
    {"blocks.*.mixer.conv", {.kind = WEFT_STYLE_CUSTOM, .functions = &mixer_by_channels}},
    {"blocks.*.mixer.select", {.kind = WEFT_STYLE_ROWWISE, .options = HANDS_ON}},
    {"blocks.*.mixer.step", {.kind = WEFT_STYLE_COLWISE, .options = HANDS_ON}},
    {"blocks.*.mixer.scan", {.kind = WEFT_STYLE_CUSTOM, .functions = &mixer_by_channels}},
    {"blocks.*.mixer.out", {.kind = WEFT_STYLE_ROWWISE}},
    {"head", {.kind = WEFT_STYLE_COLWISE, .options = HANDS_ON}},
    {"loss", {.kind = WEFT_STYLE_LOSS}},
    {0},
};
