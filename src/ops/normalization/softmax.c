/*
 * softmax.c: softmax, its logarithm, and the logarithm of a sum of exponentials.
 *
 * A dim that is whole on every rank is one kernel's. Of a dim that is sharded each rank keeps its
 * shard: the maximum along the dim and the sum of exponentials are two all-reduces of one number
 * per row, and the gradient needs one more (docs/decisions/0005).
 */
#include <weft/ops.h>

#include "base/elements/dtype.h"
#include "base/error.h"
#include "ops/op_functions.h"
#include "ops/op_plan.h"

static weft_tensor *call_along_dim(enum wf_op op, weft_tensor *a, weft_tensor *b, int64_t dim)
{
    struct wf_op_args args = {WF_ATTRS(dim, .dim = dim)};

    return wf_dispatch_op_one_output(op, (weft_tensor *[]){a, b}, b ? 2 : 1, &args);
}

void wf_vjp_softmax(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    in[0] = call_along_dim(WF_OP_softmax_grad, g, wf_saved_output(n, 0),
                           wf_tape_node_op_plan(n)->attrs.dim.dim);
}

void wf_vjp_log_softmax(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    in[0] = call_along_dim(WF_OP_log_softmax_grad, g, wf_saved_output(n, 0),
                           wf_tape_node_op_plan(n)->attrs.dim.dim);
}

/* ---- sums of exponentials, of x that is not partial ---- */

/* The maximum along the dims, which stay at size 1, on every rank; 0 where it is infinite, since
 * from that no difference can be taken. In the computing dtype. */
static weft_tensor *largest_finite(weft_tensor *x, int64_t mask)
{
    weft_tensor *most = wf_reduce_if_partial(wf_reduce_mask(WF_OP_max, x, mask, true, true));

    return most ? weft_where(weft_isinf(most), wf_number_like(most, 0), most) : NULL;
}

/* The sum of exp(x - most) along the dims, likewise; NULL for NULL. */
static weft_tensor *whole_sum_exp(weft_tensor *x, weft_tensor *most, int64_t mask)
{
    struct wf_op_args args = {WF_ATTRS(reduce, .dims = (uint32_t)mask, .keep = true)};

    return most ? wf_reduce_if_partial(wf_dispatch_op_one_output(
                      WF_OP_sum_exp, (weft_tensor *[]){x, most}, 2, &args))
                : NULL;
}

/* ---- softmax of a sharded dim ---- */

enum { RESULT }; /* saved */

/* y (g - sum of g y), and of the logarithm g - e^y sum of g. */
static void vjp_sharded_softmax(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    weft_tensor *saved = n->saved[RESULT];
    weft_tensor *y = weft_cast(saved, wf_computing_dtype(saved));
    int64_t mask = (int64_t)1 << n->v[0];
    bool log = n->v[1];
    weft_tensor *sum, *dx;

    g = weft_cast(g, wf_computing_dtype(saved));
    sum = wf_reduce_if_partial(wf_sum_masked_dims(log ? g : weft_mul(g, y), mask, true, 1, NULL));
    dx = log ? weft_sub(g, weft_mul(weft_exp(y), sum)) : weft_mul(y, weft_sub(g, sum));
    in[0] = dx ? weft_cast(dx, weft_tensor_dtype(saved)) : NULL;
}

static weft_tensor *sharded_softmax_forward(weft_tensor *x, int dim, bool log)
{
    int64_t mask = (int64_t)1 << dim;
    /* From an infinite one no difference is a number, and no softmax either, as on one device. */
    weft_tensor *most = wf_reduce_if_partial(wf_reduce_mask(WF_OP_max, x, mask, true, true));
    weft_tensor *sum = whole_sum_exp(x, most, mask), *y;

    if (!sum) return NULL;
    y = weft_sub(weft_cast(x, wf_computing_dtype(x)), most);
    y = log ? weft_sub(y, weft_log(sum)) : weft_mul(weft_exp(y), weft_reciprocal(sum));
    return weft_cast(y, weft_tensor_dtype(x));
}

static weft_tensor *sharded_softmax(const char *name, weft_tensor *x, int dim, bool log)
{
    weft_tensor *whole, *y, *kept;

    weft_no_grad_open();
    whole = wf_reduce_partial_operand(name, x);
    y = whole ? sharded_softmax_forward(whole, dim, log) : NULL;
    kept = weft_detach(y);
    weft_no_grad_close();
    if (y && kept && wf_should_record(&x, 1)) {
        struct wf_tape_node *n = wf_tape_record(y, vjp_sharded_softmax, name, &x, 1);

        n->v[0] = dim;
        n->v[1] = log;
        wf_tape_node_save(n, RESULT, kept); /* y itself holds the node */
        wf_tape_node_shard_saved(n);
    }
    return y;
}

static weft_tensor *softmax(enum wf_op op, const char *name, weft_tensor *x, int dim, bool log)
{
    int d;

    if (!x) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, name));
    if (wf_is_dim_of_scalar(x, dim))
        return weft_reshape(softmax(op, name, weft_atleast_nd(x, 1), 0, log), NULL, 0);
    d = wf_normalize_dim(dim, weft_ndim(x), name);
    if (d < 0) return NULL;
    if (wf_is_sharded_along(x, d) && weft_dtype_is_float(weft_tensor_dtype(x)) &&
        !wf_op_has_user_rule(op))
        return sharded_softmax(name, x, d, log);
    return call_along_dim(op, x, NULL, d);
}

weft_tensor *weft_softmax(weft_tensor *x, int dim)
{
    return softmax(WF_OP_softmax, "softmax", x, dim, false);
}

weft_tensor *weft_log_softmax(weft_tensor *x, int dim)
{
    return softmax(WF_OP_log_softmax, "log_softmax", x, dim, true);
}

/* ---- logsumexp ---- */

enum { ELEMENTS, LOG_SUM }; /* saved */

/* dx = g exp(x - y): nothing is sent. */
static void vjp_logsumexp(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    weft_tensor *x = n->saved[ELEMENTS], *y = n->saved[LOG_SUM], *share;

    g = wf_reshape_to_kept_dims(g, &x->layout->desc, n->v[0]);
    y = weft_where(weft_isinf(y), wf_number_like(y, 0), y);
    share = weft_exp(weft_sub(weft_cast(x, wf_computing_dtype(x)), y));
    in[0] = weft_cast(weft_mul(share, weft_cast(g, wf_computing_dtype(x))), weft_tensor_dtype(x));
}

/* With the dims at size 1, on every rank, in the computing dtype. */
static weft_tensor *logsumexp_forward(weft_tensor *x, int64_t mask)
{
    weft_tensor *most = largest_finite(x, mask), *sum = whole_sum_exp(x, most, mask);

    return sum ? weft_add(weft_log(sum), most) : NULL;
}

/* The dims in the mask, which have size 1, are dropped unless they are kept. */
static weft_tensor *finish_dims(weft_tensor *t, int64_t mask, bool keep)
{
    int64_t shape[WEFT_MAX_DIMS];
    int n = 0;

    if (keep) return t;
    for (int d = 0; d < weft_ndim(t); d++)
        if (!(mask >> d & 1)) shape[n++] = weft_size(t, d);
    return wf_reshape_to(t, shape, n, NULL);
}

weft_tensor *weft_logsumexp(weft_tensor *x, const int *dims, int n, bool keep)
{
    weft_tensor *whole, *log_sum, *y;
    int64_t mask;

    if (!x) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "logsumexp"));
    WF_TRY_PTR(wf_need_float(x, "logsumexp"));
    mask = wf_dims_to_mask(x, dims, n, "logsumexp");
    whole = mask < 0 ? NULL : wf_reduce_partial_operand("logsumexp", x);
    if (!whole) return NULL;
    weft_no_grad_open();
    log_sum = logsumexp_forward(weft_detach(whole), mask);
    y = log_sum ? wf_dispatch_unary_op(
                      WF_OP_copy, finish_dims(weft_cast(log_sum, weft_tensor_dtype(x)), mask, keep))
                : NULL;
    weft_no_grad_close();
    if (y && wf_should_record(&whole, 1)) {
        struct wf_tape_node *node = wf_tape_record(y, vjp_logsumexp, "logsumexp", &whole, 1);

        node->v[0] = mask;
        wf_tape_node_save(node, ELEMENTS, whole);
        wf_tape_node_save(node, LOG_SUM, log_sum);
        wf_tape_node_shard_saved(node);
    }
    return y;
}
