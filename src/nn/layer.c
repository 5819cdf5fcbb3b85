/* layer.c: parameters with first values, and the common steps of constructors. */
#include "nn/layer.h"

#include <weft/random.h>

weft_module *wf_layer_new(const weft_module_class *kind, size_t bytes)
{
    return weft_module_new(kind, wf_calloc(1, bytes));
}

enum filling { NORMAL, UNIFORM, EQUAL };

static weft_tensor *filled(weft_dtype dtype, int ndim, const int64_t *shape, enum filling filling,
                           double value)
{
    weft_tensor *t;

    if (filling == EQUAL) return weft_full(dtype, ndim, shape, value);
    t = weft_empty(dtype, ndim, shape);
    if (!t) return NULL;
    WF_TRY_PTR(filling == NORMAL ? weft_normal_(t, 0, value, NULL)
                                 : weft_uniform_(t, -value, value, NULL));
    return t;
}

static weft_status add(weft_module *m, const char *name, weft_dtype dtype, int ndim,
                       const int64_t *shape, enum filling filling, double value)
{
    weft_scope *scope;
    weft_status status;

    WF_NEED(m, WEFT_ERR_ARG, "parameter %s: the module is NULL", name);
    WF_NEED(weft_dtype_is_float(dtype), WEFT_ERR_DTYPE, "%s: parameter %s cannot be %s",
            m->kind->type, name, weft_dtype_name(dtype));
    scope = weft_scope_open();
    status = weft_module_add_parameter(m, name, filled(dtype, ndim, shape, filling, value));
    weft_scope_close(scope);
    return status;
}

weft_status wf_parameter_normal(weft_module *m, const char *name, weft_dtype dtype, int ndim,
                                const int64_t *shape, double std)
{
    return add(m, name, dtype, ndim, shape, NORMAL, std);
}

weft_status wf_parameter_uniform(weft_module *m, const char *name, weft_dtype dtype, int ndim,
                                 const int64_t *shape, double bound)
{
    return add(m, name, dtype, ndim, shape, UNIFORM, bound);
}

weft_status wf_parameter_fill(weft_module *m, const char *name, weft_dtype dtype, int ndim,
                              const int64_t *shape, double value)
{
    return add(m, name, dtype, ndim, shape, EQUAL, value);
}

weft_status wf_need_size(const char *layer, const char *field, int64_t size)
{
    WF_NEED(size >= 1, WEFT_ERR_ARG, "%s: %s is %lld; it must be 1 or more", layer, field,
            (long long)size);
    return WEFT_OK;
}

weft_module *wf_layer_done(weft_module *m, weft_status status)
{
    if (status == WEFT_OK) return m;
    weft_module_release(m);
    return NULL;
}
