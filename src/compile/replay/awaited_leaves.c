/*
 * awaited_leaves.c: gradient hooks of the leaves that a compiled call reads. More terms are to come
 * to them, as from a function that is computed again (autograd/recompute.c). Which leaves they are
 * is known from the first backward on; before, those that ops have read.
 */
#include "compile/replay/taped_call.h"

static weft_tensor *awaited_leaf(const struct wf_instance *instance, int i)
{
    const struct wf_variant *variant = instance->variant;

    return instance->awaits == AWAITS_TARGETS ? variant->targets[i].leaf
                                              : variant->guards->externals[i].tensor;
}

static int count_awaited(const struct wf_instance *instance)
{
    const struct wf_variant *variant = instance->variant;

    if (instance->awaits == AWAITS_NOTHING) return 0;
    return instance->awaits == AWAITS_TARGETS ? variant->n_targets : variant->guards->n_externals;
}

static void add_to_awaited(struct wf_instance *instance, int by)
{
    for (int i = 0; i < count_awaited(instance); i++) {
        weft_tensor *leaf = awaited_leaf(instance, i);

        if (leaf && leaf->grad_state) leaf->grad_state->recomputes += by;
    }
}

void wf_taped_call_begin_awaiting(struct wf_instance *instance)
{
    instance->awaits = instance->variant->backward ? AWAITS_TARGETS : AWAITS_EXTERNALS;
    add_to_awaited(instance, 1);
}

static bool came_before(const struct wf_instance *instance, int i)
{
    for (int j = 0; j < i; j++)
        if (awaited_leaf(instance, j) == awaited_leaf(instance, i)) return true;
    return false;
}

weft_status wf_taped_call_notify_leaves(struct wf_instance *instance)
{
    int n = count_awaited(instance);
    weft_status status = WEFT_OK;

    add_to_awaited(instance, -1);
    for (int i = 0; i < n && status == WEFT_OK; i++) {
        weft_tensor *leaf = awaited_leaf(instance, i);

        if (leaf && leaf->grad_state && leaf->grad && !came_before(instance, i))
            status = wf_leaf_notify_if_complete(leaf);
    }
    instance->awaits = AWAITS_NOTHING;
    return status;
}

void wf_taped_call_stop_awaiting(struct wf_instance *instance)
{
    add_to_awaited(instance, -1);
    instance->awaits = AWAITS_NOTHING;
}
