/*
 * train_gpt.c: train a GPT-2 or Llama model on a file, tensor- and data-parallel over all ranks.
 *
 *     train_gpt --data FILE                                  one process
 *     mpiexec -n 2 train_gpt --data FILE                     two: the same losses
 *     train_gpt --data FILE --ranks 4 --mesh dp=2,tp=2       four threads of one process
 *
 * Here is the loop; in train_gpt/ are options (options.def lists them), mesh, plan and model
 * (setup.c), batches (text.c), checkpoints (resume.c), reports and sampling.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <weft/weft.h>

#include "common/say.h"
#include "common/text.h"
#include "train_gpt/options.h"
#include "train_gpt/report.h"
#include "train_gpt/resume.h"
#include "train_gpt/sample.h"
#include "train_gpt/setup.h"

enum { VALIDATION_BATCHES = 4 };

struct trainer {
    const struct options *o;
    struct setup s;
    struct text text;
    struct report report;
    struct progress progress;
    weft_ledger *comm;         /* the whole run, for the share of time */
    int first_row, rows;       /* this replica's, of the --batch rows of every batch */
    int32_t *tokens, *targets; /* them */
};

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- one batch ---- */

/* The mean loss over this replica's rows of one batch. */
static weft_tensor *loss_of(struct trainer *t, enum part part, int64_t step, int batch)
{
    struct piece piece = {.part = part,
                          .seed = (uint64_t)t->progress.seed,
                          .step = step,
                          .first_row = batch * t->o->batch + t->first_row,
                          .rows = t->rows,
                          .context = t->o->context};
    int64_t shape[] = {t->rows, t->o->context};

    text_batch(&t->text, piece, t->tokens, t->targets);
    return weft_gpt_loss(t->s.model, weft_from_data(WEFT_I32, shape, 2, t->tokens),
                         weft_from_data(WEFT_I32, shape, 2, t->targets));
}

static double learning_rate(const struct options *o, int64_t step)
{
    weft_schedule schedule = {.kind = (weft_schedule_kind)o->schedule,
                              .lr = o->lr,
                              .min_lr = o->min_lr,
                              .warmup = o->warmup,
                              .total = o->steps,
                              .gamma = o->gamma,
                              .period = o->period};

    return weft_schedule_lr(&schedule, step);
}

/* What dropout draws depends on step, batch and replica alone, so that a resumed run repeats it. */
static void seed_dropout(const struct trainer *t, int64_t step, int batch)
{
    uint64_t seed = (uint64_t)t->progress.seed;
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)}, word[4];
    uint32_t counter[4] = {(uint32_t)step, (uint32_t)batch, (uint32_t)setup_replica(&t->s),
                           UINT32_MAX - 1};

    weft_philox(word, counter, key);
    weft_manual_seed((uint64_t)word[1] << 32 | word[0]);
}

/* Forward and backward of one batch out of o->accumulate; adds to the loss. */
static weft_status run_batch(struct trainer *t, int64_t step, int batch, double *sum)
{
    weft_scope *scope = weft_scope_open();
    weft_tensor *loss;
    weft_status status;

    seed_dropout(t, step, batch);
    loss = loss_of(t, TRAIN, step, batch);
    if (t->s.dp)
        status = weft_data_parallel_backward(t->s.model, loss, (int64_t)t->rows * t->o->context);
    else
        status = weft_backward(weft_mul_scalar(loss, 1.0 / t->o->accumulate));
    if (status == WEFT_OK) *sum += weft_item(loss) / t->o->accumulate;
    weft_scope_close(scope);
    return status;
}

static weft_status train_step(struct trainer *t, int64_t step, struct step_result *r)
{
    weft_status status = WEFT_OK;

    for (int batch = 0; batch < t->o->accumulate && status == WEFT_OK; batch++)
        status = run_batch(t, step, batch, &r->loss);
    if (status == WEFT_OK) status = weft_clip_grad_norm(t->s.model, t->o->clip, &r->norm);
    if (status == WEFT_OK && t->s.dp)
        status = weft_data_parallel_loss(t->s.model, &r->loss, NULL); /* of all replicas */
    weft_optim_set_lr(t->s.optim, r->lr);
    return status == WEFT_OK ? weft_step(t->s.optim) : status;
}

static weft_status validate(struct trainer *t, double *mean)
{
    weft_status status = WEFT_OK;
    double sum = 0;

    *mean = NAN;
    if (!t->text.validation) return WEFT_OK;
    weft_module_train(t->s.model, false);
    weft_no_grad_open();
    for (int i = 0; i < VALIDATION_BATCHES && status == WEFT_OK; i++) {
        weft_scope *scope = weft_scope_open();
        weft_tensor *loss = loss_of(t, VALIDATION, i, 0);

        status = loss ? WEFT_OK : weft_error_status();
        if (loss) sum += weft_item(loss);
        weft_scope_close(scope);
    }
    weft_no_grad_close();
    weft_module_train(t->s.model, true);
    *mean = sum / (double)VALIDATION_BATCHES;
    if (status == WEFT_OK && t->s.dp)
        status = weft_data_parallel_mean(t->s.model, *mean, t->rows, mean);
    return status;
}

/* ---- the run ---- */

static weft_status save(struct trainer *t)
{
    return progress_save(t->o->checkpoint, t->s.model, t->s.optim, &t->progress);
}

static weft_status run_step(struct trainer *t, weft_ledger **last, bool is_last)
{
    struct step_result r = {.step = (int)t->progress.step,
                            .lr = learning_rate(t->o, t->progress.step),
                            .tokens = (double)t->o->batch * t->o->context * t->o->accumulate};
    double start = now(), comm = weft_ledger_seconds(t->comm);
    weft_status status;

    if (is_last) *last = weft_ledger_open();
    status = train_step(t, t->progress.step, &r);
    if (status != WEFT_OK) return status;
    r.seconds = now() - start;
    r.comm = weft_ledger_seconds(t->comm) - comm;
    report_step(&t->report, &r);
    t->progress.step++;
    return !is_last && t->o->every && t->progress.step % t->o->every == 0 ? save(t) : WEFT_OK;
}

static weft_status run(struct trainer *t)
{
    const struct options *o = t->o;
    int64_t end = o->until && o->until < o->steps ? o->until : o->steps;
    struct sampling sampling = {.vocab = t->s.vocab,
                                .first = text_token(&t->text, 0),
                                .count = o->sample,
                                .context = o->context,
                                .seed = o->seed,
                                .bytes = o->token_bytes == 1};
    weft_ledger *last = NULL;
    double validation = NAN;
    weft_status status = WEFT_OK;

    while (status == WEFT_OK && t->progress.step < end)
        status = run_step(t, &last, t->progress.step == end - 1);
    if (status == WEFT_OK && last) report_costs(&t->report, last);
    weft_ledger_close(last);
    if (status == WEFT_OK && o->checkpoint) status = save(t);
    if (status == WEFT_OK) status = validate(t, &validation);
    if (status == WEFT_OK) report_validation(&t->report, validation);
    return status == WEFT_OK && o->sample ? sample_text(t->s.model, &sampling) : status;
}

/* ---- setting up ---- */

/* True on every rank when it is true on every rank: one rank's file may be missing. */
static bool all_ranks(bool mine)
{
    weft_mesh *world = weft_mesh_new(WEFT_CPU, "all=%d", weft_world_size());
    weft_scope *scope = weft_scope_open();
    weft_tensor *flag = weft_full(WEFT_F64, NULL, 0, mine);
    bool all;

    flag = weft_mesh_all_reduce(flag, WEFT_MIN, world, 0);
    all = flag && weft_item(flag) == 1;
    weft_scope_close(scope);
    weft_mesh_release(world);
    return all;
}

static weft_status open_files(struct trainer *t)
{
    const struct options *o = t->o;
    char problem[512] = "another rank cannot read its file";
    bool mine = text_load(&t->text, o->data, o->token_bytes, t->s.vocab, o->context, problem,
                          sizeof problem) &&
                report_open(&t->report, o, problem, sizeof problem) &&
                progress_folder(o, problem, sizeof problem);

    if (all_ranks(mine)) return WEFT_OK;
    complain("%s", problem);
    return WEFT_ERR_IO;
}

/* Rows of every batch go to replicas as evenly as they can. */
static weft_status share_rows(struct trainer *t)
{
    int n = setup_replicas(&t->s), i = setup_replica(&t->s), batch = t->o->batch;
    size_t count;

    if (batch < n) {
        complain("--batch %d has no row for each of %d replicas", batch, n);
        return WEFT_ERR_ARG;
    }
    t->first_row = (int)((int64_t)batch * i / n);
    t->rows = (int)((int64_t)batch * (i + 1) / n) - t->first_row;
    count = (size_t)t->rows * (size_t)t->o->context;
    t->tokens = room_for(count, sizeof *t->tokens);
    t->targets = room_for(count, sizeof *t->targets);
    return WEFT_OK;
}

static weft_status prepare(struct trainer *t)
{
    weft_status status = setup_make(&t->s, t->o, false);

    if (status == WEFT_OK) status = open_files(t);
    if (status == WEFT_OK) status = share_rows(t);
    if (status != WEFT_OK) return status;
    t->progress = (struct progress){.seed = (int64_t)t->o->seed,
                                    .tokens = t->text.train + t->text.validation};
    if (t->o->resume)
        status = progress_load(t->o->checkpoint, t->s.model, t->s.optim, &t->progress);
    t->comm = weft_ledger_open();
    if (status == WEFT_OK) report_model(t->s.model, t->s.mesh, t->progress.step);
    return status;
}

static void take_down(struct trainer *t)
{
    weft_ledger_close(t->comm);
    setup_free(&t->s);
    report_close(&t->report);
    text_free(&t->text);
    free(t->tokens);
    free(t->targets);
}

static weft_status forecast(struct trainer *t)
{
    weft_status status = setup_make(&t->s, t->o, true);

    return status == WEFT_OK ? setup_forecast(&t->s) : status;
}

/* What every rank does. */
static int train(void *payload)
{
    struct trainer t = {.o = payload};
    weft_status status = t.o->dry_run ? forecast(&t) : prepare(&t);

    if (status == WEFT_OK && !t.o->dry_run) status = run(&t);
    if (weft_error_status() != WEFT_OK) complain("%s", weft_error_message());
    take_down(&t);
    return status == WEFT_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv) { return options_run(argc, argv, train); }
