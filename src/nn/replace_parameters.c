/*
 * replace_parameters.c: all parameters of a tree replaced by others of the same shapes: with
 * elements, without, on another device, of another dtype. What several modules share they go on
 * sharing, modules elsewhere in the tree too; a failure changes nothing.
 */
#include <weft/autograd.h>
#include <weft/ops.h>

#include "nn/layer_construction.h"

/* The replacement of a parameter: itself, another tensor, or NULL with an error. */
typedef weft_tensor *replace_function(const struct wf_parameter *p, int what);

struct slot {
    struct wf_parameter *parameter;
    weft_tensor *tensor; /* the new one */
};

struct slots {
    struct slot *items;
    int count;
    bool trial; /* it will be taken back, so what another tree has does not matter */
};

static weft_tensor *find_replacement(const struct slots *slots, const weft_tensor *old)
{
    for (int i = 0; i < slots->count; i++)
        if (slots->items[i].parameter->tensor == old) return slots->items[i].tensor;
    return NULL;
}

static weft_status make_replacement(struct slots *slots, struct wf_parameter *p,
                                    replace_function *remake, int what)
{
    weft_tensor *t = find_replacement(slots, p->tensor);

    if (!t) {
        t = remake(p, what);
        if (!t) return weft_error_status();
        if (t != p->tensor && weft_requires_grad(p->tensor)) weft_set_requires_grad(t, true);
    }
    slots->items[slots->count++] = (struct slot){p, t};
    return WEFT_OK;
}

static weft_status make_replacements_below(struct slots *slots, weft_module *m,
                                           replace_function *remake, int what)
{
    for (int i = 0; i < m->n_tensors; i++)
        WF_TRY(make_replacement(slots, &m->parameters[i], remake, what));
    for (int i = 0; i < m->n_children; i++)
        WF_TRY(make_replacements_below(slots, m->children[i], remake, what));
    return WEFT_OK;
}

/* The places outside of `m` that have one of its parameters get the new one too. */
static void replace_ties_outside(struct slots *slots, weft_module *at, const weft_module *m)
{
    if (at == m) return;
    for (int i = 0; i < at->n_tensors; i++) {
        struct wf_parameter *p = &at->parameters[i];
        weft_tensor *made =
            *wf_tensor_parameter_count(p->tensor) > 1 ? find_replacement(slots, p->tensor) : NULL;

        if (made) slots->items[slots->count++] = (struct slot){p, made};
    }
    for (int i = 0; i < at->n_children; i++) replace_ties_outside(slots, at->children[i], m);
}

static weft_status check_all_ties_replaced(const struct slots *slots)
{
    for (int i = 0; i < slots->count; i++) {
        const struct wf_parameter *p = slots->items[i].parameter;
        int places = 0;

        if (p->tensor == slots->items[i].tensor || *wf_tensor_parameter_count(p->tensor) == 1)
            continue;
        for (int j = 0; j < slots->count; j++)
            places += slots->items[j].parameter->tensor == p->tensor;
        WF_NEED(places == *wf_tensor_parameter_count(p->tensor), WEFT_ERR_STATE,
                "parameter '%s' would be replaced, but is one of a module of another tree too: put "
                "both under one root",
                p->name);
    }
    return WEFT_OK;
}

static weft_status make_replacements_of_tree(struct slots *slots, weft_module *m,
                                             replace_function *remake, int what)
{
    weft_module *root = wf_module_root(m);

    slots->items = wf_calloc((size_t)wf_module_count_tensors(root) + 1, sizeof *slots->items);
    WF_TRY(make_replacements_below(slots, m, remake, what));
    replace_ties_outside(slots, root, m);
    return slots->trial ? WEFT_OK : check_all_ties_replaced(slots);
}

static weft_status replace_all_parameters(weft_module *m, replace_function *remake, int what,
                                          bool trial)
{
    struct slots slots = {.trial = trial};
    weft_scope *scope = weft_scope_open();
    weft_status status = make_replacements_of_tree(&slots, m, remake, what);

    for (int i = 0; i < slots.count && status == WEFT_OK; i++)
        wf_parameter_replace_tensor(slots.items[i].parameter, slots.items[i].tensor);
    wf_free(slots.items);
    weft_scope_close(scope);
    return status;
}

static weft_tensor *materialize_parameter(const struct wf_parameter *p, int device)
{
    weft_tensor *t;

    if (weft_tensor_device(p->tensor) != WEFT_META) return p->tensor;
    t = weft_empty_like_partial(p->tensor, (weft_device)device);
    if (t) WF_TRY_PTR(wf_initial_values_fill(t, &p->first));
    return t;
}

weft_status weft_module_materialize(weft_module *m, weft_device device)
{
    WF_NEED_GIVEN(m, "materialize: the module is NULL");
    WF_NEED((unsigned)device < WEFT_DEVICES && device != WEFT_META, WEFT_ERR_ARG,
            "materialize: there are no elements on device %d", (int)device);
    return replace_all_parameters(m, materialize_parameter, (int)device, false);
}

static weft_tensor *parameter_to_device(const struct wf_parameter *p, int device)
{
    weft_tensor *t;

    if (weft_tensor_device(p->tensor) == WEFT_META) return p->tensor;
    weft_no_grad_open();
    t = weft_to_device(p->tensor, (weft_device)device);
    weft_no_grad_close();
    return t;
}

static bool is_all_on_device(const weft_module *m, weft_device device)
{
    bool all = true;

    for (int i = 0; i < m->n_tensors; i++) {
        weft_device own = weft_tensor_device(m->parameters[i].tensor);

        all &= own == device || own == WEFT_META;
    }
    for (int i = 0; i < m->n_children && all; i++) all = is_all_on_device(m->children[i], device);
    return all;
}

weft_status weft_module_to_device(weft_module *m, weft_device device)
{
    WF_NEED_GIVEN(m, "module_to_device: the module is NULL");
    WF_NEED((unsigned)device < WEFT_DEVICES && device != WEFT_META, WEFT_ERR_ARG,
            "module_to_device: there are no elements on device %d", (int)device);
    if (is_all_on_device(m, device)) return WEFT_OK;
    return replace_all_parameters(m, parameter_to_device, (int)device, false);
}

static weft_tensor *parameter_on_meta(const struct wf_parameter *p, int device)
{
    return weft_empty_like(p->tensor, (weft_device)device);
}

weft_status wf_module_to_meta(weft_module *m)
{
    return replace_all_parameters(m, parameter_on_meta, WEFT_META, true);
}

static weft_tensor *cast_parameter(const struct wf_parameter *p, int dtype)
{
    weft_dtype own = weft_tensor_dtype(p->tensor);
    weft_tensor *t;

    if (!weft_dtype_is_float(own) || own == (weft_dtype)dtype) return p->tensor;
    weft_no_grad_open();
    t = weft_cast(p->tensor, (weft_dtype)dtype);
    weft_no_grad_close();
    return t;
}

weft_status weft_module_cast(weft_module *m, weft_dtype dtype)
{
    WF_NEED_GIVEN(m, "cast: the module is NULL");
    WF_NEED((unsigned)dtype < WEFT_DTYPE_COUNT, WEFT_ERR_DTYPE, "cast: there is no dtype %d",
            (int)dtype);
    WF_NEED(weft_dtype_is_float(dtype), WEFT_ERR_DTYPE, "cast: parameters cannot be %s",
            weft_dtype_name(dtype));
    return replace_all_parameters(m, cast_parameter, (int)dtype, false);
}
