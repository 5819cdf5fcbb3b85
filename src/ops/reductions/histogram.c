/* histogram.c: how many elements lie in each of some equal intervals. */
#include <weft/ops.h>

#include <math.h>

#include "base/error.h"
#include "ops/op_functions.h"

/* x [...], the range [2] -> counts [bins], of x's dtype */
weft_status wf_shape_histogram(struct wf_infer *call)
{
    const struct wf_tensor_desc *range = &call->in[1]->desc;

    WF_NEED(range->ndim == 1 && range->global[0] == 2 && range->dtype == call->in[0]->desc.dtype,
            WEFT_ERR_SHAPE, "histogram: needs a range of two numbers: %s",
            wf_infer_inputs_text(call));
    call->out[0].dtype = (weft_dtype)call->in[0]->desc.dtype;
    call->out[0].ndim = 1;
    call->out[0].shape[0] = call->attrs->histogram.bins;
    return WEFT_OK;
}

/* Any dim of x, whose shards' counts add up. */
void wf_rule_histogram(const struct wf_infer *call, struct wf_dim_labels *labels)
{
    for (int d = 0; d < call->in[0]->desc.ndim; d++) labels->in[0][d] = (int8_t)(d + 1);
    labels->count = call->in[0]->desc.ndim;
}

/* Both ends of the data in one reduction: the maxima of -x and of x. */
static weft_tensor *range_of_data(weft_tensor *x)
{
    const int64_t one[] = {1};
    weft_tensor *ends[2];

    for (int i = 0; i < 2; i++)
        ends[i] = weft_reshape(weft_amax(i ? x : weft_neg(x), NULL, 0, false), one, 1);
    ends[0] = wf_reduce_if_partial(weft_cat(ends, 2, 0));
    if (!ends[0]) return NULL;
    ends[1] = weft_slice(ends[0], 0, 1, 2);
    ends[0] = weft_neg(weft_slice(ends[0], 0, 0, 1));
    return weft_cat(ends, 2, 0);
}

static weft_tensor *given_range(const weft_tensor *x, double least, double most)
{
    const int64_t one[] = {1};
    weft_tensor *ends[] = {weft_reshape(wf_number_like(x, least), one, 1),
                           weft_reshape(wf_number_like(x, most), one, 1)};
    weft_tensor *range = weft_cat(ends, 2, 0);

    return range && !wf_is_plain(x) ? weft_from_local(range, x->layout->mesh, NULL, NULL) : range;
}

/* Each rank counts all bins in memory of its own. */
enum { MOST_BINS = 1 << 24 };

weft_tensor *weft_histc(weft_tensor *x, int64_t bins, double least, double most)
{
    struct wf_op_args args = {WF_ATTRS(histogram, .bins = bins)};
    weft_tensor *range, *counts = NULL;

    if (!x) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "histc"));
    WF_TRY_PTR(wf_need_float(x, "histc"));
    WF_NEED_PTR(bins > 0 && bins <= MOST_BINS, WEFT_ERR_ARG, "histc: %lld bins, not 1 to %d",
                (long long)bins, MOST_BINS);
    WF_NEED_PTR(isfinite(least) && isfinite(most) && least <= most, WEFT_ERR_ARG,
                "histc: from %g to %g", least, most);
    weft_no_grad_open();
    x = wf_reduce_partial_operand("histc", x);
    range = !x ? NULL : least == most ? range_of_data(x) : given_range(x, least, most);
    if (range)
        counts = wf_dispatch_op_one_output(WF_OP_histogram, (weft_tensor *[]){x, range}, 2, &args);
    weft_no_grad_close();
    return counts;
}
