/*
 * random.c: how fast a core fills memory with random numbers, in bytes of the result.
 *
 *     run: random
 */
#include "support/bench.h"

enum { MILLION = 1 << 20, REPEATS = 9 };

static weft_status uniform(weft_tensor *t) { return weft_uniform_(t, 0, 1, NULL); }
static weft_status normal(weft_tensor *t) { return weft_normal_(t, 0, 1, NULL); }
static weft_status trunc_normal(weft_tensor *t) { return weft_trunc_normal_(t, 0, 1, -2, 2, NULL); }
static weft_status exponential(weft_tensor *t) { return weft_exponential_(t, 1, NULL); }
static weft_status bernoulli(weft_tensor *t) { return weft_bernoulli_(t, 0.5, NULL); }
static weft_status randint(weft_tensor *t) { return weft_randint_(t, 0, 1000, NULL); }
static weft_status randperm(weft_tensor *t) { return weft_randperm_(t, NULL); }

static const struct {
    const char *key;
    weft_status (*fill)(weft_tensor *t);
    weft_dtype dtype;
} kinds[] = {
    {"uniform_f32", uniform, WEFT_F32},
    {"uniform_f64", uniform, WEFT_F64},
    {"uniform_bf16", uniform, WEFT_BF16},
    {"normal_f32", normal, WEFT_F32},
    {"normal_f64", normal, WEFT_F64},
    {"normal_bf16", normal, WEFT_BF16},
    {"trunc_normal_f32", trunc_normal, WEFT_F32},
    {"exponential_f32", exponential, WEFT_F32},
    {"bernoulli_f32", bernoulli, WEFT_F32},
    {"randint_i64", randint, WEFT_I64},
    {"randperm_i64", randperm, WEFT_I64},
};

/* The fastest of some fills; CPU time, because a fill waits for nothing. */
static double seconds(weft_status (*fill)(weft_tensor *t), weft_tensor *t)
{
    double best = 0;

    for (int i = 0; i < REPEATS; i++) {
        double began = bench_cpu_now(), took;

        WEFT_CHECK(fill(t));
        took = bench_cpu_now() - began;
        if (i == 0 || took < best) best = took;
    }
    return best;
}

/* A column of a matrix: every element is a run of its own. */
static void measure_columns(void)
{
    weft_mesh *mesh = bench_need(weft_mesh_new_fake(1, "tp=64"));
    weft_spec spec = {
        .ndim = 2, .shape = {MILLION / 4, 64}, .mesh = mesh, .placements = {weft_shard(1)}};
    weft_tensor *t = bench_need(weft_make_empty(spec));

    bench_line(4e-9 * (double)weft_local_numel(t) / seconds(normal, t), "GB/s",
               "random.normal_f32_column");
    weft_mesh_release(mesh);
}

int main(int argc, char **argv)
{
    weft_scope *scope;

    WEFT_CHECK(weft_init(&argc, &argv));
    scope = weft_scope_open();
    for (int i = 0; i < (int)(sizeof kinds / sizeof *kinds); i++) {
        weft_tensor *t = bench_need(weft_empty(kinds[i].dtype, (int64_t[]){MILLION}, 1));
        double bytes = (double)weft_dtype_size(kinds[i].dtype) * (double)MILLION;

        bench_line(1e-9 * bytes / seconds(kinds[i].fill, t), "GB/s", "random.%s", kinds[i].key);
    }
    measure_columns();
    weft_scope_close(scope);
    return weft_finalize();
}
