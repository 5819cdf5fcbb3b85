/* snapshot.c: parameters and hooks of a tree as they were, so that a failed change leaves no trace.
 */
#include "base/mem.h"
#include "parallel_styles/style.h"

struct state {
    weft_module *module;
    weft_tensor **tensors; /* one reference each */
    int n_tensors, n_on_input, n_on_output;
    bool distributed;
};

struct wf_snapshot {
    struct state *states;
    int count;
};

static struct state state_of(weft_module *m)
{
    struct state s = {.module = m,
                      .n_tensors = m->n_parameters,
                      .n_on_input = m->on_input.count,
                      .n_on_output = m->on_output.count,
                      .distributed = m->distributed};

    s.tensors = wf_calloc((size_t)s.n_tensors + 1, sizeof *s.tensors);
    for (int i = 0; i < s.n_tensors; i++)
        s.tensors[i] = weft_retain(m->parameters[i].tensor);
    return s;
}

struct wf_snapshot *wf_snapshot_take(weft_module *root)
{
    struct wf_snapshot *snapshot = WF_NEW(struct wf_snapshot);
    weft_module **modules = wf_module_list(root, &snapshot->count);

    snapshot->states = wf_calloc((size_t)snapshot->count, sizeof *snapshot->states);
    for (int i = 0; i < snapshot->count; i++)
        snapshot->states[i] = state_of(modules[i]);
    wf_free(modules);
    return snapshot;
}

static void swap(weft_tensor **a, weft_tensor **b)
{
    weft_tensor *t = *a;

    *a = *b;
    *b = t;
}

static void restore_state(struct state *s)
{
    for (int i = 0; i < s->n_tensors; i++)
        swap(&s->tensors[i], &s->module->parameters[i].tensor);
    wf_hooks_truncate(&s->module->on_input, s->n_on_input);
    wf_hooks_truncate(&s->module->on_output, s->n_on_output);
    s->module->distributed = s->distributed;
}

void wf_snapshot_drop(struct wf_snapshot *snapshot, bool restore)
{
    for (int i = 0; i < snapshot->count; i++) {
        struct state *s = &snapshot->states[i];

        if (restore) restore_state(s);
        for (int j = 0; j < s->n_tensors; j++)
            weft_release(s->tensors[j]);
        wf_free(s->tensors);
    }
    wf_free(snapshot->states);
    wf_free(snapshot);
}
