/*
 * sort.c: elements along a dim in order, and the median. The dim is brought together where it is
 * sharded; all others may be.
 */
#include <weft/ops.h>

#include "base/error.h"
#include "ops/op_functions.h"
#include "ops/op_plan.h"

weft_status wf_shape_sort(struct wf_infer *call)
{
    WF_NEED(call->in[0]->desc.ndim > 0, WEFT_ERR_SHAPE, "sort: a number has no order");
    for (int j = 0; j < 2; j++) wf_infer_output_like(call, j, call->in[0]);
    call->out[1].dtype = WEFT_I64;
    return WEFT_OK;
}

/* Each element's gradient goes back to where it was. */
void wf_vjp_sort(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    struct wf_layout *x = wf_tape_node_input_layout(n, 0);
    struct wf_op_args args = {WF_ATTRS(topk_grad, .row_size = x->desc.global[x->desc.ndim - 1]),
                              .want = x};

    in[0] = wf_dispatch_op_one_output(WF_OP_topk_grad, (weft_tensor *[]){g, wf_saved_output(n, 1)},
                                      2, &args);
}

weft_tensor *weft_sort(weft_tensor *x, int dim, bool descending, weft_tensor **indices)
{
    struct wf_op_args args = {WF_ATTRS(sort, .descending = descending)};
    weft_tensor *at = NULL, *y;
    weft_dtype dtype;
    int d, last;

    if (indices) *indices = NULL;
    if (!x) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "sort"));
    if (wf_is_dim_of_scalar(x, dim))
        return wf_squeeze_to_scalar(weft_sort(weft_atleast_nd(x, 1), 0, descending, indices),
                                    indices);
    last = weft_ndim(x) - 1;
    d = wf_normalize_dim(dim, weft_ndim(x), "sort");
    if (d < 0) return NULL;
    dtype = weft_tensor_dtype(x);
    x = wf_widen_small_integers(x);
    if (d != last) x = weft_transpose(x, d, last);
    y = wf_narrow_small_integers(wf_dispatch_op(WF_OP_sort, &x, 1, &args, &at), dtype);
    if (!y) return NULL;
    if (indices) *indices = d == last ? at : weft_transpose(at, d, last);
    return d == last ? y : weft_transpose(y, d, last);
}

weft_tensor *weft_argsort(weft_tensor *x, int dim, bool descending)
{
    weft_tensor *indices, *y;

    weft_no_grad_open();
    y = weft_sort(x, dim, descending, &indices);
    weft_no_grad_close();
    return y ? indices : NULL;
}

/* ---- one of each row in order ---- */

/* Entry `at` of the dim, which goes or stays with size 1. */
static weft_tensor *entry_of_dim(weft_tensor *x, int dim, int64_t at, bool keep)
{
    return keep ? wf_slice_dim(x, dim, at, 1) : weft_select(x, dim, at);
}

weft_tensor *weft_kthvalue(weft_tensor *x, int64_t k, int dim, bool keep, weft_tensor **index)
{
    weft_tensor *at, *y;
    int d;

    if (index) *index = NULL;
    if (!x) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "kthvalue"));
    if (wf_is_dim_of_scalar(x, dim))
        return weft_kthvalue(weft_atleast_nd(x, 1), k, 0, false, index);
    d = wf_normalize_dim(dim, weft_ndim(x), "kthvalue");
    if (d < 0) return NULL;
    WF_NEED_PTR(k >= 1 && k <= weft_size(x, d), WEFT_ERR_ARG, "kthvalue: element %lld of %lld",
                (long long)k, (long long)weft_size(x, d));
    y = weft_sort(x, d, false, &at);
    if (!y) return NULL;
    if (index) *index = entry_of_dim(at, d, k - 1, keep);
    return entry_of_dim(y, d, k - 1, keep);
}

/* Not-a-number is last in order: where there is one, the last element is it, and the median too. */
weft_tensor *weft_median(weft_tensor *x, int dim, bool keep, weft_tensor **index)
{
    weft_tensor *at, *y, *middle, *last, *unknown;
    int64_t n;
    int d;

    if (index) *index = NULL;
    if (!x) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "median"));
    if (wf_is_dim_of_scalar(x, dim)) return weft_median(weft_atleast_nd(x, 1), 0, false, index);
    d = wf_normalize_dim(dim, weft_ndim(x), "median");
    if (d < 0) return NULL;
    n = weft_size(x, d);
    WF_NEED_PTR(n > 0, WEFT_ERR_ARG, "median: of no elements");
    y = weft_sort(x, d, false, &at);
    if (!y) return NULL;
    middle = entry_of_dim(y, d, (n - 1) / 2, keep);
    last = entry_of_dim(y, d, n - 1, keep);
    if (index) *index = entry_of_dim(at, d, (n - 1) / 2, keep);
    if (!weft_dtype_is_float(weft_tensor_dtype(x))) return middle;
    unknown = weft_isnan(weft_detach(last));
    if (index) *index = weft_where(unknown, entry_of_dim(at, d, n - 1, keep), *index);
    return weft_where(unknown, last, middle);
}
