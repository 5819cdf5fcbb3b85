/* training.c: a small GPT in f32 learns on the GPUs what it learns on the CPU. */
#include <math.h>

#include "gpu/check/check.h"
#include "gpu/check/report.h"

enum { STEPS = 5, BATCH = 4, CONTEXT = 16, VOCAB = 61 };

static weft_tensor *tokens(int64_t step, int64_t start)
{
    int64_t values[BATCH * CONTEXT], shape[] = {BATCH, CONTEXT};

    for (int64_t i = 0; i < BATCH * CONTEXT; i++) values[i] = (step * i * i + start) % VOCAB;
    return weft_from_data(WEFT_I64, shape, 2, values);
}

static weft_status train_step(weft_module *gpt, weft_optim *optim, int step, double *loss)
{
    weft_scope *scope = weft_scope_open();
    weft_tensor *in = tokens(7 + step, 3), *target = tokens(5, step);
    weft_tensor *l = weft_gpt_loss(gpt, in, target);
    weft_status status = l ? weft_backward(l) : weft_error_status();

    if (status == WEFT_OK) {
        *loss = weft_item(l);
        status = weft_step(optim);
    }
    weft_scope_close(scope);
    return status;
}

/* mesh NULL: on the CPU. */
static weft_status train(weft_mesh *mesh, double *losses)
{
    weft_device before = weft_set_default_device(mesh ? WEFT_CUDA : WEFT_CPU);
    weft_module *gpt;
    weft_optim *optim;
    weft_status status = WEFT_OK;

    weft_manual_seed(11);
    gpt = weft_gpt((weft_gpt_config){.vocab = VOCAB,
                                     .context = CONTEXT,
                                     .width = 48,
                                     .heads = 6,
                                     .layers = 2,
                                     .act = WEFT_GELU_TANH,
                                     .dropout = 0.1});
    if (mesh) status = weft_parallelize_module(gpt, mesh, weft_gpt_plan());
    optim = weft_adamw(gpt, (weft_adamw_config){.lr = 1e-3});
    for (int s = 0; status == WEFT_OK && s < STEPS; s++)
        status = train_step(gpt, optim, s, &losses[s]);
    weft_optim_release(optim);
    weft_module_release(gpt);
    weft_set_default_device(before);
    return status;
}

void check_training(weft_mesh *mesh)
{
    double cpu[STEPS], gpu[STEPS];

    if (train(NULL, cpu) != WEFT_OK || train(mesh, gpu) != WEFT_OK) {
        report_failure("training", "a small GPT");
        return;
    }
    for (int s = 0; s < STEPS; s++)
        report_add((struct report_line){.group = "training",
                                        .figure = "difference of losses",
                                        .bound = REPORT_AT_MOST,
                                        .value = fabs(gpu[s] - cpu[s]),
                                        .limit = 1e-5,
                                        .claim = "a GPT's losses are the CPU's within 1e-5"},
                   "small GPT, step %d", s);
}
