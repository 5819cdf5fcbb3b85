/* op_plan_print.c: a plan in words, for logs, traces and errors; never on the way of a call. */
#include "base/text/text_line.h"
#include "dtensor/dispatch/plan_cache.h"

static void append_operand(struct wf_text_line *line, const struct wf_layout *layout,
                           const struct wf_layout *moved_to)
{
    char placements[WF_PLACEMENTS_TEXT];

    wf_text_line_append(line, "%s[", weft_dtype_name((weft_dtype)layout->desc.dtype));
    for (int d = 0; d < layout->desc.ndim; d++)
        wf_text_line_append(line, "%s%lld", d ? "," : "", (long long)layout->desc.global[d]);
    wf_text_line_append(line, "]");
    if (!layout->mesh) return;
    weft_placements_format(layout->placements, layout->n_axes, placements, sizeof placements);
    wf_text_line_append(line, " [%s", placements);
    if (moved_to) {
        weft_placements_format(moved_to->placements, moved_to->n_axes, placements,
                               sizeof placements);
        wf_text_line_append(line, "]->[%s", placements);
    }
    wf_text_line_append(line, "]");
}

static const weft_mesh *mesh_of_plan(const struct wf_op_plan *plan)
{
    for (int i = 0; i < plan->n_in; i++)
        if (plan->in[i] && plan->in[i]->mesh) return plan->in[i]->mesh;
    return plan->n_out && plan->out[0] ? plan->out[0]->mesh : NULL;
}

int wf_op_plan_print(const struct wf_op_plan *plan, char *text, size_t bytes)
{
    struct wf_text_line line = wf_text_line_begin(text, bytes);
    const weft_mesh *mesh = mesh_of_plan(plan);
    char name[256];

    wf_text_line_append(&line, "%s(", plan->name);
    for (int i = 0; i < plan->n_in; i++) {
        if (i) wf_text_line_append(&line, ", ");
        if (plan->in[i])
            append_operand(&line, plan->in[i], plan->move[i] ? plan->used[i] : NULL);
        else
            wf_text_line_append(&line, "none");
    }
    wf_text_line_append(&line, ") -> ");
    for (int j = 0, n = 0; j < plan->n_out; j++) {
        if (!plan->out[j]) continue;
        if (n++) wf_text_line_append(&line, ", ");
        append_operand(&line, plan->out[j], NULL);
    }
    if (!mesh) return line.length;
    weft_mesh_format(mesh, name, sizeof name);
    wf_text_line_append(&line, " on %s", name);
    return line.length;
}
