/*
 * cross_attention.c: attention of one sequence to another.
 *
 * Shapes: B batch, T tokens that ask, S tokens of the memory that they look at, C and M widths, H
 * heads, D head size. Queries have a product of their own; keys and values share one, [B,S,2,H,D],
 * which the kernel reads where it lies.
 */
#include <weft/ops.h>

#include "nn/attention/attention_dropout.h"
#include "nn/attention/attention_inputs.h"
#include "nn/layer_construction.h"

struct cross {
    weft_module *q, *kv, *proj;
    double dropout, scale;
    int64_t heads;
};

static weft_tensor *attend_fused(const struct cross *a, weft_tensor *q, weft_tensor *k,
                                 weft_tensor *v, const struct wf_attention_inputs *in)
{
    weft_attention_options options = {.scale = a->scale, .mask = in->mask, .bias = in->bias};

    return weft_attention_with(q, k, v, options);
}

static weft_tensor *attend_with_dropout(const struct cross *a, weft_tensor *q, weft_tensor *k,
                                        weft_tensor *v, const struct wf_attention_inputs *in)
{
    return wf_attention_with_dropout(&(struct wf_dropout_attention){.q = q,
                                                                    .k = k,
                                                                    .v = v,
                                                                    .mask = in->mask,
                                                                    .bias = in->bias,
                                                                    .scale = a->scale,
                                                                    .p = a->dropout,
                                                                    .made_by = a->q,
                                                                    .heads_in_all = a->heads});
}

static weft_tensor *cross_attention_forward(weft_module *m, weft_tensor *const *inputs, int n)
{
    const struct cross *a = m->payload;
    bool dropped = m->training && a->dropout > 0;
    struct wf_attention_inputs in;
    weft_tensor *q, *kv, *k, *v;

    WF_TRY_PTR(wf_attention_sort_inputs(&in, "cross attention", inputs + 2, n - 2));
    WF_NEED_PTR(!in.positions, WEFT_ERR_ARG, "cross attention: it has no positions");
    q = weft_call(a->q, inputs[0]);
    kv = weft_call(a->kv, inputs[1]);
    k = weft_select(kv, 2, 0);
    v = weft_select(kv, 2, 1);
    return weft_call(a->proj, (dropped ? attend_with_dropout : attend_fused)(a, q, k, v, &in));
}

static const weft_module_class class_cross = {.type = "cross attention",
                                              .forward = cross_attention_forward,
                                              .free = wf_free,
                                              .inputs = 2,
                                              .optional = 2};

static weft_status check_cross_attention_config(const weft_cross_attention_config *c)
{
    WF_TRY(wf_check_positive_size("cross attention", "width", c->width));
    WF_TRY(wf_check_positive_size("cross attention", "heads", c->heads));
    WF_NEED(c->memory_width >= 0, WEFT_ERR_ARG, "cross attention: memory_width is %lld",
            (long long)c->memory_width);
    WF_NEED(c->head_dim > 0 || (c->head_dim == 0 && c->width % c->heads == 0), WEFT_ERR_ARG,
            "cross attention: width %lld is no multiple of %lld heads, head_dim is %lld",
            (long long)c->width, (long long)c->heads, (long long)c->head_dim);
    WF_NEED(c->dropout >= 0 && c->dropout <= 1, WEFT_ERR_ARG, "cross attention: dropout is %g",
            c->dropout);
    WF_NEED(c->scale >= 0, WEFT_ERR_ARG, "cross attention: scale is %g", c->scale);
    return WEFT_OK;
}

static weft_status build_cross_attention(weft_module *m, const weft_cross_attention_config *c)
{
    struct cross *a = m->payload;
    int64_t d;

    WF_TRY(check_cross_attention_config(c));
    d = c->head_dim ? c->head_dim : c->width / c->heads;
    *a = (struct cross){.dropout = c->dropout, .scale = c->scale, .heads = c->heads};
    a->q = weft_linear_new((weft_linear_config){.in = {c->width},
                                                .out = {c->heads, d},
                                                .no_bias = c->no_bias,
                                                .std = c->std,
                                                .dtype = c->dtype});
    WF_TRY(wf_layer_add_child(m, "q", &a->q));
    a->kv =
        weft_linear_new((weft_linear_config){.in = {c->memory_width ? c->memory_width : c->width},
                                             .out = {2, c->heads, d},
                                             .out_split = 1,
                                             .no_bias = c->no_bias,
                                             .std = c->std,
                                             .dtype = c->dtype});
    WF_TRY(wf_layer_add_child(m, "kv", &a->kv));
    a->proj = weft_linear_new((weft_linear_config){.in = {c->heads, d},
                                                   .out = {c->width},
                                                   .no_bias = c->no_bias || c->no_proj_bias,
                                                   .std = c->out_std > 0 ? c->out_std : c->std,
                                                   .dtype = c->dtype});
    return wf_layer_add_child(m, "proj", &a->proj);
}

weft_module *weft_cross_attention_new(weft_cross_attention_config config)
{
    weft_module *m = wf_layer_new(&class_cross, sizeof(struct cross));

    return wf_layer_finish(m, build_cross_attention(m, &config));
}
