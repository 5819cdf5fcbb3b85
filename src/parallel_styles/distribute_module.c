/*
 * distribute_module.c: the general way to distribute a module: shard what `partition` wants
 * sharded, replicate the rest, and put a hook on the module.
 */
#include <weft/autograd.h>

#include "base/call_context.h"
#include "base/error.h"
#include "base/mem.h"
#include "parallel_styles/style.h"

struct hook_payload {
    struct wf_module_distribution how;
    weft_mesh *mesh;
};

static void release_hook_payload(void *payload)
{
    struct hook_payload *h = payload;

    if (h->how.release) h->how.release(h->how.payload);
    weft_mesh_release(h->mesh);
    wf_free(h);
}

static weft_status input_hook(weft_module *m, weft_tensor **inputs, int n, void *payload)
{
    struct hook_payload *h = payload;

    return h->how.input(m, inputs, n, h->mesh, h->how.payload);
}

static weft_tensor *output_hook(weft_module *m, weft_tensor *output, void *payload)
{
    struct hook_payload *h = payload;

    return h->how.output(m, output, h->mesh, h->how.payload);
}

static weft_status outputs_hook(weft_module *m, weft_tensor **outputs, int n, void *payload)
{
    struct hook_payload *h = payload;

    return h->how.outputs(m, outputs, n, h->mesh, h->how.payload);
}

/* Takes over the payload. */
static weft_status install_module_hook(weft_module *m, struct hook_payload *h)
{
    bool one = h->how.output && (wf_module_output_count(m) == 1 || !h->how.outputs);
    struct wf_hook hook = {.input = h->how.input ? input_hook : NULL,
                           .output = one ? output_hook : NULL,
                           .outputs = !one && h->how.outputs ? outputs_hook : NULL,
                           .payload = h,
                           .release = release_hook_payload};

    if (hook.input || hook.output || hook.outputs) return wf_module_add_hook(m, hook);
    release_hook_payload(h);
    return WEFT_OK;
}

/* Adds module and parameter to the message. */
static weft_status add_parameter_to_error(const weft_module *m, int index)
{
    char *place = wf_format("%s '%s' of %s", index < m->n_parameters ? "parameter" : "buffer",
                            m->parameters[index].name, m->kind->type);
    weft_status status = wf_error_add_prefix(place);

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
        status = add_parameter_to_error(m, index);
    else
        wf_parameter_replace_tensor(p, t);
    if (status == WEFT_OK) m->distributed_callbacks = &wf_distributed_callbacks;
    weft_scope_close(scope);
    return status;
}

static weft_status replicate_unpartitioned(weft_module *m, weft_mesh *mesh, int source)
{
    weft_placement everywhere[WEFT_MAX_AXES] = {{0}}; /* R on every axis */

    for (int i = 0; i < m->n_tensors; i++)
        if (!weft_tensor_mesh(m->parameters[i].tensor))
            WF_TRY(wf_distribute_parameter(m, i, mesh, everywhere, source));
    return WEFT_OK;
}

static weft_status partition_all_modules(weft_module *root, weft_mesh *mesh,
                                         const struct wf_module_distribution *how)
{
    struct wf_call_context before = wf_current_context;
    weft_status status = WEFT_OK;
    int count;
    weft_module **modules = wf_module_list_tree(root, &count);

    for (int i = 0; i < count && status == WEFT_OK; i++) {
        wf_current_context.module = modules[i]->path;
        if (how->partition) status = how->partition(modules[i], mesh, how->payload);
        if (status == WEFT_OK) status = replicate_unpartitioned(modules[i], mesh, how->source);
    }
    wf_current_context = before;
    wf_free(modules);
    return status;
}

weft_status wf_distribute_module_with(weft_module *m, weft_mesh *mesh,
                                      const struct wf_module_distribution *how)
{
    struct wf_module_snapshot *snapshot = wf_module_snapshot_take(m);
    struct hook_payload *h = WF_NEW(struct hook_payload);
    weft_status status;

    *h = (struct hook_payload){.how = *how, .mesh = weft_mesh_retain(mesh)};
    status = how->hooks_only ? WEFT_OK : partition_all_modules(m, mesh, how);
    if (status == WEFT_OK) status = wf_module_snapshot_restore_ties(snapshot);
    if (status == WEFT_OK)
        status = install_module_hook(m, h);
    else
        release_hook_payload(h);
    if (status == WEFT_OK && !how->hooks_only) m->distributed = true;
    wf_module_snapshot_end(snapshot, status != WEFT_OK);
    return status;
}

weft_status weft_distribute_module(weft_module *module, weft_mesh *mesh,
                                   weft_partition_function *partition, weft_input_function *input,
                                   weft_output_function *output, void *payload)
{
    struct wf_module_distribution how = {
        .partition = partition, .input = input, .output = output, .source = -1, .payload = payload};
    struct wf_module_snapshot *snapshot;
    weft_status status;

    WF_TRY(wf_check_module_and_mesh(module, &mesh, "distribute module"));
    WF_NEED(!module->distributed, WEFT_ERR_STATE,
            "distribute module: module '%s' (%s) was distributed before", module->path,
            module->kind->type);
    WF_NEED(
        !output || wf_module_output_count(module) == 1, WEFT_ERR_ARG,
        "distribute module: module '%s' (%s) gives %d outputs: weft_custom_style has a function "
        "for all of them",
        module->path, module->kind->type, wf_module_output_count(module));
    snapshot = wf_module_snapshot_take(wf_module_root(module));
    status = wf_distribute_module_with(module, mesh, &how);
    if (status == WEFT_OK) status = wf_module_snapshot_restore_ties(snapshot);
    wf_module_snapshot_end(snapshot, status != WEFT_OK);
    return status;
}
