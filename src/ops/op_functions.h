/* op_functions.h: the functions that rows of ops.def name, and those that families share. */
#pragma once

#include "ops/op_table.h"

/* Shapes and gradients, of the rows. A row without gradient names a function that does not exist.
 */
#define wf_NULL wf_no_gradient
#define WF_OP(name, attrs, in, req, outs, rule, linear, reduce, shape_, kernel, saves, gradient)   \
    wf_shape_fn wf_##shape_;                                                                       \
    wf_vjp wf_##gradient;
#define WF_VIEW(name, attrs, rule, linear, shape_, view, planner, gradient) wf_vjp wf_##gradient;
#include "ops/ops.def"
#undef WF_OP
#undef WF_VIEW
#undef wf_NULL

/* Shapes and strides of views */
wf_shape_fn wf_shape_reshape, wf_shape_permute, wf_shape_slice, wf_shape_slice_step,
    wf_shape_expand, wf_shape_view_as_real, wf_shape_view_as_complex;
wf_view_fn wf_view_reshape, wf_view_permute, wf_view_slice, wf_view_slice_step, wf_view_expand,
    wf_view_unchanged, wf_view_as_real, wf_view_as_complex;

/* Rules that are functions: of any family, then family by family */
wf_rule_fn wf_rule_all_but_dim;
wf_rule_fn wf_rule_matmul, wf_rule_linear, wf_rule_linear_dx, wf_rule_linear_dw;
wf_rule_fn wf_rule_conv, wf_rule_conv_dx, wf_rule_conv_dw, wf_rule_windows;
wf_rule_fn wf_rule_reduce, wf_rule_reduce_with, wf_rule_histogram;
wf_rule_fn wf_rule_attention, wf_rule_attention_grad, wf_rule_attention_packed,
    wf_rule_attention_packed_grad, wf_rule_rotary;
wf_rule_fn wf_rule_reshape, wf_rule_permute, wf_rule_expand, wf_rule_slice_masked,
    wf_rule_slice_grad, wf_rule_pad;
wf_rule_fn wf_rule_index, wf_rule_index_put, wf_rule_index_add, wf_rule_gather, wf_rule_scatter,
    wf_rule_scatter_add, wf_rule_search_sorted;

/* ---- shared by families ---- */

/** Output j takes dtype and global shape of a layout. */
void wf_infer_output_like(struct wf_infer *call, int j, const struct wf_layout *layout);

/** "f32[8,16] R, f32[4]": the operands, for messages. The text lives until the thread's next call.
 */
const char *wf_infer_inputs_text(const struct wf_infer *call);

/** A call of an op that takes complex numbers, on pairs of real ones. */
weft_tensor *wf_call_complex(enum wf_op op, weft_tensor *const *in, int n,
                             const struct wf_op_args *args, weft_tensor **more);

/** Products of a partial x with a number and quotients have one attribute more, a word: the number
 * is not negative, so terms of a norm, which have no sign, stay terms (wf_op_passes_partial). */
void wf_set_nonnegative_factor(struct wf_op_args *args, enum wf_op op, const weft_tensor *x);

/** x for an op with numbers beside it: where they are not whole, integers become f32; bool becomes
 *  i64. */
weft_tensor *wf_promote_beside_numbers(weft_tensor *x, const double *numbers, int n);
bool wf_number_is_whole(double number);

/** The dtype in which arrays of two dtypes meet. */
weft_dtype wf_common_dtype(weft_dtype a, weft_dtype b);

/** Sum a broadcast result's gradient back to the shape an input had. */
weft_tensor *wf_sum_to_shape_of(weft_tensor *grad, struct wf_layout *layout);

/** Expand to a layout's global shape, in that layout where it costs nothing. */
weft_tensor *wf_expand_to_shape_of(weft_tensor *t, struct wf_layout *layout);

/** i16 and i8, which have no kernels along dims, as i32, others as they are; NULL for NULL / and a
 * result in i32 in the dtype that the operand had. */
weft_tensor *wf_widen_small_integers(weft_tensor *x);
weft_tensor *wf_narrow_small_integers(weft_tensor *y, weft_dtype dtype);

/** Sum over the dims in a bit mask, times `scale`. */
weft_tensor *wf_sum_masked_dims(weft_tensor *t, int64_t mask, bool keep, double scale,
                                struct wf_layout *want);

/** The mean over the dims in a bit mask; `wide`: of 16-bit floats in f32. */
weft_tensor *wf_mean_mask(weft_tensor *x, int64_t mask, bool keep, bool wide);

/** An op that has a reduction's attributes, over the dims in a bit mask (-1: NULL). */
weft_tensor *wf_reduce_mask(enum wf_op op, weft_tensor *x, int64_t mask, bool keep, bool wide);

/** Elements of the whole tensor along these dims. */
int64_t wf_count_in_dims(const weft_tensor *x, int64_t mask);

/** A result with the reduced dims of `x` put back at size 1, so that it broadcasts against it; NULL
 * for NULL. */
weft_tensor *wf_reshape_to_kept_dims(weft_tensor *t, const struct wf_tensor_desc *x, int64_t dims);
/** The same of a recorded reduction. */
weft_tensor *wf_restore_reduced_dims(const struct wf_tape_node *n, weft_tensor *t);

/** sum (x - mean)^2 over the dims in a bit mask, divided by their count less `correction`. mean:
 * not partial, with these dims at size 1, of the dtype that x is computed in, which the result has.
 */
weft_tensor *wf_variance_about(weft_tensor *x, weft_tensor *mean, int64_t mask, double correction,
                               bool keep);

/**
 * (x - mean) / sqrt(variance + eps), statistics over the dims in a bit mask, wherever x lies; x is
 * not partial, and no 16-bit floats. `mean`, `variance`: NULL, or what they were, detached and with
 * these dims at size 1.
 */
weft_tensor *wf_normalize_dims(weft_tensor *x, int64_t mask, double eps, weft_tensor **mean,
                               weft_tensor **variance);

/** t without gradient types, for who puts right himself what is made of it; NULL for NULL. */
weft_tensor *wf_without_grad_types(weft_tensor *t);

/** Any axis cuts the dim. */
bool wf_is_sharded_along(const weft_tensor *t, int dim);

/** The dtype that x is computed in: f32 of 16-bit floats. */
weft_dtype wf_computing_dtype(const weft_tensor *x);

/** Partial axes become replicated; NULL for NULL. */
weft_tensor *wf_reduce_if_partial(weft_tensor *t);

/** The same of an operand of the caller's, which the guard has a say in. */
weft_tensor *wf_reduce_partial_operand(const char *who, weft_tensor *x);

/** Fails where there is no element along the dims in a bit mask. */
weft_status wf_need_elements(const weft_tensor *x, int64_t mask, const char *who);

/** The bit mask of a list of dims along which there is an element; -1 with an error. */
int64_t wf_dims_with_elements(const weft_tensor *x, const int *dims, int n, const char *who);

/** Fails for integers to the power of a negative integer. */
weft_status wf_check_integer_power(const weft_tensor *x, double power);

/** A tensor without dims is taken for one with a single element along its dim 0, or -1. */
static inline bool wf_is_dim_of_scalar(const weft_tensor *x, int dim)
{
    return weft_ndim(x) == 0 && (dim == 0 || dim == -1);
}

/** Results of such an op without the dim again: y, and *more unless NULL. */
weft_tensor *wf_squeeze_to_scalar(weft_tensor *y, weft_tensor **more);

/** Fails unless x has floating-point numbers. */
weft_status wf_need_float(const weft_tensor *x, const char *who);

/** Bit mask of a list of dims; n = 0 means all. -1 with an error when one is out of range. */
int64_t wf_dims_to_mask(const weft_tensor *t, const int *dims, int n, const char *who);

/** t with this global shape, preferably in `want`. */
weft_tensor *wf_reshape_to(weft_tensor *t, const int64_t *shape, int ndim, struct wf_layout *want);

/** The sizes of a shape for x, one of which may be given as -1. fails: WEFT_ERR_SHAPE */
weft_status wf_reshape_sizes(const weft_tensor *x, const int64_t *shape, int ndim, int64_t *sizes);

/** Elements [start, start + length) of a dim, in range. */
weft_tensor *wf_slice_dim(weft_tensor *x, int64_t dim, int64_t start, int64_t length);

/** x with whatever cuts the dim brought together, for a caller that looks at it several times.
 *  `who` for messages of the guard. */
weft_tensor *wf_gather_dim(const char *who, weft_tensor *x, int dim);

/** x as the last of its dims spread out: d[i] at start + i * step of `size` elements, zeros between
 * them. In range. */
weft_tensor *wf_spread_last_dim(weft_tensor *x, int64_t start, int64_t step, int64_t size);

/** n indices as an i64 tensor on x's device, the same on every rank of its mesh. */
weft_tensor *wf_index_like(const weft_tensor *x, const int64_t *index, int64_t n);
