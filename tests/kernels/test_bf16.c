/*
 * test_bf16.c: what loops of 16-bit floats compute from the bits (choices between x and numbers and
 * rounding to integers of bf16, extremes of both), and quotients of bf16 by a number, for all of
 * them and in every instruction set, against the formulas in double.
 */
#include "cases.h"

enum { ALL = 1 << 16, ROW = 200 };

static struct operand all_bf16(int64_t n)
{
    struct operand x = operand_new(WEFT_BF16, PLAIN, 1, &n);

    for (int64_t i = 0; i < n; i++) ((wf_bf16 *)(void *)x.data)[i] = (wf_bf16)i;
    operand_read(&x);
    return x;
}

static double as_bf16(double v) { return wf_bf16_to_f32(wf_f32_to_bf16((float)v)); }

/* The sign of a zero is not told. */
static bool is_same(double got, double want) { return isnan(want) ? isnan(got) : got == want; }

/* ---- of each element ---- */

typedef double formula(double x, const double *s);

static double clamped(double x, const double *s)
{
    double y = x < s[0] ? s[0] : x;

    return y > s[1] ? as_bf16(s[1]) : x < s[0] ? as_bf16(s[0]) : x;
}
static double clamped_min(double x, const double *s) { return x < s[0] ? as_bf16(s[0]) : x; }
static double clamped_max(double x, const double *s) { return x > s[0] ? as_bf16(s[0]) : x; }
static double number(double x, const double *s)
{
    return isnan(x) ? as_bf16(s[0]) : isinf(x) ? as_bf16(x > 0 ? s[1] : s[2]) : x;
}
static double up(double x, const double *s) { return (void)s, ceil(x); }
static double down(double x, const double *s) { return (void)s, floor(x); }
static double nearest(double x, const double *s) { return (void)s, rint(x); }
static double to_zero(double x, const double *s) { return (void)s, trunc(x); }
static double divided(double x, const double *s) { return as_bf16((float)x / (float)s[0]); }

static const struct {
    const char *name;
    wf_kernel_prepare *kernel;
    formula *of;
    int numbers;
} cases[] = {{"clamp", wf_cpu_clamp, clamped, 2},
             {"clamp_min", wf_cpu_clamp_min, clamped_min, 1},
             {"clamp_max", wf_cpu_clamp_max, clamped_max, 1},
             {"nan_to_num", wf_cpu_nan_to_num, number, 3},
             {"ceil", wf_cpu_ceil, up, 0},
             {"floor", wf_cpu_floor, down, 0},
             {"round", wf_cpu_round, nearest, 0},
             {"trunc", wf_cpu_trunc, to_zero, 0},
             {"div", wf_cpu_div_scalar, divided, 1}};

/* Between two bf16, on one, zeros, none, beyond all, near 2^100 and its inverse. */
static const double numbers[] = {-3.3, -0.5,     -0.0,      0.0,       0x1p-133,  1.001,
                                 7,    1e39,     -1e39,     256.5,     -INFINITY, INFINITY,
                                 NAN,  0x1.8p99, 0x1.8p100, 0x1.8p-99, 0x1p-101};
enum { NUMBERS = sizeof numbers / sizeof *numbers };

static void check_all_bf16(int c, const struct wf_scalars *s, const struct operand *x,
                           struct operand *y)
{
    call(cases[c].kernel, y, 1, (struct operand *[]){(struct operand *)(uintptr_t)x}, s);
    for (int64_t i = 0; i < x->desc.numel; i++) {
        double rounded[] = {(float)s->s[0], (float)s->s[1], (float)s->s[2]};
        double want = cases[c].of(x->values[i], rounded), got = y->values[i];

        if (is_same(got, want)) continue;
        ck_abort_msg("isa %d: %s(%g; %g, %g, %g) is %g, not %g", wf_kernels_isa_level(),
                     cases[c].name, x->values[i], s->s[0], s->s[1], s->s[2], got, want);
    }
}

/* More than all of them, so that loops end with a rest. */
WT_UNIT(choices_integers_and_quotients__of_every_bf16)
{
    const int64_t n = ALL + 7;
    struct operand x = all_bf16(n), y = operand_new(WEFT_BF16, PLAIN, 1, &n);

    EACH_ISA
    for (int c = 0; c < (int)(sizeof cases / sizeof *cases); c++)
        for (int i = 0; i < (cases[c].numbers ? NUMBERS : 1); i++)
            for (int k = 0; k < (cases[c].numbers > 1 ? NUMBERS : 1); k += 2) {
                struct wf_scalars s = {{numbers[i], numbers[k], numbers[(i + k) % NUMBERS]}, {0}};

                check_all_bf16(c, &s, &x, &y);
            }
    OPERANDS_FREE(&x, &y);
}

/* Half the distance between numbers of bf16 near v. */
static double half_ulp(double v)
{
    int exponent;

    frexp(v, &exponent);
    return ldexp(1, exponent < -125 ? -134 : exponent - 9);
}

/* The nearest bf16 to erf(x), but where that is almost halfway between two. */
WT_UNIT(erf__of_every_bf16_is_near)
{
    const int64_t n = ALL + 7;
    struct operand x = all_bf16(n), y = operand_new(WEFT_BF16, PLAIN, 1, &n);
    struct wf_scalars none = {.s = {0}};

    EACH_ISA
    {
        call(wf_cpu_erf, &y, 1, (struct operand *[]){&x}, &none);
        for (int64_t i = 0; i < n; i++) {
            double want = erf(x.values[i]), got = y.values[i];

            if (fabs(got - want) <= 1.01 * half_ulp(want) || is_same(got, want)) continue;
            ck_abort_msg("isa %d: erf(%g) is %g, not %g", wf_kernels_isa_level(), x.values[i], got,
                         want);
        }
    }
    OPERANDS_FREE(&x, &y);
}

/* ---- extremes ---- */

enum extreme { MOST, LEAST, MOST_SIZE, LEAST_SIZE, EXTREMES };

static double extreme_of(enum extreme which, const double *x, int64_t n, int64_t apart)
{
    bool least = which == LEAST || which == LEAST_SIZE;
    double best = least ? INFINITY : -INFINITY;

    for (int64_t i = 0; i < n; i++) {
        double v = which >= MOST_SIZE ? fabs(x[i * apart]) : x[i * apart];

        if (isnan(v)) return NAN;
        if (least ? v < best : v > best) best = v;
    }
    return best;
}

static void check_extremes(enum extreme which, struct operand *x, int dim)
{
    static wf_kernel_prepare *const kernels[] = {wf_cpu_max, wf_cpu_min, wf_cpu_norm, wf_cpu_norm};
    const int64_t *shape = x->desc.shape, kept = shape[1 - dim],
                  to[] = {dim ? kept : 1, dim ? 1 : kept};
    union wf_op_attrs attrs = {
        .norm = {.dims = 1u << dim, .p = which == LEAST_SIZE ? -INFINITY : INFINITY}};
    struct operand y = operand_new((weft_dtype)x->desc.dtype, PLAIN, 2, to);
    struct wf_scalars scalars = {.s = {1}};

    call_with(kernels[which], &attrs, &y, 1, (struct operand *[]){x}, &scalars);
    for (int64_t i = 0; i < kept; i++) {
        double want = extreme_of(which, x->values + (dim ? i * ROW : i), shape[dim], dim ? 1 : ROW);

        if (is_same(y.values[i], want)) continue;
        ck_abort_msg("isa %d: extreme %d of dim %d at %d is %g, not %g", wf_kernels_isa_level(),
                     (int)which, dim, (int)i, y.values[i], want);
    }
    OPERANDS_FREE(&y);
}

/* Rows of neighbours in the order of bits, with NaN in some, along either dim. */
WT_UNIT(extremes__are_those_of_the_values)
{
    static const weft_dtype dtypes[] = {WEFT_BF16, WEFT_F16};
    const int64_t rows = ALL / ROW, shape[] = {rows, ROW};

    EACH_ISA
    for (int t = 0; t < 2; t++) {
        struct operand x = operand_new(dtypes[t], PLAIN, 2, shape);

        for (int64_t i = 0; i < rows * ROW; i++)
            ((uint16_t *)(void *)x.data)[i] = (uint16_t)(i + i % 7 * 31 % 97);
        operand_read(&x);
        for (int which = 0; which < EXTREMES; which++)
            for (int dim = 0; dim < 2; dim++) check_extremes((enum extreme)which, &x, dim);
        OPERANDS_FREE(&x);
    }
}

int main(void) { return wt_unit_main("bf16"); }
