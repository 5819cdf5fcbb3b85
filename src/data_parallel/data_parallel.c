/* data_parallel.c: making a module a replica: all of it, or nothing. See NOTE [replicas]. */
#include "data_parallel/data_parallel.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <weft/autograd.h>
#include <weft/dtensor.h>

#include "base/array_grow.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/mem.h"
#include "dtensor/dispatch/redistribute_op.h"
#include "mesh/mesh.h"
#include "ops/dispatch_op.h"
#include "tensor/tensor.h"

enum { DEFAULT_BUCKET = 25 << 20 };

static void release_layout(struct wf_layout *layout)
{
    if (layout) wf_layout_release(layout);
}

void wf_replicas_release(void *payload)
{
    struct wf_replicas *r = payload;

    if (--r->refs) return;
    wf_buckets_wait_and_drop(r);
    for (int i = 0; i < r->n_members; i++) {
        struct wf_replica_tensor *m = &r->members[i];

        m->leaf->grad_state = NULL;
        weft_release(m->leaf);
        weft_release(m->before);
        wf_layout_release(m->view);
        wf_layout_release(m->whole);
        release_layout(m->given);
        release_layout(m->term);
    }
    wf_buckets_free(r);
    weft_mesh_release(r->mesh);
    wf_free(r->members);
    wf_free(r->leaves);
    wf_free(r->numbers);
    wf_free(r);
}

/* ---- the new leaf of each parameter ---- */

/* A parameter of the tree and the leaf that replaces it. */
struct parameter_change {
    weft_module *module; /* the first that has it, */
    const char *name;    /* and its name there */
    bool buffer;
    weft_tensor *from;
    struct wf_layout *whole;
    weft_tensor *leaf;
};

struct replica_setup {
    struct wf_replicas *r;
    struct wf_mesh_list meshes; /* the replicas' and those of the styles */
    weft_mesh *last;            /* that was added; NULL: none */
    struct parameter_change *changes;
    int count;
};

const char *wf_replica_tensor_kind(bool buffer) { return buffer ? "buffer" : "parameter"; }

static weft_status add_parameter_mesh(struct replica_setup *replica_setup,
                                      const weft_module_tensor *it)
{
    weft_mesh *mesh = weft_tensor_mesh(it->tensor);
    char what[256];

    if (!mesh || mesh == replica_setup->last) return WEFT_OK;
    snprintf(what, sizeof what, "%s '%s' of module '%s'", wf_replica_tensor_kind(it->buffer),
             it->name, weft_module_path(it->module));
    replica_setup->last = mesh;
    return wf_mesh_list_add(&replica_setup->meshes, replica_setup->r, mesh, what);
}

static weft_status list_module_tensor(const weft_module_tensor *it, void *payload)
{
    struct replica_setup *replica_setup = payload;
    weft_tensor *parameter = it->tensor;
    weft_module *m = it->module;
    const char *name = it->name, *kind = wf_replica_tensor_kind(it->buffer);
    const struct wf_tensor_desc *desc = &parameter->layout->desc;

    WF_NEED(!parameter->grad_state, WEFT_ERR_STATE,
            "data parallel: %s '%s' of module '%s' is a replica's already, or an "
            "optimizer's that updates it in backward",
            kind, name, weft_module_path(m));
    WF_NEED(desc->contiguous || wf_strides_may_differ(parameter), WEFT_ERR_ARG,
            "data parallel: %s '%s' of module '%s' is a strided view; give the module a "
            "copy",
            kind, name, weft_module_path(m));
    WF_NEED_LOCAL(desc->contiguous, WEFT_ERR_ARG,
                  "data parallel: this rank's shard of %s '%s' of module '%s' is strided; "
                  "give the module a copy",
                  kind, name, weft_module_path(m));
    WF_NEED(!parameter->layout->partial, WEFT_ERR_ARG,
            "data parallel: %s '%s' of module '%s' is partial", kind, name, weft_module_path(m));
    WF_NEED(!replica_setup->count ||
                wf_is_meta(parameter) == wf_is_meta(replica_setup->changes[0].from),
            WEFT_ERR_STATE,
            "data parallel: %s '%s' of module '%s' %s elements, unlike those before; "
            "weft_module_materialize comes first",
            kind, name, weft_module_path(m), wf_is_meta(parameter) ? "has no" : "has");
    WF_TRY(add_parameter_mesh(replica_setup, it));
    replica_setup->changes =
        wf_array_grow(replica_setup->changes, replica_setup->count, sizeof *replica_setup->changes);
    replica_setup->changes[replica_setup->count++] = (struct parameter_change){
        .module = m, .name = name, .buffer = it->buffer, .from = parameter};
    return WEFT_OK;
}

static weft_status check_modules_not_replicas(weft_module *module)
{
    int count;
    weft_module **modules = wf_module_list_tree(module, &count);
    weft_status status = WEFT_OK;

    for (int i = 0; i < count && status == WEFT_OK; i++)
        if (wf_module_view_hook(modules[i]))
            status = WF_FAIL(WEFT_ERR_STATE, "data parallel: module '%s' (%s) is a replica already",
                             modules[i]->path, modules[i]->kind->type);
    wf_free(modules);
    return status;
}

static weft_status join_meshes(struct replica_setup *replica_setup)
{
    weft_mesh *both = wf_mesh_list_concatenate(&replica_setup->meshes);

    if (!both) return weft_error_status();
    weft_mesh_release(replica_setup->r->mesh);
    replica_setup->r->mesh = both;
    return WEFT_OK;
}

/* The axes along which a parameter with this layout has replicas. */
static unsigned replica_axes_of(const struct wf_replicas *r, const struct wf_layout *before)
{
    return r->axes & ~wf_layout_axes_in_mesh(r->mesh, before);
}

/* The parameter over the joined mesh, with the bytes that it has. */
static weft_tensor *to_joined_mesh(const struct replica_setup *replica_setup,
                                   weft_tensor *parameter)
{
    const struct wf_layout *from = parameter->layout;
    weft_placement placements[WEFT_MAX_AXES];
    struct wf_layout *layout;
    weft_tensor *t;

    WF_TRY_PTR(wf_placements_in_joined_mesh(placements, replica_setup->r->mesh, from));
    layout = wf_layout_new(replica_setup->r->mesh, placements, (weft_dtype)from->desc.dtype,
                           from->desc.global, from->desc.stride, from->desc.ndim);
    layout = wf_layout_on_device(layout, (weft_device)from->desc.device);
    t = wf_tensor_new(layout, wf_block_retain(parameter->block), parameter->data, "replica");
    wf_layout_release(layout);
    return t;
}

static weft_status parameters_to_joined_mesh(struct replica_setup *replica_setup,
                                             weft_tensor **wholes, unsigned *axes)
{
    for (int i = 0; i < replica_setup->count; i++) {
        wholes[i] = to_joined_mesh(replica_setup, replica_setup->changes[i].from);
        if (!wholes[i]) return weft_error_status();
        axes[i] = replica_axes_of(replica_setup->r, replica_setup->changes[i].from->layout);
    }
    return WEFT_OK;
}

/* A shard that is a view keeps the whole tensor's bytes alive and would save no memory. */
static weft_tensor *shard_over_replicas(weft_tensor *whole, unsigned axes)
{
    weft_placement to[WEFT_MAX_AXES];

    wf_placements_add_shard_axes(to, whole->layout, axes);
    if (memcmp(to, whole->layout->placements, sizeof to) == 0) return whole;
    return wf_dispatch_unary_op(WF_OP_copy, wf_redistribute(whole, to));
}

static weft_status shard_parameters_over_replicas(struct replica_setup *replica_setup,
                                                  weft_tensor *const *wholes, const unsigned *axes)
{
    for (int i = 0; i < replica_setup->count; i++) {
        struct parameter_change *parameter_change = &replica_setup->changes[i];

        parameter_change->whole = wholes[i]->layout;
        parameter_change->leaf = shard_over_replicas(
            wholes[i], parameter_change->buffer ? 0 : replica_setup->r->cut & axes[i]);
        if (!parameter_change->leaf) return weft_error_status();
        parameter_change->leaf->requires_grad = parameter_change->from->requires_grad;
    }
    return WEFT_OK;
}

/* A hash of the list's names, by which ranks see that others have the same list. */
static uint32_t hash_tensor_names(const struct replica_setup *replica_setup)
{
    uint64_t hash = 0;

    for (int i = 0; i < replica_setup->count; i++) {
        const struct parameter_change *parameter_change = &replica_setup->changes[i];
        char *text = wf_format("%llx %s.%s", (unsigned long long)hash,
                               weft_module_path(parameter_change->module), parameter_change->name);

        hash = wf_hash_bytes(text, strlen(text));
        wf_free(text);
    }
    return (uint32_t)hash;
}

static weft_status make_leaf_parameters(struct replica_setup *replica_setup)
{
    weft_tensor **wholes = wf_calloc((size_t)replica_setup->count + 1, sizeof *wholes);
    unsigned *axes = wf_calloc((size_t)replica_setup->count + 1, sizeof *axes);
    weft_status status = parameters_to_joined_mesh(replica_setup, wholes, axes);
    int different = -1;

    if (status == WEFT_OK)
        different = wf_replicas_compare_or_copy(
            replica_setup->r, wholes, axes, replica_setup->count, hash_tensor_names(replica_setup));
    if (status == WEFT_OK && different < 0)
        status = shard_parameters_over_replicas(replica_setup, wholes, axes);
    wf_free(wholes);
    wf_free(axes);
    WF_TRY(status);
    WF_NEED(different != WF_DIFFERS_ELSEWHERE, WEFT_ERR_ARG,
            "data parallel: replicas differ in a tensor of another module, with other ranks of "
            "this mesh's root, which name it");
    WF_NEED(different < 0, WEFT_ERR_ARG,
            "data parallel: replicas differ in %s '%s' of module '%s'; make them with equal "
            "seeds or have them copied (WEFT_REPLICAS_COPIED)",
            wf_replica_tensor_kind(replica_setup->changes[different].buffer),
            replica_setup->changes[different].name,
            weft_module_path(replica_setup->changes[different].module));
    return WEFT_OK;
}

/* ---- replacing the parameters ---- */

/* The axes along which the leaf is replicated: its gradient is reduced there by buckets. */
static unsigned axes_reduced_in_buckets(const weft_tensor *leaf, unsigned replicas)
{
    unsigned axes = 0;

    for (int a = 0; a < leaf->layout->n_axes; a++)
        if (replicas >> a & 1 && weft_is_replicate(leaf->layout->placements[a])) axes |= 1u << a;
    return axes;
}

static void record_replica_tensors(struct wf_replicas *r, struct replica_setup *replica_setup)
{
    r->members = wf_calloc((size_t)replica_setup->count + 1, sizeof *r->members);
    r->n_members = replica_setup->count;
    r->leaves = wf_calloc((size_t)replica_setup->count + 1, sizeof *r->leaves);
    r->numbers = wf_calloc(wf_replica_stats_count(r), sizeof *r->numbers);
    for (int i = 0; i < replica_setup->count; i++) {
        struct parameter_change *parameter_change = &replica_setup->changes[i];
        unsigned replicas = replica_axes_of(r, parameter_change->from->layout);

        r->members[i] = (struct wf_replica_tensor){
            .grad_state = {.hook = &r->grad_hook,
                           .axes = axes_reduced_in_buckets(parameter_change->leaf, replicas)},
            .buffer = parameter_change->buffer,
            .replicas = replicas,
            .leaf = weft_retain(parameter_change->leaf),
            .view = wf_layout_retain(parameter_change->from->layout),
            .whole = wf_layout_retain(parameter_change->whole)};
        parameter_change->leaf->grad_state = &r->members[i].grad_state;
        r->leaves[i] = parameter_change->leaf;
        r->device = wf_device_of(parameter_change->leaf);
        r->meta = r->device == WEFT_META;
    }
    wf_buckets_build(r);
}

static weft_tensor *find_new_leaf(const struct replica_setup *replica_setup,
                                  const weft_tensor *from)
{
    int i = 0;

    while (replica_setup->changes[i].from != from) i++;
    return replica_setup->changes[i].leaf;
}

static weft_status install_module_parameters(weft_module *m, struct wf_replicas *r,
                                             const struct replica_setup *replica_setup)
{
    for (int i = 0; i < m->n_tensors; i++)
        wf_parameter_replace_tensor(&m->parameters[i],
                                    find_new_leaf(replica_setup, m->parameters[i].tensor));
    r->refs++;
    return wf_module_add_hook(m, (struct wf_hook){.view_parameter = wf_replica_parameter_view,
                                                  .payload = r,
                                                  .release = wf_replicas_release});
}

static weft_status install_tree_parameters(weft_module *module, struct wf_replicas *r,
                                           const struct replica_setup *replica_setup)
{
    int count;
    weft_module **modules = wf_module_list_tree(module, &count);
    weft_status status = WEFT_OK;

    for (int i = 0; i < count && status == WEFT_OK; i++)
        status = install_module_parameters(modules[i], r, replica_setup);
    wf_free(modules);
    return status;
}

static weft_status make_module_replica(weft_module *module, struct wf_replicas *r)
{
    struct replica_setup replica_setup = {.r = r, .meshes = {{weft_mesh_retain(r->mesh)}, 1}};
    weft_status status = weft_module_each_tensor(module, list_module_tensor, &replica_setup);

    if (status == WEFT_OK) status = join_meshes(&replica_setup);
    if (status == WEFT_OK) status = make_leaf_parameters(&replica_setup);
    if (status == WEFT_OK) record_replica_tensors(r, &replica_setup);
    if (status == WEFT_OK) status = install_tree_parameters(module, r, &replica_setup);
    wf_mesh_list_free(&replica_setup.meshes);
    wf_free(replica_setup.changes);
    return status;
}

/* What each axis is for. Those of the replicas are the first of the joined mesh. */
static weft_status set_replica_axes(struct wf_replicas *r)
{
    weft_data_parallel_config *config = &r->config;

    r->axes = (1u << weft_mesh_ndim(r->mesh)) - 1;
    r->count = weft_mesh_size(r->mesh);
    WF_TRY(wf_mesh_axes_by_name(&r->cut, r->mesh, config->shard_axes));
    WF_TRY(wf_mesh_axes_by_name(&r->spread, r->mesh, config->expert_axes));
    if (config->shard && !config->shard_axes) r->cut = r->axes;
    config->shard_axes = config->expert_axes = NULL; /* the caller's */
    return WEFT_OK;
}

weft_status weft_data_parallel(weft_module *module, weft_mesh *mesh,
                               weft_data_parallel_config config)
{
    struct wf_replicas *r;
    weft_scope *scope;
    weft_status status;

    WF_NEED_GIVEN(module && mesh, "data parallel: module or mesh is NULL");
    WF_NEED(config.backwards >= 0, WEFT_ERR_ARG, "data parallel: %d backwards", config.backwards);
    WF_NEED((unsigned)config.start <= WEFT_REPLICAS_TRUSTED, WEFT_ERR_ARG,
            "data parallel: there is no start %d", (int)config.start);
    WF_NEED((unsigned)config.buffers <= WEFT_BUFFERS_OWN, WEFT_ERR_ARG,
            "data parallel: there is no rule %d for buffers", (int)config.buffers);
    WF_TRY(check_modules_not_replicas(module));
    WF_TRY(wf_check_no_outside_ties(module, "data parallel"));
    if (weft_mesh_device(mesh) != WEFT_META)
        WF_TRY(weft_module_to_device(module, weft_mesh_device(mesh)));
    r = WF_NEW(struct wf_replicas);
    *r = (struct wf_replicas){.grad_hook = {.reduce = wf_replicas_reduce_grads,
                                            .complete = wf_replicas_grad_complete,
                                            .before_add = wf_replicas_grad_before_add,
                                            .before_drop = wf_replicas_grad_dropped},
                              .refs = 1,
                              .mesh = weft_mesh_retain(mesh),
                              .config = config,
                              .mean_loss = NAN};
    if (!r->config.bucket_bytes) r->config.bucket_bytes = DEFAULT_BUCKET;
    scope = weft_scope_open();
    weft_no_grad_open();
    status = set_replica_axes(r);
    if (status == WEFT_OK) status = make_module_replica(module, r);
    weft_no_grad_close();
    weft_scope_close(scope);
    wf_replicas_release(r);
    return status;
}
