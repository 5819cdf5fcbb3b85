/*
 * exposed.c: how much of its communication a training step waits for, between two hosts whose link
 * needs as long for the gradients as a host for its share of the step.
 *
 * run: tests/support/hosts.sh run 2 2 build/bench/exposed
 *
 * A GPT 6x384 (context 256, batch 4 on each host, vocabulary 256), every parameter on both hosts,
 * whose gradients are summed. The exposed part is the time of a step, less that of the same work
 * without a peer, over the time of one all-reduce of all gradients. Each host limits what it sends
 * (tc, token bucket); steps as they are, compiled and alone take turns.
 */
#include <stdio.h>
#include <stdlib.h>

#include "support/bench.h"
#include "support/training.h"

enum { BATCH = 4, CONTEXT = 256, ROUNDS = 9 };

/* This host's tokens; on a mesh those of all hosts, cut along the batch. */
static weft_tensor *tokens(weft_mesh *mesh, int64_t first)
{
    int64_t shape[] = {BATCH, CONTEXT};
    weft_tensor *t = bench_need(weft_empty(WEFT_I64, shape, 2));
    int64_t *data = weft_data(t);

    for (int64_t i = 0; i < weft_numel(t); i++) data[i] = (first + i) * i % 251;
    return mesh ? bench_need(weft_from_local(t, mesh, weft_placements(mesh, "S(0)"), NULL)) : t;
}

static struct bench_training open_training(weft_mesh *mesh)
{
    struct bench_training t = {.function = bench_train_gpt};

    weft_manual_seed(1);
    t.model = bench_need(weft_gpt((weft_gpt_config){.vocab = 256,
                                                    .context = CONTEXT,
                                                    .width = 384,
                                                    .heads = 6,
                                                    .layers = 6,
                                                    .act = WEFT_GELU_TANH}));
    if (mesh) WEFT_CHECK(weft_distribute_module(t.model, mesh, NULL, NULL, NULL, NULL));
    t.adam = bench_need(weft_adamw(t.model, (weft_adamw_config){.lr = 3e-4}));
    t.in[0] = tokens(mesh, 1);
    t.in[1] = tokens(mesh, 2);
    return t;
}

static void compile(struct bench_training *t)
{
    t->compiled = bench_need(
        weft_compile(bench_train_gpt, t, (weft_compile_config){.name = "step", .fullgraph = true}));
}

/* ---- the link ---- */

static void limit_link(double bytes_per_second)
{
    char command[200];

    snprintf(command, sizeof command,
             "tc qdisc replace dev eth0 root tbf rate %.0fbit burst 128kb latency 200ms",
             8 * bytes_per_second);
    if (system(command) != 0) {
        fprintf(stderr, "exposed: tc cannot limit eth0: run it by hosts.sh, as root\n");
        exit(77);
    }
}

struct all_reduce {
    weft_tensor *gradients; /* of one dim, partial */
};

static void reduce(void *payload)
{
    struct all_reduce *a = payload;
    weft_scope *scope = weft_scope_open();

    (void)bench_need(weft_redistribute(a->gradients, NULL));
    weft_scope_close(scope);
}

static double median_of(weft_mesh *mesh, void (*run)(void *), void *payload)
{
    return bench_steps(mesh, ROUNDS, run, payload).median;
}

static void measure(weft_mesh *mesh)
{
    struct bench_training alone = open_training(NULL), plain = open_training(mesh),
                          t = open_training(mesh);
    int64_t n = weft_module_numel(alone.model);
    struct all_reduce a = {bench_need(weft_from_local(bench_need(weft_full(WEFT_F32, &n, 1, 1)),
                                                      mesh, weft_placements(mesh, "P"), NULL))};
    double computing, times[3][ROUNDS], link;

    compile(&t);
    for (int i = 0; i < 3; i++)
        bench_take_step(&alone), bench_take_step(&plain), bench_take_step(&t);
    computing = median_of(mesh, bench_take_step, &alone);
    limit_link(4 * (double)n / computing);
    link = median_of(mesh, reduce, &a);
    for (int i = 0; i < ROUNDS; i++) {
        times[0][i] = bench_steps(mesh, 1, bench_take_step, &alone).min;
        times[1][i] = bench_steps(mesh, 1, bench_take_step, &plain).min;
        times[2][i] = bench_steps(mesh, 1, bench_take_step, &t).min;
    }
    computing = bench_median(times[0], ROUNDS);
    if (weft_world_rank() == 0) {
        bench_line(1e3 * computing, "ms", "exposed.computing");
        bench_line(1e3 * link, "ms", "exposed.communication");
        bench_line((bench_median(times[1], ROUNDS) - computing) / link, "of it", "exposed.eager");
        bench_line((bench_median(times[2], ROUNDS) - computing) / link, "of it",
                   "exposed.compiled");
    }
    bench_training_release(&t);
    bench_training_release(&plain);
    bench_training_release(&alone);
}

int main(int argc, char **argv)
{
    weft_scope *scope;
    weft_mesh *mesh;

    WEFT_CHECK(weft_init(&argc, &argv));
    scope = weft_scope_open();
    mesh = bench_need(weft_mesh_new(WEFT_CPU, "dp=%d", weft_world_size()));
    measure(mesh);
    if (weft_world_rank() == 0) printf("verdict: pass\n"); /* hosts.sh */
    fflush(stdout);
    weft_scope_close(scope);
    weft_mesh_release(mesh);
    weft_finalize();
    return 0;
}
