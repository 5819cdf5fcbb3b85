/*
 * convolution.c: convolutions: shapes, sharding rules, gradients.
 *
 * With groups the channels are two dims, [G,C]: views of x, w, bias and the result. A group is then
 * a dim as any other, which may be sharded in any way.
 */
#include <weft/ops.h>

#include <string.h>

#include "base/error.h"
#include "ops/call_dims.h"
#include "ops/convolution/halo.h"
#include "ops/convolution/operands.h"
#include "ops/op_functions.h"
#include "ops/op_plan.h"
#include "tensor/scope.h"

/* ---- shapes ---- */

/* Dims before the places: batch and channels. */
static int leading(const struct wf_conv_attrs *a) { return 2 + a->grouped; }

static weft_status check_dtypes(const struct wf_infer *call)
{
    uint8_t dtype = call->in[0]->desc.dtype;

    for (int i = 0; i < call->n_in; i++)
        WF_NEED(!call->in[i] || (weft_dtype_is_float((weft_dtype)call->in[i]->desc.dtype) &&
                                 call->in[i]->desc.dtype == dtype),
                WEFT_ERR_DTYPE, "%s: needs floating-point tensors of one dtype: %s", call->name,
                wf_infer_inputs_text(call));
    return WEFT_OK;
}

static weft_status check_operands(const struct wf_infer *call)
{
    const struct wf_conv_attrs *a = &call->attrs->conv;
    const struct wf_tensor_desc *x = &call->in[0]->desc, *w = &call->in[1]->desc;
    int channels = 1 + a->grouped;

    WF_TRY(check_dtypes(call));
    WF_NEED(x->ndim == leading(a) + a->dims && w->ndim == x->ndim &&
                x->global[channels] == w->global[channels] &&
                (!a->grouped || x->global[1] == w->global[0]),
            WEFT_ERR_SHAPE, "%s: x is [N,C,..], the weight [O,C/groups,..]: %s", call->name,
            wf_infer_inputs_text(call));
    return WEFT_OK;
}

weft_status wf_shape_conv(struct wf_infer *call)
{
    const struct wf_conv_attrs *a = &call->attrs->conv;
    const struct wf_tensor_desc *x = &call->in[0]->desc, *w = &call->in[1]->desc;
    int first = leading(a);

    WF_TRY(check_operands(call));
    if (call->n_in > 2 && call->in[2]) {
        const struct wf_tensor_desc *bias = &call->in[2]->desc;

        WF_NEED(bias->ndim == 1 + a->grouped &&
                    memcmp(bias->global, w->global, (size_t)bias->ndim * sizeof(int64_t)) == 0,
                WEFT_ERR_SHAPE, "%s: the bias has the weight's output channels: %s", call->name,
                wf_infer_inputs_text(call));
    }
    wf_infer_output_like(call, 0, call->in[0]);
    call->out[0].shape[first - 1] = w->global[first - 2];
    for (int d = 0; d < a->dims; d++) {
        int64_t window = a->dilation[d] * (w->global[first + d] - 1) + 1;
        int64_t size = x->global[first + d] + a->before[d] + a->after[d];

        WF_NEED(w->global[first + d] > 0 && size >= window, WEFT_ERR_SHAPE,
                "%s: a kernel of %lld places does not fit into %lld: %s", call->name,
                (long long)window, (long long)size, wf_infer_inputs_text(call));
        call->out[0].shape[first + d] = (size - window) / a->stride[d] + 1;
    }
    return WEFT_OK;
}

/* d [N,O,..], w -> x [N,C,..] */
weft_status wf_shape_conv_dx(struct wf_infer *call)
{
    const struct wf_conv_attrs *a = &call->attrs->conv;
    int first = leading(a);

    WF_TRY(check_dtypes(call));
    wf_infer_output_like(call, 0, call->in[0]);
    call->out[0].shape[first - 1] = call->in[1]->desc.global[first - 1];
    for (int d = 0; d < a->dims; d++) call->out[0].shape[first + d] = a->size[d];
    return WEFT_OK;
}

/* d [N,O,..], x [N,C,..] -> w [O,C,..] */
weft_status wf_shape_conv_dw(struct wf_infer *call)
{
    const struct wf_conv_attrs *a = &call->attrs->conv;
    const struct wf_tensor_desc *d = &call->in[0]->desc, *x = &call->in[1]->desc;
    int first = leading(a);

    wf_infer_output_like(call, 0, call->in[0]);
    if (a->grouped) call->out[0].shape[0] = d->global[1];
    call->out[0].shape[first - 2] = d->global[first - 1];
    call->out[0].shape[first - 1] = x->global[first - 1];
    for (int k = 0; k < a->dims; k++) call->out[0].shape[first + k] = a->size[k];
    return WEFT_OK;
}

/* ---- rules ---- */

enum { BATCH = 1, GROUP, OUT, IN, PLACE };

/* Each window is a run of its own, and nothing is left over: the rank that has the run has the
 * result. With more than one place to a window shards must be whole windows. */
static bool windows_are_runs(const struct wf_conv_attrs *a, int d, int64_t size, int64_t kernel)
{
    return a->stride[d] == kernel && a->before[d] == 0 && a->after[d] == 0 &&
           (a->dilation[d] == 1 || kernel == 1) && size % kernel == 0;
}

static void label_places(const struct wf_infer *call, struct wf_dim_labels *labels, int8_t *x,
                         int8_t *y, const int64_t *size, const int64_t *kernel)
{
    const struct wf_conv_attrs *a = &call->attrs->conv;

    for (int d = 0; d < a->dims; d++) {
        if (!windows_are_runs(a, d, size[d], kernel[d])) continue;
        x[leading(a) + d] = y[leading(a) + d] = (int8_t)(PLACE + d);
        if (kernel[d] > 1) labels->even |= 1u << (PLACE + d);
    }
    labels->count = PLACE + a->dims;
}

/* [N,(G,)C], with C as `channel` */
static void label_channels(const struct wf_conv_attrs *a, int8_t *dims, int channel)
{
    *dims++ = BATCH;
    if (a->grouped) *dims++ = GROUP;
    *dims = (int8_t)channel;
}

static void label_weight(const struct wf_conv_attrs *a, int8_t *dims, bool bias)
{
    if (a->grouped) *dims++ = GROUP;
    *dims++ = OUT;
    if (!bias) *dims = IN;
}

void wf_rule_conv(const struct wf_infer *call, struct wf_dim_labels *labels)
{
    const struct wf_conv_attrs *a = &call->attrs->conv;

    label_channels(a, labels->in[0], IN);
    label_weight(a, labels->in[1], false);
    if (call->n_in > 2 && call->in[2]) label_weight(a, labels->in[2], true);
    label_channels(a, labels->out[0], OUT);
    label_places(call, labels, labels->in[0], labels->out[0], call->in[0]->desc.global + leading(a),
                 call->in[1]->desc.global + leading(a));
}

void wf_rule_conv_dx(const struct wf_infer *call, struct wf_dim_labels *labels)
{
    const struct wf_conv_attrs *a = &call->attrs->conv;

    label_channels(a, labels->in[0], OUT);
    label_weight(a, labels->in[1], false);
    label_channels(a, labels->out[0], IN);
    label_places(call, labels, labels->out[0], labels->in[0], call->out[0].shape + leading(a),
                 call->in[1]->desc.global + leading(a));
}

void wf_rule_conv_dw(const struct wf_infer *call, struct wf_dim_labels *labels)
{
    const struct wf_conv_attrs *a = &call->attrs->conv;

    label_channels(a, labels->in[0], OUT);
    label_channels(a, labels->in[1], IN);
    label_weight(a, labels->out[0], false);
    label_places(call, labels, labels->in[1], labels->in[0], call->in[1]->desc.global + leading(a),
                 call->out[0].shape + leading(a));
}

/* ---- gradients ---- */

/* A gradient whose last dims are those of an input. */
static weft_tensor *call_gradient(enum wf_op op, const struct wf_op_plan *plan, weft_tensor *g,
                                  weft_tensor *other, int input)
{
    struct wf_conv_attrs attrs = plan->attrs.conv;
    struct wf_op_args args = {.attr_words = (int)(sizeof attrs / sizeof(uint64_t)),
                              .attrs = &attrs,
                              .want = plan->in[input]};

    for (int d = 0; d < attrs.dims; d++)
        attrs.size[d] = (int32_t)plan->in[input]->desc.global[leading(&attrs) + d];
    return wf_dispatch_op_one_output(op, (weft_tensor *[]){g, other}, 2, &args);
}

void wf_vjp_conv(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    const struct wf_op_plan *plan = wf_tape_node_op_plan(n);
    const struct wf_conv_attrs *a = &plan->attrs.conv;
    int64_t channels = (int64_t)(a->grouped ? 3 : 1) << 1;
    int64_t others = (((int64_t)1 << weft_ndim(g)) - 1) & ~channels;

    if (wf_tape_node_needs_grad(n, 0))
        in[0] = call_gradient(WF_OP_conv_dx, plan, g, wf_saved_input(n, 1), 0);
    if (wf_tape_node_needs_grad(n, 1))
        in[1] = call_gradient(WF_OP_conv_dw, plan, g, wf_saved_input(n, 0), 1);
    if (plan->n_in > 2 && wf_tape_node_needs_grad(n, 2))
        in[2] = wf_sum_masked_dims(g, others, false, 1, plan->in[2]);
}

/* As an op of its own it is a transposed convolution, whose transpose is the convolution. */
void wf_vjp_conv_dx(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    const struct wf_op_plan *plan = wf_tape_node_op_plan(n);
    struct wf_op_args args = {
        .attr_words = plan->attr_words, .attrs = &plan->attrs.conv, .want = plan->in[0]};

    if (wf_tape_node_needs_grad(n, 0))
        in[0] = wf_dispatch_op_one_output(WF_OP_conv, (weft_tensor *[]){g, wf_saved_input(n, 1)}, 2,
                                          &args);
    if (wf_tape_node_needs_grad(n, 1))
        in[1] = call_gradient(WF_OP_conv_dw, plan, wf_saved_input(n, 0), g, 1);
}

/* ---- the functions ---- */

weft_status wf_conv_shape_error(const char *name, const char *what, const weft_tensor *x,
                                const weft_tensor *w)
{
    char text[2][200];

    weft_tensor_format(x, text[0], sizeof text[0]);
    weft_tensor_format(w, text[1], sizeof text[1]);
    return WF_FAIL(WEFT_ERR_SHAPE, "%s: %s: %s, %s", name, what, text[0], text[1]);
}

weft_status wf_conv_read_options(struct wf_conv_attrs *a, const char *name, int dims,
                                 const weft_conv_options *o)
{
    a->dims = (uint8_t)dims;
    a->grouped = o->groups > 1;
    WF_NEED(o->groups >= 0, WEFT_ERR_ARG, "%s: %lld groups", name, (long long)o->groups);
    for (int d = 0; d < dims; d++) {
        WF_NEED(o->stride[d] >= 0 && o->padding[d] >= 0 && o->dilation[d] >= 0 &&
                    o->stride[d] <= INT32_MAX && o->padding[d] <= INT32_MAX &&
                    o->dilation[d] <= INT32_MAX,
                WEFT_ERR_ARG, "%s: stride %lld, padding %lld, dilation %lld in dim %d", name,
                (long long)o->stride[d], (long long)o->padding[d], (long long)o->dilation[d], d);
        a->stride[d] = o->stride[d] ? (int32_t)o->stride[d] : 1;
        a->dilation[d] = o->dilation[d] ? (int32_t)o->dilation[d] : 1;
        a->before[d] = (int32_t)o->padding[d];
        a->after[d] = o->causal ? 0 : a->before[d];
    }
    return WEFT_OK;
}

weft_tensor *wf_split_dim(weft_tensor *t, int d, int64_t first)
{
    const int64_t *size = t->layout->desc.global;
    int64_t shape[WEFT_MAX_DIMS];
    int n = weft_ndim(t);

    memcpy(shape, size, (size_t)d * sizeof *shape);
    shape[d] = first;
    shape[d + 1] = size[d] / first;
    memcpy(shape + d + 2, size + d + 1, (size_t)(n - d - 1) * sizeof *shape);
    return wf_reshape_to(t, shape, n + 1, NULL);
}

weft_tensor *wf_join_dims(weft_tensor *t, int d)
{
    int64_t shape[WEFT_MAX_DIMS];
    int n;

    if (!t) return NULL;
    n = weft_ndim(t);
    memcpy(shape, t->layout->desc.global, (size_t)n * sizeof *shape);
    shape[d] *= shape[d + 1];
    memmove(shape + d + 1, shape + d + 2, (size_t)(n - d - 2) * sizeof *shape);
    return wf_reshape_to(t, shape, n - 1, NULL);
}

static weft_tensor *dispatch(weft_tensor *x, weft_tensor *w, weft_tensor *bias,
                             const struct wf_conv_attrs *a)
{
    struct wf_op_args args = {.attr_words = (int)(sizeof *a / sizeof(uint64_t)), .attrs = a};

    return wf_dispatch_op_one_output(WF_OP_conv, (weft_tensor *[]){x, w, bias}, bias ? 3 : 2,
                                     &args);
}

static weft_tensor *with_groups(const char *name, weft_tensor *x, weft_tensor *w, weft_tensor *bias,
                                const struct wf_conv_attrs *a, int64_t groups)
{
    weft_tensor *split;

    if (weft_size(x, 1) != groups * weft_size(w, 1) || weft_size(w, 0) % groups != 0 ||
        (bias && (weft_ndim(bias) != 1 || weft_size(bias, 0) != weft_size(w, 0))))
        return (void)wf_conv_shape_error(name, "channels do not divide into the groups", x, w),
               NULL;
    x = wf_split_dim(x, 1, groups);
    w = wf_split_dim(w, 0, groups);
    split = bias ? wf_split_dim(bias, 0, groups) : NULL;
    if (!x || !w || (bias && !split)) return NULL;
    return wf_join_dims(dispatch(x, w, split, a), 1);
}

static weft_tensor *with_or_without_groups(const char *name, weft_tensor *x, weft_tensor *w,
                                           weft_tensor *bias, const struct wf_conv_attrs *a,
                                           int64_t groups)
{
    return a->grouped ? with_groups(name, x, w, bias, a, groups) : dispatch(x, w, bias, a);
}

/* Along a sharded place of which windows read what other ranks have. */
static weft_tensor *with_halo(const char *name, weft_tensor *x, weft_tensor *w, weft_tensor *bias,
                              const struct wf_conv_attrs *a, int64_t groups,
                              const struct wf_halo *h)
{
    struct wf_conv_attrs wide = wf_halo_attrs(a, h);

    x = wf_halo_widen(name, x, h);
    w = wf_split_dim(w, 2 + h->place, 1);
    if (!x || !w) return NULL;
    return wf_join_dims(with_or_without_groups(name, x, w, bias, &wide, groups), 2 + h->place);
}

weft_status wf_conv_check_dims(const char *name, const weft_tensor *x, const weft_tensor *w,
                               int dims, bool single)
{
    if ((!single && weft_ndim(x) != dims + 2) || weft_ndim(w) != dims + 2)
        return wf_conv_shape_error(name, "x is [N,C,..] or [C,..], the weight [O,C/groups,..]", x,
                                   w);
    for (int d = 0; d < weft_ndim(x); d++)
        if (weft_size(x, d) > INT32_MAX)
            return wf_conv_shape_error(name, "a dim is too large", x, w);
    return WEFT_OK;
}

static weft_tensor *convolve(const char *name, int dims, weft_tensor *x, weft_tensor *w,
                             weft_tensor *bias, const weft_conv_options *o)
{
    struct wf_conv_attrs a = {0};
    bool single = weft_ndim(x) == dims + 1;
    struct wf_halo halo;
    weft_tensor *y;

    WF_TRY_PTR(wf_conv_read_options(&a, name, dims, o));
    WF_TRY_PTR(wf_conv_check_dims(name, x, w, dims, single));
    if (single) {
        int64_t shape[WEFT_MAX_DIMS] = {1};

        memcpy(shape + 1, x->layout->desc.global, (size_t)(dims + 1) * sizeof *shape);
        x = wf_reshape_to(x, shape, dims + 2, NULL);
        if (!x) return NULL;
    }
    if (wf_halo_plan(&halo, x->layout, &a, w->layout->desc.global + 2))
        y = with_halo(name, x, w, bias, &a, o->groups, &halo);
    else
        y = with_or_without_groups(name, x, w, bias, &a, o->groups);
    if (!single || !y) return y;
    return wf_reshape_to(y, y->layout->desc.global + 1, dims + 1, NULL);
}

static weft_tensor *conv(const char *name, int dims, weft_tensor *x, weft_tensor *w,
                         weft_tensor *bias, const weft_conv_options *o)
{
    weft_scope *scope;

    if (!x || !w) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, name));
    WF_TRY_PTR(wf_tensor_need_alive(w, name));
    if (bias) WF_TRY_PTR(wf_tensor_need_alive(bias, name));
    scope = weft_scope_open();
    return weft_scope_return(scope, convolve(name, dims, x, w, bias, o));
}

weft_tensor *weft_conv1d(weft_tensor *x, weft_tensor *w, weft_tensor *bias, weft_conv_options o)
{
    return conv("conv1d", 1, x, w, bias, &o);
}

weft_tensor *weft_conv2d(weft_tensor *x, weft_tensor *w, weft_tensor *bias, weft_conv_options o)
{
    return conv("conv2d", 2, x, w, bias, &o);
}

weft_tensor *weft_conv3d(weft_tensor *x, weft_tensor *w, weft_tensor *bias, weft_conv_options o)
{
    return conv("conv3d", 3, x, w, bias, &o);
}
