/*
 * remake.c: all parameters of a tree replaced by others of the same shapes: with elements, without,
 * of another dtype. What several modules share they go on sharing; a failure changes nothing.
 */
#include <weft/autograd.h>
#include <weft/ops.h>

#include "nn/layer.h"

/* What becomes of a parameter: itself, another tensor, or NULL with an error. */
typedef weft_tensor *remake_function(const struct wf_parameter *p, int what);

struct slot {
    struct wf_parameter *parameter;
    weft_tensor *tensor; /* the new one */
};

struct slots {
    struct slot *items;
    int count;
};

static weft_tensor *made_before(const struct slots *slots, const weft_tensor *old)
{
    for (int i = 0; i < slots->count; i++)
        if (slots->items[i].parameter->tensor == old) return slots->items[i].tensor;
    return NULL;
}

static weft_status remake_one(struct slots *slots, struct wf_parameter *p, remake_function *remake,
                              int what)
{
    weft_tensor *t = made_before(slots, p->tensor);

    if (!t) {
        t = remake(p, what);
        if (!t) return weft_error_status();
        if (t != p->tensor && weft_requires_grad(p->tensor)) weft_set_requires_grad(t, true);
    }
    slots->items[slots->count++] = (struct slot){p, t};
    return WEFT_OK;
}

static weft_status commit(weft_module **modules, int n, const struct slots *slots)
{
    int next = 0;

    for (int i = 0; i < n; i++)
        for (int j = 0; j < modules[i]->n_parameters; j++, next++)
            WF_TRY(weft_module_set_parameter(modules[i], modules[i]->parameters[j].name,
                                             slots->items[next].tensor));
    return WEFT_OK;
}

static weft_status remake_all(weft_module *root, remake_function *remake, int what)
{
    struct slots slots = {0};
    weft_scope *scope = weft_scope_open();
    weft_status status = WEFT_OK;
    int n, total = 0;
    weft_module **modules = wf_module_list(root, &n);

    for (int i = 0; i < n; i++) total += modules[i]->n_parameters;
    slots.items = wf_calloc((size_t)total + 1, sizeof *slots.items);
    for (int i = 0; i < n && status == WEFT_OK; i++)
        for (int j = 0; j < modules[i]->n_parameters && status == WEFT_OK; j++)
            status = remake_one(&slots, &modules[i]->parameters[j], remake, what);
    if (status == WEFT_OK) status = commit(modules, n, &slots);
    wf_free(slots.items);
    wf_free(modules);
    weft_scope_close(scope);
    return status;
}

static weft_tensor *with_elements(const struct wf_parameter *p, int device)
{
    weft_tensor *t;

    if (weft_tensor_device(p->tensor) != WEFT_META) return p->tensor;
    t = weft_empty_like(p->tensor, (weft_device)device);
    if (t) WF_TRY_PTR(wf_fill_first(t, &p->first));
    return t;
}

weft_status weft_module_materialize(weft_module *m, weft_device device)
{
    WF_NEED_GIVEN(m, "materialize: the module is NULL");
    WF_NEED((unsigned)device < WEFT_DEVICES && device != WEFT_META, WEFT_ERR_ARG,
            "materialize: there are no elements on device %d", (int)device);
    return remake_all(m, with_elements, (int)device);
}

static weft_tensor *without_elements(const struct wf_parameter *p, int device)
{
    return weft_empty_like(p->tensor, (weft_device)device);
}

weft_status wf_module_empty(weft_module *m) { return remake_all(m, without_elements, WEFT_META); }

static weft_tensor *cast(const struct wf_parameter *p, int dtype)
{
    weft_dtype own = weft_tensor_dtype(p->tensor);
    weft_tensor *t;

    if (!weft_dtype_is_float(own) || own == (weft_dtype)dtype) return p->tensor;
    weft_no_grad_begin();
    t = weft_cast(p->tensor, (weft_dtype)dtype);
    weft_no_grad_end();
    return t;
}

weft_status weft_module_cast(weft_module *m, weft_dtype dtype)
{
    WF_NEED_GIVEN(m, "cast: the module is NULL");
    WF_NEED((unsigned)dtype < WEFT_DTYPE_COUNT, WEFT_ERR_DTYPE, "cast: there is no dtype %d",
            (int)dtype);
    WF_NEED(weft_dtype_is_float(dtype), WEFT_ERR_DTYPE, "cast: parameters cannot be %s",
            weft_dtype_name(dtype));
    return remake_all(m, cast, (int)dtype);
}
