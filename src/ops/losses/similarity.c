/* similarity.c: lengths of vectors along a dim, and the cosine between two, as formulas of other
 * ops. Where the dim is sharded numbers per vector are added up, never vectors gathered. */
#include <weft/ops.h>

#include <math.h>

#include "base/error.h"
#include "ops/op_functions.h"
#include "tensor/scope.h"

/* The p-norm along a dim, kept; no less than eps, where its gradient is 0. */
static weft_tensor *norm_at_least(weft_tensor *x, double p, int dim, double eps)
{
    if (p == 2) {
        weft_tensor *sum = weft_sum(weft_square(x), &dim, 1, true);

        return weft_sqrt(weft_clamp_min(sum, eps * eps));
    }
    if (isinf(p)) return weft_clamp_min(weft_amax(weft_abs(x), &dim, 1, true), eps);
    if (p == 1) return weft_clamp_min(weft_sum(weft_abs(x), &dim, 1, true), eps);
    return weft_pow_scalar(
        weft_clamp_min(weft_sum(weft_pow_scalar(weft_abs(x), p), &dim, 1, true), pow(eps, p)),
        1 / p);
}

weft_tensor *weft_normalize(weft_tensor *x, double p, int dim, double eps)
{
    weft_scope *scope;

    if (!x) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "normalize"));
    WF_NEED_PTR(p > 0 && eps >= 0, WEFT_ERR_ARG, "normalize: p is %g, eps %g", p, eps);
    scope = weft_scope_open();
    return weft_scope_return(scope, weft_div(x, norm_at_least(x, p, dim, eps)));
}

static weft_tensor *cosine(weft_tensor *a, weft_tensor *b, int dim, double eps)
{
    weft_tensor *products = weft_sum(weft_mul(a, b), &dim, 1, false);
    weft_tensor *lengths = weft_mul(norm_at_least(a, 2, dim, eps), norm_at_least(b, 2, dim, eps));

    if (!products || !lengths) return NULL;
    return weft_div(products, weft_sum(lengths, &dim, 1, false));
}

weft_tensor *weft_cosine_similarity(weft_tensor *a, weft_tensor *b, int dim, double eps)
{
    weft_scope *scope;

    if (!a || !b) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(a, "cosine_similarity"));
    WF_TRY_PTR(wf_tensor_need_alive(b, "cosine_similarity"));
    WF_NEED_PTR(weft_ndim(a) == weft_ndim(b), WEFT_ERR_SHAPE,
                "cosine_similarity: vectors of tensors of %d and %d dims", weft_ndim(a),
                weft_ndim(b));
    WF_NEED_PTR(eps >= 0, WEFT_ERR_ARG, "cosine_similarity: eps is %g", eps);
    scope = weft_scope_open();
    return weft_scope_return(scope, cosine(a, b, dim, eps));
}
