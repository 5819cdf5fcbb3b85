/*
 * split.c: a dim in pieces.
 *
 * Where the dim is cut and there are several pieces it is brought together once, not for each.
 */
#include <weft/ops.h>

#include <string.h>

#include "base/error.h"
#include "ops/op_functions.h"

weft_tensor *wf_gather_dim(const char *who, weft_tensor *x, int dim)
{
    weft_placement to[WEFT_MAX_AXES];
    bool cut = false;

    memcpy(to, x->layout->placements, sizeof to);
    for (int a = 0; a < x->layout->n_axes; a++) {
        if (!weft_shards(to[a], dim)) continue;
        to[a] = weft_replicate();
        cut = true;
    }
    return cut ? wf_redistribute_implicitly(who, x, to) : x;
}

static weft_status check_split_sizes(int64_t size, int dim, const int64_t *sizes, int n)
{
    int64_t total = 0;

    if (!sizes) {
        WF_NEED(n > 0 && size % n == 0, WEFT_ERR_SHAPE,
                "split: dim %d has %lld elements, which are no %d equal pieces", dim,
                (long long)size, n);
        return WEFT_OK;
    }
    for (int i = 0; i < n; i++) {
        WF_NEED(sizes[i] >= 0, WEFT_ERR_SHAPE, "split: piece %d has size %lld", i,
                (long long)sizes[i]);
        total = sizes[i] > INT64_MAX - total ? INT64_MAX : total + sizes[i];
    }
    WF_NEED(total == size, WEFT_ERR_SHAPE, "split: pieces add up to %lld, dim %d has %lld",
            (long long)total, dim, (long long)size);
    return WEFT_OK;
}

/* The pieces of a dim, `first` elements in each but for those in sizes[], where it is given; the
 * last has what is left. */
static weft_status cut_in_pieces(const char *who, weft_tensor **out, weft_tensor *x, int d,
                                 const int64_t *sizes, int64_t each, int n)
{
    int64_t start = 0, size = x->layout->desc.global[d];

    if (n > 1) x = wf_gather_dim(who, x, d);
    if (!x) return weft_error_status();
    for (int i = 0; i < n; i++) {
        int64_t piece = sizes ? sizes[i] : each < size - start ? each : size - start;

        out[i] = weft_slice(x, d, start, start + piece);
        if (!out[i]) return weft_error_status();
        start += piece;
    }
    return WEFT_OK;
}

weft_status weft_split(weft_tensor **out, weft_tensor *x, int dim, const int64_t *sizes, int n)
{
    int64_t size;
    int d;

    WF_NEED_GIVEN(x, "split: no tensor");
    WF_NEED_GIVEN(out, "split: no array for the pieces");
    WF_TRY(wf_tensor_need_alive(x, "split"));
    d = wf_normalize_dim(dim, weft_ndim(x), "split");
    if (d < 0) return WEFT_ERR_ARG;
    size = x->layout->desc.global[d];
    WF_TRY(check_split_sizes(size, d, sizes, n));
    return cut_in_pieces("split", out, x, d, sizes, sizes ? 0 : size / n, n);
}

/* gives: the dim, -1 with an error */
static int dim_to_cut(const char *who, weft_tensor **out, const weft_tensor *x, int dim)
{
    if (!x || !out) {
        if (weft_error_status() == WEFT_OK)
            WF_FAIL(WEFT_ERR_ARG, "%s: no %s", who, x ? "array for the pieces" : "tensor");
        return -1;
    }
    if (wf_tensor_need_alive(x, who) != WEFT_OK) return -1;
    return wf_normalize_dim(dim, weft_ndim(x), who);
}

static int pieces_of_size(const char *who, weft_tensor **out, weft_tensor *x, int d, int64_t each)
{
    int64_t size = x->layout->desc.global[d], n = size == 0 ? 1 : (size - 1) / each + 1;

    if (n > INT32_MAX) {
        WF_FAIL(WEFT_ERR_ARG, "%s: %lld pieces", who, (long long)n);
        return -1;
    }
    return cut_in_pieces(who, out, x, d, NULL, each, (int)n) == WEFT_OK ? (int)n : -1;
}

int weft_split_size(weft_tensor **out, weft_tensor *x, int dim, int64_t size)
{
    int d = dim_to_cut("split_size", out, x, dim);

    if (d < 0) return -1;
    if (size <= 0) {
        WF_FAIL(WEFT_ERR_ARG, "split_size: pieces of %lld elements", (long long)size);
        return -1;
    }
    return pieces_of_size("split_size", out, x, d, size);
}

int weft_split_chunks(weft_tensor **out, int n, weft_tensor *x, int dim)
{
    int d = dim_to_cut("split_chunks", out, x, dim);
    int64_t each;

    if (d < 0) return -1;
    if (n <= 0) {
        WF_FAIL(WEFT_ERR_ARG, "split_chunks: %d chunks", n);
        return -1;
    }
    each = (x->layout->desc.global[d] + n - 1) / n;
    if (each == 0) return cut_in_pieces("split_chunks", out, x, d, NULL, 0, n) == WEFT_OK ? n : -1;
    return pieces_of_size("split_chunks", out, x, d, each);
}

weft_status weft_split_even(weft_tensor **out, int n, weft_tensor *x, int dim)
{
    int d = dim_to_cut("split_even", out, x, dim);
    int64_t start = 0, size;

    if (d < 0) return weft_error_status();
    WF_NEED(n > 0, WEFT_ERR_ARG, "split_even: %d pieces", n);
    size = x->layout->desc.global[d];
    if (n > 1) x = wf_gather_dim("split_even", x, d);
    if (!x) return weft_error_status();
    for (int i = 0; i < n; i++) {
        int64_t piece = size / n + (i < size % n);

        out[i] = weft_slice(x, d, start, start + piece);
        if (!out[i]) return weft_error_status();
        start += piece;
    }
    return WEFT_OK;
}

weft_status weft_unbind(weft_tensor **out, weft_tensor *x, int dim)
{
    int d = dim_to_cut("unbind", out, x, dim);
    int64_t size;

    if (d < 0) return weft_error_status();
    size = x->layout->desc.global[d];
    if (size > 1) x = wf_gather_dim("unbind", x, d);
    if (!x) return weft_error_status();
    for (int64_t i = 0; i < size; i++) {
        out[i] = weft_select(x, d, i);
        if (!out[i]) return weft_error_status();
    }
    return WEFT_OK;
}
