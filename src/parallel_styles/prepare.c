/*
 * prepare.c: the style that moves inputs and output of any module and leaves its parameters alone.
 *
 * A distributed tensor is taken with the layout that it has, not with the declared one: a wrong
 * declaration then costs a redistribution, never a wrong value.
 */
#include "base/error.h"
#include "parallel_styles/style.h"

static void fill(struct wf_crossing *crossings, const struct wf_layouts *declared,
                 const struct wf_layouts *desired)
{
    for (int i = 0; i < declared->count; i++)
        crossings[i] = (struct wf_crossing){.taken = declared->given[i],
                                            .moved = desired->given[i],
                                            .declared = declared->at[i],
                                            .wants = desired->at[i]};
}

static weft_status resolve_inputs(struct wf_style_use *use, const weft_style_options *o)
{
    struct wf_layouts declared, desired;

    if (!o->input_layouts && !o->desired_input_layouts) return WEFT_OK;
    WF_NEED(o->input_layouts && o->desired_input_layouts, WEFT_ERR_ARG,
            "prepare module: input_layouts and desired_input_layouts go together");
    WF_TRY(wf_layouts_read(&declared, o->input_layouts, "input_layouts"));
    WF_TRY(wf_layouts_read(&desired, o->desired_input_layouts, "desired_input_layouts"));
    WF_NEED(declared.count == desired.count, WEFT_ERR_ARG,
            "prepare module: input_layouts and desired_input_layouts should have same length, not "
            "%d and %d",
            declared.count, desired.count);
    fill(use->inputs, &declared, &desired);
    use->n_inputs = declared.count;
    return WEFT_OK;
}

static weft_status resolve_output(struct wf_style_use *use, const weft_style_options *o)
{
    struct wf_layouts declared, desired;

    if (!o->output_layouts && !o->desired_output_layouts) return WEFT_OK;
    WF_NEED(o->output_layouts && o->desired_output_layouts, WEFT_ERR_ARG,
            "prepare module: output_layouts and desired_output_layouts go together");
    WF_TRY(wf_layouts_read(&declared, o->output_layouts, "output_layouts"));
    WF_TRY(wf_layouts_read(&desired, o->desired_output_layouts, "desired_output_layouts"));
    WF_NEED(declared.count == desired.count, WEFT_ERR_ARG,
            "prepare module: output_layouts and desired_output_layouts should have same length, "
            "not %d and %d",
            declared.count, desired.count);
    WF_NEED(declared.count == 1, WEFT_ERR_ARG,
            "prepare module: module outputs and output_layouts should have same length, not 1 and "
            "%d",
            declared.count);
    fill(&use->output, &declared, &desired);
    return WEFT_OK;
}

weft_status wf_prepare_resolve(struct wf_style_use *use, weft_style_options options)
{
    WF_NEED(options.input_layouts || options.desired_input_layouts || options.output_layouts ||
                options.desired_output_layouts,
            WEFT_ERR_ARG, "prepare module: neither inputs nor output have layouts");
    WF_TRY(resolve_inputs(use, &options));
    WF_TRY(resolve_output(use, &options));
    use->functions = &wf_prepare_functions;
    use->local_inputs = options.local_inputs;
    use->keep_distributed = options.keep_distributed;
    return WEFT_OK;
}

static weft_status take_inputs(weft_module *m, weft_tensor **inputs, int n, weft_mesh *mesh,
                               void *payload)
{
    const struct wf_style_use *use = payload;

    return use->n_inputs ? wf_cross_inputs(m, inputs, n, mesh, use) : WEFT_OK;
}

static weft_tensor *hand_output(weft_module *m, weft_tensor *output, weft_mesh *mesh, void *payload)
{
    const struct wf_style_use *use = payload;
    weft_tensor *y = wf_cross(m, output, mesh, &use->output);

    return y && use->output.taken && !use->keep_distributed ? weft_to_local(y, NULL) : y;
}

const weft_style_functions wf_prepare_functions = {"prepare", NULL, take_inputs, hand_output};
