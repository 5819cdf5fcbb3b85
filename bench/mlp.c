/*
 * mlp.c: step time of an MLP 1024-4096-1024 on 2 ranks, against the same step written by hand.
 *
 *     mlp                              both, at 16, 128 and 512 tokens
 *     mpiexec -n 2 mlp TOKENS STEPS    the library's step alone
 *
 * Forward, backward (also to the input) and AdamW; weights and data as in hand/mlp.c.
 */
#include <stdio.h>
#include <stdlib.h>

#include "support/bench.h"

enum { IN = 1024, HIDDEN = 4096, RANKS = 2, ROUNDS = 3 };

struct training {
    weft_module *mlp;
    weft_optim *adam;
    weft_tensor *x, *target;
    weft_compiled *compiled;
    double loss;
};

static weft_status train_on(weft_tensor *const *in, int n, weft_tensor **out, int n_out,
                            void *state)
{
    struct training *t = state;

    (void)n, (void)n_out;
    out[0] = weft_mse(weft_call(t->mlp, t->x), in[0]); /* x has a gradient too: it is no input */
    if (!out[0] || weft_backward(out[0]) != WEFT_OK) return weft_error_status();
    return weft_step(t->adam);
}

static void step(void *payload)
{
    struct training *t = payload;
    weft_scope *scope = weft_scope_open();
    weft_tensor *loss = bench_call(t->compiled, train_on, &t->target, 1, t);

    weft_zero_grad(t->x);
    t->loss = weft_item(loss);
    weft_scope_close(scope);
}

static void build(struct training *t, weft_mesh *mesh, int64_t tokens)
{
    weft_plan plan[] = {{"up", weft_colwise_parallel()}, {"down", weft_rowwise_parallel()}, {0}};
    int64_t shape[] = {tokens, IN};

    t->mlp = bench_need(
        weft_mlp((weft_mlp_config){.in = IN, .hidden = HIDDEN, .out = IN, .act = WEFT_GELU_TANH}));
    bench_fill(weft_module_parameter(t->mlp, "up.weight"), 1, 0, 1.0f / 32, 0);
    bench_fill(weft_module_parameter(t->mlp, "up.bias"), 2, 0, 1.0f / 32, 0);
    bench_fill(weft_module_parameter(t->mlp, "down.weight"), 3, 0, 1.0f / 64, 0);
    bench_fill(weft_module_parameter(t->mlp, "down.bias"), 4, 0, 1.0f / 64, 0);
    WEFT_CHECK(weft_parallelize_module(t->mlp, mesh, plan));
    t->adam = bench_need(weft_adamw(t->mlp, (weft_adamw_config){.lr = 3e-4, .weight_decay = 0.01}));
    t->x = bench_need(weft_empty(WEFT_F32, shape, 2));
    t->target = bench_need(weft_empty(WEFT_F32, shape, 2));
    bench_fill(t->x, 5, 0, 1.7f, 0);
    bench_fill(t->target, 6, 0, 1, 0);
    bench_need(weft_set_requires_grad(t->x, true));
}

static int train(int *argc, char ***argv)
{
    struct training t;
    weft_scope *scope;
    weft_mesh *mesh;
    int64_t tokens = atoll((*argv)[1]);
    int steps = atoi((*argv)[2]);

    WEFT_CHECK(weft_init(argc, argv));
    mesh = bench_need(weft_mesh_new(WEFT_CPU, "tp=%d", weft_world_size()));
    scope = weft_scope_open();
    build(&t, mesh, tokens);
    t.compiled = bench_compile(train_on, &t);
    for (int i = 0; i < 5; i++) {
        step(&t);
        if (weft_world_rank() == 0) printf("loss %d %.9f\n", i, t.loss);
    }
    if (steps > 0) bench_report(bench_steps(mesh, steps, step, &t));
    weft_compiled_release(t.compiled);
    weft_optim_release(t.adam);
    weft_module_release(t.mlp);
    weft_scope_close(scope);
    weft_mesh_release(mesh);
    return weft_finalize();
}

int main(int argc, char **argv)
{
    static const struct {
        int tokens, steps;
    } runs[] = {{16, 200}, {128, 60}, {512, 20}};

    if (argc == 3) return train(&argc, &argv);
    for (int i = 0; i < 3; i++) {
        char arguments[32];
        struct bench_run our, their;

        snprintf(arguments, sizeof arguments, "%d %d", runs[i].tokens, runs[i].steps);
        bench_pair(RANKS, ROUNDS, "mlp", "hand_mlp", arguments, &our, &their);
        bench_line(our.step_ms, "ms", "mlp.step_ms.%d", runs[i].tokens);
        bench_line(their.step_ms, "ms", "mlp.hand_ms.%d", runs[i].tokens);
        bench_line(our.step_ms / their.step_ms, "ratio", "mlp.vs_hand.%d", runs[i].tokens);
    }
    return EXIT_SUCCESS;
}
