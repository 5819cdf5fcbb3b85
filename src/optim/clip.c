/*
 * clip.c: the norm of all gradients together, scaling by it, and clipping each element.
 *
 * Every element counts once: where an axis shards some gradient of a mesh, each rank adds what it
 * holds, and gradients that are replicated along that axis are added by its first rank only. The
 * sums are then partial tensors of one element, and redistribution reduces them: one collective per
 * mesh axis that shards anything, none otherwise.
 */
#include <math.h>

#include <weft/autograd.h>
#include <weft/dtensor.h>
#include <weft/in_place.h>
#include <weft/pointwise.h>

#include "base/array_grow.h"
#include "base/call_context.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/recorder.h"
#include "kernels/device_kernels.h"
#include "optim/clip.h"
#include "optim/optim.h"

/* The gradients over one mesh, on one device; mesh NULL: plain ones. */
struct group {
    weft_mesh *mesh;
    weft_device device;
    bool sharded[WEFT_MAX_AXES];
    weft_tensor *total; /* sum of powers, or the largest: one f64 on the device */
};

struct gradients {
    weft_tensor **items;
    int count;
    struct group *groups;
    int n_groups;
    double p;
};

static struct group *find_or_add_gradient_group(struct gradients *all, const weft_tensor *grad)
{
    weft_mesh *mesh = weft_tensor_mesh(grad);
    weft_device device = weft_tensor_device(grad);

    for (int i = 0; i < all->n_groups; i++)
        if (all->groups[i].mesh == mesh && all->groups[i].device == device) return &all->groups[i];
    all->groups = wf_array_grow(all->groups, all->n_groups, sizeof *all->groups);
    all->groups[all->n_groups] = (struct group){.mesh = mesh, .device = device};
    return &all->groups[all->n_groups++];
}

static bool is_placement_sharded(weft_placement p) { return weft_shards(p, p.dim); }

static int count_mesh_axes(const weft_mesh *mesh) { return mesh ? weft_mesh_ndim(mesh) : 0; }

static void add_tensor_to_list(struct gradients *all, weft_tensor *t)
{
    all->items = wf_array_grow(all->items, all->count, sizeof(weft_tensor *));
    all->items[all->count++] = t;
}

/* ---- collecting the gradients ---- */

static weft_status add_parameter_to_clip(weft_module *m, const char *name, weft_tensor *parameter,
                                         void *payload)
{
    WF_NEED(!wf_optim_updating_in_backward(parameter), WEFT_ERR_STATE,
            "clip: parameter '%s' of module '%s' is updated in backward "
            "(weft_optim_update_in_backward): its gradient is gone before all are known",
            name, weft_module_path(m));
    add_tensor_to_list(payload, parameter);
    return WEFT_OK;
}

static weft_status collect_gradient(weft_module *m, const char *name, weft_tensor *parameter,
                                    void *payload)
{
    struct gradients *all = payload;
    weft_status before = weft_error_status();
    weft_tensor *grad = weft_grad(parameter);
    struct group *group;

    if (!grad) return weft_error_status() == before ? WEFT_OK : weft_error_status();
    WF_NEED(wf_is_locally_contiguous(grad), WEFT_ERR_STATE,
            "clip: the gradient of '%s' in module '%s' is a strided view", name,
            weft_module_path(m));
    add_tensor_to_list(all, grad);
    group = find_or_add_gradient_group(all, grad);
    for (int a = 0; a < count_mesh_axes(group->mesh); a++) {
        weft_placement p = weft_tensor_placement(grad, a);

        WF_NEED(!weft_is_partial(p), WEFT_ERR_LAYOUT,
                "clip: '%s' in module '%s' is partial, as its gradient is", name,
                weft_module_path(m));
        group->sharded[a] |= is_placement_sharded(p);
    }
    return WEFT_OK;
}

/* All gradients of a module, after the partial ones were reduced together. */
static weft_status collect_gradients(struct gradients *all, weft_module *module)
{
    WF_TRY(weft_module_each_parameter(module, add_parameter_to_clip, all));
    WF_TRY(weft_reduce_gradients(all->items, all->count));
    all->count = 0;
    return weft_module_each_parameter(module, collect_gradient, all);
}

static weft_status collect_for_kernels(struct gradients *all, weft_module *module)
{
    wf_recorder_leave("clip_grad: the norm is a number of the program: "
                      "weft_clip_grad_norm_tensor leaves it a tensor");
    WF_TRY(collect_gradients(all, module));
    wf_recorder_leave("clip_grad: gradients are read"); /* the ops that reduced them have run now */
    return WEFT_OK;
}

weft_status wf_clip_collect_gradients(weft_module *module, weft_tensor ***grads, int *n)
{
    struct gradients all = {0};
    weft_status status = collect_gradients(&all, module);

    wf_free(all.groups);
    *grads = all.items;
    *n = all.count;
    return status;
}

static void free_gradient_list(struct gradients *all)
{
    wf_free(all->items);
    wf_free(all->groups);
}

/* ---- the norm ---- */

/* Whether this rank's elements of the gradient are counted here and not by another rank. */
static bool is_counted_on_this_rank(const struct group *group, const weft_tensor *grad)
{
    for (int a = 0; a < count_mesh_axes(group->mesh); a++) {
        bool whole = !is_placement_sharded(weft_tensor_placement(grad, a));

        if (group->sharded[a] && whole && weft_mesh_coordinate(group->mesh, a) != 0) return false;
    }
    return true;
}

static double combine_norms(double p, double a, double b)
{
    if (!isinf(p)) return a + b;
    return isnan(a) || a > b ? a : b;
}

/* A single f64 on the device, 0. */
static weft_tensor *new_total(weft_device device)
{
    static const int64_t shape[] = {1};
    struct wf_layout *layout =
        wf_layout_on_device(wf_layout_new(NULL, NULL, WEFT_F64, shape, NULL, 1), device);
    weft_tensor *total = wf_tensor_new_empty(layout, WF_MEM_ACTIVATIONS, "clip");

    wf_layout_release(layout);
    if (total && device != WEFT_META) wf_device_zero(device, total->data, sizeof(double));
    return total;
}

static void add_norm_of_gradient(const struct group *group, double p, weft_tensor *grad)
{
    const struct wf_optimizer_kernels *kernels = wf_optimizer_kernels_on(group->device);
    weft_dtype dtype = weft_tensor_dtype(grad);
    int64_t count = weft_local_numel(grad);
    const void *data = grad->data;
    double *total = group->total->data;

    if (isinf(p))
        kernels->raise_to_max(dtype, count, data, total);
    else if (p == 2)
        kernels->add_sum_of_squares(dtype, count, data, total);
    else
        kernels->add_powers(dtype, count, data, p, total);
}

/* The total of all ranks. */
static weft_tensor *reduce_group_total(const struct group *group, double p)
{
    weft_placement placements[WEFT_MAX_AXES] = {{0}};
    int64_t shape[] = {1};
    bool any = false;

    for (int a = 0; a < count_mesh_axes(group->mesh); a++) {
        if (group->sharded[a]) placements[a] = weft_partial(isinf(p) ? WEFT_MAX : WEFT_SUM);
        any |= group->sharded[a];
    }
    if (!any) return group->total;
    return weft_full_tensor(weft_from_local(group->total, group->mesh, placements, shape));
}

/* This rank's part of each group. */
static weft_status add_up_groups(struct gradients *all)
{
    for (int i = 0; i < all->n_groups; i++) {
        all->groups[i].total = new_total(all->groups[i].device);
        if (!all->groups[i].total) return weft_error_status();
    }
    for (int i = 0; i < all->count; i++) {
        const struct group *group = find_or_add_gradient_group(all, all->items[i]);

        if (group->device != WEFT_META && is_counted_on_this_rank(group, all->items[i]))
            add_norm_of_gradient(group, all->p, all->items[i]);
    }
    return WEFT_OK;
}

/* Unknown on the meta device. */
static weft_status compute_norm_of_groups(struct gradients *all, double *norm)
{
    double total = 0;

    WF_TRY(add_up_groups(all));
    for (int i = 0; i < all->n_groups; i++) {
        weft_tensor *sum = reduce_group_total(&all->groups[i], all->p);

        if (!sum) return weft_error_status();
        total = combine_norms(all->p, wf_is_meta(sum) ? NAN : weft_item(sum), total);
    }
    *norm = isinf(all->p) ? total : all->p == 2 ? sqrt(total) : pow(total, 1 / all->p);
    return WEFT_OK;
}

static weft_status compute_gradient_norm(struct gradients *all, double *norm)
{
    weft_scope *scope = weft_scope_open();
    weft_status status = compute_norm_of_groups(all, norm);

    weft_scope_close(scope);
    return status;
}

/* ---- clipping ---- */

static void scale_gradient(weft_tensor *grad, double factor)
{
    wf_tensor_before_write(grad, "weft_clip_grad_norm");
    wf_optimizer_kernels_on(wf_device_of(grad))
        ->scale(weft_tensor_dtype(grad), weft_local_numel(grad), weft_data(grad), factor);
}

static weft_status clip_gradients_to_norm(struct gradients *all, double max_norm, double *norm)
{
    double factor;

    WF_TRY(compute_gradient_norm(all, norm));
    factor = max_norm / (*norm + 1e-6); /* as PyTorch */
    if (max_norm == 0 || !(factor < 1)) return WEFT_OK;
    for (int i = 0; i < all->count; i++) scale_gradient(all->items[i], factor);
    return WEFT_OK;
}

/* Where all gradients are on this rank's GPU. */
static bool are_gradients_on_gpu(const struct gradients *all)
{
    for (int i = 0; i < all->n_groups; i++)
        if (all->groups[i].device != WEFT_CUDA) return false;
    return all->n_groups > 0;
}

/* The total of all groups, in memory that is nobody else's. */
static weft_tensor *total_on_gpu(struct gradients *all)
{
    weft_tensor *total = NULL;

    if (add_up_groups(all) != WEFT_OK) return NULL;
    for (int i = 0; i < all->n_groups; i++) {
        weft_tensor *part = reduce_group_total(&all->groups[i], all->p);

        if (!part) return NULL;
        total = !total ? part : isinf(all->p) ? weft_maximum(total, part) : weft_add(total, part);
        if (!total) return NULL;
    }
    return total;
}

static weft_status scale_gradients_on_gpu(struct gradients *all, double max_norm)
{
    const struct wf_optimizer_kernels *kernels = wf_optimizer_kernels_on(WEFT_CUDA);
    weft_tensor *factor = total_on_gpu(all);

    if (!factor) return weft_error_status();
    if (max_norm == 0) return WEFT_OK;
    wf_wait_ready(factor);
    kernels->make_clip_factor(factor->data, all->p, max_norm);
    for (int i = 0; i < all->count; i++) {
        weft_tensor *grad = all->items[i];

        wf_tensor_before_write(grad, "weft_clip_grad_norm");
        kernels->scale_by(weft_tensor_dtype(grad), weft_local_numel(grad), grad->data,
                          factor->data);
    }
    return WEFT_OK;
}

/* The same where nobody asks for the norm: it stays on the GPU, and the host waits for nothing, so
 * that a step may be captured. */
static weft_status clip_gradients_on_gpu(struct gradients *all, double max_norm)
{
    weft_scope *scope = weft_scope_open();
    weft_status status = scale_gradients_on_gpu(all, max_norm);

    weft_scope_close(scope);
    return status;
}

static weft_status clip_gradients_to_value(struct gradients *all, weft_module *module, double limit)
{
    WF_TRY(collect_gradients(all, module));
    for (int i = 0; i < all->count; i++) {
        if (wf_recorder) { /* the same elements, by an op that a list has */
            if (!weft_clamp_(all->items[i], -limit, limit)) return weft_error_status();
            continue;
        }
        wf_tensor_before_write(all->items[i], "weft_clip_grad_value");
        if (!wf_is_meta(all->items[i]))
            wf_optimizer_kernels_on(wf_device_of(all->items[i]))
                ->clamp(weft_tensor_dtype(all->items[i]), weft_local_numel(all->items[i]),
                        weft_data(all->items[i]), limit);
    }
    return WEFT_OK;
}

weft_status wf_clip_check_norm(double max_norm, double p)
{
    WF_NEED(max_norm >= 0, WEFT_ERR_ARG, "clip: max_norm is %g", max_norm);
    WF_NEED(p > 0, WEFT_ERR_ARG, "clip: a norm has p > 0, this one %g", p);
    return WEFT_OK;
}

weft_status weft_clip_grad_pnorm(weft_module *module, double max_norm, double p, double *norm)
{
    struct wf_call_context before = wf_current_context;
    struct gradients all = {.p = p};
    weft_status status;
    double measured = 0;

    WF_NEED_GIVEN(module, "clip: the module is NULL");
    WF_TRY(wf_clip_check_norm(max_norm, p));
    wf_current_context.phase = WF_OPTIM;
    status = collect_for_kernels(&all, module);
    if (status == WEFT_OK && !norm && are_gradients_on_gpu(&all))
        status = clip_gradients_on_gpu(&all, max_norm);
    else if (status == WEFT_OK)
        status = clip_gradients_to_norm(&all, max_norm, &measured);
    wf_current_context = before;
    free_gradient_list(&all);
    if (norm && status == WEFT_OK) *norm = measured;
    return status;
}

weft_status weft_clip_grad_norm(weft_module *module, double max_norm, double *norm)
{
    return weft_clip_grad_pnorm(module, max_norm, 2, norm);
}

weft_status weft_clip_grad_value(weft_module *module, double limit)
{
    struct wf_call_context before = wf_current_context;
    struct gradients all = {0};
    weft_status status;

    WF_NEED_GIVEN(module, "clip: the module is NULL");
    WF_NEED(limit >= 0, WEFT_ERR_ARG, "clip: limit is %g", limit);
    wf_current_context.phase = WF_OPTIM;
    status = clip_gradients_to_value(&all, module, limit);
    wf_current_context = before;
    free_gradient_list(&all);
    return status;
}
