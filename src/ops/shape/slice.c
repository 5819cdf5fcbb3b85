/* slice.c: elements of a dim: a run of them, a single one, every step-th. */
#include <weft/ops.h>

#include <string.h>

#include "base/elements/dtype.h"
#include "base/error.h"
#include "ops/op_functions.h"
#include "ops/op_plan.h"

/* ---- slice: the start is a value, so it never makes a new plan ---- */

weft_status wf_shape_slice(struct wf_infer *call)
{
    wf_infer_output_like(call, 0, call->in[0]);
    call->out[0].shape[call->attrs->slice.dim] = call->attrs->slice.length;
    return WEFT_OK;
}

bool wf_view_slice(const struct wf_infer *call, const struct wf_tensor_desc *in,
                   const int64_t *shape, struct wf_view *view)
{
    (void)shape;
    memcpy(view->stride, in->stride, sizeof in->stride);
    view->step = in->stride[call->attrs->slice.dim];
    return true;
}

weft_status wf_shape_slice_grad(struct wf_infer *call)
{
    wf_infer_output_like(call, 0, call->in[0]);
    call->out[0].shape[call->attrs->slice.dim] = call->attrs->slice.length;
    return WEFT_OK;
}

void wf_vjp_slice(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    const struct wf_op_plan *plan = wf_tape_node_op_plan(n);
    int64_t dim = plan->attrs.slice.dim;
    struct wf_op_args args = {WF_ATTRS(slice, .dim = dim, .length = plan->in[0]->desc.global[dim]),
                              .scalars.v = {n->v[0]}, .want = plan->in[0]};

    in[0] = wf_dispatch_op_one_output(WF_OP_slice_grad, &g, 1, &args);
}

/*
 * The elements of a slice lie on few of the ranks that cut its dim, and which ones is not known
 * when a plan is made. Adding up zeros sends the slice twice; bringing the dim together sends one
 * of `ways` shares of the whole. u8 and bool cannot be added up.
 */
static bool is_small_part_of_dim(const struct wf_layout *x, int64_t dim, int64_t length)
{
    int64_t ways = 1;

    if (4 * length > x->desc.global[dim]) return false; /* two ways are the fewest */
    for (int a = 0; a < x->n_axes; a++)
        if (wf_is_shard_or_strided(x->placements[a]) && x->placements[a].dim == dim)
            ways *= weft_mesh_axis_size(x->mesh, a);
    return ways > 1 && wf_dtype_can_reduce(x->desc.dtype, WEFT_SUM) &&
           2 * length * ways <= x->desc.global[dim];
}

/* Each rank's elements of the slice, then their sum along the axes that cut the dim. */
static weft_tensor *slice_and_sum(weft_tensor *x, int64_t dim, const struct wf_op_args *args)
{
    weft_tensor *y = wf_dispatch_op_one_output(WF_OP_slice_masked, &x, 1, args);
    weft_placement to[WEFT_MAX_AXES];

    if (!y) return NULL;
    memcpy(to, y->layout->placements, sizeof to);
    for (int a = 0; a < y->layout->n_axes; a++)
        if (wf_is_shard_or_strided(x->layout->placements[a]) && x->layout->placements[a].dim == dim)
            to[a] = weft_replicate();
    return wf_redistribute_implicitly("slice", y, to);
}

weft_tensor *wf_slice_dim(weft_tensor *x, int64_t dim, int64_t start, int64_t length)
{
    struct wf_op_args args = {WF_ATTRS(slice, .dim = dim, .length = length), .scalars.v = {start}};

    if (is_small_part_of_dim(x->layout, dim, length)) return slice_and_sum(x, dim, &args);
    return wf_dispatch_op_one_output(WF_OP_slice, &x, 1, &args);
}

weft_tensor *weft_slice(weft_tensor *x, int dim, int64_t start, int64_t end)
{
    int64_t size, from, to;
    int d;

    if (!x) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "slice"));
    d = wf_normalize_dim(dim, weft_ndim(x), "slice");
    if (d < 0) return NULL;
    size = x->layout->desc.global[d];
    from = start < 0 ? start + size : start;
    to = end < 0 ? end + size : end;
    WF_NEED_PTR(from >= 0 && from <= to && to <= size, WEFT_ERR_ARG,
                "slice: [%lld,%lld) of dim %d with size %lld", (long long)start, (long long)end, d,
                (long long)size);
    return from == 0 && to == size ? x : wf_slice_dim(x, d, from, to - from);
}

weft_tensor *weft_select(weft_tensor *x, int dim, int64_t index)
{
    int64_t shape[WEFT_MAX_DIMS], size, at;
    int d, n = 0;

    if (!x) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "select"));
    d = wf_normalize_dim(dim, weft_ndim(x), "select");
    if (d < 0) return NULL;
    size = x->layout->desc.global[d];
    at = index < 0 ? index + size : index;
    WF_NEED_PTR(at >= 0 && at < size, WEFT_ERR_ARG, "select: index %lld of dim %d with size %lld",
                (long long)index, d, (long long)size);
    for (int i = 0; i < weft_ndim(x); i++)
        if (i != d) shape[n++] = x->layout->desc.global[i];
    return wf_reshape_to(wf_slice_dim(x, d, at, 1), shape, n, NULL);
}

/* ---- every step-th element ---- */

weft_status wf_shape_slice_step(struct wf_infer *call)
{
    int64_t dim = call->attrs->slice_step.dim, step = call->attrs->slice_step.step;

    wf_infer_output_like(call, 0, call->in[0]);
    call->out[0].shape[dim] = (call->out[0].shape[dim] + step - 1) / step;
    return WEFT_OK;
}

bool wf_view_slice_step(const struct wf_infer *call, const struct wf_tensor_desc *in,
                        const int64_t *shape, struct wf_view *view)
{
    (void)shape;
    memcpy(view->stride, in->stride, sizeof in->stride);
    view->stride[call->attrs->slice_step.dim] *= call->attrs->slice_step.step;
    return true;
}

void wf_vjp_slice_step(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    const struct wf_op_plan *plan = wf_tape_node_op_plan(n);
    const struct wf_tensor_desc *x = &plan->in[0]->desc;
    struct wf_pad_attrs attrs = {.size = {0}};
    struct wf_op_args args = {
        .attr_words = (int)(sizeof attrs / sizeof(uint64_t)), .attrs = &attrs, .want = plan->in[0]};

    for (int d = 0; d < x->ndim; d++) {
        attrs.size[d] = x->global[d];
        attrs.step[d] = d == plan->attrs.slice_step.dim ? plan->attrs.slice_step.step : 1;
    }
    in[0] = wf_dispatch_op_one_output(WF_OP_pad, &g, 1, &args);
}

static weft_tensor *take_every(weft_tensor *x, int64_t dim, int64_t step)
{
    struct wf_op_args args = {WF_ATTRS(slice_step, .dim = dim, .step = step)};

    return step == 1 ? x : wf_dispatch_op_one_output(WF_OP_slice_step, &x, 1, &args);
}

static int64_t clamped_bound(int64_t bound, int64_t size)
{
    if (bound < 0) bound = bound < -size ? 0 : bound + size;
    return bound < size ? bound : size;
}

weft_tensor *weft_slice_step(weft_tensor *x, int dim, int64_t start, int64_t end, int64_t step)
{
    int64_t size, from, to;
    int d;

    if (!x) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "slice_step"));
    d = wf_normalize_dim(dim, weft_ndim(x), "slice_step");
    if (d < 0) return NULL;
    WF_NEED_PTR(step > 0, WEFT_ERR_ARG, "slice_step: step %lld", (long long)step);
    size = x->layout->desc.global[d];
    from = clamped_bound(start, size);
    to = clamped_bound(end, size);
    if (to < from) to = from;
    if (step > size) step = size > 0 ? size : 1;
    if (from == 0 && to == size) return take_every(x, d, step);
    if (to > from) to -= (to - from - 1) % step; /* what follows the last element is not wanted */
    return take_every(wf_slice_dim(x, d, from, to - from), d, step);
}

weft_tensor *weft_narrow(weft_tensor *x, int dim, int64_t start, int64_t length)
{
    int64_t size, from;
    int d;

    if (!x) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "narrow"));
    d = wf_normalize_dim(dim, weft_ndim(x), "narrow");
    if (d < 0) return NULL;
    size = x->layout->desc.global[d];
    from = start < 0 ? start + size : start;
    WF_NEED_PTR(from >= 0 && from <= size && length >= 0 && length <= size - from, WEFT_ERR_ARG,
                "narrow: %lld elements from %lld on of dim %d with size %lld", (long long)length,
                (long long)start, d, (long long)size);
    return from == 0 && length == size ? x : wf_slice_dim(x, d, from, length);
}
