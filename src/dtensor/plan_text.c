/* plan_text.c: a plan in words, for logs, traces and errors; never on the way of a call. */
#include <stdarg.h>
#include <stdio.h>

#include "dtensor/plan.h"

struct line {
    char *text;
    size_t bytes;
    int length; /* as snprintf counts: what would have been written */
};

static void add(struct line *line, const char *format, ...) WEFT_PRINTF(2, 3);

static void add(struct line *line, const char *format, ...)
{
    size_t at = (size_t)line->length < line->bytes ? (size_t)line->length : line->bytes;
    va_list args;

    va_start(args, format);
    line->length += vsnprintf(line->text + at, line->bytes - at, format, args);
    va_end(args);
}

static void add_operand(struct line *line, const struct wf_layout *layout,
                        const struct wf_layout *moved_to)
{
    char placements[WF_PLACEMENTS_TEXT];

    add(line, "%s[", weft_dtype_name((weft_dtype)layout->desc.dtype));
    for (int d = 0; d < layout->desc.ndim; d++)
        add(line, "%s%lld", d ? "," : "", (long long)layout->desc.global[d]);
    add(line, "]");
    if (!layout->mesh) return;
    weft_placements_print(layout->placements, layout->n_axes, placements, sizeof placements);
    add(line, " [%s", placements);
    if (moved_to) {
        weft_placements_print(moved_to->placements, moved_to->n_axes, placements,
                              sizeof placements);
        add(line, "]->[%s", placements);
    }
    add(line, "]");
}

static const weft_mesh *mesh_of(const struct wf_plan *plan)
{
    for (int i = 0; i < plan->n_in; i++)
        if (plan->in[i] && plan->in[i]->mesh) return plan->in[i]->mesh;
    return plan->n_out && plan->out[0] ? plan->out[0]->mesh : NULL;
}

int wf_plan_print(const struct wf_plan *plan, char *text, size_t bytes)
{
    struct line line = {text, bytes, 0};
    const weft_mesh *mesh = mesh_of(plan);
    char name[256];

    add(&line, "%s(", plan->name);
    for (int i = 0; i < plan->n_in; i++) {
        if (i) add(&line, ", ");
        if (plan->in[i])
            add_operand(&line, plan->in[i], plan->move[i] ? plan->used[i] : NULL);
        else
            add(&line, "none");
    }
    add(&line, ") -> ");
    for (int j = 0, n = 0; j < plan->n_out; j++) {
        if (!plan->out[j]) continue;
        if (n++) add(&line, ", ");
        add_operand(&line, plan->out[j], NULL);
    }
    if (!mesh) return line.length;
    weft_mesh_print(mesh, name, sizeof name);
    add(&line, " on %s", name);
    return line.length;
}
