/*
 * optim.h: what all optimizers share: the list of parameters, sharded state, one step.
 *
 * An optimizer is a row: how many values of state an element has, and how one parameter's local
 * elements are updated. Everything else is the same for all and stands in optim.c.
 */
#pragma once

#include <weft/optim.h>

#include "device/pool.h"

enum { WF_OPTIM_STATES = 2 };

/** One parameter's local elements during a step. */
struct wf_update {
    weft_dtype dtype;
    int64_t count;
    void *w;
    const void *g;
    void *state[WF_OPTIM_STATES];
    int64_t step; /* updates of this parameter, this one included */
};

struct wf_optim_kind {
    const char *name;
    const char *state_names[WF_OPTIM_STATES]; /* as PyTorch calls them */
    void (*update)(const weft_optim *optim, const struct wf_update *u);
};

/** A parameter as it was when the optimizer was made. */
struct wf_slot {
    weft_tensor *tensor; /* one reference */
    bool wanted;         /* it wanted a gradient, so it has state */
    size_t offset;       /* of its state, bytes */
    int64_t step;
    weft_tensor *grad; /* during a step */
};

struct weft_optim {
    const struct wf_optim_kind *kind;
    weft_module *module;
    double lr;
    int64_t steps;
    int n_states;
    union {
        weft_sgd_config sgd;
        weft_adamw_config adamw;
    } config;
    struct wf_slot *slots; /* every parameter of the module, in its order */
    weft_tensor **leaves;  /* those that want a gradient */
    int n_leaves;
    int n_slots;
    bool meta; /* parameters without elements: a step only asks for the gradients */
    struct wf_block *state[WF_OPTIM_STATES];
};

/** An optimizer over the module's parameters with `n_states` zeroed values per local element. */
weft_optim *wf_optim_new(const struct wf_optim_kind *kind, weft_module *module, double lr,
                         int n_states);

/** True when this rank's elements lie row-major without gaps. */
bool wf_is_dense(const weft_tensor *t);
