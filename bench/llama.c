/*
 * llama.c: step time of a Llama on 2 ranks; what it keeps and sends.
 *
 *     llama                     both models
 *     mpiexec -n 2 llama ...    one: words in support/decoder.h
 */
#include <stdlib.h>
#include <string.h>

#include "support/decoder.h"

enum { RANKS = 2, SIZES = 8 };

static weft_module *make(const struct bench_decoder *m)
{
    return weft_llama((weft_llama_config){.vocab = m->vocab,
                                          .width = m->width,
                                          .heads = m->heads,
                                          .kv_heads = m->kv_heads,
                                          .layers = m->layers,
                                          .hidden = m->hidden,
                                          .recompute = m->recompute});
}

/* `tokens` of a step. */
static void measure(const char *name, const char *arguments, double tokens)
{
    struct bench_run run;

    bench_one(RANKS, "llama", arguments, &run);
    bench_line(run.step_ms, "ms", "llama.step_ms.%s", name);
    bench_line(1e3 * tokens / run.step_ms, "tokens/s", "llama.tokens_per_s.%s", name);
    bench_line(run.peak_bytes / run.bound_bytes, "ratio", "memory.vs_bound.llama_%s", name);
    bench_line(run.sent_bytes / run.sent_bound, "ratio", "llama.comm_vs_closed_form.%s", name);
}

int main(int argc, char **argv)
{
    struct bench_decoder llama = {.gated = true, .no_bias = true};

    if (argc >= SIZES) return bench_train_decoder(argc, argv, llama, make);
    measure("6x384", "6 384 6 256 8 256 12 kv=2 hidden=1024", 8 * 256);
    measure("6x384_sequence", "6 384 6 256 8 256 12 kv=2 hidden=1024 sequence", 8 * 256);
    measure("12x768", "12 768 12 256 4 32000 4 kv=4 hidden=2048", 4 * 256);
    return EXIT_SUCCESS;
}
