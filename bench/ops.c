/*
 * ops.c: the rows of support/op_rows.def on plain tensors of 4 KiB, 256 KiB and 16 MiB, f32 and
 * bf16, one thread: time of a call, beside pytorch/ops.py, and what comes of the memory's speed.
 *
 *     run: ops
 *     run: ops_large
 *
 *     ops [--gpu] [WORD]     only lines whose key has it: "softmax", ".add_backward.bf16.16m"
 *
 * --gpu: on a GPU, of 16 and 64 MiB, in its time; pytorch/ops.py takes it too.
 */
#include "support/bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 256, ROUNDS = 7, KEY = 80 };

static bool on_gpu;

struct operands {
    weft_tensor *x, *y, *both, *above, *below, *w, *bias, *mask, *row, *total, *index, *place;
};

enum { FORWARD, BOTH };

#define OP(name, backward, arrays, call)                                                           \
    static weft_tensor *op_##name(const struct operands *o) { return call; }
#include "support/op_rows.def"
#undef OP

static const struct op {
    const char *name;
    weft_tensor *(*call)(const struct operands *o);
    int backward, arrays;
} ops[] = {
#define OP(name, backward, arrays, call) {#name, op_##name, backward, arrays},
#include "support/op_rows.def"
};
enum { OPS = sizeof ops / sizeof *ops };

static const struct size {
    const char *name;
    int64_t bytes;
} cpu_sizes[] = {{"4k", 4 << 10}, {"256k", 256 << 10}, {"16m", 16 << 20}},
  gpu_sizes[] = {{"16m", 16 << 20}, {"64m", 64 << 20}};

/* Seconds of what is measured: CPU time where nothing waits; of a GPU, which has then done all. */
static double now(void)
{
    if (!on_gpu) return bench_cpu_now();
    weft_device_synchronize(WEFT_CUDA);
    return bench_now();
}

/* Made on the host, which alone can write elements one by one. */
static weft_tensor *moved(weft_tensor *t)
{
    return on_gpu ? bench_need(weft_to_device(t, WEFT_CUDA)) : t;
}

static weft_tensor *filled(weft_dtype dtype, int64_t rows, int stream, float scale, float offset)
{
    weft_tensor *t = bench_need(weft_empty(WEFT_F32, (int64_t[]){rows, COLUMNS}, 2));

    bench_fill(t, stream, 0, scale, offset);
    return moved(bench_need(weft_cast(t, dtype)));
}

/* Whole numbers below `limit`, in an order without pattern; every element of a row has another. */
static weft_tensor *indices(const int64_t *shape, int ndim, int64_t limit)
{
    weft_tensor *t = bench_need(weft_empty(WEFT_I64, shape, ndim));
    int64_t *at = weft_data(t), n = weft_numel(t);

    for (int64_t i = 0; i < n; i++) at[i] = (i * 97 + i / limit * 31) % limit;
    return moved(t);
}

static struct operands make_operands(weft_dtype dtype, int64_t bytes)
{
    int64_t rows = bytes / (int64_t)weft_dtype_size(dtype) / COLUMNS, row[] = {COLUMNS};
    struct operands o = {.x = filled(dtype, rows, 1, 0.5f, 0.75f),
                         .y = filled(dtype, rows, 2, 0.5f, 0.75f),
                         .both = filled(dtype, rows, 6, 3, 0),
                         .above = filled(dtype, rows, 4, 0.5f, 1.75f),
                         .below = filled(dtype, rows, 5, 0.45f, 0.5f),
                         .w = moved(weft_full(dtype, row, 1, 1.25)),
                         .bias = moved(weft_full(dtype, row, 1, 0.5)),
                         .row = moved(weft_full(dtype, row, 1, 0.5)),
                         .total = filled(dtype, rows, 3, 0.5f, 0.75f),
                         .index = indices((int64_t[]){rows}, 1, rows),
                         .place = indices((int64_t[]){rows, COLUMNS}, 2, COLUMNS)};

    o.mask = bench_need(weft_lt(o.x, o.y));
    return o;
}

static void call_op(const struct op *op, const struct operands *o, weft_tensor *gradient)
{
    weft_scope *scope = weft_scope_open();
    weft_tensor *y = bench_need(op->call(o));

    if (gradient) {
        WEFT_CHECK(weft_backward_from(y, gradient));
        weft_zero_grad(o->x);
        weft_zero_grad(o->both);
        weft_zero_grad(o->above);
        weft_zero_grad(o->below);
    }
    weft_scope_close(scope);
}

/* Of one call, the best round. */
static double seconds_of(const struct op *op, const struct operands *o, bool backward)
{
    weft_scope *scope = weft_scope_open();
    weft_tensor *gradient =
        backward ? bench_need(weft_full_like(bench_need(op->call(o)), 0.75)) : NULL;
    double best = INFINITY, began;
    int calls = 1;

    call_op(op, o, gradient);
    began = now();
    call_op(op, o, gradient);
    calls += (int)(2e-3 / (now() - began + 1e-7));
    for (int round = 0; round < ROUNDS; round++) {
        began = now();
        for (int i = 0; i < calls; i++) call_op(op, o, gradient);
        best = fmin(best, (now() - began) / calls);
    }
    weft_scope_close(scope);
    return best;
}

/* Bytes a second that a copy on the GPU reads and writes. */
static double device_copy_speed(int64_t bytes)
{
    weft_scope *scope = weft_scope_open();
    weft_tensor *from = moved(weft_full(WEFT_U8, &bytes, 1, 1));
    weft_tensor *to = moved(weft_full(WEFT_U8, &bytes, 1, 0));
    double best = INFINITY;

    for (int i = 0; i < 3 * ROUNDS; i++) {
        double began = now();

        for (int call = 0; call < ROUNDS; call++) WEFT_CHECK(weft_copy_(to, from));
        if (i) best = fmin(best, (now() - began) / (double)ROUNDS);
    }
    weft_scope_close(scope);
    return 2 * (double)bytes / best;
}

/* Bytes a second that memcpy reads and writes. */
static double memcpy_speed(int64_t bytes)
{
    char *from = bench_need(malloc((size_t)bytes)), *to = bench_need(malloc((size_t)bytes));
    double best = INFINITY;

    memset(from, 1, (size_t)bytes);
    for (int i = 0; i < 3 * ROUNDS; i++) {
        double began = bench_cpu_now();

        memcpy(to, from, (size_t)bytes);
        if (i) best = fmin(best, bench_cpu_now() - began);
    }
    free(from);
    free(to);
    return 2 * (double)bytes / best;
}

/* The line of a row, its key in `key`; false: not asked for. */
static bool is_wanted(const char *name, const char *way, weft_dtype dtype, const char *size,
                      const char *word, char key[KEY])
{
    snprintf(key, KEY, "%sops.ns.%s%s.%s.%s", on_gpu ? "gpu." : "", name, way,
             weft_dtype_name(dtype), size);
    return strstr(key, word);
}

static double memory_speed(int64_t bytes)
{
    return on_gpu ? device_copy_speed(bytes) : memcpy_speed(bytes);
}

/* large: compared with the memory's speed too, measured beside each row, since other programs take
 * more or less of it from one second to the next. */
static void measure(weft_dtype dtype, const struct size *size, bool large, const char *word,
                    double *least)
{
    struct operands o = make_operands(dtype, size->bytes);
    char key[KEY];

    for (int i = 0; i < OPS; i++) {
        double time;

        if (!is_wanted(ops[i].name, "", dtype, size->name, word, key)) continue;
        time = seconds_of(&ops[i], &o, false);
        bench_line(1e9 * time, "ns", "%s", key);
        if (large && ops[i].arrays) {
            double share = ops[i].arrays * (double)size->bytes / time / memory_speed(size->bytes);

            bench_line(share, "ratio", "%sops.bandwidth.%s.%s", on_gpu ? "gpu." : "", ops[i].name,
                       weft_dtype_name(dtype));
            *least = fmin(*least, share);
        }
    }
    weft_set_requires_grad(o.x, true);
    weft_set_requires_grad(o.both, true);
    weft_set_requires_grad(o.above, true);
    weft_set_requires_grad(o.below, true);
    for (int i = 0; i < OPS; i++)
        if (ops[i].backward == BOTH &&
            is_wanted(ops[i].name, "_backward", dtype, size->name, word, key))
            bench_line(1e9 * seconds_of(&ops[i], &o, true), "ns", "%s", key);
}

int main(int argc, char **argv)
{
    static const weft_dtype dtypes[] = {WEFT_F32, WEFT_BF16};
    const struct size *sizes;
    const char *word;
    double least = INFINITY;
    int count;

    on_gpu = argc > 1 && strcmp(argv[1], "--gpu") == 0;
    word = argc > 1 + on_gpu ? argv[1 + on_gpu] : "";
    sizes = on_gpu ? gpu_sizes : cpu_sizes;
    count = on_gpu ? 2 : 3;
    WEFT_CHECK(weft_init(&argc, &argv));
    for (int d = 0; d < 2; d++)
        for (int s = 0; s < count; s++) {
            weft_scope *scope = weft_scope_open();

            measure(dtypes[d], &sizes[s], s == count - 1, word, &least);
            weft_scope_close(scope);
        }
    if (isfinite(least)) bench_line(least, "ratio", "%sops.bandwidth", on_gpu ? "gpu." : "");
    return weft_finalize();
}
