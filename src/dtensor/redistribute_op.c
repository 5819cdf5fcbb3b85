/*
 * redistribute_op.c: redistribution as an op on the tape: a view of an input that its plan moves
 * first. Gradient layouts: docs/concepts/autograd.md.
 */
#include <weft/dtensor.h>

#include <string.h>

#include "base/error.h"
#include "dtensor/placements.h"
#include "dtensor/plan.h"
#include "ops/families.h"

/* Attributes are the target placements. */
weft_status wf_plan_redistribute(struct wf_plan *plan, const struct wf_infer *call)
{
    weft_placement to[WEFT_MAX_AXES], wanted[WEFT_MAX_AXES];
    struct wf_layout *in = plan->in[0];

    (void)call;
    WF_NEED(in->mesh, WEFT_ERR_ARG,
            "redistribute: the tensor is plain; weft_distribute_tensor spreads it");
    wf_placements_unpack(wanted, plan->attr, in->n_axes);
    WF_TRY(wf_placements_normalize(to, wanted, in->n_axes, in->desc.ndim, "redistribute"));
    WF_TRY(wf_placements_fit(to, in->n_axes, in->desc.global, "redistribute"));
    WF_TRY(wf_plan_move_input(plan, 0, to));
    wf_plan_set_output(plan, 0, wf_layout_retain(plan->used[0]));
    return WEFT_OK;
}

/* Back to where it came from; what was a pending sum gets its gradient replicated. */
void wf_vjp_redistribute(const struct wf_node *n, weft_tensor *g, weft_tensor **in)
{
    struct wf_layout *from = wf_node_in(n, 0);
    weft_placement to[WEFT_MAX_AXES];

    memcpy(to, from->placements, sizeof to);
    wf_without_partial(to, from->n_axes);
    in[0] = weft_redistribute(g, to);
}

static bool same_placements(const struct wf_layout *layout, const weft_placement *placements)
{
    for (int a = 0; a < layout->n_axes; a++) {
        weft_placement p = placements[a];

        if (p.kind == WEFT_KIND_SHARD && p.dim < 0) p.dim = (int8_t)(p.dim + layout->desc.ndim);
        if (!weft_placement_equal(layout->placements[a], p)) return false;
    }
    return true;
}

weft_tensor *weft_redistribute(weft_tensor *t, const weft_placement *placements)
{
    int64_t words[WF_PLACEMENT_WORDS * WEFT_MAX_AXES];
    struct wf_args args = {.attr = words};

    if (!t) return NULL;
    if (t->layout->mesh && same_placements(t->layout, placements)) return t;
    wf_placements_pack(words, placements, t->layout->n_axes);
    args.n_attr = WF_PLACEMENT_WORDS * t->layout->n_axes;
    return wf_call(WF_OP_redistribute, 1, &t, &args);
}
