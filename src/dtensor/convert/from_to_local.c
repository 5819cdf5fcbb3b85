/*
 * from_to_local.c: conversion between plain and distributed tensors. Both directions are views that
 * change the layout only. What from_local compares over the mesh on request is in
 * check_local_shards.c; gradient layouts: docs/concepts/autograd.md.
 */
#include <weft/dtensor.h>

#include <string.h>

#include "base/elements/dtype.h"
#include "base/error.h"
#include "dtensor/convert/check_local_shards.h"
#include "dtensor/dispatch/grad_types.h"
#include "dtensor/dispatch/placement_args.h"
#include "dtensor/dispatch/plan_cache.h"
#include "dtensor/dispatch/slow_path.h"
#include "dtensor/local_map/local_region.h"
#include "mesh/mesh.h"
#include "ops/op_functions.h"
#include "tensor/shape.h"

/* ---- from_local ---- */

/* Where in the attributes' `packed` the gradient's placements and the global shape stand. */
static int packed_gradient(const struct wf_from_local_attrs *attrs)
{
    return WF_PLACEMENT_WORDS * weft_mesh_ndim(attrs->mesh);
}

static int packed_shape_offset(const struct wf_from_local_attrs *attrs)
{
    return (attrs->has_gradient ? 2 : 1) * WF_PLACEMENT_WORDS * weft_mesh_ndim(attrs->mesh);
}

void wf_global_shape_of_even_shards(int64_t *global, const int64_t *local, int ndim,
                                    const weft_mesh *mesh, const weft_placement *placements)
{
    memcpy(global, local, (size_t)ndim * sizeof *global);
    for (int a = 0; a < weft_mesh_ndim(mesh); a++)
        if (wf_is_shard_or_strided(placements[a]))
            global[placements[a].dim] *= weft_mesh_axis_size(mesh, a);
}

static bool is_dim_sharded(const struct wf_layout *layout, int dim)
{
    for (int a = 0; a < layout->n_axes; a++)
        if (weft_shards(layout->placements[a], dim)) return true;
    return false;
}

/* Only this rank knows the size of its local tensor, so a wrong size is an error of one rank. The
 * local tensor of a rank outside the mesh is not checked, as it is not used. */
static weft_status check_local_size(const struct wf_op_plan *plan, const struct wf_infer *call,
                                    bool given)
{
    const struct wf_tensor_desc *local = &plan->in[0]->desc, *shard = &plan->out[0]->desc;

    if (weft_mesh_coordinate(plan->out[0]->mesh, 0) < 0) return WEFT_OK;
    for (int d = 0; d < local->ndim; d++) {
        bool fits = shard->shape[d] == local->shape[d];

        WF_NEED_LOCAL(
            fits || is_dim_sharded(plan->out[0], d), WEFT_ERR_SHAPE,
            "from_local: dim %d is not sharded, but has %lld elements here and %lld in the "
            "global shape: %s",
            d, (long long)local->shape[d], (long long)shard->global[d], wf_infer_inputs_text(call));
        WF_NEED_LOCAL(fits, WEFT_ERR_SHAPE,
                      "from_local: this rank's shard should have %lld of %lld elements in dim %d "
                      "and has %lld%s: %s",
                      (long long)shard->shape[d], (long long)shard->global[d], d,
                      (long long)local->shape[d],
                      given ? "" : " (give the global shape where shards are uneven)",
                      wf_infer_inputs_text(call));
    }
    return WEFT_OK;
}

weft_status wf_plan_from_local(struct wf_op_plan *plan, const struct wf_infer *call)
{
    const struct wf_from_local_attrs *attrs = &plan->attrs.from_local;
    weft_mesh *mesh = attrs->mesh;
    const struct wf_tensor_desc *local = &plan->in[0]->desc;
    int64_t global[WEFT_MAX_DIMS];
    weft_placement words[WEFT_MAX_AXES], placements[WEFT_MAX_AXES], gradient[WEFT_MAX_AXES];
    int n = weft_mesh_ndim(mesh);

    WF_NEED(!plan->in[0]->mesh, WEFT_ERR_ARG,
            "from_local: the local tensor argument only accepts a plain tensor, this one is "
            "distributed already: %s",
            wf_infer_inputs_text(call));
    wf_placements_from_words(words, attrs->packed, n);
    WF_TRY(wf_placements_normalize(placements, words, n, local->ndim, "from_local"));
    if (attrs->has_gradient) {
        wf_placements_from_words(words, attrs->packed + packed_gradient(attrs), n);
        WF_TRY(wf_placements_normalize(gradient, words, n, local->ndim, "from_local's gradient"));
    }
    if (attrs->has_shape)
        memcpy(global, attrs->packed + packed_shape_offset(attrs),
               (size_t)local->ndim * sizeof *global);
    else
        wf_global_shape_of_even_shards(global, local->shape, local->ndim, mesh, placements);
    WF_NEED(wf_shape_numel(global, local->ndim) >= 0, WEFT_ERR_SHAPE,
            "from_local: no global shape: %s", wf_infer_inputs_text(call));
    WF_TRY(wf_placements_check_segments(placements, n, global, "from_local"));
    wf_op_plan_set_output(plan, 0,
                          wf_layout_new(mesh, placements, (weft_dtype)local->dtype, global,
                                        local->stride, local->ndim));
    plan->used[0] = wf_layout_retain(plan->in[0]);
    wf_grad_types_check_from_local(plan, placements, attrs->has_gradient ? gradient : NULL,
                                   attrs->has_shape);
    return check_local_size(plan, call, attrs->has_shape);
}

void wf_vjp_from_local(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    const struct wf_op_plan *plan = wf_tape_node_op_plan(n);
    const struct wf_from_local_attrs *attrs = &plan->attrs.from_local;
    const struct wf_layout *out = plan->out[0];
    weft_placement to[WEFT_MAX_AXES];

    if (weft_mesh_coordinate(out->mesh, 0) < 0) {
        in[0] = wf_tensor_zeros(plan->in[0]); /* its elements are not part of the result */
        return;
    }
    if (attrs->has_gradient) {
        wf_placements_from_words(to, attrs->packed + packed_gradient(attrs), out->n_axes);
    } else {
        memcpy(to, out->placements, sizeof to);
        wf_placements_drop_partial(to, out->n_axes);
    }
    in[0] = weft_to_local(wf_redistribute_implicitly("from_local's gradient", g, to), NULL);
}

static weft_tensor *call_from_local(weft_tensor *local, weft_mesh *mesh,
                                    const weft_placement *placements, const int64_t *shape,
                                    const weft_placement *gradient)
{
    struct wf_from_local_attrs attrs;
    struct wf_op_args args = {.attrs = &attrs};
    int n;

    if (wf_is_plain(local) && !wf_is_meta(local))
        local = weft_to_device(local, weft_mesh_device(mesh));
    if (!local) return NULL;
    attrs.mesh = mesh;
    attrs.has_gradient = gradient != NULL;
    attrs.has_shape = shape != NULL;
    memset(attrs.zeros, 0, sizeof attrs.zeros);
    wf_placements_to_words(attrs.packed, placements, weft_mesh_ndim(mesh));
    if (gradient)
        wf_placements_to_words(attrs.packed + packed_gradient(&attrs), gradient,
                               weft_mesh_ndim(mesh));
    n = packed_shape_offset(&attrs);
    for (int d = 0; shape && d < weft_ndim(local); d++) attrs.packed[n++] = shape[d];
    args.attr_words = WF_ATTR_WORDS(from_local, packed, n);
    return wf_dispatch_op_one_output(WF_OP_from_local, &local, 1, &args);
}

/* What a program wraps may lie otherwise on other ranks. */
static weft_tensor *mark_wrapped(weft_tensor *t)
{
    if (t && t->block) t->block->flags |= WF_BLOCK_WRAPPED;
    return t;
}

weft_tensor *weft_from_local(weft_tensor *local, weft_mesh *mesh, const weft_placement *placements,
                             const int64_t *shape)
{
    static const weft_placement replicated[WEFT_MAX_AXES];

    if (!local) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(local, "from_local"));
    mesh = wf_mesh_or_current(mesh);
    if (!mesh) return NULL;
    return mark_wrapped(
        call_from_local(local, mesh, placements ? placements : replicated, shape, NULL));
}

weft_tensor *weft_from_local_with(weft_tensor *local, weft_mesh *mesh,
                                  const weft_placement *placements, weft_from_local_options options)
{
    static const weft_placement replicated[WEFT_MAX_AXES];

    if (!local) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(local, "from_local"));
    mesh = wf_mesh_or_current(mesh);
    if (!mesh) return NULL;
    WF_TRY_PTR(wf_check_placement_count("from_local", options.n_placements, mesh));
    WF_NEED_PTR(!options.shape == !options.stride, WEFT_ERR_ARG,
                "from_local: pass both shape and stride at the same time, or neither");
    if (!placements) placements = replicated;
    if (options.run_check)
        WF_TRY_PTR(wf_check_local_over_mesh(local, mesh, placements, options.shape));
    if (options.stride) WF_TRY_PTR(wf_check_local_stride(local, options.shape, options.stride));
    local = call_from_local(local, mesh, placements, options.shape, options.grad_placements);
    return options.stride || options.run_check ? local : mark_wrapped(local);
}

/* ---- to_local ---- */

static void kernel_zero_scalar(const struct wf_kernel_call *k, void *const *out,
                               const void *const *in, const struct wf_scalars *scalars)
{
    (void)in;
    (void)scalars;
    wf_device_zero((weft_device)k->out[0]->device, out[0], wf_dtypes[k->out[0]->dtype].size);
}

weft_status wf_plan_to_local(struct wf_op_plan *plan, const struct wf_infer *call)
{
    weft_placement given[WEFT_MAX_AXES], normal[WEFT_MAX_AXES];
    struct wf_layout *in = plan->in[0];
    struct wf_grad_types types;

    (void)call;
    wf_placements_from_words(given, plan->attrs.to_local.gradient, in->n_axes);
    WF_TRY(wf_placements_normalize(normal, given, in->n_axes, in->desc.ndim, "to_local"));
    WF_TRY(wf_grad_types_of_to_local(&types, in, normal));
    wf_op_plan_set_output(plan, 0, wf_layout_with_grad_types(wf_layout_local(in), &types));
    plan->used[0] = wf_layout_retain(in);
    if (in->desc.ndim == 0 && !weft_mesh_is_member(in->mesh) && !plan->meta) {
        /* without dims there is one element, and a rank outside the mesh has no value for it */
        plan->way = plan->device == WEFT_CPU ? WF_EXECUTE_KERNEL : WF_EXECUTE_ON_DEVICE;
        plan->kernel.run = kernel_zero_scalar;
        plan->kernel.out[0] = &plan->out[0]->desc;
    }
    return WEFT_OK;
}

void wf_vjp_to_local(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    const struct wf_op_plan *plan = wf_tape_node_op_plan(n);
    weft_placement placements[WEFT_MAX_AXES];

    wf_placements_from_words(placements, plan->attrs.to_local.gradient, plan->in[0]->n_axes);
    in[0] = weft_from_local(g, plan->in[0]->mesh, placements, plan->in[0]->desc.global);
}

weft_tensor *weft_to_local(weft_tensor *t, const weft_placement *grad_placements)
{
    struct wf_to_local_attrs attrs;
    struct wf_op_args args = {.attrs = &attrs};
    weft_placement standard[WEFT_MAX_AXES];

    WF_TRY_PTR(wf_tensor_need_alive(t, "to_local"));
    if (!t || !t->layout->mesh) return t;
    if (!grad_placements) {
        memcpy(standard, t->layout->placements, sizeof standard);
        wf_placements_drop_partial(standard, t->layout->n_axes);
        grad_placements = standard;
    }
    wf_placements_to_words(attrs.gradient, grad_placements, t->layout->n_axes);
    args.attr_words = WF_ATTR_WORDS(to_local, gradient, WF_PLACEMENT_WORDS * t->layout->n_axes);
    return wf_dispatch_op_one_output(WF_OP_to_local, &t, 1, &args);
}

weft_tensor *weft_full_tensor_with(weft_tensor *t, const weft_placement *grad_placements)
{
    static const weft_placement replicated[WEFT_MAX_AXES];

    WF_TRY_PTR(wf_tensor_need_alive(t, "full_tensor"));
    if (!t || !t->layout->mesh) return t;
    return weft_to_local(weft_redistribute(t, replicated), grad_placements);
}

weft_tensor *weft_full_tensor(weft_tensor *t) { return weft_full_tensor_with(t, NULL); }
