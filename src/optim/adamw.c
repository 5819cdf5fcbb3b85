/* adamw.c: AdamW's settings; the arithmetic is kernels/optim.h's. */
#include <math.h>

#include "base/error.h"
#include "kernels/optim.h"
#include "optim/optim.h"

static void update(const weft_optim *optim, const struct wf_update *u)
{
    const weft_adamw_config *c = &optim->config.adamw;
    struct wf_adamw_step step = {.lr = optim->lr,
                                 .beta1 = c->beta1,
                                 .beta2 = c->beta2,
                                 .eps = c->eps,
                                 .weight_decay = c->weight_decay,
                                 .correction1 = 1 - pow(c->beta1, (double)u->step),
                                 .correction2 = 1 - pow(c->beta2, (double)u->step)};

    wf_cpu_adamw(u->dtype, u->count, u->w, u->g, u->state[0], u->state[1], &step);
}

static const struct wf_optim_kind adamw = {
    .name = "adamw", .state_names = {"exp_avg", "exp_avg_sq"}, .update = update};

weft_optim *weft_adamw(weft_module *module, weft_adamw_config config)
{
    weft_optim *optim;

    if (config.beta1 == 0) config.beta1 = 0.9;
    if (config.beta2 == 0) config.beta2 = 0.999;
    if (config.eps == 0) config.eps = 1e-8;
    WF_NEED_PTR(config.beta1 > 0 && config.beta1 < 1 && config.beta2 > 0 && config.beta2 < 1,
                WEFT_ERR_ARG, "adamw: betas are %g and %g; they must lie in (0, 1)", config.beta1,
                config.beta2);
    WF_NEED_PTR(config.eps > 0 && config.weight_decay >= 0, WEFT_ERR_ARG,
                "adamw: eps is %g, weight_decay %g", config.eps, config.weight_decay);
    optim = wf_optim_new(&adamw, module, config.lr, 2);
    if (optim) optim->config.adamw = config;
    return optim;
}
