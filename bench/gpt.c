/*
 * gpt.c: step time of a GPT on 2 ranks, against the same step written by hand; what it keeps and
 * sends, plain and with sequence parallelism and recomputation.
 *
 *     gpt                       both models, both programs
 *     mpiexec -n 2 gpt ...      the library's step alone: words in support/decoder.h
 *
 * Forward, backward and AdamW; weights and tokens as in hand/gpt.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/decoder.h"

enum { RANKS = 2, ROUNDS = 2, SIZES = 8 };

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

static weft_module *make(const struct bench_decoder *m)
{
    weft_module *gpt = bench_need(weft_gpt((weft_gpt_config){.vocab = m->vocab,
                                                             .context = m->context,
                                                             .width = m->width,
                                                             .heads = m->heads,
                                                             .layers = m->layers,
                                                             .act = WEFT_GELU_TANH,
                                                             .recompute = m->recompute}));
    char path[32];

    fill(gpt, "wte.weight", 1, 0, 0);
    fill(gpt, "head.weight", 2, 0, 0);
    fill(gpt, "wpe.weight", 4, 0, 0);
    for (int l = 0; l < m->layers; l++) {
        snprintf(path, sizeof path, "blocks.%d", l);
        fill_block(weft_module_child(gpt, path), l, m->width);
    }
    fill(gpt, "norm_f.weight", 5, 6 * m->layers * m->width, 1);
    fill(gpt, "norm_f.bias", 5, (6 * m->layers + 1) * m->width, 0);
    return gpt;
}

/* In bf16, beside the step in f32. */
static void measure_bf16(const char *name, const char *arguments, double f32_ms)
{
    struct bench_run run;
    char words[128];

    snprintf(words, sizeof words, "%s bf16", arguments);
    bench_one(RANKS, "gpt", words, &run);
    bench_line(f32_ms / run.step_ms, "ratio", "gpt.bf16_vs_f32.%s", name);
    bench_line(run.sent_bytes / run.sent_bound, "ratio", "gpt.comm_vs_closed_form.%s.bf16", name);
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
    bench_line(our.sent_bytes / our.sent_bound, "ratio", "gpt.comm_vs_closed_form.%s", name);
    measure_bf16(name, arguments, our.step_ms);
}

/* The library's step in other ways: what it keeps and sends, and what that costs in time. */
static void measure_ways(const char *name, const char *arguments)
{
    static const char *const ways[] = {"sequence", "recompute=mlp", "recompute=block",
                                       "sequence recompute=block"};
    char words[128], key[64];
    struct bench_run plain, run;

    bench_one(RANKS, "gpt", arguments, &plain);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        snprintf(words, sizeof words, "%s %s", arguments, ways[i]);
        snprintf(key, sizeof key, "%s.%s", name, ways[i]);
        for (char *c = key; *c; c++)
            if (*c == ' ' || *c == '=') *c = '_';
        bench_one(RANKS, "gpt", words, &run);
        bench_line(run.step_ms / plain.step_ms, "ratio", "gpt.time_vs_plain.%s", key);
        bench_line(run.peak_bytes / run.bound_bytes, "ratio", "memory.vs_bound.%s", key);
        bench_line(run.sent_bytes / run.sent_bound, "ratio", "gpt.comm_vs_closed_form.%s", key);
    }
}

int main(int argc, char **argv)
{
    if (argc >= SIZES) return bench_train_decoder(argc, argv, (struct bench_decoder){0}, make);
    measure("6x384", "6 384 6 256 8 256 12");
    measure_ways("6x384", "6 384 6 256 8 256 6");
    measure("12x768", "12 768 12 256 4 50304 4");
    return EXIT_SUCCESS;
}
