/*
 * ledger_modules.c: the modules that a ledger met, as a tree, with their parameters' layouts. It
 * observes calls and installs no hooks.
 */
#include "base/array_grow.h"
#include "debug/ledger.h"

#include <string.h>

#include "base/mem.h"
#include "nn/module.h"
#include "tensor/tensor.h"

static struct wf_ledger_module *append_ledger_module(weft_ledger *ledger,
                                                     struct wf_ledger_module module)
{
    ledger->modules = wf_array_grow(ledger->modules, ledger->n_modules, sizeof *ledger->modules);
    ledger->modules[ledger->n_modules] = module;
    return &ledger->modules[ledger->n_modules++];
}

void wf_ledger_init_modules(weft_ledger *ledger)
{
    append_ledger_module(ledger, (struct wf_ledger_module){.path = wf_strdup(""),
                                                           .name = wf_strdup("Global"),
                                                           .type = wf_strdup("program"),
                                                           .parent = -1});
}

static void free_module_parameters(struct wf_ledger_module *module)
{
    for (int i = 0; i < module->n_parameters; i++) {
        wf_free(module->parameters[i].name);
        wf_free(module->parameters[i].layout);
    }
    wf_free(module->parameters);
    module->parameters = NULL;
    module->n_parameters = 0;
}

void wf_ledger_free_modules(weft_ledger *ledger)
{
    for (int i = 0; i < ledger->n_modules; i++) {
        struct wf_ledger_module *module = &ledger->modules[i];

        free_module_parameters(module);
        wf_free(module->path);
        wf_free(module->name);
        wf_free(module->type);
    }
    wf_free(ledger->modules);
    ledger->modules = NULL;
    ledger->n_modules = 0;
}

/* A freed module's address may come back for another one: its path must be the same too. */
static int find_ledger_module(const weft_ledger *ledger, const void *place, const char *path)
{
    for (int i = 1; place && i < ledger->n_modules; i++)
        if (ledger->modules[i].place == place && strcmp(ledger->modules[i].path, path) == 0)
            return i;
    return 0;
}

int wf_ledger_module_of_line(const weft_ledger *ledger, const struct wf_ledger_line *line)
{
    return find_ledger_module(ledger, line->place, line->path);
}

bool wf_ledger_line_is_within(const weft_ledger *ledger, const struct wf_ledger_line *line,
                              int module)
{
    int at = wf_ledger_module_of_line(ledger, line);

    while (at > module) at = ledger->modules[at].parent; /* parents come before children */
    return at == module;
}

static char *full_module_name(const weft_module *m)
{
    const weft_module *root = m;

    while (root->parent) root = root->parent;
    return wf_format("%s%s%s", root->kind->type, m->path[0] ? "." : "", m->path);
}

static int add_ledger_module(weft_ledger *ledger, const weft_module *m)
{
    struct wf_ledger_module module = {.place = m->path,
                                      .path = wf_strdup(m->path),
                                      .name = full_module_name(m),
                                      .type = wf_strdup(m->kind->type)};

    for (const weft_module *up = m->parent; up && !module.parent; up = up->parent)
        module.parent = find_ledger_module(ledger, up->path, up->path);
    module.depth = ledger->modules[module.parent].depth + 1;
    append_ledger_module(ledger, module);
    return ledger->n_modules - 1;
}

static bool are_parameters_unchanged(const struct wf_ledger_module *module, const weft_module *m)
{
    if (module->n_parameters != m->n_parameters) return false;
    for (int i = 0; i < m->n_parameters; i++)
        if (module->parameters[i].hash != m->parameters[i].tensor->layout->hash) return false;
    return true;
}

static void record_parameter_layouts(struct wf_ledger_module *module, const weft_module *m)
{
    char layout[256];

    if (are_parameters_unchanged(module, m)) return;
    free_module_parameters(module);
    module->parameters = wf_calloc((size_t)m->n_parameters, sizeof *module->parameters);
    module->n_parameters = m->n_parameters;
    for (int i = 0; i < m->n_parameters; i++) {
        const weft_tensor *t = m->parameters[i].tensor;

        weft_tensor_format(t, layout, sizeof layout);
        module->parameters[i] =
            (struct wf_ledger_parameter){.name = wf_strdup(m->parameters[i].name),
                                         .layout = wf_strdup(layout),
                                         .hash = t->layout->hash,
                                         .distributed = weft_tensor_mesh(t) != NULL};
    }
}

void wf_ledger_count_module_call(weft_ledger *ledger, const struct wf_event *event)
{
    const weft_module *m = event->subject;
    int at = find_ledger_module(ledger, m->path, m->path);

    if (!at) at = add_ledger_module(ledger, m);
    ledger->modules[at].calls++;
    record_parameter_layouts(&ledger->modules[at], m);
}

/* ---- asking ---- */

int weft_ledger_module_count(const weft_ledger *ledger) { return ledger ? ledger->n_modules : 0; }

const char *weft_ledger_module(const weft_ledger *ledger, int index)
{
    return index >= 0 && index < weft_ledger_module_count(ledger) ? ledger->modules[index].name
                                                                  : NULL;
}

weft_ledger_sum weft_ledger_module_total(const weft_ledger *ledger, int index, weft_coll kind,
                                         weft_direction direction)
{
    weft_ledger_sum total = {0};

    if (index < 0 || index >= weft_ledger_module_count(ledger)) return total;
    for (size_t i = 0; i < ledger->n_lines; i++)
        if (wf_ledger_line_matches(&ledger->lines[i], kind, direction) &&
            wf_ledger_line_is_within(ledger, &ledger->lines[i], index))
            wf_ledger_sum_add(&total, &ledger->lines[i].sum);
    return total;
}

weft_ledger_parameter weft_ledger_parameter_at(const weft_ledger *ledger, bool distributed,
                                               int index)
{
    for (int m = 0; index >= 0 && m < weft_ledger_module_count(ledger); m++) {
        const struct wf_ledger_module *module = &ledger->modules[m];

        for (int i = 0; i < module->n_parameters; i++) {
            const struct wf_ledger_parameter *p = &module->parameters[i];

            if ((p->distributed || !distributed) && index-- == 0)
                return (weft_ledger_parameter){module->name, p->name, p->layout, p->distributed};
        }
    }
    return (weft_ledger_parameter){0};
}

int weft_ledger_parameter_count(const weft_ledger *ledger, bool distributed)
{
    int count = 0;

    while (weft_ledger_parameter_at(ledger, distributed, count).name) count++;
    return count;
}
