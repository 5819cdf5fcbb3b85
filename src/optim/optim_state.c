/*
 * optim_state.c: an optimizer's state, parameter by parameter, for saving and loading. Knows no
 * optimizer: names of the states are in its row (optim.h).
 */
#include "base/error.h"
#include "optim/optim.h"
#include "tensor/tensor.h"

int weft_optim_state_count(const weft_optim *optim, const weft_tensor *parameter)
{
    const struct wf_optim_slot *slot = wf_optim_find_slot(optim, parameter);
    int n = 0;

    for (unsigned keeps = slot ? slot->state_mask : 0; keeps; keeps &= keeps - 1) n++;
    return n;
}

/* The row's number of the n-th state that the parameter has, -1: there is none. */
static int nth_kept_state(const struct wf_optim_slot *slot, int n)
{
    for (int s = 0; slot && n >= 0 && s < WF_OPTIM_STATES; s++)
        if (slot->state_mask >> s & 1 && n-- == 0) return s;
    return -1;
}

const char *weft_optim_state_name(const weft_optim *optim, const weft_tensor *parameter, int state)
{
    int s = nth_kept_state(wf_optim_find_slot(optim, parameter), state);

    return s >= 0 ? wf_optim_state_name(optim->kind, s) : NULL;
}

weft_tensor *weft_optim_state(weft_optim *optim, const weft_tensor *parameter, int state)
{
    const struct wf_optim_slot *slot = wf_optim_find_slot(optim, parameter);
    int s = nth_kept_state(slot, state);
    struct wf_layout *layout;
    weft_tensor *t;

    if (!optim || !parameter) return NULL;
    WF_NEED_PTR(slot, WEFT_ERR_NOT_FOUND, "%s: no such parameter", optim->kind->name);
    WF_NEED_PTR(slot->wanted, WEFT_ERR_STATE, "%s: a frozen parameter has no state",
                optim->kind->name);
    WF_NEED_PTR(s >= 0, WEFT_ERR_ARG, "%s: state %d; there are %d", optim->kind->name, state,
                weft_optim_state_count(optim, parameter));
    WF_TRY_PTR(wf_optim_check_state(optim, slot));
    layout = wf_layout_with_dtype(slot->tensor->layout, wf_optim_state_dtype(slot->tensor));
    t = wf_tensor_new(layout, wf_block_retain(slot->state),
                      optim->meta ? NULL : (char *)slot->state->data + slot->offset[s],
                      wf_optim_state_name(optim->kind, s));
    wf_layout_release(layout);
    return t;
}

int64_t weft_optim_update_count(const weft_optim *optim, const weft_tensor *parameter)
{
    const struct wf_optim_slot *slot = wf_optim_find_slot(optim, parameter);

    return slot ? slot->step : 0;
}

weft_status weft_optim_set_update_count(weft_optim *optim, const weft_tensor *parameter,
                                        int64_t updates)
{
    struct wf_optim_slot *slot = wf_optim_find_slot(optim, parameter);

    WF_NEED(updates >= 0, WEFT_ERR_ARG, "optimizer: %lld updates", (long long)updates);
    WF_NEED(slot, WEFT_ERR_NOT_FOUND, "optimizer: no such parameter");
    slot->step = updates;
    slot->product_of = 0; /* it has to be computed anew */
    return WEFT_OK;
}

weft_status weft_optim_set_step_count(weft_optim *optim, int64_t steps)
{
    WF_NEED(optim && steps >= 0, WEFT_ERR_ARG, "optimizer: %lld steps", (long long)steps);
    optim->steps = steps;
    return WEFT_OK;
}
