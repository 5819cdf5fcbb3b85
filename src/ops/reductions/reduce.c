/* reduce.c: sums, means, products, extremes and counts. */
#include <weft/ops.h>

#include "base/elements/dtype.h"
#include "base/error.h"
#include "ops/call_dims.h"
#include "ops/op_functions.h"
#include "ops/op_plan.h"

weft_dtype wf_computing_dtype(const weft_tensor *x)
{
    return wf_dtype_is_16_bit_float(weft_tensor_dtype(x)) ? WEFT_F32 : weft_tensor_dtype(x);
}

bool wf_is_sharded_along(const weft_tensor *t, int dim)
{
    for (int a = 0; a < t->layout->n_axes; a++)
        if (weft_shards(t->layout->placements[a], dim)) return true;
    return false;
}

/* What elements are computed in: of a wide result. */
static weft_dtype wide_dtype(weft_dtype dtype)
{
    if (!weft_dtype_is_float(dtype)) return WEFT_I64;
    return wf_dtype_is_16_bit_float(dtype) ? WEFT_F32 : dtype;
}

weft_status wf_shape_reduce(struct wf_infer *call)
{
    const struct wf_reduce_attrs *attrs = &call->attrs->reduce;
    const struct wf_tensor_desc *x = &call->in[0]->desc;
    int at = 0;

    call->averages = attrs->mean;
    call->out[0].dtype = attrs->wide ? wide_dtype((weft_dtype)x->dtype) : (weft_dtype)x->dtype;
    for (int d = 0; d < x->ndim; d++) {
        if (!(attrs->dims >> d & 1))
            call->out[0].shape[at++] = x->global[d];
        else if (attrs->keep)
            call->out[0].shape[at++] = 1;
    }
    call->out[0].ndim = at;
    return WEFT_OK;
}

weft_status wf_shape_count(struct wf_infer *call)
{
    WF_TRY(wf_shape_reduce(call));
    call->out[0].dtype = WEFT_I64;
    return WEFT_OK;
}

/* The second input has a number for each output, with the reduced dims at size 1. */
static weft_status check_second_input(const struct wf_infer *call)
{
    const struct wf_tensor_desc *x = &call->in[0]->desc, *y = &call->in[1]->desc;
    bool fits = x->ndim == y->ndim;

    for (int d = 0; fits && d < x->ndim; d++)
        fits = y->global[d] == (call->attrs->reduce.dims >> d & 1 ? 1 : x->global[d]);
    WF_NEED(fits, WEFT_ERR_SHAPE, "%s: needs one number per result: %s", call->row->name,
            wf_infer_inputs_text(call));
    return WEFT_OK;
}

weft_status wf_shape_reduce_with(struct wf_infer *call)
{
    WF_TRY(check_second_input(call));
    WF_TRY(wf_shape_reduce(call));
    call->out[0].dtype = wide_dtype((weft_dtype)call->in[0]->desc.dtype);
    WF_NEED((weft_dtype)call->in[1]->desc.dtype == call->out[0].dtype, WEFT_ERR_DTYPE,
            "%s: the numbers must be %s: %s", call->row->name, weft_dtype_name(call->out[0].dtype),
            wf_infer_inputs_text(call));
    return WEFT_OK;
}

weft_status wf_shape_index_of(struct wf_infer *call)
{
    WF_TRY(check_second_input(call));
    return wf_shape_count(call);
}

/* Of some dtypes no two ranks can combine partial results. */
static bool has_partial_results(const struct wf_infer *call)
{
    return wf_dtype_can_reduce(call->out[0].dtype, WEFT_SUM);
}

/* A reduced dim's label is missing in the result. */
void wf_rule_reduce(const struct wf_infer *call, struct wf_dim_labels *labels)
{
    int n = wf_ndim_of_input(call, 0), at = 0;

    for (int d = 0; d < n; d++) {
        bool reduced = call->attrs->reduce.dims >> d & 1;

        if (!reduced || has_partial_results(call)) labels->in[0][d] = (int8_t)(d + 1);
        if (!reduced)
            labels->out[0][at++] = (int8_t)(d + 1);
        else if (call->attrs->reduce.keep)
            at++;
    }
    labels->count = n;
}

void wf_rule_reduce_with(const struct wf_infer *call, struct wf_dim_labels *labels)
{
    wf_rule_reduce(call, labels);
    for (int d = 0; d < labels->count; d++)
        if (!(call->attrs->reduce.dims >> d & 1)) labels->in[1][d] = (int8_t)(d + 1);
}

int64_t wf_dims_to_mask(const weft_tensor *t, const int *dims, int n, const char *who)
{
    int64_t mask = 0;

    if (n == 0) return ((int64_t)1 << t->layout->desc.ndim) - 1;
    if (!dims) {
        WF_FAIL(WEFT_ERR_ARG, "%s: %d dims, but no list of them", who, n);
        return -1;
    }
    for (int i = 0; i < n; i++) {
        int d;

        if (i == 0 && wf_is_dim_of_scalar(t, dims[i])) continue;
        d = wf_normalize_dim(dims[i], weft_ndim(t), who);
        if (d < 0) return -1;
        if (mask >> d & 1) {
            WF_FAIL(WEFT_ERR_ARG, "%s: dim %d is named twice", who, d);
            return -1;
        }
        mask |= (int64_t)1 << d;
    }
    return mask;
}

/* t's placements with those replicated that are partial. */
static const weft_placement *replicate_partial_axes(const weft_tensor *t, weft_placement *to)
{
    for (int a = 0; a < t->layout->n_axes; a++) {
        to[a] = t->layout->placements[a];
        if (weft_is_partial(to[a])) to[a] = weft_replicate();
    }
    return to;
}

weft_tensor *wf_reduce_if_partial(weft_tensor *t)
{
    weft_placement to[WEFT_MAX_AXES];

    if (!t || !t->layout->partial) return t;
    return weft_redistribute(t, replicate_partial_axes(t, to));
}

weft_tensor *wf_reduce_partial_operand(const char *who, weft_tensor *x)
{
    weft_placement to[WEFT_MAX_AXES];

    if (!x || !x->layout->partial) return x;
    return wf_redistribute_implicitly(who, x, replicate_partial_axes(x, to));
}

weft_tensor *wf_sum_masked_dims(weft_tensor *t, int64_t mask, bool keep, double scale,
                                struct wf_layout *want)
{
    struct wf_op_args args = {WF_ATTRS(reduce, .dims = (uint32_t)mask, .keep = keep),
                              .scalars.s = {scale}, .want = want};

    return mask < 0 ? NULL : wf_dispatch_op_one_output(WF_OP_sum, &t, 1, &args);
}

weft_tensor *wf_restore_reduced_dims(const struct wf_tape_node *n, weft_tensor *t)
{
    const struct wf_op_plan *plan = wf_tape_node_op_plan(n);

    if (plan->attrs.reduce.keep) return t;
    return wf_reshape_to_kept_dims(t, &plan->in[0]->desc, plan->attrs.reduce.dims);
}

weft_tensor *wf_reshape_to_kept_dims(weft_tensor *t, const struct wf_tensor_desc *x, int64_t dims)
{
    int64_t shape[WEFT_MAX_DIMS];

    if (!t || weft_ndim(t) == 0) return t; /* without dims it broadcasts anyway */
    for (int d = 0; d < x->ndim; d++) shape[d] = dims >> d & 1 ? 1 : x->global[d];
    return wf_reshape_to(t, shape, x->ndim, NULL);
}

void wf_vjp_sum(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    struct wf_layout *x = wf_tape_node_input_layout(n, 0);

    if (n->s[0] != 1) g = weft_mul_scalar(g, n->s[0]);
    g = weft_cast(g, (weft_dtype)x->desc.dtype);
    in[0] = wf_expand_to_shape_of(wf_restore_reduced_dims(n, g), x);
}

/* Of the maximum and of the minimum. */
void wf_vjp_max(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    weft_tensor *x = wf_saved_input(n, 0), *y = wf_saved_output(n, 0);
    weft_tensor *hit = weft_cast(weft_eq(x, wf_restore_reduced_dims(n, y)), weft_tensor_dtype(x));
    weft_tensor *hits =
        wf_sum_masked_dims(hit, wf_tape_node_op_plan(n)->attrs.reduce.dims, true, 1, NULL);

    in[0] = weft_mul(hit, weft_div(wf_restore_reduced_dims(n, g), hits));
}

/* The product of the other elements: y / x, but with one 0 among them only that one's is not 0. */
void wf_vjp_prod(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    uint32_t dims = wf_tape_node_op_plan(n)->attrs.reduce.dims;
    weft_tensor *x = wf_reduce_if_partial(wf_saved_input(n, 0));
    weft_tensor *zero, *one, *is_zero, *zeros, *others, *share;

    if (!x) return;
    g = wf_restore_reduced_dims(n, g);
    zero = wf_number_like(x, 0);
    one = wf_number_like(x, 1);
    is_zero = weft_eq(x, zero);
    zeros = wf_reduce_if_partial(
        wf_sum_masked_dims(weft_cast(is_zero, weft_tensor_dtype(x)), dims, true, 1, NULL));
    others = wf_reduce_if_partial(
        wf_reduce_mask(WF_OP_prod, weft_where(is_zero, one, x), dims, true, false));
    share = weft_mul(g, others); /* of the elements that are not 0 */
    in[0] =
        weft_where(is_zero, weft_mul(share, weft_cast(weft_eq(zeros, one), weft_tensor_dtype(x))),
                   weft_mul(weft_div(share, weft_where(is_zero, one, x)),
                            weft_cast(weft_eq(zeros, zero), weft_tensor_dtype(x))));
}

/* ---- public functions ---- */

weft_tensor *wf_reduce_mask(enum wf_op op, weft_tensor *x, int64_t mask, bool keep, bool wide)
{
    struct wf_op_args args = {WF_ATTRS(reduce, .dims = (uint32_t)mask, .keep = keep, .wide = wide),
                              .scalars.s = {1}};

    return mask < 0 ? NULL : wf_dispatch_op_one_output(op, &x, 1, &args);
}

weft_tensor *wf_widen_small_integers(weft_tensor *x)
{
    weft_dtype dtype = x ? weft_tensor_dtype(x) : WEFT_F32;

    return dtype == WEFT_I16 || dtype == WEFT_I8 ? weft_cast(x, WEFT_I32) : x;
}

weft_tensor *wf_narrow_small_integers(weft_tensor *y, weft_dtype dtype)
{
    bool widened = dtype == WEFT_I16 || dtype == WEFT_I8;

    return y && widened && weft_tensor_dtype(y) == WEFT_I32 ? weft_cast(y, dtype) : y;
}

/* `wide`: of integers the result is i64. */
static weft_tensor *reduce_mask_of_any_dtype(enum wf_op op, weft_tensor *x, int64_t mask, bool keep,
                                             bool wide)
{
    weft_dtype dtype = weft_tensor_dtype(x);

    if (wf_dtype_is_float(dtype)) return wf_reduce_mask(op, x, mask, keep, false);
    x = wf_widen_small_integers(x);
    return x ? wf_narrow_small_integers(wf_reduce_mask(op, x, mask, keep, wide), dtype) : NULL;
}

static weft_tensor *reduce_dims(enum wf_op op, const char *who, weft_tensor *x, const int *dims,
                                int n, bool keep, bool wide)
{
    if (!x) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, who));
    return reduce_mask_of_any_dtype(op, x, wf_dims_to_mask(x, dims, n, who), keep, wide);
}

int64_t wf_count_in_dims(const weft_tensor *x, int64_t mask)
{
    int64_t count = 1;

    for (int d = 0; d < weft_ndim(x); d++)
        if (mask >> d & 1) count *= x->layout->desc.global[d];
    return count;
}

weft_tensor *weft_sum(weft_tensor *x, const int *dims, int n, bool keep)
{
    return reduce_dims(WF_OP_sum, "sum", x, dims, n, keep, true);
}

weft_tensor *weft_sum_all(weft_tensor *x) { return weft_sum(x, NULL, 0, false); }

weft_tensor *weft_prod(weft_tensor *x, const int *dims, int n, bool keep)
{
    return reduce_dims(WF_OP_prod, "prod", x, dims, n, keep, true);
}

weft_status wf_need_elements(const weft_tensor *x, int64_t mask, const char *who)
{
    WF_NEED(wf_count_in_dims(x, mask) > 0, WEFT_ERR_SHAPE,
            "%s: there is no element along a dim of size 0", who);
    return WEFT_OK;
}

int64_t wf_dims_with_elements(const weft_tensor *x, const int *dims, int n, const char *who)
{
    int64_t mask;

    if (wf_tensor_need_alive(x, who) != WEFT_OK) return -1;
    mask = wf_dims_to_mask(x, dims, n, who);
    return mask >= 0 && wf_need_elements(x, mask, who) == WEFT_OK ? mask : -1;
}

static weft_tensor *reduce_to_extreme(enum wf_op op, const char *who, weft_tensor *x,
                                      const int *dims, int n, bool keep)
{
    int64_t mask = x ? wf_dims_with_elements(x, dims, n, who) : -1;

    return mask < 0 ? NULL : reduce_mask_of_any_dtype(op, x, mask, keep, false);
}

weft_tensor *weft_amax(weft_tensor *x, const int *dims, int n, bool keep)
{
    return reduce_to_extreme(WF_OP_max, "amax", x, dims, n, keep);
}

weft_tensor *weft_amin(weft_tensor *x, const int *dims, int n, bool keep)
{
    return reduce_to_extreme(WF_OP_min, "amin", x, dims, n, keep);
}

weft_tensor *weft_count_nonzero(weft_tensor *x, const int *dims, int n)
{
    return reduce_dims(WF_OP_count_nonzero, "count_nonzero", x, dims, n, false, false);
}

weft_status wf_need_float(const weft_tensor *x, const char *who)
{
    WF_NEED(weft_dtype_is_float(weft_tensor_dtype(x)), WEFT_ERR_DTYPE,
            "%s: needs floating-point numbers, not %s", who, weft_dtype_name(weft_tensor_dtype(x)));
    return WEFT_OK;
}

weft_tensor *wf_mean_mask(weft_tensor *x, int64_t mask, bool keep, bool wide)
{
    struct wf_op_args args = {
        WF_ATTRS(reduce, .dims = (uint32_t)mask, .keep = keep, .mean = true, .wide = wide),
        .scalars.s = {1.0 / (double)wf_count_in_dims(x, mask)}};

    return wf_dispatch_op_one_output(WF_OP_sum, &x, 1, &args);
}

/* A sum scaled by one over the GLOBAL count, so uneven shards weigh as they should. */
weft_tensor *weft_mean(weft_tensor *x, const int *dims, int n, bool keep)
{
    int64_t mask;

    if (!x) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "mean"));
    WF_TRY_PTR(wf_need_float(x, "mean"));
    mask = wf_dims_to_mask(x, dims, n, "mean");
    return mask < 0 ? NULL : wf_mean_mask(x, mask, keep, false);
}

weft_tensor *weft_mean_all(weft_tensor *x) { return weft_mean(x, NULL, 0, false); }

/* How many elements along the dims are not 0, whole on every rank. */
static weft_tensor *count_whole(const char *who, weft_tensor *x, const int *dims, int n, bool keep,
                                int64_t *mask)
{
    if (!x) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, who));
    *mask = wf_dims_to_mask(x, dims, n, who);
    x = wf_widen_small_integers(x);
    return wf_reduce_if_partial(wf_reduce_mask(WF_OP_count_nonzero, x, *mask, keep, false));
}

weft_tensor *weft_any(weft_tensor *x, const int *dims, int n, bool keep)
{
    int64_t mask;
    weft_tensor *count = count_whole("any", x, dims, n, keep, &mask);

    return count ? weft_ne(count, wf_number_like(count, 0)) : NULL;
}

weft_tensor *weft_all(weft_tensor *x, const int *dims, int n, bool keep)
{
    int64_t mask;
    weft_tensor *count = count_whole("all", x, dims, n, keep, &mask);

    if (!count) return NULL;
    return weft_eq(count, weft_full(WEFT_I64, NULL, 0, (double)wf_count_in_dims(x, mask)));
}

/* x with 0 where it is not a number. */
static weft_tensor *nan_to_zero(weft_tensor *x)
{
    return weft_where(weft_isnan(x), wf_number_like(x, 0), x);
}

weft_tensor *weft_nansum(weft_tensor *x, const int *dims, int n, bool keep)
{
    if (!x) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "nansum"));
    return weft_sum(weft_dtype_is_float(weft_tensor_dtype(x)) ? nan_to_zero(x) : x, dims, n, keep);
}

weft_tensor *weft_nanmean(weft_tensor *x, const int *dims, int n, bool keep)
{
    int64_t mask;
    weft_tensor *numbers, *count;

    if (!x) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "nanmean"));
    WF_TRY_PTR(wf_need_float(x, "nanmean"));
    numbers = weft_logical_not(weft_isnan(x));
    count = count_whole("nanmean", numbers, dims, n, keep, &mask);
    return weft_div(weft_nansum(x, dims, n, keep), weft_cast(count, weft_tensor_dtype(x)));
}
