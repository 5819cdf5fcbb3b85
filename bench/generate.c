/*
 * generate.c: how fast a GPT-2 of 124M writes, one sequence on 2 ranks, against reading its weights
 * once per token at the bandwidth that both ranks together have at that moment.
 * run: mpiexec -n 2 generate
 * run: mpiexec -n 2 generate bf16
 *
 *     mpiexec -n RANKS generate [f32|bf16 [ROUNDS [BATCH]]]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/observers.h"
#include "hand/read.h"
#include "support/bench.h"

enum { VOCAB = 50257, WIDTH = 768, CONTEXT = 1024, LAYERS = 12, HEADS = 12, PROMPT = 16 };
enum { TOKENS_IN_A_ROUND = 12, READS_IN_A_ROUND = 4 };

struct reading {
    double bytes;
    float sum; /* so that nothing is left out */
};

struct writing {
    weft_mesh *mesh;
    weft_module *gpt;
    weft_dtype dtype;
    int64_t batch;
    int32_t *newest; /* a token per sequence */
    struct reading reading;
};

/* What a token costs this rank, and how much of it is communication, waiting included. */
struct cost {
    double seconds, collectives;
    int64_t ops;
};

static void take_event(const struct wf_event *event, void *payload)
{
    struct cost *cost = payload;

    if (event->kind == WF_EVENT_COLL) cost->collectives += event->seconds;
    if (event->kind == WF_EVENT_OP) cost->ops++;
}

/* ---- one token ---- */

static void write_token(struct writing *w, const int32_t *tokens, int64_t count)
{
    weft_scope *scope = weft_scope_open();
    int64_t shape[] = {w->batch, count};
    weft_tensor *logits_bv = weft_gpt_next(w->gpt, weft_from_data(WEFT_I32, shape, 2, tokens));
    weft_tensor *best = bench_need(weft_argmax(logits_bv, 1));
    const int64_t *index = weft_data(weft_to_local(best, NULL));

    for (int64_t b = 0; b < w->batch; b++) w->newest[b] = (int32_t)index[b];
    weft_scope_close(scope);
}

static struct cost write_next(struct writing *w)
{
    struct cost cost = {0};
    int handle = wf_observer_add(WF_EVENT_COLL | WF_EVENT_OP, take_event, &cost);
    double start = bench_now();

    write_token(w, w->newest, 1);
    cost.seconds = bench_now() - start;
    wf_observer_remove(handle);
    return cost;
}

static void write_prompt(struct writing *w)
{
    int32_t *prompt = bench_need(calloc((size_t)(w->batch * PROMPT), sizeof *prompt));

    for (int64_t i = 0; i < w->batch * PROMPT; i++) prompt[i] = (int32_t)(1000 + 37 * i) % VOCAB;
    write_token(w, prompt, PROMPT);
    free(prompt);
}

/* ---- the bound: this rank's weights, read once ---- */

/* All but the positions, of which a token reads one row; the tied embedding is the head. */
static weft_status read_parameter(weft_module *m, const char *name, weft_tensor *t, void *payload)
{
    struct reading *r = payload;
    size_t bytes = (size_t)weft_local_numel(t) * weft_dtype_size(weft_tensor_dtype(t));

    (void)name;
    if (!strcmp(weft_module_name(m), "wpe")) return WEFT_OK;
    r->bytes += (double)bytes;
    r->sum += hand_read(weft_data(t), bytes / sizeof(float));
    return WEFT_OK;
}

static void read_weights(void *payload)
{
    struct writing *w = payload;

    w->reading = (struct reading){0};
    WEFT_CHECK(weft_module_each_parameter(w->gpt, read_parameter, &w->reading));
}

/* ---- the run ---- */

static void build(struct writing *w)
{
    weft_manual_seed(1);
    w->gpt = bench_need(weft_gpt((weft_gpt_config){.vocab = VOCAB,
                                                   .context = CONTEXT,
                                                   .width = WIDTH,
                                                   .heads = HEADS,
                                                   .layers = LAYERS,
                                                   .act = WEFT_GELU_TANH,
                                                   .tied = true,
                                                   .dtype = w->dtype}));
    WEFT_CHECK(weft_parallelize_module(w->gpt, w->mesh, weft_gpt_plan()));
    weft_module_train(w->gpt, false);
    WEFT_CHECK(weft_module_cache(w->gpt, CONTEXT));
    w->newest = bench_need(calloc((size_t)w->batch, sizeof *w->newest));
}

/* Times of both, in turn: they meet the same machine. */
struct measured {
    struct cost token; /* the fastest */
    double median;
    struct bench_times read;
};

static struct measured measure(struct writing *w, int rounds)
{
    struct measured m = {.token.seconds = 1e30, .read.min = 1e30};
    int tokens = rounds * TOKENS_IN_A_ROUND;
    double *seconds = bench_need(calloc((size_t)tokens, sizeof *seconds));

    for (int i = 0; i < tokens; i++) {
        struct cost cost = write_next(w);

        seconds[i] = cost.seconds;
        if (cost.seconds < m.token.seconds) m.token = cost;
        if (i % TOKENS_IN_A_ROUND == 0) {
            struct bench_times read = bench_steps(w->mesh, READS_IN_A_ROUND, read_weights, w);

            if (read.min < m.read.min) m.read = read;
        }
    }
    m.median = bench_median(seconds, tokens);
    free(seconds);
    return m;
}

static void report(const struct writing *w, const struct measured *m)
{
    const char *suffix = w->dtype == WEFT_BF16 ? ".bf16" : "";
    double batch = (double)w->batch, bound = m->read.min, bytes = w->reading.bytes;
    double rest = m->token.seconds - bound - m->token.collectives;

    if (weft_world_rank() != 0) return;
    bench_line(bytes * weft_world_size() / bound * 1e-9, "GB/s", "generate.bandwidth%s", suffix);
    bench_line(batch / m->token.seconds, "tokens/s", "generate.tokens_per_s%s", suffix);
    bench_line(batch / m->median, "tokens/s", "generate.median_tokens_per_s%s", suffix);
    bench_line(1e3 * m->token.seconds, "ms", "generate.token_ms%s", suffix);
    bench_line(1e3 * bound, "ms", "generate.read_ms%s", suffix);
    bench_line(1e3 * m->token.collectives, "ms", "generate.collectives_ms%s", suffix);
    bench_line(1e6 * rest / (double)m->token.ops, "us", "generate.rest_us_per_op%s", suffix);
    bench_line(bound / m->token.seconds, "ratio", "generate.vs_bound%s", suffix);
}

int main(int argc, char **argv)
{
    struct writing w = {.dtype = WEFT_F32, .batch = 1};
    int rounds = argc > 2 ? atoi(argv[2]) : 8;
    struct measured m;

    if (argc > 1 && !strcmp(argv[1], "bf16")) w.dtype = WEFT_BF16;
    if (argc > 3) w.batch = atoll(argv[3]);
    WEFT_CHECK(weft_init(&argc, &argv));
    w.mesh = bench_need(weft_mesh_new(WEFT_CPU, "tp=%d", weft_world_size()));
    build(&w);
    weft_no_grad_open();
    write_prompt(&w);
    write_next(&w);
    m = measure(&w, rounds);
    weft_no_grad_close();
    report(&w, &m);
    free(w.newest);
    weft_module_release(w.gpt);
    weft_mesh_release(w.mesh);
    return weft_finalize();
}
