/*
 * gradients.c: gradients of pointwise ops, where kernels/pointwise.def has no formula.
 *
 * A broadcast input's gradient is summed back over the dims in which it was repeated
 * (wf_sum_to_shape_of).
 */
#include <weft/ops.h>

#include "base/error.h"
#include "ops/op_functions.h"
#include "ops/op_plan.h"

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

/* y = a / s */
void wf_vjp_div_scalar(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    in[0] = weft_div_scalar(g, n->s[0]);
}

void wf_vjp_rsub_scalar(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    (void)n;
    in[0] = weft_neg(g);
}

/* A whole quotient is constant between its steps. */
static void give_no_gradient(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    weft_tensor *none = weft_mul_scalar(g, 0);

    for (int i = 0; i < 2; i++)
        if (wf_tape_node_needs_grad(n, i)) set_input_gradient(n, in, i, none);
}

void wf_vjp_trunc_divide(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    give_no_gradient(n, g, in);
}

void wf_vjp_floor_divide(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    give_no_gradient(n, g, in);
}

/* y = a log(1 + b): da = g log(1 + b), 0 where a is and b <= -1; db = g a / (1 + b) */
void wf_vjp_xlog1py(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    weft_tensor *a = wf_saved_input(n, 0), *b = wf_saved_input(n, 1);

    if (wf_tape_node_needs_grad(n, 0)) {
        weft_tensor *zero = wf_number_like(g, 0), *least = wf_number_like(g, -1);
        weft_tensor *constant = weft_logical_and(weft_eq(a, zero), weft_le(b, least));

        set_input_gradient(n, in, 0, weft_mul(g, weft_where(constant, zero, weft_log1p(b))));
    }
    if (wf_tape_node_needs_grad(n, 1))
        set_input_gradient(n, in, 1, weft_div(weft_mul(g, a), weft_add_scalar(b, 1)));
}

/* y = a, below 0 a b: da = g, below 0 g b; db = 0, below 0 g a */
void wf_vjp_prelu(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    weft_tensor *a = wf_saved_input(n, 0), *zero = wf_number_like(g, 0), *above = weft_gt(a, zero);

    if (wf_tape_node_needs_grad(n, 0))
        set_input_gradient(n, in, 0, weft_where(above, g, weft_mul(g, wf_saved_input(n, 1))));
    if (wf_tape_node_needs_grad(n, 1))
        set_input_gradient(n, in, 1, weft_where(above, zero, weft_mul(g, a)));
}

/* y = a + c (b - a): da = g - g c, db = g c, dc = g (b - a) */
void wf_vjp_lerp(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    weft_tensor *c = wf_saved_input(n, 2);

    if (wf_tape_node_needs_grad(n, 0))
        set_input_gradient(n, in, 0, weft_mul(g, weft_rsub_scalar(c, 1)));
    if (wf_tape_node_needs_grad(n, 1)) set_input_gradient(n, in, 1, weft_mul(g, c));
    if (wf_tape_node_needs_grad(n, 2))
        set_input_gradient(n, in, 2,
                           weft_mul(g, weft_sub(wf_saved_input(n, 1), wf_saved_input(n, 0))));
}

/* y = a + s b c */
void wf_vjp_addcmul(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    if (wf_tape_node_needs_grad(n, 0)) set_input_gradient(n, in, 0, g);
    for (int i = 1; i < 3; i++)
        if (wf_tape_node_needs_grad(n, i))
            set_input_gradient(n, in, i,
                               weft_mul(weft_mul_scalar(g, n->s[0]), wf_saved_input(n, 3 - i)));
}

/* y = a + s b / c: db = s g / c, dc = -db b / c */
void wf_vjp_addcdiv(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    weft_tensor *share;

    if (wf_tape_node_needs_grad(n, 0)) set_input_gradient(n, in, 0, g);
    if (!wf_tape_node_needs_grad(n, 1) && !wf_tape_node_needs_grad(n, 2)) return;
    share = weft_div(weft_mul_scalar(g, n->s[0]), wf_saved_input(n, 2));
    if (wf_tape_node_needs_grad(n, 1)) set_input_gradient(n, in, 1, share);
    if (wf_tape_node_needs_grad(n, 2)) {
        weft_tensor *ratio = weft_div(wf_saved_input(n, 1), wf_saved_input(n, 2));

        set_input_gradient(n, in, 2, weft_neg(weft_mul(share, ratio)));
    }
}

/* Each has the gradient where it is the result: a bound where it is passed, and of two the upper.
 */
void wf_vjp_clamp_tensor(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    weft_tensor *x = wf_saved_input(n, 0), *low = wf_saved_input(n, 1);
    weft_tensor *high = wf_saved_input(n, 2), *zero = wf_number_like(g, 0);

    if (wf_tape_node_needs_grad(n, 0)) {
        weft_tensor *beyond = weft_logical_or(weft_lt(x, low), weft_gt(x, high));

        set_input_gradient(n, in, 0, weft_where(beyond, zero, g));
    }
    if (wf_tape_node_needs_grad(n, 1)) {
        weft_tensor *is_low = weft_logical_and(weft_lt(x, low), weft_lt(low, high));

        set_input_gradient(n, in, 1, weft_where(is_low, g, zero));
    }
    if (wf_tape_node_needs_grad(n, 2)) {
        weft_tensor *is_high = weft_logical_or(weft_gt(x, high), weft_lt(high, low));

        set_input_gradient(n, in, 2, weft_where(is_high, g, zero));
    }
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
        struct wf_op_args args = {.scalars.s = {n->s[0], n->s[1], n->s[2]}};                       \
        weft_tensor *operands[] = {g, saved_argument(n)};                                          \
                                                                                                   \
        in[0] = wf_dispatch_op_one_output(WF_OP_##name##_grad, operands, 2, &args);                \
    }
#include "kernels/pointwise.def"
