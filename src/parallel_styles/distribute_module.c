/*
 * distribute_module.c: the general way to spread a module: split what `partition` wants split,
 * replicate the rest, and put two hooks on the module.
 */
#include <weft/autograd.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/where.h"
#include "parallel_styles/style.h"

/* What both hooks need; lives as long as one of them. */
struct hooked {
    struct wf_distribution how;
    weft_mesh *mesh;
    int refs;
};

static void let_go(void *payload)
{
    struct hooked *h = payload;

    if (--h->refs) return;
    if (h->how.release) h->how.release(h->how.payload);
    weft_mesh_release(h->mesh);
    wf_free(h);
}

static weft_status run_input(weft_module *m, weft_tensor **inputs, int n, void *payload)
{
    struct hooked *h = payload;

    return h->how.input(m, inputs, n, h->mesh, h->how.payload);
}

static weft_tensor *run_output(weft_module *m, weft_tensor *output, void *payload)
{
    struct hooked *h = payload;

    return h->how.output(m, output, h->mesh, h->how.payload);
}

static weft_status run_outputs(weft_module *m, weft_tensor **outputs, int n, void *payload)
{
    struct hooked *h = payload;

    return h->how.outputs(m, outputs, n, h->mesh, h->how.payload);
}

static weft_status install(weft_module *m, struct hooked *h)
{
    bool one = h->how.output && (wf_module_outputs(m) == 1 || !h->how.outputs);

    if (h->how.input) {
        h->refs++;
        WF_TRY(weft_module_on_input(m, run_input, h, let_go));
    }
    if (one || h->how.outputs) h->refs++;
    if (one) return weft_module_on_output(m, run_output, h, let_go);
    if (h->how.outputs) return weft_module_on_outputs(m, run_outputs, h, let_go);
    return WEFT_OK;
}

/* Whose parameter it is that cannot be spread so. */
static weft_status blame(const weft_module *m, int index)
{
    char *place = wf_format("%s '%s' of %s", index < m->n_parameters ? "parameter" : "buffer",
                            m->parameters[index].name, m->kind->type);
    weft_status status = wf_failure_of(place);

    wf_free(place);
    return status;
}

weft_status wf_distribute_parameter(weft_module *m, int index, weft_mesh *mesh,
                                    const weft_placement *placements, int source)
{
    struct wf_parameter *p = &m->parameters[index];
    weft_scope *scope = weft_scope_open();
    weft_tensor *t = weft_distribute_tensor(p->tensor, mesh, placements, source);
    bool wanted = weft_requires_grad(p->tensor);
    weft_status status = WEFT_OK;

    if (!t || (weft_requires_grad(t) != wanted && !weft_set_requires_grad(t, wanted)))
        status = blame(m, index);
    else
        wf_parameter_put(p, t);
    if (status == WEFT_OK) m->parts = &wf_parts;
    weft_scope_close(scope);
    return status;
}

static weft_status replicate_rest(weft_module *m, weft_mesh *mesh, int source)
{
    weft_placement everywhere[WEFT_MAX_AXES] = {{0}}; /* R on every axis */

    for (int i = 0; i < m->n_held; i++)
        if (!weft_tensor_mesh(m->parameters[i].tensor))
            WF_TRY(wf_distribute_parameter(m, i, mesh, everywhere, source));
    return WEFT_OK;
}

static weft_status partition_all(weft_module *root, weft_mesh *mesh,
                                 const struct wf_distribution *how)
{
    struct wf_where before = wf_here;
    weft_status status = WEFT_OK;
    int count;
    weft_module **modules = wf_module_list(root, &count);

    for (int i = 0; i < count && status == WEFT_OK; i++) {
        wf_here.module = modules[i]->path;
        if (how->partition) status = how->partition(modules[i], mesh, how->payload);
        if (status == WEFT_OK) status = replicate_rest(modules[i], mesh, how->source);
    }
    wf_here = before;
    wf_free(modules);
    return status;
}

weft_status wf_distribute(weft_module *m, weft_mesh *mesh, const struct wf_distribution *how)
{
    struct wf_snapshot *snapshot = wf_snapshot_take(m);
    struct hooked *h = WF_NEW(struct hooked);
    weft_status status;

    *h = (struct hooked){.how = *how, .mesh = weft_mesh_retain(mesh), .refs = 1};
    status = how->hooks_only ? WEFT_OK : partition_all(m, mesh, how);
    if (status == WEFT_OK) status = wf_snapshot_keep_ties(snapshot);
    if (status == WEFT_OK) status = install(m, h);
    if (status == WEFT_OK && !how->hooks_only) m->distributed = true;
    wf_snapshot_drop(snapshot, status != WEFT_OK);
    let_go(h);
    return status;
}

weft_status weft_distribute_module(weft_module *module, weft_mesh *mesh,
                                   weft_partition_function *partition, weft_input_function *input,
                                   weft_output_function *output, void *payload)
{
    struct wf_distribution how = {
        .partition = partition, .input = input, .output = output, .source = -1, .payload = payload};
    struct wf_snapshot *snapshot;
    weft_status status;

    WF_TRY(wf_style_subject(module, &mesh, "distribute module"));
    WF_NEED(!module->distributed, WEFT_ERR_STATE,
            "distribute module: module '%s' (%s) was distributed before", module->path,
            module->kind->type);
    WF_NEED(
        !output || wf_module_outputs(module) == 1, WEFT_ERR_ARG,
        "distribute module: module '%s' (%s) gives %d outputs: weft_custom_style has a function "
        "for all of them",
        module->path, module->kind->type, wf_module_outputs(module));
    snapshot = wf_snapshot_take(wf_module_root(module));
    status = wf_distribute(module, mesh, &how);
    if (status == WEFT_OK) status = wf_snapshot_keep_ties(snapshot);
    wf_snapshot_drop(snapshot, status != WEFT_OK);
    return status;
}
