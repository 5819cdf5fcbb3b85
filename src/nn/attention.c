/*
 * attention.c: causal self-attention with queries, keys and values from one product.
 *
 * Shapes: B batch, T tokens, C width, H heads, D = C / H. The packed product [B,T,3,H,D] goes into
 * the fused kernel as it is; H is a dim of both weights, so heads can be split unevenly.
 */
#include <weft/ops.h>

#include "nn/layer.h"

struct attention {
    weft_module *qkv, *proj;
};

static weft_tensor *forward(weft_module *m, weft_tensor *const *inputs, int n)
{
    const struct attention *attention = m->payload;
    weft_tensor *qkv_bt3hd = weft_call(attention->qkv, inputs[0]);

    (void)n;
    return weft_call(attention->proj, weft_attention_packed(qkv_bt3hd, true, 0));
}

static const weft_module_class class_attention = {
    .type = "attention", .forward = forward, .free = wf_free};

static weft_status build(weft_module *m, const weft_attention_config *c)
{
    struct attention *attention = m->payload;

    WF_TRY(wf_need_size("attention", "width", c->width));
    WF_TRY(wf_need_size("attention", "heads", c->heads));
    WF_NEED(c->width % c->heads == 0, WEFT_ERR_ARG,
            "attention: width %lld is no multiple of %lld heads", (long long)c->width,
            (long long)c->heads);
    attention->qkv = weft_linear_new((weft_linear_config){.in = {c->width},
                                                          .out = {3, c->heads, c->width / c->heads},
                                                          .out_split = 1,
                                                          .no_bias = c->no_bias,
                                                          .std = c->std,
                                                          .dtype = c->dtype});
    WF_TRY(weft_module_add_child(m, "qkv", attention->qkv));
    attention->proj =
        weft_linear_new((weft_linear_config){.in = {c->heads, c->width / c->heads},
                                             .out = {c->width},
                                             .no_bias = c->no_bias,
                                             .std = c->out_std > 0 ? c->out_std : c->std,
                                             .dtype = c->dtype});
    return weft_module_add_child(m, "proj", attention->proj);
}

weft_module *weft_attention_new(weft_attention_config config)
{
    weft_module *m = wf_layer_new(&class_attention, sizeof(struct attention));

    return wf_layer_done(m, build(m, &config));
}
