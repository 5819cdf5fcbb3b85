/* join.c: tensors joined along a dim, which they have or which is new. */
#include <weft/ops.h>

#include "base/error.h"
#include "base/mem.h"
#include "ops/op_functions.h"
#include "ops/op_plan.h"

weft_status wf_shape_cat(struct wf_infer *call)
{
    int dim = (int)call->attrs->dim.dim;

    wf_infer_output_like(call, 0, call->in[0]);
    for (int i = 1; i < call->n_in; i++) {
        const struct wf_tensor_desc *x = &call->in[i]->desc;

        WF_NEED(x->ndim == call->out[0].ndim && x->dtype == call->in[0]->desc.dtype, WEFT_ERR_SHAPE,
                "cat: dims or dtypes differ: %s", wf_infer_inputs_text(call));
        for (int d = 0; d < x->ndim; d++)
            WF_NEED(d == dim || x->global[d] == call->out[0].shape[d], WEFT_ERR_SHAPE,
                    "cat: sizes differ in dim %d: %s", d, wf_infer_inputs_text(call));
        call->out[0].shape[dim] += x->global[dim];
    }
    return WEFT_OK;
}

void wf_vjp_cat(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    const struct wf_op_plan *plan = wf_tape_node_op_plan(n);
    int64_t dim = plan->attrs.dim.dim, start = 0;

    for (int i = 0; i < plan->n_in; i++) {
        int64_t size = plan->in[i]->desc.global[dim];

        if (wf_tape_node_needs_grad(n, i)) in[i] = weft_slice(g, (int)dim, start, start + size);
        start += size;
    }
}

/* More tensors than an op takes are concatenated in groups, then the groups are. */
static weft_tensor *cat_in_groups(weft_tensor *const *x, int n, const struct wf_op_args *args)
{
    int groups = n < WF_MAX_IN ? n : WF_MAX_IN;
    weft_tensor *group[WF_MAX_IN];

    if (n == 1) return x[0];
    for (int i = 0, from = 0; i < groups; i++) {
        int some = (n - from) / (groups - i);

        group[i] = cat_in_groups(x + from, some, args);
        if (!group[i]) return NULL;
        from += some;
    }
    return wf_dispatch_op_one_output(WF_OP_cat, group, groups, args);
}

/* torch: a tensor [0] joins tensors of any shape. */
static bool is_empty_1d(const weft_tensor *x)
{
    return weft_ndim(x) == 1 && x->layout->desc.global[0] == 0;
}

/* The first that decides how many dims there are. */
static int first_to_join(weft_tensor *const *x, int n)
{
    for (int i = 0; i < n; i++)
        if (!is_empty_1d(x[i])) return i;
    return 0;
}

static bool have_one_dtype_and_ndim(weft_tensor *const *x, int n)
{
    bool one = true;

    for (int i = 1; i < n; i++)
        one &= weft_tensor_dtype(x[i]) == weft_tensor_dtype(x[0]) &&
               weft_ndim(x[i]) == weft_ndim(x[0]);
    return one;
}

/* Of several dtypes, which become the one in which they meet; without the empty lists. */
static weft_tensor *cat_promoted(weft_tensor *const *x, int n, bool drop_empty,
                                 const struct wf_op_args *args)
{
    weft_dtype dtype = weft_tensor_dtype(x[0]);
    weft_tensor **joined = wf_malloc((size_t)n * sizeof(weft_tensor *)), *y = NULL;
    int some = 0, i = 0;

    for (int k = 1; k < n; k++) dtype = wf_common_dtype(dtype, weft_tensor_dtype(x[k]));
    for (; i < n; i++) {
        if (drop_empty && is_empty_1d(x[i])) continue;
        joined[some] = weft_cast(x[i], dtype);
        if (!joined[some++]) break;
    }
    if (i == n) y = cat_in_groups(joined, some, args);
    wf_free(joined);
    return y;
}

weft_tensor *weft_cat(weft_tensor *const *x, int n, int dim)
{
    struct wf_op_args args;
    int d, first;

    WF_NEED_PTR(n >= 1, WEFT_ERR_ARG, "cat: nothing to join");
    WF_NEED_PTR(x, WEFT_ERR_ARG, "cat: no list of tensors");
    for (int i = 0; i < n; i++)
        if (!x[i]) return NULL;
    for (int i = 0; i < n; i++) WF_TRY_PTR(wf_tensor_need_alive(x[i], "cat"));
    first = first_to_join(x, n);
    d = wf_normalize_dim(dim, weft_ndim(x[first]), "cat");
    if (d < 0) return NULL;
    args = (struct wf_op_args){WF_ATTRS(dim, .dim = d)};
    if (have_one_dtype_and_ndim(x, n)) return cat_in_groups(x, n, &args);
    return cat_promoted(x, n, weft_ndim(x[first]) > 1, &args);
}

/* ---- along a new dim ---- */

/* Each of them seen otherwise, then joined. */
static weft_tensor *cat_changed(weft_tensor *const *x, int n, int dim, const char *who,
                                weft_tensor *(*change)(weft_tensor *x, int dim))
{
    weft_tensor **changed, *joined = NULL;
    int i = 0;

    WF_NEED_PTR(n >= 1, WEFT_ERR_ARG, "%s: nothing to join", who);
    WF_NEED_PTR(x, WEFT_ERR_ARG, "%s: no list of tensors", who);
    changed = wf_malloc((size_t)n * sizeof *changed);
    while (i < n && (changed[i] = change(x[i], dim))) i++;
    if (i == n) joined = weft_cat(changed, n, dim);
    wf_free(changed);
    return joined;
}

weft_tensor *weft_stack(weft_tensor *const *x, int n, int dim)
{
    int d;

    WF_NEED_PTR(n >= 1, WEFT_ERR_ARG, "stack: nothing to join");
    WF_NEED_PTR(x, WEFT_ERR_ARG, "stack: no list of tensors");
    for (int i = 0; i < n; i++)
        if (!x[i]) return NULL;
    for (int i = 0; i < n; i++) {
        WF_TRY_PTR(wf_tensor_need_alive(x[i], "stack"));
        WF_NEED_PTR(weft_ndim(x[i]) == weft_ndim(x[0]), WEFT_ERR_SHAPE,
                    "stack: tensor %d has %d dims, tensor 0 has %d", i, weft_ndim(x[i]),
                    weft_ndim(x[0]));
        for (d = 0; d < weft_ndim(x[0]); d++)
            WF_NEED_PTR(weft_size(x[i], d) == weft_size(x[0], d), WEFT_ERR_SHAPE,
                        "stack: tensor %d has size %lld in dim %d, tensor 0 has %lld", i,
                        (long long)weft_size(x[i], d), d, (long long)weft_size(x[0], d));
    }
    d = wf_normalize_dim(dim, weft_ndim(x[0]) + 1, "stack");
    return d < 0 ? NULL : cat_changed(x, n, d, "stack", weft_unsqueeze);
}

static weft_tensor *at_least_row(weft_tensor *x, int dim)
{
    return weft_atleast_nd(x, dim == 0 ? 2 : 1);
}

static weft_tensor *unchanged(weft_tensor *x, int dim)
{
    (void)dim;
    return x;
}

weft_tensor *weft_hstack(weft_tensor *const *x, int n)
{
    if (n < 1 || !x || !x[0]) return weft_cat(x, n, 0);
    WF_TRY_PTR(wf_tensor_need_alive(x[0], "hstack"));
    if (weft_ndim(x[0]) < 1) return weft_stack(x, n, 0);
    return cat_changed(x, n, weft_ndim(x[0]) == 1 ? 0 : 1, "hstack", unchanged);
}

weft_tensor *weft_vstack(weft_tensor *const *x, int n)
{
    return cat_changed(x, n, 0, "vstack", at_least_row);
}
