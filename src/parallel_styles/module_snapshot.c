/* module_snapshot.c: parameters and hooks of a tree as they were, so that a failed change leaves no
 * trace.
 */
#include "base/error.h"
#include "base/mem.h"
#include "parallel_styles/style.h"

struct state {
    weft_module *module;
    weft_tensor **tensors; /* one reference each: parameters, buffers, then their rows */
    int n_tensors, n_parameters, n_hooks;
    const struct wf_distributed_callbacks *distributed_callbacks;
    bool wide, wide_gradient, distributed;
};

struct wf_module_snapshot {
    struct state *states;
    int count;
    bool of_root; /* of the whole tree, not only what is below a module */
};

static struct state save_module_state(weft_module *m)
{
    struct state s = {.module = m,
                      .n_tensors = m->n_tensors,
                      .n_parameters = m->n_parameters,
                      .n_hooks = m->n_hooks,
                      .distributed_callbacks = m->distributed_callbacks,
                      .wide = m->wide,
                      .wide_gradient = m->wide_gradient,
                      .distributed = m->distributed};

    s.tensors = wf_calloc(2 * (size_t)s.n_tensors + 1, sizeof *s.tensors);
    for (int i = 0; i < s.n_tensors; i++) {
        s.tensors[i] = weft_retain(m->parameters[i].tensor);
        if (m->parameters[i].rows) s.tensors[s.n_tensors + i] = weft_retain(m->parameters[i].rows);
    }
    return s;
}

struct wf_module_snapshot *wf_module_snapshot_take(weft_module *m)
{
    struct wf_module_snapshot *snapshot = WF_NEW(struct wf_module_snapshot);
    weft_module **modules = wf_module_list_tree(m, &snapshot->count);

    snapshot->of_root = !m->parent;
    snapshot->states = wf_calloc((size_t)snapshot->count, sizeof *snapshot->states);
    for (int i = 0; i < snapshot->count; i++) snapshot->states[i] = save_module_state(modules[i]);
    wf_free(modules);
    return snapshot;
}

/* ---- tied parameters ---- */

/* A parameter or buffer now and before. */
struct slot {
    const weft_module *module;
    struct wf_parameter *now;
    weft_tensor *old;
};

static bool are_distributed_alike(const weft_tensor *a, const weft_tensor *b)
{
    weft_mesh *mesh = weft_tensor_mesh(a);

    if (mesh != weft_tensor_mesh(b)) return false;
    for (int axis = 0; mesh && axis < weft_mesh_ndim(mesh); axis++)
        if (!weft_placement_equal(weft_tensor_placement(a, axis), weft_tensor_placement(b, axis)))
            return false;
    return true;
}

/* Where the tensor with this number in the snapshot is now: a partition may have added parameters,
 * which stand before the buffers. */
static struct wf_parameter *parameter_of_saved_tensor(const struct state *s, int number)
{
    int added = number < s->n_parameters ? 0 : s->module->n_parameters - s->n_parameters;

    return &s->module->parameters[number + added];
}

static weft_status restore_tie(const struct slot *first, const struct slot *other)
{
    if (first->now->tensor == other->now->tensor) return WEFT_OK;
    WF_NEED(are_distributed_alike(first->now->tensor, other->now->tensor), WEFT_ERR_LAYOUT,
            "'%s' of module '%s' and '%s' of module '%s' are one tensor, but would be spread "
            "differently: spread both at once, from a module that holds both",
            first->now->name, first->module->path, other->now->name, other->module->path);
    wf_parameter_replace_tensor(other->now, first->now->tensor);
    return WEFT_OK;
}

static weft_status restore_ties(const struct slot *slots, int count)
{
    for (int i = 1; i < count; i++) {
        int first = 0;

        while (slots[first].old != slots[i].old) first++;
        if (first < i) WF_TRY(restore_tie(&slots[first], &slots[i]));
    }
    return WEFT_OK;
}

/* Every place of a tensor that was replaced is in the snapshot. */
static weft_status check_all_ties_replaced(const struct slot *slots, int count)
{
    for (int i = 0; i < count; i++)
        WF_NEED(slots[i].now->tensor == slots[i].old || !*wf_tensor_parameter_count(slots[i].old),
                WEFT_ERR_STATE,
                "'%s' of module '%s' would be spread, but a module of another tree has it too: "
                "put both under one root, or give this one its own (weft_detach)",
                slots[i].now->name, slots[i].module->path);
    return WEFT_OK;
}

weft_status wf_module_snapshot_restore_ties(const struct wf_module_snapshot *snapshot)
{
    struct slot *slots = NULL;
    weft_status status;
    int count = 0;

    for (int i = 0; i < snapshot->count; i++) {
        const struct state *s = &snapshot->states[i];

        slots = wf_realloc(slots, (size_t)(count + s->n_tensors + 1) * sizeof *slots);
        for (int j = 0; j < s->n_tensors; j++)
            slots[count++] =
                (struct slot){s->module, parameter_of_saved_tensor(s, j), s->tensors[j]};
    }
    status = restore_ties(slots, count);
    if (status == WEFT_OK && snapshot->of_root) status = check_all_ties_replaced(slots, count);
    wf_free(slots);
    return status;
}

/* ---- going back ---- */

static void restore_module_state(struct state *s)
{
    wf_parameters_truncate(s->module, s->n_parameters,
                           s->n_tensors - s->n_parameters); /* a partition may have added some */
    for (int i = 0; i < s->n_tensors; i++) {
        struct wf_parameter *p = &s->module->parameters[i];
        weft_tensor *rows = p->rows;

        wf_parameter_replace_tensor(p, s->tensors[i]);
        p->rows = s->tensors[s->n_tensors + i];
        s->tensors[s->n_tensors + i] = rows;
    }
    wf_hooks_truncate(s->module, s->n_hooks);
    s->module->distributed_callbacks = s->distributed_callbacks;
    s->module->wide = s->wide;
    s->module->wide_gradient = s->wide_gradient;
    s->module->distributed = s->distributed;
}

void wf_module_snapshot_end(struct wf_module_snapshot *snapshot, bool restore)
{
    for (int i = 0; i < snapshot->count; i++) {
        struct state *s = &snapshot->states[i];

        if (restore) restore_module_state(s);
        for (int j = 0; j < 2 * s->n_tensors; j++) weft_release(s->tensors[j]);
        wf_free(s->tensors);
    }
    wf_free(snapshot->states);
    wf_free(snapshot);
}
