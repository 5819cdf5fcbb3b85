/*
 * convert.c: between plain and distributed tensors. Both ways are views that only change labels.
 * Gradient layouts: docs/concepts/autograd.md.
 */
#include <weft/dtensor.h>

#include <string.h>

#include "base/error.h"
#include "dtensor/care.h"
#include "dtensor/placements.h"
#include "dtensor/plan.h"
#include "ops/families.h"

/* ---- from_local: attributes are mesh, whether the shape is given, placements, and it ---- */

enum { AT_MESH, AT_GIVEN, AT_PLACEMENTS };

static int at_shape(const weft_mesh *mesh)
{
    return AT_PLACEMENTS + WF_PLACEMENT_WORDS * weft_mesh_ndim(mesh);
}

static void global_shape(int64_t *global, const struct wf_plan *plan, const weft_mesh *mesh,
                         const weft_placement *placements)
{
    const struct wf_desc *local = &plan->in[0]->desc;

    for (int d = 0; d < local->ndim; d++)
        global[d] = plan->attr[AT_GIVEN] ? plan->attr[at_shape(mesh) + d] : local->shape[d];
    for (int a = 0; !plan->attr[AT_GIVEN] && a < weft_mesh_ndim(mesh); a++)
        if (wf_is_cut(placements[a])) global[placements[a].dim] *= weft_mesh_axis_size(mesh, a);
}

weft_status wf_plan_from_local(struct wf_plan *plan, const struct wf_infer *call)
{
    weft_mesh *mesh = (weft_mesh *)(intptr_t)plan->attr[AT_MESH];
    const struct wf_desc *local = &plan->in[0]->desc;
    weft_placement given[WEFT_MAX_AXES], placements[WEFT_MAX_AXES];
    int64_t global[WEFT_MAX_DIMS];
    const struct wf_desc *part;

    (void)call;
    WF_NEED(!plan->in[0]->mesh, WEFT_ERR_ARG, "from_local: the tensor is distributed already: %s",
            wf_infer_text(call));
    wf_placements_unpack(given, plan->attr + AT_PLACEMENTS, weft_mesh_ndim(mesh));
    WF_TRY(wf_placements_normalize(placements, given, weft_mesh_ndim(mesh), local->ndim,
                                   "from_local"));
    global_shape(global, plan, mesh, placements);
    WF_TRY(wf_placements_fit(placements, weft_mesh_ndim(mesh), global, "from_local"));
    wf_plan_set_output(plan, 0,
                       wf_layout_new(mesh, placements, (weft_dtype)local->dtype, local->ndim,
                                     global, local->stride));
    part = &plan->out[0]->desc;
    plan->used[0] = wf_layout_retain(plan->in[0]);
    for (int d = 0; d < local->ndim; d++)
        WF_NEED(part->shape[d] == local->shape[d], WEFT_ERR_SHAPE,
                "from_local: this rank's part should have %lld elements in dim %d and has %lld "
                "(give the global shape "
                "where shards are uneven): %s",
                (long long)part->shape[d], d, (long long)local->shape[d], wf_infer_text(call));
    return WEFT_OK;
}

void wf_vjp_from_local(const struct wf_node *n, weft_tensor *g, weft_tensor **in)
{
    const struct wf_layout *out = wf_node_plan(n)->out[0];
    weft_placement to[WEFT_MAX_AXES];

    memcpy(to, out->placements, sizeof to);
    wf_without_partial(to, out->n_axes);
    in[0] = weft_to_local(wf_redistribute_implicitly("from_local's gradient", g, to), NULL);
}

weft_tensor *weft_from_local(weft_tensor *local, weft_mesh *mesh, const weft_placement *placements,
                             const int64_t *shape)
{
    int64_t attr[WF_MAX_ATTR];
    struct wf_args args = {.attr = attr};

    if (!local || !mesh) return NULL;
    attr[AT_MESH] = (int64_t)(intptr_t)mesh;
    attr[AT_GIVEN] = shape != NULL;
    wf_placements_pack(attr + AT_PLACEMENTS, placements, weft_mesh_ndim(mesh));
    args.n_attr = at_shape(mesh);
    for (int d = 0; shape && d < weft_ndim(local); d++) attr[args.n_attr++] = shape[d];
    return wf_call(WF_OP_from_local, 1, &local, &args);
}

/* ---- to_local: attributes are the gradient's placements ---- */

weft_status wf_plan_to_local(struct wf_plan *plan, const struct wf_infer *call)
{
    weft_placement given[WEFT_MAX_AXES], normal[WEFT_MAX_AXES];
    struct wf_layout *in = plan->in[0];

    (void)call;
    wf_placements_unpack(given, plan->attr, in->n_axes);
    WF_TRY(wf_placements_normalize(normal, given, in->n_axes, in->desc.ndim, "to_local"));
    wf_plan_set_output(plan, 0, wf_layout_local(in));
    plan->used[0] = wf_layout_retain(in);
    return WEFT_OK;
}

void wf_vjp_to_local(const struct wf_node *n, weft_tensor *g, weft_tensor **in)
{
    const struct wf_plan *plan = wf_node_plan(n);
    weft_placement placements[WEFT_MAX_AXES];

    wf_placements_unpack(placements, plan->attr, plan->in[0]->n_axes);
    in[0] = weft_from_local(g, plan->in[0]->mesh, placements, plan->in[0]->desc.global);
}

weft_tensor *weft_to_local(weft_tensor *t, const weft_placement *grad_placements)
{
    int64_t words[WF_PLACEMENT_WORDS * WEFT_MAX_AXES];
    struct wf_args args = {.attr = words};
    weft_placement standard[WEFT_MAX_AXES];

    if (!t || !t->layout->mesh) return t;
    if (!grad_placements) {
        memcpy(standard, t->layout->placements, sizeof standard);
        wf_without_partial(standard, t->layout->n_axes);
        grad_placements = standard;
    }
    wf_placements_pack(words, grad_placements, t->layout->n_axes);
    args.n_attr = WF_PLACEMENT_WORDS * t->layout->n_axes;
    return wf_call(WF_OP_to_local, 1, &t, &args);
}

weft_tensor *weft_full_tensor(weft_tensor *t)
{
    weft_placement replicated[WEFT_MAX_AXES] = {{0}};

    return t && t->layout->mesh ? weft_to_local(weft_redistribute(t, replicated), NULL) : t;
}
