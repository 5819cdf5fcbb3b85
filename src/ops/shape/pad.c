/*
 * pad.c: elements put around a tensor's, or between them.
 *
 * A partial result may be padded with zeros, which are zeros whatever it reduces by; with another
 * value it is reduced first.
 */
#include <weft/ops.h>

#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "ops/call_dims.h"
#include "ops/op_functions.h"
#include "ops/op_plan.h"
#include "tensor/shape.h"

static bool changes_dim(const struct wf_pad_attrs *pad, int d, int64_t size)
{
    return pad->before[d] != 0 || pad->size[d] != size || (pad->step[d] != 1 && size > 1);
}

weft_status wf_shape_pad(struct wf_infer *call)
{
    wf_infer_output_like(call, 0, call->in[0]);
    for (int d = 0; d < call->out[0].ndim; d++) {
        /* On shards of a dim that stays as it is only the shard's size is known here. */
        if (!changes_dim(&call->attrs->pad, d, call->out[0].shape[d])) continue;
        call->out[0].shape[d] = call->attrs->pad.size[d];
    }
    return WEFT_OK;
}

/* Dims that stay as they are. */
void wf_rule_pad(const struct wf_infer *call, struct wf_dim_labels *labels)
{
    labels->count = wf_ndim_of_input(call, 0);
    for (int d = 0; d < labels->count; d++) {
        if (changes_dim(&call->attrs->pad, d, wf_size_of_input(call, 0, d))) continue;
        labels->in[0][d] = (int8_t)(d + 1);
        labels->out[0][d] = (int8_t)(d + 1);
    }
}

void wf_vjp_pad(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    const struct wf_op_plan *plan = wf_tape_node_op_plan(n);
    const struct wf_pad_attrs *pad = &plan->attrs.pad;
    const struct wf_tensor_desc *x = &plan->in[0]->desc;

    for (int d = 0; g && d < x->ndim; d++) {
        int64_t size = x->global[d], end = pad->before[d] + (size - 1) * pad->step[d] + 1;

        if (!changes_dim(pad, d, size)) continue;
        g = weft_slice_step(g, d, pad->before[d], size ? end : pad->before[d], pad->step[d]);
    }
    in[0] = g;
}

static weft_tensor *dispatch_pad(enum wf_op op, weft_tensor *x, const struct wf_pad_attrs *attrs,
                                 double value)
{
    struct wf_op_args args = {.attr_words = (int)(sizeof *attrs / sizeof(uint64_t)),
                              .attrs = attrs,
                              .scalars.s = {value}};

    return wf_dispatch_op_one_output(op, &x, 1, &args);
}

weft_tensor *wf_spread_last_dim(weft_tensor *x, int64_t start, int64_t step, int64_t size)
{
    struct wf_pad_attrs attrs = {.size = {0}};
    int last = weft_ndim(x) - 1;

    for (int d = 0; d <= last; d++) {
        attrs.size[d] = d == last ? size : x->layout->desc.global[d];
        attrs.before[d] = d == last ? start : 0;
        attrs.step[d] = d == last ? step : 1;
    }
    return dispatch_pad(WF_OP_pad, x, &attrs, 0);
}

/* ---- the public function ---- */

/* Negative amounts take elements away. */
static weft_tensor *pad_with_value(weft_tensor *x, const int64_t *before, const int64_t *after,
                                   double value)
{
    struct wf_pad_attrs attrs = {.size = {0}};
    bool grows = false;

    for (int d = 0; d < weft_ndim(x); d++) {
        int64_t from = before[d] < 0 ? -before[d] : 0, to = weft_size(x, d);

        if (after[d] < 0) to += after[d];
        x = weft_slice(x, d, from, to < from ? from : to);
        if (!x) return NULL;
        attrs.before[d] = before[d] > 0 ? before[d] : 0;
        attrs.size[d] = weft_size(x, d) + attrs.before[d] + (after[d] > 0 ? after[d] : 0);
        attrs.step[d] = 1;
        grows |= attrs.size[d] != weft_size(x, d);
    }
    if (!grows) return x;
    if (value == 0) return dispatch_pad(WF_OP_pad, x, &attrs, 0);
    x = wf_reduce_partial_operand("pad", x);
    return x ? dispatch_pad(WF_OP_pad_value, x, &attrs, value) : NULL;
}

/* The element that stands at place `at` outside [0, n). */
static int64_t mirrored_place(enum weft_pad_mode mode, int64_t at, int64_t n)
{
    if (at >= 0 && at < n) return at;
    if (mode == WEFT_PAD_CIRCULAR) return at < 0 ? at + n : at - n;
    if (mode == WEFT_PAD_REPLICATE) return at < 0 ? 0 : n - 1;
    return at < 0 ? -at : 2 * (n - 1) - at;
}

static weft_tensor *pad_dim_with_itself(weft_tensor *x, int d, int64_t before, int64_t after,
                                        enum weft_pad_mode mode)
{
    int64_t n = weft_size(x, d), size = before + n + after, most = n;
    int64_t *places;
    weft_tensor *index;

    if (before == 0 && after == 0) return x;
    if (mode == WEFT_PAD_REFLECT) most = n - 1;
    if (mode == WEFT_PAD_REPLICATE) most = n > 0 ? INT64_MAX : 0;
    WF_NEED_PTR(before <= most && after <= most, WEFT_ERR_SHAPE,
                "pad: %lld and %lld elements around dim %d of size %lld, which has not so many",
                (long long)before, (long long)after, d, (long long)n);
    WF_NEED_PTR(size >= 0, WEFT_ERR_SHAPE, "pad: nothing is left of dim %d of size %lld", d,
                (long long)n);
    places = wf_malloc(((size_t)size + 1) * sizeof *places);
    for (int64_t i = 0; i < size; i++) places[i] = mirrored_place(mode, i - before, n);
    index = wf_index_like(x, places, size);
    wf_free(places);
    return index ? weft_index_select(x, d, index) : NULL;
}

weft_tensor *weft_pad(weft_tensor *x, const int64_t *pads, int n_dims, enum weft_pad_mode mode,
                      double value)
{
    int64_t before[WEFT_MAX_DIMS] = {0}, after[WEFT_MAX_DIMS] = {0};

    if (!x) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "pad"));
    WF_NEED_PTR(n_dims >= 0 && n_dims <= weft_ndim(x) && (pads || n_dims == 0), WEFT_ERR_ARG,
                "pad: amounts for %d dims of a tensor with %d", n_dims, weft_ndim(x));
    WF_NEED_PTR((unsigned)mode <= WEFT_PAD_CIRCULAR, WEFT_ERR_ARG, "pad: there is no mode %d",
                (int)mode);
    for (int i = 0; i < n_dims; i++) {
        int d = weft_ndim(x) - 1 - i;
        int64_t size = weft_size(x, d);

        before[d] = pads[2 * i];
        after[d] = pads[2 * i + 1];
        WF_NEED_PTR(before[d] >= -size && after[d] >= -size && before[d] <= INT32_MAX &&
                        after[d] <= INT32_MAX && before[d] + after[d] >= -size,
                    WEFT_ERR_SHAPE, "pad: %lld and %lld elements around dim %d of size %lld",
                    (long long)before[d], (long long)after[d], d, (long long)size);
    }
    if (mode == WEFT_PAD_CONSTANT) return pad_with_value(x, before, after, value);
    for (int d = weft_ndim(x) - 1; x && d >= 0; d--)
        x = pad_dim_with_itself(x, d, before[d], after[d], mode);
    return x;
}
