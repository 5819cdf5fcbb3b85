/*
 * gpt.c: step time of a GPT on 2 ranks, against the same step written by hand; its memory.
 *
 *     gpt                                                              both models, both programs
 *     mpiexec -n 2 gpt LAYERS WIDTH HEADS CONTEXT BATCH VOCAB STEPS    the library's step alone
 *
 * Forward, backward and AdamW; weights and tokens as in hand/gpt.c.
 */
#include <stdio.h>
#include <stdlib.h>

#include "hand/value.h"
#include "support/bench.h"

enum { RANKS = 2, ROUNDS = 2 };

struct model {
    int layers;
    int64_t width, heads, context, batch, vocab;
};

struct training {
    struct model size;
    weft_module *gpt;
    weft_optim *adam;
    weft_tensor *tokens, *targets;
    double loss;
};

static void step(void *payload)
{
    struct training *t = payload;
    weft_scope *scope = weft_scope_open();
    weft_tensor *loss = weft_gpt_loss(t->gpt, t->tokens, t->targets);

    WEFT_CHECK(weft_backward(loss));
    WEFT_CHECK(weft_step(t->adam));
    t->loss = weft_item(loss);
    weft_scope_close(scope);
}

/* ---- the first values of hand/gpt_setup.c ---- */
static const float scale = 0.035f;

static void fill(weft_module *m, const char *path, int stream, int64_t first, float offset)
{
    bench_fill(weft_module_parameter(m, path), stream, first, scale, offset);
}

/* The small parameters of a layer are rows of one array, numbered as in hand/gpt.h. */
static void fill_block(weft_module *block, int layer, int64_t width)
{
    static const char *const rows[] = {"norm1.weight", "norm1.bias", "attn.proj.bias",
                                       "norm2.weight", "norm2.bias", "mlp.down.bias"};
    int stream = 10 * layer + 20;

    fill(block, "attn.qkv.weight", stream, 0, 0);
    fill(block, "attn.qkv.bias", stream + 1, 0, 0);
    fill(block, "attn.proj.weight", stream + 2, 0, 0);
    fill(block, "mlp.up.weight", stream + 3, 0, 0);
    fill(block, "mlp.up.bias", stream + 4, 0, 0);
    fill(block, "mlp.down.weight", stream + 5, 0, 0);
    for (int i = 0; i < 6; i++)
        fill(block, rows[i], 5, (6 * layer + i) * width, i == 0 || i == 3 ? 1 : 0);
}

static void fill_model(const struct training *t)
{
    char path[32];

    fill(t->gpt, "wte.weight", 1, 0, 0);
    fill(t->gpt, "head.weight", 2, 0, 0);
    fill(t->gpt, "wpe.weight", 4, 0, 0);
    for (int l = 0; l < t->size.layers; l++) {
        snprintf(path, sizeof path, "blocks.%d", l);
        fill_block(weft_module_child(t->gpt, path), l, t->size.width);
    }
    fill(t->gpt, "norm_f.weight", 5, 6 * t->size.layers * t->size.width, 1);
    fill(t->gpt, "norm_f.bias", 5, (6 * t->size.layers + 1) * t->size.width, 0);
}

static weft_tensor *text(const struct model *m, int64_t first)
{
    int64_t shape[] = {m->batch, m->context};
    weft_tensor *t = bench_need(weft_empty(WEFT_I32, 2, shape));
    int32_t *data = weft_data(t);

    for (int64_t i = 0; i < weft_numel(t); i++) {
        float unit = hand_value(3, (uint64_t)(first + i)) * 0.5f + 0.5f;
        data[i] = (int32_t)(unit * (float)m->vocab) % (int32_t)m->vocab;
    }
    return t;
}

static void build(struct training *t, weft_mesh *mesh)
{
    const struct model *m = &t->size;

    t->gpt = bench_need(weft_gpt((weft_gpt_config){.vocab = m->vocab,
                                                   .context = m->context,
                                                   .width = m->width,
                                                   .heads = m->heads,
                                                   .layers = m->layers,
                                                   .act = WEFT_GELU_TANH}));
    fill_model(t);
    WEFT_CHECK(weft_parallelize_module(t->gpt, mesh, weft_gpt_plan()));
    t->adam = bench_need(weft_adamw(t->gpt, (weft_adamw_config){.lr = 3e-4, .weight_decay = 0.01}));
    t->tokens = text(m, 0);
    t->targets = text(m, 1);
}

/*
 * Bytes of one rank counted by hand: weights, gradients and two moments of its share, and what the
 * gradients need of the forward pass. Per layer and token: both norms' inputs and
 * results (4 D), q, k, v and attention's output (4 D/r), one number per head, and the MLP's hidden
 * features before and after gelu (8 D/r). At the end a norm more (2 D) and the logits (V/r).
 */
static double bound_bytes(const struct model *m, int ranks)
{
    double d = (double)m->width, v = (double)m->vocab, tokens = (double)(m->batch * m->context);
    double r = ranks, layers = m->layers;
    double split = layers * (12 * d * d + 7 * d) + 2 * v * d;
    double whole = layers * 6 * d + 2 * d + (double)m->context * d;
    double per_token = layers * (4 * d + 12 * d / r + (double)m->heads / r) + 2 * d + v / r;

    return 4 * (4 * (split / r + whole) + tokens * per_token);
}

static void report_memory(const struct model *m)
{
    double peak = (double)weft_memory_of(WEFT_MEMORY_CATEGORIES).peak;

    if (weft_world_rank() != 0) return;
    printf("peak_bytes %.0f bound %.0f\n", peak, bound_bytes(m, weft_world_size()));
    weft_memory_print(stdout);
}

static int train(int *argc, char ***argv)
{
    char **word = *argv;
    struct training t = {.size = {.layers = atoi(word[1]),
                                  .width = atoll(word[2]),
                                  .heads = atoll(word[3]),
                                  .context = atoll(word[4]),
                                  .batch = atoll(word[5]),
                                  .vocab = atoll(word[6])}};
    int steps = atoi(word[7]);
    weft_scope *scope;
    weft_mesh *mesh;

    WEFT_CHECK(weft_init(argc, argv));
    mesh = bench_need(weft_mesh_new(WEFT_CPU, "tp=%d", weft_world_size()));
    scope = weft_scope_open();
    build(&t, mesh);
    for (int i = 0; i < 5; i++) {
        if (i == 2) weft_memory_reset_peak();
        step(&t);
        if (weft_world_rank() == 0) printf("loss %d %.9f\n", i, t.loss);
    }
    report_memory(&t.size);
    if (steps > 0) bench_report(bench_steps(mesh, steps, step, &t));
    weft_optim_release(t.adam);
    weft_module_release(t.gpt);
    weft_scope_close(scope);
    weft_mesh_release(mesh);
    return weft_finalize();
}

static void measure(const char *name, const char *arguments)
{
    struct bench_run our, their;

    bench_pair(RANKS, ROUNDS, "gpt", "hand_gpt", arguments, &our, &their);
    bench_line(our.step_ms, "ms", "gpt.step_ms.%s", name);
    bench_line(their.step_ms, "ms", "gpt.hand_ms.%s", name);
    bench_line(our.step_ms / their.step_ms, "ratio", "gpt.vs_hand.%s", name);
    bench_line(their.gemm_ms / our.step_ms, "ratio", "gpt.gemm_share.%s", name);
    bench_line(our.peak_bytes / our.bound_bytes, "ratio", "memory.vs_bound.%s", name);
}

int main(int argc, char **argv)
{
    if (argc == 8) return train(&argc, &argv);
    measure("6x384", "6 384 6 256 8 256 12");
    measure("12x768", "12 768 12 256 4 50304 4");
    return EXIT_SUCCESS;
}
