/*
 * parallelize.c: a plan as a whole: match, check everything, then change.
 *
 * All checks use what every rank knows, so that either all ranks change their module or none does.
 */
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "parallel_styles/style.h"

weft_status wf_plan_check_mesh(const weft_mesh *mesh)
{
    char text[128];

    if (weft_mesh_ndim(mesh) == 1) return WEFT_OK;
    weft_mesh_print(mesh, text, sizeof text);
    return WF_FAIL(WEFT_ERR_ARG,
                   "parallelize: styles work along one mesh axis, the mesh is %s; "
                   "use weft_mesh_sub(mesh, name)",
                   text);
}

static weft_status check_module(const weft_module *m)
{
    bool plain = !m->distributed;

    for (int i = 0; i < m->n_parameters; i++) plain &= !weft_tensor_mesh(m->parameters[i].tensor);
    WF_NEED(plain, WEFT_ERR_STATE, "parallelize: module '%s' (%s) was distributed before", m->path,
            m->kind->type);
    return WEFT_OK;
}

static weft_status resolve_all(struct wf_style_use *uses, const struct wf_match *matches, int count,
                               int ways)
{
    for (int i = 0; i < count; i++) {
        weft_style style = matches[i].line->style;

        if (wf_style_resolve(&uses[i], matches[i].module, style, ways) != WEFT_OK)
            return wf_plan_blame("plan", style.line);
        if (uses[i].functions->partition) WF_TRY(check_module(matches[i].module));
    }
    return WEFT_OK;
}

static weft_status apply_all(weft_module *root, weft_mesh *mesh, const struct wf_style_use *uses,
                             const struct wf_match *matches, int count)
{
    struct wf_snapshot *snapshot = wf_snapshot_take(root);
    weft_status status = WEFT_OK;

    for (int i = 0; i < count && status == WEFT_OK; i++)
        status = wf_style_apply(matches[i].module, mesh, &uses[i]);
    if (status == WEFT_OK) status = wf_snapshot_keep_ties(snapshot);
    wf_snapshot_drop(snapshot, status != WEFT_OK);
    return status;
}

/* Without a plan: a warning, unless there is none because it could not be made. */
static weft_status no_plan(bool strict)
{
    if (weft_error_status() != WEFT_OK) return weft_error_status();
    WF_NEED(!strict, WEFT_ERR_ARG, "parallelize: plan is NULL");
    if (wf_log_rank() <= 0)
        WF_LOG(WF_LOG_WARN, "plan", "parallelize: no plan is given, the module stays as it is");
    return WEFT_OK;
}

static weft_status parallelize(weft_module *module, weft_mesh *mesh, const weft_plan *plan,
                               bool strict)
{
    struct wf_match *matches;
    struct wf_style_use *uses;
    weft_status status;
    int count;

    if (!mesh && weft_error_status() == WEFT_OK) mesh = weft_mesh_current();
    if (!module || !mesh)
        return weft_error_status() != WEFT_OK
                   ? weft_error_status()
                   : WF_FAIL(WEFT_ERR_ARG, "parallelize: module or mesh is NULL");
    if (!plan) return no_plan(strict);
    WF_TRY(wf_plan_check_mesh(mesh));
    WF_TRY(wf_plan_match(&matches, &count, module, plan, strict));
    uses = wf_calloc((size_t)count + 1, sizeof *uses);
    status = resolve_all(uses, matches, count, weft_mesh_axis_size(mesh, 0));
    if (status == WEFT_OK) status = apply_all(module, mesh, uses, matches, count);
    wf_free(uses);
    wf_free(matches);
    return status;
}

weft_status weft_parallelize_module(weft_module *module, weft_mesh *mesh, const weft_plan *plan)
{
    return parallelize(module, mesh, plan, false);
}

weft_status weft_parallelize_module_strict(weft_module *module, weft_mesh *mesh,
                                           const weft_plan *plan)
{
    return parallelize(module, mesh, plan, true);
}
