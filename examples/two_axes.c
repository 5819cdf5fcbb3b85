/*
 * two_axes.c: a GPT trained by replicas along one mesh axis, each split over another.
 *
 *     two_axes                                        one process
 *     mpiexec -n 4 two_axes --mesh dp=2,tp=2          four: the same losses
 *     two_axes --mesh dp=3,tp=2 --ranks 6 --shard     six threads of one process
 *
 * Every rank makes the same documents and takes those of its replica. They differ in length, so
 * that replicas have different numbers of tokens; the loss is the mean over all of them.
 */
#include <stdio.h>
#include <stdlib.h>

#include <weft/weft.h>

#include "common/command_line.h"
#include "common/say.h"

enum { DOCUMENTS = 6, LENGTH = 24, VOCAB = 64, IGNORED = -100 };

struct options {
    const char *mesh;
    int ranks; /* threads of this process; 0: the processes that mpiexec started */
    int steps;
    int accumulate; /* batches per step */
    bool shard;     /* parameters cut over the replicas too */
    bool sequence;  /* sequence parallelism inside a replica */
};

struct trainer {
    const struct options *o;
    weft_mesh *mesh, *dp, *tp;
    int replica, replicas;
    weft_module *gpt;
    weft_optim *optim;
};

/* ---- data ---- */

struct batch {
    int64_t rows, tokens; /* of this replica; tokens are targets that count */
    int32_t in[DOCUMENTS * LENGTH], target[DOCUMENTS * LENGTH];
};

/* Document `number` of the endless series: it counts up by a step of its own, and then ends. */
static int64_t read_document(int number, int32_t *in, int32_t *target)
{
    int length = 4 + number * 7 % (LENGTH - 4);

    for (int i = 0; i < LENGTH; i++) {
        in[i] = i < length ? (number + i * (1 + number % 3)) % VOCAB : 0;
        target[i] = i < length ? (in[i] + 1 + number % 3) % VOCAB : IGNORED;
    }
    return length;
}

/* This replica's documents of a batch: every replicas-th. There may be none. */
static void read_batch(struct batch *b, const struct trainer *t, int number)
{
    b->rows = b->tokens = 0;
    for (int d = t->replica; d < DOCUMENTS; d += t->replicas, b->rows++)
        b->tokens += read_document(number * DOCUMENTS + d, b->in + b->rows * LENGTH,
                                   b->target + b->rows * LENGTH);
}

/* ---- training ---- */

static weft_status backward(struct trainer *t, int number)
{
    weft_scope *scope = weft_scope_open();
    struct batch b;
    weft_status status;

    read_batch(&b, t, number);
    status = weft_data_parallel_backward(
        t->gpt,
        weft_gpt_loss(t->gpt, weft_from_data(WEFT_I32, (int64_t[]){b.rows, LENGTH}, 2, b.in),
                      weft_from_data(WEFT_I32, (int64_t[]){b.rows, LENGTH}, 2, b.target)),
        b.tokens);
    weft_scope_close(scope);
    return status;
}

static weft_status train(struct trainer *t)
{
    for (int step = 0; step < t->o->steps; step++) {
        weft_status status = WEFT_OK;
        double norm = 0, loss = 0;
        int64_t tokens;

        for (int i = 0; i < t->o->accumulate && status == WEFT_OK; i++)
            status = backward(t, step * t->o->accumulate + i);
        if (status == WEFT_OK) status = weft_clip_grad_norm(t->gpt, 1, &norm);
        if (status == WEFT_OK) status = weft_step(t->optim);
        if (status == WEFT_OK) status = weft_data_parallel_loss(t->gpt, &loss, &tokens);
        if (status != WEFT_OK) return status;
        if (weft_world_rank() == 0)
            printf("step %2d  loss %.6f  norm %.5f  tokens %lld\n", step, loss, norm,
                   (long long)tokens);
    }
    return WEFT_OK;
}

static weft_status build(struct trainer *t)
{
    const struct options *o = t->o;
    weft_data_parallel_config config = {.backwards = o->accumulate, .shard = o->shard};
    weft_status status;

    if (o->mesh)
        t->mesh = weft_mesh_new(WEFT_CPU, "%s", o->mesh);
    else
        t->mesh = weft_mesh_new(WEFT_CPU, "dp=1,tp=%d", weft_world_size());
    t->dp = t->mesh ? weft_mesh_sub(t->mesh, "dp") : NULL;
    t->tp = t->mesh ? weft_mesh_sub(t->mesh, "tp") : NULL;
    if (!t->dp || !t->tp) return weft_error_status();
    t->replica = weft_mesh_coordinate(t->dp, 0);
    t->replicas = weft_mesh_size(t->dp);
    t->gpt = weft_gpt(
        (weft_gpt_config){.vocab = VOCAB, .context = LENGTH, .width = 48, .heads = 4, .layers = 2});
    status = weft_parallelize_module(t->gpt, t->tp,
                                     o->sequence ? weft_gpt_plan_sequence() : weft_gpt_plan());
    if (status == WEFT_OK) status = weft_data_parallel(t->gpt, t->dp, config);
    if (status != WEFT_OK) return status;
    t->optim = weft_adamw(t->gpt, (weft_adamw_config){.lr = 3e-3});
    return t->optim ? WEFT_OK : weft_error_status();
}

/* What every rank does. */
static int run(void *payload)
{
    struct trainer t = {.o = payload};
    weft_status status;

    weft_manual_seed(1);
    status = build(&t);
    if (status == WEFT_OK && weft_mesh_is_member(t.mesh)) status = train(&t);
    if (status != WEFT_OK) complain("%s", weft_error_message());
    weft_optim_release(t.optim);
    weft_module_release(t.gpt);
    weft_mesh_release(t.dp);
    weft_mesh_release(t.tp);
    weft_mesh_release(t.mesh);
    return status == WEFT_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    static const struct option_row rows[] = {
#include "two_axes/options.def"
    };
    static const struct command_line line = {
        .doc = "Train a small GPT by replicas along dp, each split over tp; their batches differ.",
        .options = rows,
        .count = sizeof rows / sizeof *rows,
        .ranks = offsetof(struct options, ranks)};
    struct options o = {.steps = 20, .accumulate = 2};

    return command_line_run(&line, &o, argc, argv, run);
}
