/* module_call.c: one call of a module: its call context, hooks, forward, and the outputs that
 * outlive its scope; and the list of hooks, which nothing else changes. */
#include <string.h>

#include "base/array_grow.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/observers.h"
#include "base/sys.h"
#include "nn/module.h"

static weft_status check_module_inputs(const weft_module *m, weft_tensor *const *inputs, int n)
{
    int least = m->kind->inputs ? m->kind->inputs : 1;
    int most = least + m->kind->optional;

    WF_NEED(n >= least, WEFT_ERR_ARG, "%s takes at least %d input%s, not %d", m->kind->type, least,
            least > 1 ? "s" : "", n);
    WF_NEED(n <= most, WEFT_ERR_ARG, "%s takes at most %d input%s, not %d", m->kind->type, most,
            most > 1 ? "s" : "", n);
    for (int i = 0; i < n; i++)
        WF_NEED_GIVEN(inputs[i], "input %d of %s is NULL", i, m->kind->type);
    return WEFT_OK;
}

/* ---- hooks in a call ---- */

/* A module has none, one or two hooks: looking through them costs less than an index that is kept
 * beside them. */
static struct wf_hook *find_scope_hook(const weft_module *m)
{
    for (int i = 0; i < m->n_hooks; i++)
        if (m->hooks[i].open_scope) return &m->hooks[i];
    return NULL;
}

const struct wf_hook *wf_module_view_hook(const weft_module *m)
{
    for (int i = 0; i < m->n_hooks; i++)
        if (m->hooks[i].view_parameter) return &m->hooks[i];
    return NULL;
}

static weft_scope *open_call_scope(const weft_module *m)
{
    const struct wf_hook *hook = find_scope_hook(m);

    return hook ? hook->open_scope(hook->payload) : weft_scope_open();
}

static void restore_own_parameters(weft_module *m)
{
    for (int i = 0; i < m->n_tensors; i++) {
        struct wf_parameter *p = &m->parameters[i];

        if (p->own) p->tensor = p->own;
        p->own = NULL;
    }
}

static weft_status install_parameter_views(weft_module *m, struct wf_hook hook)
{
    for (int i = 0; i < m->n_tensors; i++) {
        struct wf_parameter *p = &m->parameters[i];
        weft_tensor *view = hook.view_parameter(m, i, hook.payload);

        if (!view) return weft_error_status();
        p->own = p->tensor;
        p->tensor = view;
    }
    return WEFT_OK;
}

/* ---- one call ---- */

static weft_status check_module_outputs(const weft_module *m, weft_tensor *const *outputs)
{
    for (int i = 0; i < wf_module_output_count(m); i++)
        WF_NEED_GIVEN(outputs[i], "output %d of %s is NULL", i, m->kind->type);
    return WEFT_OK;
}

static weft_status call_forward_function(weft_module *m, weft_tensor *const *in, int n,
                                         weft_tensor **outputs)
{
    if (m->kind->forward_n)
        WF_TRY(m->kind->forward_n(m, in, n, outputs, m->kind->outputs));
    else
        outputs[0] = m->kind->forward(m, in, n);
    return check_module_outputs(m, outputs);
}

static weft_status run_output_hook(weft_module *m, const struct wf_hook *hook,
                                   weft_tensor **outputs)
{
    if (hook->outputs)
        WF_TRY(hook->outputs(m, outputs, wf_module_output_count(m), hook->payload));
    else
        outputs[0] = hook->output(m, outputs[0], hook->payload);
    return check_module_outputs(m, outputs);
}

static weft_status run_hooks_and_forward(weft_module *m, weft_tensor *const *inputs, int n,
                                         weft_tensor **outputs)
{
    weft_tensor *in[WEFT_MODULE_INPUTS];

    WF_TRY(check_module_inputs(m, inputs, n));
    memcpy(in, inputs, (size_t)n * sizeof *in);
    /* A hook may add hooks, which moves the list: nothing of it is kept over a hook's call. */
    for (int i = 0; i < m->n_hooks; i++)
        if (m->hooks[i].input) WF_TRY(m->hooks[i].input(m, in, n, m->hooks[i].payload));
    WF_TRY(call_forward_function(m, in, n, outputs));
    for (int i = 0; i < m->n_hooks; i++)
        if (m->hooks[i].output || m->hooks[i].outputs)
            WF_TRY(run_output_hook(m, &m->hooks[i], outputs));
    return WEFT_OK;
}

weft_status wf_module_run_call(weft_module *m, weft_tensor *const *inputs, int n,
                               weft_tensor **outputs)
{
    const struct wf_hook *hook = wf_module_view_hook(m);
    weft_status status;

    if (!hook) return run_hooks_and_forward(m, inputs, n, outputs);
    status = install_parameter_views(m, *hook);
    if (status == WEFT_OK) status = run_hooks_and_forward(m, inputs, n, outputs);
    restore_own_parameters(m);
    return status;
}

static void observe_module_event(const weft_module *m, enum wf_event_kind kind, double began)
{
    struct wf_event event = {.kind = kind,
                             .name = m->kind->type,
                             .subject = m,
                             .axis = "",
                             .began = began,
                             .seconds = wf_monotonic_seconds() - began,
                             .where = wf_current_context};

    wf_notify_observers(&event);
}

static weft_status check_output_count(const weft_module *m, int n_outputs)
{
    int given = wf_module_output_count(m);

    if (n_outputs == given) return WEFT_OK;
    return WF_FAIL(WEFT_ERR_ARG, "%s gives %d output%s, not %d%s", m->kind->type, given,
                   given > 1 ? "s" : "", n_outputs,
                   n_outputs == 1 ? ": call it with weft_call_outputs" : "");
}

static weft_status run_call(weft_module *m, weft_tensor *const *inputs, int n,
                            weft_tensor **outputs)
{
    for (int i = 0; i < m->n_hooks; i++)
        if (m->hooks[i].instead)
            return m->hooks[i].instead(m, inputs, n, outputs, m->hooks[i].payload);
    return wf_module_run_call(m, inputs, n, outputs);
}

/* The lists of inputs and outputs may be one array. */
static weft_status call_module_in_scope(weft_module *m, weft_tensor *const *inputs, int n,
                                        weft_tensor **outputs, int n_outputs)
{
    weft_scope *scope = open_call_scope(m);
    weft_tensor *made[WEFT_MODULE_OUTPUTS] = {0};
    weft_status status = check_output_count(m, n_outputs), closed;

    if (status == WEFT_OK) status = run_call(m, inputs, n, made);
    closed = weft_scope_return_n(scope, made, status == WEFT_OK ? n_outputs : 0);
    if (status == WEFT_OK) status = closed;
    for (int i = 0; i < n_outputs; i++) outputs[i] = status == WEFT_OK ? made[i] : NULL;
    return status;
}

static weft_status call_module(weft_module *m, weft_tensor *const *inputs, int n,
                               weft_tensor **outputs, int n_outputs)
{
    struct wf_call_context before = wf_current_context;
    weft_status status;
    double began = 0;

    wf_current_context.module = m->path;
    if (wf_observed_events & (WF_EVENT_ENTER | WF_EVENT_LEAVE)) {
        began = wf_monotonic_seconds();
        observe_module_event(m, WF_EVENT_ENTER, began);
    }
    status = call_module_in_scope(m, inputs, n, outputs, n_outputs);
    if (wf_observed_events & WF_EVENT_LEAVE) observe_module_event(m, WF_EVENT_LEAVE, began);
    wf_current_context = before;
    return status;
}

weft_status weft_call_outputs(weft_module *m, weft_tensor *const *inputs, int n,
                              weft_tensor **outputs, int n_outputs)
{
    WF_NEED_GIVEN(m && outputs && (inputs || n == 0), "call: %s is NULL",
                  !m        ? "the module"
                  : outputs ? "the list of inputs"
                            : "the list of outputs");
    WF_NEED(n_outputs >= 1, WEFT_ERR_ARG, "call: %d outputs are asked for", n_outputs);
    return call_module(m, inputs, n, outputs, n_outputs);
}

weft_tensor *weft_call_n(weft_module *m, weft_tensor *const *inputs, int n)
{
    weft_tensor *out;

    WF_NEED_PTR(inputs || n <= 0, WEFT_ERR_ARG, "call: %d inputs, but no list of them", n);
    return m && call_module(m, inputs, n, &out, 1) == WEFT_OK ? out : NULL;
}

weft_tensor *weft_call(weft_module *m, weft_tensor *x) { return weft_call_n(m, &x, 1); }

/* ---- hooks ---- */

static weft_status check_module_hook(const weft_module *m, const struct wf_hook *hook)
{
    WF_NEED(m && (hook->open_scope || hook->view_parameter || hook->input || hook->output ||
                  hook->outputs || hook->instead),
            WEFT_ERR_ARG, "module hook: %s is NULL", m ? "the hook" : "the module");
    WF_NEED(!hook->output || wf_module_output_count(m) == 1, WEFT_ERR_ARG,
            "module hook: '%s' (%s) gives %d outputs: weft_module_on_outputs takes a hook for all "
            "of them",
            m->path, m->kind->type, wf_module_output_count(m));
    WF_ASSERT(!hook->view_parameter || !wf_module_view_hook(m));
    return WEFT_OK;
}

static void release_hook(const struct wf_hook *hook)
{
    if (hook->release) hook->release(hook->payload);
}

weft_status wf_module_add_hook(weft_module *m, struct wf_hook hook)
{
    weft_status status = check_module_hook(m, &hook);
    struct wf_hook *replaced = NULL;

    if (status != WEFT_OK) {
        release_hook(&hook);
        return status;
    }
    if (hook.open_scope) replaced = find_scope_hook(m);
    if (replaced) {
        release_hook(replaced);
        *replaced = hook;
        return WEFT_OK;
    }
    m->hooks = wf_array_grow(m->hooks, m->n_hooks, sizeof *m->hooks);
    m->hooks[m->n_hooks++] = hook;
    return WEFT_OK;
}

weft_status weft_module_on_input(weft_module *m, weft_input_hook *hook, void *payload,
                                 void (*release)(void *payload))
{
    return wf_module_add_hook(
        m, (struct wf_hook){.input = hook, .payload = payload, .release = release});
}

weft_status weft_module_on_output(weft_module *m, weft_output_hook *hook, void *payload,
                                  void (*release)(void *payload))
{
    return wf_module_add_hook(
        m, (struct wf_hook){.output = hook, .payload = payload, .release = release});
}

weft_status weft_module_on_outputs(weft_module *m, weft_outputs_hook *hook, void *payload,
                                   void (*release)(void *payload))
{
    return wf_module_add_hook(
        m, (struct wf_hook){.outputs = hook, .payload = payload, .release = release});
}

void wf_hooks_truncate(weft_module *m, int count)
{
    while (m->n_hooks > count) {
        struct wf_hook hook = m->hooks[--m->n_hooks];

        release_hook(&hook);
    }
    if (count == 0) {
        wf_free(m->hooks);
        m->hooks = NULL;
    }
}
