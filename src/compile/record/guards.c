/* guards.c: comparing a call with the one that a list was made of. On a call that fits nothing is
 * written and nothing allocated. */
#include "compile/record/guards.h"

#include <stdio.h>

#include "autograd/tape.h"
#include "base/array_grow.h"
#include "base/mem.h"
#include "compile/record/gradients.h"
#include "random/generator.h"
#include "tensor/scope.h"

static int alias_of(weft_tensor *const *in, int i)
{
    for (int j = 0; j < i; j++)
        if (in[j] && in[j]->block == in[i]->block) return j;
    return i;
}

static int64_t distance(const weft_tensor *from, const weft_tensor *to)
{
    return (const char *)to->data - (const char *)from->data;
}

/* In a call with views a parameter stands beside its view. */
static weft_tensor *own_tensor(const struct wf_parameter *p) { return p->own ? p->own : p->tensor; }

struct wf_guards *wf_guards_new(weft_tensor *const *in, int n_in, int n_out)
{
    struct wf_guards *guards = WF_NEW(struct wf_guards);

    guards->in = wf_calloc((size_t)n_in + 1, sizeof *guards->in);
    guards->n_in = n_in;
    guards->n_out = n_out;
    for (int i = 0; i < n_in; i++) {
        struct wf_guarded_input *guarded = &guards->in[i];

        if (!in[i]) continue;
        guarded->layout = wf_layout_retain(in[i]->layout);
        guarded->requires_grad = in[i]->requires_grad;
        guarded->leaf = !in[i]->node;
        guarded->in_flight = in[i]->in_flight;
        guarded->alias = alias_of(in, i);
        guarded->alias_offset = distance(in[guarded->alias], in[i]);
    }
    guards->no_grad = !wf_grad_is_enabled();
    guards->local_random = wf_random_is_local();
    guards->guard = weft_guard_current();
    guards->replication = weft_implicit_replication_current();
    guards->scope_modes = wf_scope_modes();
    guards->saved_shard_mesh = wf_scope_saved_shard_mesh();
    return guards;
}

void wf_guards_free(struct wf_guards *guards)
{
    if (!guards) return;
    for (int i = 0; i < guards->n_in; i++)
        if (guards->in[i].layout) wf_layout_release(guards->in[i].layout);
    for (int i = 0; i < guards->n_externals; i++) weft_release(guards->externals[i].tensor);
    for (int i = 0; i < guards->n_modules; i++) {
        wf_module_watch_release(guards->modules[i].watch);
        wf_free(guards->modules[i].tensors);
    }
    wf_free(guards->modules);
    wf_free(guards->in);
    wf_free(guards->externals);
    wf_free(guards);
}

void wf_guards_take_externals(struct wf_guards *guards, struct wf_list_recorder *r)
{
    guards->externals = r->externals;
    guards->n_externals = r->n_externals;
    r->externals = NULL;
    r->n_externals = 0;
    for (int i = 0; i < guards->n_externals; i++)
        guards->externals[i].places = *wf_tensor_parameter_count(guards->externals[i].tensor);
}

void wf_guards_add_module(struct wf_guards *guards, const weft_module *m)
{
    struct wf_guarded_module *guarded;
    struct wf_module_watch *watch;

    for (int i = 0; i < guards->n_modules; i++)
        if (guards->modules[i].module == m) return;
    guards->modules = wf_array_grow(guards->modules, guards->n_modules, sizeof *guards->modules);
    guarded = &guards->modules[guards->n_modules++];
    guards->of_replicas |= wf_module_view_hook(m) != NULL;
    watch = wf_module_watch((weft_module *)(uintptr_t)m);
    *guarded = (struct wf_guarded_module){.module = m,
                                          .watch = watch,
                                          .changes = watch->changes,
                                          .n_tensors = m->n_tensors,
                                          .n_hooks = m->n_hooks,
                                          .training = m->training};
    guarded->tensors = wf_calloc((size_t)m->n_tensors + 1, sizeof(weft_tensor *));
    for (int i = 0; i < m->n_tensors; i++) guarded->tensors[i] = own_tensor(&m->parameters[i]);
}

/* ---- what differs ---- */

/* NULL, or what is not as it was. */
static const char *change_of_module(const struct wf_guarded_module *guarded)
{
    const weft_module *m = guarded->module;

    if (m->training != guarded->training) return "its mode of training";
    if (m->n_hooks != guarded->n_hooks) return "its hooks";
    if (m->n_tensors != guarded->n_tensors) return "its parameters";
    for (int i = 0; i < m->n_tensors; i++)
        if (own_tensor(&m->parameters[i]) != guarded->tensors[i]) return "a parameter";
    return NULL;
}

static bool input_fits(const struct wf_guarded_input *guarded, weft_tensor *const *in, int i)
{
    const weft_tensor *t = in[i];

    if (!t || !guarded->layout) return !t && !guarded->layout;
    return t->layout == guarded->layout && t->requires_grad == guarded->requires_grad &&
           !t->node == guarded->leaf && alias_of(in, i) == guarded->alias &&
           distance(in[guarded->alias], t) == guarded->alias_offset;
}

static void describe_input(const struct wf_guarded_input *guarded, weft_tensor *const *in, int i,
                           char *why, size_t room)
{
    char now[200], then[200];

    if (!in[i] || !guarded->layout) {
        snprintf(why, room, "input %d is %s", i, in[i] ? "given now" : "missing now");
    } else if (in[i]->layout != guarded->layout) {
        wf_layout_print(in[i]->layout, now, sizeof now);
        wf_layout_print(guarded->layout, then, sizeof then);
        snprintf(why, room, "input %d is %s, it was %s", i, now, then);
    } else if (in[i]->requires_grad != guarded->requires_grad) {
        snprintf(why, room, "input %d %s", i,
                 in[i]->requires_grad ? "requires a gradient now" : "requires no gradient now");
    } else if (!in[i]->node != guarded->leaf) {
        snprintf(why, room, "input %d is %s leaf now", i, in[i]->node ? "no" : "a");
    } else {
        snprintf(why, room, "input %d shares bytes with other inputs than before", i);
    }
}

static const char *mode_that_differs(const struct wf_guards *guards)
{
    if (guards->no_grad != !wf_grad_is_enabled()) return "whether gradients are recorded";
    if (guards->guard != weft_guard_current()) return "the guard";
    if (guards->replication != weft_implicit_replication_current()) return "implicit replication";
    if (guards->scope_modes != wf_scope_modes()) return "the loss-parallel scope";
    if (guards->saved_shard_mesh != wf_scope_saved_shard_mesh()) return "the saved-shards scope";
    if (guards->local_random != wf_random_is_local()) return "how random numbers are counted";
    return NULL;
}

#define DIFFERS(...)                                                                               \
    do {                                                                                           \
        if (why) snprintf(why, room, __VA_ARGS__);                                                 \
        return false;                                                                              \
    } while (0)

bool wf_guards_hold(const struct wf_guards *guards, const struct wf_op_list *list,
                    weft_tensor *const *in, int n_in, int n_out, char *why, size_t room)
{
    const char *mode, *gradients;

    if (n_in != guards->n_in || n_out != guards->n_out)
        DIFFERS("%d inputs and %d results, it was %d and %d", n_in, n_out, guards->n_in,
                guards->n_out);
    for (int i = 0; i < n_in; i++) {
        if (input_fits(&guards->in[i], in, i)) continue;
        if (why) describe_input(&guards->in[i], in, i, why, room);
        return false;
    }
    mode = mode_that_differs(guards);
    if (mode) DIFFERS("%s differs", mode);
    for (int i = 0; i < guards->n_externals; i++) {
        const struct wf_external_tensor *external = &guards->externals[i];

        if (external->tensor->requires_grad != external->requires_grad)
            DIFFERS("a tensor from outside (%s) has another gradient flag",
                    external->tensor->origin);
        if (*wf_tensor_parameter_count(external->tensor) != external->places)
            DIFFERS("a parameter (%s) is one of more modules than before, or of fewer",
                    external->tensor->origin);
    }
    for (int i = 0; i < guards->n_modules; i++) {
        const char *change;

        if (guards->modules[i].watch->changes != guards->modules[i].changes)
            DIFFERS("a module of the list was released, or it or its tree was changed");
        change = change_of_module(&guards->modules[i]);
        if (change) DIFFERS("module %s: %s changed", guards->modules[i].module->path, change);
    }
    gradients = wf_recorded_gradients_mismatch(list);
    if (gradients) DIFFERS("%s", gradients);
    return true;
}
