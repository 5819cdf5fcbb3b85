/*
 * ops_large.c: ops that do much at once, one thread, beside what a careful caller of oneDNN or
 * torch has, and the speed-up of a second thread in a rank.
 *
 *     ops_large [WORD]     only groups whose name has it
 */
#include "support/bench.h"

#include <dnnl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/settings/knob.h"

enum { ROUNDS = 7 };

typedef weft_tensor *bench_large_op(weft_tensor *const *in);

static weft_tensor *noise(const int64_t *shape, int ndim, int stream)
{
    weft_tensor *t = bench_need(weft_empty(WEFT_F32, shape, ndim));

    bench_fill(t, stream, 0, 0.5f, 0);
    return t;
}

/* Seconds of CPU time of a call, with gradients of the n leaves when one is given. */
static double once(bench_large_op *call, weft_tensor *const *in, int n, weft_tensor *gradient)
{
    weft_scope *scope = weft_scope_open();
    double began = bench_cpu_now();
    weft_tensor *y = bench_need(call(in));

    if (gradient) WEFT_CHECK(weft_backward_from(y, gradient));
    began = bench_cpu_now() - began;
    for (int i = 0; gradient && i < n; i++) weft_zero_grad(in[i]);
    weft_scope_close(scope);
    return began;
}

/* ops.ms.KEY and ops.ms.KEY_backward, the best of the rounds; the second with the first in it. */
static void measure(bench_large_op *call, weft_tensor *const *in, int n, const char *key)
{
    weft_scope *scope = weft_scope_open();
    double forward = INFINITY, both = INFINITY;
    weft_tensor *gradient = bench_need(weft_full_like(bench_need(call(in)), 0.75));

    for (int i = 0; i < ROUNDS; i++) forward = fmin(forward, once(call, in, 0, NULL));
    for (int i = 0; i < n; i++) weft_set_requires_grad(in[i], true);
    for (int i = 0; i < ROUNDS; i++) both = fmin(both, once(call, in, n, gradient));
    bench_line(1e3 * forward, "ms", "ops.ms.%s", key);
    bench_line(1e3 * both, "ms", "ops.ms.%s_backward", key);
    weft_scope_close(scope);
}

/* ---- linear beside oneDNN ---- */

static weft_tensor *call_linear(weft_tensor *const *in)
{
    return weft_linear(in[0], in[1], NULL, 1);
}

/* Row-major y [m,n] = x [m,k] op(w), as oneDNN itself does it; CPU seconds. */
static double onednn(char tx, char tw, int64_t m, int64_t n, int64_t k, const float *x,
                     const float *w, float *y)
{
    double began = bench_cpu_now();

    dnnl_sgemm(tx, tw, m, n, k, 1, x, tx == 'T' ? m : k, w, tw == 'T' ? k : n, 0, y, n);
    return bench_cpu_now() - began;
}

static double linear(int64_t m, int64_t k, int64_t n)
{
    weft_tensor *x = noise((int64_t[]){m, k}, 2, 1), *w = noise((int64_t[]){n, k}, 2, 2);
    weft_tensor *d = noise((int64_t[]){m, n}, 2, 3), *y = noise((int64_t[]){m, n}, 2, 4);
    weft_tensor *dx = noise((int64_t[]){m, k}, 2, 5), *dw = noise((int64_t[]){n, k}, 2, 6);
    weft_tensor *in[] = {x, w};
    double ours[2] = {INFINITY, INFINITY}, theirs[2] = {INFINITY, INFINITY}, least = INFINITY;

    for (int i = 0; i < 2 * ROUNDS; i++) {
        ours[0] = fmin(ours[0], once(call_linear, in, 0, NULL));
        theirs[0] =
            fmin(theirs[0], onednn('N', 'T', m, n, k, weft_data(x), weft_data(w), weft_data(y)));
        weft_set_requires_grad(x, true);
        weft_set_requires_grad(w, true);
        ours[1] = fmin(ours[1], once(call_linear, in, 2, d));
        weft_set_requires_grad(x, false);
        weft_set_requires_grad(w, false);
        theirs[1] = fmin(theirs[1],
                         onednn('N', 'T', m, n, k, weft_data(x), weft_data(w), weft_data(y)) +
                             onednn('N', 'N', m, k, n, weft_data(d), weft_data(w), weft_data(dx)) +
                             onednn('T', 'N', n, k, m, weft_data(d), weft_data(x), weft_data(dw)));
    }
    for (int i = 0; i < 2; i++) {
        bench_line(theirs[i] / ours[i], "ratio", "ops.gemm_vs_onednn.%s.%dx%dx%d",
                   i ? "with_gradients" : "forward", (int)m, (int)k, (int)n);
        least = fmin(least, theirs[i] / ours[i]);
    }
    return least;
}

static void run_linear(void)
{
    double least =
        fmin(linear(1024, 768, 3072), fmin(linear(1024, 3072, 768), linear(256, 512, 512)));

    bench_line(least, "ratio", "ops.gemm_vs_onednn");
}

/* ---- beside torch ---- */

static weft_tensor *call_attention(weft_tensor *const *in)
{
    return weft_attention(in[0], in[1], in[2], true, 0);
}

static void run_attention(void)
{
    static const int contexts[] = {256, 1024, 4096};

    for (int i = 0; i < 3; i++) {
        int64_t shape[] = {1, contexts[i], 12, 64};
        weft_tensor *in[] = {noise(shape, 4, 1), noise(shape, 4, 2), noise(shape, 4, 3)};
        char key[40];

        snprintf(key, sizeof key, "attention.%d", contexts[i]);
        measure(call_attention, in, 3, key);
    }
}

static weft_tensor *targets;

static weft_tensor *call_cross_entropy(weft_tensor *const *in)
{
    return weft_cross_entropy(in[0], targets, 0);
}

static void run_cross_entropy(void)
{
    enum { TOKENS = 1024, CLASSES = 50304 };
    weft_tensor *z = noise((int64_t[]){TOKENS, CLASSES}, 2, 1);
    int64_t *at;

    targets = bench_need(weft_empty(WEFT_I64, (int64_t[]){TOKENS}, 1));
    at = weft_data(targets);
    for (int i = 0; i < TOKENS; i++) at[i] = i * 49 % CLASSES;
    measure(call_cross_entropy, &z, 1, "cross_entropy.1024x50304");
}

static int64_t padding;

static weft_tensor *call_conv(weft_tensor *const *in)
{
    return weft_conv2d(in[0], in[1], NULL, (weft_conv_options){.padding = {padding, padding}});
}

static void run_conv(void)
{
    static const int shapes[][4] = {{3, 56, 64, 64},   {3, 28, 128, 128},  {3, 14, 256, 256},
                                    {3, 7, 512, 512},  {1, 56, 64, 256},   {1, 56, 256, 64},
                                    {1, 28, 512, 128}, {1, 14, 256, 1024}, {1, 7, 2048, 512}};

    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const int *s = shapes[i];
        weft_tensor *in[] = {noise((int64_t[]){4, s[2], s[1], s[1]}, 4, 1),
                             noise((int64_t[]){s[3], s[2], s[0], s[0]}, 4, 2)};
        char key[60];

        padding = s[0] / 2;
        snprintf(key, sizeof key, "conv.%dx%d_%d_%d_%d", s[0], s[0], s[1], s[2], s[3]);
        measure(call_conv, in, 2, key);
    }
}

static weft_tensor *call_scan(weft_tensor *const *in)
{
    return weft_linear_scan(in[0], in[1], NULL, 1);
}

static void run_scan(void)
{
    static const int64_t shape[] = {8, 1024, 512};
    weft_tensor *in[] = {noise(shape, 3, 1), noise(shape, 3, 2)};

    measure(call_scan, in, 2, "scan.8x1024x512");
}

/* ---- a second thread ---- */

static weft_tensor *call_add(weft_tensor *const *in) { return weft_add(in[0], in[1]); }
static weft_tensor *call_gelu(weft_tensor *const *in) { return weft_gelu(in[0]); }
static weft_tensor *call_lgamma(weft_tensor *const *in) { return weft_lgamma(in[0]); }
static weft_tensor *call_softmax(weft_tensor *const *in) { return weft_softmax(in[0], 1); }
static weft_tensor *call_norm(weft_tensor *const *in)
{
    return weft_layer_norm(in[0], NULL, NULL, 1e-5);
}
static weft_tensor *call_sum(weft_tensor *const *in)
{
    return weft_sum(in[0], (int[]){1}, 1, false);
}
static weft_tensor *call_product(weft_tensor *const *in) { return weft_matmul(in[0], in[2]); }

/* The clock's seconds, and those of CPU time in this thread, of a call. */
static void time_call(bench_large_op *call, weft_tensor *const *in, double *clock, double *cpu)
{
    weft_scope *scope = weft_scope_open();

    *clock = bench_now();
    *cpu = bench_cpu_now();
    bench_need(call(in));
    *cpu = bench_cpu_now() - *cpu;
    *clock = bench_now() - *clock;
    weft_scope_close(scope);
}

/*
 * Medians of calls by turns. By the clock the machine must have two cores to spare; where others
 * use them, CPU time of the calling thread, which does half and sleeps until the other half is
 * done, says what two free cores would give.
 */
static void run_two_threads(void)
{
    enum { TURNS = 41 };
    static const struct {
        const char *name;
        bench_large_op *call;
    } ops[] = {{"add", call_add},         {"gelu", call_gelu},       {"lgamma", call_lgamma},
               {"softmax", call_softmax}, {"layer_norm", call_norm}, {"sum_rows", call_sum},
               {"matmul", call_product}};
    enum { OPS = sizeof ops / sizeof *ops };
    weft_tensor *in[] = {noise((int64_t[]){4096, 1024}, 2, 1), noise((int64_t[]){4096, 1024}, 2, 2),
                         noise((int64_t[]){1024, 512}, 2, 3)};
    double least_clock = INFINITY, least_cpu = INFINITY;

    for (size_t i = 0; i < OPS; i++) {
        double clock[2][TURNS], cpu[2][TURNS], by_clock, by_cpu;

        wf_knobs.threads = 2; /* plans made with it run on one as well */
        time_call(ops[i].call, in, clock[0], cpu[0]);
        for (int turn = 0; turn < TURNS; turn++)
            for (int t = 0; t < 2; t++) {
                wf_knobs.threads = t + 1;
                time_call(ops[i].call, in, &clock[t][turn], &cpu[t][turn]);
            }
        by_clock = bench_median(clock[0], TURNS) / bench_median(clock[1], TURNS);
        by_cpu = bench_median(cpu[0], TURNS) / bench_median(cpu[1], TURNS);
        bench_line(by_clock, "ratio", "ops.two_threads.%s", ops[i].name);
        bench_line(by_cpu, "ratio", "ops.two_threads_cpu.%s", ops[i].name);
        least_clock = fmin(least_clock, by_clock);
        least_cpu = fmin(least_cpu, by_cpu);
    }
    wf_knobs.threads = 1;
    bench_line(least_clock, "ratio", "ops.two_threads");
    bench_line(least_cpu, "ratio", "ops.two_threads_cpu");
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } groups[] = {
        {"gemm", run_linear}, {"attention", run_attention}, {"cross_entropy", run_cross_entropy},
        {"conv", run_conv},   {"scan", run_scan},           {"two_threads", run_two_threads}};
    const char *word = argc > 1 ? argv[1] : "";

    WEFT_CHECK(weft_init(&argc, &argv));
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        weft_scope *scope = weft_scope_open();

        if (strstr(groups[i].name, word)) groups[i].run();
        weft_scope_close(scope);
    }
    return weft_finalize();
}
