/*
 * norms.c: vector norms, distances, and variances.
 *
 * A norm over a sharded dim is a partial norm. A variance is two reductions, of the mean and of the
 * squares of what differs from it, each of which sends one number per result; nothing is gathered.
 * 16-bit floats are added up, and their results combined over ranks, in f32.
 */
#include <weft/ops.h>

#include <math.h>

#include "base/elements/dtype.h"
#include "base/error.h"
#include "ops/op_functions.h"
#include "ops/op_plan.h"

weft_status wf_shape_norm(struct wf_infer *call)
{
    WF_NEED(weft_dtype_is_float((weft_dtype)call->in[0]->desc.dtype), WEFT_ERR_DTYPE,
            "norm: needs floating-point numbers: %s", wf_infer_inputs_text(call));
    call->norm_power = call->attrs->norm.p;
    return wf_shape_reduce(call); /* its attributes begin as a reduction's do */
}

/* ---- gradients ---- */

/* t in the dtype that x's norm has. */
static weft_tensor *in_dtype_of(weft_tensor *t, const weft_tensor *like)
{
    return weft_cast(t, weft_tensor_dtype(like));
}

/* Shared by those elements whose size is the norm. */
static weft_tensor *gradient_of_extreme(weft_tensor *x, weft_tensor *y, weft_tensor *g,
                                        uint32_t dims)
{
    weft_tensor *hit = in_dtype_of(weft_eq(weft_abs(x), y), x);
    weft_tensor *hits = wf_reduce_if_partial(wf_sum_masked_dims(hit, dims, true, 1, NULL));

    return weft_mul(weft_mul(hit, weft_sign(x)), weft_div(g, hits));
}

/* d |x|_p = sign(x) |x|^(p-1) / |x|_p^(p-1), and 0 where the norm is 0; y with the reduced dims. */
static weft_tensor *norm_gradient(weft_tensor *x, weft_tensor *y, weft_tensor *g, double p,
                                  uint32_t dims)
{
    weft_tensor *zero = wf_number_like(x, 0), *share, *size;

    if (p == 0) return weft_mul_scalar(weft_mul(x, g), 0);
    if (p == 1) return weft_mul(weft_sign(x), g);
    if (isinf(p)) return gradient_of_extreme(x, y, g, dims);
    if (p == 2) {
        share = weft_where(weft_eq(y, zero), zero, weft_div(g, y));
        return weft_mul(x, share);
    }
    share = weft_where(weft_eq(y, zero), zero, weft_mul(g, weft_pow_scalar(y, 1 - p)));
    size = weft_mul(weft_sign(x), weft_pow_scalar(weft_abs(x), p - 1));
    if (p < 1) size = weft_where(weft_eq(x, zero), zero, size);
    return weft_mul(size, share);
}

void wf_vjp_norm(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    const struct wf_op_plan *plan = wf_tape_node_op_plan(n);
    weft_tensor *x = wf_saved_input(n, 0), *y = wf_reduce_if_partial(wf_saved_output(n, 0));
    weft_tensor *gradient;

    if (!y) return;
    gradient =
        norm_gradient(in_dtype_of(x, y), wf_restore_reduced_dims(n, y),
                      wf_restore_reduced_dims(n, g), plan->attrs.norm.p, plan->attrs.norm.dims);
    in[0] = in_dtype_of(gradient, x);
}

/* y = sum (x - c)^2: dx = 2 g (x - c), dc = -its sum. */
void wf_vjp_deviation(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    weft_tensor *x = wf_saved_input(n, 0), *c = wf_saved_input(n, 1);
    weft_tensor *apart = weft_sub(in_dtype_of(x, c), c);
    weft_tensor *dx = weft_mul(apart, weft_mul_scalar(wf_restore_reduced_dims(n, g), 2));

    if (wf_tape_node_needs_grad(n, 0)) in[0] = in_dtype_of(dx, x);
    if (wf_tape_node_needs_grad(n, 1))
        in[1] = wf_sum_masked_dims(weft_neg(dx), wf_tape_node_op_plan(n)->attrs.reduce.dims, true,
                                   1, c->layout);
}

/* ---- norms ---- */

static weft_tensor *norm_of_mask(weft_tensor *x, double p, int64_t mask, bool keep)
{
    bool wide = wf_dtype_is_16_bit_float(weft_tensor_dtype(x));
    struct wf_op_args args = {
        WF_ATTRS(norm, .dims = (uint32_t)mask, .keep = keep, .wide = wide, .p = p)};
    weft_tensor *y = wf_dispatch_op_one_output(WF_OP_norm, &x, 1, &args);

    return y ? weft_cast(wide ? wf_reduce_if_partial(y) : y, weft_tensor_dtype(x)) : NULL;
}

weft_tensor *weft_norm(weft_tensor *x, double p, const int *dims, int n, bool keep)
{
    int64_t mask;

    if (!x) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "norm"));
    WF_TRY_PTR(wf_need_float(x, "norm"));
    WF_NEED_PTR(!isnan(p), WEFT_ERR_ARG, "norm: p is not a number");
    mask = wf_dims_to_mask(x, dims, n, "norm");
    if (mask < 0) return NULL;
    if (isinf(p)) WF_TRY_PTR(wf_need_elements(x, mask, "norm"));
    return norm_of_mask(x, p, mask, keep);
}

weft_tensor *weft_dist(weft_tensor *a, weft_tensor *b, double p)
{
    return weft_norm(weft_sub(a, b), p, NULL, 0, false);
}

/* ---- variances ---- */

weft_tensor *wf_variance_about(weft_tensor *x, weft_tensor *mean, int64_t mask, double correction,
                               bool keep)
{
    struct wf_op_args args = {WF_ATTRS(reduce, .dims = (uint32_t)mask, .keep = keep)};
    double count = (double)wf_count_in_dims(x, mask) - correction;
    weft_tensor *sum;

    if (!mean) return NULL;
    sum = wf_dispatch_op_one_output(WF_OP_deviation, (weft_tensor *[]){x, mean}, 2, &args);
    return weft_mul_scalar(sum, 1 / fmax(count, 0));
}

/* In the computing dtype, whole on every rank. `mean` NULL: not wanted. */
static weft_tensor *variance(const char *who, weft_tensor *x, const int *dims, int n,
                             double correction, bool keep, weft_tensor **mean)
{
    weft_tensor *about, *var;
    int64_t mask;

    if (!x) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, who));
    WF_TRY_PTR(wf_need_float(x, who));
    mask = wf_dims_to_mask(x, dims, n, who);
    x = mask < 0 ? NULL : wf_reduce_partial_operand(who, x);
    if (!x) return NULL;
    if (!mean) weft_no_grad_open(); /* the variance's gradient does not go through the mean */
    about = wf_reduce_if_partial(wf_mean_mask(x, mask, true, true));
    if (!mean) weft_no_grad_close();
    var = wf_reduce_if_partial(wf_variance_about(x, weft_detach(about), mask, correction, keep));
    if (var && mean)
        *mean = wf_reshape_to(weft_cast(about, weft_tensor_dtype(x)), var->layout->desc.global,
                              weft_ndim(var), NULL);
    return var && mean && !*mean ? NULL : var;
}

weft_tensor *weft_var(weft_tensor *x, const int *dims, int n, double correction, bool keep)
{
    weft_tensor *var = variance("var", x, dims, n, correction, keep, NULL);

    return var ? in_dtype_of(var, x) : NULL;
}

enum { ROOT }; /* saved */

/* g / 2y, and 0 where nothing varies. */
static void vjp_root_of_variance(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    weft_tensor *y = n->saved[ROOT], *zero = wf_number_like(y, 0);

    in[0] = weft_where(weft_eq(y, zero), zero, weft_div(weft_mul_scalar(g, 0.5), y));
}

static weft_tensor *root_of_variance(weft_tensor *var)
{
    weft_tensor *y, *kept;

    if (!var) return NULL;
    weft_no_grad_open();
    y = weft_sqrt(var);
    kept = weft_detach(y);
    weft_no_grad_close();
    if (y && kept && wf_should_record(&var, 1)) {
        struct wf_tape_node *n = wf_tape_record(y, vjp_root_of_variance, "std", &var, 1);

        wf_tape_node_save(n, ROOT, kept); /* y itself holds the node */
        wf_tape_node_shard_saved(n);
    }
    return y;
}

weft_tensor *weft_std(weft_tensor *x, const int *dims, int n, double correction, bool keep)
{
    weft_tensor *std = root_of_variance(variance("std", x, dims, n, correction, keep, NULL));

    return std ? in_dtype_of(std, x) : NULL;
}

weft_tensor *weft_var_mean(weft_tensor *x, const int *dims, int n, double correction, bool keep,
                           weft_tensor **mean)
{
    weft_tensor *var, *about = NULL;

    if (mean) *mean = NULL;
    var = variance("var_mean", x, dims, n, correction, keep, mean ? &about : NULL);
    if (!var) return NULL;
    if (mean) *mean = about;
    return in_dtype_of(var, x);
}
