/*
 * gpu.c: what an op on a GPU costs the host, and, on a GPU, products, pointwise ops, training and
 * steps as graphs. scripts/bench builds libweft-cuda.so for it, and where there is no GPU runs it
 * in the stand-in for the CUDA runtime (tests/gpu), whose launches do nothing.
 *
 * cuda.dispatch_ns is the time of a call less what the same op's call takes on the CPU without its
 * kernels; on a GPU what the driver takes for a launch is in it.
 *
 * run: gpu
 */
#include <stdio.h>
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
    weft_tensor *(*op)(weft_tensor *a, weft_tensor *b);
    weft_module *model;
    weft_optim *optim;
    weft_tensor *tokens, *targets;
    weft_step_graph *graph;
};

static void multiply(void *payload)
{
    struct work *w = payload;

    bench_need(weft_matmul(w->a, w->b));
}

static weft_tensor *train_step(weft_tensor *const *in, int n, void *payload)
{
    struct work *w = payload;
    weft_tensor *loss = n == 2 ? weft_gpt_loss(w->model, in[0], in[1]) : NULL;

    if (!loss || weft_backward(loss) != WEFT_OK || weft_step(w->optim) != WEFT_OK) return NULL;
    return loss;
}

static void train(void *payload)
{
    struct work *w = payload;
    weft_tensor *in[] = {w->tokens, w->targets};

    bench_need(w->graph ? weft_step_graph_run(w->graph, in, 2) : train_step(in, 2, w));
}

static weft_tensor *copy(weft_tensor *a, weft_tensor *b)
{
    return weft_copy_(b, a) == WEFT_OK ? b : NULL;
}

static weft_tensor *gelu(weft_tensor *a, weft_tensor *b)
{
    (void)b;
    return weft_gelu(a);
}

static void compute(void *payload)
{
    struct work *w = payload;

    bench_need(w->op(w->a, w->b));
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

/* Bytes read and written a second, over those of a copy; the least. */
static void report_pointwise(void)
{
    enum { SIDE = 8192, CALLS = 50 };
    static const struct {
        const char *name;
        weft_tensor *(*op)(weft_tensor *a, weft_tensor *b);
        int streams; /* tensors read and written */
    } ops[] = {{"copy", copy, 2}, {"add", weft_add, 3}, {"gelu", gelu, 2}};
    int64_t shape[] = {SIDE, SIDE};
    weft_scope *scope = weft_scope_open();
    struct work work = {.a = bench_need(weft_full(WEFT_BF16, shape, 2, 0.5)),
                        .b = bench_need(weft_full(WEFT_BF16, shape, 2, 0.25))};
    double bytes = 2.0 * (double)SIDE * (double)SIDE, copied = 0, least = 1e9;

    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        double rate;

        work.op = ops[i].op;
        rate = ops[i].streams * bytes / seconds_of(compute, &work, CALLS);
        bench_line(1e3 * ops[i].streams * bytes / rate, "ms", "gpu.%s_ms.bf16", ops[i].name);
        if (i == 0) copied = rate;
        if (i > 0 && rate / copied < least) least = rate / copied;
    }
    bench_line(least, "ratio", "gpu.pointwise_vs_copy");
    weft_scope_close(scope);
}

struct model_sizes {
    int64_t batch, context, vocab, width, heads;
    int layers;
};

static struct work new_training(const struct model_sizes *s)
{
    int64_t shape[] = {s->batch, s->context};
    struct work work = {.tokens = bench_need(weft_empty(WEFT_I64, shape, 2)),
                        .targets = bench_need(weft_empty(WEFT_I64, shape, 2))};

    WEFT_CHECK(weft_randint_(work.tokens, 0, s->vocab, NULL));
    WEFT_CHECK(weft_randint_(work.targets, 0, s->vocab, NULL));
    work.model = bench_need(weft_gpt((weft_gpt_config){.vocab = s->vocab,
                                                       .context = s->context,
                                                       .width = s->width,
                                                       .heads = s->heads,
                                                       .layers = s->layers,
                                                       .act = WEFT_GELU_TANH,
                                                       .dtype = WEFT_BF16}));
    work.optim = bench_need(weft_adamw(work.model, (weft_adamw_config){.lr = 3e-4}));
    return work;
}

static void end_training(struct work *work)
{
    weft_step_graph_release(work->graph); /* NULL: there is none */
    weft_optim_release(work->optim);
    weft_module_release(work->model);
}

static void report_training(void)
{
    static const struct model_sizes gpt2 = {8, 1024, 50304, 768, 12, 12};
    weft_scope *scope = weft_scope_open();
    struct work work = new_training(&gpt2);
    double seconds = seconds_of(train, &work, 10);

    bench_line(1e3 * seconds, "ms", "gpu.step_ms.124M");
    bench_line((double)(gpt2.batch * gpt2.context) / seconds, "tokens/s", "gpu.tokens_per_s.124M");
    end_training(&work);
    weft_scope_close(scope);
}

/* A model so small that a step waits for the host: as it is, and launched as a graph. */
static void report_graph(void)
{
    static const struct model_sizes small = {1, 128, 1024, 256, 4, 6};
    weft_mesh *mesh = bench_need(weft_mesh_new(WEFT_CUDA, "tp=1"));
    weft_scope *scope = weft_scope_open();
    struct work work = new_training(&small);
    double as_it_is = seconds_of(train, &work, 50), launched;

    work.graph = bench_need(weft_step_graph_new(mesh, train_step, &work));
    launched = seconds_of(train, &work, 50);
    if (weft_step_graph_reason(work.graph))
        printf("no graph: %s\n", weft_step_graph_reason(work.graph));
    bench_line(1e3 * as_it_is, "ms", "gpu.step_ms.small");
    bench_line(1e3 * launched, "ms", "gpu.graph_step_ms.small");
    bench_line(as_it_is / launched, "ratio", "gpu.graph_vs_none");
    end_training(&work);
    weft_scope_close(scope);
    weft_mesh_release(mesh);
}

int main(int argc, char **argv)
{
    const char *stand_in = getenv("WT_CUDA_LAUNCH_NOTHING");

    WEFT_CHECK(weft_init(&argc, &argv));
    report_dispatch();
    if (stand_in) {
        printf("There is no GPU here: only the host's part is measured.\n");
    } else {
        report_product();
        report_pointwise();
        report_training();
        report_graph();
    }
    return weft_finalize();
}
