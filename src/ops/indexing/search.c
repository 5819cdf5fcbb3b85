/* search.c: where values belong in sorted ones. */
#include <weft/ops.h>

#include "base/error.h"
#include "ops/call_dims.h"
#include "ops/op_functions.h"

/* sorted [n] or [*,n], values [*,m] -> [*,m] of i64; of sorted [n] values may have any dims */
weft_status wf_shape_search_sorted(struct wf_infer *call)
{
    const struct wf_tensor_desc *sorted = &call->in[0]->desc, *values = &call->in[1]->desc;
    bool fits = sorted->ndim == 1 || (sorted->ndim > 1 && sorted->ndim == values->ndim);

    WF_NEED(sorted->dtype == values->dtype && sorted->dtype != WEFT_BOOL, WEFT_ERR_DTYPE,
            "search_sorted: both are numbers of one dtype: %s", wf_infer_inputs_text(call));
    for (int d = 0; fits && d < sorted->ndim - 1; d++)
        fits = sorted->global[d] == values->global[d];
    WF_NEED(fits, WEFT_ERR_SHAPE,
            "search_sorted: sorted rows are one, or one per row of values: %s",
            wf_infer_inputs_text(call));
    wf_infer_output_like(call, 0, call->in[1]);
    call->out[0].dtype = WEFT_I64;
    return WEFT_OK;
}

/* A place is how many sorted elements come before it: of a cut row the ranks' counts add up. */
void wf_rule_search_sorted(const struct wf_infer *call, struct wf_dim_labels *labels)
{
    int last = wf_ndim_of_input(call, 0) - 1, ndim = wf_ndim_of_input(call, 1);

    for (int d = 0; d < ndim; d++) {
        labels->in[1][d] = (int8_t)(d + 1);
        labels->out[0][d] = (int8_t)(d + 1);
        if (d < last) labels->in[0][d] = (int8_t)(d + 1);
    }
    labels->in[0][last] = (int8_t)(ndim + 1);
    labels->count = ndim + 1;
}

weft_tensor *weft_search_sorted(weft_tensor *sorted, weft_tensor *values, bool right)
{
    struct wf_op_args args = {WF_ATTRS(search, .right = right)};

    return wf_dispatch_op_one_output(WF_OP_search_sorted, (weft_tensor *[]){sorted, values}, 2,
                                     &args);
}

weft_tensor *weft_bucketize(weft_tensor *x, weft_tensor *boundaries, bool right)
{
    if (!x || !boundaries) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(boundaries, "bucketize"));
    WF_NEED_PTR(weft_ndim(boundaries) == 1, WEFT_ERR_SHAPE, "bucketize: boundaries with %d dims",
                weft_ndim(boundaries));
    return weft_search_sorted(boundaries, x, right);
}
