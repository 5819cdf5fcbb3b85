/*
 * awaited_leaves.c: gradient hooks of the leaves that a compiled call reads. More terms are to come
 * to them, as from a function that is computed again (autograd/recompute.c). Which leaves they are
 * is known from the first backward on; before, those that ops have read.
 */
#include "compile/replay/taped_call.h"

static weft_tensor *awaited_leaf(const struct wf_taped_call *call, int i)
{
    const struct wf_variant *variant = call->variant;

    return call->awaits == AWAITS_TARGETS ? variant->targets[i].leaf
                                          : variant->guards->externals[i].tensor;
}

static int count_awaited(const struct wf_taped_call *call)
{
    const struct wf_variant *variant = call->variant;

    if (call->awaits == AWAITS_NOTHING) return 0;
    return call->awaits == AWAITS_TARGETS ? variant->n_targets : variant->guards->n_externals;
}

static void add_to_awaited(struct wf_taped_call *call, int by)
{
    for (int i = 0; i < count_awaited(call); i++) {
        weft_tensor *leaf = awaited_leaf(call, i);

        if (leaf && leaf->grad_state) leaf->grad_state->recomputes += by;
    }
}

void wf_taped_call_begin_awaiting(struct wf_taped_call *call)
{
    call->awaits = call->variant->backward ? AWAITS_TARGETS : AWAITS_EXTERNALS;
    add_to_awaited(call, 1);
}

static bool came_before(const struct wf_taped_call *call, int i)
{
    for (int j = 0; j < i; j++)
        if (awaited_leaf(call, j) == awaited_leaf(call, i)) return true;
    return false;
}

weft_status wf_taped_call_notify_leaves(struct wf_taped_call *call)
{
    int n = count_awaited(call);
    weft_status status = WEFT_OK;

    add_to_awaited(call, -1);
    for (int i = 0; i < n && status == WEFT_OK; i++) {
        weft_tensor *leaf = awaited_leaf(call, i);

        if (leaf && leaf->grad_state && leaf->grad && !came_before(call, i))
            status = wf_leaf_notify_if_complete(leaf);
    }
    call->awaits = AWAITS_NOTHING;
    return status;
}

void wf_taped_call_stop_awaiting(struct wf_taped_call *call)
{
    add_to_awaited(call, -1);
    call->awaits = AWAITS_NOTHING;
}
