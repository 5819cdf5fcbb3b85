/*
 * in_place.h: operations that write over a tensor: NAME_ is NAME of pointwise.h with the result in
 * the first tensor.
 *
 * Every function here but weft_zero_: the target may be a view with any strides, and an operand
 * another view of the same storage, which counts as it was before. It keeps shape, dtype and
 * layout: other operands are brought to what that takes (added to a shard, a partial sum is
 * reduce-scattered), and a result of another float or integer type is cast. None is recorded; a
 * backward that saved the old elements is refused. For results of any function in a tensor that
 * there is, torch's `out=`: weft_copy_(out, result).
 *
 * ranks: every rank of the tensors' mesh
 * fails: WEFT_ERR_STATE when an operand requires a gradient, unless gradients are off
 *        (weft_no_grad_open), when the target is the result of a recorded op, or several of its
 *        elements lie at one place (weft_expand); WEFT_ERR_SHAPE when the result would not have
 *        the target's shape; WEFT_ERR_DTYPE when its dtype does not hold the result (a float in
 *        integers); WEFT_ERR_LAYOUT when the op gives no result in the target's layout (the square
 *        of a partial sum is none)
 * grad:  none
 * gives: the target; NULL for NULL
 */
#pragma once

#include <weft/tensor.h>

WEFT_API weft_tensor *weft_add_(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_sub_(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_mul_(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_div_(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_add_scalar_(weft_tensor *x, double s);
WEFT_API weft_tensor *weft_sub_scalar_(weft_tensor *x, double s);
WEFT_API weft_tensor *weft_mul_scalar_(weft_tensor *x, double s);
WEFT_API weft_tensor *weft_div_scalar_(weft_tensor *x, double s);
WEFT_API weft_tensor *weft_pow_scalar_(weft_tensor *x, double s);
WEFT_API weft_tensor *weft_clamp_min_(weft_tensor *x, double low);
WEFT_API weft_tensor *weft_clamp_max_(weft_tensor *x, double high);
WEFT_API weft_tensor *weft_clamp_(weft_tensor *x, double low, double high);

WEFT_API weft_tensor *weft_lerp_(weft_tensor *a, weft_tensor *b, weft_tensor *weight);
WEFT_API weft_tensor *weft_lerp_scalar_(weft_tensor *a, weft_tensor *b, double weight);
WEFT_API weft_tensor *weft_addcmul_(weft_tensor *a, weft_tensor *b, weft_tensor *c, double s);
WEFT_API weft_tensor *weft_addcdiv_(weft_tensor *a, weft_tensor *b, weft_tensor *c, double s);

WEFT_API weft_tensor *weft_masked_fill_(weft_tensor *x, weft_tensor *mask, double value);
/** 0 in every element; other numbers: weft_fill_. */
WEFT_API weft_status weft_zero_(weft_tensor *t);

WEFT_API weft_tensor *weft_neg_(weft_tensor *x);
WEFT_API weft_tensor *weft_abs_(weft_tensor *x);
WEFT_API weft_tensor *weft_exp_(weft_tensor *x);
WEFT_API weft_tensor *weft_log_(weft_tensor *x);
WEFT_API weft_tensor *weft_sqrt_(weft_tensor *x);
WEFT_API weft_tensor *weft_rsqrt_(weft_tensor *x);
WEFT_API weft_tensor *weft_reciprocal_(weft_tensor *x);
WEFT_API weft_tensor *weft_square_(weft_tensor *x);
WEFT_API weft_tensor *weft_floor_(weft_tensor *x);
WEFT_API weft_tensor *weft_ceil_(weft_tensor *x);
WEFT_API weft_tensor *weft_round_(weft_tensor *x);
WEFT_API weft_tensor *weft_trunc_(weft_tensor *x);
WEFT_API weft_tensor *weft_sigmoid_(weft_tensor *x);
WEFT_API weft_tensor *weft_tanh_(weft_tensor *x);
WEFT_API weft_tensor *weft_relu_(weft_tensor *x);
