/*
 * compile.c: compiled functions against the same functions as they are: cost per node, chains of
 * formulas against memcpy, training steps, memory, captures.
 *
 * run: compile
 * run: mpiexec -n 2 compile gpt
 * run: mpiexec -n 2 compile gpt.12x768
 * run: mpiexec -n 2 compile mlp
 * run: mpiexec -n 2 compile decode
 * run: compile vs_hand
 *
 * Training is forward, backward and AdamW, of a GPT 6x384 (context 256, batch 8, vocabulary 256),
 * one of 12x768 (batch 4, vocabulary 50,304), and an MLP 1024-4096-1024 with 16 tokens. Decoding is
 * one token of a Llama 6x384 with a cache of 256, compiled in segments (docs/concepts/compile.md,
 * Limits) and always at the same place, so that each token replays. Steps of both kinds take turns
 * in one process.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/bench.h"
#include "support/malloc_count.h"
#include "support/training.h"

enum { CHAIN_BYTES = 16 << 20, ROUNDS = 41, NODES = 1000, LARGE = 10000 };

static weft_compiled *compile(weft_compiled_function *function, void *state)
{
    return bench_need(
        weft_compile(function, state, (weft_compile_config){.name = "bench", .fullgraph = true}));
}

/* ---- eight formulas on 16 MiB ---- */

static weft_status chain(weft_tensor *const *in, int n, weft_tensor **out, int n_out, void *state)
{
    weft_tensor *x = in[0];

    (void)n, (void)n_out, (void)state;
    x = weft_mul_scalar(x, 1.5);
    x = weft_add_scalar(x, 0.25);
    x = weft_relu(x);
    x = weft_mul(x, x);
    x = weft_sub_scalar(x, 1);
    x = weft_abs(x);
    x = weft_neg(x);
    out[0] = weft_add_scalar(x, 3);
    return out[0] ? WEFT_OK : weft_error_status();
}

static double time_call(weft_compiled *compiled, weft_compiled_function *function, weft_tensor *x)
{
    weft_scope *scope = weft_scope_open();
    double start = bench_now(), seconds;
    weft_tensor *out;

    if (compiled)
        WEFT_CHECK(weft_compiled_call(compiled, &x, 1, &out, 1));
    else
        WEFT_CHECK(function(&x, 1, &out, 1, NULL));
    seconds = bench_now() - start;
    weft_scope_close(scope);
    return seconds;
}

static double time_copy(void *to, const void *from)
{
    double start = bench_now();

    memcpy(to, from, CHAIN_BYTES);
    return bench_now() - start;
}

static void measure_chain(void)
{
    int64_t shape[] = {CHAIN_BYTES / 4};
    weft_scope *scope = weft_scope_open();
    weft_tensor *x = bench_need(weft_full(WEFT_F32, shape, 1, 0.5));
    weft_tensor *y = bench_need(weft_full(WEFT_F32, shape, 1, 0.5));
    weft_compiled *compiled = compile(chain, NULL);
    double replay[ROUNDS], plain[ROUNDS], copy[ROUNDS];

    for (int i = 0; i < 4; i++) time_call(compiled, chain, x);
    for (int i = 0; i < ROUNDS; i++) {
        copy[i] = time_copy(weft_data(y), weft_data(x));
        replay[i] = time_call(compiled, chain, x);
        plain[i] = time_call(NULL, chain, x);
    }
    bench_line(bench_median(copy, ROUNDS) / bench_median(replay, ROUNDS), "ratio",
               "compile.chain_bandwidth");
    bench_line(bench_median(plain, ROUNDS) / bench_median(replay, ROUNDS), "ratio",
               "compile.chain_vs_eager");
    weft_compiled_release(compiled);
    weft_scope_close(scope);
}

/* ---- cost per node, whose kernels have nothing to do; captures ---- */

static weft_status many(weft_tensor *const *in, int n, weft_tensor **out, int n_out, void *state)
{
    int nodes = *(const int *)state;
    weft_tensor *x = in[0];

    (void)n, (void)n_out;
    for (int i = 0; i < nodes; i++) {
        weft_tensor *next = weft_add(x, in[0]);

        if (!next) return weft_error_status();
        x = next;
    }
    out[0] = x;
    return WEFT_OK;
}

static double time_many(weft_compiled *compiled, weft_tensor *x, int *nodes)
{
    weft_scope *scope = weft_scope_open();
    double start = bench_now();
    weft_tensor *out;

    if (compiled)
        WEFT_CHECK(weft_compiled_call(compiled, &x, 1, &out, 1));
    else
        WEFT_CHECK(many(&x, 1, &out, 1, nodes));
    start = bench_now() - start;
    weft_scope_close(scope);
    return start;
}

static void measure_nodes(void)
{
    int64_t empty[] = {0, 8};
    weft_scope *scope = weft_scope_open();
    weft_tensor *x = bench_need(weft_empty(WEFT_F32, empty, 2));
    int nodes = NODES, none = 1;
    weft_compiled *large = compile(many, &nodes), *small = compile(many, &none);
    double many_seconds[ROUNDS], one_second[ROUNDS];
    int64_t mallocs;

    for (int i = 0; i < 4; i++) {
        time_many(large, x, NULL);
        time_many(small, x, NULL);
    }
    mallocs = malloc_count();
    for (int i = 0; i < ROUNDS; i++) {
        many_seconds[i] = time_many(large, x, NULL);
        one_second[i] = time_many(small, x, NULL);
    }
    bench_line((double)(malloc_count() - mallocs) / (2 * ROUNDS), "calls", "compile.mallocs");
    bench_line(1e9 * (bench_median(many_seconds, ROUNDS) - bench_median(one_second, ROUNDS)) /
                   (NODES - 1),
               "ns", "compile.node_ns");
    bench_line(1e9 * bench_median(one_second, ROUNDS), "ns", "compile.call_ns");
    weft_compiled_release(large);
    weft_compiled_release(small);
    weft_scope_close(scope);
}

/* A capture less the call that it contains; and the first call against one as it is. */
static void measure_captures(int nodes, const char *name)
{
    int64_t shape[] = {8, 8};
    weft_scope *scope = weft_scope_open();
    weft_tensor *x = bench_need(weft_full(WEFT_F32, shape, 2, 0));
    double first[9], plain[9];

    for (int i = 0; i < 9; i++) {
        weft_compiled *compiled = compile(many, &nodes);

        plain[i] = time_many(NULL, x, &nodes);
        first[i] = time_many(compiled, x, NULL);
        weft_compiled_release(compiled);
    }
    bench_line(1e6 * (bench_median(first, 9) - bench_median(plain, 9)) / nodes, "us",
               "compile.capture_us.%s", name);
    weft_scope_close(scope);
}

/* ---- training steps ---- */

static weft_status train_mlp(weft_tensor *const *in, int n, weft_tensor **out, int n_out,
                             void *state)
{
    const struct bench_training *t = state;

    (void)n, (void)n_out;
    out[0] = weft_mse(weft_call(t->model, in[0]), in[1]);
    return bench_finish_step(t, out);
}

static weft_tensor *tokens(int64_t batch, int64_t context, int64_t first)
{
    int64_t shape[] = {batch, context};
    weft_tensor *t = bench_need(weft_empty(WEFT_I32, shape, 2));
    int32_t *data = weft_data(t);

    for (int64_t i = 0; i < weft_numel(t); i++) data[i] = (int32_t)((first + i) * i % 251);
    return t;
}

static void build_gpt_like(struct bench_training *t, weft_mesh *mesh, weft_gpt_config config,
                           int64_t batch)
{
    config.context = 256;
    config.act = WEFT_GELU_TANH;
    t->model = bench_need(weft_gpt(config));
    WEFT_CHECK(weft_parallelize_module(t->model, mesh, weft_gpt_plan()));
    t->in[0] = tokens(batch, config.context, 1);
    t->in[1] = tokens(batch, config.context, 2);
}

static void build_gpt(struct bench_training *t, weft_mesh *mesh)
{
    build_gpt_like(t, mesh, (weft_gpt_config){.vocab = 256, .width = 384, .heads = 6, .layers = 6},
                   8);
}

static void build_large_gpt(struct bench_training *t, weft_mesh *mesh)
{
    build_gpt_like(t, mesh,
                   (weft_gpt_config){.vocab = 50304, .width = 768, .heads = 12, .layers = 12}, 4);
}

static void build_mlp(struct bench_training *t, weft_mesh *mesh)
{
    weft_plan plan[] = {{"up", weft_colwise_parallel()}, {"down", weft_rowwise_parallel()}, {0}};
    int64_t shape[] = {16, 1024};

    t->model = bench_need(weft_mlp(
        (weft_mlp_config){.in = 1024, .hidden = 4096, .out = 1024, .act = WEFT_GELU_TANH}));
    WEFT_CHECK(weft_parallelize_module(t->model, mesh, plan));
    for (int i = 0; i < 2; i++) {
        t->in[i] = bench_need(weft_empty(WEFT_F32, shape, 2));
        bench_fill(t->in[i], 5 + i, 0, 1, 0);
    }
}

struct kind {
    const char *name;
    weft_compiled_function *step;
    void (*build)(struct bench_training *t, weft_mesh *mesh);
    int rounds;
};

static const struct kind kinds[] = {{"gpt", bench_train_gpt, build_gpt, 11},
                                    {"gpt.12x768", bench_train_gpt, build_large_gpt, 5},
                                    {"mlp", train_mlp, build_mlp, 101}};

static struct bench_training open_training(weft_mesh *mesh, const struct kind *kind)
{
    struct bench_training t = {.function = kind->step};

    weft_manual_seed(1);
    kind->build(&t, mesh);
    t.adam = bench_need(weft_adamw(t.model, (weft_adamw_config){.lr = 3e-4}));
    return t;
}

/* Of the third step on, in a scope of its own. */
static double peak_of(weft_mesh *mesh, const struct kind *kind, bool compiled)
{
    weft_scope *scope = weft_scope_open();
    struct bench_training t = open_training(mesh, kind);
    double peak;

    if (compiled) t.compiled = compile(t.function, &t);
    for (int i = 0; i < 5; i++) {
        if (i == 3) weft_memory_reset_peak();
        bench_take_step(&t);
    }
    peak = (double)weft_memory_of(WEFT_MEMORY_CATEGORIES).peak;
    bench_training_release(&t);
    weft_scope_close(scope);
    return peak;
}

static double one_step(weft_mesh *mesh, struct bench_training *t)
{
    return bench_steps(mesh, 1, bench_take_step, t).min;
}

/* The first call after a warm-up. */
static double first_warm_step(weft_mesh *mesh, const struct kind *kind)
{
    weft_scope *scope = weft_scope_open();
    struct bench_training t = open_training(mesh, kind);
    double seconds;

    t.compiled = compile(t.function, &t);
    WEFT_CHECK(weft_compiled_warm_up(t.compiled, t.in, 2, 1));
    seconds = one_step(mesh, &t);
    bench_training_release(&t);
    weft_scope_close(scope);
    return seconds;
}

static void measure_training(weft_mesh *mesh, const struct kind *kind, int rounds)
{
    const char *name = kind->name;
    bool speaks = weft_world_rank() == 0;
    double plain_peak = peak_of(mesh, kind, false), peak = peak_of(mesh, kind, true);
    double warm = first_warm_step(mesh, kind);
    weft_scope *scope = weft_scope_open();
    struct bench_training plain = open_training(mesh, kind);
    struct bench_training t = open_training(mesh, kind);
    double *eager = bench_need(malloc((size_t)rounds * sizeof *eager));
    double *replay = bench_need(malloc((size_t)rounds * sizeof *replay));
    double cold;
    int64_t mallocs;

    t.compiled = compile(t.function, &t);
    for (int i = 0; i < 3; i++) eager[0] = one_step(mesh, &plain);
    cold = one_step(mesh, &t);
    for (int i = 0; i < 2; i++) one_step(mesh, &t);
    mallocs = malloc_count();
    bench_take_step(&t);
    mallocs = malloc_count() - mallocs;
    for (int i = 0; i < rounds; i++) {
        eager[i] = one_step(mesh, &plain);
        replay[i] = one_step(mesh, &t);
    }
    if (speaks) {
        double e = bench_median(eager, rounds), r = bench_median(replay, rounds);

        bench_line(1e3 * r, "ms", "compile.step_ms.%s", name);
        bench_line(e / r, "ratio", "compile.vs_eager.%s", name);
        bench_line(eager[0] / replay[0], "ratio", "compile.vs_eager_best.%s", name);
        bench_line(peak / plain_peak, "ratio", "compile.memory.%s", name);
        bench_line(cold / e, "ratio", "compile.cold.%s", name);
        bench_line(warm / e, "ratio", "compile.warm.%s", name);
        bench_line((double)mallocs, "calls", "compile.mallocs.%s", name);
        bench_line((double)weft_compiled_get_counts(t.compiled).nodes, "nodes", "compile.nodes.%s",
                   name);
    }
    free(eager);
    free(replay);
    bench_training_release(&plain);
    bench_training_release(&t);
    weft_scope_close(scope);
}

/* ---- decoding ---- */

enum { DECODE_CONTEXT = 256, DECODED = 101 };

static weft_status decode(weft_tensor *const *in, int n, weft_tensor **out, int n_out, void *state)
{
    (void)n, (void)n_out;
    out[0] = weft_gpt_next(state, in[0]);
    return out[0] ? WEFT_OK : weft_error_status();
}

struct decoding {
    weft_module *llama;
    weft_tensor *token;
    weft_compiled *compiled; /* NULL: as it is */
};

static void decode_token(void *payload)
{
    struct decoding *d = payload;
    weft_scope *scope = weft_scope_open();
    weft_tensor *out;

    WEFT_CHECK(weft_module_cache_rewind(d->llama, DECODE_CONTEXT - 1));
    if (d->compiled)
        WEFT_CHECK(weft_compiled_call(d->compiled, &d->token, 1, &out, 1));
    else
        WEFT_CHECK(decode(&d->token, 1, &out, 1, d->llama));
    weft_scope_close(scope);
}

static void measure_decode(weft_mesh *mesh)
{
    weft_scope *scope = weft_scope_open();
    weft_tensor *prompt = tokens(1, DECODE_CONTEXT - 1, 1), *token = tokens(1, 1, 5), *out;
    double plain[DECODED], replay[DECODED];
    struct decoding as_it_is, compiled;
    weft_module *llama;

    llama = bench_need(weft_llama(
        (weft_llama_config){.vocab = 256, .width = 384, .heads = 6, .layers = 6, .hidden = 1024}));
    WEFT_CHECK(weft_parallelize_module(llama, mesh, weft_gpt_plan()));
    weft_module_train(llama, false);
    weft_no_grad_open();
    WEFT_CHECK(weft_module_cache(llama, DECODE_CONTEXT));
    WEFT_CHECK(decode(&prompt, 1, &out, 1, llama));
    as_it_is = (struct decoding){llama, token, NULL};
    compiled = (struct decoding){
        llama, token,
        bench_need(weft_compile(decode, llama, (weft_compile_config){.name = "bench decode"}))};
    for (int i = 0; i < 4; i++) bench_steps(mesh, 1, decode_token, &compiled);
    for (int i = 0; i < DECODED; i++) {
        plain[i] = bench_steps(mesh, 1, decode_token, &as_it_is).min;
        replay[i] = bench_steps(mesh, 1, decode_token, &compiled).min;
    }
    if (weft_world_rank() == 0) {
        bench_line(1e6 * bench_median(replay, DECODED), "us", "compile.token_us.decode");
        bench_line(bench_median(plain, DECODED) / bench_median(replay, DECODED), "ratio",
                   "compile.vs_eager.decode");
        bench_line((double)weft_compiled_get_counts(compiled.compiled).replays, "calls",
                   "compile.replays.decode");
    }
    WEFT_CHECK(weft_no_grad_close());
    weft_compiled_release(compiled.compiled);
    weft_module_release(llama);
    weft_scope_close(scope);
}

/* ---- beside the steps that are written by hand ---- */

enum { RANKS = 2, PAIRS = 3 };

static void measure_pair(const char *ours, const char *theirs, const char *key,
                         const char *arguments)
{
    struct bench_run our, their;

    bench_pair(RANKS, PAIRS, ours, theirs, arguments, &our, &their);
    bench_line(our.step_ms, "ms", "compile.step_ms.%s", key);
    bench_line(our.step_ms / their.step_ms, "ratio", "compile.vs_hand.%s", key);
}

static void measure_beside_hand(void)
{
    setenv("BENCH_COMPILED", "1", 1);
    measure_pair("mlp", "hand_mlp", "mlp.16", "16 200");
    measure_pair("mlp", "hand_mlp", "mlp.128", "128 60");
    measure_pair("mlp", "hand_mlp", "mlp.512", "512 20");
    measure_pair("gpt", "hand_gpt", "gpt.6x384", "6 384 6 256 8 256 8");
    measure_pair("gpt", "hand_gpt", "gpt.12x768", "12 768 12 256 4 50304 3");
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    int rounds = argc > 2 ? atoi(argv[2]) : 0;

    if (strcmp(what, "vs_hand") == 0) return measure_beside_hand(), EXIT_SUCCESS;
    WEFT_CHECK(weft_init(&argc, &argv));
    if (*what) {
        weft_mesh *mesh = bench_need(weft_mesh_new(WEFT_CPU, "tp=%d", weft_world_size()));

        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
            if (strcmp(what, kinds[i].name) == 0)
                measure_training(mesh, &kinds[i], rounds > 0 ? rounds : kinds[i].rounds);
        if (strcmp(what, "decode") == 0) measure_decode(mesh);
        weft_mesh_release(mesh);
    } else {
        measure_chain();
        measure_nodes();
        measure_captures(100, "100");
        measure_captures(LARGE, "10000");
    }
    return weft_finalize();
}
