/*
 * test_special_values.c: pointwise kernels compute the last elements of a line otherwise than those
 * of its vectors; infinite, tiny and other special values come out alike.
 */
#include "cases.h"
#include "pointwise_rows.h"

static const double specials[] = {0, 1, -0.3, 1e-42, 3e38, -3e38, 100, INFINITY, -INFINITY, NAN};
enum { SPECIALS = sizeof specials / sizeof *specials };

/* in[i] fills operand i. Returns the result's first element; *last is its last. */
static double of_specials(int kernel, weft_dtype dtype, int64_t n, const double *in, double *last)
{
    struct operand x[3], y = operand_new(dtype, PLAIN, 1, &n);
    struct wf_scalars scalars = {.s = {0.5, 1, 2}};
    double value;

    for (int i = 0; i < 3; i++) {
        x[i] = operand_new(dtype, PLAIN, 1, &n);
        for (int64_t j = 0; j < n; j++) x[i].values[j] = in[i];
        operand_write(&x[i]);
    }
    call(all_kernels[kernel].kernel, &y, all_kernels[kernel].n_in,
         (struct operand *[]){&x[0], &x[1], &x[2]}, &scalars);
    value = y.values[0];
    *last = y.values[n - 1];
    OPERANDS_FREE(&x[0], &x[1], &x[2], &y);
    return value;
}

static bool are_the_same(double a, double b) { return a == b || (isnan(a) && isnan(b)); }

static void check_kernel(int k, weft_dtype dtype)
{
    int n_in = all_kernels[k].n_in;
    int cases = n_in == 1   ? SPECIALS
                : n_in == 2 ? SPECIALS * SPECIALS
                            : SPECIALS * SPECIALS * SPECIALS;

    for (int i = 0; i < cases; i++) {
        const double in[] = {specials[i % SPECIALS], specials[i / SPECIALS % SPECIALS],
                             specials[i / SPECIALS / SPECIALS]};
        double last, alone, first = of_specials(k, dtype, 67, in, &last);

        of_specials(k, dtype, 1, in, &alone);
        ck_assert_msg(are_the_same(first, last) && are_the_same(first, alone),
                      "%s of %s: %g, %g, %g are %g in a vector, %g behind it and %g alone",
                      all_kernels[k].name, wf_dtypes[dtype].name, in[0], in[1], in[2], first, last,
                      alone);
    }
}

WT_UNIT(special_values__do_not_depend_on_their_place)
{
    EACH_ISA
    for (int k = 0; k < ALL_KERNELS; k++)
        for (int t = 0; t < FLOAT_DTYPES; t++) check_kernel(k, float_dtypes[t]);
}

int main(void) { return wt_unit_main("special_values"); }
