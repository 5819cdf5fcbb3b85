/* data_parallel.c: making a module a replica: all of it, or nothing. See NOTE [replicas]. */
#include "data_parallel/data_parallel.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <weft/autograd.h>
#include <weft/dtensor.h>

#include "base/error.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/mem.h"
#include "dtensor/redistribute.h"
#include "mesh/mesh.h"
#include "ops/call.h"
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
    wf_buckets_give_up(r);
    for (int i = 0; i < r->n_members; i++) {
        struct wf_member *m = &r->members[i];

        m->leaf->kept = NULL;
        weft_release(m->leaf);
        weft_release(m->before);
        wf_layout_release(m->lent);
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

/* ---- what each parameter becomes ---- */

/* A parameter of the tree on its way. */
struct change {
    weft_module *module; /* the first that has it, */
    const char *name;    /* and its name there */
    bool buffer;
    weft_tensor *from;
    struct wf_layout *whole;
    weft_tensor *leaf;
};

struct making {
    struct wf_replicas *r;
    struct wf_mesh_list meshes; /* the replicas' and those of the styles */
    weft_mesh *last;            /* that was added; NULL: none */
    struct change *changes;
    int count;
};

const char *wf_member_kind(bool buffer) { return buffer ? "buffer" : "parameter"; }

static weft_status add_mesh(struct making *making, const weft_module_tensor *it)
{
    weft_mesh *mesh = weft_tensor_mesh(it->tensor);
    char what[256];

    if (!mesh || mesh == making->last) return WEFT_OK;
    snprintf(what, sizeof what, "%s '%s' of module '%s'", wf_member_kind(it->buffer), it->name,
             weft_module_path(it->module));
    making->last = mesh;
    return wf_mesh_list_add(&making->meshes, making->r, mesh, what);
}

static weft_status list_tensor(const weft_module_tensor *it, void *payload)
{
    struct making *making = payload;
    weft_tensor *parameter = it->tensor;
    weft_module *m = it->module;
    const char *name = it->name, *kind = wf_member_kind(it->buffer);
    const struct wf_desc *desc = &parameter->layout->desc;

    WF_NEED(!parameter->kept, WEFT_ERR_STATE,
            "data parallel: %s '%s' of module '%s' is a replica's already, or an "
            "optimizer's that updates it in backward",
            kind, name, weft_module_path(m));
    WF_NEED(desc->contiguous || !wf_layout_parts_alike(parameter->layout), WEFT_ERR_ARG,
            "data parallel: %s '%s' of module '%s' is a strided view; give the module a "
            "copy",
            kind, name, weft_module_path(m));
    WF_NEED_LOCAL(desc->contiguous, WEFT_ERR_ARG,
                  "data parallel: this rank's part of %s '%s' of module '%s' is strided; "
                  "give the module a copy",
                  kind, name, weft_module_path(m));
    WF_NEED(!parameter->layout->partial, WEFT_ERR_ARG,
            "data parallel: %s '%s' of module '%s' is a pending reduction", kind, name,
            weft_module_path(m));
    WF_NEED(!making->count || wf_is_meta(parameter) == wf_is_meta(making->changes[0].from),
            WEFT_ERR_STATE,
            "data parallel: %s '%s' of module '%s' %s elements, unlike those before; "
            "weft_module_materialize comes first",
            kind, name, weft_module_path(m), wf_is_meta(parameter) ? "has no" : "has");
    WF_TRY(add_mesh(making, it));
    making->changes = wf_grown(making->changes, making->count, sizeof *making->changes);
    making->changes[making->count++] =
        (struct change){.module = m, .name = name, .buffer = it->buffer, .from = parameter};
    return WEFT_OK;
}

static weft_status check_modules(weft_module *module)
{
    int count;
    weft_module **modules = wf_module_list(module, &count);
    weft_status status = WEFT_OK;

    for (int i = 0; i < count && status == WEFT_OK; i++)
        if (modules[i]->lending.lend)
            status = WF_FAIL(WEFT_ERR_STATE, "data parallel: module '%s' (%s) is a replica already",
                             modules[i]->path, modules[i]->kind->type);
    wf_free(modules);
    return status;
}

static weft_status join_meshes(struct making *making)
{
    weft_mesh *both = wf_mesh_list_join(&making->meshes);

    if (!both) return weft_error_status();
    weft_mesh_release(making->r->mesh);
    making->r->mesh = both;
    return WEFT_OK;
}

/* Of which axes a parameter that was laid out so has replicas along. */
static unsigned replicas_of(const struct wf_replicas *r, const struct wf_layout *before)
{
    return r->axes & ~wf_axes_among(r->mesh, before);
}

/* The parameter over the mesh of all, with the bytes that it has. */
static weft_tensor *spread(const struct making *making, weft_tensor *parameter)
{
    const struct wf_layout *from = parameter->layout;
    weft_placement placements[WEFT_MAX_AXES];
    struct wf_layout *layout;
    weft_tensor *t;

    WF_TRY_PTR(wf_placements_among(placements, making->r->mesh, from));
    layout = wf_layout_new(making->r->mesh, placements, (weft_dtype)from->desc.dtype,
                           from->desc.ndim, from->desc.global, from->desc.stride);
    layout = wf_layout_onto(layout, (weft_device)from->desc.device);
    t = wf_tensor_new(layout, wf_block_retain(parameter->block), parameter->data, "replica");
    wf_layout_release(layout);
    return t;
}

static weft_status spread_all(struct making *making, weft_tensor **wholes, unsigned *axes)
{
    for (int i = 0; i < making->count; i++) {
        wholes[i] = spread(making, making->changes[i].from);
        if (!wholes[i]) return weft_error_status();
        axes[i] = replicas_of(making->r, making->changes[i].from->layout);
    }
    return WEFT_OK;
}

/* A part that keeps the whole's bytes alive would save no memory. */
static weft_tensor *cut(weft_tensor *whole, unsigned axes)
{
    weft_placement to[WEFT_MAX_AXES];

    wf_placements_cut(to, whole->layout, axes);
    if (memcmp(to, whole->layout->placements, sizeof to) == 0) return whole;
    return wf_call1(WF_OP_copy, wf_redistribute(whole, to));
}

static weft_status cut_all(struct making *making, weft_tensor *const *wholes, const unsigned *axes)
{
    for (int i = 0; i < making->count; i++) {
        struct change *change = &making->changes[i];

        change->whole = wholes[i]->layout;
        change->leaf = cut(wholes[i], change->buffer ? 0 : making->r->cut & axes[i]);
        if (!change->leaf) return weft_error_status();
        change->leaf->requires_grad = change->from->requires_grad;
    }
    return WEFT_OK;
}

/* By which ranks know that others have the same list: a hash of its names. */
static uint32_t name_of_list(const struct making *making)
{
    uint64_t hash = 0;

    for (int i = 0; i < making->count; i++) {
        const struct change *change = &making->changes[i];
        char *text = wf_format("%llx %s.%s", (unsigned long long)hash,
                               weft_module_path(change->module), change->name);

        hash = wf_hash_bytes(text, strlen(text));
        wf_free(text);
    }
    return (uint32_t)hash;
}

static weft_status make_leaves(struct making *making)
{
    weft_tensor **wholes = wf_calloc((size_t)making->count + 1, sizeof *wholes);
    unsigned *axes = wf_calloc((size_t)making->count + 1, sizeof *axes);
    weft_status status = spread_all(making, wholes, axes);
    int different = -1;

    if (status == WEFT_OK)
        different = wf_replicas_start(making->r, wholes, axes, making->count, name_of_list(making));
    if (status == WEFT_OK && different < 0) status = cut_all(making, wholes, axes);
    wf_free(wholes);
    wf_free(axes);
    WF_TRY(status);
    WF_NEED(different != WF_DIFFERS_ELSEWHERE, WEFT_ERR_ARG,
            "data parallel: replicas differ in a tensor of another module, with other ranks of "
            "this mesh's root, which name it");
    WF_NEED(different < 0, WEFT_ERR_ARG,
            "data parallel: replicas differ in %s '%s' of module '%s'; make them with equal "
            "seeds or have them copied (WEFT_REPLICAS_COPIED)",
            wf_member_kind(making->changes[different].buffer), making->changes[different].name,
            weft_module_path(making->changes[different].module));
    return WEFT_OK;
}

/* ---- putting them in place ---- */

/* The axes along which the leaf is whole on every replica: its gradient waits there. */
static unsigned waiting_axes(const weft_tensor *leaf, unsigned replicas)
{
    unsigned axes = 0;

    for (int a = 0; a < leaf->layout->n_axes; a++)
        if (replicas >> a & 1 && weft_is_replicate(leaf->layout->placements[a])) axes |= 1u << a;
    return axes;
}

static void adopt(struct wf_replicas *r, struct making *making)
{
    r->members = wf_calloc((size_t)making->count + 1, sizeof *r->members);
    r->n_members = making->count;
    r->leaves = wf_calloc((size_t)making->count + 1, sizeof *r->leaves);
    r->numbers = wf_calloc(wf_news_count(r), sizeof *r->numbers);
    for (int i = 0; i < making->count; i++) {
        struct change *change = &making->changes[i];
        unsigned replicas = replicas_of(r, change->from->layout);

        r->members[i] = (struct wf_member){
            .kept = {.keeper = &r->keeper, .axes = waiting_axes(change->leaf, replicas)},
            .buffer = change->buffer,
            .replicas = replicas,
            .leaf = weft_retain(change->leaf),
            .lent = wf_layout_retain(change->from->layout),
            .whole = wf_layout_retain(change->whole)};
        change->leaf->kept = &r->members[i].kept;
        r->leaves[i] = change->leaf;
        r->meta = wf_is_meta(change->leaf);
    }
    wf_buckets_make(r);
}

static weft_tensor *leaf_of(const struct making *making, const weft_tensor *from)
{
    int i = 0;

    while (making->changes[i].from != from) i++;
    return making->changes[i].leaf;
}

static weft_status install(weft_module *m, struct wf_replicas *r, const struct making *making)
{
    for (int i = 0; i < m->n_held; i++)
        wf_parameter_put(&m->parameters[i], leaf_of(making, m->parameters[i].tensor));
    m->lending = (struct wf_lending){wf_replica_lend, r, wf_replicas_release};
    r->refs++;
    return WEFT_OK;
}

static weft_status install_all(weft_module *module, struct wf_replicas *r,
                               const struct making *making)
{
    int count;
    weft_module **modules = wf_module_list(module, &count);
    weft_status status = WEFT_OK;

    for (int i = 0; i < count && status == WEFT_OK; i++) status = install(modules[i], r, making);
    wf_free(modules);
    return status;
}

static weft_status make(weft_module *module, struct wf_replicas *r)
{
    struct making making = {.r = r, .meshes = {{weft_mesh_retain(r->mesh)}, 1}};
    weft_status status = weft_module_each_tensor(module, list_tensor, &making);

    if (status == WEFT_OK) status = join_meshes(&making);
    if (status == WEFT_OK) status = make_leaves(&making);
    if (status == WEFT_OK) adopt(r, &making);
    if (status == WEFT_OK) status = install_all(module, r, &making);
    wf_mesh_list_free(&making.meshes);
    wf_free(making.changes);
    return status;
}

/* Which axes are for what. Those of the replicas are the first of the mesh of all. */
static weft_status set_axes(struct wf_replicas *r)
{
    weft_data_parallel_config *config = &r->config;

    r->axes = (1u << weft_mesh_ndim(r->mesh)) - 1;
    r->count = weft_mesh_size(r->mesh);
    WF_TRY(wf_axes_named(&r->cut, r->mesh, config->shard_axes));
    WF_TRY(wf_axes_named(&r->spread, r->mesh, config->expert_axes));
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
    WF_TRY(check_modules(module));
    WF_TRY(wf_need_own_parameters(module, "data parallel"));
    r = WF_NEW(struct wf_replicas);
    *r = (struct wf_replicas){.keeper = {.reduce = wf_replicas_reduce,
                                         .arrived = wf_replicas_arrived,
                                         .growing = wf_replicas_growing,
                                         .dropped = wf_replicas_dropped},
                              .refs = 1,
                              .mesh = weft_mesh_retain(mesh),
                              .config = config,
                              .mean_loss = NAN};
    if (!r->config.bucket_bytes) r->config.bucket_bytes = DEFAULT_BUCKET;
    scope = weft_scope_open();
    weft_no_grad_begin();
    status = set_axes(r);
    if (status == WEFT_OK) status = make(module, r);
    weft_no_grad_end();
    weft_scope_close(scope);
    wf_replicas_release(r);
    return status;
}
