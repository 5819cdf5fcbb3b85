/* layer_construction.h: what layers share while they are made: parameters with first values,
 * checked sizes. */
#pragma once

#include "base/error.h"
#include "base/mem.h"
#include "nn/module.h"

/** The module with a zeroed payload of `bytes`, freed by kind->free = wf_free. */
weft_module *wf_layer_new(const weft_module_class *kind, size_t bytes);

/** Put the child that is in a pointer of the payload under m; the pointer follows when the child is
 *  replaced. */
weft_status wf_layer_add_child(weft_module *m, const char *name, weft_module **parent_slot);

/** A new parameter with normal / uniform / equal first values. */
weft_status wf_parameter_add_normal(weft_module *m, const char *name, weft_dtype dtype,
                                    const int64_t *shape, int ndim, double std);
weft_status wf_parameter_add_uniform(weft_module *m, const char *name, weft_dtype dtype,
                                     const int64_t *shape, int ndim, double bound);
weft_status wf_parameter_add_constant(weft_module *m, const char *name, weft_dtype dtype,
                                      const int64_t *shape, int ndim, double value);

/** A row of the parameter that was added last begins as zeros. */
weft_status wf_parameter_zero_row(weft_module *m, int64_t row);

/** Fill with the first values that `first` describes, from the state of the generator that it
 * saved. */
weft_status wf_initial_values_fill(weft_tensor *t, const struct wf_initial_values *first);

/** A parameter as a forward takes it: its `rows`. */
weft_tensor *wf_parameter_selected_rows(const struct wf_parameter *p);

/** Queries, keys and values (grouped_qkv.c): x [*, in] -> [*, groups, heads / groups + 2,
 * head_dim]. */
struct wf_grouped_qkv_config {
    int64_t in, heads, groups, head_dim;
    bool no_bias;
    double std; /* as weft_linear_config's */
    weft_dtype dtype;
};
weft_module *wf_grouped_qkv_new(const struct wf_grouped_qkv_config *c);

/** WEFT_ERR_ARG naming layer and field unless size >= 1. */
weft_status wf_check_positive_size(const char *layer, const char *field, int64_t size);

/** m when `status` is good, else m is released: how every constructor ends. */
weft_module *wf_layer_finish(weft_module *m, weft_status status);
