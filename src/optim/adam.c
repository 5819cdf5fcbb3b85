/*
 * adam.c: rows of Adam and its kin. All but Adamax are one loop with other numbers: see
 * WF_STEP_ADAM in kernels/cpu/isa/pointwise/optimizer_update.inc. Their configs begin alike, so
 * that in the union config.adam names rates, eps and weight decay of each of them.
 */
#include <math.h>

#include "base/error.h"
#include "optim/optim.h"

#define ADAM_SETTINGS                                                                              \
    WF_REAL(beta1, 0.9, 1), WF_REAL(beta2, 0.999, 1), WF_REAL(eps, 1e-8, 0),                       \
        WF_REAL(weight_decay, 0, 0), WF_FLAG(maximize)

#define BEGINS_AS_ADAM(config)                                                                     \
    _Static_assert(offsetof(config, weight_decay) == offsetof(weft_adam_config, weight_decay),     \
                   "config.adam names what all of them begin with")
BEGINS_AS_ADAM(weft_nadam_config);
BEGINS_AS_ADAM(weft_radam_config);
BEGINS_AS_ADAM(weft_adamax_config);

/* ---- Adam and AdamW ---- */

#define CONFIG weft_adam_config
static const struct wf_optim_setting adam_settings[] = {ADAM_SETTINGS, WF_FLAG(amsgrad),
                                                        WF_SETTINGS_END};
#undef CONFIG

static unsigned adam_state_mask(const union wf_optim_config *c, const weft_tensor *parameter)
{
    (void)parameter;
    return c->adam.amsgrad ? 7 : 3;
}

void wf_adam_prepare_step(struct wf_optimizer_step *step, const struct wf_adam_constants *a,
                          int64_t updates)
{
    step->rate = a->lr / (1 - pow(a->beta1, (double)updates));
    step->root = 1 / sqrt(1 - pow(a->beta2, (double)updates));
    step->eps = a->eps;
    step->beta1 = a->beta1;
    step->take1 = 1 - a->beta1;
    step->beta2 = a->beta2;
    step->take2 = 1 - a->beta2;
}

/* The numbers that all of them share; weight decay is added to the gradient, or applied apart. */
static void set_common_adam_step(struct wf_optimizer_step *step, const struct wf_optim_slot *slot,
                                 double lr, bool decoupled)
{
    const weft_adam_config *c = &slot->config.adam;

    wf_adam_prepare_step(
        step,
        &(struct wf_adam_constants){.lr = lr, .beta1 = c->beta1, .beta2 = c->beta2, .eps = c->eps},
        slot->step);
    if (decoupled)
        step->keep = 1 - lr * c->weight_decay;
    else
        step->decay = c->weight_decay;
}

static void adam_prepare_step(struct wf_optimizer_step *step, struct wf_optim_slot *slot, double lr)
{
    set_common_adam_step(step, slot, lr, false);
    step->sign = slot->config.adam.maximize ? -1 : 1;
}

static void adamw_prepare_step(struct wf_optimizer_step *step, struct wf_optim_slot *slot,
                               double lr)
{
    set_common_adam_step(step, slot, lr, true);
    step->sign = slot->config.adam.maximize ? -1 : 1;
}

WF_OPTIM_ROW(adam, .states = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"}, .loop = WF_STEP_ADAM,
             .settings = adam_settings, .state_mask = adam_state_mask, .prepare = adam_prepare_step)

WF_OPTIM_ROW(adamw, .states = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"}, .loop = WF_STEP_ADAM,
             .settings = adam_settings, .state_mask = adam_state_mask,
             .prepare = adamw_prepare_step)

/* ---- NAdam ---- */

#define CONFIG weft_nadam_config
static const struct wf_optim_setting nadam_settings[] = {
    ADAM_SETTINGS, WF_REAL(momentum_decay, 4e-3, 0), WF_FLAG(decoupled), WF_SETTINGS_END};
#undef CONFIG

static double nadam_momentum_at(const weft_nadam_config *c, int64_t step)
{
    return c->beta1 * (1 - 0.5 * pow(0.96, (double)step * c->momentum_decay));
}

/* The product of the momenta of all updates up to this one; from the start after a checkpoint. */
static double nadam_momentum_product(struct wf_optim_slot *slot)
{
    if (slot->product_of >= slot->step || slot->product_of == 0) {
        slot->product_of = 0;
        slot->product = 1;
    }
    while (slot->product_of < slot->step)
        slot->product *= nadam_momentum_at(&slot->config.nadam, ++slot->product_of);
    return slot->product;
}

static void nadam_prepare_step(struct wf_optimizer_step *step, struct wf_optim_slot *slot,
                               double lr)
{
    const weft_nadam_config *c = &slot->config.nadam;
    double product = nadam_momentum_product(slot), next = nadam_momentum_at(c, slot->step + 1);

    set_common_adam_step(step, slot, lr, c->decoupled);
    step->rate = lr * next / (1 - product * next);
    step->rate_d = lr * (1 - nadam_momentum_at(c, slot->step)) / (1 - product);
    step->sign = c->maximize ? -1 : 1;
}

WF_OPTIM_ROW(nadam, .states = {"exp_avg", "exp_avg_sq"}, .loop = WF_STEP_ADAM,
             .settings = nadam_settings, .prepare = nadam_prepare_step)

/* ---- RAdam ---- */

#define CONFIG weft_radam_config
static const struct wf_optim_setting radam_settings[] = {ADAM_SETTINGS, WF_FLAG(decoupled),
                                                         WF_SETTINGS_END};
#undef CONFIG

/* Adam's step without its bias correction of v, times the rectification; as long as there is none,
 * a step along the first moment alone: the denominator is then 0 sqrt(v) + 1. */
static void radam_prepare_step(struct wf_optimizer_step *step, struct wf_optim_slot *slot,
                               double lr)
{
    const weft_radam_config *c = &slot->config.radam;
    double t = (double)slot->step, left = pow(c->beta2, t);
    double most = 2 / (1 - c->beta2) - 1, length = most - 2 * t * left / (1 - left);
    bool rectified = length > 5;

    set_common_adam_step(step, slot, lr, c->decoupled);
    step->root = rectified ? 1 : 0;
    if (rectified)
        step->rate *= sqrt((1 - left) * (length - 4) * (length - 2) * most /
                           ((most - 4) * (most - 2) * length));
    else
        step->eps = 1;
    step->sign = c->maximize ? -1 : 1;
}

WF_OPTIM_ROW(radam, .states = {"exp_avg", "exp_avg_sq"}, .loop = WF_STEP_ADAM,
             .settings = radam_settings, .prepare = radam_prepare_step)

/* ---- Adamax ---- */

#define CONFIG weft_adamax_config
static const struct wf_optim_setting adamax_settings[] = {ADAM_SETTINGS, WF_SETTINGS_END};
#undef CONFIG

static void adamax_prepare_step(struct wf_optimizer_step *step, struct wf_optim_slot *slot,
                                double lr)
{
    set_common_adam_step(step, slot, lr, false);
    step->sign = slot->config.adamax.maximize ? -1 : 1;
}

WF_OPTIM_ROW(adamax, .states = {"exp_avg", "exp_inf"}, .loop = WF_STEP_ADAMAX,
             .settings = adamax_settings, .prepare = adamax_prepare_step)
