/* adagrad.c: rows of optimizers that divide by the size of past gradients: Adagrad, RMSprop,
 * Adadelta. */
#include "base/error.h"
#include "optim/optim.h"

/* ---- Adagrad ---- */

#define CONFIG weft_adagrad_config
static const struct wf_optim_setting adagrad_settings[] = {
    WF_REAL(lr_decay, 0, 0), WF_REAL(weight_decay, 0, 0), WF_REAL(initial_accumulator, 0, 0),
    WF_REAL(eps, 1e-10, 0),  WF_FLAG(maximize),           WF_SETTINGS_END};
#undef CONFIG

static double adagrad_initial_state(const union wf_optim_config *c)
{
    return c->adagrad.initial_accumulator;
}

static void adagrad_prepare_step(struct wf_optimizer_step *step, struct wf_optim_slot *slot,
                                 double lr)
{
    const weft_adagrad_config *c = &slot->config.adagrad;

    step->sign = c->maximize ? -1 : 1;
    step->decay = c->weight_decay;
    step->rate = lr / (1 + (double)(slot->step - 1) * c->lr_decay);
    step->eps = c->eps;
}

WF_OPTIM_ROW(adagrad, .states = {"sum"}, .loop = WF_STEP_ADAGRAD, .settings = adagrad_settings,
             .start = adagrad_initial_state, .prepare = adagrad_prepare_step)

/* ---- RMSprop ---- */

#define CONFIG weft_rmsprop_config
static const struct wf_optim_setting rmsprop_settings[] = {
    WF_REAL(alpha, 0.99, 0), WF_REAL(eps, 1e-8, 0), WF_REAL(weight_decay, 0, 0),
    WF_REAL(momentum, 0, 0), WF_FLAG(centered),     WF_FLAG(maximize),
    WF_SETTINGS_END};
#undef CONFIG

static unsigned rmsprop_state_mask(const union wf_optim_config *c, const weft_tensor *parameter)
{
    (void)parameter;
    return 1u | (c->rmsprop.centered ? 2u : 0) | (c->rmsprop.momentum > 0 ? 4u : 0);
}

static void rmsprop_prepare_step(struct wf_optimizer_step *step, struct wf_optim_slot *slot,
                                 double lr)
{
    const weft_rmsprop_config *c = &slot->config.rmsprop;

    step->sign = c->maximize ? -1 : 1;
    step->decay = c->weight_decay;
    step->rate = lr;
    step->beta1 = c->momentum;
    step->beta2 = c->alpha;
    step->take2 = 1 - c->alpha;
    step->eps = c->eps;
}

WF_OPTIM_ROW(rmsprop, .states = {"square_avg", "grad_avg", "momentum_buffer"},
             .loop = WF_STEP_RMSPROP, .settings = rmsprop_settings,
             .state_mask = rmsprop_state_mask, .prepare = rmsprop_prepare_step)

/* ---- Adadelta ---- */

#define CONFIG weft_adadelta_config
static const struct wf_optim_setting adadelta_settings[] = {
    WF_REAL(rho, 0.9, 0), WF_REAL(eps, 1e-6, 0), WF_REAL(weight_decay, 0, 0), WF_FLAG(maximize),
    WF_SETTINGS_END};
#undef CONFIG

static weft_status adadelta_check_config(const union wf_optim_config *c)
{
    WF_NEED(c->adadelta.rho <= 1, WEFT_ERR_ARG, "adadelta: rho is %g, above 1", c->adadelta.rho);
    return WEFT_OK;
}

static void adadelta_prepare_step(struct wf_optimizer_step *step, struct wf_optim_slot *slot,
                                  double lr)
{
    const weft_adadelta_config *c = &slot->config.adadelta;

    step->sign = c->maximize ? -1 : 1;
    step->decay = c->weight_decay;
    step->rate = lr;
    step->beta2 = c->rho;
    step->take2 = 1 - c->rho;
    step->eps = c->eps;
}

WF_OPTIM_ROW(adadelta, .states = {"square_avg", "acc_delta"}, .loop = WF_STEP_ADADELTA,
             .settings = adadelta_settings, .check_config = adadelta_check_config,
             .prepare = adadelta_prepare_step)
