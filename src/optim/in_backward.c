/*
 * in_backward.c: parameters that are updated while backward is under way.
 *
 * The optimizer keeps its leaves (autograd/tape.h), is told of each when the last of its gradient
 * has come and nothing uses it any more, and updates it. The gradient's bytes go back to the pool
 * at once, so the next gradient finds them in cache, and no more than a few are alive together. A
 * gradient that is still a pending sum stays for weft_step, which reduces all of those together.
 */
#include "base/error.h"
#include "base/where.h"
#include "optim/optim.h"
#include "tensor/tensor.h"

static weft_status arrived(struct wf_keeper *keeper, struct wf_kept *kept)
{
    weft_optim *optim = (weft_optim *)keeper;
    struct wf_slot *slot = (struct wf_slot *)kept;
    struct wf_where before = wf_here;
    weft_tensor *leaf = slot->tensor;
    weft_status status;

    if (!leaf->grad || leaf->grad->layout->partial) return WEFT_OK;
    if (!leaf->grad->layout->desc.contiguous) WF_TRY(wf_leaf_own_gradient(leaf));
    wf_here.phase = WF_OPTIM;
    slot->grad = leaf->grad;
    status = wf_optim_update(optim, slot);
    slot->grad = NULL;
    wf_here = before;
    if (status != WEFT_OK) return status;
    weft_release(leaf->grad);
    leaf->grad = NULL;
    kept->reduced = true;
    return WEFT_OK;
}

static weft_status growing(struct wf_keeper *keeper, struct wf_kept *kept)
{
    const weft_optim *optim = (const weft_optim *)keeper;
    const struct wf_slot *slot = (const struct wf_slot *)kept;

    WF_NEED(!kept->reduced, WEFT_ERR_STATE,
            "backward: '%s' was updated by %s in an earlier backward; take the step first, or turn "
            "weft_optim_update_in_backward off to add up gradients",
            slot->path, optim->kind->name);
    return WEFT_OK;
}

static void dropped(struct wf_keeper *keeper, struct wf_kept *kept)
{
    (void)keeper;
    kept->reduced = false;
}

static weft_status reduce(struct wf_keeper *keeper)
{
    (void)keeper;
    return WEFT_OK;
}

const weft_optim *wf_optim_in_backward(const weft_tensor *parameter)
{
    struct wf_kept *kept = parameter->kept;

    return kept && kept->keeper->arrived == arrived ? (const weft_optim *)kept->keeper : NULL;
}

static bool is_mine(const weft_optim *optim, const struct wf_slot *slot)
{
    return wf_optim_in_backward(slot->tensor) == optim;
}

void wf_optim_leave_backward(weft_optim *optim)
{
    for (int i = 0; i < optim->n_slots; i++)
        if (is_mine(optim, &optim->slots[i])) optim->slots[i].tensor->kept = NULL;
}

static weft_status turn_off(weft_optim *optim)
{
    for (int i = 0; i < optim->n_slots; i++)
        WF_NEED(!optim->slots[i].kept.reduced, WEFT_ERR_STATE,
                "%s: '%s' was updated in a backward; take the step first", optim->kind->name,
                optim->slots[i].path);
    wf_optim_leave_backward(optim);
    return WEFT_OK;
}

/* Replicas of data parallelism have their keeper: they are left to weft_step. */
static weft_status turn_on(weft_optim *optim)
{
    for (int i = 0; i < optim->n_slots; i++) {
        const weft_optim *other = wf_optim_in_backward(optim->slots[i].tensor);

        WF_NEED(!other || other == optim, WEFT_ERR_STATE,
                "%s: '%s' is updated in backward by another optimizer", optim->kind->name,
                optim->slots[i].path);
    }
    optim->keeper = (struct wf_keeper){.listening = true,
                                       .once = true,
                                       .reduce = reduce,
                                       .arrived = arrived,
                                       .growing = growing,
                                       .dropped = dropped};
    for (int i = 0; i < optim->n_slots; i++) {
        struct wf_slot *slot = &optim->slots[i];

        if (!slot->wanted || slot->tensor->kept) continue;
        slot->kept = (struct wf_kept){.keeper = &optim->keeper};
        slot->tensor->kept = &slot->kept;
    }
    return WEFT_OK;
}

weft_status weft_optim_update_in_backward(weft_optim *optim, bool on)
{
    WF_NEED_GIVEN(optim, "update in backward: the optimizer is NULL");
    return on ? turn_on(optim) : turn_off(optim);
}
