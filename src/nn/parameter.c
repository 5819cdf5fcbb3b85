/*
 * parameter.c: parameters of a tree: adding, finding, replacing and visiting them.
 *
 * A tensor may be a parameter of several modules (tied weights); visiting meets it once, so that
 * an optimizer does not update it twice.
 */
#include <string.h>

#include <weft/autograd.h>
#include <weft/debug.h>

#include "base/error.h"
#include "base/grow.h"
#include "base/mem.h"
#include "nn/module.h"

static struct wf_parameter *find(weft_module *m, const char *name)
{
    for (int i = 0; i < m->n_parameters; i++)
        if (!strcmp(m->parameters[i].name, name)) return &m->parameters[i];
    return NULL;
}

void wf_parameter_put(struct wf_parameter *p, weft_tensor *t)
{
    weft_tensor *old = p->tensor;

    if (t) {
        weft_memory_count_as(t, WEFT_MEMORY_WEIGHTS);
        weft_retain(t);
        ++*wf_tensor_ties(t);
    }
    p->tensor = t;
    if (!old) return;
    --*wf_tensor_ties(old);
    weft_release(old);
}

weft_status weft_module_add_parameter(weft_module *m, const char *name, weft_tensor *parameter)
{
    WF_NEED_GIVEN(m && parameter, "add parameter: module or tensor is NULL");
    WF_NEED(name && name[0] && !strchr(name, '.'), WEFT_ERR_ARG,
            "add parameter: '%s' is no name (not empty, no dots)", name ? name : "NULL");
    WF_NEED(!find(m, name), WEFT_ERR_ARG, "add parameter: module '%s' has a parameter '%s' already",
            m->path, name);
    if (weft_dtype_is_float(weft_tensor_dtype(parameter)) &&
        !weft_set_requires_grad(parameter, true))
        return weft_error_status();
    m->parameters = wf_grown(m->parameters, m->n_parameters, sizeof *m->parameters);
    m->parameters[m->n_parameters] = (struct wf_parameter){.name = wf_strdup(name)};
    wf_parameter_put(&m->parameters[m->n_parameters++], parameter);
    return WEFT_OK;
}

void wf_parameters_truncate(weft_module *m, int count)
{
    while (m->n_parameters > count) {
        struct wf_parameter p = m->parameters[--m->n_parameters];

        wf_parameter_put(&p, NULL);
        weft_release(p.rows);
        wf_free(p.name);
    }
}

weft_status weft_module_set_parameter(weft_module *m, const char *name, weft_tensor *parameter)
{
    struct wf_parameter *slot;

    WF_NEED_GIVEN(m && parameter, "set parameter: module or tensor is NULL");
    slot = name ? find(m, name) : NULL;
    WF_NEED(slot, WEFT_ERR_NOT_FOUND, "set parameter: module '%s' (%s) has no parameter '%s'",
            m->path, m->kind->type, name ? name : "NULL");
    wf_parameter_put(slot, parameter);
    return WEFT_OK;
}

/* ---- ties with modules elsewhere ---- */

static int count_places(const weft_module *m, const weft_tensor *t)
{
    int n = 0;

    for (int i = 0; i < m->n_parameters; i++) n += m->parameters[i].tensor == t;
    for (int i = 0; i < m->n_children; i++) n += count_places(m->children[i], t);
    return n;
}

/* The first module that has t, of those that are not below `m`; NULL. */
static const weft_module *holder_outside(const weft_module *at, const weft_module *m,
                                         const weft_tensor *t)
{
    const weft_module *found = NULL;

    if (at == m) return NULL;
    for (int i = 0; i < at->n_parameters; i++)
        if (at->parameters[i].tensor == t) return at;
    for (int i = 0; i < at->n_children && !found; i++)
        found = holder_outside(at->children[i], m, t);
    return found;
}

static weft_status need_own(weft_module *m, weft_module *holder, const char *name, weft_tensor *t,
                            const char *who)
{
    const weft_module *other;

    if (*wf_tensor_ties(t) == 1 || count_places(m, t) == *wf_tensor_ties(t)) return WEFT_OK;
    other = holder_outside(wf_module_root(m), m, t);
    return WF_FAIL(WEFT_ERR_STATE,
                   "%s: '%s' of module '%s' is a parameter of module '%s'%s too, which would keep "
                   "the old one: begin at a module that holds both",
                   who, name, holder->path, other ? other->path : "",
                   other ? "" : " of another tree");
}

static weft_status need_own_below(weft_module *m, weft_module *at, const char *who)
{
    for (int i = 0; i < at->n_parameters; i++)
        WF_TRY(need_own(m, at, at->parameters[i].name, at->parameters[i].tensor, who));
    for (int i = 0; i < at->n_children; i++) WF_TRY(need_own_below(m, at->children[i], who));
    return WEFT_OK;
}

weft_status wf_need_own_parameters(weft_module *m, const char *who)
{
    return need_own_below(m, m, who);
}

weft_tensor *weft_module_parameter(weft_module *m, const char *path)
{
    const char *dot;
    struct wf_parameter *slot;

    if (!m) return NULL;
    WF_NEED_PTR(path, WEFT_ERR_ARG, "module parameter: the path is NULL");
    dot = strrchr(path, '.');
    if (dot) {
        char *owner = wf_format("%.*s", (int)(dot - path), path);

        m = weft_module_child(m, owner);
        wf_free(owner);
        if (!m) return NULL;
    }
    slot = find(m, dot ? dot + 1 : path);
    WF_NEED_PTR(slot, WEFT_ERR_NOT_FOUND,
                "parameter path '%s': module '%s' (%s) has no parameter '%s'", path, m->path,
                m->kind->type, dot ? dot + 1 : path);
    return slot->tensor;
}

/* Tensors met so far: open addressing, at most half full. */
struct seen {
    const weft_tensor **slots;
    size_t mask;
};

int wf_module_places(const weft_module *m)
{
    int n = m->n_parameters;

    for (int i = 0; i < m->n_children; i++) n += wf_module_places(m->children[i]);
    return n;
}

static bool first_time(struct seen *seen, const weft_tensor *t)
{
    size_t at = (size_t)(((uintptr_t)t >> 4) * 0x9E3779B1u);

    for (;; at++) {
        const weft_tensor **slot = &seen->slots[at & seen->mask];

        if (*slot == t) return false;
        if (*slot) continue;
        *slot = t;
        return true;
    }
}

static weft_status visit_below(weft_module *m, struct seen *seen, weft_parameter_visitor *visit,
                               void *payload)
{
    for (int i = 0; i < m->n_parameters; i++) {
        struct wf_parameter p = m->parameters[i];

        if (first_time(seen, p.tensor)) WF_TRY(visit(m, p.name, p.tensor, payload));
    }
    for (int i = 0; i < m->n_children; i++)
        WF_TRY(visit_below(m->children[i], seen, visit, payload));
    return WEFT_OK;
}

weft_status weft_module_each_parameter(weft_module *m, weft_parameter_visitor *visit, void *payload)
{
    struct seen seen = {.mask = 15};
    weft_status status;

    WF_NEED_GIVEN(m, "each parameter: the module is NULL");
    while (seen.mask < 2 * (size_t)wf_module_places(m)) seen.mask = 2 * seen.mask + 1;
    seen.slots = wf_calloc(seen.mask + 1, sizeof *seen.slots);
    status = visit_below(m, &seen, visit, payload);
    wf_free(seen.slots);
    return status;
}

struct tally {
    int parameters;
    int64_t elements;
};

static weft_status count_one(weft_module *m, const char *name, weft_tensor *parameter,
                             void *payload)
{
    struct tally *tally = payload;

    (void)m;
    (void)name;
    tally->parameters++;
    tally->elements += weft_numel(parameter);
    return WEFT_OK;
}

static struct tally tally_of(weft_module *m)
{
    struct tally tally = {0};

    if (m) weft_module_each_parameter(m, count_one, &tally);
    return tally;
}

int weft_module_parameters(weft_module *m) { return tally_of(m).parameters; }

int64_t weft_module_numel(weft_module *m) { return tally_of(m).elements; }
