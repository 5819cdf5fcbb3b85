/*
 * optim.c: making an optimizer and taking a step with it.
 *
 * State lies in one block per kind of state, each parameter's part on a cache line of its own, and
 * covers this rank's elements only. A step first asks for every gradient, which reduces pending
 * sums together, and then updates parameter after parameter without communication.
 */
#include "optim/optim.h"

#include <string.h>

#include <weft/autograd.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/where.h"

enum { CACHE_LINE = 64 };

bool wf_is_dense(const weft_tensor *t)
{
    int64_t expected = 1;

    if (weft_local_numel(t) == 0) return true;
    for (int d = weft_ndim(t) - 1; d >= 0; d--) {
        if (weft_local_size(t, d) != 1 && weft_local_stride(t, d) != expected) return false;
        expected *= weft_local_size(t, d);
    }
    return true;
}

/* ---- making ---- */

static weft_status add_slot(weft_module *m, const char *name, weft_tensor *parameter, void *payload)
{
    weft_optim *optim = payload;
    weft_dtype dtype = weft_tensor_dtype(parameter);
    bool wanted = weft_requires_grad(parameter);

    WF_NEED(!wanted || dtype == WEFT_F32 || dtype == WEFT_F64, WEFT_ERR_DTYPE,
            "%s: parameter '%s' of module '%s' is %s; f32 and f64 can be updated",
            optim->kind->name, name, weft_module_path(m), weft_dtype_name(dtype));
    WF_NEED(!wanted || wf_is_dense(parameter), WEFT_ERR_ARG,
            "%s: parameter '%s' of module '%s' is a strided view; give the module a copy",
            optim->kind->name, name, weft_module_path(m));
    optim->slots = wf_realloc(optim->slots, (size_t)(optim->n_slots + 1) * sizeof *optim->slots);
    WF_NEED(!optim->n_slots || optim->meta == (weft_tensor_device(parameter) == WEFT_META),
            WEFT_ERR_ARG,
            "%s: parameter '%s' of module '%s' is on another device than those before",
            optim->kind->name, name, weft_module_path(m));
    optim->meta = weft_tensor_device(parameter) == WEFT_META;
    optim->slots[optim->n_slots++] =
        (struct wf_slot){.tensor = weft_retain(parameter), .wanted = wanted};
    return WEFT_OK;
}

static size_t state_bytes(const weft_tensor *t)
{
    size_t bytes = (size_t)weft_local_numel(t) * weft_dtype_size(weft_tensor_dtype(t));

    return (bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
}

static weft_status make_state(weft_optim *optim, int n_states)
{
    size_t bytes = 0;

    for (int i = 0; i < optim->n_slots; i++) {
        optim->slots[i].offset = bytes;
        if (optim->slots[i].wanted) bytes += state_bytes(optim->slots[i].tensor);
    }
    for (int s = 0; s < n_states; s++) {
        optim->state[s] = optim->meta ? wf_block_planned(bytes, WF_MEM_OPTIMIZER)
                                      : wf_block_new(bytes, WF_MEM_OPTIMIZER);
        if (!optim->state[s]) return weft_error_status();
        if (!optim->meta) memset(optim->state[s]->data, 0, bytes);
    }
    return WEFT_OK;
}

weft_optim *wf_optim_new(const struct wf_optim_kind *kind, weft_module *module, double lr,
                         int n_states)
{
    weft_optim *optim;
    weft_status status;
    bool any = false;

    if (!module) {
        if (weft_error_status() == WEFT_OK)
            WF_FAIL(WEFT_ERR_ARG, "%s: the module is NULL", kind->name);
        return NULL;
    }
    WF_NEED_PTR(lr >= 0, WEFT_ERR_ARG, "%s: lr is %g", kind->name, lr);
    optim = WF_NEW(weft_optim);
    *optim = (weft_optim){.kind = kind, .module = module, .lr = lr, .n_states = n_states};
    status = weft_module_each_parameter(module, add_slot, optim);
    optim->leaves = wf_calloc((size_t)optim->n_slots + 1, sizeof(weft_tensor *));
    for (int i = 0; i < optim->n_slots; i++) {
        if (optim->slots[i].wanted) optim->leaves[optim->n_leaves++] = optim->slots[i].tensor;
        any |= optim->slots[i].wanted;
    }
    if (status == WEFT_OK && !any)
        status =
            WF_FAIL(WEFT_ERR_ARG, "%s: module '%s' (%s) has no parameter that wants a gradient",
                    kind->name, weft_module_path(module), weft_module_type(module));
    if (status == WEFT_OK) status = make_state(optim, n_states);
    if (status == WEFT_OK) return optim;
    weft_optim_release(optim);
    return NULL;
}

void weft_optim_release(weft_optim *optim)
{
    if (!optim) return;
    for (int i = 0; i < optim->n_slots; i++) weft_release(optim->slots[i].tensor);
    for (int s = 0; s < WF_OPTIM_STATES; s++)
        if (optim->state[s]) wf_block_release(optim->state[s]);
    wf_free(optim->leaves);
    wf_free(optim->slots);
    wf_free(optim);
}

/* ---- stepping ---- */

struct walk {
    const weft_optim *optim;
    int next;
};

static weft_status check_slot(weft_module *m, const char *name, weft_tensor *parameter,
                              void *payload)
{
    struct walk *walk = payload;
    int i = walk->next++;

    WF_NEED(i < walk->optim->n_slots && walk->optim->slots[i].tensor == parameter, WEFT_ERR_STATE,
            "%s: parameter '%s' of module '%s' was replaced after the optimizer was made",
            walk->optim->kind->name, name, weft_module_path(m));
    return WEFT_OK;
}

/* All gradients, before anything is updated: pending sums are reduced here. */
static weft_status ask_gradients(weft_optim *optim)
{
    weft_status before = weft_error_status(); /* a NULL gradient alone is no failure */
    struct walk walk = {.optim = optim};

    WF_TRY(weft_module_each_parameter(optim->module, check_slot, &walk));
    WF_TRY(weft_reduce_gradients(optim->leaves, optim->n_leaves));
    for (int i = 0; i < optim->n_slots; i++) {
        struct wf_slot *slot = &optim->slots[i];

        slot->grad = slot->wanted ? weft_grad(slot->tensor) : NULL;
        if (weft_error_status() != before) return weft_error_status();
        WF_NEED(!slot->grad || (wf_is_dense(slot->grad) &&
                                weft_local_numel(slot->grad) == weft_local_numel(slot->tensor)),
                WEFT_ERR_STATE, "%s: a gradient is not laid out as its parameter",
                optim->kind->name);
    }
    return WEFT_OK;
}

static void update_slot(weft_optim *optim, struct wf_slot *slot)
{
    struct wf_update u = {.dtype = weft_tensor_dtype(slot->tensor),
                          .count = weft_local_numel(slot->tensor),
                          .w = weft_data(slot->tensor),
                          .g = weft_data(slot->grad),
                          .step = ++slot->step};

    for (int s = 0; s < optim->n_states; s++)
        u.state[s] = (char *)optim->state[s]->data + slot->offset;
    if (u.count) optim->kind->update(optim, &u);
}

static weft_status step(weft_optim *optim)
{
    WF_TRY(ask_gradients(optim));
    optim->steps++;
    for (int i = 0; i < optim->n_slots; i++)
        if (optim->slots[i].grad && !optim->meta) update_slot(optim, &optim->slots[i]);
    weft_optim_zero_grad(optim);
    return WEFT_OK;
}

weft_status weft_step(weft_optim *optim)
{
    struct wf_where before = wf_here;
    weft_status status;

    if (!optim)
        return weft_error_status() != WEFT_OK
                   ? weft_error_status()
                   : WF_FAIL(WEFT_ERR_ARG, "step: the optimizer is NULL");
    wf_here.phase = WF_OPTIM;
    status = step(optim);
    wf_here = before;
    return status;
}

void weft_optim_zero_grad(weft_optim *optim)
{
    if (!optim) return;
    for (int i = 0; i < optim->n_slots; i++) {
        if (optim->slots[i].wanted) weft_zero_grad(optim->slots[i].tensor);
        optim->slots[i].grad = NULL;
    }
}

void weft_optim_set_lr(weft_optim *optim, double lr)
{
    if (optim) optim->lr = lr;
}

double weft_optim_lr(const weft_optim *optim) { return optim->lr; }

int64_t weft_optim_steps(const weft_optim *optim) { return optim->steps; }
