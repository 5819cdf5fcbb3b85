/* test_softmax.c: softmax, log_softmax and their gradients along every dim against plain loops. */
#include "cases.h"

static const struct sizes softmax_shapes[] = {
    {1, {1}},       {1, {7}},       {1, {700}},      {2, {8, 8}},      {2, {0, 4}},
    {2, {5, 0}},    {2, {37, 65}},  {3, {3, 5, 33}}, {3, {2, 9, 300}}, {4, {2, 3, 4, 5}},
    {3, {2, 1, 6}}, {2, {2, 8208}}, {2, {3, 8193}},
};
enum { SOFTMAX_SHAPES = sizeof softmax_shapes / sizeof *softmax_shapes };

/* Element i's row begins at *base and goes in steps of *step. */
static void row_of(const struct sizes *s, int dim, int64_t i, int64_t *base, int64_t *step)
{
    *step = 1;
    for (int d = dim + 1; d < s->ndim; d++) *step *= s->n[d];
    *base = i - i / *step % s->n[dim] * *step;
}

static double row_log_sum(const double *x, int64_t n, int64_t step)
{
    double most = -INFINITY, sum = 0;

    for (int64_t j = 0; j < n; j++) most = fmax(most, x[j * step]);
    for (int64_t j = 0; j < n; j++) sum += exp(x[j * step] - most);
    return most + log(sum);
}

static void check_forward(bool logs, weft_dtype dtype, enum lie lie, const struct sizes *s, int dim)
{
    struct operand x = operand_noise(dtype, lie, s->ndim, s->n, 1);
    struct operand y = operand_new(dtype, PLAIN, s->ndim, s->n);
    double log_sum = 0;
    int64_t known = -1;

    for (int64_t i = 0; i < x.desc.numel; i++) x.values[i] = 20 * x.values[i] + 100;
    operand_write(&x);
    for (int64_t i = 0; i < x.desc.numel; i++) {
        int64_t base, step;

        row_of(s, dim, i, &base, &step);
        if (base != known) log_sum = row_log_sum(x.values + base, s->n[dim], step);
        known = base;
        y.want[i] = x.values[i] - log_sum;
        if (!logs) y.want[i] = exp(y.want[i]);
    }
    call_with(logs ? wf_cpu_log_softmax : wf_cpu_softmax, &(union wf_op_attrs){.dim = {.dim = dim}},
              &y, 1, (struct operand *[]){&x}, NULL);
    expect_near("softmax", &y, y.want, dtype == WEFT_F64 ? 1e-13 : dtype == WEFT_F32 ? 4e-6 : 1e-2);
    expect_guards(&y);
    OPERANDS_FREE(&x, &y);
}

static void check_grad(bool logs, weft_dtype dtype, enum lie lie, const struct sizes *s, int dim)
{
    struct operand d = operand_noise(dtype, lie, s->ndim, s->n, 2);
    struct operand y = operand_noise(dtype, lie == TURNED ? PLAIN : lie, s->ndim, s->n, 3);
    struct operand dx = operand_new(dtype, PLAIN, s->ndim, s->n);
    double sum = 0;
    int64_t known = -1;

    for (int64_t i = 0; i < d.desc.numel; i++) {
        int64_t base, step;

        row_of(s, dim, i, &base, &step);
        if (base != known) sum = 0;
        for (int64_t j = 0; j < s->n[dim] && base != known; j++)
            sum += d.values[base + j * step] * (logs ? 1 : y.values[base + j * step]);
        known = base;
        dx.want[i] =
            logs ? d.values[i] - exp(y.values[i]) * sum : y.values[i] * (d.values[i] - sum);
    }
    call_with(logs ? wf_cpu_log_softmax_grad : wf_cpu_softmax_grad,
              &(union wf_op_attrs){.dim = {.dim = dim}}, &dx, 2, (struct operand *[]){&d, &y},
              NULL);
    expect_near("softmax_grad", &dx, dx.want,
                dtype == WEFT_F64   ? 1e-12
                : dtype == WEFT_F32 ? 2e-5
                                    : 1e-2);
    OPERANDS_FREE(&d, &y, &dx);
}

WT_UNIT(softmax__equals_plain_loops)
{
    EACH_ISA
    for (int t = 0; t < FLOAT_DTYPES; t++)
        for (int i = 0; i < SOFTMAX_SHAPES; i++)
            for (int c = 0; c < softmax_shapes[i].ndim * 4; c++)
                check_forward(c & 1, float_dtypes[t], c & 2 ? nth_lie(i + t) : PLAIN,
                              &softmax_shapes[i], c / 4);
}

WT_UNIT(softmax_grad__equals_plain_loops)
{
    EACH_ISA
    for (int t = 0; t < FLOAT_DTYPES; t++)
        for (int i = 0; i < SOFTMAX_SHAPES; i++)
            for (int c = 0; c < softmax_shapes[i].ndim * 4; c++)
                check_grad(c & 1, float_dtypes[t], c & 2 ? nth_lie(i + t) : PLAIN,
                           &softmax_shapes[i], c / 4);
}

WT_UNIT(softmax__masked_and_infinite_scores)
{
    static const int64_t shape[] = {3, 40};

    EACH_ISA
    for (int dim = 0; dim < 2; dim++) {
        struct operand x = operand_new(WEFT_F32, PLAIN, 2, shape);
        struct operand y = operand_new(WEFT_F32, PLAIN, 2, shape);

        for (int i = 0; i < 120; i++) x.values[i] = -INFINITY;
        for (int i = 0; i < 3; i++)
            x.values[i * 41] = 3; /* one score in each row and column 0..2 */
        operand_write(&x);
        call_with(wf_cpu_softmax, &(union wf_op_attrs){.dim = {.dim = dim}}, &y, 1,
                  (struct operand *[]){&x}, NULL);
        for (int i = 0; i < 3; i++) {
            ck_assert(y.values[i * 41] == 1);
            ck_assert(y.values[(i * 41 + 40) % 120 / 40 * 40 + i] == 0 || dim == 1);
            ck_assert(y.values[i * 40 + 39] == 0 || (dim == 0 && isnan(y.values[i * 40 + 39])));
        }
        OPERANDS_FREE(&x, &y);
    }
}

int main(void) { return wt_unit_main("softmax"); }
