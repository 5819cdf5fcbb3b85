/* order.c: elements of a dim in another order: the other way round, and in a circle. */
#include <weft/ops.h>

#include "base/error.h"
#include "base/mem.h"
#include "ops/op_functions.h"

static weft_tensor *flip_dim(weft_tensor *x, int d)
{
    int64_t n = weft_size(x, d);
    int64_t *places = wf_malloc(((size_t)n + 1) * sizeof *places);
    weft_tensor *index;

    for (int64_t i = 0; i < n; i++) places[i] = n - 1 - i;
    index = wf_index_like(x, places, n);
    wf_free(places);
    return index ? weft_index_select(x, d, index) : NULL;
}

weft_tensor *weft_flip(weft_tensor *x, const int *dims, int n)
{
    weft_tensor *y = x;
    int64_t mask;

    if (!x) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "flip"));
    WF_NEED_PTR(n >= 0, WEFT_ERR_ARG, "flip: %d dims", n);
    if (n == 0) return wf_dispatch_unary_op(WF_OP_copy, x);
    mask = wf_dims_to_mask(x, dims, n, "flip");
    if (mask < 0) return NULL;
    for (int d = 0; y && d < weft_ndim(x); d++)
        if (mask >> d & 1 && weft_size(x, d) > 1) y = flip_dim(y, d);
    return y == x ? wf_dispatch_unary_op(WF_OP_copy, x) : y;
}

static weft_tensor *roll_dim(weft_tensor *x, int d, int64_t shift)
{
    int64_t n = weft_size(x, d);
    weft_tensor *piece[2];

    if (n < 2 || shift % n == 0) return x;
    shift = (shift % n + n) % n;
    x = wf_gather_dim("roll", x, d);
    if (!x) return NULL;
    piece[0] = weft_slice(x, d, n - shift, n);
    piece[1] = weft_slice(x, d, 0, n - shift);
    return weft_cat(piece, 2, d);
}

/* All elements as one row. */
static weft_tensor *roll_all(weft_tensor *x, int64_t shift)
{
    weft_tensor *row = weft_reshape(x, (int64_t[]){weft_numel(x)}, 1);
    weft_tensor *rolled = row ? roll_dim(row, 0, shift) : NULL;

    if (!rolled) return NULL;
    if (rolled == row) return wf_dispatch_unary_op(WF_OP_copy, x);
    return wf_reshape_to(rolled, x->layout->desc.global, weft_ndim(x), NULL);
}

weft_tensor *weft_roll(weft_tensor *x, const int64_t *shifts, const int *dims, int n)
{
    weft_tensor *y = x;

    if (!x) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "roll"));
    WF_NEED_PTR(n > 0 && shifts, WEFT_ERR_ARG, "roll: no shifts");
    WF_NEED_PTR(dims || n == 1, WEFT_ERR_ARG, "roll: %d shifts, but no dims", n);
    if (!dims) return roll_all(x, shifts[0]);
    for (int i = 0; y && i < n; i++) {
        int d = wf_normalize_dim(dims[i], weft_ndim(x), "roll");

        if (d < 0) return NULL;
        y = roll_dim(y, d, shifts[i]);
    }
    return y == x ? wf_dispatch_unary_op(WF_OP_copy, x) : y;
}
