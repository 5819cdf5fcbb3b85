/*
 * style.c: from a row of styles.def to placements, and what the hooks of a style do with them.
 *
 * Which collectives run follows from these placements alone: the hooks redistribute, and the
 * operation's own sharding rule (ops/ops.def) does the rest.
 */
#include "parallel_styles/style.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/where.h"

/* ---- rows ---- */

enum share { SHARE_R, SHARE_P, SHARE_OUT, SHARE_IN };

struct row {
    weft_style_kind style;
    const weft_module_class *kind;
    enum share weight, bias, wants, gives;
};

static const struct row rows[] = {
#define WF_STYLE(style, module, weight, bias, wants, gives)                                        \
    {WEFT_STYLE_##style, &wf_class_##module, SHARE_##weight,                                       \
     SHARE_##bias,       SHARE_##wants,      SHARE_##gives},
#include "parallel_styles/styles.def"
#undef WF_STYLE
};

enum { N_ROWS = sizeof rows / sizeof *rows };

static const char *const names[WEFT_STYLES] = {
    [WEFT_STYLE_COLWISE] = "colwise", [WEFT_STYLE_ROWWISE] = "rowwise", [WEFT_STYLE_LOSS] = "loss"};

const char *wf_style_name(weft_style_kind kind)
{
    return (unsigned)kind < WEFT_STYLES ? names[kind] : "unknown";
}

static const struct row *find_row(const weft_module *m, weft_style_kind style)
{
    for (int i = 0; i < N_ROWS; i++)
        if (rows[i].style == style && rows[i].kind == m->kind) return &rows[i];
    return NULL;
}

/* The types a style has rows for: "linear, embedding". */
static void list_types(char *text, size_t bytes, weft_style_kind style)
{
    size_t at = 0;

    text[0] = '\0';
    for (int i = 0; i < N_ROWS && at < bytes; i++)
        if (rows[i].style == style)
            at +=
                (size_t)snprintf(text + at, bytes - at, "%s%s", at ? ", " : "", rows[i].kind->type);
}

/* ---- resolving ---- */

static weft_placement placed(enum share share, int out_dim, int in_dim)
{
    switch (share) {
    case SHARE_OUT:
        return weft_shard(out_dim);
    case SHARE_IN:
        return weft_shard(in_dim);
    case SHARE_P:
        return weft_partial(WEFT_SUM);
    default:
        return weft_replicate();
    }
}

static weft_status override(weft_placement *placement, const char *text, const char *field)
{
    int count;

    if (!text) return WEFT_OK;
    count = weft_placements_parse(placement, 1, text);
    if (count < 0) return weft_error_status();
    WF_NEED(count == 1, WEFT_ERR_ARG, "%s \"%s\": one placement is needed, not %d", field, text,
            count);
    return WEFT_OK;
}

weft_status wf_style_resolve(struct wf_style_use *use, const weft_module *m, weft_style style)
{
    const struct row *row = find_row(m, style.kind);
    const struct wf_features *f = m->features;
    struct wf_where before = wf_here;
    weft_status status;
    char types[128];

    if (!row) {
        list_types(types, sizeof types, style.kind);
        return WF_FAIL(WEFT_ERR_ARG, "style %s does not support module '%s' of type %s (only: %s)",
                       wf_style_name(style.kind), m->path, m->kind->type, types);
    }
    *use = (struct wf_style_use){.kind = style.kind,
                                 .weight = placed(row->weight, f->weight_out, f->weight_in),
                                 .bias = placed(row->bias, f->bias_out, 0),
                                 .wants = placed(row->wants, 0, f->input_dim),
                                 .output = placed(row->gives, f->output_dim, 0),
                                 .keep_distributed = style.options.keep_distributed};
    use->declared = use->wants;
    if (use->output.kind == WEFT_KIND_PARTIAL) use->output = weft_replicate();
    wf_here.module = m->path;
    status = override(&use->declared, style.options.input_layouts, "input_layouts");
    if (status == WEFT_OK)
        status = override(&use->output, style.options.output_layouts, "output_layouts");
    wf_here = before;
    return status;
}

/* ---- applying ---- */

static weft_status partition(weft_module *m, weft_mesh *mesh, void *payload)
{
    const struct wf_style_use *use = payload;

    for (int i = 0; i < m->n_parameters; i++)
        WF_TRY(wf_distribute_parameter(m, i, mesh, i == 0 ? &use->weight : &use->bias));
    return WEFT_OK;
}

/*
 * The global shape of which a plain input is a part. A feature dim's size is known from the layer,
 * so uneven shards are fine there; any other sharded dim can only be taken for even (NULL).
 */
static const int64_t *global_shape(int64_t *shape, const weft_module *m, const weft_tensor *x,
                                   weft_placement declared)
{
    const struct wf_features *f = m->features;
    int ndim = weft_ndim(x), dim = declared.dim < 0 ? declared.dim : declared.dim - ndim;
    int64_t known = 0;

    if (dim < 0 && -dim <= f->n_in && -dim <= ndim) known = f->in_sizes[f->n_in + dim];
    if (!weft_shards(declared, declared.dim) || !known) return NULL;
    for (int d = 0; d < ndim; d++) shape[d] = weft_size(x, d);
    shape[ndim + dim] = known;
    return shape;
}

static weft_tensor *take_input(const weft_module *m, weft_tensor *x, weft_mesh *mesh,
                               weft_placement declared, weft_placement wants)
{
    int64_t shape[WEFT_MAX_DIMS];
    weft_mesh *own = weft_tensor_mesh(x);

    if (!own)
        x = weft_from_local(x, mesh, &declared, global_shape(shape, m, x, declared));
    else
        WF_NEED_PTR(weft_mesh_ndim(own) == 1, WEFT_ERR_LAYOUT,
                    "%s: an input lies on a mesh of %d axes, the style on one", m->kind->type,
                    weft_mesh_ndim(own));
    return x ? weft_redistribute(x, &wants) : NULL;
}

static weft_status take_inputs(weft_module *m, weft_tensor **inputs, int n, weft_mesh *mesh,
                               void *payload)
{
    const struct wf_style_use *use = payload;

    inputs[0] = take_input(m, inputs[0], mesh, use->declared, use->wants);
    for (int i = 1; i < n && inputs[i - 1]; i++)
        inputs[i] = take_input(m, inputs[i], mesh, weft_replicate(), weft_replicate());
    return inputs[n - 1] ? WEFT_OK : weft_error_status();
}

static weft_tensor *hand_output(weft_module *m, weft_tensor *output, weft_mesh *mesh, void *payload)
{
    const struct wf_style_use *use = payload;
    weft_tensor *y;

    (void)mesh;
    WF_NEED_PTR(weft_tensor_mesh(output), WEFT_ERR_LAYOUT, "%s: the output of style %s is plain",
                m->kind->type, wf_style_name(use->kind));
    y = weft_redistribute(output, &use->output);
    return y && !use->keep_distributed ? weft_to_local(y, NULL) : y;
}

weft_status wf_style_apply(weft_module *m, weft_mesh *mesh, const struct wf_style_use *use)
{
    struct wf_style_use *kept = WF_NEW(struct wf_style_use);
    struct wf_distribution how = {.partition = partition,
                                  .input = take_inputs,
                                  .output = hand_output,
                                  .payload = kept,
                                  .release = wf_free};

    *kept = *use;
    return wf_distribute(m, mesh, &how);
}
