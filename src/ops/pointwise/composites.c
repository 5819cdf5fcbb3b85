/* composites.c: pointwise functions that are made of others. */
#include <weft/ops.h>

#include <math.h>

#include "base/elements/dtype.h"
#include "base/error.h"
#include "ops/op_functions.h"

weft_tensor *weft_sub_scalar(weft_tensor *x, double s) { return weft_add_scalar(x, -s); }

weft_tensor *weft_hardtanh(weft_tensor *x, double low, double high)
{
    return weft_clamp(x, low, high);
}

weft_tensor *weft_relu6(weft_tensor *x) { return weft_clamp(x, 0, 6); }

weft_tensor *weft_lerp_scalar(weft_tensor *a, weft_tensor *b, double weight)
{
    weft_tensor *number;

    if (!a || !b) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(a, "lerp"));
    number = wf_dtype_is_float(a->layout->desc.dtype) ? wf_number_like(a, weight)
                                                      : weft_full(WEFT_F32, NULL, 0, weight);
    return weft_lerp(a, b, number);
}

weft_tensor *weft_masked_fill(weft_tensor *x, weft_tensor *mask, double value)
{
    if (!x || !mask) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "masked_fill"));
    x = wf_promote_beside_numbers(x, &value, 1);
    return weft_where(mask, wf_number_like(x, value), x);
}

weft_tensor *weft_where_scalar(weft_tensor *condition, weft_tensor *a, double b)
{
    if (!condition || !a) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(a, "where"));
    a = wf_promote_beside_numbers(a, &b, 1);
    return weft_where(condition, a, wf_number_like(a, b));
}

/* In two's complement -1 - x is x with every bit turned. */
weft_tensor *weft_bitwise_not(weft_tensor *x)
{
    if (!x) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "bitwise_not"));
    WF_NEED_PTR(!weft_dtype_is_float(weft_tensor_dtype(x)), WEFT_ERR_DTYPE,
                "bitwise_not: %s has no bits", weft_dtype_name(weft_tensor_dtype(x)));
    return weft_tensor_dtype(x) == WEFT_BOOL ? weft_logical_not(x) : weft_rsub_scalar(x, -1);
}

weft_tensor *weft_isclose(weft_tensor *a, weft_tensor *b, double rtol, double atol, bool equal_nan)
{
    weft_tensor *close = weft_eq(a, b), *apart, *allowed;

    if (!close) return NULL;
    a = weft_detach(a);
    b = weft_detach(b);
    if (!weft_dtype_is_float(weft_tensor_dtype(a))) a = weft_cast(a, WEFT_F64);
    if (!weft_dtype_is_float(weft_tensor_dtype(b))) b = weft_cast(b, WEFT_F64);
    apart = weft_abs(weft_sub(a, b));
    allowed = weft_add_scalar(weft_mul_scalar(weft_abs(b), rtol), atol);
    close = weft_logical_or(close, weft_logical_and(weft_isfinite(apart), weft_le(apart, allowed)));
    if (!equal_nan) return close;
    return weft_logical_or(close, weft_logical_and(weft_isnan(a), weft_isnan(b)));
}

weft_tensor *weft_glu(weft_tensor *x, int dim)
{
    int at;
    int64_t size;

    if (!x) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "glu"));
    at = dim < 0 ? dim + weft_ndim(x) : dim;
    WF_NEED_PTR(at >= 0 && at < weft_ndim(x), WEFT_ERR_ARG, "glu: no dim %d in %d", dim,
                weft_ndim(x));
    size = weft_size(x, at);
    WF_NEED_PTR(size % 2 == 0, WEFT_ERR_SHAPE,
                "glu: dim %d has %lld elements, which have no halves", dim, (long long)size);
    return weft_mul(weft_slice(x, at, 0, size / 2),
                    weft_sigmoid(weft_slice(x, at, size / 2, size)));
}
