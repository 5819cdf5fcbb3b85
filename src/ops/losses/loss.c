/*
 * loss.c: losses that are formulas of other ops. Cross-entropy has a file of its own.
 *
 * 16-bit floats are widened first, and the loss is rounded once.
 */
#include <weft/ops.h>

#include <math.h>
#include <string.h>

#include "base/elements/dtype.h"
#include "base/error.h"
#include "ops/op_functions.h"
#include "ops/op_plan.h"
#include "tensor/scope.h"

weft_tensor *weft_mse(weft_tensor *a, weft_tensor *b)
{
    return weft_mean_all(weft_square(weft_sub(a, b)));
}

/* ---- elements ---- */

/* |d| up to a bound, and what is beyond it in a straight line: (z c - c^2 / 2) with z = |d| and
 * c = min(z, bound), which is d^2 / 2 below the bound and bound (z - bound / 2) above it. */
static weft_tensor *huber(weft_tensor *d, double bound)
{
    weft_tensor *z = weft_abs(d), *c = weft_clamp_max(z, bound);

    return weft_mul(c, weft_sub(z, weft_mul_scalar(c, 0.5)));
}

static weft_tensor *squared_error(weft_tensor *a, weft_tensor *b, const weft_loss_options *o)
{
    (void)o;
    return weft_square(weft_sub(a, b));
}

static weft_tensor *absolute_error(weft_tensor *a, weft_tensor *b, const weft_loss_options *o)
{
    weft_tensor *d = weft_sub(a, b);

    (void)o;
    /* The difference is nobody else's; one that is sharded may be a sum of terms. */
    return d && wf_is_plain(d) && !d->requires_grad ? weft_abs_(d) : weft_abs(d);
}

static weft_tensor *smooth_l1(weft_tensor *a, weft_tensor *b, const weft_loss_options *o)
{
    double beta = o->beta == 0 ? 1 : o->beta;

    return weft_mul_scalar(huber(weft_sub(a, b), beta), 1 / beta);
}

static weft_tensor *huber_error(weft_tensor *a, weft_tensor *b, const weft_loss_options *o)
{
    return huber(weft_sub(a, b), o->beta == 0 ? 1 : o->beta);
}

static weft_tensor *divergence(weft_tensor *log_p, weft_tensor *q, const weft_loss_options *o)
{
    if (o->log_target) return weft_mul(weft_exp(q), weft_sub(q, log_p));
    return weft_sub(weft_xlogy(q, q), weft_mul(q, log_p));
}

/* ---- of probabilities ---- */

/* Logarithms are no less than this, and denominators no less than that, as in PyTorch. */
static const double least_log = -100, least_variance = (double)1e-12f;

static weft_tensor *log_of(weft_tensor *p) { return weft_clamp_min(weft_log(p), least_log); }

static weft_tensor *log_of_rest(weft_tensor *p)
{
    return weft_clamp_min(weft_log1p(weft_neg(p)), least_log);
}

enum { P, TARGET };

static void vjp_binary_cross_entropy(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    weft_tensor *p = n->saved[P], *t = n->saved[TARGET];

    if (wf_tape_node_needs_grad(n, P)) {
        weft_tensor *variance = weft_mul(p, weft_add_scalar(weft_neg(p), 1));

        in[P] = weft_mul(g, weft_div(weft_sub(p, t), weft_clamp_min(variance, least_variance)));
    }
    if (wf_tape_node_needs_grad(n, TARGET))
        in[TARGET] = weft_mul(g, weft_sub(log_of_rest(p), log_of(p)));
}

/* (t - 1) log(1 - p) - t log p. Its gradient is finite where that of the formula is not. */
static weft_tensor *binary_cross_entropy(weft_tensor *p, weft_tensor *t, const weft_loss_options *o)
{
    weft_tensor *in[] = {p, t}, *loss;

    weft_no_grad_open();
    loss = weft_sub(weft_mul(weft_add_scalar(t, -1), log_of_rest(p)), weft_mul(t, log_of(p)));
    weft_no_grad_close();
    if (loss && (p->requires_grad || t->requires_grad) && wf_grad_is_enabled()) {
        struct wf_tape_node *n =
            wf_tape_record(loss, vjp_binary_cross_entropy, "binary_cross_entropy", in, 2);

        wf_tape_node_save(n, P, p);
        wf_tape_node_save(n, TARGET, t);
        wf_tape_node_shard_saved(n);
    }
    return o->weight ? weft_mul(loss, o->weight) : loss;
}

/* (1 - t) z - (1 + (w - 1) t) log sigmoid(z) */
static weft_tensor *binary_cross_entropy_with_logits(weft_tensor *z, weft_tensor *t,
                                                     const weft_loss_options *o)
{
    weft_tensor *log_p = weft_log_sigmoid(z), *loss;

    if (o->pos_weight)
        log_p =
            weft_mul(log_p, weft_add_scalar(weft_mul(weft_add_scalar(o->pos_weight, -1), t), 1));
    loss = weft_sub(weft_sub(z, weft_mul(t, z)), log_p);
    return o->weight ? weft_mul(loss, o->weight) : loss;
}

/* ---- reductions ---- */

typedef weft_tensor *elements_fn(weft_tensor *a, weft_tensor *b, const weft_loss_options *o);

static weft_tensor *widened(weft_tensor *t)
{
    return t && wf_dtype_is_16_bit_float(weft_tensor_dtype(t)) ? weft_cast(t, WEFT_F32) : t;
}

static weft_tensor *reduced(weft_tensor *loss, weft_loss_reduction reduction)
{
    int64_t batch;

    if (!loss || reduction == WEFT_LOSS_NONE) return loss;
    if (reduction == WEFT_LOSS_MEAN) return weft_mean_all(loss);
    if (reduction == WEFT_LOSS_SUM) return weft_sum_all(loss);
    batch = weft_ndim(loss) > 0 ? weft_size(loss, 0) : 1;
    return weft_mul_scalar(weft_sum_all(loss), 1 / (double)batch);
}

static weft_status check_loss(const char *name, weft_tensor *a, weft_tensor *b,
                              const weft_loss_options *o)
{
    WF_TRY(wf_tensor_need_alive(a, name));
    WF_TRY(wf_tensor_need_alive(b, name));
    WF_NEED(weft_dtype_is_float(weft_tensor_dtype(a)) &&
                weft_tensor_dtype(a) == weft_tensor_dtype(b),
            WEFT_ERR_DTYPE, "%s: needs floating-point tensors of one dtype, not %s and %s", name,
            weft_dtype_name(weft_tensor_dtype(a)), weft_dtype_name(weft_tensor_dtype(b)));
    WF_NEED((unsigned)o->reduction <= WEFT_LOSS_BATCH_MEAN, WEFT_ERR_ARG,
            "%s: there is no reduction %d", name, (int)o->reduction);
    WF_NEED(o->beta >= 0 && isfinite(o->beta), WEFT_ERR_ARG, "%s: beta is %g", name, o->beta);
    return WEFT_OK;
}

static weft_tensor *loss_of(const char *name, elements_fn *elements, weft_tensor *a, weft_tensor *b,
                            weft_loss_options o)
{
    weft_scope *scope;
    weft_tensor *loss;
    weft_dtype dtype;

    if (!a || !b) return NULL;
    WF_TRY_PTR(check_loss(name, a, b, &o));
    dtype = weft_tensor_dtype(a);
    scope = weft_scope_open();
    o.weight = widened(o.weight);
    o.pos_weight = widened(o.pos_weight);
    loss = reduced(elements(widened(a), widened(b), &o), o.reduction);
    if (loss && weft_tensor_dtype(loss) != dtype) loss = weft_cast(loss, dtype);
    return weft_scope_return(scope, loss);
}

weft_tensor *weft_mse_with(weft_tensor *a, weft_tensor *b, weft_loss_options o)
{
    return loss_of("mse", squared_error, a, b, o);
}

weft_tensor *weft_l1_loss(weft_tensor *a, weft_tensor *b, weft_loss_options o)
{
    return loss_of("l1_loss", absolute_error, a, b, o);
}

weft_tensor *weft_smooth_l1_loss(weft_tensor *a, weft_tensor *b, weft_loss_options o)
{
    return loss_of("smooth_l1_loss", smooth_l1, a, b, o);
}

weft_tensor *weft_huber_loss(weft_tensor *a, weft_tensor *b, weft_loss_options o)
{
    return loss_of("huber_loss", huber_error, a, b, o);
}

weft_tensor *weft_kl_div(weft_tensor *log_p, weft_tensor *q, weft_loss_options o)
{
    return loss_of("kl_div", divergence, log_p, q, o);
}

/* A target that broadcasts would count its elements several times, which nobody means. */
static weft_status check_target_shape(const char *name, const weft_tensor *x,
                                      const weft_tensor *target)
{
    char text[2][200];

    WF_TRY(wf_tensor_need_alive(x, name));
    WF_TRY(wf_tensor_need_alive(target, name));
    if (weft_ndim(x) == weft_ndim(target) &&
        memcmp(x->layout->desc.global, target->layout->desc.global,
               (size_t)weft_ndim(x) * sizeof(int64_t)) == 0)
        return WEFT_OK;
    weft_tensor_format(x, text[0], sizeof text[0]);
    weft_tensor_format(target, text[1], sizeof text[1]);
    return WF_FAIL(WEFT_ERR_SHAPE, "%s: needs a target of the same shape: %s, %s", name, text[0],
                   text[1]);
}

weft_tensor *weft_binary_cross_entropy(weft_tensor *p, weft_tensor *target, weft_loss_options o)
{
    const char *name = "binary_cross_entropy";

    if (!p || !target) return NULL;
    WF_TRY_PTR(check_target_shape(name, p, target));
    return loss_of(name, binary_cross_entropy, p, target, o);
}

weft_tensor *weft_binary_cross_entropy_with_logits(weft_tensor *z, weft_tensor *target,
                                                   weft_loss_options o)
{
    const char *name = "binary_cross_entropy_with_logits";

    if (!z || !target) return NULL;
    WF_TRY_PTR(check_target_shape(name, z, target));
    return loss_of(name, binary_cross_entropy_with_logits, z, target, o);
}
