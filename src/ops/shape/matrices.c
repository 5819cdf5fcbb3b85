/* matrices.c: triangles and diagonals of the matrices that the last two dims, or any two, make. */
#include <weft/ops.h>

#include "base/error.h"
#include "ops/op_functions.h"
#include "ops/op_plan.h"

weft_status wf_shape_band(struct wf_infer *call)
{
    WF_NEED(call->in[0]->desc.ndim >= 2, WEFT_ERR_SHAPE, "%s: needs a matrix, not %s", call->name,
            wf_infer_inputs_text(call));
    wf_infer_output_like(call, 0, call->in[0]);
    return WEFT_OK;
}

static weft_tensor *keep_band(weft_tensor *x, int64_t low, int64_t high, struct wf_layout *want)
{
    struct wf_op_args args = {.scalars.v = {low, high}, .want = want};

    return wf_dispatch_op_one_output(WF_OP_keep_band, &x, 1, &args);
}

void wf_vjp_band(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    in[0] = keep_band(g, n->v[0], n->v[1], wf_tape_node_input_layout(n, 0));
}

weft_tensor *weft_tril(weft_tensor *x, int64_t diagonal)
{
    return keep_band(x, INT64_MIN, diagonal, NULL);
}

weft_tensor *weft_triu(weft_tensor *x, int64_t diagonal)
{
    return keep_band(x, diagonal, INT64_MAX, NULL);
}

/* ---- diagonals: of a matrix flattened to one dim, every so many elements ---- */

/* The diagonal of the last two dims. */
static weft_tensor *last_diagonal(weft_tensor *x, int64_t offset)
{
    int64_t rows = weft_size(x, -2), columns = weft_size(x, -1);
    int64_t start = offset >= 0 ? offset : -offset * columns;
    int64_t length = offset >= 0 ? columns - offset : rows + offset;

    if (length > (offset >= 0 ? rows : columns)) length = offset >= 0 ? rows : columns;
    x = weft_flatten(x, -2, -1);
    if (!x) return NULL;
    if (length <= 0) return weft_slice(x, -1, 0, 0);
    return weft_slice_step(x, -1, start, start + (length - 1) * (columns + 1) + 1, columns + 1);
}

weft_tensor *weft_diagonal(weft_tensor *x, int64_t offset, int dim0, int dim1)
{
    int a, b;

    if (!x) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "diagonal"));
    a = wf_normalize_dim(dim0, weft_ndim(x), "diagonal");
    b = wf_normalize_dim(dim1, weft_ndim(x), "diagonal");
    if (a < 0 || b < 0) return NULL;
    WF_NEED_PTR(a != b, WEFT_ERR_ARG, "diagonal: dim %d with itself", a);
    WF_NEED_PTR(offset > -weft_numel(x) - 1 && offset < weft_numel(x) + 1, WEFT_ERR_ARG,
                "diagonal: offset %lld", (long long)offset);
    x = weft_movedim(x, (int[]){a, b}, (int[]){-2, -1}, 2);
    return x ? last_diagonal(x, offset) : NULL;
}

weft_tensor *weft_diag_embed(weft_tensor *x, int64_t offset)
{
    int64_t n, side;

    if (!x) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "diag_embed"));
    WF_NEED_PTR(weft_ndim(x) >= 1 && weft_ndim(x) < WEFT_MAX_DIMS, WEFT_ERR_SHAPE,
                "diag_embed: %d dims", weft_ndim(x));
    n = weft_size(x, -1);
    WF_NEED_PTR(offset > -INT32_MAX && offset < INT32_MAX && n < INT32_MAX, WEFT_ERR_ARG,
                "diag_embed: offset %lld", (long long)offset);
    side = n + (offset < 0 ? -offset : offset);
    x = wf_spread_last_dim(x, offset >= 0 ? offset : -offset * side, side + 1, side * side);
    return x ? weft_unflatten(x, -1, (int64_t[]){side, side}, 2) : NULL;
}

weft_tensor *weft_diag(weft_tensor *x, int64_t offset)
{
    if (!x) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "diag"));
    WF_NEED_PTR(weft_ndim(x) == 1 || weft_ndim(x) == 2, WEFT_ERR_SHAPE, "diag: %d dims, not 1 or 2",
                weft_ndim(x));
    return weft_ndim(x) == 1 ? weft_diag_embed(x, offset) : weft_diagonal(x, offset, 0, 1);
}
