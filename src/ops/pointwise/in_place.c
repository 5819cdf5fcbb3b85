/*
 * in_place.c: pointwise ops that write over their first operand, a line each, and copies from any
 * layout. The result's layout is the target's: the other operands are brought to what that takes
 * (dtensor/dispatch/choose_placements.c), and where nothing does, the call is refused.
 */
#include <weft/ops.h>
#include <weft/random.h>

#include "base/elements/dtype.h"
#include "base/error.h"
#include "ops/call_dims.h"
#include "ops/op_functions.h"

/* What was recorded stays as it is; under weft_no_grad leaves may be written. */
static weft_status check_target(const char *name, const weft_tensor *into, weft_tensor *const *in,
                                int n)
{
    bool recorded = into->requires_grad;

    WF_TRY(wf_tensor_need_alive(into, name));
    for (int i = 0; i < n; i++) recorded |= in[i]->requires_grad;
    WF_NEED(!into->node && !(recorded && wf_grad_is_enabled()), WEFT_ERR_STATE,
            "%s in place: values on the tape cannot change", name);
    return WEFT_OK;
}

static weft_status check_numbers(const char *name, const weft_tensor *into, const double *s, int n)
{
    if (wf_dtype_is_float(into->layout->desc.dtype)) return WEFT_OK;
    for (int i = 0; i < n; i++)
        WF_NEED(wf_number_is_whole(s[i]), WEFT_ERR_DTYPE,
                "%s in place: a result beside %g does not go into %s", name, s[i],
                wf_dtypes[into->layout->desc.dtype].name);
    return WEFT_OK;
}

static weft_tensor *write_over(enum wf_op op, weft_tensor *into, weft_tensor *const *in, int n,
                               const double *s, int n_numbers)
{
    struct wf_op_args args = {.into = into};
    const char *name = wf_ops[op].name;

    for (int i = 0; i < n; i++)
        if (!in[i]) return NULL;
    WF_TRY_PTR(check_target(name, into, in, n));
    WF_TRY_PTR(check_numbers(name, into, s, n_numbers));
    for (int i = 0; i < n_numbers; i++) args.scalars.s[i] = s[i];
    wf_set_nonnegative_factor(&args, op, into);
    return wf_dispatch_op_one_output(op, in, n, &args);
}

#define UNARY(name)                                                                                \
    weft_tensor *weft_##name##_(weft_tensor *x)                                                    \
    {                                                                                              \
        return write_over(WF_OP_##name, x, &x, 1, NULL, 0);                                        \
    }
#define UNARY_1(name)                                                                              \
    weft_tensor *weft_##name##_(weft_tensor *x, double s)                                          \
    {                                                                                              \
        return write_over(WF_OP_##name, x, &x, 1, &s, 1);                                          \
    }
#define UNARY_2(name)                                                                              \
    weft_tensor *weft_##name##_(weft_tensor *x, double s, double t)                                \
    {                                                                                              \
        return write_over(WF_OP_##name, x, &x, 1, (double[]){s, t}, 2);                            \
    }
#define BINARY(name)                                                                               \
    weft_tensor *weft_##name##_(weft_tensor *a, weft_tensor *b)                                    \
    {                                                                                              \
        return write_over(WF_OP_##name, a, (weft_tensor *[]){a, b}, 2, NULL, 0);                   \
    }
#define TERNARY(name)                                                                              \
    weft_tensor *weft_##name##_(weft_tensor *a, weft_tensor *b, weft_tensor *c)                    \
    {                                                                                              \
        return write_over(WF_OP_##name, a, (weft_tensor *[]){a, b, c}, 3, NULL, 0);                \
    }
#define TERNARY_1(name)                                                                            \
    weft_tensor *weft_##name##_(weft_tensor *a, weft_tensor *b, weft_tensor *c, double s)          \
    {                                                                                              \
        return write_over(WF_OP_##name, a, (weft_tensor *[]){a, b, c}, 3, &s, 1);                  \
    }

UNARY(neg)
UNARY(abs)
UNARY(exp)
UNARY(log)
UNARY(sqrt)
UNARY(rsqrt)
UNARY(reciprocal)
UNARY(square)
UNARY(floor)
UNARY(ceil)
UNARY(round)
UNARY(trunc)
UNARY(sigmoid)
UNARY(tanh)
UNARY(relu)
UNARY_1(add_scalar)
UNARY_1(mul_scalar)
UNARY_1(div_scalar)
UNARY_1(clamp_min)
UNARY_1(clamp_max)
UNARY_2(clamp)
BINARY(add)
BINARY(sub)
BINARY(mul)
BINARY(div)
TERNARY(lerp)
TERNARY_1(addcmul)
TERNARY_1(addcdiv)

weft_tensor *weft_pow_scalar_(weft_tensor *x, double s)
{
    if (!x) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "pow"));
    WF_TRY_PTR(wf_check_integer_power(x, s));
    return write_over(WF_OP_pow_scalar, x, &x, 1, &s, 1);
}

weft_tensor *weft_sub_scalar_(weft_tensor *x, double s) { return weft_add_scalar_(x, -s); }

weft_tensor *weft_lerp_scalar_(weft_tensor *a, weft_tensor *b, double weight)
{
    if (!a || !b) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(a, "lerp"));
    return weft_lerp_(a, b, wf_number_like(a, weight));
}

weft_tensor *weft_masked_fill_(weft_tensor *x, weft_tensor *mask, double value)
{
    if (!x || !mask) return NULL;
    WF_TRY_PTR(check_target("masked_fill", x, NULL, 0));
    WF_TRY_PTR(check_numbers("masked_fill", x, &value, 1));
    return write_over(WF_OP_where, x, (weft_tensor *[]){mask, wf_number_like(x, value), x}, 3, NULL,
                      0);
}

weft_status weft_zero_(weft_tensor *t) { return weft_fill_(t, 0); }

/* ---- copies ---- */

static weft_status fail_copy(const char *what, const weft_tensor *into, const weft_tensor *x)
{
    char ours[256], theirs[256];

    weft_tensor_format(into, ours, sizeof ours);
    weft_tensor_format(x, theirs, sizeof theirs);
    return WF_FAIL(WEFT_ERR_SHAPE, "copy_: %s differ: %s is written over %s", what, theirs, ours);
}

static bool same_shape(const struct wf_tensor_desc *a, const struct wf_tensor_desc *b)
{
    bool same = a->ndim == b->ndim;

    for (int d = 0; d < a->ndim && same; d++) same = a->global[d] == b->global[d];
    return same;
}

/* x, of another shape, placed as its elements are wanted once they are repeated: what moves is x.
 */
static weft_tensor *redistribute_before_expand(const struct wf_layout *to, weft_tensor *x)
{
    weft_placement placements[WEFT_MAX_AXES];
    int added = to->desc.ndim - weft_ndim(x);

    for (int a = 0; a < to->n_axes; a++) {
        weft_placement p = to->placements[a];
        int dim = wf_is_shard_or_strided(p) ? p.dim - added : -1;

        placements[a] = x->layout->placements[a];
        if (!wf_is_shard_or_strided(p) && !weft_is_replicate(p)) continue;
        p.dim = (int8_t)dim;
        placements[a] = dim >= 0 && x->layout->desc.global[dim] == to->desc.global[dim + added]
                            ? p
                            : weft_replicate();
    }
    return wf_redistribute_implicitly("copy_", x, placements);
}

/* x with dtype, shape and layout of `into`; NULL with an error. */
static weft_tensor *bring_to(const weft_tensor *into, weft_tensor *x)
{
    static const weft_placement replicated[WEFT_MAX_AXES];
    const struct wf_layout *to = into->layout;
    bool same = true;

    x = weft_cast(x, (weft_dtype)to->desc.dtype);
    if (x && to->mesh && !x->layout->mesh) x = weft_from_local(x, to->mesh, replicated, NULL);
    if (x && !same_shape(&x->layout->desc, &to->desc)) {
        if (to->mesh) x = redistribute_before_expand(to, x);
        x = weft_expand(x, to->desc.global, to->desc.ndim);
    }
    for (int axis = 0; x && axis < to->n_axes; axis++)
        same &= weft_placement_equal(x->layout->placements[axis], to->placements[axis]);
    return same ? x : wf_redistribute_implicitly("copy_", x, to->placements);
}

weft_status weft_copy_(weft_tensor *into, weft_tensor *x)
{
    struct wf_op_args args = {.into = into};
    weft_mesh *mesh;

    WF_NEED_GIVEN(into && x, "copy_: a tensor is NULL");
    WF_TRY(wf_tensor_need_alive(into, "copy_"));
    WF_TRY(wf_tensor_need_alive(x, "copy_"));
    WF_NEED(!into->node, WEFT_ERR_STATE, "copy_: the tensor is the result of a recorded op");
    mesh = into->layout->mesh;
    if (!wf_repeats_to(&x->layout->desc, into->layout->desc.global, weft_ndim(into)))
        return fail_copy("shapes", into, x);
    if (x->layout->mesh != mesh && (x->layout->mesh || x->layout->numel != 1))
        return fail_copy("layouts", into, x);
    x = bring_to(into, x);
    return x && wf_dispatch_op_one_output(WF_OP_copy, &x, 1, &args) ? WEFT_OK : weft_error_status();
}
