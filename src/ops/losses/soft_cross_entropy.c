/*
 * soft_cross_entropy.c: cross-entropy with a distribution over the classes as each token's target
 * (distillation, mixed samples), written with ordinary ops: they give the gradients, the targets'
 * too, and the layouts.
 *
 *   loss = W log s - p + zeta (m + log s)^2,   s = sum_j e^(z_j - m), p = sum_j w_j q_j (z_j - m),
 *                                              W = sum_j w_j q_j
 *
 * Over sharded classes the sums of a token travel together: 12 bytes, or 8 with whole targets. It
 * keeps several tensors as large as the logits, where cross_entropy.c keeps none.
 */
#include "ops/losses/cross_entropy.h"

#include <string.h>

#include "base/error.h"
#include "ops/op_functions.h"

static weft_status check_soft_targets(const weft_tensor *z, const weft_tensor *target,
                                      const weft_cross_entropy_options *o)
{
    const struct wf_tensor_desc *a = &z->layout->desc, *b = &target->layout->desc;

    if (a->ndim != b->ndim || a->ndim < 1 || !weft_dtype_is_float((weft_dtype)a->dtype) ||
        memcmp(a->global, b->global, (size_t)a->ndim * sizeof a->global[0]) != 0)
        return wf_cross_entropy_shape_error("probabilities are [*,V] as the logits are", z, target);
    WF_NEED(o->ignore_index < 0, WEFT_ERR_ARG,
            "cross_entropy: a target of probabilities has no index %lld to be ignored",
            (long long)o->ignore_index);
    if (o->weight &&
        (weft_ndim(o->weight) != 1 || weft_size(o->weight, 0) != a->global[a->ndim - 1]))
        return wf_cross_entropy_shape_error("class weights are [V], one per class", z, o->weight);
    return WEFT_OK;
}

/* What a token's classes weigh: w_j ((1 - eps) p_j + eps / V). */
static weft_tensor *smoothed_class_weights(weft_tensor *p, weft_tensor *weight, double smoothing)
{
    double classes = p ? (double)weft_size(p, weft_ndim(p) - 1) : 1;

    if (smoothing != 0) p = weft_add_scalar(weft_mul_scalar(p, 1 - smoothing), smoothing / classes);
    return weight ? weft_mul(p, weight) : p;
}

static weft_tensor *sum_over_classes(weft_tensor *t)
{
    int last = -1;

    return weft_sum(t, &last, 1, false);
}

/* Reduce `n` tensors of one shape together. */
static void reduce_stacked(weft_tensor **t, int n)
{
    int64_t shape[WEFT_MAX_DIMS] = {1};
    weft_tensor *rows[3], *all;
    int ndim = t[0] ? weft_ndim(t[0]) : 0;

    for (int d = 0; d < ndim; d++) shape[d + 1] = weft_size(t[0], d);
    for (int i = 0; i < n; i++) rows[i] = wf_reshape_to(t[i], shape, ndim + 1, NULL);
    all = wf_reduce_if_partial(weft_cat(rows, n, 0));
    for (int i = 0; i < n; i++) t[i] = weft_select(all, 0, i);
}

static weft_tensor *cast_if_needed(weft_tensor *t, weft_dtype dtype)
{
    return t && weft_tensor_dtype(t) != dtype ? weft_cast(t, dtype) : t;
}

static weft_tensor *max_over_classes(weft_tensor *z)
{
    weft_tensor *most;
    int last = -1;

    weft_no_grad_open();
    most = wf_reduce_if_partial(weft_amax(z, &last, 1, true));
    weft_no_grad_close();
    return most;
}

weft_tensor *wf_soft_cross_entropy(weft_tensor *z, weft_tensor *probabilities, weft_tensor *weight,
                                   const weft_cross_entropy_options *o)
{
    weft_dtype dtype = weft_tensor_dtype(z) == WEFT_F64 ? WEFT_F64 : WEFT_F32;
    enum { EXPONENTIALS, PICKED, TOGETHER };
    weft_tensor *q, *m, *x, *sums[3], *log_s, *loss, *lse;

    WF_TRY_PTR(check_soft_targets(z, probabilities, o));
    q = smoothed_class_weights(cast_if_needed(probabilities, dtype), cast_if_needed(weight, dtype),
                               o->smoothing);
    m = cast_if_needed(max_over_classes(z), dtype);
    x = weft_sub(cast_if_needed(z, dtype), m);
    sums[EXPONENTIALS] = sum_over_classes(weft_exp(x));
    sums[PICKED] = sum_over_classes(weft_mul(q, x));
    sums[TOGETHER] = sum_over_classes(q);
    if (!sums[EXPONENTIALS] || !sums[PICKED] || !sums[TOGETHER]) return NULL;
    if (sums[EXPONENTIALS]->layout->partial)
        reduce_stacked(sums, sums[TOGETHER]->layout->partial ? 3 : 2);
    log_s = weft_log(sums[EXPONENTIALS]);
    loss = weft_sub(weft_mul(sums[TOGETHER], log_s), sums[PICKED]);
    if (o->z_loss != 0) {
        lse = weft_add(sum_over_classes(m), log_s); /* m has one class */
        loss = weft_add(loss, weft_mul_scalar(weft_square(lse), o->z_loss));
    }
    if (!loss || o->reduction == WEFT_LOSS_NONE) return loss;
    if (o->reduction == WEFT_LOSS_SUM) return weft_sum_all(loss);
    return wf_reduce_if_partial(weft_mul_scalar(weft_sum_all(loss), 1 / (double)weft_numel(loss)));
}
