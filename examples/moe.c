/*
 * moe.c: a mixture of experts, trained with its experts spread over all ranks.
 *
 *     moe                                  one process
 *     mpiexec -n 4 moe                     the same losses on four
 *     moe --ranks 3 --capacity 1.25        three threads; experts that are asked too often say no
 *
 * Tokens are drawn around a few centres, each of which is turned in its own way: what one expert
 * can learn and a single layer cannot. Tokens are spread by rows over the ranks that have the
 * experts, go to those by an all-to-all, and come back by another (moe/layer.c).
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <weft/weft.h>

#include "common/command_line.h"
#include "common/say.h"
#include "moe/layer.h"

enum { TOKENS = 50, WIDTH = 12, HIDDEN = 24, CENTRES = 5 };

/* Of the loss that keeps experts in use (Fedus et al. 2022). */
static const double BALANCE = 0.01;

struct options {
    int ranks; /* threads of this process; 0: the processes that mpiexec started */
    int steps, experts, chosen;
    double capacity;
    bool ledger;
};

struct trainer {
    const struct options *o;
    weft_mesh *mesh;
    weft_module *moe;
    weft_optim *optim;
};

/* Token i of batch `number`, and what it should become; the same on every rank. */
static void make_token(int number, int i, float *x, float *y)
{
    int centre = (number + i * i) % CENTRES;

    for (int d = 0; d < WIDTH; d++) {
        double noise = sin(number * 7.0 + i * 3.0 + d * 5.0);

        x[d] = (float)(cos(centre * 2.0 + d) + 0.2 * noise);
    }
    for (int d = 0; d < WIDTH; d++) y[d] = x[(d + centre) % WIDTH];
}

static weft_tensor *spread(const struct trainer *t, const float *data)
{
    const weft_placement rows = weft_shard(0);
    weft_tensor *whole = weft_from_data(WEFT_F32, (int64_t[]){TOKENS, WIDTH}, 2, data);

    return weft_distribute_tensor(whole, t->mesh, &rows,
                                  -1); /* every rank has it: nothing is sent */
}

/* gives: the error that remains, without what balances */
static weft_status step(struct trainer *t, int number, double *error, struct moe_report *report)
{
    float x[TOKENS * WIDTH], y[TOKENS * WIDTH];
    weft_tensor *result, *loss;
    weft_status status;

    for (int i = 0; i < TOKENS; i++) make_token(number, i, x + i * WIDTH, y + i * WIDTH);
    result = moe_forward(t->moe, spread(t, x), report);
    loss = weft_mse(result, spread(t, y));
    if (!loss) return weft_error_status();
    *error = weft_item(weft_full_tensor(weft_detach(loss)));
    status = weft_backward(weft_add(loss, weft_mul_scalar(report->balance, BALANCE)));
    return status == WEFT_OK ? weft_step(t->optim) : status;
}

static weft_status train(struct trainer *t)
{
    for (int number = 0; number < t->o->steps; number++) {
        bool listen = t->o->ledger && number == t->o->steps - 1;
        weft_scope *scope = weft_scope_open();
        weft_ledger *ledger = listen ? weft_ledger_open() : NULL;
        struct moe_report report;
        double error = 0;
        weft_status status = step(t, number, &error, &report);
        double balance =
            status == WEFT_OK ? weft_item(weft_full_tensor(weft_detach(report.balance))) : 0;

        if (status == WEFT_OK && weft_world_rank() == 0) {
            printf("step %2d  error %.6f  balance %.5f  dropped %lld\n", number, error, balance,
                   (long long)report.dropped);
            if (ledger) weft_ledger_print(ledger, stdout);
        }
        weft_ledger_close(ledger);
        weft_scope_close(scope);
        if (status != WEFT_OK) return status;
    }
    return WEFT_OK;
}

static weft_status build(struct trainer *t)
{
    const struct options *o = t->o;
    weft_status status;

    t->mesh = weft_mesh_new(WEFT_CPU, "ep=%d", weft_world_size());
    if (!t->mesh) return weft_error_status();
    t->moe = moe_new((struct moe_config){.experts = o->experts,
                                         .chosen = o->chosen,
                                         .width = WIDTH,
                                         .hidden = HIDDEN,
                                         .capacity = o->capacity});
    status = t->moe ? moe_spread(t->moe, t->mesh) : weft_error_status();
    if (status != WEFT_OK) return status;
    t->optim = weft_adamw(t->moe, (weft_adamw_config){.lr = 1e-2});
    return t->optim ? WEFT_OK : weft_error_status();
}

/* What every rank does. */
static int run(void *payload)
{
    struct trainer t = {.o = payload};
    weft_status status;

    weft_manual_seed(1);
    status = build(&t);
    if (status == WEFT_OK) status = train(&t);
    if (status != WEFT_OK) complain("%s", weft_error_message());
    weft_optim_release(t.optim);
    weft_module_release(t.moe);
    weft_mesh_release(t.mesh);
    return status == WEFT_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}

static const char *problem(void *values)
{
    const struct options *o = values;

    if (o->chosen > o->experts) return "more experts are chosen than there are";
    return o->capacity < 0 ? "a capacity below 0" : NULL;
}

int main(int argc, char **argv)
{
    static const struct option_row rows[] = {
#include "moe/options.def"
    };
    static const struct command_line line = {
        .doc = "Train a mixture of experts, spread over all ranks, on tokens that are told apart.",
        .options = rows,
        .count = sizeof rows / sizeof *rows,
        .ranks = offsetof(struct options, ranks),
        .complete = problem};
    struct options o = {.steps = 20, .experts = 9, .chosen = 2};

    return command_line_run(&line, &o, argc, argv, run);
}
