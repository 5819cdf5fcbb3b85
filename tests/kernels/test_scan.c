/* test_scan.c: running sums and products along a dim, linear recurrences, and their gradients,
 * against plain loops, however operands lie. */
#include "cases.h"

enum scan { SUM_UP, SUM_BACK, PRODUCT, RECURRENCE, RECURRENCE_BACK, SCANS };

static void check_scan(enum scan op, weft_dtype dtype, enum lie lie, const struct sizes *s, int dim)
{
    static wf_kernel_prepare *const prepare[] = {wf_cpu_cumsum, wf_cpu_cumsum, wf_cpu_cumprod,
                                                 wf_cpu_linear_scan, wf_cpu_linear_scan_grad};
    struct operand a = operand_new(dtype, lie, s->ndim, s->n),
                   b = operand_new(dtype, lie, s->ndim, s->n);
    struct operand y = operand_new(dtype, PLAIN, s->ndim, s->n);
    union wf_op_attrs attrs = {.scan = {.dim = dim, .back = op == SUM_BACK}};
    int64_t inner = 1, n = s->n[dim];
    bool back = op == SUM_BACK || op == RECURRENCE_BACK;

    operand_whole(&a, 5, 2);
    operand_whole(&b, 6, 1);
    for (int d = dim + 1; d < s->ndim; d++) inner *= s->n[d];
    for (int64_t i = 0; i < a.desc.numel; i++) { /* each column from its first element on */
        int64_t first = i / (inner * n) * inner * n + i % inner;
        double run = op == PRODUCT ? 1 : 0;

        if (i / inner % n != 0) continue;
        for (int64_t t = 0; t < n; t++) {
            int64_t at = first + (back ? n - 1 - t : t) * inner;
            double made = op == PRODUCT      ? run * a.values[at]
                          : op == RECURRENCE ? a.values[at] * run + b.values[at]
                                             : run + a.values[at];

            if (op >= RECURRENCE && fabs(made) > 100) /* stays small, and whole */
                a.values[at] = b.values[at] = 0, made = op == RECURRENCE ? 0 : run;
            y.want[at] = made;
            run = op == RECURRENCE_BACK ? made * b.values[at] : made;
        }
    }
    operand_write(&a);
    operand_write(&b);
    call_with(prepare[op], &attrs, &y, op >= RECURRENCE ? 2 : 1, (struct operand *[]){&a, &b},
              NULL);
    for (int64_t i = 0; i < y.desc.numel; i++) {
        y.values[i] /= 1 + fabs(y.want[i]);
        y.want[i] /= 1 + fabs(y.want[i]);
    }
    expect_near("scan", &y, y.want, wf_dtype_is_16_bit_float(dtype) ? 8e-3 : 1e-6);
    expect_guards(&y);
    OPERANDS_FREE(&a, &b, &y);
}

WT_UNIT_TIMES(scans__equal_plain_loops, SCANS)
{
    static const struct sizes sizes[] = {{1, {1}},     {1, {40}},       {2, {3, 20}},
                                         {2, {20, 3}}, {3, {2, 6, 70}}, {2, {0, 4}},
                                         {2, {4, 0}},  {1, {2500}},     {2, {70, 45}}};

    EACH_ISA
    for (int t = WEFT_F32; t <= (_i < RECURRENCE ? WEFT_I64 : WEFT_F16); t++)
        for (int i = 0; i < 9; i++)
            for (int dim = 0; dim < sizes[i].ndim; dim++)
                check_scan((enum scan)_i, (weft_dtype)t, nth_lie(i + t + dim), &sizes[i], dim);
}

/* ---- the gradient of running products ---- */

/* Of element i: each product behind it, without it. Zeros are at the places `zero`. */
static void check_cumprod_grad(weft_dtype dtype, enum lie lie, const struct sizes *s, int dim,
                               const int *zero)
{
    struct operand d = operand_new(dtype, lie, s->ndim, s->n),
                   x = operand_new(dtype, lie, s->ndim, s->n);
    struct operand dx = operand_new(dtype, PLAIN, s->ndim, s->n);
    union wf_op_attrs attrs = {.scan = {.dim = dim}};
    int64_t inner = 1, n = s->n[dim];

    for (int k = dim + 1; k < s->ndim; k++) inner *= s->n[k];
    operand_whole(&d, 5, 2);
    for (int64_t i = 0; i < x.desc.numel; i++) {
        int64_t at = i / inner % n;

        x.values[i] = at == zero[0] || at == zero[1] ? 0 : i % 7 == 3 ? -1 : i % 11 == 5 ? 2 : 1;
        if (i % 13 == 2) x.values[i] *= 0.25;
    }
    operand_write(&x);
    for (int64_t i = 0; i < x.desc.numel; i++) {
        int64_t first = i - i / inner % n * inner;
        double product = 1;

        for (int64_t t = 0; t < n; t++) {
            int64_t at = first + t * inner;

            if (at != i) product *= x.values[at];
            if (at >= i) dx.want[i] += d.values[at] * product;
        }
    }
    call_with(wf_cpu_cumprod_grad, &attrs, &dx, 2, (struct operand *[]){&d, &x}, NULL);
    for (int64_t i = 0; i < dx.desc.numel; i++) {
        dx.values[i] /= 1 + fabs(dx.want[i]);
        dx.want[i] /= 1 + fabs(dx.want[i]);
    }
    expect_near("cumprod_grad", &dx, dx.want, wf_dtype_is_16_bit_float(dtype) ? 8e-3 : 1e-6);
    expect_guards(&dx);
    OPERANDS_FREE(&d, &x, &dx);
}

WT_UNIT(cumprod_grad__equals_plain_loops)
{
    static const struct sizes sizes[] = {{1, {1}},     {1, {40}},       {2, {3, 20}},
                                         {2, {20, 3}}, {2, {0, 4}},     {2, {4, 0}},
                                         {1, {300}},   {3, {2, 6, 70}}, {2, {70, 45}}};
    static const int zeros[][2] = {{-1, -1}, {0, -1}, {5, -1}, {2, 34}, {0, 1}};

    EACH_ISA
    for (int t = 0; t < FLOAT_DTYPES; t++)
        for (int i = 0; i < 9 * 5; i++)
            for (int dim = 0; dim < sizes[i % 9].ndim; dim++)
                check_cumprod_grad(float_dtypes[t], nth_lie(i / 9 + t + dim), &sizes[i % 9], dim,
                                   zeros[i / 9]);
}

int main(void) { return wt_unit_main("scan"); }
