/*
 * clip.c: the norm of all gradients together, and scaling by it.
 *
 * Every element counts once: where an axis shards some gradient of a mesh, each rank adds what it
 * holds, and gradients that are replicated along that axis are added by its first rank only. The
 * sums are then pending sums of one-element tensors, and the library's own redistribution does the
 * rest: one collective per mesh axis that shards anything, none otherwise.
 */
#include <math.h>

#include <weft/autograd.h>
#include <weft/dtensor.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/where.h"
#include "kernels/optim.h"
#include "optim/optim.h"

/* The gradients of one mesh; mesh NULL: plain ones. */
struct group {
    weft_mesh *mesh;
    bool sharded[WEFT_MAX_AXES];
    bool meta;
    double squares;
};

struct gradients {
    weft_tensor **items;
    int count;
    struct group *groups;
    int n_groups;
};

static struct group *group_of(struct gradients *all, weft_mesh *mesh)
{
    for (int i = 0; i < all->n_groups; i++)
        if (all->groups[i].mesh == mesh) return &all->groups[i];
    all->groups = wf_realloc(all->groups, (size_t)(all->n_groups + 1) * sizeof *all->groups);
    all->groups[all->n_groups] = (struct group){.mesh = mesh};
    return &all->groups[all->n_groups++];
}

static bool is_sharded(weft_placement p) { return weft_shards(p, p.dim); }

static int axes_of(const weft_mesh *mesh) { return mesh ? weft_mesh_ndim(mesh) : 0; }

static weft_status collect(weft_module *m, const char *name, weft_tensor *parameter, void *payload)
{
    struct gradients *all = payload;
    weft_status before = weft_error_status();
    weft_tensor *grad = weft_grad(parameter);
    struct group *group;

    if (!grad) return weft_error_status() == before ? WEFT_OK : weft_error_status();
    WF_NEED(wf_is_dense(grad), WEFT_ERR_STATE,
            "clip: the gradient of '%s' in module '%s' is a strided view", name,
            weft_module_path(m));
    all->items = wf_realloc(all->items, (size_t)(all->count + 1) * sizeof(weft_tensor *));
    all->items[all->count++] = grad;
    group = group_of(all, weft_tensor_mesh(grad));
    group->meta |= weft_tensor_device(grad) == WEFT_META;
    for (int a = 0; a < axes_of(group->mesh); a++)
        group->sharded[a] |= is_sharded(weft_tensor_placement(grad, a));
    return WEFT_OK;
}

/* Whether this rank's elements of the gradient are counted here and not by another rank. */
static bool counts_here(const struct group *group, const weft_tensor *grad)
{
    for (int a = 0; a < axes_of(group->mesh); a++) {
        bool whole = !is_sharded(weft_tensor_placement(grad, a));

        if (group->sharded[a] && whole && weft_mesh_coordinate(group->mesh, a) != 0) return false;
    }
    return true;
}

static weft_status reduce(struct group *group)
{
    weft_placement pending[WEFT_MAX_AXES] = {{0}};
    int64_t shape[] = {1};
    weft_scope *scope;
    weft_tensor *sum;
    bool any = false;

    for (int a = 0; a < axes_of(group->mesh); a++) {
        if (group->sharded[a]) pending[a] = weft_partial(WEFT_SUM);
        any |= group->sharded[a];
    }
    if (!any) return WEFT_OK;
    scope = weft_scope_open();
    sum = weft_full(WEFT_F64, 1, shape, group->squares);
    if (group->meta) sum = weft_tensor_to(sum, WEFT_META);
    sum = sum ? weft_from_local(sum, group->mesh, pending, shape) : NULL;
    sum = sum ? weft_full_tensor(sum) : NULL;
    if (sum && !group->meta) group->squares = weft_item(sum);
    weft_scope_close(scope);
    return sum ? WEFT_OK : weft_error_status();
}

static weft_status measure(struct gradients *all, double *norm)
{
    double squares = 0;

    for (int i = 0; i < all->count; i++) {
        struct group *group = group_of(all, weft_tensor_mesh(all->items[i]));

        if (group->meta)
            group->squares = NAN; /* nobody knows */
        else if (counts_here(group, all->items[i]))
            group->squares +=
                wf_cpu_sum_squares(weft_tensor_dtype(all->items[i]),
                                   weft_local_numel(all->items[i]), weft_data(all->items[i]));
    }
    for (int i = 0; i < all->n_groups; i++) {
        WF_TRY(reduce(&all->groups[i]));
        squares += all->groups[i].squares;
    }
    *norm = sqrt(squares);
    return WEFT_OK;
}

static weft_status count_leaf(weft_module *m, const char *name, weft_tensor *parameter,
                              void *payload)
{
    struct gradients *all = payload;

    (void)m;
    (void)name;
    all->items = wf_realloc(all->items, (size_t)(all->count + 1) * sizeof(weft_tensor *));
    all->items[all->count++] = parameter;
    return WEFT_OK;
}

/* Pending sums of all parameters together, before each is asked for. */
static weft_status reduce_pending(struct gradients *all, weft_module *module)
{
    WF_TRY(weft_module_each_parameter(module, count_leaf, all));
    WF_TRY(weft_reduce_gradients(all->items, all->count));
    all->count = 0;
    return WEFT_OK;
}

static weft_status clip(struct gradients *all, weft_module *module, double max_norm, double *norm)
{
    double factor;

    WF_TRY(reduce_pending(all, module));
    WF_TRY(weft_module_each_parameter(module, collect, all));
    WF_TRY(measure(all, norm));
    factor = max_norm / (*norm + 1e-6); /* as PyTorch */
    if (max_norm == 0 || !(factor < 1)) return WEFT_OK;
    for (int i = 0; i < all->count; i++)
        wf_cpu_scale(weft_tensor_dtype(all->items[i]), weft_local_numel(all->items[i]),
                     weft_data(all->items[i]), factor);
    return WEFT_OK;
}

weft_status weft_clip_grad_norm(weft_module *module, double max_norm, double *norm)
{
    struct wf_where before = wf_here;
    struct gradients all = {0};
    weft_status status;
    double measured = 0;

    if (!module)
        return weft_error_status() != WEFT_OK ? weft_error_status()
                                              : WF_FAIL(WEFT_ERR_ARG, "clip: the module is NULL");
    WF_NEED(max_norm >= 0, WEFT_ERR_ARG, "clip: max_norm is %g", max_norm);
    wf_here.phase = WF_OPTIM;
    status = clip(&all, module, max_norm, &measured);
    wf_here = before;
    if (norm) *norm = measured;
    wf_free(all.items);
    wf_free(all.groups);
    return status;
}
