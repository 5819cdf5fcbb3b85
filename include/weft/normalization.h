/*
 * normalization.h: softmax, and norms over the last dim, over batches and
 * groups of channels.
 *
 * What weft/ops.h says of every op holds here.
 * ranks: every rank of the inputs' mesh, unless said otherwise
 */
#pragma once

#include <weft/tensor.h>

/**
 * exp(x) over its sum along a dim, and the logarithm of that.
 *
 * ranks: every rank of x's mesh. A dim that is sharded stays so: two all-reduces of one number per
 *        row, and one for the gradient
 */
WEFT_API weft_tensor *weft_softmax(weft_tensor *x, int dim);
WEFT_API weft_tensor *weft_log_softmax(weft_tensor *x, int dim);

/**
 * The logarithm of the sum of exponentials along dims, all of them where n is 0.
 *
 * ranks: every rank of x's mesh; over dims that are sharded two all-reduces of one number per
 *        result, which is on every rank. Nothing is sent for the gradient
 */
WEFT_API weft_tensor *weft_logsumexp(weft_tensor *x, const int *dims, int n, bool keep);

/* ---- normalisation over the last dim; weight and bias may be NULL. Where the dim is sharded it
 * stays so, and each row's statistics are all-reduced. ---- */
WEFT_API weft_tensor *weft_layer_norm(weft_tensor *x, weft_tensor *weight, weft_tensor *bias,
                                      double eps);
WEFT_API weft_tensor *weft_rms_norm(weft_tensor *x, weft_tensor *weight, double eps);

/* ---- normalisation of a batch [N,C,*]; weight and bias are NULL or [C] ---- */

/** What weft_batch_norm does beside normalising. */
typedef struct weft_batch_norm_options {
    bool training; /* statistics of this batch, instead of the running ones */
    weft_tensor *running_mean, *running_var; /* [C]; written where it trains; NULL then: none */
    double momentum;                         /* of what is new in them; 0: 0.1 */
} weft_batch_norm_options;

/**
 * Each channel less its mean over its standard deviation, times weight plus bias. The mean and the
 * variance are those of the whole batch, however it is sharded; running variances are unbiased.
 *
 * ranks: every rank of x's mesh; two all-reduces of one number per channel where it trains on a
 *        batch that is sharded
 * grad:  to x, weight and bias
 * fails: WEFT_ERR_ARG for no running statistics outside training, WEFT_ERR_SHAPE for a single value
 *        per channel in it
 */
WEFT_API weft_tensor *weft_batch_norm(weft_tensor *x, weft_tensor *weight, weft_tensor *bias,
                                      double eps, weft_batch_norm_options options);

/**
 * Each of `groups` equal groups of an item's channels less its mean over its standard deviation,
 * times weight plus bias.
 *
 * fails: WEFT_ERR_ARG where the groups do not divide the channels
 */
WEFT_API weft_tensor *weft_group_norm(weft_tensor *x, int64_t groups, weft_tensor *weight,
                                      weft_tensor *bias, double eps);
