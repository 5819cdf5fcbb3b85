/*
 * pointwise.h: operations on each element of one or two tensors, plain or distributed.
 *
 * Names and values are torch's (docs/torch-ops.md), unless said here. Operands broadcast as NumPy
 * does. Operands of several dtypes are cast to one, which is torch's: the higher of the kinds bool,
 * integer and float, where tensors without dims only count when their kind is higher; functions of
 * floats take integers as f32. Numbers beside a tensor are rounded to its computing type (f32 for
 * bf16 and f16), and are never part of a cache key; one that is not whole makes f32 of integers,
 * any makes i64 of bool. What is not a number stays so. Functions (exp, sin, erf, lgamma, ...) are
 * within 2 units of the last place of f32 and 4 of f64, what is made of several within more where
 * vmath.h says so; the result of an element never depends on where it is stored.
 *
 * Every function here: all inputs on one mesh (or all plain; plain one-element tensors mix with
 * anything); NULL in gives NULL out; the result belongs to the open scope, with the inputs' layout
 * where they agree. What is linear in a partial sum (neg, mul_scalar, add of two, mul and div by
 * what is not partial) leaves it one; maxima and minima pass what rises everywhere (exp, relu,
 * floor, clamp, ...) and weft_maximum or weft_minimum; all others reduce them first. Unless said
 * otherwise:
 *
 * ranks: every rank of the inputs' mesh (an input may have to be redistributed)
 * fails: WEFT_ERR_SHAPE when shapes do not broadcast, WEFT_ERR_DTYPE for dtypes that have no such
 *        function, WEFT_ERR_LAYOUT for a mixture of plain and distributed
 * grad:  to every floating-point input
 */
#pragma once

#include <weft/tensor.h>

/* ---- two inputs; of bool a sum is "or", a product "and", and there is no difference ---- */
WEFT_API weft_tensor *weft_add(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_sub(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_mul(weft_tensor *a, weft_tensor *b);
/** Of integers it is f32. */
WEFT_API weft_tensor *weft_div(weft_tensor *a, weft_tensor *b);
/** The quotient cut towards 0, and the largest whole number below it, as Python's `//`. Integers
 *  stay integers: by 0 it is 0 on every element (PyTorch ends with an error; floats: inf), and the
 *  smallest number by -1 is itself, as integers wrap.
 *  grad:  0 */
WEFT_API weft_tensor *weft_trunc_divide(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_floor_divide(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_pow(weft_tensor *a, weft_tensor *b);
/** What is left of a when whole multiples of b are taken off, with the sign of a / of b. Of
 * integers by 0 it is 0. */
WEFT_API weft_tensor *weft_fmod(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_remainder(weft_tensor *a, weft_tensor *b);
/** Where equal, the gradient is shared half and half. */
WEFT_API weft_tensor *weft_maximum(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_minimum(weft_tensor *a, weft_tensor *b);
/** The other operand where one is not a number. Where equal, the gradient is shared half and half.
 */
WEFT_API weft_tensor *weft_fmax(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_fmin(weft_tensor *a, weft_tensor *b);
/** |a| with the sign of b, of -0 too. Floats. grad: of b 0 */
WEFT_API weft_tensor *weft_copysign(weft_tensor *a, weft_tensor *b);
/** The angle of the point (b, a), -pi .. pi. Floats. */
WEFT_API weft_tensor *weft_atan2(weft_tensor *a, weft_tensor *b);
/** sqrt(a^2 + b^2). Floats. */
WEFT_API weft_tensor *weft_hypot(weft_tensor *a, weft_tensor *b);
/** a log b, 0 where a is 0. Floats. */
WEFT_API weft_tensor *weft_xlogy(weft_tensor *a, weft_tensor *b);
/** a log(1 + b), 0 where a is 0. Floats. */
WEFT_API weft_tensor *weft_xlog1py(weft_tensor *a, weft_tensor *b);
/** x, below 0 weight x. The weight broadcasts: one per channel has its dim of x, and 1 for those
 * behind. Floats. */
WEFT_API weft_tensor *weft_prelu(weft_tensor *x, weft_tensor *weight);
/** log(e^a + e^b), without overflow. Floats. */
WEFT_API weft_tensor *weft_logaddexp(weft_tensor *a, weft_tensor *b);

/** Whether |a - b| <= atol + rtol |b|, of infinities whether they are equal; two that are not
 * numbers are close if equal_nan. bool, without gradient. */
WEFT_API weft_tensor *weft_isclose(weft_tensor *a, weft_tensor *b, double rtol, double atol,
                                   bool equal_nan);

/* ---- three inputs ---- */
/** a + weight (b - a), weight a tensor or a number. Floats. */
WEFT_API weft_tensor *weft_lerp(weft_tensor *a, weft_tensor *b, weft_tensor *weight);
WEFT_API weft_tensor *weft_lerp_scalar(weft_tensor *a, weft_tensor *b, double weight);
/** a + s b c / a + s b / c. The second of floats. */
WEFT_API weft_tensor *weft_addcmul(weft_tensor *a, weft_tensor *b, weft_tensor *c, double s);
WEFT_API weft_tensor *weft_addcdiv(weft_tensor *a, weft_tensor *b, weft_tensor *c, double s);
/** No less than `low`, no more than `high`, and where low > high it is high; for one bound
 *  weft_maximum or weft_minimum.
 *  grad:  to what is the result */
WEFT_API weft_tensor *weft_clamp_tensor(weft_tensor *x, weft_tensor *low, weft_tensor *high);

/** Bits of integers; of bool their truth. grad: none */
WEFT_API weft_tensor *weft_bitwise_and(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_bitwise_or(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_bitwise_xor(weft_tensor *a, weft_tensor *b);
/** Every bit turned; of bool the other truth. */
WEFT_API weft_tensor *weft_bitwise_not(weft_tensor *x);
/** By b bits; b < 0, or not less than the element's bits, moves all out: 0, or to the right of a
 * negative number -1. */
WEFT_API weft_tensor *weft_bitwise_left_shift(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_bitwise_right_shift(weft_tensor *a, weft_tensor *b);

/** Comparisons, of all dtypes, give bool tensors without gradient. */
WEFT_API weft_tensor *weft_eq(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_ne(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_lt(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_le(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_gt(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_ge(weft_tensor *a, weft_tensor *b);
/** An element is true when it is not 0. */
WEFT_API weft_tensor *weft_logical_and(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_logical_or(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_logical_xor(weft_tensor *a, weft_tensor *b);

/* ---- one input, whose elements are tested: bool tensors without gradient, of all dtypes ---- */
WEFT_API weft_tensor *weft_logical_not(weft_tensor *x);
WEFT_API weft_tensor *weft_isnan(weft_tensor *x);
WEFT_API weft_tensor *weft_isinf(weft_tensor *x);
WEFT_API weft_tensor *weft_isfinite(weft_tensor *x);

/* ---- one input and numbers ---- */
WEFT_API weft_tensor *weft_add_scalar(weft_tensor *x, double s);
WEFT_API weft_tensor *weft_sub_scalar(weft_tensor *x, double s);
/** s - x */
WEFT_API weft_tensor *weft_rsub_scalar(weft_tensor *x, double s);
WEFT_API weft_tensor *weft_mul_scalar(weft_tensor *x, double s);
WEFT_API weft_tensor *weft_div_scalar(weft_tensor *x, double s);
/** fails: WEFT_ERR_ARG for integers to the power of a negative whole number */
WEFT_API weft_tensor *weft_pow_scalar(weft_tensor *x, double s);
/** s / x */
WEFT_API weft_tensor *weft_rdiv_scalar(weft_tensor *x, double s);
/** No less than `low` / no more than `high` / both, and where low > high it is high.
 *  grad:  0 where x was not strictly within, as in torch */
WEFT_API weft_tensor *weft_clamp_min(weft_tensor *x, double low);
WEFT_API weft_tensor *weft_clamp_max(weft_tensor *x, double high);
WEFT_API weft_tensor *weft_clamp(weft_tensor *x, double low, double high);
/** Other numbers for NaN, infinity and -infinity; of integers a copy. grad: 0 where one was put in
 */
WEFT_API weft_tensor *weft_nan_to_num(weft_tensor *x, double nan, double infinity,
                                      double minus_infinity);
/** x where it is more than `threshold`, else `value`. */
WEFT_API weft_tensor *weft_threshold(weft_tensor *x, double threshold, double value);
/** weft_clamp by another name / between 0 and 6 */
WEFT_API weft_tensor *weft_hardtanh(weft_tensor *x, double low, double high);
WEFT_API weft_tensor *weft_relu6(weft_tensor *x);
/** 0 between -s and s, else x nearer to 0 by s / else x. s >= 0 */
WEFT_API weft_tensor *weft_softshrink(weft_tensor *x, double s);
WEFT_API weft_tensor *weft_hardshrink(weft_tensor *x, double s);
/** log(x / (1 - x)), of x between eps and 1 - eps; eps < 0: no bounds */
WEFT_API weft_tensor *weft_logit(weft_tensor *x, double eps);
/** x, below 0 `slope` x */
WEFT_API weft_tensor *weft_leaky_relu(weft_tensor *x, double slope);
/** x, below 0 alpha (e^x - 1) */
WEFT_API weft_tensor *weft_elu(weft_tensor *x, double alpha);
/** x, below 0 alpha (e^(x / alpha) - 1) (Barron, 2017) */
WEFT_API weft_tensor *weft_celu(weft_tensor *x, double alpha);
/** log(1 + e^(beta x)) / beta, exact for all x (torch takes x itself beyond a threshold) */
WEFT_API weft_tensor *weft_softplus(weft_tensor *x, double beta);

/* ---- one input; floats unless said otherwise ---- */
/** Integers too; abs and sign as well. */
WEFT_API weft_tensor *weft_neg(weft_tensor *x);
WEFT_API weft_tensor *weft_square(weft_tensor *x);
WEFT_API weft_tensor *weft_relu(weft_tensor *x);
/** grad: 0 at 0 */
WEFT_API weft_tensor *weft_abs(weft_tensor *x);
/** -1, 0 or 1; of what is not a number 0. grad: 0 */
WEFT_API weft_tensor *weft_sign(weft_tensor *x);
/** To a whole number: up, down, to the nearest (ties to even), towards 0; integers stay. grad: 0 */
WEFT_API weft_tensor *weft_ceil(weft_tensor *x);
WEFT_API weft_tensor *weft_floor(weft_tensor *x);
WEFT_API weft_tensor *weft_round(weft_tensor *x);
WEFT_API weft_tensor *weft_trunc(weft_tensor *x);
/** x - trunc(x) */
WEFT_API weft_tensor *weft_frac(weft_tensor *x);

WEFT_API weft_tensor *weft_exp(weft_tensor *x);
WEFT_API weft_tensor *weft_exp2(weft_tensor *x);
/** e^x - 1 / log(1 + x), without loss near 0 */
WEFT_API weft_tensor *weft_expm1(weft_tensor *x);
WEFT_API weft_tensor *weft_log1p(weft_tensor *x);
WEFT_API weft_tensor *weft_log(weft_tensor *x);
WEFT_API weft_tensor *weft_log2(weft_tensor *x);
WEFT_API weft_tensor *weft_log10(weft_tensor *x);
WEFT_API weft_tensor *weft_sqrt(weft_tensor *x);
/** 1 / sqrt(x) / 1 / x */
WEFT_API weft_tensor *weft_rsqrt(weft_tensor *x);
WEFT_API weft_tensor *weft_reciprocal(weft_tensor *x);

WEFT_API weft_tensor *weft_sin(weft_tensor *x);
WEFT_API weft_tensor *weft_cos(weft_tensor *x);
WEFT_API weft_tensor *weft_tan(weft_tensor *x);
WEFT_API weft_tensor *weft_asin(weft_tensor *x);
WEFT_API weft_tensor *weft_acos(weft_tensor *x);
WEFT_API weft_tensor *weft_atan(weft_tensor *x);
WEFT_API weft_tensor *weft_sinh(weft_tensor *x);
WEFT_API weft_tensor *weft_cosh(weft_tensor *x);
WEFT_API weft_tensor *weft_tanh(weft_tensor *x);
WEFT_API weft_tensor *weft_asinh(weft_tensor *x);
WEFT_API weft_tensor *weft_acosh(weft_tensor *x);
WEFT_API weft_tensor *weft_atanh(weft_tensor *x);
/** The error function / 1 less it */
WEFT_API weft_tensor *weft_erf(weft_tensor *x);
WEFT_API weft_tensor *weft_erfc(weft_tensor *x);

/** The inverse of erf / log |gamma(x)| / its derivative. Near lgamma's roots below 0 and digamma's
 *  roots their absolute error is as small as beside them, not the relative one.
 *  grad:  of digamma by trigamma */
WEFT_API weft_tensor *weft_erfinv(weft_tensor *x);
WEFT_API weft_tensor *weft_lgamma(weft_tensor *x);
WEFT_API weft_tensor *weft_digamma(weft_tensor *x);
/** sin(pi x) / (pi x) */
WEFT_API weft_tensor *weft_sinc(weft_tensor *x);

WEFT_API weft_tensor *weft_sigmoid(weft_tensor *x);
WEFT_API weft_tensor *weft_log_sigmoid(weft_tensor *x);
WEFT_API weft_tensor *weft_silu(weft_tensor *x);
/** x Phi(x) with the error function / its tanh form (Hendrycks and Gimpel, 2016). */
WEFT_API weft_tensor *weft_gelu(weft_tensor *x);
WEFT_API weft_tensor *weft_gelu_tanh(weft_tensor *x);
/** x tanh(log(1 + e^x)) (Misra, 2019) */
WEFT_API weft_tensor *weft_mish(weft_tensor *x);
/** Klambauer et al., 2017. */
WEFT_API weft_tensor *weft_selu(weft_tensor *x);
/** x - tanh(x) */
WEFT_API weft_tensor *weft_tanhshrink(weft_tensor *x);
/** The first half of a dim times the sigmoid of the second (Dauphin et al., 2017). */
WEFT_API weft_tensor *weft_glu(weft_tensor *x, int dim);
/** x / (1 + |x|) */
WEFT_API weft_tensor *weft_softsign(weft_tensor *x);
/** (x + 3) / 6 between 0 and 1 / x times that (Howard et al., 2019) */
WEFT_API weft_tensor *weft_hardsigmoid(weft_tensor *x);
WEFT_API weft_tensor *weft_hardswish(weft_tensor *x);

/* ---- chosen, converted ---- */

/** a where the bool tensor `condition` is true, else b, a tensor or a number; all broadcast. */
WEFT_API weft_tensor *weft_where(weft_tensor *condition, weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_where_scalar(weft_tensor *condition, weft_tensor *a, double b);
/** `value` where the bool tensor `mask` is true, else x. */
WEFT_API weft_tensor *weft_masked_fill(weft_tensor *x, weft_tensor *mask, double value);

/** Another dtype; float to integer truncates, beyond the range to the nearest integer (u8: modulo
 *  256), NaN to 0.
 *  grad:  cast back, between floats only */
WEFT_API weft_tensor *weft_cast(weft_tensor *x, weft_dtype dtype);
