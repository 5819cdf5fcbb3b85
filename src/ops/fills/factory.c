/*
 * factory.c: tensors made where they will live. A tensor of the spec's layout is made empty, then
 * filled in place by an op that knows where its elements lie in the whole, so no rank ever holds
 * more than its shard.
 */
#include <weft/factory.h>

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "ops/fills/fill_ops.h"
#include "tensor/shape.h"
#include <weft/autograd.h>

/* ---- empty ---- */

static weft_status check_placements(const weft_spec *spec, weft_placement *normal)
{
    int n = spec->mesh ? weft_mesh_ndim(spec->mesh) : 0;

    WF_TRY(wf_placements_normalize(normal, spec->placements, n, spec->ndim, "new tensor"));
    WF_TRY(wf_placements_check_segments(normal, n, spec->shape, "new tensor"));
    for (int a = 0; a < n; a++)
        WF_NEED(normal[a].kind != WEFT_KIND_PARTIAL, WEFT_ERR_LAYOUT,
                "new tensor: axis %s cannot start as a partial result",
                weft_mesh_axis_name(spec->mesh, a));
    for (int a = n; a < WEFT_MAX_AXES; a++)
        WF_NEED(spec->placements[a].kind == WEFT_KIND_REPLICATE, WEFT_ERR_LAYOUT,
                "new tensor: placement %d, but the mesh has %d axes", a, n);
    return WEFT_OK;
}

static weft_status read_placements(weft_spec *spec)
{
    int n = spec->mesh ? weft_mesh_ndim(spec->mesh) : 0, count;

    if (!spec->placed) return WEFT_OK;
    memset(spec->placements, 0, sizeof spec->placements);
    count = weft_placements_parse(spec->placements, WEFT_MAX_AXES, spec->placed);
    if (count < 0) return weft_error_status();
    WF_NEED(count == n, WEFT_ERR_ARG,
            "new tensor: placements and mesh axes must have the same length, not %d and %d", count,
            n);
    spec->placed = NULL;
    return WEFT_OK;
}

static weft_tensor *empty_on_device(weft_spec *spec, weft_device device)
{
    weft_placement normal[WEFT_MAX_AXES];
    struct wf_layout *layout;
    weft_tensor *t;

    WF_TRY_PTR(wf_shape_check(spec->dtype, spec->shape, spec->ndim));
    WF_NEED_PTR((unsigned)spec->device < WEFT_DEVICES, WEFT_ERR_ARG,
                "new tensor: there is no device %d", (int)spec->device);
    WF_NEED_PTR(!spec->requires_grad || weft_dtype_is_float(spec->dtype), WEFT_ERR_DTYPE,
                "new tensor: %s carries no gradient", weft_dtype_name(spec->dtype));
    WF_TRY_PTR(read_placements(spec));
    WF_TRY_PTR(check_placements(spec, normal));
    layout = wf_layout_on_device(
        wf_layout_new(spec->mesh, normal, spec->dtype, spec->shape, NULL, spec->ndim), device);
    t = wf_tensor_new_empty(layout, WF_MEM_ACTIVATIONS, "new tensor");
    wf_layout_release(layout);
    return t && spec->requires_grad ? weft_set_requires_grad(t, true) : t;
}

static weft_device device_of_spec(const weft_spec *spec)
{
    weft_device standard = wf_default_device();

    if (spec->device != WEFT_CPU) return spec->device;
    return spec->mesh && standard != WEFT_META ? weft_mesh_device(spec->mesh) : standard;
}

weft_tensor *weft_make_empty(weft_spec spec)
{
    return empty_on_device(&spec, device_of_spec(&spec));
}

weft_spec weft_spec_of(const weft_tensor *t)
{
    weft_spec spec = {.dtype = weft_tensor_dtype(t),
                      .ndim = weft_ndim(t),
                      .mesh = weft_tensor_mesh(t),
                      .device = weft_tensor_device(t)};

    memcpy(spec.shape, WF_HANDLE(t)->layout->desc.global, sizeof spec.shape);
    for (int a = 0; a < t->layout->n_axes; a++)
        if (t->layout->placements[a].kind != WEFT_KIND_PARTIAL)
            spec.placements[a] = t->layout->placements[a];
    return spec;
}

static weft_tensor *empty_like_tensor(const weft_tensor *t)
{
    weft_spec spec;

    if (!t) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(t, "tensor like another"));
    spec = weft_spec_of(t);
    return empty_on_device(&spec, weft_tensor_device(t));
}

/* What was filled, when that went well. */
static weft_tensor *tensor_if_ok(weft_tensor *t, weft_status status)
{
    return status == WEFT_OK ? t : NULL;
}

/* ---- constants ---- */

static weft_tensor *fill_constant(weft_tensor *t, double value)
{
    return t ? tensor_if_ok(t, weft_fill_(t, value)) : NULL;
}

weft_tensor *weft_make_full(weft_spec spec, double value)
{
    return fill_constant(weft_make_empty(spec), value);
}

weft_tensor *weft_make_zeros(weft_spec spec) { return weft_make_full(spec, 0); }

weft_tensor *weft_make_ones(weft_spec spec) { return weft_make_full(spec, 1); }

static weft_status check_is_1d(const weft_spec *spec, const char *who)
{
    WF_NEED(spec->ndim == 1, WEFT_ERR_SHAPE, "%s: a tensor with %d dims; it needs one", who,
            spec->ndim);
    return WEFT_OK;
}

static bool is_exact_integer(double value)
{
    return fabs(value) <= 0x1p53 && value == floor(value);
}

weft_tensor *weft_make_arange(weft_spec spec, double start, double step)
{
    struct wf_op_args args = {.scalars.s = {start, step}};
    weft_tensor *t;

    WF_TRY_PTR(check_is_1d(&spec, "arange"));
    if (!weft_dtype_is_float(spec.dtype)) {
        WF_NEED_PTR(is_exact_integer(start) && is_exact_integer(step), WEFT_ERR_ARG,
                    "arange: %s from %g by %g; integers go by whole numbers",
                    weft_dtype_name(spec.dtype), start, step);
        args.scalars.v[0] = (int64_t)start;
        args.scalars.v[1] = (int64_t)step;
    }
    t = weft_make_empty(spec);
    return t ? tensor_if_ok(t, wf_fill_with_op(WF_OP_arange, t, args)) : NULL;
}

weft_tensor *weft_make_linspace(weft_spec spec, double first, double last)
{
    weft_tensor *t;

    WF_TRY_PTR(check_is_1d(&spec, "linspace"));
    t = weft_make_empty(spec);
    return t ? tensor_if_ok(t, wf_fill_with_op(WF_OP_linspace, t,
                                               (struct wf_op_args){.scalars.s = {first, last}}))
             : NULL;
}

/* 1 where low <= j - i <= high. */
static weft_tensor *make_band_matrix(const weft_spec *spec, const char *who, int64_t low,
                                     int64_t high)
{
    struct wf_op_args args = {.scalars.v = {low, high}};
    weft_tensor *t;

    WF_NEED_PTR(spec->ndim >= 2, WEFT_ERR_SHAPE, "%s: a tensor with %d dims; it needs two or more",
                who, spec->ndim);
    t = weft_make_empty(*spec);
    return t ? tensor_if_ok(t, wf_fill_with_op(WF_OP_band, t, args)) : NULL;
}

weft_tensor *weft_make_eye(weft_spec spec, int64_t diagonal)
{
    return make_band_matrix(&spec, "eye", diagonal, diagonal);
}

weft_tensor *weft_make_tril(weft_spec spec, int64_t diagonal)
{
    return make_band_matrix(&spec, "tril", INT64_MIN, diagonal);
}

weft_tensor *weft_make_triu(weft_spec spec, int64_t diagonal)
{
    return make_band_matrix(&spec, "triu", diagonal, INT64_MAX);
}

/* ---- random numbers ---- */

weft_tensor *weft_make_uniform(weft_spec spec, double low, double high, weft_generator *g)
{
    weft_tensor *t = weft_make_empty(spec);

    return t ? tensor_if_ok(t, weft_uniform_(t, low, high, g)) : NULL;
}

weft_tensor *weft_make_normal(weft_spec spec, double mean, double std, weft_generator *g)
{
    weft_tensor *t = weft_make_empty(spec);

    return t ? tensor_if_ok(t, weft_normal_(t, mean, std, g)) : NULL;
}

weft_tensor *weft_make_rand(weft_spec spec, weft_generator *g)
{
    return weft_make_uniform(spec, 0, 1, g);
}

weft_tensor *weft_make_randn(weft_spec spec, weft_generator *g)
{
    return weft_make_normal(spec, 0, 1, g);
}

weft_tensor *weft_make_trunc_normal(weft_spec spec, double mean, double std, double low,
                                    double high, weft_generator *g)
{
    weft_tensor *t = weft_make_empty(spec);

    return t ? tensor_if_ok(t, weft_trunc_normal_(t, mean, std, low, high, g)) : NULL;
}

weft_tensor *weft_make_bernoulli(weft_spec spec, double p, weft_generator *g)
{
    weft_tensor *t = weft_make_empty(spec);

    return t ? tensor_if_ok(t, weft_bernoulli_(t, p, g)) : NULL;
}

weft_tensor *weft_make_randint(weft_spec spec, int64_t low, int64_t high, weft_generator *g)
{
    weft_tensor *t = weft_make_empty(spec);

    return t ? tensor_if_ok(t, weft_randint_(t, low, high, g)) : NULL;
}

weft_tensor *weft_make_randperm(weft_spec spec, weft_generator *g)
{
    weft_tensor *t = weft_make_empty(spec);

    return t ? tensor_if_ok(t, weft_randperm_(t, g)) : NULL;
}

/* ---- like another ---- */

weft_tensor *weft_full_like(const weft_tensor *t, double value)
{
    return fill_constant(empty_like_tensor(t), value);
}

weft_tensor *weft_zeros_like(const weft_tensor *t) { return weft_full_like(t, 0); }

weft_tensor *weft_ones_like(const weft_tensor *t) { return weft_full_like(t, 1); }

weft_tensor *weft_new_full(const weft_tensor *t, const int64_t *shape, int ndim, double value)
{
    bool same;
    weft_spec spec;

    if (!t) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(t, "new_full"));
    WF_NEED_PTR(ndim >= 0 && ndim <= WEFT_MAX_DIMS && (shape || ndim == 0), WEFT_ERR_SHAPE,
                "new_full: %d dims, or no shape", ndim);
    spec = weft_spec_of(t);
    same = ndim == spec.ndim;
    for (int d = 0; same && d < ndim; d++) same = shape[d] == spec.shape[d];
    if (!same) memset(spec.placements, 0, sizeof spec.placements);
    spec.ndim = ndim;
    for (int d = 0; d < ndim; d++) spec.shape[d] = shape[d];
    return weft_make_full(spec, value);
}

weft_tensor *weft_rand_like(const weft_tensor *t, weft_generator *g)
{
    weft_tensor *like = empty_like_tensor(t);

    return like ? tensor_if_ok(like, weft_uniform_(like, 0, 1, g)) : NULL;
}

weft_tensor *weft_randn_like(const weft_tensor *t, weft_generator *g)
{
    weft_tensor *like = empty_like_tensor(t);

    return like ? tensor_if_ok(like, weft_normal_(like, 0, 1, g)) : NULL;
}

weft_tensor *weft_randint_like(const weft_tensor *t, int64_t low, int64_t high, weft_generator *g)
{
    weft_tensor *like = empty_like_tensor(t);

    return like ? tensor_if_ok(like, weft_randint_(like, low, high, g)) : NULL;
}
