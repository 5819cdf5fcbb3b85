/* dims.c: dims that are joined, taken apart, added, left out and put in another order; all of them
 * are a reshape, a permutation or an expansion. */
#include <weft/ops.h>

#include "base/error.h"
#include "ops/op_functions.h"
#include "ops/shape/reshape_rule.h"
#include "tensor/shape.h"

static const int64_t *shape_of(const weft_tensor *x) { return x->layout->desc.global; }

/* ---- view ---- */

/* This rank's elements of dims that are to be joined lie as if they were one dim. */
static bool lies_as_one_dim(const struct wf_tensor_desc *x, const int8_t *dims, int n)
{
    int64_t expected = -1;

    for (int i = n - 1; i >= 0; i--) {
        int d = dims[i];

        if (x->shape[d] == 1) continue;
        if (expected >= 0 && x->stride[d] != expected) return false;
        expected = x->stride[d] * x->shape[d];
    }
    return true;
}

static bool can_be_viewed(const weft_tensor *x, const int64_t *shape, int ndim)
{
    struct wf_reshape_group groups[WEFT_MAX_DIMS];
    const struct wf_tensor_desc *desc = &x->layout->desc;
    int n;

    if (desc->numel == 0 || x->layout->numel == 0) return true;
    n = wf_reshape_groups(groups, desc->global, desc->ndim, shape, ndim);
    for (int g = 0; g < n; g++)
        if (!lies_as_one_dim(desc, groups[g].old_dim, groups[g].n_old)) return false;
    return true;
}

/* Where a copy would be needed. */
static weft_status refuse_view(const weft_tensor *x)
{
    char what[256];

    weft_tensor_format(x, what, sizeof what);
    WF_NEED(wf_strides_may_differ(x), WEFT_ERR_SHAPE,
            "view: the elements of %s do not lie so that they can be seen in this shape; "
            "weft_reshape copies them",
            what);
    return WF_FAIL_LOCAL(WEFT_ERR_SHAPE,
                         "view: this rank's elements of %s do not lie so that they can be seen in "
                         "this shape; weft_reshape copies them",
                         what);
}

weft_tensor *weft_view(weft_tensor *x, const int64_t *shape, int ndim)
{
    int64_t sizes[WEFT_MAX_DIMS];

    if (!x) return NULL;
    WF_TRY_PTR(wf_reshape_sizes(x, shape, ndim, sizes));
    if (wf_shape_numel(sizes, ndim) == x->layout->numel && !can_be_viewed(x, sizes, ndim))
        return (void)refuse_view(x), NULL;
    return wf_reshape_to(x, sizes, ndim, NULL);
}

/* ---- joined and taken apart ---- */

weft_tensor *weft_flatten(weft_tensor *x, int start, int end)
{
    int64_t shape[WEFT_MAX_DIMS];
    int first, last, n = 0;

    if (!x) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "flatten"));
    if (weft_ndim(x) == 0) return weft_ravel(x);
    first = wf_normalize_dim(start, weft_ndim(x), "flatten");
    last = wf_normalize_dim(end, weft_ndim(x), "flatten");
    if (first < 0 || last < 0) return NULL;
    WF_NEED_PTR(first <= last, WEFT_ERR_ARG, "flatten: dims %d to %d", first, last);
    if (first == last) return x;
    for (int d = 0; d < weft_ndim(x); d++) {
        if (d > first && d <= last)
            shape[n - 1] *= shape_of(x)[d];
        else
            shape[n++] = shape_of(x)[d];
    }
    return wf_reshape_to(x, shape, n, NULL);
}

weft_tensor *weft_ravel(weft_tensor *x)
{
    if (!x) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "ravel"));
    return weft_ndim(x) == 1 ? x : wf_reshape_to(x, &x->layout->numel, 1, NULL);
}

/* One of the sizes may be -1. */
static weft_status sizes_of_unflattened(int64_t *to, int64_t size, const int64_t *sizes, int n)
{
    int64_t product = 1;
    int open = -1;

    for (int i = 0; i < n; i++) {
        WF_NEED(sizes[i] >= -1 && (sizes[i] >= 0 || open < 0), WEFT_ERR_SHAPE,
                "unflatten: size %lld; one size may be -1", (long long)sizes[i]);
        to[i] = sizes[i];
        if (sizes[i] < 0) to[open = i] = 1;
    }
    product = wf_shape_numel(to, n);
    if (open >= 0) to[open] = product > 0 && size % product == 0 ? size / product : -1;
    WF_NEED(open >= 0 ? to[open] >= 0 : product == size, WEFT_ERR_SHAPE,
            "unflatten: the sizes do not multiply to %lld", (long long)size);
    return WEFT_OK;
}

weft_tensor *weft_unflatten(weft_tensor *x, int dim, const int64_t *sizes, int n)
{
    int64_t shape[WEFT_MAX_DIMS];
    int d, ndim;

    if (!x) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "unflatten"));
    d = wf_normalize_dim(dim, weft_ndim(x), "unflatten");
    if (d < 0) return NULL;
    ndim = weft_ndim(x) - 1 + n;
    WF_NEED_PTR(sizes && n > 0, WEFT_ERR_ARG, "unflatten: no sizes");
    WF_NEED_PTR(n <= WEFT_MAX_DIMS && ndim <= WEFT_MAX_DIMS, WEFT_ERR_SHAPE,
                "unflatten: %d sizes for one of %d dims", n, weft_ndim(x));
    for (int i = 0; i < d; i++) shape[i] = shape_of(x)[i];
    WF_TRY_PTR(sizes_of_unflattened(shape + d, shape_of(x)[d], sizes, n));
    for (int i = d + 1; i < weft_ndim(x); i++) shape[i + n - 1] = shape_of(x)[i];
    return wf_reshape_to(x, shape, ndim, NULL);
}

/* ---- dims of size 1 ---- */

weft_tensor *wf_squeeze_to_scalar(weft_tensor *y, weft_tensor **more)
{
    if (!y) return NULL;
    if (more && *more) *more = weft_reshape(*more, NULL, 0);
    return more && !*more ? NULL : weft_reshape(y, NULL, 0);
}

weft_tensor *weft_squeeze(weft_tensor *x, const int *dims, int n)
{
    int64_t shape[WEFT_MAX_DIMS], mask;
    int left = 0;

    if (!x) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "squeeze"));
    mask = wf_dims_to_mask(x, dims, n, "squeeze");
    if (mask < 0) return NULL;
    for (int d = 0; d < weft_ndim(x); d++)
        if (!(mask >> d & 1) || shape_of(x)[d] != 1) shape[left++] = shape_of(x)[d];
    return left == weft_ndim(x) ? x : wf_reshape_to(x, shape, left, NULL);
}

weft_tensor *weft_unsqueeze(weft_tensor *x, int dim)
{
    int64_t shape[WEFT_MAX_DIMS];
    int d, n = 0;

    if (!x) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "unsqueeze"));
    WF_NEED_PTR(weft_ndim(x) < WEFT_MAX_DIMS, WEFT_ERR_SHAPE, "unsqueeze: %d dims are the most",
                WEFT_MAX_DIMS);
    d = wf_normalize_dim(dim, weft_ndim(x) + 1, "unsqueeze");
    if (d < 0) return NULL;
    for (int i = 0; i <= weft_ndim(x); i++) shape[i] = i == d ? 1 : shape_of(x)[n++];
    return wf_reshape_to(x, shape, weft_ndim(x) + 1, NULL);
}

weft_tensor *weft_atleast_nd(weft_tensor *x, int ndim)
{
    static const int64_t one[3] = {1, 1, 1};
    int64_t shape[3];

    if (!x) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "atleast_nd"));
    WF_NEED_PTR(ndim >= 1 && ndim <= 3, WEFT_ERR_ARG, "atleast_nd: %d dims, not 1, 2 or 3", ndim);
    if (weft_ndim(x) >= ndim) return x;
    if (weft_ndim(x) == 0) return wf_reshape_to(x, one, ndim, NULL);
    shape[0] = weft_ndim(x) == 1 ? 1 : shape_of(x)[0];
    shape[1] = shape_of(x)[weft_ndim(x) - 1];
    shape[2] = 1;
    return wf_reshape_to(x, shape, ndim, NULL);
}

/* ---- another order ---- */

weft_tensor *weft_movedim(weft_tensor *x, const int *from, const int *to, int n)
{
    int order[WEFT_MAX_DIMS], next = 0;
    unsigned moved = 0, filled = 0;

    if (!x) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "movedim"));
    WF_NEED_PTR(n >= 0 && n <= weft_ndim(x) && (n == 0 || (from && to)), WEFT_ERR_ARG,
                "movedim: %d dims of a tensor with %d", n, weft_ndim(x));
    for (int i = 0; i < n; i++) {
        int source = wf_normalize_dim(from[i], weft_ndim(x), "movedim"),
            target = wf_normalize_dim(to[i], weft_ndim(x), "movedim");

        if (source < 0 || target < 0) return NULL;
        WF_NEED_PTR(!(moved >> source & 1) && !(filled >> target & 1), WEFT_ERR_ARG,
                    "movedim: dim %d to %d: a dim stands twice", source, target);
        moved |= 1u << source;
        filled |= 1u << target;
        order[target] = source;
    }
    for (int d = 0; d < weft_ndim(x); d++) {
        if (filled >> d & 1) continue;
        while (moved >> next & 1) next++;
        order[d] = next++;
    }
    return weft_permute(x, order);
}

weft_tensor *weft_t(weft_tensor *x)
{
    if (!x) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "t"));
    WF_NEED_PTR(weft_ndim(x) <= 2, WEFT_ERR_SHAPE, "t: %d dims, not at most 2", weft_ndim(x));
    return weft_ndim(x) < 2 ? x : weft_transpose(x, 0, 1);
}

/* ---- repeated ---- */

weft_tensor *weft_expand_as(weft_tensor *x, const weft_tensor *like)
{
    if (!x || !like) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(like, "expand_as"));
    return weft_expand(x, shape_of(like), weft_ndim(like));
}

/* A dim n times: as a whole, or each of its elements. */
static weft_tensor *repeat_dim(weft_tensor *x, int dim, int64_t n, bool elements)
{
    int64_t apart[WEFT_MAX_DIMS + 1], repeated[WEFT_MAX_DIMS + 1], joined[WEFT_MAX_DIMS];
    int ndim = weft_ndim(x), at = elements ? dim + 1 : dim;

    for (int d = 0; d < ndim; d++) joined[d] = shape_of(x)[d];
    WF_NEED_PTR(n == 0 || joined[dim] <= INT64_MAX / n, WEFT_ERR_SHAPE,
                "repeat: %lld times %lld elements", (long long)n, (long long)joined[dim]);
    if (shape_of(x)[dim] == 1) {
        joined[dim] = n;
        return weft_expand(x, joined, ndim);
    }
    WF_NEED_PTR(ndim < WEFT_MAX_DIMS, WEFT_ERR_SHAPE, "repeat: %d dims are too many to repeat one",
                ndim);
    for (int d = 0; d <= ndim; d++) {
        apart[d] = d == at ? 1 : shape_of(x)[d < at ? d : d - 1];
        repeated[d] = d == at ? n : apart[d];
    }
    joined[dim] *= n;
    return weft_reshape(weft_expand(weft_reshape(x, apart, ndim + 1), repeated, ndim + 1), joined,
                        ndim);
}

weft_tensor *weft_tile(weft_tensor *x, const int64_t *repeats, int n)
{
    int64_t shape[WEFT_MAX_DIMS];
    int missing;

    if (!x) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "tile"));
    WF_NEED_PTR(n >= 0 && n <= WEFT_MAX_DIMS && (repeats || n == 0), WEFT_ERR_ARG,
                "tile: %d repeats", n);
    for (int i = 0; i < n; i++)
        WF_NEED_PTR(repeats[i] >= 0, WEFT_ERR_ARG, "tile: %lld repeats", (long long)repeats[i]);
    missing = n - weft_ndim(x);
    if (missing > 0) {
        for (int d = 0; d < n; d++) shape[d] = d < missing ? 1 : shape_of(x)[d - missing];
        x = wf_reshape_to(x, shape, n, NULL);
        missing = 0;
    }
    for (int i = n - 1; x && i >= 0; i--)
        if (repeats[i] != 1) x = repeat_dim(x, i - missing, repeats[i], false);
    return x ? weft_contiguous(x) : NULL;
}

weft_tensor *weft_repeat(weft_tensor *x, const int64_t *repeats, int n)
{
    if (!x) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "repeat"));
    WF_NEED_PTR(n >= weft_ndim(x), WEFT_ERR_SHAPE, "repeat: %d repeats for %d dims", n,
                weft_ndim(x));
    return weft_tile(x, repeats, n);
}

weft_tensor *weft_repeat_interleave(weft_tensor *x, int64_t repeats, int dim)
{
    int d;

    if (!x) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(x, "repeat_interleave"));
    d = wf_normalize_dim(dim, weft_ndim(x), "repeat_interleave");
    if (d < 0) return NULL;
    WF_NEED_PTR(repeats >= 0, WEFT_ERR_ARG, "repeat_interleave: %lld repeats", (long long)repeats);
    if (repeats != 1) x = repeat_dim(x, d, repeats, true);
    return x ? weft_contiguous(x) : NULL;
}
