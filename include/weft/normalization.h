/*
 * normalization.h: softmax, and norms over the last dim.
 *
 * What weft/ops.h says of every op holds here.
 * ranks: every rank of the inputs' mesh, unless said otherwise
 */
#pragma once

#include <weft/tensor.h>

/** exp(x) over its sum along a dim, and the logarithm of that; a dim that is split is gathered. */
WEFT_API weft_tensor *weft_softmax(weft_tensor *x, int dim);
WEFT_API weft_tensor *weft_log_softmax(weft_tensor *x, int dim);

/* ---- normalisation over the last dim; weight and bias may be NULL ---- */
WEFT_API weft_tensor *weft_layer_norm(weft_tensor *x, weft_tensor *weight, weft_tensor *bias,
                                      double eps);
WEFT_API weft_tensor *weft_rms_norm(weft_tensor *x, weft_tensor *weight, double eps);
