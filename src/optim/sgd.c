/* sgd.c: settings of stochastic gradient descent; the arithmetic is kernels/optim.h's. */
#include "base/error.h"
#include "kernels/optim.h"
#include "optim/optim.h"

static void update(const weft_optim *optim, const struct wf_update *u)
{
    const weft_sgd_config *c = &optim->config.sgd;
    struct wf_sgd_step step = {.lr = optim->lr,
                               .momentum = c->momentum,
                               .weight_decay = c->weight_decay,
                               .nesterov = c->nesterov};

    wf_cpu_sgd(u->dtype, u->count, u->w, u->g, u->state[0], &step);
}

static const struct wf_optim_kind sgd = {
    .name = "sgd", .state_names = {"momentum_buffer"}, .update = update};

weft_optim *weft_sgd(weft_module *module, weft_sgd_config config)
{
    weft_optim *optim;

    WF_NEED_PTR(config.momentum >= 0 && config.weight_decay >= 0, WEFT_ERR_ARG,
                "sgd: momentum is %g, weight_decay %g", config.momentum, config.weight_decay);
    WF_NEED_PTR(!config.nesterov || config.momentum > 0, WEFT_ERR_ARG,
                "sgd: nesterov needs momentum");
    optim = wf_optim_new(&sgd, module, config.lr, config.momentum > 0);
    if (optim) optim->config.sgd = config;
    return optim;
}
