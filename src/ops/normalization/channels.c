/*
 * channels.c: norms of what has channels in dim 1: batch norm (Ioffe and Szegedy 2015) and group
 * norm (Wu and He 2018).
 *
 * Batch norm's statistics are those of the whole batch, in whatever way it is sharded: two
 * all-reduces of one number per channel. Gradients are those of the ops that the norms are made of.
 */
#include <weft/ops.h>

#include "base/error.h"
#include "ops/op_functions.h"

weft_tensor *wf_normalize_dims(weft_tensor *x, int64_t mask, double eps, weft_tensor **mean,
                               weft_tensor **variance)
{
    weft_tensor *about, *var;

    if (!x) return NULL;
    about = wf_reduce_if_partial(wf_mean_mask(x, mask, true, false));
    /* the sum of squares changes with the elements alone: about the mean it is the smallest */
    var = about ? wf_reduce_if_partial(wf_variance_about(x, weft_detach(about), mask, 0, true))
                : NULL;
    if (!var) return NULL;
    if (mean) *mean = weft_detach(about);
    if (variance) *variance = weft_detach(var);
    return weft_mul(weft_sub(x, about), weft_rsqrt(weft_add_scalar(var, eps)));
}

/* t [C] as [1,C,1,...], which broadcasts against x. */
static weft_tensor *along_channels(weft_tensor *t, const weft_tensor *x, weft_dtype dtype)
{
    int64_t shape[WEFT_MAX_DIMS];

    for (int d = 0; d < weft_ndim(x); d++) shape[d] = d == 1 ? weft_size(x, 1) : 1;
    return weft_cast(wf_reshape_to(t, shape, weft_ndim(x), NULL), dtype);
}

/* y, which has been normalized, times weight plus bias, in x's dtype. */
static weft_tensor *scale_channels(weft_tensor *y, weft_tensor *weight, weft_tensor *bias,
                                   const weft_tensor *x)
{
    if (y && weight) y = weft_mul(y, along_channels(weight, x, weft_tensor_dtype(y)));
    if (y && bias) y = weft_add(y, along_channels(bias, x, weft_tensor_dtype(y)));
    return y ? weft_cast(y, weft_tensor_dtype(x)) : NULL;
}

static weft_status check_channels(const char *who, const weft_tensor *x, const weft_tensor *t,
                                  const char *what)
{
    WF_NEED(!t || (weft_ndim(t) == 1 && weft_size(t, 0) == weft_size(x, 1)), WEFT_ERR_SHAPE,
            "%s: %s must have one element for each of %lld channels", who, what,
            (long long)weft_size(x, 1));
    return WEFT_OK;
}

static weft_status check_arguments(const char *who, const weft_tensor *x, const weft_tensor *weight,
                                   const weft_tensor *bias)
{
    WF_TRY(wf_tensor_need_alive(x, who));
    WF_TRY(wf_need_float(x, who));
    WF_NEED(weft_ndim(x) >= 2, WEFT_ERR_SHAPE, "%s: needs a batch [N,C,*], not %d dims", who,
            weft_ndim(x));
    WF_TRY(check_channels(who, x, weight, "the weight"));
    return check_channels(who, x, bias, "the bias");
}

/* ---- batch norm ---- */

/* running += momentum (seen - running); seen [1,C,1,...]. */
static weft_status update_running(weft_tensor *running, weft_tensor *seen, double momentum,
                                  double scale)
{
    weft_tensor *value;

    if (!running) return WEFT_OK;
    value = weft_cast(wf_reshape_to(seen, &running->layout->desc.global[0], 1, NULL),
                      weft_tensor_dtype(running));
    value =
        weft_add(weft_mul_scalar(running, 1 - momentum), weft_mul_scalar(value, scale * momentum));
    if (value && !wf_is_plain(running)) {
        value = weft_redistribute(value, running->layout->placements);
    } else if (value && !wf_is_plain(value)) { /* replicated: every rank has the same of it */
        value = weft_to_local(value, NULL);
    }
    return value ? weft_copy_(running, wf_without_grad_types(value)) : weft_error_status();
}

/* Statistics of this batch; they also go into the running ones. */
static weft_tensor *batch_norm_of_batch(weft_tensor *x, const weft_batch_norm_options *o,
                                        double eps)
{
    int64_t mask = (((int64_t)1 << weft_ndim(x)) - 1) & ~(int64_t)2;
    double count = (double)wf_count_in_dims(x, mask);
    weft_tensor *mean, *variance, *y;
    weft_status status;

    WF_NEED_PTR(count > 1, WEFT_ERR_SHAPE,
                "batch_norm: more than one value per channel is needed to train");
    y = wf_normalize_dims(x, mask, eps, &mean, &variance);
    if (!y) return NULL;
    weft_no_grad_open();
    status = update_running(o->running_mean, mean, o->momentum, 1);
    if (status == WEFT_OK)
        status = update_running(o->running_var, variance, o->momentum, count / (count - 1));
    weft_no_grad_close();
    return status == WEFT_OK ? y : NULL;
}

static weft_tensor *batch_norm_of_running(weft_tensor *x, const weft_batch_norm_options *o,
                                          double eps)
{
    weft_dtype dtype = weft_tensor_dtype(x);
    weft_tensor *mean = along_channels(weft_detach(o->running_mean), x, dtype);
    weft_tensor *var = along_channels(weft_detach(o->running_var), x, dtype);

    return weft_mul(weft_sub(x, mean), weft_rsqrt(weft_add_scalar(var, eps)));
}

weft_tensor *weft_batch_norm(weft_tensor *x, weft_tensor *weight, weft_tensor *bias, double eps,
                             weft_batch_norm_options options)
{
    weft_tensor *y;

    if (!x) return NULL;
    WF_TRY_PTR(check_arguments("batch_norm", x, weight, bias));
    WF_TRY_PTR(check_channels("batch_norm", x, options.running_mean, "the running mean"));
    WF_TRY_PTR(check_channels("batch_norm", x, options.running_var, "the running variance"));
    WF_NEED_PTR(options.training || (options.running_mean && options.running_var), WEFT_ERR_ARG,
                "batch_norm: running statistics are needed unless it trains");
    if (options.momentum == 0) options.momentum = 0.1;
    y = weft_cast(wf_reduce_partial_operand("batch_norm", x), wf_computing_dtype(x));
    if (!y) return NULL;
    y = options.training ? batch_norm_of_batch(y, &options, eps)
                         : batch_norm_of_running(y, &options, eps);
    return scale_channels(y, weight, bias, x);
}

/* ---- group norm: the rows of a group's channels are those of a layer norm ---- */

weft_tensor *weft_group_norm(weft_tensor *x, int64_t groups, weft_tensor *weight, weft_tensor *bias,
                             double eps)
{
    int64_t shape[3], each = 1;
    weft_tensor *y;

    if (!x) return NULL;
    WF_TRY_PTR(check_arguments("group_norm", x, weight, bias));
    WF_NEED_PTR(groups > 0 && weft_size(x, 1) % groups == 0, WEFT_ERR_ARG,
                "group_norm: %lld channels are no %lld equal groups", (long long)weft_size(x, 1),
                (long long)groups);
    for (int d = 2; d < weft_ndim(x); d++) each *= weft_size(x, d);
    shape[0] = weft_size(x, 0);
    shape[1] = groups;
    shape[2] = weft_size(x, 1) / groups * each;
    y = weft_layer_norm(wf_reshape_to(x, shape, 3, NULL), NULL, NULL, eps);
    y = wf_reshape_to(y, x->layout->desc.global, weft_ndim(x), NULL);
    return scale_channels(y, weight, bias, x);
}
