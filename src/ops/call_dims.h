/* call_dims.h: sizes of a call's inputs, for rules and checks. */
#pragma once

#include "ops/op_table.h"

/** Dims of input i; 0 where it is left out. */
static inline int wf_ndim_of_input(const struct wf_infer *call, int i)
{
    return call->in[i] ? call->in[i]->desc.ndim : 0;
}

/** Global size of dim d of input i, which is given. */
static inline int64_t wf_size_of_input(const struct wf_infer *call, int i, int d)
{
    return call->in[i]->desc.global[d];
}

/** x broadcasts to a shape, by NumPy's rules. */
static inline bool wf_repeats_to(const struct wf_tensor_desc *x, const int64_t *shape, int ndim)
{
    int missing = ndim - x->ndim;

    for (int d = 0; d < x->ndim && missing >= 0; d++)
        if (x->global[d] != shape[missing + d] && x->global[d] != 1) return false;
    return missing >= 0;
}

/** The dim that an op is along: its attributes begin as wf_dim_attrs does. */
static inline int64_t wf_dim_of_op(const struct wf_infer *call) { return call->attrs->dim.dim; }
