/*
 * style_prepare.c: the style that moves inputs and output of any module and leaves its parameters
 * alone.
 *
 * A distributed tensor is taken with the layout that it has, not with the declared one: a wrong
 * declaration then costs a redistribution, never a wrong value.
 */
#include "base/error.h"
#include "base/mem.h"
#include "parallel_styles/style.h"

/* Declared and wanted layouts, one of each per input or output; `count` 0 where none are given. */
static weft_status parse_layout_pair(struct wf_boundary *boundaries, int *count,
                                     const char *declared_text, const char *desired_text,
                                     const char *field, const char *desired_field)
{
    struct wf_layout_list declared, desired;

    *count = 0;
    if (!declared_text && !desired_text) return WEFT_OK;
    WF_NEED(declared_text && desired_text, WEFT_ERR_ARG, "prepare module: %s and %s go together",
            field, desired_field);
    WF_TRY(wf_layout_list_parse(&declared, declared_text, field));
    WF_TRY(wf_layout_list_parse(&desired, desired_text, desired_field));
    WF_NEED(declared.count == desired.count, WEFT_ERR_ARG,
            "prepare module: %s and %s should have same length, not %d and %d", field,
            desired_field, declared.count, desired.count);
    for (int i = 0; i < declared.count; i++)
        boundaries[i] = (struct wf_boundary){.taken = declared.given[i],
                                             .moved = desired.given[i],
                                             .declared = declared.at[i],
                                             .wants = desired.at[i]};
    *count = declared.count;
    return WEFT_OK;
}

static weft_status resolve_input_layouts(struct wf_resolved_style *use, const weft_style_options *o)
{
    return parse_layout_pair(use->inputs, &use->n_inputs, o->input_layouts,
                             o->desired_input_layouts, "input_layouts", "desired_input_layouts");
}

static weft_status resolve_output_layouts(struct wf_resolved_style *use, const weft_module *m,
                                          const weft_style_options *o)
{
    int given = wf_module_output_count(m);

    WF_TRY(parse_layout_pair(use->outputs, &use->n_outputs, o->output_layouts,
                             o->desired_output_layouts, "output_layouts",
                             "desired_output_layouts"));
    WF_NEED(!use->n_outputs || use->n_outputs == given, WEFT_ERR_ARG,
            "prepare module: module outputs and output_layouts should have same length, not %d and "
            "%d",
            given, use->n_outputs);
    return WEFT_OK;
}

weft_status wf_style_resolve_prepare(struct wf_resolved_style *use, const weft_module *m,
                                     weft_style_options options)
{
    WF_NEED(options.input_layouts || options.desired_input_layouts || options.output_layouts ||
                options.desired_output_layouts,
            WEFT_ERR_ARG, "prepare module: neither inputs nor output have layouts");
    WF_NEED(!options.segments && !options.f32_sums, WEFT_ERR_ARG,
            "prepare module: it splits no weight, segments and f32_sums have no meaning");
    WF_TRY(resolve_input_layouts(use, &options));
    WF_TRY(resolve_output_layouts(use, m, &options));
    use->functions = &wf_prepare_functions;
    use->local_inputs = options.local_inputs;
    use->keep_distributed = options.keep_distributed;
    return WEFT_OK;
}

static weft_status convert_inputs(weft_module *m, weft_tensor **inputs, int n, weft_mesh *mesh,
                                  void *payload)
{
    const struct wf_resolved_style *use = payload;

    return use->n_inputs ? wf_convert_inputs_at_boundary(m, inputs, n, mesh, use) : WEFT_OK;
}

static weft_tensor *convert_output(const weft_module *m, weft_tensor *output, weft_mesh *mesh,
                                   const struct wf_resolved_style *use, int i)
{
    weft_tensor *y = wf_convert_at_boundary(m, output, mesh, &use->outputs[i]);

    return y && use->outputs[i].taken && !use->keep_distributed ? weft_to_local(y, NULL) : y;
}

/* Which of several cannot be handed on. */
static weft_status add_output_to_error(const weft_module *m, int i)
{
    char *whose;
    weft_status status;

    if (wf_module_output_count(m) == 1) return weft_error_status();
    whose = wf_format("output %d of %s", i, m->kind->type);
    status = wf_error_add_prefix(whose);
    wf_free(whose);
    return status;
}

static weft_status convert_outputs(weft_module *m, weft_tensor **outputs, int n, weft_mesh *mesh,
                                   void *payload)
{
    const struct wf_resolved_style *use = payload;

    (void)n;
    for (int i = 0; i < use->n_outputs; i++) {
        outputs[i] = convert_output(m, outputs[i], mesh, use, i);
        if (!outputs[i]) return add_output_to_error(m, i);
    }
    return WEFT_OK;
}

const weft_style_functions wf_prepare_functions = {"prepare", NULL, convert_inputs, NULL,
                                                   convert_outputs};
