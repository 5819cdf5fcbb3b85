/* log_sum_exp.h: attention's second result, the logarithm of each query's sum of exponentials. */
#pragma once

#include "autograd/tape.h"
#include "ops/dispatch_op.h"

/**
 * The gradients dq, dk, dv (and of the bias in grads[3]) of attention of which the log-sum-exp has
 * a gradient too. operands: those of attention_grad; the first may be NULL, which is 0.
 */
void wf_attention_gradients_with_lse(weft_tensor *const *operands, int n, weft_tensor *lse_grad,
                                     const struct wf_op_args *args, weft_tensor **grads);
