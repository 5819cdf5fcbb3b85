/* test_steps.c: the optimizers' passes against their formulas in f64. */
#include "cases.h"

#include "kernels/optim.h"

static const int64_t lengths[] = {0, 1, 7, 64, 1001};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

static double bound(weft_dtype dtype)
{
    return dtype == WEFT_F64 ? 1e-14 : dtype == WEFT_F32 ? 1e-6 : 1e-2;
}

static void check_adamw(weft_dtype dtype, int64_t n)
{
    const struct wf_adamw_step step = {.lr = 0.01,
                                       .beta1 = 0.9,
                                       .beta2 = 0.99,
                                       .eps = 1e-4,
                                       .weight_decay = 0.1,
                                       .correction1 = 0.271,
                                       .correction2 = 0.0297};
    struct operand o[4];

    for (int i = 0; i < 4; i++) o[i] = operand_noise(dtype, PLAIN, 1, &n, (uint64_t)i);
    for (int64_t i = 0; i < n; i++) o[3].values[i] = fabs(o[3].values[i]);
    operand_write(&o[3]);
    wf_cpu_adamw(dtype, n, o[0].data, o[1].data, o[2].data, o[3].data, &step);
    for (int64_t i = 0; i < n; i++) {
        double g = o[1].values[i], *w = &o[0].values[i], *m = &o[2].values[i], *v = &o[3].values[i];

        *m = 0.9 * *m + 0.1 * g;
        *v = 0.99 * *v + 0.01 * g * g;
        *w -= 0.01 * (0.1 * *w + *m / 0.271 / (sqrt(*v / 0.0297) + 1e-4));
    }
    for (int i = 0; i < 4; i++) {
        double *want =
            memcpy(calloc((size_t)n + 1, sizeof *want), o[i].values, (size_t)n * sizeof *want);

        operand_read(&o[i]);
        expect_near("adamw", &o[i], want, bound(dtype));
        expect_guards(&o[i]);
        operand_free(&o[i]);
        free(want);
    }
}

static void check_sgd(weft_dtype dtype, int64_t n, bool momentum, bool nesterov)
{
    const struct wf_sgd_step step = {
        .lr = 0.1, .momentum = momentum ? 0.8 : 0, .weight_decay = 0.2, .nesterov = nesterov};
    struct operand o[3];

    for (int i = 0; i < 3; i++) o[i] = operand_noise(dtype, PLAIN, 1, &n, (uint64_t)i);
    wf_cpu_sgd(dtype, n, o[0].data, o[1].data, momentum ? o[2].data : NULL, &step);
    for (int64_t i = 0; i < n; i++) {
        double h = o[1].values[i] + 0.2 * o[0].values[i], *b = &o[2].values[i];

        if (momentum) *b = 0.8 * *b + h;
        o[0].values[i] -= 0.1 * (!momentum ? h : nesterov ? h + 0.8 * *b : *b);
    }
    for (int i = 0; i < 3; i++) {
        double *want =
            memcpy(calloc((size_t)n + 1, sizeof *want), o[i].values, (size_t)n * sizeof *want);

        operand_read(&o[i]);
        expect_near("sgd", &o[i], want, bound(dtype));
        operand_free(&o[i]);
        free(want);
    }
}

static void check_sums(weft_dtype dtype, int64_t n)
{
    struct operand x = operand_noise(dtype, PLAIN, 1, &n, 1),
                   y = operand_noise(dtype, PLAIN, 1, &n, 2);
    double *want = calloc((size_t)n + 1, sizeof *want), squares = 0;

    for (int64_t i = 0; i < n; i++) {
        squares += x.values[i] * x.values[i];
        want[i] = y.values[i] - 1.5 * x.values[i];
    }
    ck_assert(fabs(wf_cpu_sum_squares(dtype, n, x.data) - squares) <= 1e-12 * squares);
    wf_cpu_axpy(dtype, n, y.data, -1.5, x.data);
    operand_read(&y);
    expect_near("axpy", &y, want, bound(dtype));
    for (int64_t i = 0; i < n; i++) want[i] = x.values[i] * 0.3;
    wf_cpu_scale(dtype, n, x.data, 0.3);
    operand_read(&x);
    expect_near("scale", &x, want, bound(dtype));
    expect_guards(&x);
    expect_guards(&y);
    operand_free(&x);
    operand_free(&y);
    free(want);
}

START_TEST(steps__equal_their_formulas)
{
    EACH_ISA
    for (int i = 0; i < LENGTHS * FLOAT_DTYPES; i++) {
        weft_dtype dtype = float_dtypes[i % FLOAT_DTYPES];
        int64_t n = lengths[i / FLOAT_DTYPES];

        check_sums(dtype, n);
        if (dtype == WEFT_BF16) continue; /* of parameters, f32 and f64 are promised */
        check_adamw(dtype, n);
        check_sgd(dtype, n, false, false);
        check_sgd(dtype, n, true, false);
        check_sgd(dtype, n, true, true);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("steps");
    TCase *tests = tcase_create("steps");

    tcase_add_test(tests, steps__equal_their_formulas);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
