/*
 * train_gpt.c: train a GPT on the bytes of a file, tensor-parallel over all ranks.
 *
 *     train_gpt --data FILE                    one process
 *     mpiexec -n 2 train_gpt --data FILE       two: the same losses
 *     train_gpt --data FILE --ranks 4          four threads of one process
 *
 * Here are the model, the plan and the loop; options, batches, reports and sampling are in
 * train_gpt/.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <weft/weft.h>

#include "train_gpt/options.h"
#include "train_gpt/report.h"
#include "train_gpt/sample.h"
#include "train_gpt/text.h"

enum { VOCAB = 256, VALIDATION_BATCHES = 4, PLAN_LINES = 8 };

struct trainer {
    const struct options *o;
    weft_mesh *mesh;
    weft_module *gpt;
    weft_optim *optim;
    weft_ledger *comm; /* the whole run, for the share of time */
    struct text text;
    struct report report;
    int32_t *tokens, *targets; /* one batch */
};

/* Attention by heads, the MLP by hidden features, embedding, head and loss by vocabulary. */
static void make_plan(weft_plan plan[PLAN_LINES])
{
    weft_style sharded_logits =
        weft_colwise_parallel_with((weft_style_options){.keep_distributed = true});

    plan[0] = (weft_plan){"wte", weft_rowwise_parallel()};
    plan[1] = (weft_plan){"blocks.*.attn.qkv", weft_colwise_parallel()};
    plan[2] = (weft_plan){"blocks.*.attn.proj", weft_rowwise_parallel()};
    plan[3] = (weft_plan){"blocks.*.mlp.up", weft_colwise_parallel()};
    plan[4] = (weft_plan){"blocks.*.mlp.down", weft_rowwise_parallel()};
    plan[5] = (weft_plan){"head", sharded_logits};
    plan[6] = (weft_plan){"loss", weft_loss_parallel()};
    plan[7] = (weft_plan){0};
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- one batch ---- */

static weft_tensor *loss_of(struct trainer *t, enum part part, int64_t step)
{
    const struct options *o = t->o;
    int64_t shape[] = {o->batch, o->context};

    text_batch(&t->text, part, o->seed, step, o->batch, o->context, t->tokens, t->targets);
    return weft_gpt_loss(t->gpt, weft_from_data(WEFT_I32, 2, shape, t->tokens),
                         weft_from_data(WEFT_I32, 2, shape, t->targets));
}

static double learning_rate(const struct options *o, int step)
{
    weft_schedule schedule = {.kind = WEFT_SCHEDULE_COSINE,
                              .lr = o->lr,
                              .min_lr = o->lr / 10,
                              .warmup = o->warmup,
                              .total = o->steps};

    return weft_schedule_lr(&schedule, step);
}

static weft_status train_step(struct trainer *t, int step, struct step_result *r)
{
    weft_scope *scope = weft_scope_open();
    weft_tensor *loss = loss_of(t, TRAIN, step);
    weft_status status = loss ? weft_backward(loss) : weft_error_status();

    if (status == WEFT_OK) status = weft_clip_grad_norm(t->gpt, t->o->clip, &r->norm);
    weft_optim_set_lr(t->optim, r->lr);
    if (status == WEFT_OK) status = weft_step(t->optim);
    if (status == WEFT_OK) r->loss = weft_item(loss);
    weft_scope_close(scope);
    return status;
}

static weft_status validate(struct trainer *t, double *mean)
{
    weft_status status = WEFT_OK;
    double sum = 0;

    *mean = NAN;
    if (!t->text.validation) return WEFT_OK;
    weft_module_train(t->gpt, false);
    weft_no_grad_begin();
    for (int i = 0; i < VALIDATION_BATCHES && status == WEFT_OK; i++) {
        weft_scope *scope = weft_scope_open();
        weft_tensor *loss = loss_of(t, VALIDATION, i);

        status = loss ? WEFT_OK : weft_error_status();
        if (loss) sum += weft_item(loss);
        weft_scope_close(scope);
    }
    weft_no_grad_end();
    weft_module_train(t->gpt, true);
    *mean = sum / VALIDATION_BATCHES;
    return status;
}

/* ---- the run ---- */

static weft_status run_steps(struct trainer *t, weft_ledger **last)
{
    for (int step = 0; step < t->o->steps; step++) {
        struct step_result r = {.step = step,
                                .lr = learning_rate(t->o, step),
                                .tokens = (double)t->o->batch * t->o->context};
        double start = now(), comm = weft_ledger_seconds(t->comm);
        weft_status status;

        if (step == t->o->steps - 1) *last = weft_ledger_open();
        status = train_step(t, step, &r);
        if (status != WEFT_OK) return status;
        r.seconds = now() - start;
        r.comm = weft_ledger_seconds(t->comm) - comm;
        report_step(&t->report, &r);
    }
    return WEFT_OK;
}

static weft_status run(struct trainer *t)
{
    weft_ledger *last = NULL;
    double validation = NAN;
    weft_status status = run_steps(t, &last);

    if (status == WEFT_OK) report_costs(&t->report, last);
    weft_ledger_close(last);
    if (status == WEFT_OK) status = validate(t, &validation);
    if (status == WEFT_OK) report_validation(&t->report, validation);
    if (status == WEFT_OK && t->o->sample)
        status = sample_text(t->gpt, t->text.bytes, 1, t->o->sample, t->o->context, t->o->seed);
    return status;
}

/* ---- setting up ---- */

/* True on every rank when it is true on every rank: one rank's file may be missing. */
static bool all_ranks(weft_mesh *mesh, bool mine)
{
    weft_placement least = weft_partial(WEFT_MIN);
    int64_t shape[] = {1};
    weft_scope *scope = weft_scope_open();
    weft_tensor *flag = weft_full(WEFT_F64, 1, shape, mine);
    bool all;

    flag = flag ? weft_from_local(flag, mesh, &least, shape) : NULL;
    flag = flag ? weft_full_tensor(flag) : NULL;
    all = flag && weft_item(flag) == 1;
    weft_scope_close(scope);
    return all;
}

static bool open_files(struct trainer *t)
{
    const struct options *o = t->o;
    char problem[512] = "";
    bool mine = text_load(&t->text, o->data, o->context, problem, sizeof problem) &&
                report_open(&t->report, o, problem, sizeof problem);

    if (all_ranks(t->mesh, mine)) return true;
    if (weft_world_rank() == 0)
        fprintf(stderr, "train_gpt: %s\n",
                problem[0] ? problem : "another rank cannot read its file");
    return false;
}

static weft_status build(struct trainer *t)
{
    const struct options *o = t->o;
    size_t batch = (size_t)o->batch * (size_t)o->context;
    weft_plan plan[PLAN_LINES];
    weft_status status;

    t->gpt = weft_gpt((weft_gpt_config){.vocab = VOCAB,
                                        .context = o->context,
                                        .width = o->width,
                                        .heads = o->heads,
                                        .layers = o->layers,
                                        .act = WEFT_GELU_TANH,
                                        .dtype = o->dtype});
    make_plan(plan);
    status = weft_parallelize_module(t->gpt, t->mesh, plan);
    if (status != WEFT_OK) return status;
    t->optim = weft_adamw(t->gpt, (weft_adamw_config){.lr = o->lr, .weight_decay = 0.01});
    t->tokens = malloc(batch * sizeof *t->tokens);
    t->targets = malloc(batch * sizeof *t->targets);
    if (!t->optim || !t->tokens || !t->targets) return WEFT_ERR_MEMORY;
    t->comm = weft_ledger_open();
    report_model(t->gpt, plan, t->mesh);
    return WEFT_OK;
}

static void take_down(struct trainer *t)
{
    if (t->comm) weft_ledger_close(t->comm);
    weft_optim_release(t->optim);
    weft_module_release(t->gpt);
    weft_mesh_release(t->mesh);
    report_close(&t->report);
    text_free(&t->text);
    free(t->tokens);
    free(t->targets);
}

/* What every rank does. */
static int train(void *payload)
{
    struct trainer t = {.o = payload};
    weft_status status = WEFT_OK;
    bool opened;

    weft_manual_seed(t.o->seed);
    t.mesh = weft_mesh_new(WEFT_CPU, "tp=%d", weft_world_size());
    opened = t.mesh && open_files(&t);
    if (opened) status = build(&t);
    if (opened && status == WEFT_OK) status = run(&t);
    if (weft_world_rank() == 0 && weft_error_status() != WEFT_OK)
        fprintf(stderr, "train_gpt: %s\n", weft_error_message());
    take_down(&t);
    return opened && status == WEFT_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* A mistake in the command line, or --help: told once, by the first rank. */
static int explain(struct options *o, bool right, int argc, char **argv)
{
    if (weft_world_rank() != 0) return right ? EXIT_SUCCESS : EXIT_FAILURE;
    if (right)
        options_help(argv[0]);
    else
        options_read(o, argc, argv, true);
    return right ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    struct options o;
    bool right = options_read(&o, argc, argv, false);
    int code, ended;

    if (right && !o.help && o.ranks) return weft_run(o.ranks, train, &o);
    WEFT_CHECK(weft_init(&argc, &argv));
    code = right && !o.help ? train(&o) : explain(&o, right, argc, argv);
    ended = weft_finalize();
    return code ? code : ended;
}
