/* test_vmath.c: the accuracy of functions of pointwise.def, measured through kernels. */
#include "cases.h"

enum { POINTS = 20000 };

typedef long double exact(long double x);

static long double exact_exp(long double x) { return expl(x); }
static long double exact_log(long double x) { return logl(x); }
static long double exact_tanh(long double x) { return tanhl(x); }
static long double exact_sigmoid(long double x) { return 1 / (1 + expl(-x)); }
static long double exact_gelu(long double x) { return x * 0.5L * erfcl(-x / sqrtl(2)); }

static long double exact_dgelu(long double x)
{
    return 0.5L * erfcl(-x / sqrtl(2)) + x * expl(-x * x / 2) / sqrtl(2 * acosl(-1));
}

static long double exact_silu(long double x) { return x / (1 + expl(-x)); }

/* By bisection of erf, of erfc where erf is near 1; near 0 a straight line. */
static long double exact_erfinv(long double y)
{
    long double low = 0, high = 7, size = fabsl(y);

    if (size < 1e-11L) return y * sqrtl(acosl(-1)) / 2;
    for (int i = 0; i < 120; i++) {
        long double x = (low + high) / 2;
        bool less = size > 0.5L ? erfcl(x) > 1 - size : erfl(x) < size;

        *(less ? &low : &high) = x;
    }
    return copysignl((low + high) / 2, y);
}

/* Differences of lgamma's derivatives: the series that begins far away, summed back. */
static long double exact_digamma(long double x)
{
    long double below = 0, z;

    for (; x < 40; x += 1) below += 1 / x;
    z = 1 / (x * x);
    return logl(x) - 0.5L / x - z * (1 / 12.0L - z * (1 / 120.0L - z * (1 / 252.0L - z / 240))) -
           below;
}

static long double exact_trigamma(long double x)
{
    long double below = 0, z;

    for (; x < 40; x += 1) below += 1 / (x * x);
    z = 1 / (x * x);
    return 1 / x + z / 2 + z / x * (1 / 6.0L - z * (1 / 30.0L - z * (1 / 42.0L - z / 30))) + below;
}

static long double exact_sinc(long double x)
{
    const long double pi = acosl(-1);

    return sinl(pi * x) / (pi * x);
}

static long double exact_dsinc(long double x)
{
    const long double pi = acosl(-1);
    long double sum = 0, term = 1;

    for (int k = 1; k < 20; k++) {
        term *= -pi * pi * x * x / ((2 * k) * (2 * k + 1));
        sum += 2 * k * term / x;
    }
    return sum;
}

static const struct {
    const char *name;
    wf_kernel_prepare *kernel;
    exact *of;
    bool grad;
    double from, to, ulps;
} functions[] = {
    {"exp", wf_cpu_exp, exact_exp, false, -87, 88, 2},
    {"exp", wf_cpu_exp, exact_exp, false, -1, 1, 2},
    {"log", wf_cpu_log, exact_log, false, 1e-3, 10, 2},
    {"log", wf_cpu_log, exact_log, false, 0.95, 1.05, 2},
    {"log of subnormals", wf_cpu_log, exact_log, false, 1e-44, 1e-37, 2},
    {"tanh", wf_cpu_tanh, exact_tanh, false, -12, 12, 3},
    {"tanh", wf_cpu_tanh, exact_tanh, false, -1e-3, 1e-3, 3},
    {"sigmoid", wf_cpu_sigmoid, exact_sigmoid, false, -80, 40, 3},
    {"gelu's tail", wf_cpu_gelu, exact_gelu, false, -12, -1e-4, 7},
    {"gelu", wf_cpu_gelu, exact_gelu, false, 1e-4, 12, 7},
    {"gelu'", wf_cpu_gelu_grad, exact_dgelu, true, -0.5, 6, 10},
    {"gelu's slope in the tail", wf_cpu_gelu_grad, exact_dgelu, true, -8, -1, 16},
    {"silu", wf_cpu_silu, exact_silu, false, -80, 80, 4},
    {"exp2", wf_cpu_exp2, exp2l, false, -120, 120, 4},
    {"expm1", wf_cpu_expm1, expm1l, false, -20, 80, 4},
    {"expm1 near 0", wf_cpu_expm1, expm1l, false, -1e-3, 1e-3, 4},
    {"log2", wf_cpu_log2, log2l, false, 1e-3, 1e3, 4},
    {"log10", wf_cpu_log10, log10l, false, 1e-3, 1e3, 4},
    {"log1p", wf_cpu_log1p, log1pl, false, -0.99, 1e3, 4},
    {"log1p near 0", wf_cpu_log1p, log1pl, false, -1e-3, 1e-3, 4},
    {"sin", wf_cpu_sin, sinl, false, -3, 3, 4},
    {"cos", wf_cpu_cos, cosl, false, -1.5, 1.5, 4},
    {"tan", wf_cpu_tan, tanl, false, -1.5, 1.5, 4},
    {"asin", wf_cpu_asin, asinl, false, -1, 1, 4},
    {"acos", wf_cpu_acos, acosl, false, -1, 0.999, 4},
    {"atan", wf_cpu_atan, atanl, false, -50, 50, 4},
    {"sinh", wf_cpu_sinh, sinhl, false, -80, 80, 4},
    {"cosh", wf_cpu_cosh, coshl, false, -80, 80, 4},
    {"asinh", wf_cpu_asinh, asinhl, false, -50, 50, 4},
    {"acosh", wf_cpu_acosh, acoshl, false, 1.001, 50, 4},
    {"atanh", wf_cpu_atanh, atanhl, false, -0.999, 0.999, 4},
    {"erf", wf_cpu_erf, erfl, false, -4, 4, 4},
    {"erfc", wf_cpu_erfc, erfcl, false, -4, 8, 4},
    {"erfinv", wf_cpu_erfinv, exact_erfinv, false, -0.999, 0.999, 4},
    {"erfinv near 0", wf_cpu_erfinv, exact_erfinv, false, -1e-3, 1e-3, 4},
    {"lgamma", wf_cpu_lgamma, lgammal, false, 1e-3, 60, 8},
    {"lgamma near its roots", wf_cpu_lgamma, lgammal, false, 0.99, 2.01, 8},
    {"lgamma far below 0", wf_cpu_lgamma, lgammal, false, -60.3, -20.3, 8},
    {"digamma", wf_cpu_digamma, exact_digamma, false, 1.7, 300, 32},
    {"digamma near 0", wf_cpu_digamma, exact_digamma, false, 1e-3, 1.2, 32},
    {"digamma's slope", wf_cpu_digamma_grad, exact_trigamma, true, 1e-3, 300, 8},
    {"sinc", wf_cpu_sinc, exact_sinc, false, -0.9, 0.9, 4},
    {"sinc's slope", wf_cpu_sinc_grad, exact_dsinc, true, -0.9, 0.9, 24},
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

/* What f32 has of each exponent must be within 2 ulp; on a GPU (tests/gpu/kernel_tests.cmake)
 * within 4, as CUDA's manual has it of some. */
#ifdef WT_CUDA_HOST
enum { ON_GPU = 1 };
static const double ulps_everywhere = 4;
#else
enum { ON_GPU = 0 };
static const double ulps_everywhere = 2;
#endif

/* GPUs have these three for f32 only. */
static bool has_kernel(wf_kernel_prepare *kernel, weft_dtype dtype)
{
    return !ON_GPU || dtype == WEFT_F32 ||
           (kernel != wf_cpu_sin && kernel != wf_cpu_cos && kernel != wf_cpu_tan);
}

static const struct {
    const char *name;
    wf_kernel_prepare *kernel;
    exact *of;
    double least, most; /* of sizes; negative numbers too where `least` is 0 */
} everywhere[] = {
    {"exp", wf_cpu_exp, exact_exp, 0, 103},
    {"exp2", wf_cpu_exp2, exp2l, 0, 126},
    {"expm1", wf_cpu_expm1, expm1l, 0, 88},
    {"log", wf_cpu_log, exact_log, 1e-45, 3e38},
    {"log2", wf_cpu_log2, log2l, 1e-45, 3e38},
    {"log10", wf_cpu_log10, log10l, 1e-45, 3e38},
    {"log1p", wf_cpu_log1p, log1pl, 1e-45, 3e38},
    {"sin", wf_cpu_sin, sinl, 0, 3e38},
    {"cos", wf_cpu_cos, cosl, 0, 3e38},
    {"tan", wf_cpu_tan, tanl, 0, 3e38},
    {"asin", wf_cpu_asin, asinl, 0, 1},
    {"acos", wf_cpu_acos, acosl, 0, 1},
    {"atan", wf_cpu_atan, atanl, 0, 3e38},
    {"sinh", wf_cpu_sinh, sinhl, 0, 88},
    {"cosh", wf_cpu_cosh, coshl, 0, 88},
    {"tanh", wf_cpu_tanh, exact_tanh, 0, 3e38},
    {"asinh", wf_cpu_asinh, asinhl, 0, 3e38},
    {"acosh", wf_cpu_acosh, acoshl, 1, 3e38},
    {"atanh", wf_cpu_atanh, atanhl, 0, 0.9999999},
    {"erf", wf_cpu_erf, erfl, 0, 3e38},
    {"erfc", wf_cpu_erfc, erfcl, 0, 9},
    {"lgamma", wf_cpu_lgamma, lgammal, 1e-45, 1e36},
    {"sigmoid", wf_cpu_sigmoid, exact_sigmoid, 0, 87},
    {"silu", wf_cpu_silu, exact_silu, 0, 89},
    {"erfinv", wf_cpu_erfinv, exact_erfinv, 0, 0.99999997},
#ifndef WT_CUDA_HOST /* a GPU's normal distribution is within 7 */
    {"gelu", wf_cpu_gelu, exact_gelu, 0, 14.5},
#endif
};
enum { EVERYWHERE = sizeof everywhere / sizeof *everywhere, OF_AN_EXPONENT = 128 };

static double ulp_of(weft_dtype dtype, double value)
{
    double size = fabs(value);

    if (dtype == WEFT_F64) return nextafter(size, INFINITY) - size;
    return (double)nextafterf((float)size, INFINITY) - (double)(float)size;
}

static void measure(int f, weft_dtype dtype)
{
    static const int64_t shape[] = {POINTS};
    struct operand x = operand_new(dtype, PLAIN, 1, shape);
    struct operand y = operand_new(dtype, PLAIN, 1, shape);
    struct operand one = operand_new(dtype, PLAIN, 1, shape);
    struct operand *in[] = {functions[f].grad ? &one : &x, &x};
    struct wf_scalars scalars = {.s = {0}};

    for (int i = 0; i < POINTS; i++) {
        x.values[i] =
            functions[f].from + (functions[f].to - functions[f].from) * (i + 0.37) / (double)POINTS;
        one.values[i] = 1;
    }
    operand_write(&x);
    operand_write(&one);
    call(functions[f].kernel, &y, functions[f].grad ? 2 : 1, in, &scalars);
    for (int i = 0; i < POINTS; i++) {
        long double want = functions[f].of(x.values[i]);
        double error = (double)fabsl(y.values[i] - want) / ulp_of(dtype, (double)want);

        ck_assert_msg(error <= functions[f].ulps, "%s %s: isa %d: at %.17g %.2f ulp",
                      functions[f].name, wf_dtypes[dtype].name, wf_kernels_isa_level(), x.values[i],
                      error);
    }
    OPERANDS_FREE(&x, &y, &one);
}

WT_UNIT(functions__stay_within_their_ulps)
{
    EACH_ISA
    for (int f = 0; f < FUNCTIONS; f++) {
        measure(f, WEFT_F32);
        if (has_kernel(functions[f].kernel, WEFT_F64)) measure(f, WEFT_F64);
    }
}

/* Numbers of every exponent that f32 has, those without a leading 1 too. */
static int draw_everywhere(int f, double *values)
{
    uint32_t state = 1;
    int n = 0;

    for (uint32_t i = 0; i < 255 * OF_AN_EXPONENT; i++) {
        uint32_t bits;
        float v;

        state = state * 1664525u + 1013904223u;
        bits = i / OF_AN_EXPONENT << 23 | state >> 9;
        memcpy(&v, &bits, sizeof v);
        if (v == 0 || (double)v < everywhere[f].least || (double)v > everywhere[f].most) continue;
        values[n++] = everywhere[f].least == 0 && i % 2 ? -(double)v : (double)v;
    }
    return n;
}

static void measure_everywhere(int f)
{
    static const int64_t room[] = {255 * OF_AN_EXPONENT};
    struct operand x = operand_new(WEFT_F32, PLAIN, 1, room);
    struct operand y = operand_new(WEFT_F32, PLAIN, 1, room);
    struct wf_scalars scalars = {.s = {0}};
    int n;

    for (int64_t i = 0; i < room[0]; i++) x.values[i] = 1;
    n = draw_everywhere(f, x.values);
    operand_write(&x);
    call(everywhere[f].kernel, &y, 1, (struct operand *[]){&x}, &scalars);
    for (int i = 0; i < n; i++) {
        long double want = everywhere[f].of(x.values[i]);
        double error = (double)fabsl(y.values[i] - want) / ulp_of(WEFT_F32, (double)want);

        if (isinf((float)want) && isinf(y.values[i])) continue;
        ck_assert_msg(error <= ulps_everywhere, "%s: isa %d: at %.9g %.2f ulp", everywhere[f].name,
                      wf_kernels_isa_level(), x.values[i], error);
    }
    OPERANDS_FREE(&x, &y);
}

WT_UNIT(functions__of_f32_are_within_a_few_ulp_everywhere)
{
    EACH_ISA
    for (int f = 0; f < EVERYWHERE; f++) measure_everywhere(f);
}

static void same(const char *what, double x, double got, double want)
{
    bool equal = isnan(want) ? isnan(got) : got == want;

    ck_assert_msg(equal, "%s(%g): isa %d gives %g, not %g", what, x, wf_kernels_isa_level(), got,
                  want);
}

/* So that a tensor's bits do not depend on how it is sharded. Large numbers are among small ones.
 */
WT_UNIT(functions__round_alike_wherever_an_element_lies)
{
    enum { N = 293 };
    static wf_kernel_prepare *const kernels[] = {
#define TESTED_LIBM(name) wf_cpu_##name,
#define TESTED_TRIG(name) wf_cpu_##name,
#define TESTED_REAL(name)
#define TESTED_ANY(name)
#define WF_UNARY(name, scalars, numbers, ...) TESTED_##numbers(name)
#include "kernels/pointwise.def"
    };
    static const int64_t many[] = {N}, one[] = {1};
    struct wf_scalars scalars = {.s = {0.7}};

    EACH_ISA
    for (size_t f = 0; f < sizeof kernels / sizeof *kernels; f++)
        for (int t = 0; t < (has_kernel(kernels[f], WEFT_F64) ? 2 : 1); t++) {
            weft_dtype dtype = t ? WEFT_F64 : WEFT_F32;
            struct operand x = operand_noise(dtype, PLAIN, 1, many, 7);
            struct operand y = operand_new(dtype, PLAIN, 1, many);

            for (int i = 0; i < N; i += 5) x.values[i] *= 1e6;
            operand_write(&x);
            call(kernels[f], &y, 1, (struct operand *[]){&x}, &scalars);
            for (int i = 0; i < N; i++) {
                struct operand alone = operand_new(dtype, PLAIN, 1, one);
                struct operand made = operand_new(dtype, PLAIN, 1, one);

                alone.values[0] = x.values[i];
                operand_write(&alone);
                call(kernels[f], &made, 1, (struct operand *[]){&alone}, &scalars);
                same("function", x.values[i], made.values[0], y.values[i]);
                OPERANDS_FREE(&alone, &made);
            }
            OPERANDS_FREE(&x, &y);
        }
}

WT_UNIT(functions__go_to_their_limits)
{
    static const double at[] = {INFINITY, -INFINITY, NAN, 0, 1e30, -1e30, -2};
    static const struct {
        const char *name;
        wf_kernel_prepare *kernel;
        double want[7];
    } limits[] = {
        {"exp", wf_cpu_exp, {INFINITY, 0, NAN, 1, INFINITY, 0, 0.1353352832366127}},
        {"log", wf_cpu_log, {INFINITY, NAN, NAN, -INFINITY, 69.07755278982137, NAN, NAN}},
        {"tanh", wf_cpu_tanh, {1, -1, NAN, 0, 1, -1, -0.9640275800758169}},
        {"sigmoid", wf_cpu_sigmoid, {1, 0, NAN, 0.5, 1, 0, 0.11920292202211756}},
        {"gelu", wf_cpu_gelu, {INFINITY, NAN, NAN, 0, 1e30, 0, -0.045500263896358414}},
    };
    static const weft_dtype dtypes[] = {WEFT_F32, WEFT_F64, WEFT_BF16};
    static const int64_t shape[] = {7};
    struct wf_scalars scalars = {.s = {0}};

    EACH_ISA
    for (size_t f = 0; f < sizeof limits / sizeof *limits; f++)
        for (int t = 0; t < 3; t++) {
            struct operand x = operand_new(dtypes[t], PLAIN, 1, shape);
            struct operand y = operand_new(dtypes[t], PLAIN, 1, shape);

            memcpy(x.values, at, sizeof at);
            operand_write(&x);
            call(limits[f].kernel, &y, 1, (struct operand *[]){&x}, &scalars);
            for (int i = 0; i < 7; i++) {
                double want = limits[f].want[i], got = y.values[i];

                if (fabs(got - want) < (t == 2 ? 0x1p-7 : 1e-6) * fabs(want)) got = want;
                same(limits[f].name, at[i], got, want);
            }
            OPERANDS_FREE(&x, &y);
        }
}

WT_UNIT(pow__agrees_with_libm_everywhere)
{
    static const double v[] = {0,      1,        -1,        2,    -2,       0.5, -0.5,
                               3,      -3,       1.5,       1e10, 1e-10,    7,   -7,
                               1.0001, INFINITY, -INFINITY, NAN,  16777217, 4.5};
    enum { N = sizeof v / sizeof *v };
    static const int64_t shape[] = {N * N};
    struct wf_scalars scalars = {.s = {0}};

    EACH_ISA
    for (int t = 0; t < 2; t++) {
        weft_dtype dtype = t ? WEFT_F64 : WEFT_F32;
        struct operand a = operand_new(dtype, PLAIN, 1, shape),
                       b = operand_new(dtype, PLAIN, 1, shape);
        struct operand y = operand_new(dtype, PLAIN, 1, shape);

        for (int i = 0; i < N * N; i++) {
            a.values[i] = v[i / N];
            b.values[i] = v[i % N];
        }
        operand_write(&a);
        operand_write(&b);
        call(wf_cpu_pow, &y, 2, (struct operand *[]){&a, &b}, &scalars);
        for (int i = 0; i < N * N; i++) {
            double want = t ? pow(a.values[i], b.values[i])
                            : (double)powf((float)a.values[i], (float)b.values[i]);
            bool near = fabs(y.values[i] - want) <= (t ? 1e-15 : 2e-7) * fabs(want);

            ck_assert_msg(near || (isnan(want) && isnan(y.values[i])) || want == y.values[i],
                          "isa %d: %g ^ %g is %g, not %g", wf_kernels_isa_level(), a.values[i],
                          b.values[i], y.values[i], want);
        }
        OPERANDS_FREE(&a, &b, &y);
    }
}

int main(void) { return wt_unit_main("vmath"); }
