/* op_plan_print.c: a plan in words, for logs, traces and errors; never on the way of a call. */
#include <stdarg.h>
#include <stdio.h>

#include "dtensor/dispatch/plan_cache.h"

struct text_line {
    char *text;
    size_t bytes;
    int length; /* as snprintf counts: what would have been written */
};

static void append_text(struct text_line *text_line, const char *format, ...) WEFT_PRINTF(2, 3);

static void append_text(struct text_line *text_line, const char *format, ...)
{
    size_t at =
        (size_t)text_line->length < text_line->bytes ? (size_t)text_line->length : text_line->bytes;
    va_list args;

    va_start(args, format);
    text_line->length += vsnprintf(text_line->text + at, text_line->bytes - at, format, args);
    va_end(args);
}

static void append_operand(struct text_line *text_line, const struct wf_layout *layout,
                           const struct wf_layout *moved_to)
{
    char placements[WF_PLACEMENTS_TEXT];

    append_text(text_line, "%s[", weft_dtype_name((weft_dtype)layout->desc.dtype));
    for (int d = 0; d < layout->desc.ndim; d++)
        append_text(text_line, "%s%lld", d ? "," : "", (long long)layout->desc.global[d]);
    append_text(text_line, "]");
    if (!layout->mesh) return;
    weft_placements_format(layout->placements, layout->n_axes, placements, sizeof placements);
    append_text(text_line, " [%s", placements);
    if (moved_to) {
        weft_placements_format(moved_to->placements, moved_to->n_axes, placements,
                               sizeof placements);
        append_text(text_line, "]->[%s", placements);
    }
    append_text(text_line, "]");
}

static const weft_mesh *mesh_of_plan(const struct wf_op_plan *plan)
{
    for (int i = 0; i < plan->n_in; i++)
        if (plan->in[i] && plan->in[i]->mesh) return plan->in[i]->mesh;
    return plan->n_out && plan->out[0] ? plan->out[0]->mesh : NULL;
}

int wf_op_plan_print(const struct wf_op_plan *plan, char *text, size_t bytes)
{
    struct text_line text_line = {text, bytes, 0};
    const weft_mesh *mesh = mesh_of_plan(plan);
    char name[256];

    append_text(&text_line, "%s(", plan->name);
    for (int i = 0; i < plan->n_in; i++) {
        if (i) append_text(&text_line, ", ");
        if (plan->in[i])
            append_operand(&text_line, plan->in[i], plan->move[i] ? plan->used[i] : NULL);
        else
            append_text(&text_line, "none");
    }
    append_text(&text_line, ") -> ");
    for (int j = 0, n = 0; j < plan->n_out; j++) {
        if (!plan->out[j]) continue;
        if (n++) append_text(&text_line, ", ");
        append_operand(&text_line, plan->out[j], NULL);
    }
    if (!mesh) return text_line.length;
    weft_mesh_format(mesh, name, sizeof name);
    append_text(&text_line, " on %s", name);
    return text_line.length;
}
