/* call.c: one call of a module: where it is, its hooks, the parameters lent to it, its forward, and
 * what outlives it. */
#include <string.h>

#include "base/error.h"
#include "base/grow.h"
#include "base/mem.h"
#include "base/observe.h"
#include "base/sys.h"
#include "nn/module.h"

static weft_status check_inputs(const weft_module *m, weft_tensor *const *inputs, int n)
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

/* ---- parameters that are lent ---- */

static void take_back(weft_module *m)
{
    for (int i = 0; i < m->n_held; i++) {
        struct wf_parameter *p = &m->parameters[i];

        if (p->own) p->tensor = p->own;
        p->own = NULL;
    }
}

static weft_status lend(weft_module *m)
{
    for (int i = 0; i < m->n_held; i++) {
        struct wf_parameter *p = &m->parameters[i];
        weft_tensor *lent = m->lending.lend(m, i, m->lending.payload);

        if (!lent) return weft_error_status();
        p->own = p->tensor;
        p->tensor = lent;
    }
    return WEFT_OK;
}

/* ---- one call ---- */

static weft_tensor *run(weft_module *m, weft_tensor *const *inputs, int n)
{
    weft_tensor *in[WEFT_MODULE_INPUTS];
    weft_tensor *out;

    WF_TRY_PTR(check_inputs(m, inputs, n));
    memcpy(in, inputs, (size_t)n * sizeof *in);
    for (int i = 0; i < m->on_input.count; i++) {
        struct wf_hook hook = m->on_input.items[i];

        WF_TRY_PTR(hook.input(m, in, n, hook.payload));
    }
    out = m->kind->forward(m, in, n);
    for (int i = 0; i < m->on_output.count && out; i++) {
        struct wf_hook hook = m->on_output.items[i];

        out = hook.output(m, out, hook.payload);
    }
    return out;
}

static weft_tensor *run_lent(weft_module *m, weft_tensor *const *inputs, int n)
{
    weft_tensor *out = lend(m) == WEFT_OK ? run(m, inputs, n) : NULL;

    take_back(m);
    return out;
}

static void tell(const weft_module *m, enum wf_event_kind kind, double began)
{
    struct wf_event event = {.kind = kind,
                             .name = m->kind->type,
                             .subject = m,
                             .axis = "",
                             .began = began,
                             .seconds = wf_now() - began,
                             .where = wf_here};

    wf_observe(&event);
}

weft_tensor *weft_call_n(weft_module *m, weft_tensor *const *inputs, int n)
{
    struct wf_where before = wf_here;
    weft_scope *scope;
    weft_tensor *out;
    double began = 0;

    if (!m) return NULL;
    wf_here.module = m->path;
    if (wf_observed & (WF_EVENT_ENTER | WF_EVENT_LEAVE)) {
        began = wf_now();
        tell(m, WF_EVENT_ENTER, began);
    }
    scope =
        m->surroundings.open ? m->surroundings.open(m->surroundings.payload) : weft_scope_open();
    out = weft_scope_return(scope, (m->lending.lend ? run_lent : run)(m, inputs, n));
    if (wf_observed & WF_EVENT_LEAVE) tell(m, WF_EVENT_LEAVE, began);
    wf_here = before;
    return out;
}

weft_tensor *weft_call(weft_module *m, weft_tensor *x) { return weft_call_n(m, &x, 1); }

static weft_status add_hook(weft_module *m, struct wf_hooks *hooks, struct wf_hook hook)
{
    if (!m || (!hook.input && !hook.output)) {
        if (hook.release) hook.release(hook.payload);
        return WF_FAIL(WEFT_ERR_ARG, "module hook: %s is NULL", m ? "the hook" : "the module");
    }
    hooks->items = wf_grown(hooks->items, hooks->count, sizeof *hooks->items);
    hooks->items[hooks->count++] = hook;
    return WEFT_OK;
}

weft_status weft_module_on_input(weft_module *m, weft_input_hook *hook, void *payload,
                                 void (*release)(void *payload))
{
    return add_hook(m, m ? &m->on_input : NULL,
                    (struct wf_hook){.input = hook, .payload = payload, .release = release});
}

weft_status weft_module_on_output(weft_module *m, weft_output_hook *hook, void *payload,
                                  void (*release)(void *payload))
{
    return add_hook(m, m ? &m->on_output : NULL,
                    (struct wf_hook){.output = hook, .payload = payload, .release = release});
}

void wf_hooks_truncate(struct wf_hooks *hooks, int count)
{
    while (hooks->count > count) {
        struct wf_hook hook = hooks->items[--hooks->count];

        if (hook.release) hook.release(hook.payload);
    }
    if (count == 0) {
        wf_free(hooks->items);
        hooks->items = NULL;
    }
}
