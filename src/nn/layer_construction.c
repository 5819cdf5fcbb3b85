/* layer_construction.c: parameters with first values, and the common steps of constructors. */
#include "nn/layer_construction.h"

#include <weft/autograd.h>
#include <weft/factory.h>
#include <weft/ops.h>
#include <weft/random.h>

weft_module *wf_layer_new(const weft_module_class *kind, size_t bytes)
{
    return weft_module_new(kind, wf_calloc(1, bytes));
}

/* By a product of every element with 0 or 1, which needs no communication in any layout. */
static weft_status zero_row(weft_tensor *t, int64_t row)
{
    weft_spec rows = {.dtype = WEFT_I64, .ndim = 1, .shape = {weft_size(t, 0)}};
    weft_scope *scope;
    weft_tensor *mask;
    weft_status status;

    if (weft_tensor_device(t) == WEFT_META) return WEFT_OK;
    scope = weft_scope_open();
    weft_no_grad_open();
    rows.mesh = weft_tensor_mesh(t);
    mask = weft_cast(weft_make_arange(rows, (double)-row, 1), WEFT_BOOL);
    mask = weft_to_device(weft_cast(mask, weft_tensor_dtype(t)), weft_tensor_device(t));
    mask = weft_reshape(mask, (int64_t[]){weft_size(t, 0), 1}, 2);
    status = weft_copy_(t, weft_mul(t, mask));
    weft_no_grad_close();
    weft_scope_close(scope);
    return status;
}

weft_status wf_layer_add_child(weft_module *m, const char *name, weft_module **parent_slot)
{
    weft_module *child = *parent_slot;

    WF_TRY(weft_module_add_child(m, name, child));
    child->parent_slot = parent_slot;
    return WEFT_OK;
}

static weft_status draw_initial_values(weft_tensor *t, const struct wf_initial_values *first,
                                       weft_generator *g)
{
    switch (first->filling) {
    case WF_INIT_NORMAL:
        return weft_normal_(t, 0, first->value, g);
    case WF_INIT_UNIFORM:
        return weft_uniform_(t, -first->value, first->value, g);
    case WF_INIT_CONSTANT:
        return weft_fill_(t, first->value);
    default:
        return WEFT_OK;
    }
}

weft_status wf_initial_values_fill(weft_tensor *t, const struct wf_initial_values *first)
{
    weft_generator *g;
    weft_status status;

    if (first->filling == WF_INIT_UNKNOWN) return WEFT_OK;
    g = weft_generator_new(0);
    status = weft_generator_set_state(g, first->state);
    if (status == WEFT_OK) status = draw_initial_values(t, first, g);
    if (status == WEFT_OK && first->empty_row) status = zero_row(t, first->empty_row - 1);
    weft_generator_release(g);
    return status;
}

static weft_status reset_parameter(const weft_module_tensor *it, void *payload)
{
    weft_generator *g = payload;
    struct wf_parameter *p = it->module->parameters;

    while (p->tensor != it->tensor) p++;
    if (it->buffer || p->first.filling == WF_INIT_UNKNOWN) return WEFT_OK;
    weft_generator_state(g, p->first.state);
    WF_TRY(draw_initial_values(p->tensor, &p->first, g));
    return p->first.empty_row ? zero_row(p->tensor, p->first.empty_row - 1) : WEFT_OK;
}

weft_status weft_module_reset_parameters(weft_module *m, weft_generator *g)
{
    weft_status status;

    WF_NEED_GIVEN(m, "reset: the module is NULL");
    weft_no_grad_open();
    status = weft_module_each_tensor(m, reset_parameter, g ? g : weft_default_generator());
    weft_no_grad_close();
    return status;
}

static weft_status add_initialized_parameter(weft_module *m, const char *name, weft_dtype dtype,
                                             const int64_t *shape, int ndim,
                                             enum wf_init_kind filling, double value)
{
    struct wf_initial_values first = {.filling = filling, .value = value};
    weft_scope *scope;
    weft_status status;
    weft_tensor *t;

    WF_NEED(m, WEFT_ERR_ARG, "parameter %s: the module is NULL", name);
    WF_NEED(weft_dtype_is_float(dtype), WEFT_ERR_DTYPE, "%s: parameter %s cannot be %s",
            m->kind->type, name, weft_dtype_name(dtype));
    weft_generator_state(weft_default_generator(), first.state);
    scope = weft_scope_open();
    t = weft_empty(dtype, shape, ndim);
    status = t ? draw_initial_values(t, &first, NULL) : weft_error_status();
    if (status == WEFT_OK) status = weft_module_add_parameter(m, name, t);
    if (status == WEFT_OK) m->parameters[m->n_parameters - 1].first = first;
    weft_scope_close(scope);
    return status;
}

weft_status wf_parameter_add_normal(weft_module *m, const char *name, weft_dtype dtype,
                                    const int64_t *shape, int ndim, double std)
{
    return add_initialized_parameter(m, name, dtype, shape, ndim, WF_INIT_NORMAL, std);
}

weft_status wf_parameter_add_uniform(weft_module *m, const char *name, weft_dtype dtype,
                                     const int64_t *shape, int ndim, double bound)
{
    return add_initialized_parameter(m, name, dtype, shape, ndim, WF_INIT_UNIFORM, bound);
}

weft_status wf_parameter_add_constant(weft_module *m, const char *name, weft_dtype dtype,
                                      const int64_t *shape, int ndim, double value)
{
    return add_initialized_parameter(m, name, dtype, shape, ndim, WF_INIT_CONSTANT, value);
}

weft_status wf_parameter_zero_row(weft_module *m, int64_t row)
{
    struct wf_parameter *p = &m->parameters[m->n_parameters - 1];

    p->first.empty_row = row + 1;
    return zero_row(p->tensor, row);
}

weft_tensor *wf_parameter_selected_rows(const struct wf_parameter *p)
{
    int64_t shape[WEFT_MAX_DIMS], table[] = {0, -1};
    int n = weft_ndim(p->tensor);
    weft_tensor *rows;

    if (!p->rows) return p->tensor;
    rows = weft_to_device(p->rows, weft_tensor_device(p->tensor));
    table[0] = weft_size(p->tensor, 0);
    for (int d = 0; d < n; d++) shape[d] = weft_size(p->tensor, d);
    shape[0] = weft_numel(p->rows);
    return weft_reshape(weft_embedding(weft_reshape(p->tensor, table, 2), rows), shape, n);
}

weft_status wf_check_positive_size(const char *layer, const char *field, int64_t size)
{
    WF_NEED(size >= 1, WEFT_ERR_ARG, "%s: %s is %lld; it must be 1 or more", layer, field,
            (long long)size);
    return WEFT_OK;
}

weft_module *wf_layer_finish(weft_module *m, weft_status status)
{
    if (status == WEFT_OK) return m;
    weft_module_release(m);
    return NULL;
}
