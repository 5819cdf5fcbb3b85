/*
 * state.c: what an optimizer remembers, parameter by parameter, for those who save it and put it
 * back. Knows no optimizer: names of the states are in its row (optim.h).
 */
#include "base/error.h"
#include "optim/optim.h"
#include "tensor/tensor.h"

int weft_optim_states(const weft_optim *optim) { return optim ? optim->n_states : 0; }

const char *weft_optim_state_name(const weft_optim *optim, int state)
{
    return optim && state >= 0 && state < optim->n_states ? optim->kind->state_names[state] : NULL;
}

static struct wf_slot *slot_of(const weft_optim *optim, const weft_tensor *parameter)
{
    for (int i = 0; optim && i < optim->n_slots; i++)
        if (optim->slots[i].tensor == parameter) return &optim->slots[i];
    return NULL;
}

weft_tensor *weft_optim_state(weft_optim *optim, const weft_tensor *parameter, int state)
{
    const struct wf_slot *slot = slot_of(optim, parameter);
    struct wf_block *block;
    void *data;

    if (!optim || !parameter) return NULL;
    WF_NEED_PTR(slot, WEFT_ERR_NOT_FOUND, "%s: no such parameter", optim->kind->name);
    WF_NEED_PTR(state >= 0 && state < optim->n_states, WEFT_ERR_ARG, "%s: state %d; there are %d",
                optim->kind->name, state, optim->n_states);
    WF_NEED_PTR(slot->wanted, WEFT_ERR_STATE, "%s: a frozen parameter has no state",
                optim->kind->name);
    block = optim->state[state];
    data = optim->meta ? NULL : (char *)block->data + slot->offset;
    return wf_tensor_new(slot->tensor->layout, wf_block_retain(block), data,
                         optim->kind->state_names[state]);
}

int64_t weft_optim_updates(const weft_optim *optim, const weft_tensor *parameter)
{
    const struct wf_slot *slot = slot_of(optim, parameter);

    return slot ? slot->step : 0;
}

weft_status weft_optim_set_updates(weft_optim *optim, const weft_tensor *parameter, int64_t updates)
{
    struct wf_slot *slot = slot_of(optim, parameter);

    WF_NEED(updates >= 0, WEFT_ERR_ARG, "optimizer: %lld updates", (long long)updates);
    WF_NEED(slot, WEFT_ERR_NOT_FOUND, "optimizer: no such parameter");
    slot->step = updates;
    return WEFT_OK;
}

weft_status weft_optim_set_steps(weft_optim *optim, int64_t steps)
{
    WF_NEED(optim && steps >= 0, WEFT_ERR_ARG, "optimizer: %lld steps", (long long)steps);
    optim->steps = steps;
    return WEFT_OK;
}
