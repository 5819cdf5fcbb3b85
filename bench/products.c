/*
 * products.c: products in bf16 beside the same in f32, one core, at the shapes of a GPT's step and
 * of a prompt; WEFT_ISA chooses whose instructions (docs/concepts/kernels.md).
 *
 * run: env WEFT_ISA=3 products
 * run: env WEFT_ISA=4 products
 * run: products
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/elements/dtype.h"
#include "kernels/cpu/products/gemm.h"
#include "support/bench.h"

enum { ROUNDS = 7, BATCH_FLOPS = 1000000000 };

/* y = x w^T, dx = d w, dw = d^T x for a weight [n, k] and m rows. */
enum form { FORWARD, INPUT, WEIGHT, FORMS };
static const char *const forms[FORMS] = {"x_wt", "d_w", "dt_x"};

static struct wf_gemm product(enum form form, weft_dtype dtype, int64_t m, int64_t n, int64_t k)
{
    struct wf_gemm g = {.dtype = (uint8_t)dtype, .m = m, .n = n, .k = k, .tb = true};

    if (form == INPUT) g.n = k, g.k = n, g.tb = false;
    if (form == WEIGHT) g.m = n, g.n = k, g.k = m, g.ta = true, g.tb = false;
    g.lda = g.ta ? g.m : g.k;
    g.ldb = g.tb ? g.k : g.n;
    g.ldc = g.n;
    wf_gemm_prepare(&g);
    return g;
}

static void *numbers(int64_t count, weft_dtype dtype)
{
    size_t size = wf_dtypes[dtype].size;
    char *made = bench_need(aligned_alloc(64, ((size_t)count * size + 127) / 64 * 64));

    for (int64_t i = 0; i < count; i++)
        wf_dtypes[dtype].store(made + (size_t)i * size, (double)(i % 13) / 16 - 0.375);
    return made;
}

/* GFLOP per second of CPU time: the best of some rounds. */
static double speed(enum form form, weft_dtype dtype, int64_t m, int64_t n, int64_t k)
{
    struct wf_gemm g = product(form, dtype, m, n, k);
    void *a = numbers(g.m * g.k, dtype), *b = numbers(g.k * g.n, dtype);
    void *c = numbers(g.m * g.n, dtype);
    char *scratch = bench_need(aligned_alloc(64, g.scratch + 64));
    double flops = 2.0 * (double)m * (double)n * (double)k, best = 0;
    int batch = 1 + (int)((double)BATCH_FLOPS / flops);

    for (int round = 0; round < ROUNDS; round++) {
        double began = bench_cpu_now(), rate;

        for (int i = 0; i < batch; i++) wf_gemm_run(&g, a, b, NULL, c, scratch);
        rate = batch * flops / (bench_cpu_now() - began) / 1e9;
        if (rate > best) best = rate;
    }
    wf_gemm_free(&g);
    for (int i = 0; i < 4; i++) free((void *[]){a, b, c, scratch}[i]);
    return best;
}

static void measure(enum form form, int64_t m, int64_t n, int64_t k)
{
    double wide = speed(form, WEFT_F32, m, n, k), narrow = speed(form, WEFT_BF16, m, n, k);
    char key[64];

    snprintf(key, sizeof key, "%s.%dx%dx%d", forms[form], (int)m, (int)n, (int)k);
    bench_line(wide, "GFLOP/s", "products.f32.%s", key);
    bench_line(narrow, "GFLOP/s", "products.bf16.%s", key);
    bench_line(narrow / wide, "ratio", "products.bf16_vs_f32.%s", key);
}

int main(int argc, char **argv)
{
    static const int64_t step[][3] = {
        {2048, 576, 384}, {2048, 384, 192}, {2048, 768, 384}, {2048, 384, 768}};
    static const int64_t prompt[][3] = {
        {128, 1536, 768}, {128, 768, 2048}, {128, 2048, 768}, {16, 2048, 1024}, {32, 2048, 1024}};

    if (weft_init(&argc, &argv) != WEFT_OK) return EXIT_FAILURE;
    for (int i = 0; i < 4; i++)
        for (enum form form = FORWARD; form < FORMS; form++)
            measure(form, step[i][0], step[i][1], step[i][2]);
    for (int i = 0; i < 5; i++) measure(FORWARD, prompt[i][0], prompt[i][1], prompt[i][2]);
    return weft_finalize();
}
