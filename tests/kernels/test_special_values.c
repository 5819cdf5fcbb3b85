/*
 * test_special_values.c: pointwise kernels compute the last elements of a line otherwise than those
 * of its vectors; infinite, tiny and other special values come out alike.
 */
#include "cases.h"

static const struct {
    const char *name;
    wf_kernel_prepare *kernel;
    int n_in;
} all_kernels[] = {
#define WF_UNARY(name, ...) {#name, wf_cpu_##name, 1}, {#name "_grad", wf_cpu_##name##_grad, 2},
#define WF_UNARY_BY_OPS(name, ...) {#name, wf_cpu_##name, 1},
#define WF_BINARY(name, ...) {#name, wf_cpu_##name, 2},
#include "kernels/pointwise.def"
};
static const double specials[] = {0, 1, -0.3, 1e-42, 3e38, -3e38, 100, INFINITY, -INFINITY, NAN};
enum {
    ALL_KERNELS = sizeof all_kernels / sizeof *all_kernels,
    SPECIALS = sizeof specials / sizeof *specials
};

static double of_specials(int kernel, weft_dtype dtype, int64_t n, double first, double second,
                          double *last)
{
    struct operand x[2], y = operand_new(dtype, PLAIN, 1, &n);
    struct wf_scalars scalars = {.s = {0.5, 1, 2}};
    double value;

    for (int i = 0; i < 2; i++) {
        x[i] = operand_new(dtype, PLAIN, 1, &n);
        for (int64_t j = 0; j < n; j++) x[i].values[j] = i ? second : first;
        operand_write(&x[i]);
    }
    call(all_kernels[kernel].kernel, &y, all_kernels[kernel].n_in,
         (struct operand *[]){&x[0], &x[1]}, &scalars);
    value = y.values[0];
    *last = y.values[n - 1];
    OPERANDS_FREE(&x[0], &x[1], &y);
    return value;
}

static bool are_the_same(double a, double b) { return a == b || (isnan(a) && isnan(b)); }

WT_UNIT(special_values__do_not_depend_on_their_place)
{
    EACH_ISA
    for (int k = 0; k < ALL_KERNELS; k++)
        for (int t = 0; t < FLOAT_DTYPES; t++)
            for (int i = 0; i < SPECIALS * (all_kernels[k].n_in == 2 ? SPECIALS : 1); i++) {
                double a = specials[i % SPECIALS], b = specials[i / SPECIALS], last, alone;
                double first = of_specials(k, float_dtypes[t], 67, a, b, &last);

                of_specials(k, float_dtypes[t], 1, a, b, &alone);
                ck_assert_msg(are_the_same(first, last) && are_the_same(first, alone),
                              "%s of %s: %g, %g are %g in a vector, %g behind it and %g alone",
                              all_kernels[k].name, wf_dtypes[float_dtypes[t]].name, a, b, first,
                              last, alone);
            }
}

int main(void) { return wt_unit_main("special_values"); }
