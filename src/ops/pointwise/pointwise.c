/* pointwise.c: shapes and public functions of pointwise ops. Values come from
 * kernels/pointwise.def.
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

/* ---- public functions ---- */

static bool has_integral_dtype(const weft_tensor *x)
{
    return !weft_dtype_is_float(weft_tensor_dtype(x)) && weft_tensor_dtype(x) != WEFT_C64;
}

weft_status wf_check_integer_power(const weft_tensor *x, double power)
{
    WF_NEED(!has_integral_dtype(x) || power >= 0 || !wf_number_is_whole(power), WEFT_ERR_ARG,
            "pow: integers to the power %g, which are none", power);
    return WEFT_OK;
}

void wf_set_nonnegative_factor(struct wf_op_args *args, enum wf_op op, const weft_tensor *x)
{
    static const uint64_t not_negative = 1;
    double s = args->scalars.s[0];

    if (!x->layout->partial) return;
    if (!(op == WF_OP_mul_scalar && s >= 0) && !(op == WF_OP_div_scalar && s > 0)) return;
    args->attr_words = 1;
    args->attrs = &not_negative;
}

static weft_tensor *call_with_numbers(enum wf_op op, weft_tensor *x, const double *s, int n)
{
    struct wf_op_args args = {.scalars.s = {s[0], s[1], s[2]}};

    if (!x) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, wf_ops[op].name));
    if (op == WF_OP_pow_scalar) WF_TRY_PTR(wf_check_integer_power(x, s[0]));
    /* Integers are finite numbers, all of which f32 does not have. */
    if (op == WF_OP_nan_to_num && has_integral_dtype(x)) return wf_dispatch_unary_op(WF_OP_copy, x);
    x = wf_promote_beside_numbers(x, s, n);
    if (!x) return NULL;
    wf_set_nonnegative_factor(&args, op, x);
    return wf_dispatch_op_one_output(op, &x, 1, &args);
}

#define UNARY_0(name)                                                                              \
    weft_tensor *weft_##name(weft_tensor *x) { return wf_dispatch_unary_op(WF_OP_##name, x); }
#define UNARY_1(name)                                                                              \
    weft_tensor *weft_##name(weft_tensor *x, double s)                                             \
    {                                                                                              \
        return call_with_numbers(WF_OP_##name, x, (double[]){s, 0, 0}, 1);                         \
    }
#define UNARY_2(name)                                                                              \
    weft_tensor *weft_##name(weft_tensor *x, double s, double t)                                   \
    {                                                                                              \
        return call_with_numbers(WF_OP_##name, x, (double[]){s, t, 0}, 2);                         \
    }
#define UNARY_3(name)                                                                              \
    weft_tensor *weft_##name(weft_tensor *x, double s, double t, double u)                         \
    {                                                                                              \
        return call_with_numbers(WF_OP_##name, x, (double[]){s, t, u}, 3);                         \
    }
#define BINARY(name)                                                                               \
    weft_tensor *weft_##name(weft_tensor *a, weft_tensor *b)                                       \
    {                                                                                              \
        return wf_dispatch_binary_op(WF_OP_##name, a, b);                                          \
    }
#define TERNARY_0(name)                                                                            \
    weft_tensor *weft_##name(weft_tensor *a, weft_tensor *b, weft_tensor *c)                       \
    {                                                                                              \
        weft_tensor *in[] = {a, b, c};                                                             \
                                                                                                   \
        return wf_dispatch_op_one_output(WF_OP_##name, in, 3, NULL);                               \
    }
#define TERNARY_1(name)                                                                            \
    weft_tensor *weft_##name(weft_tensor *a, weft_tensor *b, weft_tensor *c, double s)             \
    {                                                                                              \
        return call_with_a_number(WF_OP_##name, (weft_tensor *[]){a, b, c}, s);                    \
    }

/* Of three integers and a number that is not whole the result is f32; of three bools i64. */
static weft_tensor *call_with_a_number(enum wf_op op, weft_tensor **in, double s)
{
    struct wf_op_args args = {.scalars.s = {s}};
    bool integers = true, bools = true;

    for (int i = 0; i < 3; i++) {
        if (!in[i]) return NULL;
        WF_TRY_PTR(wf_tensor_need_alive(in[i], wf_ops[op].name));
        integers &= has_integral_dtype(in[i]);
        bools &= weft_tensor_dtype(in[i]) == WEFT_BOOL;
    }
    if (bools || (integers && !wf_number_is_whole(s)))
        in[0] = wf_promote_beside_numbers(in[0], &s, 1);
    return wf_dispatch_op_one_output(op, in, 3, &args);
}

#define WHOLE_BINARY(name)                                                                         \
    weft_tensor *weft_##name(weft_tensor *a, weft_tensor *b)                                       \
    {                                                                                              \
        return call_with_bits(WF_OP_##name, a, b);                                                 \
    }

/* The bits of bools are their truth. */
static weft_tensor *call_with_bits(enum wf_op op, weft_tensor *a, weft_tensor *b)
{
    bool bools = a && b && weft_tensor_dtype(a) == WEFT_BOOL && weft_tensor_dtype(b) == WEFT_BOOL;

    if (bools && op == WF_OP_bitwise_and) return weft_logical_and(a, b);
    if (bools && op == WF_OP_bitwise_or) return weft_logical_or(a, b);
    if (bools && op == WF_OP_bitwise_xor) return weft_logical_xor(a, b);
    return wf_dispatch_binary_op(op, a, b);
}

#define WF_UNARY(name, scalars, ...) UNARY_##scalars(name)
#define WF_UNARY_BY_OPS(name, scalars, ...) UNARY_##scalars(name)
#define WF_BINARY(name, ...) BINARY(name)
#define WF_TERNARY(name, scalars, ...) TERNARY_##scalars(name)
#define WF_WHOLE_BINARY(name, ...) WHOLE_BINARY(name)
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
