/*
 * apply.c: from the rows to styles: one style on the module itself, or a plan for its parts. The
 * custom style is column-wise parallel written by hand.
 */
#include <string.h>

#include "suite.h"

/* ---- a style of one's own ---- */

static weft_status cut_parameters(weft_module *m, weft_mesh *mesh, void *payload)
{
    static const char *const names[] = {"weight", "bias"};
    const weft_placement rows = weft_shard(0);
    const struct ws_case *c = payload;

    for (int i = 0; i < 1 + ws_has_bias(c); i++) {
        weft_tensor *whole = weft_module_parameter(m, names[i]);
        weft_tensor *part = weft_distribute_tensor(whole, mesh, &rows, -1);

        if (!part || weft_module_set_parameter(m, names[i], part) != WEFT_OK)
            return weft_error_status();
    }
    return WEFT_OK;
}

static weft_status bring_whole(weft_module *m, weft_tensor **inputs, int n, weft_mesh *mesh,
                               void *payload)
{
    const weft_placement whole = weft_replicate();
    const struct ws_case *c = payload;
    int64_t shape[WEFT_MAX_DIMS];
    struct ws_layouts l;
    weft_tensor *x = inputs[0];

    (void)m;
    (void)n;
    ws_layouts_of(&l, c);
    ws_shape(shape, ws_layer_of(c)->input, (enum ws_size)c->at[WS_SIZE_COLUMN],
             weft_mesh_size(mesh));
    if (!weft_tensor_mesh(x)) x = weft_from_local(x, mesh, &l.given, shape);
    inputs[0] = weft_redistribute(x, &whole);
    return inputs[0] ? WEFT_OK : weft_error_status();
}

static weft_tensor *hand_on(weft_module *m, weft_tensor *output, weft_mesh *mesh, void *payload)
{
    const struct ws_case *c = payload;
    struct ws_layouts l;
    weft_tensor *y;

    (void)m;
    (void)mesh;
    ws_layouts_of(&l, c);
    y = weft_redistribute(output, &l.out);
    return y && !ws_output_of(c)->distributed ? weft_to_local(y, NULL) : y;
}

static weft_style custom(const struct ws_case *c)
{
    static const weft_style_functions functions = {"by hand", cut_parameters, bring_whole, hand_on,
                                                   NULL};

    return weft_custom_style(&functions, (void *)(uintptr_t)c);
}

/* ---- the library's ---- */

static weft_style prepare(const struct ws_case *c)
{
    const char *in = ws_input_of(c)->layout, *out = ws_output_of(c)->layout;
    weft_style_options options = {.keep_distributed = ws_output_of(c)->distributed};

    switch (ws_subject_of(c)->style) {
    case WS_PREPARE_INPUT:
        options.input_layouts = in;
        options.desired_input_layouts = out;
        options.local_inputs = !ws_output_of(c)->distributed;
        break;
    case WS_PREPARE_OUTPUT:
        options.output_layouts = in;
        options.desired_output_layouts = out;
        break;
    default:
        options.input_layouts = in;
        options.desired_input_layouts = options.output_layouts = ws_subject_of(c)->wants;
        options.desired_output_layouts = out;
    }
    return weft_prepare_module_input_output(options);
}

static weft_style style_of(const struct ws_case *c)
{
    static const weft_style_kind kinds[] = {[WS_COLWISE] = WEFT_STYLE_COLWISE,
                                            [WS_ROWWISE] = WEFT_STYLE_ROWWISE,
                                            [WS_SEQUENCE] = WEFT_STYLE_SEQUENCE,
                                            [WS_LOSS] = WEFT_STYLE_LOSS};
    enum ws_style_id style = ws_subject_of(c)->style;
    enum ws_layer_id layer = ws_subject_of(c)->layer;
    bool fused = layer == WS_FUSED || layer == WS_UNFUSED;

    if (style == WS_CUSTOM) return custom(c);
    if (style > WS_CUSTOM) return prepare(c);
    return weft_style_make(kinds[style],
                           (weft_style_options){.segments = fused ? "3" : NULL,
                                                .input_layouts = ws_input_of(c)->layout,
                                                .output_layouts = ws_output_of(c)->layout,
                                                .keep_distributed = ws_output_of(c)->distributed});
}

/* ---- plans ---- */

static weft_status apply_pair(weft_module *m, weft_mesh *mesh, const struct ws_case *c)
{
    weft_style first =
        weft_colwise_parallel_with((weft_style_options){.input_layouts = ws_input_of(c)->layout});
    weft_style last = weft_rowwise_parallel_with(
        (weft_style_options){.output_layouts = ws_output_of(c)->layout,
                             .keep_distributed = ws_output_of(c)->distributed});
    bool mlp = ws_subject_of(c)->layer == WS_MLP || ws_subject_of(c)->layer == WS_GATED_MLP;
    weft_plan plan[] = {{mlp ? "up" : "qkv", first}, {mlp ? "down" : "proj", last}, {0}};

    return weft_parallelize_module_strict(m, mesh, plan);
}

/* Of a ready plan the lines that are about blocks: there is nothing else here. */
static weft_status apply_ready(weft_module *m, weft_mesh *mesh, const weft_plan *ready)
{
    static const char blocks[] = "blocks.";
    weft_plan plan[16] = {0};
    int n = 0;

    for (; ready->pattern && n < 15; ready++)
        if (strncmp(ready->pattern, blocks, sizeof blocks - 1) == 0) plan[n++] = *ready;
    return weft_parallelize_module_strict(m, mesh, plan);
}

weft_status ws_apply(weft_module *m, weft_mesh *mesh, const struct ws_case *c)
{
    bool bert = ws_subject_of(c)->layer == WS_BERT_BLOCK;

    switch (ws_subject_of(c)->style) {
    case WS_PLAN:
        return apply_pair(m, mesh, c);
    case WS_READY:
        return apply_ready(m, mesh, bert ? weft_bert_plan() : weft_gpt_plan());
    case WS_READY_SEQUENCE:
        return apply_ready(m, mesh, bert ? weft_bert_plan_sequence() : weft_gpt_plan_sequence());
    default:
        return weft_parallelize_module_strict(m, mesh, (weft_plan[]){{"", style_of(c)}, {0}});
    }
}
