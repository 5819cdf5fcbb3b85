/*
 * complex.c: complex numbers. A c64 tensor is another view of f32 pairs, and what computes with it
 * does so on the pairs: linear ops as if those were one more dim, the last, products by a formula.
 *
 * So gradients are dL/d(real part) + i dL/d(imaginary part), which is PyTorch's convention too.
 */
#include <weft/factory.h>
#include <weft/ops.h>

#include "base/error.h"
#include "ops/op_functions.h"
#include "ops/op_plan.h"

/* ---- views ---- */

/* x [*] of c64 -> [*,2] of f32 */
weft_status wf_shape_view_as_real(struct wf_infer *call)
{
    const struct wf_tensor_desc *x = &call->in[0]->desc;

    WF_NEED(x->dtype == WEFT_C64, WEFT_ERR_DTYPE, "view_as_real: needs c64: %s",
            wf_infer_inputs_text(call));
    WF_NEED(x->ndim < WEFT_MAX_DIMS, WEFT_ERR_SHAPE, "view_as_real: no room for one more dim: %s",
            wf_infer_inputs_text(call));
    wf_infer_output_like(call, 0, call->in[0]);
    call->out[0].dtype = WEFT_F32;
    call->out[0].shape[call->out[0].ndim++] = 2;
    return WEFT_OK;
}

bool wf_view_as_real(const struct wf_infer *call, const struct wf_tensor_desc *in,
                     const int64_t *shape, struct wf_view *view)
{
    (void)call;
    (void)shape;
    for (int d = 0; d < in->ndim; d++) view->stride[d] = 2 * in->stride[d];
    view->stride[in->ndim] = 1;
    return true;
}

weft_status wf_shape_view_as_complex(struct wf_infer *call)
{
    const struct wf_tensor_desc *x = &call->in[0]->desc;

    WF_NEED(x->dtype == WEFT_F32, WEFT_ERR_DTYPE, "view_as_complex: needs f32: %s",
            wf_infer_inputs_text(call));
    WF_NEED(x->ndim > 0 && x->global[x->ndim - 1] == 2, WEFT_ERR_SHAPE,
            "view_as_complex: needs a last dim of 2: %s", wf_infer_inputs_text(call));
    wf_infer_output_like(call, 0, call->in[0]);
    call->out[0].dtype = WEFT_C64;
    call->out[0].ndim--;
    return WEFT_OK;
}

bool wf_view_as_complex(const struct wf_infer *call, const struct wf_tensor_desc *in,
                        const int64_t *shape, struct wf_view *view)
{
    (void)call;
    (void)shape;
    if (in->numel > 0 && in->stride[in->ndim - 1] != 1) return false;
    for (int d = 0; d < in->ndim - 1; d++) {
        if (in->shape[d] > 1 && in->stride[d] % 2) return false;
        view->stride[d] = in->stride[d] / 2;
    }
    return true;
}

void wf_vjp_view_as_real(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    (void)n;
    in[0] = weft_view_as_complex(g);
}

void wf_vjp_view_as_complex(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    (void)n;
    in[0] = weft_view_as_real(g);
}

weft_tensor *weft_view_as_real(weft_tensor *x)
{
    return wf_dispatch_unary_op(WF_OP_view_as_real, x);
}

weft_tensor *weft_view_as_complex(weft_tensor *x)
{
    return wf_dispatch_unary_op(WF_OP_view_as_complex, x);
}

/* ---- ops ---- */

/* Of pairs, the real or the imaginary part; the dim stays. */
static weft_tensor *part_of_pairs(weft_tensor *pairs, int part)
{
    return weft_slice(pairs, -1, part, part + 1);
}

/* first and second next to each other: pairs */
static weft_tensor *make_pairs(weft_tensor *first, weft_tensor *second)
{
    return weft_cat((weft_tensor *[]){first, second}, 2, -1);
}

/* re(a) b + im(a) (i b), with i b = (-im(b), re(b)) */
static weft_tensor *multiply_complex(weft_tensor *a, weft_tensor *b)
{
    weft_tensor *x = weft_view_as_real(a), *y = weft_view_as_real(b);
    weft_tensor *turned = make_pairs(weft_neg(part_of_pairs(y, 1)), part_of_pairs(y, 0));

    return weft_view_as_complex(
        weft_addcmul(weft_mul(part_of_pairs(x, 0), y), part_of_pairs(x, 1), turned, 1));
}

static weft_tensor *cast_complex(weft_tensor *x, weft_dtype dtype)
{
    weft_tensor *real;

    WF_NEED_PTR(dtype == WEFT_C64, WEFT_ERR_DTYPE,
                "cast: of c64 to %s would drop the imaginary part; take weft_view_as_real",
                weft_dtype_name(dtype));
    real = weft_unsqueeze(weft_cast(x, WEFT_F32), -1);
    return weft_view_as_complex(make_pairs(real, weft_zeros_like(real)));
}

weft_tensor *wf_call_complex(enum wf_op op, weft_tensor *const *in, int n,
                             const struct wf_op_args *args, weft_tensor **more)
{
    struct wf_op_args of_pairs = *args;
    weft_tensor *pairs[WF_MAX_IN];

    WF_NEED_PTR(!args->into || (op != WF_OP_mul && op != WF_OP_cast), WEFT_ERR_DTYPE,
                "%s in place: not of c64 (complex numbers)", wf_ops[op].name);
    if (op == WF_OP_mul) return multiply_complex(in[0], in[1]);
    if (op == WF_OP_cast)
        return cast_complex(in[0], (weft_dtype)((const struct wf_cast_attrs *)args->attrs)->dtype);
    of_pairs.want = NULL;
    for (int i = 0; i < n; i++) {
        pairs[i] = in[i] ? weft_view_as_real(in[i]) : NULL;
        if (in[i] && !pairs[i]) return NULL;
    }
    if (!args->into) return weft_view_as_complex(wf_dispatch_op(op, pairs, n, &of_pairs, more));
    of_pairs.into = weft_view_as_real(args->into);
    return wf_dispatch_op(op, pairs, n, &of_pairs, more) ? args->into : NULL;
}

weft_tensor *weft_conj(weft_tensor *x)
{
    weft_tensor *pairs;

    if (!x) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "conj"));
    if (weft_tensor_dtype(x) != WEFT_C64) return x;
    pairs = weft_view_as_real(x);
    return weft_view_as_complex(
        make_pairs(part_of_pairs(pairs, 0), weft_neg(part_of_pairs(pairs, 1))));
}
