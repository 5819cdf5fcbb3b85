/*
 * lora.c: a ready GPT with low-rank adapters in the place of its linear layers, of which only the
 * adapters are trained, tensor-parallel.
 *
 *     lora                    one process
 *     mpiexec -n 3 lora       the same losses on three
 *     lora --ranks 4          four threads of one process
 *
 * The model is the library's own. Each linear layer of its blocks is replaced, by path, by a module
 * that has the layer as a child: no hook, no model of one's own. The plan names the layers where
 * they are then: beside a column-wise layer its adapter's b is column-wise too, beside a row-wise
 * one its a is row-wise, and the small factor between them is whole on every rank.
 */
#include <stdio.h>
#include <stdlib.h>

#include "common/command_line.h"
#include "common/say.h"
#include "lora/adapter.h"

enum { VOCAB = 32, CONTEXT = 16, WIDTH = 48, HEADS = 6, LAYERS = 2, HIDDEN = 4 * WIDTH };
enum { RANK = 4, BATCH = 4, STEPS = 20 };

static const weft_plan plan[] = {
    {"wte", {.kind = WEFT_STYLE_ROWWISE}},
    {"blocks.*.attn.qkv.base", {.kind = WEFT_STYLE_COLWISE}},
    {"blocks.*.attn.qkv.b", {.kind = WEFT_STYLE_COLWISE}},
    {"blocks.*.attn.proj.base", {.kind = WEFT_STYLE_ROWWISE}},
    {"blocks.*.attn.proj.a", {.kind = WEFT_STYLE_ROWWISE}},
    {"blocks.*.mlp.up.base", {.kind = WEFT_STYLE_COLWISE}},
    {"blocks.*.mlp.up.b", {.kind = WEFT_STYLE_COLWISE}},
    {"blocks.*.mlp.down.base", {.kind = WEFT_STYLE_ROWWISE}},
    {"blocks.*.mlp.down.a", {.kind = WEFT_STYLE_ROWWISE}},
    {"head", {.kind = WEFT_STYLE_COLWISE, .options = {.keep_distributed = true}}},
    {"loss", {.kind = WEFT_STYLE_LOSS}},
    {0},
};

static weft_status adapt_block(weft_module *block)
{
    const int64_t d = WIDTH / HEADS;
    const struct adapter usual = {.rank = RANK, .scale = 2};
    struct adapter qkv = usual, proj = usual, up = usual, down = usual;
    weft_status status;

    qkv.in[0] = WIDTH, qkv.out[0] = 3, qkv.out[1] = HEADS, qkv.out[2] = d, qkv.out_split = 1;
    proj.in[0] = HEADS, proj.in[1] = d, proj.out[0] = WIDTH;
    up.in[0] = WIDTH, up.out[0] = HIDDEN;
    down.in[0] = HIDDEN, down.out[0] = WIDTH;
    status = adapt(block, "attn.qkv", qkv);
    if (status == WEFT_OK) status = adapt(block, "attn.proj", proj);
    if (status == WEFT_OK) status = adapt(block, "mlp.up", up);
    return status == WEFT_OK ? adapt(block, "mlp.down", down) : status;
}

static weft_module *model(weft_mesh *mesh)
{
    weft_module *gpt, *blocks;
    weft_status status = WEFT_OK;
    int64_t trained;

    weft_manual_seed(5);
    gpt = weft_gpt((weft_gpt_config){
        .vocab = VOCAB, .context = CONTEXT, .width = WIDTH, .heads = HEADS, .layers = LAYERS});
    blocks = weft_module_child(gpt, "blocks");
    for (int i = 0; i < LAYERS && status == WEFT_OK; i++)
        status = adapt_block(weft_module_child_at(blocks, i));
    trained = freeze_base(gpt);
    if (status == WEFT_OK) status = weft_parallelize_module_strict(gpt, mesh, plan);
    if (status == WEFT_OK) {
        if (weft_world_rank() == 0)
            printf("%lld of %lld parameters are trained\n", (long long)trained,
                   (long long)weft_module_numel(gpt));
        return gpt;
    }
    weft_module_release(gpt);
    return NULL;
}

/* Two batches in turn: each token is followed by the next but one. */
static weft_status step(weft_module *gpt, weft_optim *optim, int number)
{
    int32_t tokens[BATCH * CONTEXT], targets[BATCH * CONTEXT];
    int64_t shape[] = {BATCH, CONTEXT};
    weft_scope *scope = weft_scope_open();
    weft_tensor *loss;
    weft_status status;

    for (int i = 0; i < BATCH * CONTEXT; i++) {
        tokens[i] = (number % 2 * 11 + i * 7) % VOCAB;
        targets[i] = (tokens[i] + 2) % VOCAB;
    }
    loss = weft_gpt_loss(gpt, weft_from_data(WEFT_I32, shape, 2, tokens),
                         weft_from_data(WEFT_I32, shape, 2, targets));
    status = weft_backward(loss);
    if (status == WEFT_OK && weft_world_rank() == 0)
        printf("step %2d  loss %.6f\n", number, weft_item(loss));
    weft_scope_close(scope);
    return status == WEFT_OK ? weft_step(optim) : status;
}

static int train(void *payload)
{
    weft_mesh *mesh = weft_mesh_new(WEFT_CPU, "tp=%d", weft_world_size());
    weft_module *gpt = model(mesh);
    weft_optim *adam = weft_adamw(gpt, (weft_adamw_config){.lr = 1e-2});
    weft_status status = adam ? WEFT_OK : weft_error_status();

    (void)payload;
    for (int i = 0; i < STEPS && status == WEFT_OK; i++) status = step(gpt, adam, i);
    if (status != WEFT_OK) complain("%s", weft_error_message());
    weft_optim_release(adam);
    weft_module_release(gpt);
    weft_mesh_release(mesh);
    return status == WEFT_OK ? EXIT_SUCCESS : EXIT_FAILURE;
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
        .doc = "Train low-rank adapters in a ready GPT whose own weights are frozen.",
        .options = &ranks,
        .count = 1};
    int threads = 0; /* 0: the processes that mpiexec started */

    return command_line_run(&line, &threads, argc, argv, train);
}
