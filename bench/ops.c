/*
 * ops.c: ops on plain tensors of 4 KiB, 256 KiB and 16 MiB, f32 and bf16, one thread: time of a
 * call, beside pytorch/ops.py, and what comes of the memory's speed.
 *
 *     run: ops
 */
#include "support/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 256, ROUNDS = 7 };

struct operands {
    weft_tensor *x, *y, *w, *bias, *mask, *row, *total; /* x and y between 0.25 and 1.25 */
};

#define UNARY(name)                                                                                \
    static weft_tensor *op_##name(const struct operands *o) { return weft_##name(o->x); }
#define BINARY(name)                                                                               \
    static weft_tensor *op_##name(const struct operands *o) { return weft_##name(o->x, o->y); }
#define OP(name, call)                                                                             \
    static weft_tensor *op_##name(const struct operands *o) { return call; }

UNARY(neg)
UNARY(abs)
UNARY(exp)
UNARY(log)
UNARY(sqrt)
UNARY(rsqrt)
UNARY(sin)
UNARY(erf)
UNARY(tanh)
UNARY(sigmoid)
UNARY(relu)
UNARY(silu)
UNARY(gelu)
UNARY(floor)
UNARY(lgamma)
BINARY(add)
BINARY(mul)
BINARY(div)
BINARY(pow)
BINARY(maximum)
BINARY(lt)
OP(add_number, weft_add_scalar(o->x, 1.5))
OP(clamp, weft_clamp(o->x, 0.5, 1))
OP(add_row, weft_add(o->x, o->row))
OP(addcmul, weft_addcmul(o->x, o->y, o->x, 0.5))
OP(lerp, weft_lerp_scalar(o->x, o->y, 0.25))
OP(where, weft_where(o->mask, o->x, o->y))
OP(masked_fill, weft_masked_fill(o->x, o->mask, 0))
OP(add_in_place, weft_add_(o->total, o->y))
OP(to_f64, weft_cast(o->x, WEFT_F64))
OP(transposed, weft_contiguous(weft_transpose(o->x, 0, 1)))
OP(cat, weft_cat((weft_tensor *[]){o->x, o->y}, 2, 1))
OP(sum, weft_sum_all(o->x))
OP(sum_rows, weft_sum(o->x, (int[]){1}, 1, false))
OP(sum_columns, weft_sum(o->x, (int[]){0}, 1, false))
OP(amax, weft_amax(o->x, (int[]){1}, 1, false))
OP(softmax, weft_softmax(o->x, 1))
OP(layer_norm, weft_layer_norm(o->x, o->w, o->bias, 1e-5))

static const struct op {
    const char *name;
    weft_tensor *(*call)(const struct operands *o);
    bool backward; /* measured with its gradient too */
    int bandwidth; /* arrays that it reads and writes, 0: not compared with memory */
} ops[] = {
    {"neg", op_neg, false, 2},
    {"abs", op_abs, false, 2},
    {"exp", op_exp, true, 0},
    {"log", op_log, false, 0},
    {"sqrt", op_sqrt, false, 0},
    {"rsqrt", op_rsqrt, false, 0},
    {"sin", op_sin, false, 0},
    {"erf", op_erf, false, 0},
    {"tanh", op_tanh, true, 0},
    {"sigmoid", op_sigmoid, false, 0},
    {"relu", op_relu, true, 2},
    {"silu", op_silu, true, 0},
    {"gelu", op_gelu, true, 0},
    {"floor", op_floor, false, 2},
    {"lgamma", op_lgamma, false, 0},
    {"add", op_add, true, 3},
    {"mul", op_mul, true, 3},
    {"div", op_div, true, 0},
    {"pow", op_pow, false, 0},
    {"maximum", op_maximum, false, 3},
    {"lt", op_lt, false, 0},
    {"add_number", op_add_number, false, 2},
    {"clamp", op_clamp, false, 2},
    {"add_row", op_add_row, false, 2},
    {"addcmul", op_addcmul, false, 0},
    {"lerp", op_lerp, false, 3},
    {"where", op_where, false, 0},
    {"masked_fill", op_masked_fill, false, 0},
    {"add_in_place", op_add_in_place, false, 3},
    {"to_f64", op_to_f64, false, 0},
    {"transposed", op_transposed, false, 0},
    {"cat", op_cat, false, 4},
    {"sum", op_sum, false, 1},
    {"sum_rows", op_sum_rows, false, 1},
    {"sum_columns", op_sum_columns, false, 1},
    {"amax", op_amax, false, 1},
    {"softmax", op_softmax, true, 0},
    {"layer_norm", op_layer_norm, true, 0},
};
enum { OPS = sizeof ops / sizeof *ops };

static const struct {
    const char *name;
    int64_t bytes;
} sizes[] = {{"4k", 4 << 10}, {"256k", 256 << 10}, {"16m", 16 << 20}};

static weft_tensor *filled(weft_dtype dtype, int64_t rows, int64_t columns, int stream)
{
    weft_tensor *t = bench_need(weft_empty(WEFT_F32, (int64_t[]){rows, columns}, 2));

    bench_fill(t, stream, 0, 0.5f, 0.75f);
    return bench_need(weft_cast(t, dtype));
}

static struct operands make_operands(weft_dtype dtype, int64_t bytes)
{
    int64_t rows = bytes / (int64_t)weft_dtype_size(dtype) / COLUMNS, row[] = {COLUMNS};
    struct operands o = {filled(dtype, rows, COLUMNS, 1),
                         filled(dtype, rows, COLUMNS, 2),
                         weft_full(dtype, row, 1, 1.25),
                         weft_full(dtype, row, 1, 0.5),
                         NULL,
                         weft_full(dtype, row, 1, 0.5),
                         filled(dtype, rows, COLUMNS, 3)};

    o.mask = bench_need(weft_lt(o.x, o.y));
    return o;
}

static void call_once(const struct op *op, const struct operands *o, bool backward)
{
    weft_scope *scope = weft_scope_open();
    weft_tensor *y = bench_need(op->call(o));

    if (backward) {
        WEFT_CHECK(weft_backward_from(y, o->y));
        weft_zero_grad(o->x);
    }
    weft_scope_close(scope);
}

/* Of one call, the best round; CPU time, since nothing waits. */
static double seconds_of(const struct op *op, const struct operands *o, bool backward)
{
    double best = INFINITY, began = bench_cpu_now();
    int calls = 1;

    call_once(op, o, backward);
    calls += (int)(2e-3 / (bench_cpu_now() - began + 1e-7));
    for (int round = 0; round < ROUNDS; round++) {
        began = bench_cpu_now();
        for (int i = 0; i < calls; i++) call_once(op, o, backward);
        best = fmin(best, (bench_cpu_now() - began) / calls);
    }
    return best;
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

static void measure(weft_dtype dtype, int s, double memory, double *least)
{
    struct operands o = make_operands(dtype, sizes[s].bytes);
    const char *type = weft_dtype_name(dtype), *size = sizes[s].name;

    for (int i = 0; i < OPS; i++) {
        double time = seconds_of(&ops[i], &o, false);

        bench_line(1e9 * time, "ns", "ops.ns.%s.%s.%s", ops[i].name, type, size);
        if (memory > 0 && ops[i].bandwidth) {
            double share = ops[i].bandwidth * (double)sizes[s].bytes / time / memory;

            bench_line(share, "ratio", "ops.bandwidth.%s.%s", ops[i].name, type);
            *least = fmin(*least, share);
        }
    }
    weft_set_requires_grad(o.x, true);
    for (int i = 0; i < OPS; i++)
        if (ops[i].backward)
            bench_line(1e9 * seconds_of(&ops[i], &o, true), "ns", "ops.ns.%s_backward.%s.%s",
                       ops[i].name, type, size);
}

int main(int argc, char **argv)
{
    static const weft_dtype dtypes[] = {WEFT_F32, WEFT_BF16};
    double least = INFINITY;

    WEFT_CHECK(weft_init(&argc, &argv));
    for (int d = 0; d < 2; d++)
        for (int s = 0; s < 3; s++) {
            weft_scope *scope = weft_scope_open();

            measure(dtypes[d], s, s == 2 ? memcpy_speed(sizes[s].bytes) : 0, &least);
            weft_scope_close(scope);
        }
    bench_line(least, "ratio", "ops.bandwidth");
    return weft_finalize();
}
