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

#include "base/elements/dtype.h"
#include "dtensor/dispatch/plan_cache.h"
#include "mesh/mesh.h"
#include "support/bench.h"
#include "support/malloc_count.h"

enum { ROWS = 16, COLS = 8, ROUNDS = 25, BATCH = 32, SCOPES = 20, MAX_CALLS = 64, CHAIN_NODES = 5 };

struct fixture {
    weft_mesh *mesh;               /* NULL: everything plain */
    weft_tensor *a, *b, *w, *bias; /* a, b: split over rows; w, bias replicated */
    weft_tensor *r;                /* like a, but replicated */
};

typedef weft_tensor *op_fn(const struct fixture *f);

/* ---- the ops ---- */
static weft_tensor *op_detach(const struct fixture *f) { return weft_detach(f->a); }
static weft_tensor *op_add(const struct fixture *f) { return weft_add(f->a, f->b); }
static weft_tensor *op_add_number(const struct fixture *f) { return weft_add_scalar(f->a, 1.5); }
static weft_tensor *op_mul_number(const struct fixture *f) { return weft_mul_scalar(f->a, 1.5); }
static weft_tensor *op_add_inplace(const struct fixture *f) { return weft_add_(f->a, f->b); }
static weft_tensor *op_gelu(const struct fixture *f) { return weft_gelu(f->a); }
static weft_tensor *op_matmul(const struct fixture *f) { return weft_matmul(f->a, f->w); }
static weft_tensor *op_sum(const struct fixture *f) { return weft_sum_all(f->a); }
static weft_tensor *op_transpose(const struct fixture *f) { return weft_transpose(f->a, 0, 1); }
static weft_tensor *op_slice(const struct fixture *f) { return weft_slice(f->a, 1, 2, 6); }

static weft_tensor *op_reshape(const struct fixture *f)
{
    int64_t shape[] = {-1, 2, 4};

    return weft_reshape(f->a, shape, 3);
}

/* Not among the plain ones: an input that is cut first, a redistribution to nowhere, a tape. */
static weft_tensor *op_cut_first(const struct fixture *f) { return weft_add(f->r, f->a); }

static weft_tensor *op_redistribute_same(const struct fixture *f)
{
    weft_placement split = weft_shard(0);

    return weft_redistribute(f->a, &split);
}

static weft_tensor *op_chain(const struct fixture *f)
{
    weft_tensor *y = weft_add(weft_gelu(weft_linear(f->a, f->w, f->bias, 1)), f->b);
    weft_tensor *loss = weft_sum_all(weft_to_local(y, NULL));
    weft_tensor *leaves[] = {f->a, f->b, f->w, f->bias};

    WEFT_CHECK(weft_backward(loss));
    for (int i = 0; i < 4; i++) weft_zero_grad(leaves[i]);
    return loss;
}

static const struct op {
    const char *name;
    op_fn *run;
} ops[] = {{"detach", op_detach},           {"add", op_add},
           {"add_number", op_add_number},   {"mul_number", op_mul_number},
           {"add_inplace", op_add_inplace}, {"gelu", op_gelu},
           {"matmul", op_matmul},           {"sum", op_sum},
           {"transpose", op_transpose},     {"slice", op_slice},
           {"reshape", op_reshape}};
enum { OPS = sizeof ops / sizeof *ops };

/* ---- tensors ---- */
static weft_tensor *spread(const struct fixture *f, int64_t rows, weft_placement placement)
{
    int axes = f->mesh ? weft_mesh_ndim(f->mesh) : 0;
    bool split = placement.kind == WEFT_KIND_SHARD;
    int64_t global[] = {rows, COLS}, local[] = {rows, COLS};
    weft_placement placements[WEFT_MAX_AXES];
    weft_tensor *t;

    for (int i = 0; i < axes; i++) {
        placements[i] = placement;
        if (split) local[0] /= weft_mesh_axis_size(f->mesh, i);
    }
    if (!f->mesh && split) local[0] /= 2;
    t = bench_need(weft_full(WEFT_F32, local, 2, 0.25));
    return f->mesh ? bench_need(weft_from_local(t, f->mesh, placements, global)) : t;
}

static weft_tensor *vector(const struct fixture *f)
{
    int64_t shape[] = {COLS};
    weft_placement whole[WEFT_MAX_AXES] = {{0}};
    weft_tensor *t = bench_need(weft_full(WEFT_F32, shape, 1, 0.25));

    return f->mesh ? bench_need(weft_from_local(t, f->mesh, whole, shape)) : t;
}

static struct fixture make_fixture(weft_mesh *mesh)
{
    struct fixture f = {.mesh = mesh};

    f.a = spread(&f, ROWS, weft_shard(0));
    f.b = spread(&f, ROWS, weft_shard(0));
    f.w = spread(&f, COLS, weft_replicate());
    f.r = spread(&f, ROWS, weft_replicate());
    f.bias = vector(&f);
    return f;
}

static void want_gradients(struct fixture *f)
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

/* ---- time per call, kernels included ---- */
static void run_batches(op_fn *run, const struct fixture *f, int scopes)
{
    for (int i = 0; i < scopes; i++) {
        weft_scope *scope = weft_scope_open();
        for (int j = 0; j < BATCH; j++) run(f);
        weft_scope_close(scope);
    }
}

/* A thread's first handles are new ones, and are used again once many others rest. */
static void use_many_handles(const struct fixture *f)
{
    enum { MANY = 40000 };

    run_batches(op_detach, f, MANY / BATCH);
}

static double call_ns(op_fn *run, const struct fixture *f)
{
    double best = 0;

    run_batches(run, f, SCOPES);
    for (int round = 0; round < ROUNDS; round++) {
        double start = bench_cpu_now();
        run_batches(run, f, SCOPES);
        double ns = 1e9 * (bench_cpu_now() - start) / (SCOPES * BATCH);
        if (best == 0 || ns < best) best = ns;
    }
    return best;
}

/* ---- the kernels of a call, alone ---- */
struct kernel {
    struct wf_op_plan *plan;
    void *in[WF_MAX_IN], *out[WF_MAX_OUT];
};

static struct kernel kernels[MAX_CALLS];
static int n_kernels;
static bool noting;

/* The linker's --wrap gives these two their names: dispatch calls the first in place of the second.
 */
struct wf_op_plan *__wrap_wf_op_plan_lookup(enum wf_op op, int n, weft_tensor *const *in,
                                            const struct wf_op_args *args);
struct wf_op_plan *__real_wf_op_plan_lookup(enum wf_op op, int n, weft_tensor *const *in,
                                            const struct wf_op_args *args);

struct wf_op_plan *__wrap_wf_op_plan_lookup(enum wf_op op, int n, weft_tensor *const *in,
                                            const struct wf_op_args *args)
{
    struct wf_op_plan *plan = __real_wf_op_plan_lookup(op, n, in, args);

    if (noting && plan && plan->kernel.run && n_kernels < MAX_CALLS)
        kernels[n_kernels++].plan = plan;
    return plan;
}

static void *buffer_for(const struct wf_layout *layout)
{
    int64_t elements = 1;

    for (int d = 0; d < layout->desc.ndim; d++)
        elements += (layout->desc.shape[d] - 1) * layout->desc.stride[d];
    return bench_need(calloc((size_t)elements, wf_dtypes[layout->desc.dtype].size));
}

static void note_kernels(op_fn *run, const struct fixture *f)
{
    weft_scope *scope = weft_scope_open();

    n_kernels = 0;
    noting = true;
    run(f);
    noting = false;
    weft_scope_close(scope);
    for (struct kernel *k = kernels; k < kernels + n_kernels; k++) {
        for (int i = 0; i < k->plan->n_in; i++)
            k->in[i] =
                k->plan->used[i] && !k->plan->absent[i] ? buffer_for(k->plan->used[i]) : NULL;
        for (int j = 0; j < k->plan->n_out; j++)
            k->out[j] = k->plan->out[j] ? buffer_for(k->plan->out[j]) : NULL;
    }
}

static void free_kernels(void)
{
    for (struct kernel *k = kernels; k < kernels + n_kernels; k++) {
        for (int i = 0; i < k->plan->n_in; i++) free(k->in[i]);
        for (int j = 0; j < k->plan->n_out; j++) free(k->out[j]);
    }
}

static void run_kernels(int times)
{
    static const struct wf_scalars scalars;

    for (int i = 0; i < times; i++)
        for (struct kernel *k = kernels; k < kernels + n_kernels; k++)
            k->plan->kernel.run(&k->plan->kernel, k->out, (const void *const *)k->in, &scalars);
}

static double kernel_ns(op_fn *run, const struct fixture *f)
{
    double best = 0;

    note_kernels(run, f);
    for (int round = 0; round < ROUNDS && n_kernels > 0; round++) {
        double start = bench_cpu_now();
        run_kernels(SCOPES * BATCH);
        double ns = 1e9 * (bench_cpu_now() - start) / (SCOPES * BATCH);
        if (best == 0 || ns < best) best = ns;
    }
    free_kernels();
    return best;
}

static double host_ns(op_fn *run, const struct fixture *f)
{
    double whole = call_ns(run, f);

    return whole - kernel_ns(run, f);
}

/* ---- hits ---- */
static void report_ops(const char *key, const struct fixture *f)
{
    double worst = 0;

    for (int i = 0; i < OPS; i++) {
        double ns = host_ns(ops[i].run, f);
        bench_line(ns, "ns", "dispatch.%s.%s", key, ops[i].name);
        if (ns > worst) worst = ns;
    }
    bench_line(worst, "ns", "dispatch.%s", key);
}

static void report_hits(weft_mesh *mesh)
{
    struct fixture spread_out = make_fixture(mesh), plain = make_fixture(NULL);

    use_many_handles(&plain);
    report_ops("nograd_ns", &spread_out);
    report_ops("local_ns", &plain);
    bench_line(host_ns(op_cut_first, &spread_out), "ns", "dispatch.slice_ns");
    bench_line(host_ns(op_redistribute_same, &spread_out), "ns", "dispatch.redistribute_same_ns");
    want_gradients(&spread_out);
    bench_line(host_ns(op_chain, &spread_out) / CHAIN_NODES, "ns", "dispatch.grad_ns");
}

/* ---- what a thousand steps ask of the system ---- */
static void report_mallocs(weft_mesh *mesh)
{
    struct fixture f = make_fixture(mesh);
    int64_t mallocs, mapped;

    want_gradients(&f);
    run_batches(op_chain, &f, 4);
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
static void new_scalar(const struct fixture *f, int64_t i) { weft_mul_scalar(f->a, (double)i); }

static void new_bounds(const struct fixture *f, int64_t i) { weft_slice(f->r, 0, i, i + 4); }

static void new_length(const struct fixture *f, int64_t i)
{
    weft_gelu(weft_slice(f->r, 0, 0, i + 1));
}

static void report_entries(weft_mesh *mesh)
{
    static const struct {
        const char *name;
        void (*call)(const struct fixture *f, int64_t i);
    } news[] = {{"scalars", new_scalar}, {"bounds", new_bounds}, {"lengths", new_length}};
    struct fixture f = make_fixture(mesh);

    f.r = spread(&f, 2000, weft_replicate());
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
    struct fixture f = {.mesh = grid(axes)};
    double us[SHAPES];

    f.w = spread(&f, COLS, weft_replicate());
    for (int i = 0; i < SHAPES; i++) {
        weft_scope *scope = weft_scope_open();
        f.a = spread(&f, ROWS + 8 * i, weft_shard(0));
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
__attribute__((noinline)) static void counted_calls(op_fn *run, const struct fixture *f, int scopes)
{
    run_batches(run, f, scopes);
}

__attribute__((noinline)) static void counted_kernels(int times) { run_kernels(times); }

static op_fn *op_named(const char *name)
{
    if (strcmp(name, "chain") == 0) return op_chain;
    for (int i = 0; i < OPS; i++)
        if (strcmp(ops[i].name, name) == 0) return ops[i].run;
    fprintf(stderr, "dispatch: no op %s\n", name);
    exit(EXIT_FAILURE);
}

static void count(bool only_kernels, const char *name, int times, weft_mesh *mesh)
{
    struct fixture f = make_fixture(mesh);
    op_fn *run = op_named(name);

    if (run == op_chain) want_gradients(&f);
    use_many_handles(&f);
    run_batches(run, &f, 2);
    note_kernels(run, &f);
    if (only_kernels)
        counted_kernels(times);
    else
        counted_calls(run, &f, times / BATCH);
    free_kernels();
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
    enum { TIMES = 64 * BATCH };
    double whole = instructions("count", op, TIMES);

    return whole < 0 ? -1 : (whole - instructions("count-kernel", op, TIMES)) / TIMES;
}

static void report_instructions(void)
{
    double worst = 0, chain = host_instructions("chain");

    if (chain < 0) {
        fprintf(stderr, "dispatch.instructions: needs valgrind\n");
        return;
    }
    for (int i = 0; i < OPS; i++) {
        double n = host_instructions(ops[i].name);
        bench_line(n, "instructions", "dispatch.instructions.%s", ops[i].name);
        if (n > worst) worst = n;
    }
    bench_line(worst, "instructions", "dispatch.instructions");
    bench_line(chain / CHAIN_NODES, "instructions", "dispatch.grad_instructions");
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
