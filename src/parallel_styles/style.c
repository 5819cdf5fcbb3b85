/*
 * style.c: from a row of styles.def to placements, and what the hooks of a style do with them.
 *
 * Which collectives run follows from these placements alone: the hooks redistribute, and the
 * operation's own sharding rule (ops/ops.def) does the rest.
 */
#include "parallel_styles/style.h"

#include <stdlib.h>
#include <string.h>

#include "base/call_context.h"
#include "base/error.h"
#include "base/mem.h"

/* ---- rows ---- */

enum share { SHARE_R, SHARE_P, SHARE_OUT, SHARE_IN, SHARE_SEQ, SHARE_NO };

struct row {
    weft_style_kind style;
    const weft_module_class *kind;
    enum share weight, bias, wants, gives, back;
    enum wf_style_own_communication own;
};

static const struct row rows[] = {
#define WF_STYLE(style, module, weight, bias, wants, gives, back, own)                             \
    {WEFT_STYLE_##style, &wf_class_##module, SHARE_##weight, SHARE_##bias,                         \
     SHARE_##wants,      SHARE_##gives,      SHARE_##back,   WF_OWN_##own},
#include "parallel_styles/styles.def"
#undef WF_STYLE
};

enum { N_ROWS = sizeof rows / sizeof *rows };

static const char *const names[WEFT_STYLES] = {
    [WEFT_STYLE_COLWISE] = "colwise", [WEFT_STYLE_ROWWISE] = "rowwise",
    [WEFT_STYLE_LOSS] = "loss",       [WEFT_STYLE_SEQUENCE] = "sequence",
    [WEFT_STYLE_PREPARE] = "prepare", [WEFT_STYLE_CUSTOM] = "custom"};

const char *wf_style_name(weft_style style)
{
    if (style.kind == WEFT_STYLE_CUSTOM && style.functions && style.functions->name)
        return style.functions->name;
    return (unsigned)style.kind < WEFT_STYLES ? names[style.kind] : "unknown";
}

weft_style_kind wf_style_kind_by_name(const char *name, size_t length)
{
    int kind = 0;

    while (kind < WEFT_STYLES &&
           (strlen(names[kind]) != length || strncmp(names[kind], name, length) != 0))
        kind++;
    return (weft_style_kind)kind;
}

static const struct row *find_style_row(const weft_module *m, weft_style_kind style)
{
    for (int i = 0; i < N_ROWS; i++)
        if (rows[i].style == style && rows[i].kind == m->kind) return &rows[i];
    return NULL;
}

/* The types a style has rows for: "linear, embedding". */
static void list_supported_types(char *text, size_t bytes, weft_style_kind style)
{
    size_t at = 0;

    text[0] = '\0';
    for (int i = 0; i < N_ROWS && at < bytes; i++)
        if (rows[i].style == style)
            at +=
                (size_t)snprintf(text + at, bytes - at, "%s%s", at ? ", " : "", rows[i].kind->type);
}

/* ---- resolving ---- */

static weft_placement placement_of_share(enum share share, int out_dim, int in_dim,
                                         weft_placement sequence)
{
    switch (share) {
    case SHARE_OUT:
        return weft_shard(out_dim);
    case SHARE_IN:
        return weft_shard(in_dim);
    case SHARE_P:
        return weft_partial(WEFT_SUM);
    case SHARE_SEQ:
        return sequence;
    default:
        return weft_replicate();
    }
}

static weft_status override_placement(weft_placement *placement, const char *text,
                                      const char *field)
{
    struct wf_layout_list layouts;

    if (!text) return WEFT_OK;
    WF_TRY(wf_layout_list_parse(&layouts, text, field));
    WF_NEED(layouts.count == 1 && layouts.given[0], WEFT_ERR_ARG,
            "%s \"%s\": one placement is needed, not %d", field, text,
            layouts.count == 1 ? 0 : layouts.count);
    *placement = layouts.at[0];
    return WEFT_OK;
}

static void resolve_placements_of_row(struct wf_resolved_style *use, const struct row *row,
                                      const struct wf_features *f, weft_placement sequence)
{
    const weft_placement everywhere = weft_replicate();

    use->functions = &wf_row_functions;
    use->weight = placement_of_share(row->weight, f->weight_out, f->weight_in, sequence);
    use->bias = placement_of_share(row->bias, f->bias_out, 0, sequence);
    use->gives = placement_of_share(row->gives, f->output_dim, 0, sequence);
    use->gradient = placement_of_share(row->back, 0, f->input_dim, sequence);
    use->has_gradient = row->back != SHARE_NO;
    use->own = row->own;
    for (int i = 0; i < WEFT_MODULE_INPUTS; i++)
        use->inputs[i] = (struct wf_boundary){
            .taken = true, .moved = true, .declared = everywhere, .wants = everywhere};
    use->inputs[0].wants = placement_of_share(row->wants, 0, f->input_dim, sequence);
    use->inputs[0].declared = use->inputs[0].wants;
    use->n_outputs = 1;
    use->outputs[0] = (struct wf_boundary){
        .taken = true, .moved = true, .declared = use->gives, .wants = use->gives};
    if (use->gives.kind == WEFT_KIND_PARTIAL) use->outputs[0].wants = everywhere;
}

/* "3" or "4,1,1" */
static weft_status parse_segments(weft_placement *segments, const char *text)
{
    int64_t sizes[WEFT_MAX_SEGMENTS] = {1, 1, 1, 1, 1};
    const char *at = text;
    int count = 0;

    do {
        char *end;

        WF_NEED(count < WEFT_MAX_SEGMENTS, WEFT_ERR_ARG, "segments \"%s\": more than %d", text,
                WEFT_MAX_SEGMENTS);
        sizes[count] = strtol(at, &end, 10);
        WF_NEED(end != at && sizes[count] > 0 && sizes[count] <= UINT16_MAX &&
                    (*end == ',' || !*end),
                WEFT_ERR_ARG, "segments \"%s\": sizes are whole numbers with commas between them",
                text);
        count++;
        at = *end ? end + 1 : end;
    } while (*at);
    if (count == 1) {
        WF_NEED(sizes[0] <= WEFT_MAX_SEGMENTS, WEFT_ERR_ARG, "segments \"%s\": more than %d", text,
                WEFT_MAX_SEGMENTS);
        count = (int)sizes[0];
        sizes[0] = 1;
    }
    *segments = weft_shard_segments(0, sizes, count);
    return WEFT_OK;
}

static void set_segments(weft_placement *p, weft_placement segments)
{
    if (!weft_is_shard(*p)) return;
    segments.dim = p->dim;
    *p = segments;
}

/* Whatever corresponds to the split dim of the weight is sharded as it is. */
static weft_status resolve_segments(struct wf_resolved_style *use, const weft_module *m,
                                    const char *text)
{
    weft_placement segments;

    if (!text) return WEFT_OK;
    WF_NEED(m->kind == &wf_class_linear, WEFT_ERR_ARG,
            "style %s: segments are for linear layers, not for %s", names[use->kind],
            m->kind->type);
    WF_TRY(parse_segments(&segments, text));
    set_segments(&use->weight, segments);
    set_segments(&use->bias, segments);
    set_segments(&use->gives, segments);
    set_segments(&use->gradient, segments);
    set_segments(&use->inputs[0].wants, segments);
    set_segments(&use->inputs[0].declared, segments);
    set_segments(&use->outputs[0].declared, segments);
    set_segments(&use->outputs[0].wants, segments);
    return WEFT_OK;
}

/* An embedding has one term per element, so that nothing is rounded. */
static weft_status resolve_f32_sums(struct wf_resolved_style *use, const weft_module *m,
                                    const weft_style_options *o)
{
    bool splits = use->kind == WEFT_STYLE_COLWISE || use->kind == WEFT_STYLE_ROWWISE;

    if (!o->f32_sums) return WEFT_OK;
    WF_NEED(splits, WEFT_ERR_ARG, "style %s: its output is no partial sum, f32_sums has no meaning",
            names[use->kind]);
    if (m->kind == &wf_class_embedding) return WEFT_OK;
    use->outputs[0].wide = weft_is_partial(use->gives);
    use->inputs[0].wide = use->has_gradient && weft_is_partial(use->gradient);
    return WEFT_OK;
}

static weft_status resolve_row_style(struct wf_resolved_style *use, const weft_module *m,
                                     weft_style style, int ways)
{
    static const struct wf_features nothing_to_split = {0};
    const struct row *row = find_style_row(m, style.kind);
    const weft_style_options *o = &style.options;
    weft_placement sequence = weft_shard(1);
    char types[128];

    if (!row) {
        list_supported_types(types, sizeof types, style.kind);
        return WF_FAIL(WEFT_ERR_ARG, "style %s does not support modules of type %s (only: %s)",
                       wf_style_name(style), m->kind->type, types);
    }
    WF_NEED(!o->desired_output_layouts && !o->local_inputs &&
                (!o->desired_input_layouts || style.kind == WEFT_STYLE_SEQUENCE),
            WEFT_ERR_ARG, "style %s: it has no desired layouts of its own and hands on no inputs",
            wf_style_name(style));
    WF_TRY(override_placement(&sequence, o->desired_input_layouts, "desired_input_layouts"));
    WF_NEED(sequence.kind == WEFT_KIND_SHARD, WEFT_ERR_ARG,
            "style sequence: desired_input_layouts \"%s\" is no shard", o->desired_input_layouts);
    resolve_placements_of_row(use, row, m->features ? m->features : &nothing_to_split, sequence);
    wf_style_resolve_shared_heads(use, m, ways);
    WF_TRY(resolve_segments(use, m, o->segments));
    WF_TRY(resolve_f32_sums(use, m, o));
    use->keep_distributed = o->keep_distributed;
    WF_TRY(override_placement(&use->inputs[0].declared, o->input_layouts, "input_layouts"));
    return override_placement(&use->outputs[0].wants, o->output_layouts, "output_layouts");
}

static weft_status resolve_custom_style(struct wf_resolved_style *use, const weft_module *m,
                                        weft_style style)
{
    const weft_style_functions *f = style.functions;

    WF_NEED(f, WEFT_ERR_ARG, "a custom style without functions");
    WF_NEED(f->partition || f->input || f->output || f->outputs, WEFT_ERR_ARG,
            "custom style %s: every function is NULL", wf_style_name(style));
    WF_NEED(!f->output || f->outputs || wf_module_output_count(m) == 1, WEFT_ERR_ARG,
            "custom style %s: %s gives %d outputs: it needs the function `outputs`",
            wf_style_name(style), m->kind->type, wf_module_output_count(m));
    use->functions = f;
    use->payload = style.payload;
    return WEFT_OK;
}

weft_status wf_style_resolve(struct wf_resolved_style *use, const weft_module *m, weft_style style,
                             int ways)
{
    struct wf_call_context before = wf_current_context;
    weft_status status;

    *use = (struct wf_resolved_style){.kind = style.kind, .source = -1};
    wf_current_context.module = m->path;
    if (style.kind == WEFT_STYLE_CUSTOM)
        status = resolve_custom_style(use, m, style);
    else if (style.kind == WEFT_STYLE_PREPARE)
        status = wf_style_resolve_prepare(use, m, style.options);
    else
        status = resolve_row_style(use, m, style, ways);
    wf_current_context = before;
    return status;
}

/* ---- the functions of a row ---- */

static const weft_placement *placement_of_parameter(const struct wf_resolved_style *use,
                                                    const weft_module *m, int index)
{
    if (index == 0) return &use->weight;
    return m->features && m->features->shared_from && index >= m->features->shared_from
               ? &use->shared
               : &use->bias;
}

static weft_status partition_parameters(weft_module *m, weft_mesh *mesh, void *payload)
{
    const struct wf_resolved_style *use = payload;

    for (int i = 0; i < m->n_parameters; i++)
        WF_TRY(wf_distribute_parameter(m, i, mesh, placement_of_parameter(use, m, i), use->source));
    m->wide = use->outputs[0].wide;
    m->wide_gradient = use->inputs[0].wide;
    return wf_style_apply_shared_heads(m, mesh, use);
}

static weft_status convert_inputs(weft_module *m, weft_tensor **inputs, int n, weft_mesh *mesh,
                                  void *payload)
{
    return wf_convert_inputs_at_boundary(m, inputs, n, mesh, payload);
}

static weft_tensor *convert_output(weft_module *m, weft_tensor *output, weft_mesh *mesh,
                                   void *payload)
{
    const struct wf_resolved_style *use = payload;
    weft_tensor *y;

    WF_NEED_PTR(weft_tensor_mesh(output), WEFT_ERR_LAYOUT, "%s: the output of style %s is plain",
                m->kind->type, names[use->kind]);
    y = wf_convert_at_boundary(m, output, mesh, &use->outputs[0]);
    return y && !use->keep_distributed ? weft_to_local(y, NULL) : y;
}

const weft_style_functions wf_row_functions = {"row", partition_parameters, convert_inputs,
                                               convert_output, NULL};

weft_status wf_style_apply(weft_module *m, weft_mesh *mesh, const struct wf_resolved_style *use)
{
    const weft_style_functions *f = use->functions;
    struct wf_module_distribution how = {.partition = f->partition,
                                         .input = f->input,
                                         .output = f->output,
                                         .outputs = f->outputs,
                                         .hooks_only = !f->partition,
                                         .source = use->source,
                                         .payload = use->payload};

    if (use->kind != WEFT_STYLE_CUSTOM) {
        struct wf_resolved_style *copy = WF_NEW(struct wf_resolved_style);

        *copy = *use;
        how.payload = copy;
        how.release = wf_free;
    }
    return wf_distribute_module_with(m, mesh, &how);
}
