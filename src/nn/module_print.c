/* module_print.c: a tree as text, for people. */
#include <inttypes.h>

#include "nn/module.h"

static void print_parameter(const struct wf_parameter *p, int indent, FILE *out)
{
    char text[256];

    weft_tensor_describe(p->tensor, text, sizeof text);
    fprintf(out, "%*s%s: %s\n", indent, "", p->name, text);
}

static void print_below(weft_module *m, int indent, FILE *out)
{
    const char *label = m->name[0] ? m->name : "model";

    fprintf(out, "%*s%s (%s)", indent, "", label, m->kind->type);
    if (m->n_children || !m->parent) fprintf(out, " %" PRId64 " parameters", weft_module_numel(m));
    fputc('\n', out);
    for (int i = 0; i < m->n_parameters; i++) print_parameter(&m->parameters[i], indent + 2, out);
    for (int i = 0; i < m->n_children; i++) print_below(m->children[i], indent + 2, out);
}

void weft_module_print(weft_module *m, FILE *out)
{
    if (m) print_below(m, 0, out);
}
