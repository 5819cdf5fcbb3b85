/*
 * to_mesh_op.c: redistribution to another mesh as an op on the tape. A partial input is reduced on
 * its own mesh first; where every rank has what it needs already, nothing is sent, and a shard that
 * stays the same is shared.
 */
#include <weft/dtensor.h>

#include <string.h>

#include "base/error.h"
#include "base/observers.h"
#include "dtensor/dispatch/placement_args.h"
#include "dtensor/dispatch/plan_cache.h"
#include "dtensor/dispatch/redistribute_gradient.h"
#include "mesh/mesh.h"
#include "ops/op_functions.h"
#include "redistribute/to_mesh_plan.h"

/* ---- planning ---- */

/* A dim that no axis cuts, of at least as many elements as there are ranks; -1 without. */
static int find_unsharded_dim(const struct wf_layout *in, const weft_placement *to, int ways)
{
    for (int d = 0; d < in->desc.ndim; d++) {
        bool cut = in->desc.global[d] < ways;

        for (int a = 0; a < in->n_axes; a++) cut |= wf_is_shard_or_strided(to[a]) && to[a].dim == d;
        if (!cut) return d;
    }
    return -1;
}

/* Each element is sent once anyway, so a reduce-scatter does where there is a dim for it. */
static void reduced_placements(weft_placement *to, const struct wf_layout *in)
{
    memcpy(to, in->placements, sizeof in->placements);
    for (int a = 0; a < in->n_axes; a++) {
        int dim;

        if (to[a].kind != WEFT_KIND_PARTIAL) continue;
        dim = find_unsharded_dim(in, to, weft_mesh_axis_size(in->mesh, a));
        to[a] = dim >= 0 ? weft_shard(dim) : weft_replicate();
    }
}

static void plan_exchange(struct wf_op_plan *plan, struct wf_layout *to)
{
    struct wf_layout *from = plan->used[0];
    struct wf_to_mesh_plan *to_mesh = wf_to_mesh_plan_new(from, to);

    if (to_mesh->stays) { /* on all ranks, so that all see a write in place through or none does */
        wf_op_plan_set_output(plan, 0,
                              wf_layout_new(to->mesh, to->placements, (weft_dtype)to->desc.dtype,
                                            to->desc.global, from->desc.stride, to->desc.ndim));
        plan->way = WF_EXECUTE_VIEW;
        wf_layout_release(to);
        wf_to_mesh_plan_free(to_mesh);
        return;
    }
    wf_op_plan_set_output(plan, 0, to);
    plan->kernel.prep = to_mesh;
    wf_to_mesh_kernel(&plan->kernel);
}

weft_status wf_plan_to_mesh(struct wf_op_plan *plan, const struct wf_infer *call)
{
    weft_mesh *mesh = plan->attrs.to_mesh.mesh;
    struct wf_layout *in = plan->in[0], *to;
    weft_placement given[WEFT_MAX_AXES], normal[WEFT_MAX_AXES], own[WEFT_MAX_AXES];
    int n = weft_mesh_ndim(mesh);

    WF_NEED(in->mesh, WEFT_ERR_ARG,
            "redistribute to mesh: the tensor is plain; weft_distribute_tensor spreads it: %s",
            wf_infer_inputs_text(call));
    wf_placements_from_words(given, plan->attrs.to_mesh.placements, n);
    WF_TRY(wf_placements_normalize(normal, given, n, in->desc.ndim, "redistribute to mesh"));
    WF_TRY(wf_placements_check_segments(normal, n, in->desc.global, "redistribute to mesh"));
    for (int a = 0; a < n; a++)
        WF_NEED(normal[a].kind != WEFT_KIND_PARTIAL, WEFT_ERR_LAYOUT,
                "redistribute to mesh: nothing becomes partial on another mesh");
    WF_NEED(plan->meta || (!weft_mesh_is_fake(in->mesh) && !weft_mesh_is_fake(mesh)), WEFT_ERR_COMM,
            "redistribute to mesh: a fake mesh: there are no ranks behind it; "
            "tensors on the meta device show what would move");
    reduced_placements(own, in);
    WF_TRY(wf_op_plan_move_input(plan, 0, own));
    to = wf_layout_new(mesh, normal, (weft_dtype)in->desc.dtype, in->desc.global, NULL,
                       in->desc.ndim);
    if (plan->meta)
        wf_op_plan_set_output(plan, 0, to);
    else
        plan_exchange(plan, to);
    return WEFT_OK;
}

/* ---- running, and the way back ---- */

static void run_to_mesh_kernel(const struct wf_kernel_call *k, void *const *out,
                               const void *const *in, const struct wf_scalars *scalars)
{
    (void)scalars;
    wf_to_mesh_run(k->prep, out[0], in[0]);
}

weft_status wf_to_mesh_kernel(struct wf_kernel_call *k)
{
    k->run = run_to_mesh_kernel;
    k->drop = wf_to_mesh_plan_free;
    return WEFT_OK;
}

void wf_vjp_to_mesh(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    in[0] = wf_redistribute_gradient(g, wf_tape_node_input_layout(n, 0));
}

/* What has no elements takes no kernel: the ledger hears of it from here. */
static void announce_exchange(const struct wf_layout *from, const struct wf_layout *to)
{
    weft_placement own[WEFT_MAX_AXES];
    struct wf_layout *source;
    struct wf_to_mesh_plan *to_mesh;

    if (weft_mesh_is_fake(from->mesh) != weft_mesh_is_fake(to->mesh)) return;
    reduced_placements(own, from);
    source = wf_layout_with_placements(from, own);
    to_mesh = wf_to_mesh_plan_new(source, to);
    wf_to_mesh_simulate(to_mesh);
    wf_to_mesh_plan_free(to_mesh);
    wf_layout_release(source);
}

weft_tensor *weft_redistribute_to_mesh(weft_tensor *t, weft_mesh *mesh,
                                       const weft_placement *placements)
{
    static const weft_placement replicated[WEFT_MAX_AXES];
    struct wf_to_mesh_attrs attrs;
    struct wf_op_args args = {.attrs = &attrs};
    weft_tensor *result;

    if (!t) return NULL;
    mesh = wf_mesh_or_current(mesh);
    if (!mesh) return NULL;
    if (!placements) placements = replicated;
    if (t->layout->mesh == mesh) return weft_redistribute(t, placements);
    attrs.mesh = mesh;
    wf_placements_to_words(attrs.placements, placements, weft_mesh_ndim(mesh));
    args.attr_words = WF_ATTR_WORDS(to_mesh, placements, WF_PLACEMENT_WORDS * weft_mesh_ndim(mesh));
    result = wf_dispatch_op_one_output(WF_OP_to_mesh, &t, 1, &args);
    if (result && wf_is_meta(result) && wf_observed_events & WF_EVENT_COLL)
        announce_exchange(t->layout, result->layout);
    return result && !wf_is_meta(result) ? weft_to_device(result, weft_mesh_device(mesh)) : result;
}
