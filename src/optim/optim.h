/*
 * optim.h: what all optimizers share: the list of parameters, their settings, sharded state, a
 * step.
 *
 * An optimizer is a row: its settings, its state per element, and the constants of a step, which
 * one of the kernels' loops (kernels/optimizer_kernels.h) uses. Everything else is the same for all
 * and is in optim.c and optim_settings.c.
 */
#pragma once

#include <weft/optim.h>

#include "autograd/tape.h"
#include "device/pool.h"
#include "kernels/optimizer_kernels.h"

/* A row's own states, then the master of a 16-bit parameter. */
enum { WF_OPTIM_MASTER = WF_STEP_STATES, WF_OPTIM_STATES };

/** All configs begin with the learning rate. */
union wf_optim_config {
    double lr;
    weft_sgd_config sgd;
    weft_adam_config adam;
    weft_adamw_config adamw;
    weft_nadam_config nadam;
    weft_radam_config radam;
    weft_adamax_config adamax;
    weft_adagrad_config adagrad;
    weft_rmsprop_config rmsprop;
    weft_adadelta_config adadelta;
    weft_asgd_config asgd;
    weft_lion_config lion;
    weft_muon_config muon;
};

enum wf_setting_type { WF_SETTING_REAL, WF_SETTING_FLAG, WF_SETTING_INT };

/** A field of a config. */
struct wf_optim_setting {
    const char *name;
    size_t offset;
    enum wf_setting_type type;
    double fallback; /* what 0 in a config means */
    double below;    /* 0: no limit */
    bool any_sign;
};

/* Rows of a list of settings; CONFIG names the config's type. */
/* clang-format off */
#define WF_REAL(field, fallback, below) \
    {#field, offsetof(CONFIG, field), WF_SETTING_REAL, fallback, below, false}
#define WF_INT(field, fallback, below) \
    {#field, offsetof(CONFIG, field), WF_SETTING_INT, fallback, below, false}
#define WF_FLAG(field) {#field, offsetof(CONFIG, field), WF_SETTING_FLAG, 0, 2, false}
#define WF_SETTINGS_END {NULL, 0, WF_SETTING_REAL, 0, 0, false}
/* clang-format on */

/** A parameter of the module and its optimizer state. */
struct wf_optim_slot {
    struct wf_grad_state grad_state; /* in backward (update_in_backward.c): its tensor points here.
                                        reduced: updated */
    weft_tensor *tensor;             /* one reference */
    char *path;                      /* below the optimizer's module */
    bool wanted;                     /* it has wanted a gradient, so it has state */
    unsigned state_mask;             /* bit s: it has state s */
    struct wf_block *state;          /* one reference; NULL: there was no memory */
    size_t offset[WF_OPTIM_STATES];
    union wf_optim_config config;
    double lr_factor;
    int64_t step;      /* updates so far */
    weft_tensor *grad; /* during a step */
    double product;    /* NAdam: of the momenta of `product_of` updates; made again at need */
    int64_t product_of;
};

typedef void wf_optim_prepare(struct wf_optimizer_step *step, struct wf_optim_slot *slot,
                              double lr);

struct wf_optim_kind {
    const char *name;
    const char *states[WF_STEP_STATES]; /* as PyTorch calls them */
    enum wf_optimizer_kind loop;
    const struct wf_optim_setting *settings; /* ends in WF_SETTINGS_END */
    /** Bits of the states that a parameter needs; NULL: all. */
    unsigned (*state_mask)(const union wf_optim_config *c, const weft_tensor *parameter);
    /** What the first state begins with; NULL: 0. */
    double (*start)(const union wf_optim_config *c);
    /** Settings that do not go together; NULL: all do. */
    weft_status (*check_config)(const union wf_optim_config *c);
    /** The constants of a step, which `slot->step` counts already; all 0 but sign (1 or -1), keep
     * (1). */
    wf_optim_prepare *prepare;
    /** Instead of prepare and loop; meta parameters come here too, without elements. */
    weft_status (*update)(weft_optim *optim, struct wf_optim_slot *slot,
                          struct wf_optimizer_step_arrays *arrays);
};

/** A parameter's place in the tree. */
struct wf_parameter_place {
    weft_module *module;
    int index, slot;
};

struct weft_optim {
    struct wf_grad_hook grad_hook; /* of the slots that are updated in backward */
    const struct wf_optim_kind *kind;
    weft_module *module;
    double lr;
    int64_t steps;
    struct wf_optim_slot *slots; /* every parameter of the module, in its order */
    struct wf_parameter_place *places;
    weft_tensor **leaves; /* those that have wanted a gradient */
    int n_slots, n_places, n_leaves;
    struct wf_optimizer_item *items; /* of a step: room for one per slot */
    weft_device device;              /* of the parameters */
    bool meta;                       /* WEFT_META: they have no elements */
    bool captured;                   /* a list or a graph has the addresses of its states */
};

/** An optimizer over the module's parameters. */
weft_optim *wf_optim_new(const struct wf_optim_kind *kind, weft_module *module,
                         const union wf_optim_config *config);

/** weft_NAME, which makes an optimizer of the row that follows. */
#define WF_OPTIM_ROW(NAME, ...)                                                                    \
    weft_optim *weft_##NAME(weft_module *module, weft_##NAME##_config config)                      \
    {                                                                                              \
        static const struct wf_optim_kind kind = {.name = #NAME, __VA_ARGS__};                     \
                                                                                                   \
        return wf_optim_new(&kind, module, &(union wf_optim_config){.NAME = config});              \
    }

/** Dtype of a parameter's state, in which it is updated. */
weft_dtype wf_optim_state_dtype(const weft_tensor *parameter);

/** Which states a slot has by its settings, the master included. */
unsigned wf_optim_slot_state_mask(const struct wf_optim_kind *kind,
                                  const struct wf_optim_slot *slot);

/** Make room for the states of all slots, at their first values; older state is dropped. */
weft_status wf_optim_alloc_state(weft_optim *optim);

/** Fails when that found no memory. */
weft_status wf_optim_check_state(const weft_optim *optim, const struct wf_optim_slot *slot);

/** Check slot->grad, and update the slot's parameter by it. */
weft_status wf_optim_update_slot(weft_optim *optim, struct wf_optim_slot *slot);

/** What `prepare` of a kind finds. */
extern const struct wf_optimizer_step wf_optim_neutral_step;

/** In a step that is being captured: the kernels of these items, whose slots are those with
 * elements among `slots`, now and with other constants in each launch. `steps` are counted. / Of
 * all slots with a gradient, as one step. */
void wf_optim_capture_update(weft_optim *optim, struct wf_optim_slot *const *slots, int n_slots,
                             const struct wf_optimizer_item *items, int n_items, int steps);
void wf_optim_capture_step(weft_optim *optim, int n_items);
/** An update of kinds that have a function for it: in each launch the slot counts it. */
void wf_optim_capture_count(struct wf_optim_slot *slot);
/** Their kernels, with the constants of `prepare`; in a step that is being captured those of each
 *  launch. */
void wf_optim_run_step_kernels(weft_optim *optim, struct wf_optim_slot *slot,
                               enum wf_optimizer_kind loop,
                               const struct wf_optimizer_step_arrays *arrays,
                               wf_optim_prepare *prepare);
/** The same for a recorder (base/recorder.h), which runs the kernels. */
void wf_optim_record_update(weft_optim *optim, struct wf_optim_slot *const *slots, int n_slots,
                            const struct wf_optimizer_item *items, int n_items, int steps);
void wf_optim_record_step(weft_optim *optim, int n_items);

/** Backward no longer updates the parameters. */
void wf_optim_stop_in_backward(weft_optim *optim);

/** The optimizer that updates a parameter in backward, NULL: none. */
const weft_optim *wf_optim_updating_in_backward(const weft_tensor *parameter);

/** The name of state `s` of a kind, the master's too. */
const char *wf_optim_state_name(const struct wf_optim_kind *kind, int s);

/** The slot of a parameter, NULL: none. */
struct wf_optim_slot *wf_optim_find_slot(const weft_optim *optim, const weft_tensor *parameter);

/** Replace zeros by the defaults, then check the ranges. fails: WEFT_ERR_ARG */
weft_status wf_optim_config_complete(const struct wf_optim_kind *kind,
                                     union wf_optim_config *config);

/** Set Adam's constants of a step, but not sign and weight decay, which each optimizer of this
 * family sets itself. */
struct wf_adam_constants {
    double lr, beta1, beta2, eps;
};
void wf_adam_prepare_step(struct wf_optimizer_step *step, const struct wf_adam_constants *adam,
                          int64_t updates);

/** True when this rank's elements lie row-major without gaps. */
bool wf_is_locally_contiguous(const weft_tensor *t);
