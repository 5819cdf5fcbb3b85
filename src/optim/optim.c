/*
 * optim.c: making an optimizer and taking a step with it.
 *
 * State lies in one block, a parameter's states one after another, each on cache lines of its own,
 * and covers this rank's elements only; parameters that want a gradient later on get blocks of
 * their own then. A step first gets every gradient, which reduces partial ones together, and then
 * updates parameter after parameter.
 */
#include "optim/optim.h"

#include <weft/autograd.h>

#include "base/array_grow.h"
#include "base/call_context.h"
#include "base/elements/dtype.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/recorder.h"
#include "device/capture.h"
#include "kernels/device_kernels.h"
#include "nn/module.h"

enum { CACHE_LINE = 64 };

bool wf_is_locally_contiguous(const weft_tensor *t)
{
    int64_t expected = 1;

    if (weft_local_numel(t) == 0) return true;
    for (int d = weft_ndim(t) - 1; d >= 0; d--) {
        if (weft_local_size(t, d) != 1 && weft_local_stride(t, d) != expected) return false;
        expected *= weft_local_size(t, d);
    }
    return true;
}

/* ---- making: the list ---- */

/* The parameter's path below the optimizer's module. */
static char *path_below_optimizer_module(const weft_optim *optim, const weft_module *m,
                                         const char *name)
{
    const char *root = weft_module_path(optim->module), *path = weft_module_path(m);

    path += strlen(root) + (root[0] && path[strlen(root)] == '.');
    return path[0] ? wf_format("%s.%s", path, name) : wf_strdup(name);
}

static weft_status add_parameter_slot(weft_module *m, const char *name, weft_tensor *parameter,
                                      void *payload)
{
    weft_optim *optim = payload;

    WF_NEED(!optim->n_slots || optim->device == weft_tensor_device(parameter), WEFT_ERR_ARG,
            "%s: parameter '%s' of module '%s' is on another device than those before",
            optim->kind->name, name, weft_module_path(m));
    optim->slots = wf_array_grow(optim->slots, optim->n_slots, sizeof *optim->slots);
    optim->device = weft_tensor_device(parameter);
    optim->meta = optim->device == WEFT_META;
    optim->slots[optim->n_slots++] =
        (struct wf_optim_slot){.tensor = weft_retain(parameter),
                               .path = path_below_optimizer_module(optim, m, name),
                               .lr_factor = 1};
    return WEFT_OK;
}

struct wf_optim_slot *wf_optim_find_slot(const weft_optim *optim, const weft_tensor *parameter)
{
    for (int i = 0; optim && i < optim->n_slots; i++)
        if (optim->slots[i].tensor == parameter) return &optim->slots[i];
    return NULL;
}

/* The parameters' places in the tree, shared ones several times: a step checks that they are still
 * there. */
static void list_parameter_places(weft_optim *optim)
{
    int n_modules, n = 0;
    weft_module **modules = wf_module_list_tree(optim->module, &n_modules);

    for (int i = 0; i < n_modules; i++) n += modules[i]->n_parameters;
    optim->places = wf_calloc((size_t)n + 1, sizeof *optim->places);
    for (int i = 0; i < n_modules; i++) {
        for (int p = 0; p < modules[i]->n_parameters; p++) {
            const struct wf_optim_slot *slot =
                wf_optim_find_slot(optim, modules[i]->parameters[p].tensor);

            optim->places[optim->n_places++] = (struct wf_parameter_place){
                .module = modules[i], .index = p, .slot = (int)(slot - optim->slots)};
        }
    }
    wf_free(modules);
}

/* From now on the parameter is updated, if it wants a gradient. */
static weft_status mark_slot_trainable(weft_optim *optim, struct wf_optim_slot *slot)
{
    if (!weft_requires_grad(slot->tensor)) return WEFT_OK;
    WF_NEED(wf_is_locally_contiguous(slot->tensor) || wf_strides_may_differ(slot->tensor),
            WEFT_ERR_ARG, "%s: parameter '%s' is a strided view; give the module a copy",
            optim->kind->name, slot->path);
    WF_NEED_LOCAL(wf_is_locally_contiguous(slot->tensor), WEFT_ERR_ARG,
                  "%s: this rank's shard of parameter '%s' is strided; give the module a copy",
                  optim->kind->name, slot->path);
    slot->wanted = true;
    slot->state_mask = wf_optim_slot_state_mask(optim->kind, slot);
    optim->leaves[optim->n_leaves++] = slot->tensor;
    return WEFT_OK;
}

/* ---- making: state ---- */

weft_dtype wf_optim_state_dtype(const weft_tensor *parameter)
{
    return weft_tensor_dtype(parameter) == WEFT_F64 ? WEFT_F64 : WEFT_F32;
}

const char *wf_optim_state_name(const struct wf_optim_kind *kind, int s)
{
    return s == WF_OPTIM_MASTER ? "master" : kind->states[s];
}

unsigned wf_optim_slot_state_mask(const struct wf_optim_kind *kind,
                                  const struct wf_optim_slot *slot)
{
    unsigned keeps = 0;

    if (!slot->wanted) return 0;
    for (int s = 0; s < WF_STEP_STATES; s++)
        if (kind->states[s]) keeps |= 1u << s;
    if (kind->state_mask) keeps &= kind->state_mask(&slot->config, slot->tensor);
    if (wf_dtype_is_16_bit_float(weft_tensor_dtype(slot->tensor))) keeps |= 1u << WF_OPTIM_MASTER;
    return keeps;
}

static void *slot_state_data(const weft_optim *optim, const struct wf_optim_slot *slot, int s)
{
    if (optim->meta || !(slot->state_mask >> s & 1)) return NULL;
    return (char *)slot->state->data + slot->offset[s];
}

static size_t assign_state_offsets(struct wf_optim_slot *slot, size_t at)
{
    size_t bytes = (size_t)weft_local_numel(slot->tensor) *
                   weft_dtype_size(wf_optim_state_dtype(slot->tensor));

    for (int s = 0; s < WF_OPTIM_STATES; s++) {
        slot->offset[s] = at;
        if (slot->state_mask >> s & 1) at += (bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    }
    return at;
}

/* Set first values that are not 0. */
static void init_slot_state(const weft_optim *optim, const struct wf_optim_slot *slot)
{
    double start = optim->kind->start ? optim->kind->start(&slot->config) : 0;
    const struct wf_dtype_info *dtype = &wf_dtypes[wf_optim_state_dtype(slot->tensor)];
    int64_t count = weft_local_numel(slot->tensor);
    void *first = slot_state_data(optim, slot, 0),
         *master = slot_state_data(optim, slot, WF_OPTIM_MASTER);
    char element[8];

    dtype->store(element, start);
    if (first && start != 0)
        wf_device_fill(optim->device, first, element, dtype->size, (size_t)count);
    if (master)
        wf_optimizer_kernels_on(optim->device)
            ->sync_master_weights(weft_tensor_dtype(slot->tensor), count, master,
                                  slot->tensor->data);
}

static void release_slot_state(struct wf_optim_slot *slot)
{
    if (slot->state) wf_block_release(slot->state);
    slot->state = NULL;
}

/* Room for the states of `n` slots, at their first values; older state is dropped. */
static weft_status alloc_slot_states(const weft_optim *optim, struct wf_optim_slot *slots, int n)
{
    struct wf_block *block;
    size_t bytes = 0;

    for (int i = 0; i < n; i++) {
        release_slot_state(&slots[i]);
        bytes = assign_state_offsets(&slots[i], bytes);
    }
    block = wf_block_new_on(optim->device, bytes, WF_MEM_OPTIMIZER);
    if (!block) return weft_error_status();
    if (!optim->meta) wf_device_zero(optim->device, block->data, bytes);
    for (int i = 0; i < n; i++) {
        slots[i].state = wf_block_retain(block);
        if (!optim->meta) init_slot_state(optim, &slots[i]);
    }
    wf_block_release(block);
    return WEFT_OK;
}

weft_status wf_optim_alloc_state(weft_optim *optim)
{
    return alloc_slot_states(optim, optim->slots, optim->n_slots);
}

weft_status wf_optim_check_state(const weft_optim *optim, const struct wf_optim_slot *slot)
{
    WF_NEED(slot->state, WEFT_ERR_STATE, "%s: there was no memory for its state",
            optim->kind->name);
    return WEFT_OK;
}

static weft_status init_optimizer(weft_optim *optim, const union wf_optim_config *config)
{
    WF_TRY(weft_module_each_parameter(optim->module, add_parameter_slot, optim));
    list_parameter_places(optim);
    optim->leaves = wf_calloc((size_t)optim->n_slots + 1, sizeof(weft_tensor *));
    optim->items = wf_calloc((size_t)optim->n_slots + 1, sizeof *optim->items);
    for (int i = 0; i < optim->n_slots; i++) {
        optim->slots[i].config = *config;
        WF_TRY(mark_slot_trainable(optim, &optim->slots[i]));
    }
    WF_NEED(optim->n_leaves > 0, WEFT_ERR_ARG,
            "%s: module '%s' (%s) has no parameter that wants a gradient", optim->kind->name,
            weft_module_path(optim->module), weft_module_type(optim->module));
    return wf_optim_alloc_state(optim);
}

weft_optim *wf_optim_new(const struct wf_optim_kind *kind, weft_module *module,
                         const union wf_optim_config *config)
{
    union wf_optim_config complete = *config;
    weft_optim *optim;

    if (!module) {
        if (weft_error_status() == WEFT_OK)
            WF_FAIL(WEFT_ERR_ARG, "%s: the module is NULL", kind->name);
        return NULL;
    }
    WF_TRY_PTR(wf_optim_config_complete(kind, &complete));
    optim = WF_NEW(weft_optim);
    *optim = (weft_optim){.kind = kind, .module = module, .lr = complete.lr};
    if (init_optimizer(optim, &complete) == WEFT_OK) return optim;
    weft_optim_release(optim);
    return NULL;
}

void weft_optim_release(weft_optim *optim)
{
    if (!optim) return;
    wf_optim_stop_in_backward(optim);
    for (int i = 0; i < optim->n_slots; i++) {
        release_slot_state(&optim->slots[i]);
        weft_release(optim->slots[i].tensor);
        wf_free(optim->slots[i].path);
    }
    wf_free(optim->leaves);
    wf_free(optim->items);
    wf_free(optim->places);
    wf_free(optim->slots);
    wf_free(optim);
}

/* ---- stepping ---- */

static weft_status check_parameters_not_replaced(const weft_optim *optim)
{
    for (int i = 0; i < optim->n_places; i++) {
        const struct wf_parameter_place *place = &optim->places[i];
        const struct wf_parameter *p = &place->module->parameters[place->index];

        WF_NEED(p->tensor == optim->slots[place->slot].tensor, WEFT_ERR_STATE,
                "%s: parameter '%s' of module '%s' was replaced after the optimizer was made",
                optim->kind->name, p->name, weft_module_path(place->module));
    }
    return WEFT_OK;
}

static weft_status check_slot_gradient(const weft_optim *optim, const struct wf_optim_slot *slot)
{
    weft_dtype dtype = weft_tensor_dtype(slot->grad);
    bool wide = wf_optim_state_dtype(slot->tensor) == WEFT_F64;

    WF_NEED(wf_is_locally_contiguous(slot->grad) &&
                weft_local_numel(slot->grad) == weft_local_numel(slot->tensor),
            WEFT_ERR_STATE, "%s: the gradient of '%s' is not laid out as its parameter",
            optim->kind->name, slot->path);
    WF_NEED(wide ? dtype == WEFT_F64 : dtype == WEFT_F32 || wf_dtype_is_16_bit_float(dtype),
            WEFT_ERR_DTYPE, "%s: parameter '%s' is %s, its gradient %s", optim->kind->name,
            slot->path, weft_dtype_name(weft_tensor_dtype(slot->tensor)), weft_dtype_name(dtype));
    return WEFT_OK;
}

/* A parameter that never had state is updated from now on, if it wants a gradient. */
static weft_status start_updating_unfrozen(weft_optim *optim, struct wf_optim_slot *slot)
{
    WF_TRY(mark_slot_trainable(optim, slot));
    if (!slot->wanted || alloc_slot_states(optim, slot, 1) == WEFT_OK) return WEFT_OK;
    slot->wanted = false;
    slot->state_mask = 0;
    optim->n_leaves--;
    return weft_error_status();
}

/* All gradients, before anything is updated: partial ones are reduced here. */
static weft_status collect_gradients(weft_optim *optim)
{
    weft_status before = weft_error_status(); /* a NULL gradient alone is no failure */

    WF_TRY(check_parameters_not_replaced(optim));
    for (int i = 0; i < optim->n_slots; i++)
        WF_TRY(optim->slots[i].wanted ? wf_optim_check_state(optim, &optim->slots[i])
                                      : start_updating_unfrozen(optim, &optim->slots[i]));
    WF_TRY(weft_reduce_gradients(optim->leaves, optim->n_leaves));
    for (int i = 0; i < optim->n_slots; i++) {
        struct wf_optim_slot *slot = &optim->slots[i];

        slot->grad = slot->wanted ? weft_grad(slot->tensor) : NULL;
        if (weft_error_status() != before) return weft_error_status();
        if (slot->grad) WF_TRY(check_slot_gradient(optim, slot));
    }
    return WEFT_OK;
}

static struct wf_optimizer_step_arrays arrays_of_slot(const weft_optim *optim,
                                                      struct wf_optim_slot *slot)
{
    struct wf_optimizer_step_arrays a = {.dtype = wf_optim_state_dtype(slot->tensor),
                                         .grad_dtype = weft_tensor_dtype(slot->grad),
                                         .count = weft_local_numel(slot->tensor),
                                         .w = slot->tensor->data,
                                         .g = slot->grad->data};

    for (int s = 0; s < WF_STEP_STATES; s++) a.state[s] = slot_state_data(optim, slot, s);
    if (slot->state_mask >> WF_OPTIM_MASTER & 1) {
        a.rounded = a.w;
        a.rounded_dtype = weft_tensor_dtype(slot->tensor);
        a.w = slot_state_data(optim, slot, WF_OPTIM_MASTER);
    }
    return a;
}

const struct wf_optimizer_step wf_optim_neutral_step = {.sign = 1, .keep = 1};

/* Adds the step of a parameter to the items, where it has elements; kinds that have a function for
 * it update the parameter at once. */
static weft_status prepare_slot_step(weft_optim *optim, struct wf_optim_slot *slot,
                                     struct wf_optimizer_item *items, int *n_items)
{
    const struct wf_optim_kind *kind = optim->kind;
    struct wf_optimizer_item *item = &items[*n_items];
    struct wf_optimizer_step_arrays arrays = arrays_of_slot(optim, slot);

    if (kind->update) wf_recorder_leave("%s computes its constants on the host", kind->name);
    wf_tensor_before_write(slot->tensor, kind->name);
    if (wf_recorder && slot->state)
        wf_recorder->block_written(wf_recorder, slot->state, kind->name);
    slot->step++;
    if (kind->update && wf_capture_of_thread) wf_optim_capture_count(slot);
    if (kind->update) return kind->update(optim, slot, &arrays);
    if (arrays.count == 0) return WEFT_OK;
    if (optim->meta && !(wf_recorder && wf_recorder->hears_meta)) return WEFT_OK;
    *item = (struct wf_optimizer_item){
        .loop = kind->loop, .arrays = arrays, .step = wf_optim_neutral_step};
    kind->prepare(&item->step, slot, optim->lr * slot->lr_factor);
    ++*n_items;
    return WEFT_OK;
}

weft_status wf_optim_update_slot(weft_optim *optim, struct wf_optim_slot *slot)
{
    struct wf_optimizer_item item;
    int n = 0;

    WF_TRY(wf_optim_check_state(optim, slot));
    WF_TRY(check_slot_gradient(optim, slot));
    WF_TRY(prepare_slot_step(optim, slot, &item, &n));
    if (wf_recorder)
        wf_optim_record_update(optim, &slot, 1, &item, n, 0);
    else if (wf_capture_of_thread)
        wf_optim_capture_update(optim, &slot, 1, &item, n, 0);
    else if (n)
        wf_optimizer_kernels_on(optim->device)->step(&item, n);
    return WEFT_OK;
}

/* All parameters together: a GPU takes as few launches as it can. */
static weft_status update_parameters(weft_optim *optim)
{
    int n = 0;

    for (int i = 0; i < optim->n_slots; i++)
        if (optim->slots[i].grad)
            WF_TRY(prepare_slot_step(optim, &optim->slots[i], optim->items, &n));
    if (wf_recorder)
        wf_optim_record_step(optim, n);
    else if (wf_capture_of_thread)
        wf_optim_capture_step(optim, n);
    else if (n)
        wf_optimizer_kernels_on(optim->device)->step(optim->items, n);
    return WEFT_OK;
}

static weft_status run_optimizer_step(weft_optim *optim)
{
    WF_TRY(collect_gradients(optim));
    optim->steps++;
    WF_TRY(update_parameters(optim));
    weft_optim_zero_grad(optim);
    return WEFT_OK;
}

weft_status weft_step(weft_optim *optim)
{
    struct wf_call_context before = wf_current_context;
    weft_status status;

    WF_NEED_GIVEN(optim, "step: the optimizer is NULL");
    wf_current_context.phase = WF_OPTIM;
    status = run_optimizer_step(optim);
    wf_current_context = before;
    return status;
}

void weft_optim_zero_grad(weft_optim *optim)
{
    if (!optim) return;
    for (int i = 0; i < optim->n_slots; i++) {
        weft_zero_grad(optim->slots[i].tensor);
        optim->slots[i].grad = NULL;
    }
}

void weft_optim_set_lr(weft_optim *optim, double lr)
{
    wf_recorder_leave("optim_set_lr: set the learning rate before the call");
    wf_capture_forbid("it sets a learning rate: that belongs before the step");
    if (optim) optim->lr = lr;
}

weft_status weft_optim_set_lr_tensor(weft_optim *optim, const weft_tensor *lr)
{
    double value;

    WF_NEED_GIVEN(optim && lr, "set_lr: an argument is NULL");
    WF_TRY(wf_tensor_need_alive(lr, "set_lr"));
    WF_NEED(weft_numel(lr) == 1, WEFT_ERR_ARG, "set_lr: a tensor of %lld elements, not one",
            (long long)weft_numel(lr));
    value = weft_item(lr);
    WF_NEED(value >= 0, WEFT_ERR_ARG, "set_lr: lr is %g", value);
    optim->lr = value;
    return WEFT_OK;
}

double weft_optim_lr(const weft_optim *optim) { return WF_HANDLE(optim)->lr; }

int64_t weft_optim_step_count(const weft_optim *optim) { return WF_HANDLE(optim)->steps; }
