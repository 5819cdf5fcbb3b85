/*
 * hsdp.c: hybrid sharding: a GPT whose parameters, gradients and optimizer states are cut inside
 * groups of ranks and copied from group to group, and what that sends.
 *
 *     hsdp                                       one process
 *     mpiexec -n 4 hsdp --mesh dp=2,fsdp=2       two groups of two: the same losses
 *     hsdp --mesh dp=2,fsdp=3 --ranks 6          six threads of one process
 *
 * Every rank is a replica with documents of its own. Groups lie along fsdp: usually the ranks of a
 * machine, between which gathering parameters is cheap. At the end the program compares the
 * collectives of a step with what they should be, and fails when they are others.
 */
#include <stdio.h>
#include <stdlib.h>

#include <weft/weft.h>

#include "common/command_line.h"
#include "common/say.h"

enum { DOCUMENTS = 8, LENGTH = 16, VOCAB = 32 };

struct options {
    const char *mesh;
    int ranks; /* threads of this process; 0: the processes that mpiexec started */
    int steps;
    int accumulate; /* batches per step */
};

struct trainer {
    const struct options *o;
    weft_mesh *mesh;
    weft_module *gpt;
    weft_optim *adam;
};

/* ---- data ---- */

/* This replica's documents of a batch: every replicas-th, each counting up by a step of its own.
 * There may be none. */
static int64_t read_batch(const weft_mesh *mesh, int number, int32_t *in, int32_t *target)
{
    int replicas = weft_mesh_size(mesh), fsdp = weft_mesh_axis_size(mesh, 1);
    int me = weft_mesh_coordinate(mesh, 0) * fsdp + weft_mesh_coordinate(mesh, 1);
    int64_t rows = 0;

    for (int d = me; d < DOCUMENTS; d += replicas, rows++)
        for (int i = 0; i < LENGTH; i++) {
            in[rows * LENGTH + i] = (number + d + i * (1 + d % 3)) % VOCAB;
            target[rows * LENGTH + i] = (in[rows * LENGTH + i] + 1 + d % 3) % VOCAB;
        }
    return rows;
}

/* ---- training ---- */

static weft_status backward(struct trainer *t, int number)
{
    int32_t in[DOCUMENTS * LENGTH], target[DOCUMENTS * LENGTH];
    int64_t rows = read_batch(t->mesh, number, in, target), shape[] = {rows, LENGTH};
    weft_scope *scope = weft_scope_open();
    weft_tensor *x = weft_from_data(WEFT_I32, shape, 2, in);
    weft_tensor *y = weft_from_data(WEFT_I32, shape, 2, target);
    weft_tensor *loss = weft_gpt_loss(t->gpt, x, y);
    weft_status status = weft_data_parallel_backward(t->gpt, loss, rows * LENGTH);

    weft_scope_close(scope);
    return status;
}

static weft_status step(struct trainer *t, int number)
{
    weft_status status = WEFT_OK;
    double loss;

    for (int i = 0; i < t->o->accumulate && status == WEFT_OK; i++)
        status = backward(t, number * t->o->accumulate + i);
    if (status == WEFT_OK) status = weft_step(t->adam);
    if (status == WEFT_OK) status = weft_data_parallel_loss(t->gpt, &loss, NULL);
    if (status == WEFT_OK && weft_world_rank() == 0) printf("step %2d  loss %.6f\n", number, loss);
    return status;
}

static weft_status build(struct trainer *t)
{
    t->mesh = t->o->mesh ? weft_mesh_new(WEFT_CPU, "%s", t->o->mesh)
                         : weft_mesh_new(WEFT_CPU, "dp=1,fsdp=%d", weft_world_size());
    if (!t->mesh) return weft_error_status();
    if (weft_mesh_ndim(t->mesh) != 2 || weft_mesh_axis(t->mesh, "fsdp") != 1) {
        complain("a mesh has the axes dp and fsdp here: dp=2,fsdp=2");
        return WEFT_ERR_ARG;
    }
    t->gpt = weft_gpt(
        (weft_gpt_config){.vocab = VOCAB, .context = LENGTH, .width = 48, .heads = 4, .layers = 2});
    if (weft_data_parallel(t->gpt, t->mesh, (weft_data_parallel_config){.shard_axes = "fsdp"}))
        return weft_error_status();
    t->adam = weft_adamw(t->gpt, (weft_adamw_config){.lr = 3e-3});
    return t->adam ? WEFT_OK : weft_error_status();
}

/* ---- what a step sends ---- */

/* Parameters, and bytes of them: of all, and of what this rank keeps. */
struct figures {
    int64_t count, whole, kept;
};

static weft_status add_up(weft_module *m, const char *name, weft_tensor *parameter, void *payload)
{
    struct figures *f = payload;

    (void)m, (void)name;
    f->count++;
    f->whole += weft_numel(parameter) * (int64_t)sizeof(float);
    f->kept += weft_local_numel(parameter) * (int64_t)sizeof(float);
    return WEFT_OK;
}

static bool compare(const weft_ledger *ledger, weft_coll kind, const char *what, int64_t count,
                    int64_t bytes)
{
    weft_ledger_sum sum = weft_ledger_total(ledger, kind, WEFT_DIRECTION_ANY, NULL);

    if (weft_world_rank() == 0)
        printf("%-15s %4lld of %9lld bytes, should be %4lld of %9lld\n", what, (long long)sum.count,
               (long long)sum.bytes, (long long)count, (long long)bytes);
    return sum.count == count && sum.bytes == bytes;
}

/*
 * Inside a group every parameter is gathered for the forward of every batch, and its gradient
 * reduced and cut in the backward. Across groups what each rank keeps travels once, in one bucket;
 * and all replicas tell each other 16 bytes, and 16 per parameter.
 */
static bool compare_all(const struct trainer *t, const weft_ledger *ledger)
{
    struct figures f = {0};
    int64_t across = weft_mesh_axis_size(t->mesh, 0) > 1,
            inside = weft_mesh_axis_size(t->mesh, 1) > 1;
    int64_t batches = inside * t->o->accumulate, told = across || inside;
    bool right = weft_module_each_parameter(t->gpt, add_up, &f) == WEFT_OK;

    if (weft_world_rank() == 0) printf("the last step, on one rank:\n");
    right &=
        compare(ledger, WEFT_COLL_ALL_GATHER, "all-gathers", batches * f.count, batches * f.whole);
    right &= compare(ledger, WEFT_COLL_REDUCE_SCATTER, "reduce-scatters", batches * f.count,
                     batches * f.whole);
    right &= compare(ledger, WEFT_COLL_ALL_REDUCE, "all-reduces", across + told,
                     across * f.kept + told * 16 * (1 + f.count));
    return right;
}

/* What every rank does. */
static int run(void *payload)
{
    struct trainer t = {.o = payload};
    weft_ledger *ledger = weft_ledger_open();
    weft_status status;
    bool right = true;

    weft_manual_seed(1);
    status = build(&t);
    if (status == WEFT_OK && weft_mesh_is_member(t.mesh)) {
        for (int i = 0; i < t.o->steps && status == WEFT_OK; i++) {
            weft_ledger_reset(ledger);
            status = step(&t, i);
        }
        if (status == WEFT_OK) right = compare_all(&t, ledger);
    }
    if (weft_error_status() != WEFT_OK) complain("%s", weft_error_message());
    weft_ledger_close(ledger);
    weft_optim_release(t.adam);
    weft_module_release(t.gpt);
    weft_mesh_release(t.mesh);
    return status == WEFT_OK && right ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    static const struct option_row rows[] = {
#include "hsdp/options.def"
    };
    static const struct command_line line = {
        .doc = "Train a small GPT, cut inside groups and copied across; count what a step sends.",
        .options = rows,
        .count = sizeof rows / sizeof *rows,
        .ranks = offsetof(struct options, ranks)};
    struct options o = {.steps = 5, .accumulate = 2};

    return command_line_run(&line, &o, argc, argv, run);
}
