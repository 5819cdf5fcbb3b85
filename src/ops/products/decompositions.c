/*
 * decompositions.c: singular values and vectors, eigenvalues and vectors of symmetric matrices. A
 * matrix is whole where it is taken apart; leading dims may be sharded.
 *
 * Gradients are Giles' (An extended collection of matrix derivative results, 2008): vectors turn
 * among themselves, by what the gradients' skew part says divided by the gaps between values.
 */
#include <weft/factory.h>
#include <weft/ops.h>

#include "base/error.h"
#include "ops/op_functions.h"
#include "ops/op_plan.h"

static weft_status check_matrices(const struct wf_infer *call)
{
    const struct wf_tensor_desc *x = &call->in[0]->desc;

    WF_NEED(x->ndim >= 2, WEFT_ERR_SHAPE, "%s: needs matrices [*,M,N]: %s", call->name,
            wf_infer_inputs_text(call));
    return WEFT_OK;
}

/* x [*,N,N] -> values [*,N], vectors [*,N,N] */
weft_status wf_shape_eigh(struct wf_infer *call)
{
    const struct wf_tensor_desc *x = &call->in[0]->desc;

    WF_TRY(check_matrices(call));
    WF_NEED(x->global[x->ndim - 1] == x->global[x->ndim - 2], WEFT_ERR_SHAPE,
            "eigh: needs square matrices: %s", wf_infer_inputs_text(call));
    wf_infer_output_like(call, 0, call->in[0]);
    wf_infer_output_like(call, 1, call->in[0]);
    call->out[0].ndim--;
    return WEFT_OK;
}

/* x [*,M,N] -> U [*,M,K], S [*,K], Vh [*,K,N] with K the smaller of M and N */
weft_status wf_shape_svd(struct wf_infer *call)
{
    const struct wf_tensor_desc *x = &call->in[0]->desc;
    int64_t m, n, k;

    WF_TRY(check_matrices(call));
    m = x->global[x->ndim - 2];
    n = x->global[x->ndim - 1];
    k = m < n ? m : n;
    for (int j = 0; j < 3; j++) wf_infer_output_like(call, j, call->in[0]);
    call->out[0].shape[x->ndim - 1] = k;
    call->out[1].ndim--;
    call->out[1].shape[x->ndim - 2] = k;
    call->out[2].shape[x->ndim - 2] = k;
    return WEFT_OK;
}

/* ---- gradients ---- */

/* b added to a sum that may be NULL; either may be. */
static weft_tensor *add_term(weft_tensor *sum, weft_tensor *term)
{
    return sum && term ? weft_add(sum, term) : sum ? sum : term;
}

/* [j,k] = values_k - values_j, and 1 where j is k */
static weft_tensor *gaps(weft_tensor *values)
{
    return weft_add(weft_sub(weft_unsqueeze(values, -2), weft_unsqueeze(values, -1)),
                    weft_diag_embed(weft_ones_like(values), 0));
}

/* The skew part of vectors^T grad, twice, divided by the gaps; NULL for NULL. */
static weft_tensor *turns(weft_tensor *vectors, weft_tensor *grad, weft_tensor *gap)
{
    weft_tensor *product;

    if (!grad) return NULL;
    product = weft_matmul_t(vectors, grad, true, false);
    return weft_div(weft_sub(product, weft_transpose(product, -1, -2)), gap);
}

void wf_vjp_eigh(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    weft_tensor *values = wf_saved_output(n, 0), *vectors = wf_saved_output(n, 1);
    weft_tensor *inner = turns(vectors, n->further_grads[0], gaps(values));

    if (inner) inner = weft_mul_scalar(inner, 0.5);
    if (g) inner = add_term(inner, weft_diag_embed(g, 0));
    in[0] = weft_matmul_t(weft_matmul(vectors, inner), vectors, false, true);
}

/* grad - q (q^T grad): what lies outside the columns of q */
static weft_tensor *outside_columns(weft_tensor *q, weft_tensor *grad)
{
    return weft_sub(grad, weft_matmul(q, weft_matmul_t(q, grad, true, false)));
}

void wf_vjp_svd(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    weft_tensor *u = wf_saved_output(n, 0), *s = wf_saved_output(n, 1), *vh = wf_saved_output(n, 2),
                *v = weft_transpose(vh, -1, -2);
    weft_tensor *ds = n->further_grads[0], *dvh = n->further_grads[1];
    weft_tensor *dv = dvh ? weft_transpose(dvh, -1, -2) : NULL;
    weft_tensor *row = weft_unsqueeze(s, -2), *column = weft_unsqueeze(s, -1);
    weft_tensor *gap = g || dv ? gaps(weft_square(s)) : NULL, *inner = NULL, *sum = NULL;
    int64_t k = weft_size(s, -1);

    if (g) inner = weft_mul(turns(u, g, gap), row);
    if (dv) inner = add_term(inner, weft_mul(column, turns(v, dv, gap)));
    if (ds) inner = add_term(inner, weft_diag_embed(ds, 0));
    if (inner) sum = weft_matmul(weft_matmul(u, inner), vh);
    if (g && weft_size(u, -2) > k)
        sum = add_term(sum, weft_matmul(weft_div(outside_columns(u, g), row), vh));
    if (dv && weft_size(v, -2) > k)
        sum = add_term(sum, weft_matmul_t(weft_div(u, row), outside_columns(v, dv), false, true));
    in[0] = sum;
}

/* ---- calls ---- */

weft_tensor *weft_eigh(weft_tensor *x, weft_tensor **vectors)
{
    weft_tensor *more[1] = {0}, *values;

    if (vectors) *vectors = NULL;
    if (!x) return NULL;
    values = wf_dispatch_op(WF_OP_eigh, &x, 1, NULL, more);
    if (values && vectors) *vectors = wf_tape_record_further_output(values, 0, more[0]);
    return values;
}

weft_tensor *weft_svd(weft_tensor *x, weft_tensor **s, weft_tensor **vh)
{
    weft_tensor *more[2] = {0}, *u;

    if (s) *s = NULL;
    if (vh) *vh = NULL;
    if (!x) return NULL;
    u = wf_dispatch_op(WF_OP_svd, &x, 1, NULL, more);
    if (u && s) *s = wf_tape_record_further_output(u, 0, more[0]);
    if (u && vh) *vh = wf_tape_record_further_output(u, 1, more[1]);
    return u;
}
