/* copy.c: elements copied: into a tensor of their own, or over another's. */
#include <weft/ops.h>

#include "base/error.h"
#include "ops/op_functions.h"

weft_tensor *weft_clone(weft_tensor *x) { return wf_dispatch_unary_op(WF_OP_copy, x); }

weft_tensor *weft_type_as(weft_tensor *x, const weft_tensor *like)
{
    if (!x || !like) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "type_as"));
    WF_TRY_PTR(wf_tensor_need_alive(like, "type_as"));
    return weft_tensor_dtype(x) == weft_tensor_dtype(like) ? x
                                                           : weft_cast(x, weft_tensor_dtype(like));
}

static bool expands_to(const struct wf_layout *x, const struct wf_layout *to)
{
    int missing = to->desc.ndim - x->desc.ndim;

    for (int d = 0; missing >= 0 && d < x->desc.ndim; d++)
        if (x->desc.global[d] != 1 && x->desc.global[d] != to->desc.global[d + missing])
            return false;
    return missing >= 0;
}

/* What keeps x from being written over `into`; NULL: nothing that shows here. */
static const char *difference(const struct wf_layout *into, const struct wf_layout *x)
{
    if (into->desc.dtype != x->desc.dtype) return "dtypes";
    if (!expands_to(x, into)) return "shapes";
    return into->mesh != x->mesh ? "layouts" : NULL;
}

static weft_status check_copy(const weft_tensor *into, const weft_tensor *x)
{
    const char *what = difference(into->layout, x->layout);
    char ours[256], theirs[256];

    if (!what) return WEFT_OK;
    weft_tensor_format(into, ours, sizeof ours);
    weft_tensor_format(x, theirs, sizeof theirs);
    return WF_FAIL(WEFT_ERR_SHAPE, "copy_: %s differ: %s is written over %s", what, theirs, ours);
}

static bool is_placed_like(const weft_tensor *x, const weft_tensor *into)
{
    for (int a = 0; a < into->layout->n_axes; a++)
        if (!weft_placement_equal(x->layout->placements[a], into->layout->placements[a]))
            return false;
    return true;
}

static bool has_shape_of(const weft_tensor *x, const weft_tensor *into)
{
    if (weft_ndim(x) != weft_ndim(into)) return false;
    for (int d = 0; d < weft_ndim(into); d++)
        if (x->layout->desc.global[d] != into->layout->desc.global[d]) return false;
    return true;
}

weft_status weft_copy_(weft_tensor *into, weft_tensor *x)
{
    struct wf_op_args args = {.into = into};

    WF_NEED_GIVEN(into && x, "copy_: a tensor is NULL");
    WF_TRY(wf_tensor_need_alive(into, "copy_"));
    WF_TRY(wf_tensor_need_alive(x, "copy_"));
    WF_NEED(!into->node, WEFT_ERR_STATE, "copy_: the tensor is the result of a recorded op");
    WF_TRY(check_copy(into, x));
    if (!has_shape_of(x, into)) x = wf_expand_to_shape_of(x, into->layout);
    if (x && !is_placed_like(x, into))
        x = wf_redistribute_implicitly("copy_", x, into->layout->placements);
    if (!x) return weft_error_status();
    return wf_dispatch_op_one_output(WF_OP_copy, &x, 1, &args) ? WEFT_OK : weft_error_status();
}
