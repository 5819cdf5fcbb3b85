/*
 * dispatch.c: what an op costs beside its kernel, when its plan is cached and when it is not.
 *
 *     dispatch                     all lines
 *     dispatch count OP N          OP N times and nothing else, for callgrind
 *     dispatch count-kernel OP N   only its kernels
 *
 * Tensors are [8,8] on this rank, half of [16,8] on a mesh of 2. The mesh has no second rank behind
 * it: none of these ops communicates, and one process alone measures best. Host cost is the time of
 * an op minus the time of its kernels, which are called directly on buffers of the same layouts.
 * The gradient's figure is forward and backward of linear, gelu, add, to_local, sum, divided by
 * these five nodes; gradients are dropped after each pass, as an optimizer does.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dtensor/dispatch/plan_cache.h"
#include "mesh/mesh.h"
#include "support/bench.h"
#include "support/malloc_count.h"
#include "support/op_calls.h"

enum { CHAIN_NODES = 5 };

/* ---- ops that are not among the plain ones: an input that is cut first, a redistribution to
 * nowhere, a tape ---- */
static weft_tensor *op_cut_first(const struct bench_operands *f) { return weft_add(f->r, f->a); }

static weft_tensor *op_redistribute_same(const struct bench_operands *f)
{
    weft_placement split = weft_shard(0);

    return weft_redistribute(f->a, &split);
}

static weft_tensor *op_chain(const struct bench_operands *f)
{
    weft_tensor *y = weft_add(weft_gelu(weft_linear(f->a, f->w, f->bias, 1)), f->b);
    weft_tensor *loss = weft_sum_all(weft_to_local(y, NULL));
    weft_tensor *leaves[] = {f->a, f->b, f->w, f->bias};

    WEFT_CHECK(weft_backward(loss));
    for (int i = 0; i < 4; i++) weft_zero_grad(leaves[i]);
    return loss;
}

static void want_gradients(struct bench_operands *f)
{
    weft_tensor *leaves[] = {f->a, f->b, f->w, f->bias};

    for (int i = 0; i < 4; i++) bench_need(weft_set_requires_grad(leaves[i], true));
}

/* A grid of 2 along each axis, this process being its first rank. */
static weft_mesh *grid(int axes)
{
    static const int sizes[] = {2, 2, 2}, here[] = {0, 0, 0};
    static const char *const names[] = {"x", "y", "z"};

    return bench_need(wf_mesh_new_fake(sizes, here, names, axes));
}

/* ---- hits ---- */
static void report_ops(const char *key, const struct bench_operands *f)
{
    double worst = 0;

    for (int i = 0; i < bench_op_count; i++) {
        double ns = bench_host_ns(bench_ops[i].run, f);
        bench_line(ns, "ns", "dispatch.%s.%s", key, bench_ops[i].name);
        if (ns > worst) worst = ns;
    }
    bench_line(worst, "ns", "dispatch.%s", key);
}

static void report_hits(weft_mesh *mesh)
{
    struct bench_operands spread_out = bench_operands_make(mesh), plain = bench_operands_make(NULL);

    bench_use_many_handles(&plain);
    report_ops("nograd_ns", &spread_out);
    report_ops("local_ns", &plain);
    bench_line(bench_host_ns(op_cut_first, &spread_out), "ns", "dispatch.slice_ns");
    bench_line(bench_host_ns(op_redistribute_same, &spread_out), "ns",
               "dispatch.redistribute_same_ns");
    want_gradients(&spread_out);
    bench_line(bench_host_ns(op_chain, &spread_out) / (double)CHAIN_NODES, "ns",
               "dispatch.grad_ns");
}

/* ---- what a thousand steps ask of the system ---- */
static void report_mallocs(weft_mesh *mesh)
{
    struct bench_operands f = bench_operands_make(mesh);
    int64_t mallocs, mapped;

    want_gradients(&f);
    bench_run_batches(op_chain, &f, 4);
    mallocs = malloc_count();
    mapped = wf_pool_system_calls();
    for (int i = 0; i < 1000; i++) {
        weft_scope *scope = weft_scope_open();
        op_chain(&f);
        weft_scope_close(scope);
    }
    bench_line((double)(malloc_count() - mallocs), "calls", "dispatch.mallocs");
    bench_line((double)(wf_pool_system_calls() - mapped), "calls", "dispatch.pool_system_calls");
}

/* ---- what new numbers, bounds and lengths leave in the cache ---- */
static void new_scalar(const struct bench_operands *f, int64_t i)
{
    weft_mul_scalar(f->a, (double)i);
}

static void new_bounds(const struct bench_operands *f, int64_t i) { weft_slice(f->r, 0, i, i + 4); }

static void new_length(const struct bench_operands *f, int64_t i)
{
    weft_gelu(weft_slice(f->r, 0, 0, i + 1));
}

static void report_entries(weft_mesh *mesh)
{
    static const struct {
        const char *name;
        void (*call)(const struct bench_operands *f, int64_t i);
    } news[] = {{"scalars", new_scalar}, {"bounds", new_bounds}, {"lengths", new_length}};
    struct bench_operands f = bench_operands_make(mesh);

    f.r = bench_spread(&f, 2000, weft_replicate());
    for (int n = 0; n < 3; n++) {
        int64_t before = 0;
        for (int64_t i = 0; i < 1000; i++) {
            weft_scope *scope = weft_scope_open();
            if (i == 1) before = weft_plan_cache_statistics().plan_entries;
            news[n].call(&f, i);
            weft_scope_close(scope);
        }
        bench_line((double)(weft_plan_cache_statistics().plan_entries - before), "entries",
                   "dispatch.entries.%s", news[n].name);
    }
}

/* ---- misses: a product with a shape not seen before, beyond the same product seen ---- */
static void report_misses(int axes)
{
    enum { SHAPES = 101 };
    struct bench_operands f = {.mesh = grid(axes)};
    double us[SHAPES];

    f.w = bench_spread(&f, BENCH_COLUMNS, weft_replicate());
    for (int i = 0; i < SHAPES; i++) {
        weft_scope *scope = weft_scope_open();
        f.a = bench_spread(&f, BENCH_ROWS + 8 * i, weft_shard(0));
        double start = bench_now();
        bench_need(weft_matmul(f.a, f.w));
        double seen = bench_now();
        bench_need(weft_matmul(f.a, f.w));
        us[i] = 1e6 * (2 * seen - start - bench_now());
        weft_scope_close(scope);
    }
    bench_line(bench_median(us, SHAPES), "us", "dispatch.miss_us.%dd", axes);
    weft_mesh_release(f.mesh);
}

/* ---- instructions: this program again, under callgrind, counting inside two functions ---- */
__attribute__((noinline)) static void counted_calls(bench_op_fn *run,
                                                    const struct bench_operands *f, int scopes)
{
    bench_run_batches(run, f, scopes);
}

__attribute__((noinline)) static void counted_kernels(int times) { bench_run_kernels(times); }

static bench_op_fn *op_named(const char *name)
{
    if (strcmp(name, "chain") == 0) return op_chain;
    for (int i = 0; i < bench_op_count; i++)
        if (strcmp(bench_ops[i].name, name) == 0) return bench_ops[i].run;
    fprintf(stderr, "dispatch: no op %s\n", name);
    exit(EXIT_FAILURE);
}

static void count(bool only_kernels, const char *name, int times, weft_mesh *mesh)
{
    struct bench_operands f = bench_operands_make(mesh);
    bench_op_fn *run = op_named(name);

    if (run == op_chain) want_gradients(&f);
    bench_use_many_handles(&f);
    bench_run_batches(run, &f, 2);
    bench_note_kernels(run, &f);
    if (only_kernels)
        counted_kernels(times);
    else
        counted_calls(run, &f, times / BENCH_BATCH);
    bench_free_kernels();
}

/* Instructions that callgrind collected, -1 when it could not run. */
static double instructions(const char *what, const char *op, int times)
{
    char command[512], line[512];
    double collected = -1;
    FILE *output;

    snprintf(
        command, sizeof command,
        "valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect='counted_*' "
        "/proc/%d/exe %s %s %d 2>&1",
        (int)getpid(), what, op, times);
    output = bench_need(popen(command, "r"));
    while (fgets(line, sizeof line, output)) {
        const char *found = strstr(line, "Collected : ");
        if (found) collected = atof(found + strlen("Collected : "));
    }
    pclose(output);
    return collected;
}

static double host_instructions(const char *op)
{
    enum { TIMES = 64 * BENCH_BATCH };
    double whole = instructions("count", op, TIMES);

    return whole < 0 ? -1 : (whole - instructions("count-kernel", op, TIMES)) / (double)TIMES;
}

static void report_instructions(void)
{
    double worst = 0, chain = host_instructions("chain");

    if (chain < 0) {
        fprintf(stderr, "dispatch.instructions: needs valgrind\n");
        return;
    }
    for (int i = 0; i < bench_op_count; i++) {
        double n = host_instructions(bench_ops[i].name);
        bench_line(n, "instructions", "dispatch.instructions.%s", bench_ops[i].name);
        if (n > worst) worst = n;
    }
    bench_line(worst, "instructions", "dispatch.instructions");
    bench_line(chain / (double)CHAIN_NODES, "instructions", "dispatch.grad_instructions");
}

int main(int argc, char **argv)
{
    weft_scope *scope;
    weft_mesh *mesh;

    WEFT_CHECK(weft_init(&argc, &argv));
    scope = weft_scope_open();
    mesh = grid(1);
    if (argc == 4) {
        count(strcmp(argv[1], "count-kernel") == 0, argv[2], atoi(argv[3]), mesh);
    } else {
        report_hits(mesh);
        report_mallocs(mesh);
        report_entries(mesh);
        for (int axes = 1; axes <= 3; axes++) report_misses(axes);
        report_instructions();
    }
    weft_scope_close(scope);
    weft_mesh_release(mesh);
    return weft_finalize();
}
