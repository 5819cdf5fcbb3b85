/*
 * custom_style.c: a layer that the library does not know, and a style that splits it.
 *
 *     custom_style                 one process
 *     mpiexec -n 3 custom_style    the same losses on three
 *     custom_style --ranks 4       four threads of one process
 *
 * The layer is a frozen linear one with a low-rank adapter beside it, x -> x W' + bias + x A' B',
 * of which only A and B are trained (Hu et al. 2021). It is written for one device. The style is
 * three functions: what becomes of its parameters, of its input, of its output. The program trains
 * two such layers over all ranks and, for comparison, once more on a mesh of this rank alone.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <weft/weft.h>

#include "common/command_line.h"
#include "common/say.h"

enum { ROWS = 6, WIDTH = 20, HIDDEN = 50, LOW = 4, STEPS = 20 };

/* ---- the layer ---- */

static weft_tensor *adapted(weft_module *m, weft_tensor *const *inputs, int n)
{
    weft_tensor *weight = weft_module_parameter(m, "weight"),
                *bias = weft_module_parameter(m, "bias");
    weft_tensor *a = weft_module_parameter(m, "a"), *b = weft_module_parameter(m, "b");

    (void)n;
    return weft_add(weft_linear(inputs[0], weight, bias, 1),
                    weft_linear(weft_linear(inputs[0], a, NULL, 1), b, NULL, 1));
}

static const weft_module_class adapted_linear = {.type = "adapted linear", .forward = adapted};

/* A parameter, normal with this deviation; the module keeps it. */
static weft_tensor *parameter(weft_module *m, const char *name, int64_t out, int64_t in, double std)
{
    weft_tensor *t =
        weft_make_normal((weft_spec){.ndim = in ? 2 : 1, .shape = {out, in}}, 0, std, NULL);

    return weft_module_add_parameter(m, name, t) == WEFT_OK ? t : NULL;
}

static weft_module *adapted_linear_new(int64_t in, int64_t out)
{
    weft_module *m = weft_module_new(&adapted_linear, NULL);
    weft_scope *scope = weft_scope_open();

    weft_set_requires_grad(parameter(m, "weight", out, in, 1 / sqrt((double)in)), false);
    weft_set_requires_grad(parameter(m, "bias", out, 0, 0.1), false);
    parameter(m, "a", LOW, in, 1 / sqrt((double)in));
    parameter(m, "b", out, LOW, 0.01);
    weft_scope_close(scope);
    return m;
}

/* ---- the style ---- */

static weft_status split_rows(weft_module *m, const char *name, weft_mesh *mesh)
{
    weft_placement rows = weft_shard(0);
    weft_tensor *whole = weft_module_parameter(m, name);

    return weft_module_set_parameter(m, name, weft_distribute_tensor(whole, mesh, &rows, -1));
}

/* What makes an output feature goes to one rank. A, which is left plain, becomes replicated; its
 * gradient is a sum over ranks, which the optimizer's step asks for. */
static weft_status partition(weft_module *m, weft_mesh *mesh, void *payload)
{
    static const char *const split[] = {"weight", "bias", "b"};
    weft_status status = WEFT_OK;

    (void)payload;
    for (int i = 0; i < 3 && status == WEFT_OK; i++) status = split_rows(m, split[i], mesh);
    return status;
}

/* Every rank needs the whole input; a plain one is the same on all. */
static weft_status take(weft_module *m, weft_tensor **inputs, int n, weft_mesh *mesh, void *payload)
{
    weft_placement whole = weft_replicate();

    (void)m, (void)n, (void)payload;
    inputs[0] = weft_tensor_mesh(inputs[0]) ? weft_redistribute(inputs[0], &whole)
                                            : weft_from_local(inputs[0], mesh, &whole, NULL);
    return inputs[0] ? WEFT_OK : weft_error_status();
}

/* Without an output function the output is handed on as it is, distributed by features: what a
 * row-wise layer wants. */
static const weft_style_functions adapter_colwise = {
    .name = "adapter, column-wise", .partition = partition, .input = take};

/* ---- the program ---- */

static weft_module *model(weft_mesh *mesh)
{
    weft_plan plan[] = {
        {"up", weft_custom_style(&adapter_colwise, NULL)}, {"down", weft_rowwise_parallel()}, {0}};
    weft_module *m = weft_sequential_new();

    weft_manual_seed(3);
    weft_module_add_child(m, "up", adapted_linear_new(WIDTH, HIDDEN));
    weft_module_add_child(m, "act", weft_activation_new(WEFT_GELU));
    weft_module_add_child(m, "down",
                          weft_linear_new((weft_linear_config){.in = {HIDDEN}, .out = {WIDTH}}));
    if (weft_parallelize_module_strict(m, mesh, plan) == WEFT_OK) return m;
    weft_module_release(m);
    return NULL;
}

/* A step on the data of its number: learn to turn the features round. */
static weft_status step(weft_module *m, weft_optim *optim, int number, double *loss)
{
    float x[ROWS * WIDTH], y[ROWS * WIDTH];
    int64_t shape[] = {ROWS, WIDTH};
    weft_scope *scope = weft_scope_open();
    weft_tensor *out;
    weft_status status;

    for (int i = 0; i < ROWS * WIDTH; i++) {
        x[i] = sinf(0.7f * (float)i + (float)number);
        y[i / WIDTH * WIDTH + WIDTH - 1 - i % WIDTH] = x[i];
    }
    out = weft_mse(weft_call(m, weft_from_data(WEFT_F32, shape, 2, x)),
                   weft_from_data(WEFT_F32, shape, 2, y));
    status = weft_backward(out);
    *loss = out ? weft_item(out) : NAN;
    weft_scope_close(scope);
    return status == WEFT_OK ? weft_step(optim) : status;
}

static weft_status train(weft_mesh *mesh, double losses[STEPS])
{
    weft_module *m = model(mesh);
    weft_optim *adam = weft_adamw(m, (weft_adamw_config){.lr = 1e-2});
    weft_ledger *ledger = weft_ledger_open();
    weft_status status = adam ? WEFT_OK : weft_error_status();

    for (int i = 0; i < STEPS && status == WEFT_OK; i++) status = step(m, adam, i, &losses[i]);
    if (weft_world_rank() == 0 && status == WEFT_OK && weft_mesh_size(mesh) > 1)
        weft_ledger_print(ledger, stdout);
    weft_ledger_close(ledger);
    weft_optim_release(adam);
    weft_module_release(m);
    return status;
}

static int compare(void *payload)
{
    int self = weft_world_rank(), one = 1;
    weft_mesh *all = weft_mesh_new(WEFT_CPU, "tp=%d", weft_world_size());
    weft_mesh *alone = weft_mesh_from_ranks(WEFT_CPU, &one, 1, "tp", &self);
    double losses[STEPS], expected[STEPS], worst = 0;
    weft_status status = train(all, losses);

    (void)payload;
    if (status == WEFT_OK) status = train(alone, expected);
    for (int i = 0; i < STEPS && status == WEFT_OK; i++) {
        worst = fmax(worst, fabs(losses[i] - expected[i]) / expected[i]);
        if (self == 0) printf("step %2d  loss %.6f, on one rank %.6f\n", i, losses[i], expected[i]);
    }
    if (self == 0 && status == WEFT_OK) printf("largest relative difference %.1e\n", worst);
    if (status != WEFT_OK) complain("%s", weft_error_message());
    weft_mesh_release(alone);
    weft_mesh_release(all);
    return status == WEFT_OK && worst < 1e-5 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    static const struct option_row ranks = {.name = "ranks",
                                            .argument = "N",
                                            .usual = "",
                                            .help = "Run as N threads of this process",
                                            .kind = INT,
                                            .least = 1};
    static const struct command_line line = {
        .doc = "Train a layer and a style that are no part of the library, beside one rank alone.",
        .options = &ranks,
        .count = 1};
    int threads = 0; /* 0: the processes that mpiexec started */

    return command_line_run(&line, &threads, argc, argv, compare);
}
