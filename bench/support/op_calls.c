/* op_calls.c: see op_calls.h. */
#include "support/op_calls.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/elements/dtype.h"
#include "dtensor/dispatch/plan_cache.h"
#include "support/bench.h"

enum { ROUNDS = 25, SCOPES = 20, MAX_CALLS = 64 };

static weft_tensor *op_detach(const struct bench_operands *f) { return weft_detach(f->a); }
static weft_tensor *op_add(const struct bench_operands *f) { return weft_add(f->a, f->b); }
static weft_tensor *op_add_number(const struct bench_operands *f)
{
    return weft_add_scalar(f->a, 1.5);
}
static weft_tensor *op_mul_number(const struct bench_operands *f)
{
    return weft_mul_scalar(f->a, 1.5);
}
static weft_tensor *op_add_inplace(const struct bench_operands *f) { return weft_add_(f->a, f->b); }
static weft_tensor *op_gelu(const struct bench_operands *f) { return weft_gelu(f->a); }
static weft_tensor *op_matmul(const struct bench_operands *f) { return weft_matmul(f->a, f->w); }
static weft_tensor *op_sum(const struct bench_operands *f) { return weft_sum_all(f->a); }
static weft_tensor *op_transpose(const struct bench_operands *f)
{
    return weft_transpose(f->a, 0, 1);
}
static weft_tensor *op_slice(const struct bench_operands *f) { return weft_slice(f->a, 1, 2, 6); }

static weft_tensor *op_reshape(const struct bench_operands *f)
{
    int64_t shape[] = {-1, 2, 4};

    return weft_reshape(f->a, shape, 3);
}

const struct bench_op bench_ops[] = {{"detach", op_detach},           {"add", op_add},
                                     {"add_number", op_add_number},   {"mul_number", op_mul_number},
                                     {"add_inplace", op_add_inplace}, {"gelu", op_gelu},
                                     {"matmul", op_matmul},           {"sum", op_sum},
                                     {"transpose", op_transpose},     {"slice", op_slice},
                                     {"reshape", op_reshape}};
const int bench_op_count = sizeof bench_ops / sizeof *bench_ops;

/* ---- tensors ---- */
weft_tensor *bench_spread(const struct bench_operands *f, int64_t rows, weft_placement placement)
{
    int axes = f->mesh ? weft_mesh_ndim(f->mesh) : 0;
    bool split = placement.kind == WEFT_KIND_SHARD;
    int64_t global[] = {rows, BENCH_COLUMNS}, local[] = {rows, BENCH_COLUMNS};
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

static weft_tensor *vector(const struct bench_operands *f)
{
    int64_t shape[] = {BENCH_COLUMNS};
    weft_placement whole[WEFT_MAX_AXES] = {{0}};
    weft_tensor *t = bench_need(weft_full(WEFT_F32, shape, 1, 0.25));

    return f->mesh ? bench_need(weft_from_local(t, f->mesh, whole, shape)) : t;
}

struct bench_operands bench_operands_make(weft_mesh *mesh)
{
    struct bench_operands f = {.mesh = mesh};

    f.a = bench_spread(&f, BENCH_ROWS, weft_shard(0));
    f.b = bench_spread(&f, BENCH_ROWS, weft_shard(0));
    f.w = bench_spread(&f, BENCH_COLUMNS, weft_replicate());
    f.r = bench_spread(&f, BENCH_ROWS, weft_replicate());
    f.bias = vector(&f);
    return f;
}

/* ---- time per call, kernels included ---- */
void bench_run_batches(bench_op_fn *run, const struct bench_operands *f, int scopes)
{
    for (int i = 0; i < scopes; i++) {
        weft_scope *scope = weft_scope_open();
        for (int j = 0; j < BENCH_BATCH; j++) run(f);
        weft_scope_close(scope);
    }
}

void bench_use_many_handles(const struct bench_operands *f)
{
    enum { MANY = 40000 };

    bench_run_batches(op_detach, f, MANY / BENCH_BATCH);
}

double bench_call_ns(bench_op_fn *run, const struct bench_operands *f)
{
    double best = 0;

    bench_run_batches(run, f, SCOPES);
    for (int round = 0; round < ROUNDS; round++) {
        double start = bench_cpu_now();
        bench_run_batches(run, f, SCOPES);
        double ns = 1e9 * (bench_cpu_now() - start) / (SCOPES * BENCH_BATCH);
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

void bench_note_kernels(bench_op_fn *run, const struct bench_operands *f)
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

void bench_free_kernels(void)
{
    for (struct kernel *k = kernels; k < kernels + n_kernels; k++) {
        for (int i = 0; i < k->plan->n_in; i++) free(k->in[i]);
        for (int j = 0; j < k->plan->n_out; j++) free(k->out[j]);
    }
}

void bench_run_kernels(int times)
{
    static const struct wf_scalars scalars;

    for (int i = 0; i < times; i++)
        for (struct kernel *k = kernels; k < kernels + n_kernels; k++)
            k->plan->kernel.run(&k->plan->kernel, k->out, (const void *const *)k->in, &scalars);
}

static double kernel_ns(bench_op_fn *run, const struct bench_operands *f)
{
    double best = 0;

    bench_note_kernels(run, f);
    for (int round = 0; round < ROUNDS && n_kernels > 0; round++) {
        double start = bench_cpu_now();
        bench_run_kernels(SCOPES * BENCH_BATCH);
        double ns = 1e9 * (bench_cpu_now() - start) / (SCOPES * BENCH_BATCH);
        if (best == 0 || ns < best) best = ns;
    }
    bench_free_kernels();
    return best;
}

double bench_host_ns(bench_op_fn *run, const struct bench_operands *f)
{
    double whole = bench_call_ns(run, f);

    return whole - kernel_ns(run, f);
}
