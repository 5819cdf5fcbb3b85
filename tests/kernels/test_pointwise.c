/* test_pointwise.c: the kernels of pointwise.def against libm, over shapes, strides and dtypes. */
#include "cases.h"

/* ---- one input; gradients are checked by finite differences of the same references ---- */

typedef long double reference(long double x, long double s);

static long double of_neg(long double x, long double s) { return (void)s, -x; }
static long double of_exp(long double x, long double s) { return (void)s, expl(x); }
static long double of_log(long double x, long double s) { return (void)s, logl(x); }
static long double of_sqrt(long double x, long double s) { return (void)s, sqrtl(x); }
static long double of_rsqrt(long double x, long double s) { return (void)s, 1 / sqrtl(x); }
static long double of_square(long double x, long double s) { return (void)s, x * x; }
static long double of_tanh(long double x, long double s) { return (void)s, tanhl(x); }
static long double of_sigmoid(long double x, long double s) { return (void)s, 1 / (1 + expl(-x)); }
static long double of_relu(long double x, long double s) { return (void)s, fmaxl(x, 0); }
static long double of_silu(long double x, long double s) { return (void)s, x / (1 + expl(-x)); }
static long double of_add(long double x, long double s) { return x + s; }
static long double of_mul(long double x, long double s) { return x * s; }
static long double of_pow(long double x, long double s) { return powl(x, s); }
static long double of_rdiv(long double x, long double s) { return s / x; }

static long double of_gelu(long double x, long double s)
{
    return (void)s, x * 0.5L * (1 + erfl(x / sqrtl(2)));
}

static long double of_gelu_tanh(long double x, long double s)
{
    const long double pi = 3.14159265358979323846L;

    (void)s;
    return x * 0.5L * (1 + tanhl(sqrtl(2 / pi) * (x + 0.044715L * x * x * x)));
}

enum saved { NOTHING, INPUT, OUTPUT };

struct unary_case {
    const char *name;
    wf_kernel_prepare *forward, *grad;
    reference *of;
    enum saved saved;
    bool positive; /* defined for x > 0 only */
    double s;
};

static const struct unary_case unary_cases[] = {
    {"neg", wf_cpu_neg, NULL, of_neg, NOTHING, false, 0},
    {"exp", wf_cpu_exp, NULL, of_exp, NOTHING, false, 0},
    {"log", wf_cpu_log, wf_cpu_log_grad, of_log, INPUT, true, 0},
    {"sqrt", wf_cpu_sqrt, wf_cpu_sqrt_grad, of_sqrt, OUTPUT, true, 0},
    {"rsqrt", wf_cpu_rsqrt, wf_cpu_rsqrt_grad, of_rsqrt, OUTPUT, true, 0},
    {"square", wf_cpu_square, NULL, of_square, NOTHING, false, 0},
    {"tanh", wf_cpu_tanh, wf_cpu_tanh_grad, of_tanh, OUTPUT, false, 0},
    {"sigmoid", wf_cpu_sigmoid, wf_cpu_sigmoid_grad, of_sigmoid, OUTPUT, false, 0},
    {"relu", wf_cpu_relu, wf_cpu_relu_grad, of_relu, INPUT, false, 0},
    {"silu", wf_cpu_silu, wf_cpu_silu_grad, of_silu, INPUT, false, 0},
    {"gelu", wf_cpu_gelu, wf_cpu_gelu_grad, of_gelu, INPUT, false, 0},
    {"gelu_tanh", wf_cpu_gelu_tanh, wf_cpu_gelu_tanh_grad, of_gelu_tanh, INPUT, false, 0},
    {"add_scalar", wf_cpu_add_scalar, NULL, of_add, NOTHING, false, 0.75},
    {"mul_scalar", wf_cpu_mul_scalar, NULL, of_mul, NOTHING, false, -2.5},
    {"pow_scalar 3", wf_cpu_pow_scalar, wf_cpu_pow_scalar_grad, of_pow, INPUT, false, 3},
    {"pow_scalar 1.5", wf_cpu_pow_scalar, wf_cpu_pow_scalar_grad, of_pow, INPUT, true, 1.5},
    {"pow_scalar -1", wf_cpu_pow_scalar, wf_cpu_pow_scalar_grad, of_pow, INPUT, true, -1},
    {"pow_scalar 0", wf_cpu_pow_scalar, wf_cpu_pow_scalar_grad, of_pow, INPUT, false, 0},
    {"rdiv_scalar", wf_cpu_rdiv_scalar, wf_cpu_rdiv_scalar_grad, of_rdiv, INPUT, true, 1.75},
};
enum { UNARY_CASES = sizeof unary_cases / sizeof *unary_cases };

/* Values of size 0.05 and more, so that relu has a derivative and a difference quotient fits. */
static void spread_out(struct operand *x, bool positive)
{
    for (int64_t i = 0; i < x->desc.numel; i++) {
        double size = 0.05 + 4 * fabs(x->values[i]);

        x->values[i] = positive || x->values[i] > 0 ? size : -size;
    }
    operand_write(x);
}

static void check_forward(const struct unary_case *c, weft_dtype dtype, enum lie lie,
                          const struct sizes *shape)
{
    struct operand x = operand_noise(dtype, lie, shape->ndim, shape->n, 3);
    struct operand y = operand_new(dtype, PLAIN, shape->ndim, shape->n);
    struct wf_scalars scalars = {.s = {c->s}};

    spread_out(&x, c->positive);
    for (int64_t i = 0; i < x.desc.numel; i++) y.want[i] = (double)c->of(x.values[i], c->s);
    call(c->forward, &y, 1, (struct operand *[]){&x}, &scalars);
    expect_near(c->name, &y, y.want, dtype == WEFT_F32 ? 4e-7 : dtype == WEFT_F64 ? 1e-15 : 5e-3);
    expect_guards(&y);
    OPERANDS_FREE(&x, &y);
}

static long double slope(const struct unary_case *c, long double x)
{
    const long double h = 2e-5L;

    return (c->of(x + h, c->s) - c->of(x - h, c->s)) / (2 * h);
}

static void check_grad(const struct unary_case *c, weft_dtype dtype, enum lie lie,
                       const struct sizes *shape)
{
    struct operand d = operand_noise(dtype, lie, shape->ndim, shape->n, 4);
    struct operand x = operand_noise(dtype, PLAIN, shape->ndim, shape->n, 5);
    struct operand z = operand_new(dtype, lie, shape->ndim, shape->n);
    struct operand dx = operand_new(dtype, PLAIN, shape->ndim, shape->n);
    struct wf_scalars scalars = {.s = {c->s}};

    spread_out(&x, c->positive);
    for (int64_t i = 0; i < x.desc.numel; i++) {
        z.values[i] = c->saved == INPUT ? x.values[i] : (double)c->of(x.values[i], c->s);
        dx.want[i] = d.values[i] * (double)slope(c, x.values[i]);
    }
    operand_write(&z);
    call(c->grad, &dx, 2, (struct operand *[]){&d, &z}, &scalars);
    /* A saved output of 16 bits has lost what the slope is made of; relative to the slope's size.
     */
    expect_near(c->name, &dx, dx.want, dtype == WEFT_F32 ? 1e-5 : dtype == WEFT_F64 ? 1e-6 : 4e-2);
    OPERANDS_FREE(&d, &x, &z, &dx);
}

WT_UNIT(unary__equals_libm)
{
    EACH_ISA
    for (int c = 0; c < UNARY_CASES; c++)
        for (int t = 0; t < FLOAT_DTYPES; t++)
            for (int i = 0; i < SHAPES; i++)
                check_forward(&unary_cases[c], float_dtypes[t], nth_lie(c + i), &some_shapes[i]);
}

WT_UNIT(unary_grad__equals_finite_differences)
{
    EACH_ISA
    for (int c = 0; c < UNARY_CASES; c++)
        for (int t = 0; t < FLOAT_DTYPES && unary_cases[c].grad; t++)
            for (int i = 0; i < SHAPES; i++)
                check_grad(&unary_cases[c], float_dtypes[t], nth_lie(c + i), &some_shapes[i]);
}

WT_UNIT(unary__integers_where_promised)
{
    static wf_kernel_prepare *const kernels[] = {wf_cpu_neg, wf_cpu_square, wf_cpu_relu,
                                                 wf_cpu_add_scalar, wf_cpu_mul_scalar};
    static const int64_t shape[] = {3, 35};
    struct wf_scalars scalars = {.s = {-3}};

    EACH_ISA
    for (int t = 0; t < 2; t++)
        for (int c = 0; c < 5; c++) {
            weft_dtype dtype = t ? WEFT_I64 : WEFT_I32;
            struct operand x = operand_new(dtype, GAPS, 2, shape);
            struct operand y = operand_new(dtype, PLAIN, 2, shape);
            double want[105];

            operand_whole(&x, 1, 1000);
            for (int i = 0; i < 105; i++) {
                double v = x.values[i], of[] = {-v, v * v, v > 0 ? v : 0, v - 3, v * -3};

                want[i] = of[c];
            }
            call(kernels[c], &y, 1, (struct operand *[]){&x}, &scalars);
            expect_near("integers", &y, want, 0);
            OPERANDS_FREE(&x, &y);
        }
}

/* ---- two inputs ---- */

static double of_binary(int op, double a, double b, bool whole)
{
    double quotient = whole ? (b == 0 ? 0 : trunc(a / b)) : a / b;
    double power = whole ? trunc(pow(a, b)) : pow(a, b);
    double of[] = {a + b, a - b, a * b, quotient, power, a > b ? a : b, a < b ? a : b};

    return of[op];
}

static wf_kernel_prepare *const binaries[] = {wf_cpu_add, wf_cpu_sub,     wf_cpu_mul,    wf_cpu_div,
                                              wf_cpu_pow, wf_cpu_maximum, wf_cpu_minimum};
enum { BINARIES = 7, DIV = 3, POW = 4 };

static double of_compare(int op, double a, double b)
{
    double of[] = {a == b, a != b, a<b, a <= b, a> b, a >= b};

    return of[op];
}

static wf_kernel_prepare *const compares[] = {wf_cpu_eq, wf_cpu_ne, wf_cpu_lt,
                                              wf_cpu_le, wf_cpu_gt, wf_cpu_ge};
enum { COMPARES = 6 };

/* `op` counts arithmetic kernels first, then comparisons. */
static void check_pair(int op, weft_dtype dtype, enum lie lie, int pair)
{
    bool compare = op >= BINARIES, whole = !wf_dtypes[dtype].is_float;
    bool power = op == POW;
    wf_kernel_prepare *kernel = compare              ? compares[op - BINARIES]
                                : op == DIV && whole ? wf_cpu_trunc_divide
                                                     : binaries[op];
    struct operand a =
        operand_new(dtype, lie, broadcast_pairs[pair].a.ndim, broadcast_pairs[pair].a.n);
    struct operand b = operand_new(dtype, lie == TURNED ? PLAIN : lie, broadcast_pairs[pair].b.ndim,
                                   broadcast_pairs[pair].b.n);
    struct operand y = operand_new(compare ? WEFT_BOOL : dtype, PLAIN, broadcast_pairs[pair].y.ndim,
                                   broadcast_pairs[pair].y.n);
    struct wf_scalars scalars = {.s = {0}};

    operand_whole(&a, 1, power ? 2 : 9);
    operand_whole(&b, 2, power ? 3 : 9);
    for (int64_t i = 0; i < a.desc.numel; i++)
        a.values[i] = power && !whole ? fabs(a.values[i]) : a.values[i];
    for (int64_t i = 0; i < b.desc.numel; i++)
        b.values[i] = power ? fabs(b.values[i]) : b.values[i];
    operand_write(&a);
    operand_write(&b);
    for (int64_t i = 0; i < y.desc.numel; i++) {
        double u = a.values[broadcast_number(&a.desc, &y.desc, i)];
        double v = b.values[broadcast_number(&b.desc, &y.desc, i)];

        y.want[i] = compare ? of_compare(op - BINARIES, u, v) : of_binary(op, u, v, whole);
        if (dtype == WEFT_U8 && !compare) y.want[i] = (double)(uint8_t)(int)y.want[i];
        if (dtype == WEFT_I8 && !compare) y.want[i] = (double)(int8_t)(int)y.want[i];
        if (!whole && !compare && isinf(y.want[i])) y.want[i] = 0;
    }
    call(kernel, &y, 2, (struct operand *[]){&a, &b}, &scalars);
    for (int64_t i = 0; i < y.desc.numel; i++) {
        if (isinf(y.values[i])) y.values[i] = 0;
        if (isnan(y.values[i]) && isnan(y.want[i])) y.values[i] = y.want[i] = 0;
    }
    expect_near(compare ? "compare" : "binary", &y, y.want,
                compare || whole    ? 0
                : dtype == WEFT_F32 ? 4e-7
                : dtype == WEFT_F64 ? 1e-15
                                    : 5e-3);
    expect_guards(&y);
    OPERANDS_FREE(&a, &b, &y);
}

WT_UNIT(binary__broadcasts_in_every_dtype)
{
    EACH_ISA
    for (int op = 0; op < BINARIES + COMPARES; op++)
        for (int t = WEFT_F32; t < REAL_DTYPES; t++)
            for (int i = 0; i < BROADCAST_PAIRS * LIES && (t != WEFT_BOOL || op >= BINARIES); i++)
                check_pair(op, (weft_dtype)t, nth_lie(i), i / LIES);
}

/* The smallest number by -1 is itself, anything by 0 is 0; more of them than vectors are long. */
static const int64_t divisions[][3] = {
    {INT64_MIN, -1, INT64_MIN},
    {INT64_MIN, 0, 0},
    {INT64_MIN, 1, INT64_MIN},
    {7, 0, 0},
    {0, 0, 0},
    {INT64_MAX, -1, -INT64_MAX},
    {INT64_MAX, 0, 0},
    {-7, 2, -3},
    {7, -2, -3},
};
enum { DIVISIONS = sizeof divisions / sizeof *divisions, QUOTIENTS = 4 * DIVISIONS + 1 };

static int64_t as(weft_dtype dtype, int64_t x)
{
    if (dtype == WEFT_I64 || (x > INT32_MIN && x < INT32_MAX)) return x;
    return x < 0 ? INT32_MIN + (x != INT64_MIN) : INT32_MAX;
}

static void put(void *to, weft_dtype dtype, int i, int64_t x)
{
    if (dtype == WEFT_I64)
        ((int64_t *)to)[i] = x;
    else
        ((int32_t *)to)[i] = (int32_t)as(dtype, x);
}

/* trial 1.8 */
WT_UNIT(binary__integers_never_trap)
{
    static const int64_t shape[] = {QUOTIENTS};
    struct wf_scalars scalars = {.s = {0}};

    EACH_ISA
    for (int wide = 0; wide < 2; wide++) {
        weft_dtype dtype = wide ? WEFT_I64 : WEFT_I32;
        struct operand o = operand_new(dtype, PLAIN, 1, shape);
        struct wf_kernel_call k = {
            .op = "div", .n_in = 2, .n_out = 1, .in = {&o.desc, &o.desc}, .out = {&o.desc}};
        int64_t a[QUOTIENTS], b[QUOTIENTS], want[QUOTIENTS], y[QUOTIENTS];

        for (int i = 0; i < QUOTIENTS; i++) {
            put(a, dtype, i, divisions[i % DIVISIONS][0]);
            put(b, dtype, i, divisions[i % DIVISIONS][1]);
            put(want, dtype, i, divisions[i % DIVISIONS][2]);
        }
        ck_assert_int_eq(wf_cpu_trunc_divide(&k), WEFT_OK);
        k.run(&k, (void *[]){y}, (const void *[]){a, b}, &scalars);
        ck_assert(memcmp(y, want, QUOTIENTS * (wide ? sizeof *y : sizeof(int32_t))) == 0);
        wf_free(k.prep);
        operand_free(&o);
    }
}

WT_UNIT(binary__repeated_dims_are_read_as_such)
{
    static const int64_t shape[] = {4, 40};
    struct wf_scalars scalars = {.s = {0}};

    EACH_ISA
    for (int dims = 0; dims < 9; dims++) {
        struct operand a = operand_noise(WEFT_F32, PLAIN, 2, shape, 1);
        struct operand b = operand_noise(WEFT_F32, PLAIN, 2, shape, 2);
        struct operand y = operand_new(WEFT_F32, PLAIN, 2, shape);
        double want[160];

        if (dims % 3) operand_repeat(&a, dims % 3 - 1);
        if (dims / 3) operand_repeat(&b, dims / 3 - 1);
        for (int i = 0; i < 160; i++) want[i] = a.values[i] - b.values[i];
        call(wf_cpu_sub, &y, 2, (struct operand *[]){&a, &b}, &scalars);
        expect_near("repeated", &y, want, 1e-6);
        OPERANDS_FREE(&a, &b, &y);
    }
}

/* Views that begin anywhere, so that no pack of elements is aligned, or not in all operands. */
static void check_base(weft_dtype dtype, int64_t n, const int *first)
{
    int64_t room = n + 4;
    struct operand a = operand_noise(dtype, PLAIN, 1, &room, 1);
    struct operand b = operand_noise(dtype, PLAIN, 1, &room, 2);
    struct operand y = operand_new(dtype, PLAIN, 1, &room);
    struct operand *all[] = {&a, &b, &y};
    struct wf_kernel_call k = {
        .op = "sub", .n_in = 2, .n_out = 1, .in = {&a.desc, &b.desc}, .out = {&y.desc}};
    int64_t size = wf_dtypes[dtype].size;

    for (int i = 0; i < 3; i++) all[i]->desc.shape[0] = all[i]->desc.numel = n;
    ck_assert_int_eq(wf_cpu_sub(&k), WEFT_OK);
    k.run(&k, (void *[]){y.data + first[2] * size},
          (const void *[]){a.data + first[0] * size, b.data + first[1] * size},
          &(struct wf_scalars){0});
    for (int64_t i = 0; i < n; i++) {
        double want = a.values[i + first[0]] - b.values[i + first[1]];
        double got = wf_dtypes[dtype].load(y.data + (i + first[2]) * size);

        ck_assert(fabs(got - want) <= (wf_dtype_is_16_bit_float(dtype) ? 1e-2 : 1e-6));
    }
    UNGUARD(y.memory, GUARD_BYTES);
    UNGUARD(y.data + room * size, GUARD_BYTES);
    for (int64_t i = 0; i < GUARD_BYTES; i++)
        ck_assert(y.data[first[2] * size - 1 - i] == 0x7b &&
                  y.data[(first[2] + n) * size + i] == 0x7b);
    wf_free(k.prep);
    for (int i = 0; i < 3; i++) operand_free(all[i]);
}

WT_UNIT(binary__takes_any_base)
{
    static const int64_t lengths[] = {1, 3, 8, 21, 64, 301};

    EACH_ISA
    for (int i = 0; i < 6 * FLOAT_DTYPES * 4 * 4 * 4; i++) {
        int bases = i / 6 / FLOAT_DTYPES;

        check_base(float_dtypes[i / 6 % FLOAT_DTYPES], lengths[i % 6],
                   (int[]){bases % 4, bases / 4 % 4, bases / 16});
    }
}

WT_UNIT(binary__works_in_place)
{
    static const int64_t shape[] = {6, 21};
    struct wf_scalars scalars = {.s = {0}};

    EACH_ISA
    for (int side = 0; side < 2; side++) {
        struct operand a = operand_noise(WEFT_F32, PLAIN, 2, shape, 1);
        struct operand b = operand_noise(WEFT_F32, PLAIN, 2, shape, 2);
        struct wf_kernel_call k = {
            .op = "sub", .n_in = 2, .n_out = 1, .in = {&a.desc, &b.desc}, .out = {&a.desc}};
        struct operand *y = side ? &b : &a;
        double want[126];

        for (int i = 0; i < 126; i++) want[i] = a.values[i] - b.values[i];
        ck_assert_int_eq(wf_cpu_sub(&k), WEFT_OK);
        k.run(&k, (void *[]){y->data}, (const void *[]){a.data, b.data}, &scalars);
        operand_read(y);
        expect_near("in place", y, want, 1e-6);
        wf_free(k.prep);
        OPERANDS_FREE(&a, &b);
    }
}

/* In a vector and behind the last whole one; the other elements are what they are anyway. */
WT_UNIT(not_a_number__is_passed_on)
{
    static wf_kernel_prepare *const kernels[] = {wf_cpu_relu, wf_cpu_maximum, wf_cpu_minimum};
    static const int64_t shape[] = {37};
    struct wf_scalars scalars = {.s = {0}};

    EACH_ISA
    for (int t = 0; t < FLOAT_DTYPES; t++)
        for (int c = 0; c < 2 * 3; c++) {
            struct operand x[2], y = operand_new(float_dtypes[t], PLAIN, 1, shape);
            int side = c % 2, n_in = c / 2 ? 2 : 1;

            for (int i = 0; i < 2; i++) x[i] = operand_noise(float_dtypes[t], PLAIN, 1, shape, 1);
            x[n_in == 2 ? side : 0].values[5] = x[n_in == 2 ? side : 0].values[36] = NAN;
            operand_write(&x[0]);
            operand_write(&x[1]);
            call(kernels[c / 2], &y, n_in, (struct operand *[]){&x[0], &x[1]}, &scalars);
            for (int i = 0; i < 37; i++) ck_assert_int_eq(isnan(y.values[i]), i == 5 || i == 36);
            OPERANDS_FREE(&x[0], &x[1], &y);
        }
}

int main(void) { return wt_unit_main("pointwise"); }
