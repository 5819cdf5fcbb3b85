/*
 * gpu.c: what an op on a GPU costs the host, and, on a GPU, products and training. scripts/bench
 * builds libweft-cuda.so for it, and where there is no GPU runs it in the stand-in for the CUDA
 * runtime (tests/gpu), whose launches do nothing.
 *
 * cuda.dispatch_ns is the time of a call less what the same op's call takes on the CPU without its
 * kernels. Memory's rates are weft-gpu-check's.
 *
 * run: gpu
 */
#include <stdlib.h>
#include <string.h>

#include "support/bench.h"
#include "support/op_calls.h"

static void report_dispatch(void)
{
    double worst = 0;

    for (int i = 0; i < bench_op_count; i++) {
        struct bench_operands on_cpu, on_gpu;
        weft_scope *scope = weft_scope_open();
        double ns, cpu;

        weft_set_default_device(WEFT_CPU);
        on_cpu = bench_operands_make(NULL);
        weft_set_default_device(WEFT_CUDA);
        on_gpu = bench_operands_make(NULL);
        bench_use_many_handles(&on_cpu);
        cpu = bench_host_ns(bench_ops[i].run, &on_cpu);
        bench_use_many_handles(&on_gpu);
        ns = bench_call_ns(bench_ops[i].run, &on_gpu);
        bench_line(ns, "ns", "cuda.call_ns.%s", bench_ops[i].name);
        bench_line(ns - cpu, "ns", "cuda.dispatch_ns.%s", bench_ops[i].name);
        if (ns - cpu > worst) worst = ns - cpu;
        weft_scope_close(scope);
    }
    bench_line(worst, "ns", "cuda.dispatch_ns");
}

/* ---- on a GPU; bench/pytorch/gpu.py has the same ---- */

struct work {
    weft_tensor *a, *b;
    weft_module *model;
    weft_optim *optim;
    weft_tensor *tokens, *targets;
};

static void multiply(void *payload)
{
    struct work *w = payload;

    bench_need(weft_matmul(w->a, w->b));
}

static void train(void *payload)
{
    struct work *w = payload;

    WEFT_CHECK(weft_backward(bench_need(weft_gpt_loss(w->model, w->tokens, w->targets))));
    WEFT_CHECK(weft_step(w->optim));
}

/* Seconds of a call, the middle of some rounds; `done` is a number that the host then reads. */
static double seconds_of(void (*call)(void *payload), struct work *work, int calls)
{
    enum { ROUNDS = 5 };
    double seconds[ROUNDS];
    weft_tensor *done = bench_need(weft_full(WEFT_F32, NULL, 0, 0));

    for (int round = -1; round < ROUNDS; round++) { /* the first makes plans and memory */
        double start = bench_now();

        for (int i = 0; i < calls; i++) {
            weft_scope *scope = weft_scope_open();

            call(work);
            weft_scope_close(scope);
        }
        WEFT_CHECK(weft_fill_(done, 1));
        (void)weft_item(done);
        if (round >= 0) seconds[round] = (bench_now() - start) / calls;
    }
    return bench_median(seconds, ROUNDS);
}

static void report_product(void)
{
    enum { SIDE = 8192, CALLS = 20 };
    int64_t shape[] = {SIDE, SIDE};
    weft_scope *scope = weft_scope_open();
    struct work work = {.a = bench_need(weft_full(WEFT_BF16, shape, 2, 0.5)),
                        .b = bench_need(weft_full(WEFT_BF16, shape, 2, 0.25))};

    bench_line(1e3 * seconds_of(multiply, &work, CALLS), "ms", "gpu.product_ms.bf16");
    weft_scope_close(scope);
}

/* A step that is captured once and launched as a graph belongs beside this one. */
static void report_training(void)
{
    enum { BATCH = 8, CONTEXT = 1024, VOCAB = 50304, CALLS = 10 };
    int64_t shape[] = {BATCH, CONTEXT};
    weft_scope *scope = weft_scope_open();
    struct work work = {.tokens = bench_need(weft_empty(WEFT_I64, shape, 2)),
                        .targets = bench_need(weft_empty(WEFT_I64, shape, 2))};
    double seconds;

    WEFT_CHECK(weft_randint_(work.tokens, 0, VOCAB, NULL));
    WEFT_CHECK(weft_randint_(work.targets, 0, VOCAB, NULL));
    work.model = bench_need(weft_gpt((weft_gpt_config){.vocab = VOCAB,
                                                       .context = CONTEXT,
                                                       .width = 768,
                                                       .heads = 12,
                                                       .layers = 12,
                                                       .act = WEFT_GELU_TANH,
                                                       .dtype = WEFT_BF16}));
    work.optim = bench_need(weft_adamw(work.model, (weft_adamw_config){.lr = 3e-4}));
    seconds = seconds_of(train, &work, CALLS);
    bench_line(1e3 * seconds, "ms", "gpu.step_ms.124M");
    bench_line(BATCH * CONTEXT / seconds, "tokens/s", "gpu.tokens_per_s.124M");
    weft_optim_release(work.optim);
    weft_module_release(work.model);
    weft_scope_close(scope);
}

int main(int argc, char **argv)
{
    const char *stand_in = getenv("WT_CUDA_LAUNCH_NOTHING");

    WEFT_CHECK(weft_init(&argc, &argv));
    report_dispatch();
    if (!stand_in) {
        report_product();
        report_training();
    }
    return weft_finalize();
}
