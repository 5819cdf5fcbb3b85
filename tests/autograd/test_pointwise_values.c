/*
 * test_pointwise_values.c: pointwise ops at special numbers against torch's
 * (tests/golden/pointwise.txt, made by make_pointwise.py): results and gradients, f32 and bf16,
 * with zeros of both signs, subnormals, infinities and NaN.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/autograd.h>
#include <weft/ops.h>

#include "base/elements/dtype.h"
#include "dtensor/convert/init.h"
#include "kernels/kernels.h"
#include "ops/dispatch_op.h"
#include "ops/op_table.h"
#include "support/mpi_check.h"

enum { VALUES = 32, LINE = 1024 };

static const char values_file[] = WT_SOURCE_DIR "/"
                                                "tests/golden/pointwise.txt";

struct block {
    char name[32];
    enum wf_op op;
    weft_dtype dtype;
    struct wf_op_args args;
    char result[LINE], gradient[3][LINE];
};

static void set_up(void)
{
    wf_kernels_choose_isa();
    wf_dtensor_init();
    weft_error_clear();
}

static bool read_line(FILE *file, char *line)
{
    if (!fgets(line, LINE, file)) return false;
    ck_assert_msg(strchr(line, '\n') != NULL, "a line is longer than %d", LINE);
    return true;
}

static enum wf_op op_of(const char *name)
{
    for (int op = 0; op < WF_OP_COUNT; op++)
        if (strcmp(wf_ops[op].name, name) == 0) return (enum wf_op)op;
    ck_abort_msg("no op %s", name);
}

static bool read_block(FILE *file, struct block *b)
{
    char head[LINE], dtype[8];
    int read = 0;

    memset(b, 0, sizeof *b);
    if (!read_line(file, head)) return false;
    ck_assert(sscanf(head, "%31s %7s%n", b->name, dtype, &read) == 2);
    b->op = op_of(b->name);
    b->dtype = strcmp(dtype, "f32") == 0 ? WEFT_F32 : WEFT_BF16;
    for (int i = 0, more; sscanf(head + read, "%lf%n", &b->args.scalars.s[i], &more) == 1; i++)
        read += more;
    ck_assert(read_line(file, b->result));
    for (int i = 0; i < wf_ops[b->op].n_in; i++) ck_assert(read_line(file, b->gradient[i]));
    return true;
}

/* The elements whose bits stand in a line. */
static void read_bits(const char *text, weft_dtype dtype, double *values)
{
    for (int i = 0; i < VALUES; i++) {
        char *end;
        uint32_t bits = (uint32_t)strtoul(text, &end, 16);

        ck_assert(end != text);
        values[i] = wf_dtypes[dtype].load(&bits); /* little-endian, as all that weft runs on */
        text = end;
    }
}

static weft_tensor *input_of(const double *values, weft_dtype dtype)
{
    weft_tensor *t = weft_empty(dtype, (int64_t[]){VALUES}, 1);

    ck_assert(t != NULL);
    for (int i = 0; i < VALUES; i++)
        wf_dtypes[dtype].store((char *)weft_data(t) + (size_t)i * wf_dtypes[dtype].size, values[i]);
    return t;
}

/*
 * Where ours is better or as good: bit i of `at` is the value of index i. Torch loses the tail of
 * gelu, and the digits of softsign, to cancellation, and gives NaN for inf times 0 where the limit
 * is a number; its fmod takes subnormals for 0; poles of
 * digamma and roots of sinc are hit as well as its pi is.
 */
static const struct {
    const char *name;
    bool gradient;
    uint32_t at;
} differences[] = {
    {"silu", false, 1u << 30},
    {"silu", true, 1u << 29},
    {"gelu", false, 1u << 13 | 1u << 15 | 1u << 28 | 1u << 29},
    {"gelu", true, 1u << 15},
    {"gelu_tanh", false, 1u << 13 | 1u << 15 | 1u << 30},
    {"gelu_tanh", true, 1u << 13 | 1u << 15},
    {"mish", true, 1u << 30},
    {"elu", true, 1u << 31},
    {"selu", true, 1u << 31},
    {"hardswish", true, 1u << 31},
    {"softsign", true, 1u << 22 | 1u << 23 | 1u << 25 | 1u << 26 | 1u << 27 | 1u << 29 | 1u << 30},
    {"softplus", false, 1u << 24},
    {"softplus", true, 1u << 24},
    {"erf", false, 1u << 18 | 1u << 21},
    {"fmod", false, 1u << 25 | 1u << 28},
    {"remainder", false, 1u << 25 | 1u << 28},
    {"remainder", true, 1u << 22 | 1u << 29 | 1u << 30},
    {"digamma", false, 1u << 5 | 1u << 10},
    {"digamma", true, 1u << 3 | 1u << 7 | 1u << 13 | 1u << 15 | 1u << 23 | 1u << 25 | 1u << 27},
    {"sinc", false,
     1u << 2 | 1u << 3 | 1u << 6 | 1u << 7 | 1u << 12 | 1u << 13 | 1u << 14 | 1u << 15 | 1u << 23 |
         1u << 24 | 1u << 25 | 1u << 26 | 1u << 27 | 1u << 28},
    {"sinc", true,
     1u << 10 | 1u << 11 | 1u << 16 | 1u << 17 | 1u << 18 | 1u << 21 | 1u << 22 | 1u << 24 |
         1u << 25 | 1u << 26 | 1u << 27 | 1u << 28},
    {"tanhshrink", false, 1u << 4 | 1u << 5 | 1u << 8 | 1u << 9 | 1u << 16 | 1u << 17 | 1u << 18},
    {"tanhshrink", true, 1u << 16 | 1u << 17 | 1u << 18},
    {"celu", true, 1u << 31},
    {"hardshrink", true, 1u << 31},
    {"logit", true, 1u << 31},
    {"addcdiv", true, 1u << 4},
    {"copysign", true, 1u << 29 | 1u << 30 | 1u << 31},
};

static bool is_known(const struct block *b, bool gradient, int i)
{
    for (size_t k = 0; k < sizeof differences / sizeof *differences; k++)
        if (strcmp(differences[k].name, b->name) == 0 && differences[k].gradient == gradient &&
            differences[k].at >> i & 1)
            return true;
    return false;
}

/* Within `relative`, or next to the least number. */
static bool is_near(double got, double want, double relative)
{
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
    if (isinf(want) || isinf(got)) return got == want;
    return fabs(got - want) <= relative * fabs(want) + 0x1p-126;
}

static void compare(const struct block *b, const char *what, weft_tensor *t, const char *line,
                    const double *at, double relative)
{
    double got[VALUES], want[VALUES];

    ck_assert(weft_read_f64(t, got, VALUES) == WEFT_OK);
    read_bits(line, weft_tensor_dtype(t), want);
    for (int i = 0; i < VALUES; i++)
        ck_assert_msg(is_near(got[i], want[i], relative) || is_known(b, what[0] == 'g', i),
                      "%s %s, %s at [%d] %g: %g, torch has %g", b->name, weft_dtype_name(b->dtype),
                      what, i, at[i], got[i], want[i]);
}

static void check_block(struct block *b, double (*values)[VALUES])
{
    const double of_results = b->dtype == WEFT_F32 ? 1e-6 : 0x1p-7;
    const double of_gradients = b->dtype == WEFT_F32 ? 4e-6 : 0x1p-5;
    weft_scope *scope = weft_scope_open();
    weft_tensor *in[3] = {NULL}, *y;
    int n = wf_ops[b->op].n_in;

    for (int i = 0; i < n; i++) {
        in[i] = input_of(values[i], b->dtype);
        weft_set_requires_grad(in[i], true);
    }
    y = wf_dispatch_op_one_output(b->op, in, n, &b->args);
    ck_assert_msg(y != NULL, "%s", weft_error_message());
    compare(b, "result", y, b->result, values[0], of_results);
    if (b->gradient[0][0] != '-') ck_assert(weft_backward(weft_sum_all(y)) == WEFT_OK);
    for (int i = 0; i < n; i++)
        if (b->gradient[i][0] != '-')
            compare(b,
                    i == 2 ? "gradient of c"
                    : i    ? "gradient of b"
                           : "gradient",
                    weft_grad(in[i]), b->gradient[i], values[0], of_gradients);
    weft_scope_close(scope);
}

WT_UNIT(pointwise_ops__give_what_torch_gives)
{
    FILE *file = fopen(values_file, "r");
    double values[3][VALUES];
    char line[LINE];
    struct block b;
    int blocks = 0;

    ck_assert(file != NULL);
    for (int i = 0; i < 3; i++) {
        ck_assert(read_line(file, line));
        read_bits(line, WEFT_F32, values[i]);
    }
    for (; read_block(file, &b); blocks++) check_block(&b, values);
    ck_assert_int_gt(blocks, 150);
    fclose(file);
}

int main(void) { return wt_unit_main_with("pointwise_values", set_up, NULL); }
