/*
 * parameter.c: parameters and buffers of modules: adding, finding and replacing them. Visiting is
 * in visit_tensors.c.
 *
 * A module's parameters come first and its buffers behind them, in one array: layers read
 * parameters at fixed indices, and code that visits all tensors of a module need not distinguish
 * the two.
 */
#include <string.h>

#include <weft/autograd.h>
#include <weft/extend/memory.h>

#include "base/array_grow.h"
#include "base/error.h"
#include "base/mem.h"
#include "nn/module.h"

static struct wf_parameter *find_parameter(weft_module *m, const char *name)
{
    for (int i = 0; i < m->n_tensors; i++)
        if (!strcmp(m->parameters[i].name, name)) return &m->parameters[i];
    return NULL;
}

static bool is_parameter_a_buffer(const weft_module *m, const struct wf_parameter *p)
{
    return p >= m->parameters + m->n_parameters;
}

void wf_parameter_replace_tensor(struct wf_parameter *p, weft_tensor *t)
{
    weft_tensor *old = p->tensor;

    if (t) {
        weft_memory_count_as(t, WEFT_MEMORY_WEIGHTS);
        weft_retain(t);
        ++*wf_tensor_parameter_count(t);
    }
    p->tensor = t;
    if (!old) return;
    --*wf_tensor_parameter_count(old);
    weft_release(old);
}

/* weft_retain fails, with its message, for a tensor that was released. */
static weft_status check_tensor_live(weft_tensor *t)
{
    if (!weft_retain(t)) return weft_error_status();
    weft_release(t);
    return WEFT_OK;
}

static weft_status check_new_parameter_name(weft_module *m, const char *name, const char *what)
{
    const struct wf_parameter *taken = name ? find_parameter(m, name) : NULL;

    WF_NEED(name && name[0] && !strchr(name, '.'), WEFT_ERR_ARG,
            "add %s: '%s' is no name (not empty, no dots)", what, name ? name : "NULL");
    WF_NEED(!taken, WEFT_ERR_ARG, "add %s: module '%s' has a %s '%s' already", what, m->path,
            is_parameter_a_buffer(m, taken) ? "buffer" : "parameter", name);
    return WEFT_OK;
}

/* Insert an entry at this index; later ones move up. */
static struct wf_parameter *insert_parameter(weft_module *m, int index, const char *name,
                                             weft_tensor *t)
{
    struct wf_parameter *p;

    m->parameters = wf_array_grow(m->parameters, m->n_tensors, sizeof *m->parameters);
    p = &m->parameters[index];
    memmove(p + 1, p, (size_t)(m->n_tensors++ - index) * sizeof *p);
    *p = (struct wf_parameter){.name = wf_strdup(name)};
    wf_parameter_replace_tensor(p, t);
    return p;
}

weft_status weft_module_add_parameter(weft_module *m, const char *name, weft_tensor *parameter)
{
    WF_NEED_GIVEN(m && parameter, "add parameter: module or tensor is NULL");
    WF_TRY(check_tensor_live(parameter));
    WF_TRY(check_new_parameter_name(m, name, "parameter"));
    if (weft_dtype_is_float(weft_tensor_dtype(parameter)) &&
        !weft_set_requires_grad(parameter, true))
        return weft_error_status();
    insert_parameter(m, m->n_parameters, name, parameter);
    m->n_parameters++;
    return WEFT_OK;
}

weft_status weft_module_add_buffer(weft_module *m, const char *name, weft_tensor *buffer,
                                   weft_buffer_options options)
{
    WF_NEED_GIVEN(m && buffer, "add buffer: module or tensor is NULL");
    WF_TRY(check_tensor_live(buffer));
    WF_TRY(check_new_parameter_name(m, name, "buffer"));
    WF_NEED(!weft_requires_grad(buffer), WEFT_ERR_STATE,
            "add buffer: '%s' of module '%s' wants a gradient: a buffer is not trained "
            "(weft_detach, or weft_module_add_parameter)",
            name, m->path);
    insert_parameter(m, m->n_tensors, name, buffer)->unsaved = options.unsaved;
    return WEFT_OK;
}

static void remove_parameter_at(weft_module *m, int index)
{
    struct wf_parameter p = m->parameters[index];

    wf_parameter_replace_tensor(&p, NULL);
    weft_release(p.rows);
    wf_free(p.name);
    m->n_tensors--;
    memmove(&m->parameters[index], &m->parameters[index + 1],
            (size_t)(m->n_tensors - index) * sizeof p);
}

void wf_parameters_truncate(weft_module *m, int n_parameters, int n_buffers)
{
    while (m->n_tensors - m->n_parameters > n_buffers) remove_parameter_at(m, m->n_tensors - 1);
    while (m->n_parameters > n_parameters) remove_parameter_at(m, --m->n_parameters);
}

static weft_status set_parameter_or_buffer(weft_module *m, const char *name, weft_tensor *t,
                                           bool buffer)
{
    const char *what = buffer ? "buffer" : "parameter";
    struct wf_parameter *p;

    WF_NEED_GIVEN(m && t, "set %s: module or tensor is NULL", what);
    WF_TRY(check_tensor_live(t));
    p = name ? find_parameter(m, name) : NULL;
    WF_NEED(p && is_parameter_a_buffer(m, p) == buffer, WEFT_ERR_NOT_FOUND,
            "set %s: module '%s' (%s) has no %s '%s'", what, m->path, m->kind->type, what,
            name ? name : "NULL");
    WF_NEED(!p->own, WEFT_ERR_STATE,
            "set %s: '%s' of module '%s' is in use by a call of a replica: write into it "
            "(weft_copy_)",
            what, name, m->path);
    WF_NEED(!buffer || !weft_requires_grad(t), WEFT_ERR_STATE,
            "set buffer: the tensor for '%s' of module '%s' wants a gradient", name, m->path);
    wf_parameter_replace_tensor(p, t);
    return WEFT_OK;
}

weft_status weft_module_set_parameter(weft_module *m, const char *name, weft_tensor *parameter)
{
    return set_parameter_or_buffer(m, name, parameter, false);
}

weft_status weft_module_set_buffer(weft_module *m, const char *name, weft_tensor *buffer)
{
    return set_parameter_or_buffer(m, name, buffer, true);
}

/* ---- ties with modules elsewhere ---- */

static int count_uses_below(const weft_module *m, const weft_tensor *t)
{
    int n = 0;

    for (int i = 0; i < m->n_tensors; i++) n += m->parameters[i].tensor == t;
    for (int i = 0; i < m->n_children; i++) n += count_uses_below(m->children[i], t);
    return n;
}

/* The first module that has t, of those that are not below `m`; NULL. */
static const weft_module *find_holder_outside(const weft_module *at, const weft_module *m,
                                              const weft_tensor *t)
{
    const weft_module *found = NULL;

    if (at == m) return NULL;
    for (int i = 0; i < at->n_tensors; i++)
        if (at->parameters[i].tensor == t) return at;
    for (int i = 0; i < at->n_children && !found; i++)
        found = find_holder_outside(at->children[i], m, t);
    return found;
}

static weft_status check_not_tied_outside(weft_module *m, weft_module *holder,
                                          const struct wf_parameter *p, const char *who)
{
    const weft_tensor *t = p->tensor;
    const weft_module *other;

    if (*wf_tensor_parameter_count(p->tensor) == 1 ||
        count_uses_below(m, t) == *wf_tensor_parameter_count(p->tensor))
        return WEFT_OK;
    other = find_holder_outside(wf_module_root(m), m, t);
    return WF_FAIL(WEFT_ERR_STATE,
                   "%s: '%s' of module '%s' is a %s of module '%s'%s too, which would keep the old "
                   "one: begin at a module that holds both",
                   who, p->name, holder->path,
                   is_parameter_a_buffer(holder, p) ? "buffer" : "parameter",
                   other ? other->path : "", other ? "" : " of another tree");
}

static weft_status check_not_tied_outside_below(weft_module *m, weft_module *at, const char *who)
{
    for (int i = 0; i < at->n_tensors; i++)
        WF_TRY(check_not_tied_outside(m, at, &at->parameters[i], who));
    for (int i = 0; i < at->n_children; i++)
        WF_TRY(check_not_tied_outside_below(m, at->children[i], who));
    return WEFT_OK;
}

weft_status wf_check_no_outside_ties(weft_module *m, const char *who)
{
    return check_not_tied_outside_below(m, m, who);
}

/* ---- by path ---- */

static weft_tensor *find_tensor_by_path(weft_module *m, const char *path, bool buffer)
{
    const char *what = buffer ? "buffer" : "parameter", *dot;
    struct wf_parameter *p;

    if (!m) return NULL;
    WF_NEED_PTR(path, WEFT_ERR_ARG, "module %s: the path is NULL", what);
    dot = strrchr(path, '.');
    if (dot) {
        char *owner = wf_format("%.*s", (int)(dot - path), path);

        m = weft_module_child(m, owner);
        wf_free(owner);
        if (!m) return NULL;
    }
    p = find_parameter(m, dot ? dot + 1 : path);
    WF_NEED_PTR(p && is_parameter_a_buffer(m, p) == buffer, WEFT_ERR_NOT_FOUND,
                "%s path '%s': module '%s' (%s) has no %s '%s'", what, path, m->path, m->kind->type,
                what, dot ? dot + 1 : path);
    return p->tensor;
}

weft_tensor *weft_module_parameter(weft_module *m, const char *path)
{
    return find_tensor_by_path(m, path, false);
}

weft_tensor *weft_module_buffer(weft_module *m, const char *path)
{
    return find_tensor_by_path(m, path, true);
}
