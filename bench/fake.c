/*
 * fake.c: how long it takes to plan a large model without having its ranks: an 80-layer, 8192-wide
 * GPT is spread over 1,024 ranks, and one training step is forecast: bytes, memory, time.
 *
 * run: fake
 */
#include <stdio.h>
#include <string.h>

#include "support/bench.h"

enum { LAYERS = 80, WIDTH = 8192, HEADS = 64, CONTEXT = 8192, VOCAB = 50304, BATCH = 16 };

/*
 * Weight and bias, and what inputs and outputs are redistributed to, of modules whose path ends so:
 * batch over dp, sequence over cp, features over tp; attention has all of the sequence and its
 * heads over cp and tp. Other parameters are replicated.
 */
static const struct row {
    const char *path, *weight, *bias, *input, *output;
} rows[] = {
    {"wte", "R,R,S(0)", NULL, NULL, "S(0),S(1),R"},
    {"attn.qkv", "R,R,S(1)", "R,R,S(1)", NULL, "S(0),S(3),S(3)"},
    {"attn.proj", "R,R,S(1)", "R,R,R", "S(0),S(1),S(2)", "S(0),S(1),R"},
    {"mlp.up", "R,R,S(0)", "R,R,S(0)", NULL, NULL},
    {"mlp.down", "R,R,S(1)", "R,R,R", NULL, "S(0),S(1),R"},
    {"head", "R,R,S(0)", NULL, NULL, NULL},
};

static weft_tensor *moved(weft_tensor *t, const char *text)
{
    weft_placement placements[WEFT_MAX_AXES];

    weft_placements_parse(placements, WEFT_MAX_AXES, text);
    return weft_redistribute(t, placements);
}

static weft_status move_input(weft_module *m, weft_tensor **inputs, int n, void *payload)
{
    (void)m;
    (void)n;
    inputs[0] = moved(inputs[0], payload);
    return inputs[0] ? WEFT_OK : weft_error_status();
}

static weft_tensor *move_output(weft_module *m, weft_tensor *output, void *payload)
{
    (void)m;
    return moved(output, payload);
}

static void spread(weft_module *m, const char *name, weft_mesh *mesh, const char *text)
{
    weft_placement placements[WEFT_MAX_AXES];
    weft_tensor *t;

    if (!text) return;
    t = bench_need(weft_module_parameter(m, name));
    weft_placements_parse(placements, WEFT_MAX_AXES, text);
    t = bench_need(weft_distribute_tensor(t, mesh, placements, -1));
    WEFT_CHECK(weft_module_set_parameter(m, name, t));
}

static bool ends_with(const char *path, const char *end)
{
    size_t length = strlen(path), of_end = strlen(end);

    return length >= of_end && strcmp(path + length - of_end, end) == 0;
}

static weft_status partition(weft_module *m, weft_mesh *mesh, void *payload)
{
    (void)payload;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *row = &rows[i];

        if (!ends_with(weft_module_path(m), row->path)) continue;
        spread(m, "weight", mesh, row->weight);
        spread(m, "bias", mesh, row->bias);
        if (row->input) WEFT_CHECK(weft_module_on_input(m, move_input, (void *)row->input, NULL));
        if (row->output)
            WEFT_CHECK(weft_module_on_output(m, move_output, (void *)row->output, NULL));
    }
    return WEFT_OK;
}

static weft_tensor *tokens(weft_mesh *mesh)
{
    weft_placement placements[3] = {weft_shard(0), weft_shard(1), weft_replicate()};

    return weft_distribute_tensor(weft_empty(WEFT_I32, (int64_t[]){BATCH, CONTEXT}, 2), mesh,
                                  placements, -1);
}

int main(int argc, char **argv)
{
    weft_forecast forecast;
    weft_tensor *inputs[2];
    weft_module *gpt;
    weft_optim *adam;
    weft_scope *scope;
    weft_mesh *mesh;
    double began;

    WEFT_CHECK(weft_init(&argc, &argv));
    began = bench_now();
    weft_set_default_device(WEFT_META);
    scope = weft_scope_open();
    mesh = bench_need(weft_mesh_new_fake(0, "dp=16,cp=4,tp=16"));
    gpt = bench_need(weft_gpt((weft_gpt_config){
        .vocab = VOCAB, .context = CONTEXT, .width = WIDTH, .heads = HEADS, .layers = LAYERS}));
    WEFT_CHECK(weft_distribute_module(gpt, mesh, partition, NULL, NULL, NULL));
    adam = bench_need(weft_adamw(gpt, (weft_adamw_config){.lr = 1e-4}));
    inputs[0] = bench_need(tokens(mesh));
    inputs[1] = bench_need(tokens(mesh));
    bench_line(bench_now() - began, "s", "fake.spread_s");
    WEFT_CHECK(weft_forecast_step(&forecast, gpt, adam, inputs, 2));
    weft_forecast_print(&forecast, stdout);
    bench_line(bench_now() - began, "s", "fake.plan_s");
    weft_scope_close(scope);
    weft_optim_release(adam);
    weft_module_release(gpt);
    weft_mesh_release(mesh);
    return weft_finalize();
}
