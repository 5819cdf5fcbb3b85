/*
 * log_sum_exp.c: the gradient of attention's log-sum-exp, and attention over some of the keys
 * merged with attention over others.
 *
 * With g the gradient of lse, dS = P (dO V^T - sum_j dO O + g). So g is the gradient of one more
 * element of each head: of V it is 0, of O -1, of dO g. Q and K have 0 there, so scores do not
 * change.
 */
#include "ops/attention/log_sum_exp.h"

#include <weft/ops.h>

#include <math.h>

#include "base/error.h"
#include "ops/op_functions.h"

/* Elements that are appended to a head: its rows stay aligned to vectors. A power of two, so that
 * they add up to just g. */
enum { APPENDED = 8 };

/* The heads of a log-sum-exp, [B,H,T] or [B,G,R,T], behind its positions, and elements of size 1:
 * it broadcasts against [B,T,H,D] or [B,T,G,R,D]. */
static weft_tensor *lse_beside_heads(weft_tensor *lse)
{
    static const int heads[] = {0, 2, 1}, groups[] = {0, 3, 1, 2};

    return weft_unsqueeze(weft_permute(lse, weft_ndim(lse) == 3 ? heads : groups), -1);
}

static weft_tensor *append_number(weft_tensor *x, double number)
{
    return weft_pad(x, (int64_t[]){0, APPENDED}, 1, WEFT_PAD_CONSTANT, number);
}

static weft_tensor *append_lse_gradient(weft_tensor *grad, weft_tensor *lse_grad)
{
    weft_tensor *column = weft_cast(lse_beside_heads(lse_grad), weft_tensor_dtype(grad));
    int64_t shape[WEFT_MAX_DIMS];
    int n = weft_ndim(grad);

    if (!column) return NULL;
    for (int d = 0; d < n; d++) shape[d] = weft_size(grad, d);
    shape[n - 1] = APPENDED;
    return weft_cat((weft_tensor *[]){grad, weft_expand(column, shape, n)}, 2, -1);
}

void wf_attention_gradients_with_lse(weft_tensor *const *operands, int n, weft_tensor *lse_grad,
                                     const struct wf_op_args *args, weft_tensor **grads)
{
    enum { GRAD, Q, K, V, O, LSE, MASK };
    weft_tensor *grad = operands[GRAD] ? operands[GRAD] : wf_zero_gradient_like(operands[O]);
    weft_tensor *in[WF_MAX_IN] = {0};
    int64_t d = weft_size(operands[Q], -1);

    in[GRAD] = append_lse_gradient(grad, lse_grad);
    for (int i = Q; i <= V; i++) in[i] = append_number(operands[i], 0);
    in[O] = append_number(operands[O], -1 / (double)APPENDED);
    in[LSE] = operands[LSE];
    for (int i = MASK; i < n; i++) in[i] = operands[i];
    grads[0] = wf_dispatch_op(WF_OP_attention_grad, in, n, args, grads + 1);
    for (int i = 0; i < 3; i++) grads[i] = weft_slice(grads[i], -1, 0, d);
}

/* ---- merging ---- */

static weft_status check_partial_attention(weft_tensor *out, weft_tensor *lse)
{
    int n = weft_ndim(out);
    bool fits = (n == 4 || n == 5) && weft_ndim(lse) == n - 1;

    WF_TRY(wf_need_float(out, "attention_merge"));
    WF_TRY(wf_need_float(lse, "attention_merge"));
    for (int d = 0; fits && d < n - 1; d++)
        fits = weft_size(lse, d) == weft_size(out, d == 0 ? 0 : d == n - 2 ? 1 : d + 1);
    WF_NEED(fits, WEFT_ERR_SHAPE,
            "attention_merge: needs a result [B,T,H,D] and its log-sum-exp [B,H,T], or "
            "[B,T,G,R,D] and [B,G,R,T]");
    return WEFT_OK;
}

/* x, but `number` where the mask is set; no gradient passes there. */
static weft_tensor *put_where(weft_tensor *mask, double number, weft_tensor *x)
{
    return weft_masked_fill(x, mask, number);
}

/*
 * e^(lse - most) of each, with most the larger one, or 0 where no key was seen at all: that query
 * has weights of 0. Nothing here is infinite or no number, in the gradients neither.
 */
weft_tensor *weft_attention_merge(weft_tensor *out_a, weft_tensor *lse_a, weft_tensor *out_b,
                                  weft_tensor *lse_b, weft_tensor **lse)
{
    weft_tensor *most, *unseen, *a, *b, *sum, *out;

    if (lse) *lse = NULL;
    if (!out_a || !lse_a || !out_b || !lse_b) return NULL;
    for (int i = 0; i < 4; i++)
        WF_TRY_PTR(wf_tensor_need_alive((weft_tensor *[]){out_a, lse_a, out_b, lse_b}[i],
                                        "attention_merge"));
    WF_TRY_PTR(check_partial_attention(out_a, lse_a));
    WF_TRY_PTR(check_partial_attention(out_b, lse_b));
    most = weft_maximum(weft_detach(lse_a), weft_detach(lse_b));
    unseen = weft_isinf(most);
    most = put_where(unseen, 0, most);
    a = weft_exp(weft_sub(lse_a, most));
    b = weft_exp(weft_sub(lse_b, most));
    sum = put_where(unseen, 1, weft_add(a, b));
    out = weft_addcmul(weft_mul(out_a, lse_beside_heads(weft_div(a, sum))), out_b,
                       lse_beside_heads(weft_div(b, sum)), 1);
    if (weft_tensor_dtype(out_a) == weft_tensor_dtype(out_b))
        out = weft_cast(out, weft_tensor_dtype(out_a));
    if (lse && out) *lse = put_where(unseen, -INFINITY, weft_add(most, weft_log(sum)));
    return out;
}
