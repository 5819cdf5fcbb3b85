/*
 * test_along_dims.c: products, minima, counts, norms, squares about a number, sums of
 * exponentials, places, order and scans against plain loops, however operands lie.
 */
#include "cases.h"

static const struct sizes shapes[] = {
    {0, {0}},       {1, {0}},          {1, {1}},       {1, {5000}},   {2, {8, 8}},
    {2, {0, 4}},    {2, {3, 0}},       {2, {70, 300}}, {2, {300, 3}}, {3, {4, 5, 33}},
    {3, {2, 1, 6}}, {4, {2, 3, 4, 5}}, {2, {130, 33}},
};
enum { COUNT = sizeof shapes / sizeof *shapes };

#ifdef WT_CUDA_HOST /* on GPUs the numbers beside x must be dense; others go through the host */
#define LIE_OF_NUMBERS(lie) PLAIN
#else
#define LIE_OF_NUMBERS(lie) (lie)
#endif

static bool is_float(weft_dtype t) { return wf_dtype_is_float(t); }

static weft_dtype wide(weft_dtype t)
{
    return !is_float(t) ? WEFT_I64 : wf_dtype_is_16_bit_float(t) ? WEFT_F32 : t;
}

/* ---- reductions ---- */

/* START, and what an element x with the number q of its result makes of it; FINISH at the end. */
struct op {
    const char *name;
    wf_kernel_prepare *prepare;
    bool floats, wide_only, counts, with_number;
    double start, p;
};

enum { MIN, PROD, COUNTS, DEVIATION, SUM_EXP, NORMS };

static const struct op ops[] = {
    {"min", wf_cpu_min, false, false, false, false, INFINITY, 0},
    {"prod", wf_cpu_prod, false, true, false, false, 1, 0},
    {"count_nonzero", wf_cpu_count_nonzero, false, false, true, false, 0, 0},
    {"deviation", wf_cpu_deviation, true, true, false, true, 0, 0},
    {"sum_exp", wf_cpu_sum_exp, true, true, false, true, 0, 0},
    {"norm 2", wf_cpu_norm, true, true, false, false, 0, 2},
    {"norm 1", wf_cpu_norm, true, true, false, false, 0, 1},
    {"norm 0", wf_cpu_norm, true, true, false, false, 0, 0},
    {"norm inf", wf_cpu_norm, true, true, false, false, 0, INFINITY},
    {"norm -inf", wf_cpu_norm, true, true, false, false, INFINITY, -INFINITY},
    {"norm 2.5", wf_cpu_norm, true, true, false, false, 0, 2.5},
};
enum { OPS = sizeof ops / sizeof *ops };

static double take(int op, double to, double x, double q)
{
    double p = ops[op].p;

    switch (op) {
    case MIN:
        return fmin(to, x);
    case PROD:
        return to * x;
    case COUNTS:
        return to + (x != 0);
    case DEVIATION:
        return to + (x - q) * (x - q);
    case SUM_EXP:
        return to + exp(x - q);
    default:
        return isinf(p) ? (p > 0 ? fmax : fmin)(to, fabs(x)) : to + (p ? pow(fabs(x), p) : x != 0);
    }
}

static double finish(int op, double value)
{
    return op >= NORMS && isfinite(ops[op].p) && ops[op].p > 0 ? pow(value, 1 / ops[op].p) : value;
}

static void check_reduction(int op, weft_dtype dtype, enum lie lie, const struct sizes *s,
                            int64_t mask)
{
    weft_dtype out = ops[op].counts ? WEFT_I64 : ops[op].wide_only ? wide(dtype) : dtype;
    struct operand x = operand_new(dtype, lie, s->ndim, s->n), y, q;
    union wf_op_attrs attrs = {.norm = {.dims = (uint32_t)mask, .p = ops[op].p}};
    struct operand *in[] = {&x, &q};
    int64_t shape[WEFT_MAX_DIMS] = {0};

    if (op == PROD) /* a few signs and doublings; integers may wrap alike in both */
        for (int64_t i = 0; i < x.desc.numel; i++)
            x.values[i] = i % 7 == 3 && dtype < WEFT_U8 ? -1 : i % 2111 == 5 ? 2 : 1;
    if (op == PROD)
        operand_write(&x);
    else
        operand_whole(&x, 5, dtype == WEFT_BOOL ? 1 : 4);
    for (int d = 0; d < s->ndim; d++) shape[d] = mask >> d & 1 ? 1 : s->n[d];
    y = operand_new(out, PLAIN, s->ndim, shape);
    q = operand_new(wide(dtype), LIE_OF_NUMBERS(lie), s->ndim, shape);
    operand_whole(&q, 9, 3);
    for (int64_t i = 0; i < y.desc.numel; i++) y.want[i] = ops[op].start;
    for (int64_t i = 0; i < x.desc.numel; i++) {
        int64_t to = broadcast_number(&y.desc, &x.desc, i);

        y.want[to] = take(op, y.want[to], x.values[i], q.values[to]);
    }
    call_with(ops[op].prepare, &attrs, &y, ops[op].with_number ? 2 : 1, in, NULL);
    for (int64_t i = 0; i < y.desc.numel; i++) {
        y.want[i] = finish(op, y.want[i]);
        if (!is_float(out) && y.want[i] == INFINITY) /* the largest integer */
            y.want[i] = dtype == WEFT_I32   ? INT32_MAX
                        : dtype == WEFT_I64 ? 0x1p63
                        : dtype == WEFT_U8  ? 255
                                            : 1;
        if (isinf(y.want[i]) && y.values[i] == y.want[i]) y.values[i] = y.want[i] = 0;
        y.values[i] /= 1 + fabs(y.want[i]);
        y.want[i] /= 1 + fabs(y.want[i]);
    }
    expect_near(ops[op].name, &y, y.want,
                wf_dtype_is_16_bit_float(out) ? 8e-3
                : out == WEFT_F64             ? 1e-12
                                              : 2e-6);
    expect_guards(&y);
    OPERANDS_FREE(&x, &y, &q);
}

WT_UNIT_TIMES(reductions__equal_plain_loops, OPS)
{
    EACH_ISA
    for (int t = WEFT_F32; t <= WEFT_BOOL; t++)
        for (int i = 0; i < COUNT && (is_float((weft_dtype)t) || !ops[_i].floats); i++)
            for (int64_t mask = 0; mask < 1 << shapes[i].ndim; mask++)
                check_reduction(_i, (weft_dtype)t, nth_lie(i + t + (int)mask), &shapes[i], mask);
}

/* A square of f32 that is none. */
WT_UNIT(norms__do_not_overflow)
{
    static const int64_t shape[] = {3}, one[] = {1};
    union wf_op_attrs attrs = {.norm = {.dims = 1, .p = 2}};
    struct operand x = operand_new(WEFT_F32, PLAIN, 1, shape),
                   y = operand_new(WEFT_F32, PLAIN, 1, one);

    x.values[0] = 3e30, x.values[1] = 4e30;
    operand_write(&x);
    call_with(wf_cpu_norm, &attrs, &y, 1, (struct operand *[]){&x}, NULL);
    ck_assert_double_eq_tol(y.values[0] / 5e30, 1, 1e-6);
    OPERANDS_FREE(&x, &y);
}

/* ---- places ---- */

static void check_places(weft_dtype dtype, enum lie lie, const struct sizes *s, int64_t mask)
{
    struct operand x = operand_new(dtype, lie, s->ndim, s->n), v, y;
    union wf_op_attrs attrs = {.reduce = {.dims = (uint32_t)mask}};
    int64_t shape[WEFT_MAX_DIMS] = {0};

    operand_whole(&x, 5, dtype == WEFT_BOOL ? 1 : 3);
    if (is_float(dtype) && x.desc.numel > 2) x.values[x.desc.numel / 2] = NAN, operand_write(&x);
    for (int d = 0; d < s->ndim; d++) shape[d] = mask >> d & 1 ? 1 : s->n[d];
    v = operand_new(dtype, lie, s->ndim, shape);
    y = operand_new(WEFT_I64, PLAIN, s->ndim, shape);
    operand_whole(&v, 6, dtype == WEFT_BOOL ? 1 : 3);
    if (is_float(dtype) && v.desc.numel) v.values[v.desc.numel / 2] = NAN, operand_write(&v);
    for (int64_t i = 0; i < y.desc.numel; i++) y.want[i] = 0x1p63;
    for (int64_t i = 0; i < x.desc.numel; i++) {
        int64_t to = broadcast_number(&y.desc, &x.desc, i), number = 0, left = i, weight = 1;
        bool same = x.values[i] == v.values[to] || (isnan(x.values[i]) && isnan(v.values[to]));

        for (int d = s->ndim - 1; d >= 0; left /= s->n[d--]) {
            if (!(mask >> d & 1)) continue;
            number += left % s->n[d] * weight;
            weight *= s->n[d];
        }
        if (same && (double)number < y.want[to]) y.want[to] = (double)number;
    }
    call_with(wf_cpu_index_of, &attrs, &y, 2, (struct operand *[]){&x, &v}, NULL);
    expect_near("index_of", &y, y.want, 0);
    expect_guards(&y);
    OPERANDS_FREE(&x, &v, &y);
}

WT_UNIT(places__equal_plain_loops)
{
    EACH_ISA
    for (int t = WEFT_F32; t <= WEFT_BOOL; t++)
        for (int i = 0; i < COUNT; i++)
            for (int64_t mask = 0; mask < 1 << shapes[i].ndim; mask++)
                check_places((weft_dtype)t, nth_lie(i + t + (int)mask), &shapes[i], mask);
}

/* ---- order ---- */

static void call_sort(struct operand *x, bool descending, struct operand *y, struct operand *at)
{
    union wf_op_attrs attrs = {.sort = {.descending = descending}};
    struct wf_kernel_call k = {.op = "sort", .n_in = 1, .n_out = 2, .attrs = &attrs};

    k.in[0] = &x->desc;
    k.out[0] = &y->desc;
    k.out[1] = &at->desc;
    ck_assert_int_eq(wf_cpu_sort(&k), WEFT_OK);
    k.run(&k, (void *[]){y->data, at->data}, (const void *[]){x->data}, NULL);
    wf_kernel_call_drop(&k);
    operand_read(y);
    operand_read(at);
}

static bool may_follow(double a, double b, bool descending)
{
    if (isnan(a) || isnan(b)) return descending ? isnan(a) : isnan(b);
    return descending ? a >= b : a <= b;
}

WT_UNIT(sort__orders_every_row)
{
    static const struct sizes rows[] = {{1, {1}},         {2, {3, 16}}, {2, {4, 17}},
                                        {3, {2, 3, 100}}, {2, {0, 4}},  {2, {2, 2600}}};

    EACH_ISA
    for (int k = 0; k < 6 * 8 * 2; k++) {
        weft_dtype dtype = (weft_dtype)(k / 12);
        const struct sizes *s = &rows[k % 6];
        bool descending = k / 6 % 2;
        struct operand x = operand_new(dtype, nth_lie(k), s->ndim, s->n);
        struct operand y = operand_new(dtype, PLAIN, s->ndim, s->n);
        struct operand at = operand_new(WEFT_I64, PLAIN, s->ndim, s->n);
        int64_t n = s->n[s->ndim - 1];

        operand_whole(&x, 3, dtype == WEFT_BOOL ? 1 : 9);
        if (is_float(dtype) && x.desc.numel > 5) x.values[5] = NAN, operand_write(&x);
        call_sort(&x, descending, &y, &at);
        for (int64_t i = 0; i < x.desc.numel; i++) {
            int64_t row = i / n * n;
            double from = x.values[row + (int64_t)at.values[i]];

            ck_assert(y.values[i] == from || (isnan(from) && isnan(y.values[i])));
            if (i == row) continue;
            ck_assert(may_follow(y.values[i - 1], y.values[i], descending));
            if (y.values[i] == y.values[i - 1]) ck_assert(at.values[i] > at.values[i - 1]);
        }
        expect_guards(&y);
        expect_guards(&at);
        OPERANDS_FREE(&x, &y, &at);
    }
}

/* ---- counts ---- */

WT_UNIT(histogram__counts)
{
    static const int64_t two[] = {2};
    enum { BINS = 7 };

    EACH_ISA
    for (int t = 0; t < FLOAT_DTYPES; t++)
        for (int i = 0; i < COUNT; i++) {
            const struct sizes *s = &shapes[i];
            struct operand x = operand_noise(float_dtypes[t], nth_lie(i + t), s->ndim, s->n, 2),
                           range = operand_new(float_dtypes[t], PLAIN, 1, two),
                           y = operand_new(float_dtypes[t], PLAIN, 1, (int64_t[]){BINS});

            range.values[0] = -0.5;
            range.values[1] = 0.75;
            operand_write(&range);
            for (int64_t j = 0; j < x.desc.numel; j++) {
                double bin = floor((x.values[j] + 0.5) * BINS / 1.25);

                if (x.values[j] < -0.5 || x.values[j] > 0.75) continue;
                y.want[bin < BINS ? (int)bin : BINS - 1]++;
            }
            call_with(wf_cpu_histogram, &(union wf_op_attrs){.histogram = {.bins = BINS}}, &y, 2,
                      (struct operand *[]){&x, &range}, NULL);
            expect_near("histogram", &y, y.want, dtype_bound(float_dtypes[t]));
            expect_guards(&y);
            OPERANDS_FREE(&x, &range, &y);
        }
}

/* ---- scans ---- */

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

int main(void) { return wt_unit_main("along_dims"); }
