/*
 * pooling.c: maxima and weighted sums over windows of the last dims: pooling and resizing.
 *
 * Means of windows, and elements between elements, are sums with weights that follow from sizes
 * alone: one op, whose gradient is the same op transposed.
 */
#include <weft/ops.h>

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "ops/call_dims.h"
#include "ops/op_functions.h"
#include "ops/op_plan.h"

/* ---- shapes and rule ---- */

/* The result's last dims have these sizes, all others are the input's. */
static void infer_places(struct wf_infer *call, int j, const int32_t *size)
{
    int dims = call->attrs->windows.dims;

    wf_infer_output_like(call, j, call->in[0]);
    for (int d = 0; d < dims; d++) call->out[j].shape[call->out[j].ndim - dims + d] = size[d];
}

static weft_status check_float(const struct wf_infer *call)
{
    WF_NEED(weft_dtype_is_float((weft_dtype)call->in[0]->desc.dtype), WEFT_ERR_DTYPE,
            "%s: needs floating-point numbers: %s", call->name, wf_infer_inputs_text(call));
    return WEFT_OK;
}

weft_status wf_shape_resample(struct wf_infer *call)
{
    const struct wf_resample_attrs *a = &call->attrs->resample;

    WF_TRY(check_float(call));
    infer_places(call, 0, a->transposed ? a->size : a->to);
    return WEFT_OK;
}

/* x -> y, indices */
weft_status wf_shape_max_pool(struct wf_infer *call)
{
    WF_TRY(check_float(call));
    infer_places(call, 0, call->attrs->windows.to);
    infer_places(call, 1, call->attrs->windows.to);
    call->out[1].dtype = WEFT_I64;
    return WEFT_OK;
}

/* d, indices -> dx */
weft_status wf_shape_max_pool_grad(struct wf_infer *call)
{
    infer_places(call, 0, call->attrs->windows.size);
    return WEFT_OK;
}

/* Every dim but those that windows move over. Attributes of both kinds begin with their number. */
void wf_rule_windows(const struct wf_infer *call, struct wf_dim_labels *labels)
{
    int n = call->out[0].ndim - call->attrs->windows.dims;

    for (int d = 0; d < n; d++) {
        for (int i = 0; i < call->n_in; i++) labels->in[i][d] = (int8_t)(d + 1);
        for (int j = 0; j < call->n_out; j++) labels->out[j][d] = (int8_t)(d + 1);
    }
    labels->count = n;
}

/* ---- gradients ---- */

static weft_tensor *call_resample(weft_tensor *x, const struct wf_resample_attrs *attrs,
                                  struct wf_layout *want)
{
    struct wf_op_args args = {
        .attr_words = (int)(sizeof *attrs / sizeof(uint64_t)), .attrs = attrs, .want = want};

    return wf_dispatch_op_one_output(WF_OP_resample, &x, 1, &args);
}

void wf_vjp_resample(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    struct wf_resample_attrs attrs = wf_tape_node_op_plan(n)->attrs.resample;

    attrs.transposed = !attrs.transposed;
    in[0] = call_resample(g, &attrs, wf_tape_node_input_layout(n, 0));
}

void wf_vjp_max_pool(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    const struct wf_op_plan *plan = wf_tape_node_op_plan(n);
    const struct wf_windows_attrs *attrs = &plan->attrs.windows;
    struct wf_op_args args = {
        .attr_words = (int)(sizeof *attrs / sizeof(uint64_t)), .attrs = attrs, .want = plan->in[0]};

    in[0] = wf_dispatch_op_one_output(WF_OP_max_pool_grad,
                                      (weft_tensor *[]){g, wf_saved_output(n, 1)}, 2, &args);
}

/* ---- pooling ---- */

/* The sizes of x's last dims. */
static weft_status read_sizes(int32_t *to, const char *name, const weft_tensor *x, int dims)
{
    WF_TRY(wf_tensor_need_alive(x, name));
    WF_NEED(weft_ndim(x) >= dims, WEFT_ERR_SHAPE, "%s: needs %d dims, not %d", name, dims,
            weft_ndim(x));
    for (int d = 0; d < dims; d++) {
        int64_t size = weft_size(x, weft_ndim(x) - dims + d);

        WF_NEED(size > 0 && size <= INT32_MAX, WEFT_ERR_SHAPE, "%s: %lld places in dim %d", name,
                (long long)size, weft_ndim(x) - dims + d);
        to[d] = (int32_t)size;
    }
    return WEFT_OK;
}

static bool fits_int32(int64_t a, int64_t least) { return a >= least && a <= INT32_MAX / 4; }

/* Windows that begin within the input or the zeros before it. */
static int32_t count_windows(const struct wf_windows_attrs *a, int d, bool ceil)
{
    int64_t window = (int64_t)a->dilation[d] * (a->kernel[d] - 1) + 1;
    int64_t room = (int64_t)a->size[d] + 2 * (int64_t)a->before[d] - window, stride = a->stride[d];
    int64_t count;

    if (room < 0) return 0;
    count = (room + (ceil ? stride - 1 : 0)) / stride + 1;
    if (ceil && (count - 1) * stride >= (int64_t)a->size[d] + a->before[d]) count--;
    return (int32_t)count;
}

static weft_status attrs_from_pool_options(struct wf_windows_attrs *a, const char *name,
                                           const weft_tensor *x, int dims,
                                           const weft_pool_options *o)
{
    a->dims = (uint8_t)dims;
    WF_TRY(read_sizes(a->size, name, x, dims));
    for (int d = 0; d < dims; d++) {
        WF_NEED(fits_int32(o->kernel[d], 1) && fits_int32(o->stride[d], 0) &&
                    fits_int32(o->dilation[d], 0) && fits_int32(o->padding[d], 0) &&
                    2 * o->padding[d] <= o->kernel[d],
                WEFT_ERR_ARG,
                "%s: a window of %lld, stride %lld, padding %lld (at most half a window), dilation "
                "%lld in dim %d",
                name, (long long)o->kernel[d], (long long)o->stride[d], (long long)o->padding[d],
                (long long)o->dilation[d], d);
        a->kernel[d] = (int32_t)o->kernel[d];
        a->stride[d] = o->stride[d] ? (int32_t)o->stride[d] : a->kernel[d];
        a->dilation[d] = o->dilation[d] ? (int32_t)o->dilation[d] : 1;
        a->before[d] = (int32_t)o->padding[d];
        a->to[d] = count_windows(a, d, o->ceil);
        WF_NEED(a->to[d] > 0, WEFT_ERR_SHAPE, "%s: a window of %lld does not fit into %lld places",
                name, (long long)o->kernel[d], (long long)a->size[d]);
    }
    return WEFT_OK;
}

static weft_tensor *max_pool(const char *name, int dims, weft_tensor *x, const weft_pool_options *o,
                             weft_tensor **indices)
{
    struct wf_windows_attrs a = {0};
    struct wf_op_args args = {.attr_words = (int)(sizeof a / sizeof(uint64_t)), .attrs = &a};
    weft_tensor *y, *more[1] = {NULL};

    if (indices) *indices = NULL;
    if (!x) return NULL;
    WF_TRY_PTR(attrs_from_pool_options(&a, name, x, dims, o));
    y = wf_dispatch_op(WF_OP_max_pool, &x, 1, &args, more);
    if (indices) *indices = more[0];
    return y;
}

weft_tensor *weft_max_pool1d(weft_tensor *x, weft_pool_options o, weft_tensor **indices)
{
    return max_pool("max_pool1d", 1, x, &o, indices);
}

weft_tensor *weft_max_pool2d(weft_tensor *x, weft_pool_options o, weft_tensor **indices)
{
    return max_pool("max_pool2d", 2, x, &o, indices);
}

weft_tensor *weft_max_pool3d(weft_tensor *x, weft_pool_options o, weft_tensor **indices)
{
    return max_pool("max_pool3d", 3, x, &o, indices);
}

static weft_tensor *avg_pool(const char *name, int dims, weft_tensor *x, const weft_pool_options *o)
{
    struct wf_windows_attrs w = {0};
    struct wf_resample_attrs a = {
        .dims = (uint8_t)dims, .mode = WF_RESAMPLE_AVERAGE, .option = !o->exclude_padding};

    if (!x) return NULL;
    for (int d = 0; d < dims; d++)
        WF_NEED_PTR(o->dilation[d] <= 1, WEFT_ERR_ARG, "%s: windows of means have no dilation",
                    name);
    WF_TRY_PTR(attrs_from_pool_options(&w, name, x, dims, o));
    memcpy(a.size, w.size, sizeof a.size);
    memcpy(a.to, w.to, sizeof a.to);
    memcpy(a.kernel, w.kernel, sizeof a.kernel);
    memcpy(a.stride, w.stride, sizeof a.stride);
    memcpy(a.before, w.before, sizeof a.before);
    return call_resample(x, &a, NULL);
}

weft_tensor *weft_avg_pool1d(weft_tensor *x, weft_pool_options o)
{
    return avg_pool("avg_pool1d", 1, x, &o);
}

weft_tensor *weft_avg_pool2d(weft_tensor *x, weft_pool_options o)
{
    return avg_pool("avg_pool2d", 2, x, &o);
}

weft_tensor *weft_avg_pool3d(weft_tensor *x, weft_pool_options o)
{
    return avg_pool("avg_pool3d", 3, x, &o);
}

static weft_tensor *adaptive_avg_pool(const char *name, int dims, weft_tensor *x,
                                      const int64_t *size)
{
    struct wf_resample_attrs a = {.dims = (uint8_t)dims, .mode = WF_RESAMPLE_ADAPTIVE};
    static const int last[] = {-3, -2, -1};
    bool whole = true;

    if (!x) return NULL;
    WF_NEED_PTR(size, WEFT_ERR_ARG, "%s: no sizes", name);
    WF_TRY_PTR(read_sizes(a.size, name, x, dims));
    for (int d = 0; d < dims; d++) {
        WF_NEED_PTR(fits_int32(size[d], 1), WEFT_ERR_ARG, "%s: %lld windows in dim %d", name,
                    (long long)size[d], d);
        a.to[d] = (int32_t)size[d];
        whole &= size[d] == 1;
    }
    return whole ? weft_mean(x, last + 3 - dims, dims, true) : call_resample(x, &a, NULL);
}

weft_tensor *weft_adaptive_avg_pool1d(weft_tensor *x, int64_t size)
{
    return adaptive_avg_pool("adaptive_avg_pool1d", 1, x, &size);
}

weft_tensor *weft_adaptive_avg_pool2d(weft_tensor *x, const int64_t size[2])
{
    return adaptive_avg_pool("adaptive_avg_pool2d", 2, x, size);
}

weft_tensor *weft_adaptive_avg_pool3d(weft_tensor *x, const int64_t size[3])
{
    return adaptive_avg_pool("adaptive_avg_pool3d", 3, x, size);
}

/* ---- resizing ---- */

weft_tensor *weft_interpolate(weft_tensor *x, weft_interpolate_options o)
{
    struct wf_resample_attrs a = {.mode = (uint8_t)o.mode, .option = o.align_corners};
    int dims;

    if (!x) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "interpolate"));
    dims = weft_ndim(x) - 2;
    WF_NEED_PTR(dims >= 1 && dims <= 3, WEFT_ERR_SHAPE, "interpolate: needs [N,C,..], not %d dims",
                weft_ndim(x));
    WF_NEED_PTR((unsigned)o.mode <= WEFT_CUBIC, WEFT_ERR_ARG, "interpolate: there is no mode %d",
                (int)o.mode);
    WF_NEED_PTR(!o.align_corners || o.mode >= WEFT_LINEAR, WEFT_ERR_ARG,
                "interpolate: align_corners is of linear and cubic alone");
    a.dims = (uint8_t)dims;
    WF_TRY_PTR(read_sizes(a.size, "interpolate", x, dims));
    for (int d = 0; d < dims; d++) {
        double size = o.size[d] ? (double)o.size[d] : floor((double)a.size[d] * o.scale[d]);

        WF_NEED_PTR(size >= 1 && size <= INT32_MAX / 4, WEFT_ERR_ARG,
                    "interpolate: size %lld and scale %g of dim %d give no places",
                    (long long)o.size[d], o.scale[d], d);
        a.to[d] = (int32_t)size;
        if (!o.size[d]) a.scale[d] = o.scale[d];
    }
    return call_resample(x, &a, NULL);
}
