/*
 * parallelize.c: a plan as a whole: match, check everything, then change.
 *
 * All checks use what every rank knows, so that either all ranks change their module or none does.
 */
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "parallel_styles/style.h"

weft_status wf_check_module_and_mesh(const weft_module *module, weft_mesh **mesh, const char *who)
{
    if (!*mesh && weft_error_status() == WEFT_OK) *mesh = weft_default_mesh();
    WF_NEED_GIVEN(module && *mesh, "%s: %s is NULL", who, module ? "mesh" : "module");
    return WEFT_OK;
}

weft_status wf_style_plan_check_mesh(const weft_mesh *mesh)
{
    char text[128];

    if (weft_mesh_ndim(mesh) == 1) return WEFT_OK;
    weft_mesh_format(mesh, text, sizeof text);
    return WF_FAIL(WEFT_ERR_ARG,
                   "parallelize: styles work along one mesh axis, the mesh is %s; "
                   "use weft_mesh_sub(mesh, name)",
                   text);
}

weft_status wf_style_plan_resolve(struct wf_style_match *matches, int count, int ways)
{
    for (int i = 0; i < count; i++) {
        weft_style style = matches[i].line->style;

        if (wf_style_resolve(&matches[i].use, matches[i].module, style, ways) != WEFT_OK)
            return wf_error_add_plan_line("plan", style.line);
    }
    return WEFT_OK;
}

bool wf_module_is_distributed(const weft_module *m)
{
    bool spread = m->distributed;

    for (int i = 0; i < m->n_tensors; i++)
        spread |= weft_tensor_mesh(m->parameters[i].tensor) != NULL;
    return spread;
}

static weft_status check_not_distributed(const struct wf_style_match *matches, int count)
{
    for (int i = 0; i < count; i++) {
        const weft_module *m = matches[i].module;

        WF_NEED(!matches[i].use.functions->partition || !wf_module_is_distributed(m),
                WEFT_ERR_STATE, "parallelize: module '%s' (%s) was distributed before", m->path,
                m->kind->type);
    }
    return WEFT_OK;
}

weft_status wf_style_plan_apply(weft_module *root, weft_mesh *mesh,
                                const struct wf_style_match *matches, int count)
{
    struct wf_module_snapshot *snapshot = wf_module_snapshot_take(wf_module_root(root));
    weft_status status = WEFT_OK;

    for (int i = 0; i < count && status == WEFT_OK; i++)
        status = wf_style_apply(matches[i].module, mesh, &matches[i].use);
    if (status == WEFT_OK) status = wf_module_snapshot_restore_ties(snapshot);
    wf_module_snapshot_end(snapshot, status != WEFT_OK);
    return status;
}

/* What no style shards is used beside what one does. */
static weft_status move_to_device_of_mesh(weft_module *module, const weft_mesh *mesh)
{
    weft_device device = weft_mesh_device(mesh);

    return device == WEFT_META ? WEFT_OK : weft_module_to_device(module, device);
}

/* A NULL plan: a warning, or the error that was recorded when the plan could not be made. */
static weft_status warn_or_fail_without_plan(bool strict)
{
    if (weft_error_status() != WEFT_OK) return weft_error_status();
    WF_NEED(!strict, WEFT_ERR_ARG, "parallelize: plan is NULL");
    if (wf_log_rank() <= 0)
        WF_LOG(WF_LOG_WARN, "plan", "parallelize: no plan is given, the module stays as it is");
    return WEFT_OK;
}

weft_status weft_parallelize_module_with(weft_module *module, weft_mesh *mesh,
                                         const weft_plan *plan, weft_parallelize_options options)
{
    int count, ways, source = (int)options.source - 1;
    struct wf_style_match *matches;
    weft_status status;

    WF_TRY(wf_check_module_and_mesh(module, &mesh, "parallelize"));
    if (!plan) return warn_or_fail_without_plan(options.strict);
    WF_TRY(wf_style_plan_check_mesh(mesh));
    ways = weft_mesh_axis_size(mesh, 0);
    WF_NEED(source >= -1 && source < ways, WEFT_ERR_ARG,
            "parallelize: source rank %d on a mesh of %d", source, ways);
    WF_TRY(wf_style_plan_match(&matches, &count, module, plan, options.strict));
    status = wf_style_plan_resolve(matches, count, ways);
    if (status == WEFT_OK) status = check_not_distributed(matches, count);
    if (status == WEFT_OK) status = move_to_device_of_mesh(module, mesh);
    for (int i = 0; i < count; i++) matches[i].use.source = source;
    if (status == WEFT_OK) status = wf_style_plan_apply(module, mesh, matches, count);
    wf_free(matches);
    return status;
}

weft_status weft_parallelize_module(weft_module *module, weft_mesh *mesh, const weft_plan *plan)
{
    return weft_parallelize_module_with(module, mesh, plan, (weft_parallelize_options){0});
}

weft_status weft_parallelize_module_strict(weft_module *module, weft_mesh *mesh,
                                           const weft_plan *plan)
{
    return weft_parallelize_module_with(module, mesh, plan,
                                        (weft_parallelize_options){.strict = true});
}
