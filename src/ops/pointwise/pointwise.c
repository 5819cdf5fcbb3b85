/*
 * pointwise.c: shapes and gradients of pointwise ops. Values come from kernels/pointwise.def.
 *
 * A broadcast input's gradient is summed back over the dims in which it was repeated
 * (wf_sum_to_shape_of).
 */
#include <weft/ops.h>

#include <string.h>

#include "base/error.h"
#include "ops/op_functions.h"
#include "ops/op_plan.h"

/* ---- shapes ---- */

void wf_infer_output_like(struct wf_infer *call, int j, const struct wf_layout *layout)
{
    call->out[j].dtype = (weft_dtype)layout->desc.dtype;
    call->out[j].ndim = layout->desc.ndim;
    memcpy(call->out[j].shape, layout->desc.global, sizeof layout->desc.global);
}

const char *wf_infer_inputs_text(const struct wf_infer *call)
{
    static _Thread_local char text[512];
    size_t at = 0;

    text[0] = '\0';
    for (int i = 0; i < call->n_in && at + 1 < sizeof text; i++) {
        if (i) at += (size_t)snprintf(text + at, sizeof text - at, ", ");
        if (at + 1 >= sizeof text) break;
        if (call->in[i])
            at += (size_t)wf_layout_print(call->in[i], text + at, sizeof text - at);
        else
            at += (size_t)snprintf(text + at, sizeof text - at, "none");
    }
    return text;
}

weft_status wf_shape_same(struct wf_infer *call)
{
    wf_infer_output_like(call, 0, call->in[0]);
    return WEFT_OK;
}

static weft_status broadcast_shapes(struct wf_infer *call, int first)
{
    int ndim = 0;

    for (int i = 0; i < call->n_in; i++)
        if (call->in[i]->desc.ndim > ndim) ndim = call->in[i]->desc.ndim;
    call->out[0].ndim = ndim;
    for (int d = 0; d < ndim; d++) {
        int64_t size = 1;

        for (int i = 0; i < call->n_in; i++) {
            int at = d - (ndim - call->in[i]->desc.ndim);
            int64_t n = at >= 0 ? call->in[i]->desc.global[at] : 1;

            if (n == 1) continue;
            WF_NEED(size == 1 || size == n, WEFT_ERR_SHAPE, "%s: shapes do not broadcast: %s",
                    call->row->name, wf_infer_inputs_text(call));
            size = n;
        }
        call->out[0].shape[d] = size;
    }
    call->out[0].dtype = (weft_dtype)call->in[first]->desc.dtype;
    for (int i = first + 1; i < call->n_in; i++)
        WF_NEED(call->in[i]->desc.dtype == call->in[first]->desc.dtype, WEFT_ERR_DTYPE,
                "%s: dtypes differ: %s", call->row->name, wf_infer_inputs_text(call));
    return WEFT_OK;
}

weft_status wf_shape_broadcast(struct wf_infer *call) { return broadcast_shapes(call, 0); }

weft_status wf_shape_compare(struct wf_infer *call)
{
    WF_TRY(broadcast_shapes(call, 0));
    call->out[0].dtype = WEFT_BOOL;
    return WEFT_OK;
}

weft_status wf_shape_test(struct wf_infer *call)
{
    WF_TRY(wf_shape_same(call));
    call->out[0].dtype = WEFT_BOOL;
    return WEFT_OK;
}

weft_status wf_shape_where(struct wf_infer *call)
{
    WF_NEED(call->in[0]->desc.dtype == WEFT_BOOL, WEFT_ERR_DTYPE,
            "where: the condition must be bool: %s", wf_infer_inputs_text(call));
    return broadcast_shapes(call, 1);
}

weft_status wf_shape_cast(struct wf_infer *call)
{
    int64_t dtype = call->attrs->cast.dtype;

    WF_NEED(dtype >= 0 && dtype < WEFT_DTYPE_COUNT, WEFT_ERR_DTYPE, "cast: unknown dtype %d",
            (int)dtype);
    wf_infer_output_like(call, 0, call->in[0]);
    call->out[0].dtype = (weft_dtype)dtype;
    return WEFT_OK;
}

/* ---- gradients ---- */

weft_tensor *wf_sum_to_shape_of(weft_tensor *grad, struct wf_layout *layout)
{
    const struct wf_tensor_desc *from, *to = &layout->desc;
    int64_t mask = 0;
    int missing;

    if (!grad) return NULL;
    from = &grad->layout->desc;
    missing = from->ndim - to->ndim;
    for (int d = 0; d < from->ndim; d++)
        if (d < missing || to->global[d - missing] != from->global[d]) mask |= (int64_t)1 << d;
    if (!mask) return grad;
    grad = wf_sum_masked_dims(grad, mask, missing == 0, 1, missing ? NULL : layout);
    return missing ? wf_reshape_to(grad, to->global, to->ndim, layout) : grad;
}

static weft_tensor *call_with_scalars(enum wf_op op, weft_tensor *a, weft_tensor *b,
                                      const double *s)
{
    weft_tensor *in[] = {a, b};
    struct wf_op_args args = {.scalars.s = {s[0], s[1], s[2]}};

    return wf_dispatch_op_one_output(op, in, b ? 2 : 1, &args);
}

/* The gradient of an input that may have been broadcast. */
static void set_input_gradient(const struct wf_tape_node *n, weft_tensor **in, int i,
                               weft_tensor *gradient)
{
    in[i] = wf_sum_to_shape_of(gradient, wf_tape_node_input_layout(n, i));
}

void wf_vjp_add(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    if (wf_tape_node_needs_grad(n, 0)) set_input_gradient(n, in, 0, g);
    if (wf_tape_node_needs_grad(n, 1)) set_input_gradient(n, in, 1, g);
}

void wf_vjp_sub(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    if (wf_tape_node_needs_grad(n, 0)) set_input_gradient(n, in, 0, g);
    if (wf_tape_node_needs_grad(n, 1)) set_input_gradient(n, in, 1, weft_neg(g));
}

void wf_vjp_mul(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    if (wf_tape_node_needs_grad(n, 0))
        set_input_gradient(n, in, 0, weft_mul(g, wf_saved_input(n, 1)));
    if (wf_tape_node_needs_grad(n, 1))
        set_input_gradient(n, in, 1, weft_mul(g, wf_saved_input(n, 0)));
}

/* y = a / b: da = g / b, db = -g y / b */
void wf_vjp_div(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    weft_tensor *da = weft_div(g, wf_saved_input(n, 1));

    if (wf_tape_node_needs_grad(n, 0)) set_input_gradient(n, in, 0, da);
    if (wf_tape_node_needs_grad(n, 1))
        set_input_gradient(n, in, 1, weft_neg(weft_mul(da, wf_saved_output(n, 0))));
}

/* y = a^b: da = g b a^(b-1), 0 where b is; db = g y log a, 0 where a is and b >= 0 */
void wf_vjp_pow(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    weft_tensor *a = wf_saved_input(n, 0), *b = wf_saved_input(n, 1);
    weft_tensor *zero = wf_number_like(g, 0);

    if (wf_tape_node_needs_grad(n, 0)) {
        weft_tensor *slope = weft_mul(b, weft_pow(a, weft_add_scalar(b, -1)));

        set_input_gradient(n, in, 0, weft_mul(g, weft_where(weft_eq(b, zero), zero, slope)));
    }
    if (wf_tape_node_needs_grad(n, 1)) {
        weft_tensor *slope = weft_mul(wf_saved_output(n, 0), weft_log(a));
        weft_tensor *at_zero = weft_where(weft_ge(b, zero), zero, slope);

        slope = weft_where(weft_eq(a, zero), at_zero, slope);
        set_input_gradient(n, in, 1, weft_mul(g, slope));
    }
}

typedef weft_tensor *comparison(weft_tensor *a, weft_tensor *b);

/* Half each where equal; else what lost has none. With NaN, nobody has lost. */
static void give_gradient_to_winner(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in,
                                    comparison *a_lost, comparison *b_lost)
{
    weft_tensor *a = wf_saved_input(n, 0), *b = wf_saved_input(n, 1);
    weft_tensor *zero = wf_number_like(g, 0);
    weft_tensor *share = weft_where(weft_eq(a, b), weft_mul_scalar(g, 0.5), g);

    if (wf_tape_node_needs_grad(n, 0))
        set_input_gradient(n, in, 0, weft_where(a_lost(a, b), zero, share));
    if (wf_tape_node_needs_grad(n, 1))
        set_input_gradient(n, in, 1, weft_where(b_lost(a, b), zero, share));
}

void wf_vjp_maximum(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    give_gradient_to_winner(n, g, in, weft_lt, weft_gt);
}

void wf_vjp_minimum(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    give_gradient_to_winner(n, g, in, weft_gt, weft_lt);
}

/* fmax and fmin take NaN only where there is nothing else, and of two the first. Equal numbers are
 * neither's. */
static weft_tensor *fmax_gives_a(weft_tensor *a, weft_tensor *b)
{
    return weft_logical_or(weft_gt(a, b), weft_isnan(b));
}

static weft_tensor *fmin_gives_a(weft_tensor *a, weft_tensor *b)
{
    return weft_logical_or(weft_lt(a, b), weft_isnan(b));
}

static weft_tensor *fmax_gives_b(weft_tensor *a, weft_tensor *b)
{
    return weft_logical_not(weft_logical_or(weft_ge(a, b), weft_isnan(b)));
}

static weft_tensor *fmin_gives_b(weft_tensor *a, weft_tensor *b)
{
    return weft_logical_not(weft_logical_or(weft_le(a, b), weft_isnan(b)));
}

void wf_vjp_fmax(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    give_gradient_to_winner(n, g, in, fmax_gives_b, fmax_gives_a);
}

void wf_vjp_fmin(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    give_gradient_to_winner(n, g, in, fmin_gives_b, fmin_gives_a);
}

void wf_vjp_where(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    weft_tensor *zero = wf_number_like(g, 0);

    if (wf_tape_node_needs_grad(n, 1))
        set_input_gradient(n, in, 1, weft_where(wf_saved_input(n, 0), g, zero));
    if (wf_tape_node_needs_grad(n, 2))
        set_input_gradient(n, in, 2, weft_where(wf_saved_input(n, 0), zero, g));
}

void wf_vjp_neg(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    (void)n;
    in[0] = weft_neg(g);
}

void wf_vjp_square(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    in[0] = weft_mul(weft_mul_scalar(g, 2), wf_saved_input(n, 0));
}

void wf_vjp_add_scalar(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    (void)n;
    in[0] = g;
}

void wf_vjp_copy(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    (void)n;
    in[0] = g;
}

void wf_vjp_mul_scalar(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    in[0] = weft_mul_scalar(g, n->s[0]);
}

void wf_vjp_cast(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    in[0] = weft_cast(g, (weft_dtype)wf_tape_node_input_layout(n, 0)->desc.dtype);
}

/* a - q b, q the quotient cut: da = g, db = -g q */
void wf_vjp_fmod(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    if (wf_tape_node_needs_grad(n, 0)) set_input_gradient(n, in, 0, g);
    if (wf_tape_node_needs_grad(n, 1)) {
        weft_tensor *q = weft_trunc(weft_div(wf_saved_input(n, 0), wf_saved_input(n, 1)));

        set_input_gradient(n, in, 1, weft_neg(weft_mul(g, q)));
    }
}

/* ... rounded down */
void wf_vjp_remainder(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    if (wf_tape_node_needs_grad(n, 0)) set_input_gradient(n, in, 0, g);
    if (wf_tape_node_needs_grad(n, 1)) {
        weft_tensor *q = weft_floor(weft_div(wf_saved_input(n, 0), wf_saved_input(n, 1)));

        set_input_gradient(n, in, 1, weft_neg(weft_mul(g, q)));
    }
}

/* y = +a or -a: da = +g or -g, 0 where a is; db = 0 */
void wf_vjp_copysign(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    if (wf_tape_node_needs_grad(n, 0)) {
        weft_tensor *sign =
            weft_mul(weft_sign(wf_saved_input(n, 0)), weft_sign(wf_saved_output(n, 0)));

        set_input_gradient(n, in, 0, weft_mul(g, sign));
    }
    if (wf_tape_node_needs_grad(n, 1)) set_input_gradient(n, in, 1, weft_mul_scalar(g, 0));
}

/* The angle of (b, a): da = g b / (a^2 + b^2), db = -g a / (a^2 + b^2) */
void wf_vjp_atan2(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    weft_tensor *a = wf_saved_input(n, 0), *b = wf_saved_input(n, 1);
    weft_tensor *share = weft_div(g, weft_add(weft_square(a), weft_square(b)));

    if (wf_tape_node_needs_grad(n, 0)) set_input_gradient(n, in, 0, weft_mul(share, b));
    if (wf_tape_node_needs_grad(n, 1)) set_input_gradient(n, in, 1, weft_neg(weft_mul(share, a)));
}

/* y = sqrt(a^2 + b^2): da = g a / y, db = g b / y */
void wf_vjp_hypot(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    weft_tensor *share = weft_div(g, wf_saved_output(n, 0));

    if (wf_tape_node_needs_grad(n, 0))
        set_input_gradient(n, in, 0, weft_mul(share, wf_saved_input(n, 0)));
    if (wf_tape_node_needs_grad(n, 1))
        set_input_gradient(n, in, 1, weft_mul(share, wf_saved_input(n, 1)));
}

/* y = a log b: da = g log b, 0 where a is and b <= 0; db = g a / b */
void wf_vjp_xlogy(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    weft_tensor *a = wf_saved_input(n, 0), *b = wf_saved_input(n, 1);

    if (wf_tape_node_needs_grad(n, 0)) {
        weft_tensor *zero = wf_number_like(g, 0);
        weft_tensor *constant = weft_logical_and(weft_eq(a, zero), weft_le(b, zero));

        set_input_gradient(n, in, 0, weft_mul(g, weft_where(constant, zero, weft_log(b))));
    }
    if (wf_tape_node_needs_grad(n, 1)) set_input_gradient(n, in, 1, weft_div(weft_mul(g, a), b));
}

/* log(e^a + e^b): da = g sigmoid(a - b), db = g sigmoid(b - a) */
void wf_vjp_logaddexp(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    weft_tensor *difference = weft_sub(wf_saved_input(n, 0), wf_saved_input(n, 1));

    if (wf_tape_node_needs_grad(n, 0))
        set_input_gradient(n, in, 0, weft_mul(g, weft_sigmoid(difference)));
    if (wf_tape_node_needs_grad(n, 1))
        set_input_gradient(n, in, 1, weft_mul(g, weft_sigmoid(weft_neg(difference))));
}

/* Those that have a gradient formula of d and z; z is what the row saves. */
static weft_tensor *saved_argument(const struct wf_tape_node *n)
{
    bool input = wf_ops[wf_tape_node_op_plan(n)->op].saves & 1;

    return input ? wf_saved_input(n, 0) : wf_saved_output(n, 0);
}

#define WF_UNARY(name, ...)                                                                        \
    void wf_vjp_##name(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)             \
    {                                                                                              \
        in[0] = call_with_scalars(WF_OP_##name##_grad, g, saved_argument(n), n->s);                \
    }
#include "kernels/pointwise.def"

/* ---- public functions ---- */

#define UNARY_0(name)                                                                              \
    weft_tensor *weft_##name(weft_tensor *x) { return wf_dispatch_unary_op(WF_OP_##name, x); }
#define UNARY_1(name)                                                                              \
    weft_tensor *weft_##name(weft_tensor *x, double s)                                             \
    {                                                                                              \
        return call_with_scalars(WF_OP_##name, x, NULL, (double[]){s, 0, 0});                      \
    }
#define UNARY_2(name)                                                                              \
    weft_tensor *weft_##name(weft_tensor *x, double s, double t)                                   \
    {                                                                                              \
        return call_with_scalars(WF_OP_##name, x, NULL, (double[]){s, t, 0});                      \
    }
#define UNARY_3(name)                                                                              \
    weft_tensor *weft_##name(weft_tensor *x, double s, double t, double u)                         \
    {                                                                                              \
        return call_with_scalars(WF_OP_##name, x, NULL, (double[]){s, t, u});                      \
    }
#define BINARY(name)                                                                               \
    weft_tensor *weft_##name(weft_tensor *a, weft_tensor *b)                                       \
    {                                                                                              \
        return wf_dispatch_binary_op(WF_OP_##name, a, b);                                          \
    }
#define WF_UNARY(name, scalars, ...) UNARY_##scalars(name)
#define WF_UNARY_BY_OPS(name, scalars, ...) UNARY_##scalars(name)
#define WF_BINARY(name, ...) BINARY(name)
#define WF_WHOLE_BINARY(name, ...) BINARY(name)
#define WF_COMPARE(name, ...) BINARY(name)
#define WF_TEST(name, ...) UNARY_0(name)
#include "kernels/pointwise.def"

weft_tensor *weft_where(weft_tensor *condition, weft_tensor *a, weft_tensor *b)
{
    weft_tensor *in[] = {condition, a, b};

    return wf_dispatch_op_one_output(WF_OP_where, in, 3, NULL);
}

weft_tensor *weft_cast(weft_tensor *x, weft_dtype dtype)
{
    struct wf_op_args args = {WF_ATTRS(cast, .dtype = (int64_t)dtype)};

    WF_TRY_PTR(wf_tensor_need_alive(x, "cast"));
    if (x && weft_tensor_dtype(x) == dtype) return x;
    return wf_dispatch_op_one_output(WF_OP_cast, &x, 1, &args);
}

weft_tensor *wf_copy_row_major_for_view(weft_tensor *x)
{
    weft_tensor *copy = wf_dispatch_unary_op(WF_OP_copy, x);

    if (copy) wf_block_share_version(x->block, copy->block);
    return copy;
}

weft_tensor *weft_contiguous(weft_tensor *x)
{
    WF_TRY_PTR(wf_tensor_need_alive(x, "contiguous"));
    return !x || x->layout->desc.contiguous ? x : wf_copy_row_major_for_view(x);
}

weft_tensor *weft_add_(weft_tensor *a, weft_tensor *b)
{
    weft_tensor *in[] = {a, b};
    struct wf_op_args args = {.into = a};

    if (!a || !b) return NULL;
    WF_NEED_PTR(!a->requires_grad && !(b->requires_grad && wf_grad_is_enabled()), WEFT_ERR_STATE,
                "add_: values on the tape cannot change in place");
    return wf_dispatch_op_one_output(WF_OP_add, in, 2, &args);
}
