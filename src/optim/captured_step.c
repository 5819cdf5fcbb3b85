/*
 * captured_step.c: a step of an optimizer in a step that is being captured (device/capture.h). In
 * each launch the steps are counted, the constants follow from the settings of that time, and the
 * kernels are given again.
 */
#include "base/mem.h"
#include "base/recorder.h"
#include "device/capture.h"
#include "kernels/device_kernels.h"
#include "optim/optim.h"

struct captured_step {
    weft_optim *optim;
    int steps; /* of the optimizer: 1, or 0 for one parameter's update in backward */
    int n_slots, n_items;
    struct wf_optim_slot **slots;
    struct wf_optimizer_item *items; /* of the slots that have elements: */
    struct wf_optim_slot **item_slots;
};

static void advance(void *self, int by)
{
    struct captured_step *step = self;

    step->optim->steps += by * step->steps;
    for (int i = 0; i < step->n_slots; i++) step->slots[i]->step += by;
}

static void prepare_item(const struct captured_step *step, int i)
{
    const weft_optim *optim = step->optim;
    struct wf_optim_slot *slot = step->item_slots[i];

    step->items[i].step = wf_optim_neutral_step;
    optim->kind->prepare(&step->items[i].step, slot, optim->lr * slot->lr_factor);
}

static void give(void *self)
{
    struct captured_step *step = self;

    for (int i = 0; i < step->n_items; i++) prepare_item(step, i);
    wf_optimizer_kernels_on(step->optim->device)->step(step->items, step->n_items);
}

static void give_item(void *self, int item)
{
    struct captured_step *step = self;

    prepare_item(step, item);
    wf_optimizer_kernels_on(step->optim->device)->step(&step->items[item], 1);
}

static void release(void *self)
{
    struct captured_step *step = self;

    wf_free(step->slots);
    wf_free(step->items);
    wf_free(step->item_slots);
    wf_free(step);
}

/* The slots and the items are copied. */
static struct captured_step *new_step(weft_optim *optim, struct wf_optim_slot *const *slots,
                                      int n_slots, const struct wf_optimizer_item *items,
                                      int n_items, int steps)
{
    struct captured_step *step = WF_NEW(struct captured_step);
    int n = 0;

    optim->captured = true;
    *step = (struct captured_step){.optim = optim,
                                   .steps = steps,
                                   .n_slots = n_slots,
                                   .n_items = n_items,
                                   .slots = wf_calloc((size_t)n_slots + 1, sizeof *slots),
                                   .items = wf_calloc((size_t)n_items + 1, sizeof *items),
                                   .item_slots = wf_calloc((size_t)n_slots + 1, sizeof *slots)};
    for (int i = 0; i < n_slots; i++) {
        step->slots[i] = slots[i];
        if (weft_local_numel(slots[i]->tensor)) step->item_slots[n++] = slots[i];
    }
    for (int i = 0; i < n_items; i++) step->items[i] = items[i];
    return step;
}

void wf_optim_capture_update(weft_optim *optim, struct wf_optim_slot *const *slots, int n_slots,
                             const struct wf_optimizer_item *items, int n_items, int steps)
{
    int n_counted = optim->kind->update ? 0 : n_slots; /* those of the others count already */
    struct captured_step *step = new_step(optim, slots, n_counted, items, n_items, steps);

    wf_capture_add_call((struct wf_changing_call){
        .advance = advance, .give = n_items ? give : NULL, .release = release, .self = step});
}

static void advance_slot(void *self, int by) { ((struct wf_optim_slot *)self)->step += by; }

void wf_optim_capture_count(struct wf_optim_slot *slot)
{
    wf_capture_add_call((struct wf_changing_call){.advance = advance_slot, .self = slot});
}

/* Kernels of one parameter, whose constants follow from its count and the learning rate. */
struct given_step {
    weft_optim *optim;
    struct wf_optim_slot *slot;
    wf_optim_prepare *prepare;
    struct wf_optimizer_item item;
};

static void run_kernels_of_step(void *self)
{
    struct given_step *given = self;

    given->item.step = wf_optim_neutral_step;
    given->prepare(&given->item.step, given->slot, given->optim->lr * given->slot->lr_factor);
    wf_optimizer_kernels_on(given->optim->device)->step(&given->item, 1);
}

void wf_optim_run_step_kernels(weft_optim *optim, struct wf_optim_slot *slot,
                               enum wf_optimizer_kind loop,
                               const struct wf_optimizer_step_arrays *arrays,
                               wf_optim_prepare *prepare)
{
    struct given_step step = {optim, slot, prepare, {.loop = loop, .arrays = *arrays}}, *kept;

    if (!wf_capture_of_thread) {
        run_kernels_of_step(&step);
        return;
    }
    kept = WF_NEW(struct given_step);
    *kept = step;
    wf_capture_add_call(
        (struct wf_changing_call){.give = run_kernels_of_step, .release = wf_free, .self = kept});
}

/* The recorder runs the kernels of the items, which it may find other addresses for. */
void wf_optim_record_update(weft_optim *optim, struct wf_optim_slot *const *slots, int n_slots,
                            const struct wf_optimizer_item *items, int n_items, int steps)
{
    struct captured_step *step = new_step(optim, slots, n_slots, items, n_items, steps);
    struct wf_changing_call call = {
        .advance = advance, .give = give, .give_item = give_item, .release = release, .self = step};
    weft_tensor **parameters = wf_calloc((size_t)n_slots + 1, sizeof *parameters);
    int n = 0;

    if (optim->kind->update && n_slots)
        wf_recorder_leave("%s computes its constants on the host", optim->kind->name);
    for (int i = 0; i < n_slots; i++)
        if (weft_local_numel(slots[i]->tensor)) parameters[n++] = slots[i]->tensor;
    wf_recorder->update(wf_recorder, &call, parameters, step->items, n_items);
    wf_free(parameters);
}

/* Call `take` with the slots that have a gradient. */
static void with_updated_slots(weft_optim *optim, int n_items,
                               void (*take)(weft_optim *, struct wf_optim_slot *const *, int,
                                            const struct wf_optimizer_item *, int, int))
{
    struct wf_optim_slot **slots = wf_calloc((size_t)optim->n_slots + 1, sizeof *slots);
    int n = 0;

    for (int i = 0; i < optim->n_slots; i++)
        if (optim->slots[i].grad) slots[n++] = &optim->slots[i];
    take(optim, slots, n, optim->items, n_items, 1);
    wf_free(slots);
}

void wf_optim_capture_step(weft_optim *optim, int n_items)
{
    with_updated_slots(optim, n_items, wf_optim_capture_update);
}

void wf_optim_record_step(weft_optim *optim, int n_items)
{
    with_updated_slots(optim, n_items, wf_optim_record_update);
}
