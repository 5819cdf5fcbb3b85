/*
 * compare_tensors.c: whether two tensors are equal or close: each rank compares its shards, then
 * one small reduction gives every rank the same answer.
 */
#include <math.h>
#include <string.h>

#include "base/elements/dtype.h"
#include "base/error.h"
#include "dtensor/convert/replica_check.h"
#include "dtensor/dispatch/redistribute_op.h"
#include "mesh/mesh.h"
#include "redistribute/redistribute.h"
#include "tensor/host_copy.h"
#include <weft/autograd.h>
#include <weft/dtensor.h>
#include <weft/ops.h>

struct bounds {
    double relative, absolute;
    bool equal_nan;
};

static bool are_numbers_close(double a, double b, const struct bounds *bounds)
{
    if (a == b) return true;
    if (isnan(a) && isnan(b)) return bounds->equal_nan;
    return isfinite(a) && isfinite(b) &&
           fabs(a - b) <= bounds->absolute + bounds->relative * fabs(b);
}

/* Compares two row-major tensors on the host. Integers are compared as bytes: converted to double,
 * large ones that differ could compare equal. */
static bool elements_are_close(const struct wf_host_elements *a, const struct wf_host_elements *b,
                               const struct bounds *bounds)
{
    const struct wf_dtype_info *info = &wf_dtypes[a->desc->dtype];
    const char *x = a->data, *y = b->data;
    size_t size = info->size;
    bool exact = !info->is_float && bounds->relative == 0 && bounds->absolute == 0;

    for (int64_t i = 0; i < a->desc->numel; i++, x += size, y += size) {
        if (!info->is_float && memcmp(x, y, size) == 0) continue;
        if (exact || !are_numbers_close(info->load(x), info->load(y), bounds)) return false;
    }
    return true;
}

static weft_status local_elements_are_close(bool *close, const weft_tensor *a, const weft_tensor *b,
                                            const struct bounds *bounds)
{
    struct wf_host_elements x, y;
    weft_status status;

    WF_TRY(wf_host_elements_open(&x, a, "allclose"));
    status = wf_host_elements_open(&y, b, "allclose");
    if (status == WEFT_OK) {
        *close = elements_are_close(&x, &y, bounds);
        wf_host_elements_close(&y);
    }
    wf_host_elements_close(&x);
    return status;
}

/* ---- one layout for both ---- */

static void placements_without_partial(weft_placement *out, const struct wf_layout *layout)
{
    for (int a = 0; a < layout->n_axes; a++) {
        out[a] = layout->placements[a];
        if (weft_is_partial(out[a])) out[a] = weft_replicate();
    }
}

/* The layout of the two to which fewer bytes have to be moved; the first if they are equal. */
static void redistribute_to_common_layout(weft_tensor **a, weft_tensor **b)
{
    weft_placement to[2][WEFT_MAX_AXES];
    double time[2];
    int best;

    placements_without_partial(to[0], (*a)->layout);
    placements_without_partial(to[1], (*b)->layout);
    for (int i = 0; i < 2; i++)
        time[i] = wf_redist_estimated_time((*a)->layout, to[i]) +
                  wf_redist_estimated_time((*b)->layout, to[i]);
    best = time[1] < time[0];
    *a = wf_redistribute(*a, to[best]);
    *b = wf_redistribute(*b, to[best]);
}

/* A plain tensor beside a distributed one is whole on every rank. */
static weft_tensor *replicate_if_plain(weft_tensor *t, const weft_tensor *other)
{
    if (!wf_is_plain(t) || wf_is_plain(other)) return t;
    return weft_from_local(weft_drop_grad_types(t), other->layout->mesh, NULL, NULL);
}

static weft_tensor *expand_to_shape(weft_tensor *t, const int64_t *shape, int ndim)
{
    const struct wf_tensor_desc *desc = &t->layout->desc;
    size_t bytes = (size_t)ndim * sizeof *shape;

    if (desc->ndim == ndim && memcmp(desc->global, shape, bytes) == 0) return t;
    return weft_expand(t, shape, ndim);
}

static weft_status broadcast_shape(int *ndim, int64_t *shape, const weft_tensor *a,
                                   const weft_tensor *b)
{
    const struct wf_tensor_desc *x = &a->layout->desc, *y = &b->layout->desc;

    *ndim = x->ndim > y->ndim ? x->ndim : y->ndim;
    for (int d = 0; d < *ndim; d++) {
        int i = d - (*ndim - x->ndim), j = d - (*ndim - y->ndim);
        int64_t m = i < 0 ? 1 : x->global[i], n = j < 0 ? 1 : y->global[j];

        WF_NEED(m == n || m == 1 || n == 1, WEFT_ERR_SHAPE,
                "allclose: shapes do not broadcast: sizes %lld and %lld in dim %d", (long long)m,
                (long long)n, d);
        shape[d] = m == 1 ? n : m;
    }
    return WEFT_OK;
}

static weft_status compare_in_common_layout(bool *out, weft_tensor *a, weft_tensor *b,
                                            const struct bounds *bounds)
{
    int64_t shape[WEFT_MAX_DIMS], differ;
    weft_mesh *mesh;
    bool close = false;
    int ndim;

    WF_TRY(broadcast_shape(&ndim, shape, a, b));
    a = replicate_if_plain(a, b);
    b = replicate_if_plain(b, a);
    if (!a || !b) return weft_error_status();
    mesh = a->layout->mesh;
    a = expand_to_shape(a, shape, ndim);
    b = expand_to_shape(b, shape, ndim);
    if (mesh && a && b) redistribute_to_common_layout(&a, &b);
    a = weft_contiguous(a);
    b = weft_contiguous(b);
    if (!a || !b) return weft_error_status();
    WF_TRY(local_elements_are_close(&close, a, b, bounds));
    differ = !close;
    if (mesh && weft_mesh_is_member(mesh))
        wf_mesh_all_reduce_int(mesh, (1u << weft_mesh_ndim(mesh)) - 1, WEFT_MAX, &differ);
    *out = !differ;
    return WEFT_OK;
}

static weft_status check_comparable(const weft_tensor *a, const weft_tensor *b, const char *who)
{
    weft_mesh *mesh = a->layout->mesh ? a->layout->mesh : b->layout->mesh;

    WF_TRY(wf_tensor_check_alive(a, who));
    WF_TRY(wf_tensor_check_alive(b, who));
    WF_NEED(a->layout->desc.dtype == b->layout->desc.dtype, WEFT_ERR_DTYPE,
            "%s: dtypes differ: %s and %s", who, weft_dtype_name(weft_tensor_dtype(a)),
            weft_dtype_name(weft_tensor_dtype(b)));
    WF_NEED(!wf_is_meta(a) && !wf_is_meta(b), WEFT_ERR_STATE,
            "%s: a tensor on the meta device has no elements", who);
    WF_NEED(wf_is_plain(a) || wf_is_plain(b) || a->layout->mesh == b->layout->mesh, WEFT_ERR_LAYOUT,
            "%s: the tensors are on different meshes", who);
    WF_NEED(!mesh || !weft_mesh_is_fake(mesh), WEFT_ERR_COMM, "%s: the mesh has no ranks", who);
    return WEFT_OK;
}

static weft_status compare_without_gradient(bool *out, weft_tensor *a, weft_tensor *b,
                                            const struct bounds *bounds)
{
    weft_scope *scope = weft_scope_open();
    weft_status status;

    weft_no_grad_open();
    status = compare_in_common_layout(out, a, b, bounds);
    weft_no_grad_close();
    weft_scope_close(scope);
    return status;
}

weft_status weft_equal(bool *out, weft_tensor *a, weft_tensor *b)
{
    static const struct bounds none;
    size_t bytes;

    WF_NEED_GIVEN(out && a && b, "equal: a tensor is NULL, or there is nowhere to write to");
    WF_TRY(check_comparable(a, b, "equal"));
    bytes = (size_t)weft_ndim(a) * sizeof(int64_t);
    if (weft_ndim(a) != weft_ndim(b) ||
        memcmp(a->layout->desc.global, b->layout->desc.global, bytes) != 0)
        return *out = false, WEFT_OK;
    return compare_without_gradient(out, a, b, &none);
}

static double tolerance_or_default(double asked, double standard)
{
    return asked == 0 ? standard : asked < 0 ? 0 : asked;
}

weft_status weft_allclose(bool *out, weft_tensor *a, weft_tensor *b, weft_allclose_options options)
{
    struct bounds bounds = {tolerance_or_default(options.relative, 1e-5),
                            tolerance_or_default(options.absolute, 1e-8), options.equal_nan};

    WF_NEED_GIVEN(out && a && b, "allclose: a tensor is NULL, or there is nowhere to write to");
    WF_TRY(check_comparable(a, b, "allclose"));
    return compare_without_gradient(out, a, b, &bounds);
}
