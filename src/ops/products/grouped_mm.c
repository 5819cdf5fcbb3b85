/* grouped_mm.c: runs of rows, each times a matrix of its own. */
#include <weft/ops.h>

#include "base/error.h"
#include "ops/op_functions.h"
#include "ops/op_plan.h"

static bool is_ends(const struct wf_tensor_desc *d, int64_t groups)
{
    return d->ndim == 1 && d->global[0] == groups && (d->dtype == WEFT_I32 || d->dtype == WEFT_I64);
}

/* x [T,K], w [G,K,N], ends [G] -> [T,N] */
weft_status wf_shape_grouped_mm(struct wf_infer *call)
{
    const struct wf_tensor_desc *x = &call->in[0]->desc, *w = &call->in[1]->desc;

    WF_NEED(x->ndim == 2 && w->ndim == 3 && x->global[1] == w->global[1] &&
                is_ends(&call->in[2]->desc, w->global[0]),
            WEFT_ERR_SHAPE,
            "grouped_mm: needs rows [T,K], matrices [G,K,N] and i32 or i64 ends [G]: %s",
            wf_infer_inputs_text(call));
    WF_NEED(weft_dtype_is_float((weft_dtype)x->dtype) && x->dtype == w->dtype, WEFT_ERR_DTYPE,
            "grouped_mm: needs floating-point tensors of one dtype: %s",
            wf_infer_inputs_text(call));
    wf_infer_output_like(call, 0, call->in[0]);
    call->out[0].shape[1] = w->global[2];
    return WEFT_OK;
}

/* x [T,K], d [T,N], ends [G] -> [G,K,N] */
weft_status wf_shape_grouped_mm_dw(struct wf_infer *call)
{
    call->out[0].dtype = (weft_dtype)call->in[0]->desc.dtype;
    call->out[0].ndim = 3;
    call->out[0].shape[0] = call->in[2]->desc.global[0];
    call->out[0].shape[1] = call->in[0]->desc.global[1];
    call->out[0].shape[2] = call->in[1]->desc.global[1];
    return WEFT_OK;
}

static weft_tensor *call_grouped(enum wf_op op, weft_tensor *a, weft_tensor *b, weft_tensor *ends,
                                 struct wf_layout *want)
{
    return wf_dispatch_op_one_output(op, (weft_tensor *[]){a, b, ends}, 3,
                                     &(struct wf_op_args){.want = want});
}

void wf_vjp_grouped_mm(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    weft_tensor *x = wf_saved_input(n, 0), *w = wf_saved_input(n, 1), *ends = wf_saved_input(n, 2);

    if (wf_tape_node_needs_grad(n, 0))
        in[0] = call_grouped(WF_OP_grouped_mm, g, weft_transpose(w, 1, 2), ends,
                             wf_tape_node_input_layout(n, 0));
    if (wf_tape_node_needs_grad(n, 1))
        in[1] = call_grouped(WF_OP_grouped_mm_dw, x, g, ends, wf_tape_node_input_layout(n, 1));
}

weft_tensor *weft_grouped_mm(weft_tensor *x, weft_tensor *w, weft_tensor *ends)
{
    if (!x || !w || !ends) return NULL;
    return call_grouped(WF_OP_grouped_mm, x, w, ends, NULL);
}
