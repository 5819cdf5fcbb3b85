/* gather.c: elements of a dim, chosen for each place by an index tensor with all dims. */
#include <weft/ops.h>

#include "base/elements/dtype.h"
#include "base/error.h"
#include "ops/call_dims.h"
#include "ops/indexing/gather_calls.h"
#include "ops/op_functions.h"
#include "ops/op_plan.h"

bool wf_is_index_dtype(const struct wf_layout *layout)
{
    return layout->desc.dtype == WEFT_I32 || layout->desc.dtype == WEFT_I64;
}

weft_status wf_shape_gather(struct wf_infer *call)
{
    const struct wf_tensor_desc *x = &call->in[0]->desc, *index = &call->in[1]->desc;
    int dim = (int)call->attrs->dim.dim;

    WF_NEED(wf_is_index_dtype(call->in[1]), WEFT_ERR_DTYPE,
            "gather: the index, the second, is i32 or i64: %s", wf_infer_inputs_text(call));
    WF_NEED(x->ndim == index->ndim, WEFT_ERR_SHAPE, "gather: dims differ: %s",
            wf_infer_inputs_text(call));
    for (int d = 0; d < x->ndim; d++)
        WF_NEED(d == dim || x->global[d] == index->global[d], WEFT_ERR_SHAPE,
                "gather: sizes differ in dim %d: %s", d, wf_infer_inputs_text(call));
    wf_infer_output_like(call, 0, call->in[1]);
    call->out[0].dtype = (weft_dtype)x->dtype;
    return WEFT_OK;
}

/* Of the dim that is cut each rank gives what it has; u8 and bool cannot be added up. */
void wf_rule_gather(const struct wf_infer *call, struct wf_dim_labels *labels)
{
    int ndim = wf_ndim_of_input(call, 0), dim = (int)wf_dim_of_op(call);
    weft_dtype dtype = call->out[0].dtype;

    for (int d = 0; d < ndim; d++) {
        if (d != dim) labels->in[0][d] = (int8_t)(d + 1);
        labels->in[1][d] = (int8_t)(d + 1);
        labels->out[0][d] = (int8_t)(d + 1);
    }
    labels->count = ndim;
    if (wf_dtype_can_reduce(dtype, WEFT_SUM)) labels->in[0][dim] = (int8_t)++labels->count;
}

weft_tensor *wf_call_gather(weft_tensor *x, int64_t dim, weft_tensor *index)
{
    struct wf_op_args args = {WF_ATTRS(dim, .dim = dim)};

    return wf_dispatch_op_one_output(WF_OP_gather, (weft_tensor *[]){x, index}, 2, &args);
}

void wf_vjp_gather(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    struct wf_layout *x = wf_tape_node_input_layout(n, 0);
    int64_t dim = wf_tape_node_op_plan(n)->attrs.dim.dim;
    struct wf_op_args args = {WF_ATTRS(scatter, .dim = dim, .size = x->desc.global[dim]),
                              .want = x};

    in[0] = wf_dispatch_op_one_output(WF_OP_scatter_add,
                                      (weft_tensor *[]){g, wf_saved_input(n, 1), NULL}, 3, &args);
}

/* ---- public functions ---- */

/* x as far as the index goes in the other dims. */
static weft_tensor *cut_to_index(weft_tensor *x, int dim, const weft_tensor *index)
{
    WF_NEED_PTR(weft_ndim(x) == weft_ndim(index), WEFT_ERR_SHAPE,
                "gather: the index has %d dims, not %d", weft_ndim(index), weft_ndim(x));
    for (int d = 0; x && d < weft_ndim(x); d++) {
        if (d == dim || weft_size(index, d) == weft_size(x, d)) continue;
        WF_NEED_PTR(weft_size(index, d) < weft_size(x, d), WEFT_ERR_SHAPE,
                    "gather: the index has size %lld in dim %d, more than %lld",
                    (long long)weft_size(index, d), d, (long long)weft_size(x, d));
        x = weft_slice(x, d, 0, weft_size(index, d));
    }
    return x;
}

weft_tensor *weft_gather(weft_tensor *x, int dim, weft_tensor *index)
{
    int d;

    if (!x || !index) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "gather"));
    WF_TRY_PTR(wf_tensor_need_alive(index, "gather"));
    if (weft_ndim(index) == 0 && weft_ndim(x) < 2)
        return weft_reshape(weft_gather(weft_atleast_nd(x, 1), dim, weft_atleast_nd(index, 1)),
                            NULL, 0);
    if (weft_ndim(x) == 0) x = weft_atleast_nd(x, 1);
    if (!x) return NULL;
    d = wf_normalize_dim(dim, weft_ndim(x), "gather");
    if (d < 0) return NULL;
    x = cut_to_index(x, d, index);
    return x ? wf_call_gather(x, d, index) : NULL;
}

weft_tensor *weft_take_along_dim(weft_tensor *x, weft_tensor *index, int dim)
{
    int64_t x_shape[WEFT_MAX_DIMS], index_shape[WEFT_MAX_DIMS];
    int d, ndim;

    if (!x || !index) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "take_along_dim"));
    WF_TRY_PTR(wf_tensor_need_alive(index, "take_along_dim"));
    if (wf_is_dim_of_scalar(x, dim) && weft_ndim(index) == 0) return weft_gather(x, dim, index);
    ndim = weft_ndim(x);
    d = wf_normalize_dim(dim, ndim, "take_along_dim");
    if (d < 0) return NULL;
    WF_NEED_PTR(weft_ndim(index) == ndim, WEFT_ERR_SHAPE,
                "take_along_dim: the index has %d dims, not %d", weft_ndim(index), ndim);
    for (int i = 0; i < ndim; i++) {
        int64_t a = weft_size(x, i), b = weft_size(index, i);

        x_shape[i] = i != d && a == 1 ? b : a;
        index_shape[i] = i != d && b == 1 ? a : b;
    }
    x = weft_expand(x, x_shape, ndim);
    index = weft_expand(index, index_shape, ndim);
    return x && index ? wf_call_gather(x, d, index) : NULL;
}
