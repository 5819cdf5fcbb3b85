/*
 * speed.c: how fast this GPU copies and multiplies, and how near to its copies the ops come that
 * move memory and little else.
 */
#include "gpu/check/check.h"
#include "gpu/check/report.h"
#include "gpu/check/timing.h"

enum { ROWS = 8192, COLUMNS = 8192 };

struct call {
    weft_tensor *(*op)(weft_tensor *a, weft_tensor *b);
    weft_tensor *a, *b;
};

static void run(void *payload)
{
    struct call *call = payload;

    call->op(call->a, call->b);
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

static weft_tensor *softmax(weft_tensor *a, weft_tensor *b)
{
    (void)b;
    return weft_softmax(a, -1);
}

static weft_tensor *uniform(int64_t rows, int64_t columns, weft_dtype dtype)
{
    weft_tensor *t = weft_to_device(weft_empty(dtype, (int64_t[]){rows, columns}, 2), WEFT_CUDA);

    return t && weft_uniform_(t, -1, 1, NULL) == WEFT_OK ? t : NULL;
}

static void measure_memory(weft_dtype dtype)
{
    static const struct {
        const char *name;
        weft_tensor *(*op)(weft_tensor *, weft_tensor *);
        int streams; /* tensors read and written */
    } ops[] = {{"copy", copy, 2}, {"add", weft_add, 3}, {"gelu", gelu, 2}, {"softmax", softmax, 2}};
    weft_scope *scope = weft_scope_open();
    struct call call = {.a = uniform(ROWS, COLUMNS, dtype), .b = uniform(ROWS, COLUMNS, dtype)};
    double bytes = (double)weft_dtype_size(dtype) * (double)(ROWS * COLUMNS), copied = 0;

    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        double rate;

        call.op = ops[i].op;
        rate = 1e-9 * ops[i].streams * bytes / timing_of(run, &call);
        report_add((struct report_line){.group = "speed", .figure = "GB/s", .value = rate}, "%s %s",
                   ops[i].name, weft_dtype_name(dtype));
        if (i == 0)
            copied = rate;
        else
            report_add(
                (struct report_line){
                    .group = "speed",
                    .figure = "of a copy's rate",
                    .bound = REPORT_AT_LEAST,
                    .value = rate / copied,
                    .limit = 0.9,
                    .claim = "pointwise ops and softmax run at 0.9 of a copy's rate or more"},
                "%s %s", ops[i].name, weft_dtype_name(dtype));
    }
    weft_scope_close(scope);
}

static void measure_product(weft_dtype dtype, int64_t n)
{
    weft_scope *scope = weft_scope_open();
    struct call call = {weft_matmul, uniform(n, n, dtype), uniform(n, n, dtype)};
    double size = (double)n;

    report_add((struct report_line){.group = "speed",
                                    .figure = "TFLOP/s",
                                    .value = 2e-12 * size * size * size / timing_of(run, &call)},
               "matmul %lld x %lld x %lld %s", (long long)n, (long long)n, (long long)n,
               weft_dtype_name(dtype));
    weft_scope_close(scope);
}

void check_speed(void)
{
    measure_memory(WEFT_F32);
    measure_memory(WEFT_BF16);
    measure_product(WEFT_F32, 4096);
    measure_product(WEFT_BF16, 8192);
}
