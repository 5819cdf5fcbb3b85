/* training.c: a small GPT in f32 learns on the GPUs what it learns on the CPU, and the same as a
 * graph. */
#include <math.h>
#include <stdio.h>

#include "gpu/check/check.h"
#include "gpu/check/report.h"

static const char of_training[] = "a GPT's losses are the CPU's within 1e-5",
                  of_graph[] = "a step as a graph is the ordinary step";
enum { STEPS = 5, BATCH = 4, CONTEXT = 16, VOCAB = 61, REASON_BYTES = 320 };

static weft_tensor *tokens(int64_t step, int64_t start)
{
    int64_t values[BATCH * CONTEXT], shape[] = {BATCH, CONTEXT};

    for (int64_t i = 0; i < BATCH * CONTEXT; i++) values[i] = (step * i * i + start) % VOCAB;
    return weft_from_data(WEFT_I64, shape, 2, values);
}

struct training {
    weft_module *gpt;
    weft_optim *optim;
    weft_step_graph *graph; /* NULL: steps are called */
};

static weft_tensor *train_step(weft_tensor *const *in, int n, void *payload)
{
    struct training *t = payload;
    weft_tensor *loss = n == 2 ? weft_gpt_loss(t->gpt, in[0], in[1]) : NULL;

    if (!loss || weft_backward(loss) != WEFT_OK || weft_step(t->optim) != WEFT_OK) return NULL;
    return loss;
}

static weft_status take_step(struct training *t, int step, double *loss)
{
    weft_scope *scope = weft_scope_open();
    weft_tensor *in[] = {tokens(7 + step, 3), tokens(5, step)};
    weft_tensor *l = t->graph ? weft_step_graph_run(t->graph, in, 2) : train_step(in, 2, t);

    if (l) *loss = weft_item(l);
    weft_scope_close(scope);
    return l ? WEFT_OK : WEFT_ERR_STATE;
}

/* mesh NULL: on the CPU. `reason`, where it is given: as a graph, and why the last step was none.
 */
static weft_status train(weft_mesh *mesh, double *losses, char *reason, size_t room)
{
    weft_device before = weft_set_default_device(mesh ? WEFT_CUDA : WEFT_CPU);
    struct training t = {NULL, NULL, NULL};
    weft_status status = WEFT_OK;

    weft_manual_seed(11);
    t.gpt = weft_gpt((weft_gpt_config){.vocab = VOCAB,
                                       .context = CONTEXT,
                                       .width = 48,
                                       .heads = 6,
                                       .layers = 2,
                                       .act = WEFT_GELU_TANH,
                                       .dropout = 0.1});
    if (mesh) status = weft_parallelize_module(t.gpt, mesh, weft_gpt_plan());
    t.optim = weft_adamw(t.gpt, (weft_adamw_config){.lr = 1e-3});
    if (reason) t.graph = weft_step_graph_new(mesh, train_step, &t);
    for (int s = 0; status == WEFT_OK && s < STEPS; s++) status = take_step(&t, s, &losses[s]);
    if (reason && weft_step_graph_reason(t.graph))
        snprintf(reason, room, "%s", weft_step_graph_reason(t.graph));
    weft_step_graph_release(t.graph);
    weft_optim_release(t.optim);
    weft_module_release(t.gpt);
    weft_set_default_device(before);
    return status;
}

/* Of three ranks on NCCL may add in another order in a graph. */
static void check_graph(weft_mesh *mesh, const double *want)
{
    double got[STEPS], difference = 0;
    char reason[REASON_BYTES] = "";

    if (train(mesh, got, reason, sizeof reason) != WEFT_OK) {
        report_failure("training", of_graph, "small GPT as a graph");
        return;
    }
    if (reason[0]) { /* its steps were ordinary ones */
        report_untested("training", of_graph, reason, "small GPT as a graph");
        return;
    }
    for (int s = 0; s < STEPS; s++) difference = fmax(difference, fabs(got[s] - want[s]));
    report_add((struct report_line){.group = "training",
                                    .figure = "difference of losses",
                                    .bound = REPORT_AT_MOST,
                                    .value = difference,
                                    .limit = weft_world_size() <= 2 ? 0 : 1e-5,
                                    .claim = of_graph},
               "small GPT as a graph");
}

void check_training(weft_mesh *mesh)
{
    double cpu[STEPS], gpu[STEPS];

    if (train(NULL, cpu, NULL, 0) != WEFT_OK || train(mesh, gpu, NULL, 0) != WEFT_OK) {
        report_failure("training", of_training, "small GPT");
        report_untested("training", of_graph, "training fails", "small GPT as a graph");
        return;
    }
    for (int s = 0; s < STEPS; s++)
        report_add((struct report_line){.group = "training",
                                        .figure = "difference of losses",
                                        .bound = REPORT_AT_MOST,
                                        .value = fabs(gpu[s] - cpu[s]),
                                        .limit = 1e-5,
                                        .claim = of_training},
                   "small GPT, step %d", s);
    check_graph(mesh, gpu);
}
