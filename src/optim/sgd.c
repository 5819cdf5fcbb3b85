/* sgd.c: rows of optimizers that step along the gradient itself: SGD, averaged SGD, Lion. */
#include <math.h>

#include "base/error.h"
#include "optim/optim.h"

/* ---- SGD ---- */

#define CONFIG weft_sgd_config
static const struct wf_optim_setting sgd_settings[] = {
    WF_REAL(momentum, 0, 0), WF_REAL(dampening, 0, 0), WF_REAL(weight_decay, 0, 0),
    WF_FLAG(nesterov),       WF_FLAG(maximize),        WF_SETTINGS_END};
#undef CONFIG

static weft_status sgd_check_config(const union wf_optim_config *config)
{
    const weft_sgd_config *c = &config->sgd;

    WF_NEED(!c->nesterov || (c->momentum > 0 && c->dampening == 0), WEFT_ERR_ARG,
            "sgd: nesterov needs momentum and no dampening; they are %g and %g", c->momentum,
            c->dampening);
    return WEFT_OK;
}

static unsigned sgd_state_mask(const union wf_optim_config *c, const weft_tensor *parameter)
{
    (void)parameter;
    return c->sgd.momentum > 0;
}

static void sgd_prepare_step(struct wf_optimizer_step *step, struct wf_optim_slot *slot, double lr)
{
    const weft_sgd_config *c = &slot->config.sgd;
    bool first = slot->step == 1;

    step->sign = c->maximize ? -1 : 1;
    step->decay = c->weight_decay;
    step->rate = c->nesterov ? lr * c->momentum : lr;
    step->rate_d = c->nesterov ? lr : 0;
    step->beta1 = first ? 0 : c->momentum;
    step->take1 = first ? 1 : 1 - c->dampening;
}

WF_OPTIM_ROW(sgd, .states = {"momentum_buffer"}, .loop = WF_STEP_SGD, .settings = sgd_settings,
             .check_config = sgd_check_config, .state_mask = sgd_state_mask,
             .prepare = sgd_prepare_step)

/* ---- averaged SGD ---- */

#define CONFIG weft_asgd_config
static const struct wf_optim_setting asgd_settings[] = {
    WF_REAL(lambd, 1e-4, 0),     WF_REAL(alpha, 0.75, 0), WF_REAL(t0, 1e6, 0),
    WF_REAL(weight_decay, 0, 0), WF_FLAG(maximize),       WF_SETTINGS_END};
#undef CONFIG

static void asgd_prepare_step(struct wf_optimizer_step *step, struct wf_optim_slot *slot, double lr)
{
    const weft_asgd_config *c = &slot->config.asgd;
    double before = (double)(slot->step - 1);

    step->sign = c->maximize ? -1 : 1;
    step->decay = c->weight_decay;
    step->rate = lr / pow(1 + c->lambd * lr * before, c->alpha);
    step->keep = 1 - c->lambd * step->rate;
    step->take1 = 1 / fmax(1, before - c->t0);
}

WF_OPTIM_ROW(asgd, .states = {"ax"}, .loop = WF_STEP_ASGD, .settings = asgd_settings,
             .prepare = asgd_prepare_step)

/* ---- Lion ---- */

#define CONFIG weft_lion_config
static const struct wf_optim_setting lion_settings[] = {
    WF_REAL(beta1, 0.9, 1), WF_REAL(beta2, 0.99, 1), WF_REAL(weight_decay, 0, 0), WF_FLAG(maximize),
    WF_SETTINGS_END};
#undef CONFIG

static void lion_prepare_step(struct wf_optimizer_step *step, struct wf_optim_slot *slot, double lr)
{
    const weft_lion_config *c = &slot->config.lion;

    step->sign = c->maximize ? -1 : 1;
    step->keep = 1 - lr * c->weight_decay;
    step->rate = lr;
    step->beta1 = c->beta1;
    step->take1 = 1 - c->beta1;
    step->beta2 = c->beta2;
    step->take2 = 1 - c->beta2;
}

WF_OPTIM_ROW(lion, .states = {"exp_avg"}, .loop = WF_STEP_LION, .settings = lion_settings,
             .prepare = lion_prepare_step)
