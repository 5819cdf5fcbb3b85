/*
 * update_in_backward.c: parameters that are updated during backward.
 *
 * The optimizer has a gradient hook on its leaves (autograd/tape.h), which backward calls for each
 * leaf when its gradient is complete and no longer read; the hook updates the parameter. The
 * gradient's bytes return to the pool at once, so the next gradient finds them in cache, and only a
 * few gradients are alive together. A gradient that is partial stays for weft_step, which reduces
 * all of those together.
 */
#include "base/call_context.h"
#include "base/error.h"
#include "optim/optim.h"
#include "tensor/tensor.h"

static weft_status update_when_complete(struct wf_grad_hook *hook, struct wf_grad_state *state)
{
    weft_optim *optim = (weft_optim *)hook;
    struct wf_optim_slot *slot = (struct wf_optim_slot *)state;
    struct wf_call_context before = wf_current_context;
    weft_tensor *leaf = slot->tensor;
    weft_status status;

    if (!leaf->grad || leaf->grad->layout->partial) return WEFT_OK;
    if (!leaf->grad->layout->desc.contiguous) WF_TRY(wf_leaf_unshare_grad(leaf));
    wf_current_context.phase = WF_OPTIM;
    slot->grad = leaf->grad;
    status = wf_optim_update_slot(optim, slot);
    slot->grad = NULL;
    wf_current_context = before;
    if (status != WEFT_OK) return status;
    weft_release(leaf->grad);
    leaf->grad = NULL;
    state->reduced = true;
    return WEFT_OK;
}

static weft_status refuse_add_after_update(struct wf_grad_hook *hook, struct wf_grad_state *state)
{
    const weft_optim *optim = (const weft_optim *)hook;
    const struct wf_optim_slot *slot = (const struct wf_optim_slot *)state;

    WF_NEED(!state->reduced, WEFT_ERR_STATE,
            "backward: '%s' was updated by %s in an earlier backward; take the step first, or turn "
            "weft_optim_update_in_backward off to add up gradients",
            slot->path, optim->kind->name);
    return WEFT_OK;
}

static void on_gradient_dropped(struct wf_grad_hook *hook, struct wf_grad_state *state)
{
    (void)hook;
    state->reduced = false;
}

static weft_status reduce_nothing(struct wf_grad_hook *hook)
{
    (void)hook;
    return WEFT_OK;
}

const weft_optim *wf_optim_updating_in_backward(const weft_tensor *parameter)
{
    struct wf_grad_state *state = parameter->grad_state;

    return state && state->hook->complete == update_when_complete ? (const weft_optim *)state->hook
                                                                  : NULL;
}

void wf_optim_stop_in_backward(weft_optim *optim)
{
    for (int i = 0; i < optim->n_slots; i++)
        if (wf_optim_updating_in_backward(optim->slots[i].tensor) == optim)
            optim->slots[i].tensor->grad_state = NULL;
}

static weft_status stop_updates_in_backward(weft_optim *optim)
{
    for (int i = 0; i < optim->n_slots; i++)
        WF_NEED(!optim->slots[i].grad_state.reduced, WEFT_ERR_STATE,
                "%s: '%s' was updated in a backward; take the step first", optim->kind->name,
                optim->slots[i].path);
    wf_optim_stop_in_backward(optim);
    return WEFT_OK;
}

/* Leaves with the gradient hook of data parallelism are left to weft_step. */
static weft_status start_updates_in_backward(weft_optim *optim)
{
    for (int i = 0; i < optim->n_slots; i++) {
        const weft_optim *other = wf_optim_updating_in_backward(optim->slots[i].tensor);

        WF_NEED(!other || other == optim, WEFT_ERR_STATE,
                "%s: '%s' is updated in backward by another optimizer", optim->kind->name,
                optim->slots[i].path);
    }
    optim->grad_hook = (struct wf_grad_hook){.wants_complete = true,
                                             .writes_leaf = true,
                                             .check_before_walk = true,
                                             .reduce = reduce_nothing,
                                             .complete = update_when_complete,
                                             .before_add = refuse_add_after_update,
                                             .before_drop = on_gradient_dropped};
    for (int i = 0; i < optim->n_slots; i++) {
        struct wf_optim_slot *slot = &optim->slots[i];

        if (!slot->wanted || slot->tensor->grad_state) continue;
        slot->grad_state = (struct wf_grad_state){.hook = &optim->grad_hook};
        slot->tensor->grad_state = &slot->grad_state;
    }
    return WEFT_OK;
}

weft_status weft_optim_update_in_backward(weft_optim *optim, bool on)
{
    WF_NEED_GIVEN(optim, "update in backward: the optimizer is NULL");
    return on ? start_updates_in_backward(optim) : stop_updates_in_backward(optim);
}
