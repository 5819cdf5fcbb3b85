/*
 * test_along_dims.c: products, minima, counts, norms, squares about a number, sums of
 * exponentials, places, order, searches and counts against plain loops, however operands lie.
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
        return isinf(p) ? (p > 0 ? fmax : fmin)(to, fabs(x))
                        : to + (p != 0 ? pow(fabs(x), p) : x != 0);
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

/* Rows of `sorted`, which go on every third element; the last of floats is not a number. */
static void write_sorted(struct operand *sorted)
{
    int64_t n = sorted->desc.shape[sorted->desc.ndim - 1];

    for (int64_t i = 0; i < sorted->desc.numel; i++) {
        sorted->values[i] = (double)(i % n / 3 % 100 + i / n);
        if (is_float((weft_dtype)sorted->desc.dtype) && i % n == n - 1 && n > 2)
            sorted->values[i] = NAN;
    }
    operand_write(sorted);
}

static void check_search(weft_dtype dtype, enum lie lie, const struct sizes *rows,
                         const struct sizes *where, bool right)
{
    struct operand sorted = operand_new(dtype, lie, rows->ndim, rows->n);
    struct operand values = operand_new(dtype, lie, where->ndim, where->n);
    struct operand y = operand_new(WEFT_I64, PLAIN, where->ndim, where->n);
    union wf_op_attrs attrs = {.search = {.right = right}};
    int64_t n = rows->n[rows->ndim - 1], count = 1, per_row;

    for (int d = 0; d < rows->ndim - 1; d++) count *= rows->n[d];
    per_row = count ? values.desc.numel / count : 0;
    write_sorted(&sorted);
    operand_whole(&values, 4, 40);
    if (is_float(dtype) && values.desc.numel > 1) values.values[1] = NAN, operand_write(&values);
    for (int64_t i = 0; i < values.desc.numel; i++)
        for (int64_t j = 0; j < n; j++) {
            double a = sorted.values[i / per_row * n + j], v = values.values[i];

            y.want[i] += a < v || (isnan(v) && !isnan(a)) || (right && (a == v || isnan(v)));
        }
    call_with(wf_cpu_search_sorted, &attrs, &y, 2, (struct operand *[]){&sorted, &values}, NULL);
    expect_near("search_sorted", &y, y.want, 0);
    expect_guards(&y);
    OPERANDS_FREE(&sorted, &values, &y);
}

WT_UNIT(search_sorted__counts_what_comes_before)
{
    static const struct sizes of[][2] = {
        {{1, {50}}, {3, {4, 5, 33}}}, {{1, {1}}, {1, {1}}},
        {{1, {0}}, {1, {7}}},         {{2, {9, 100}}, {2, {9, 3}}},
        {{2, {9, 3}}, {2, {9, 100}}}, {{3, {2, 3, 41}}, {3, {2, 3, 8}}},
        {{2, {0, 4}}, {2, {0, 5}}},   {{1, {300}}, {0, {0}}},
        {{2, {3, 4}}, {2, {3, 0}}},
    };

    for (int t = WEFT_F32; t <= WEFT_I8; t++)
        for (int i = 0; i < 9 * LIES * 2 && t != WEFT_BOOL; i++)
            check_search((weft_dtype)t, nth_lie(i), &of[i / LIES % 9][0], &of[i / LIES % 9][1],
                         i / LIES / 9);
}

/* ---- counts ---- */

/* The bin is told in the type that the dtype is computed in. */
static int64_t bin_of(weft_dtype dtype, double x, double least, double most, int64_t bins)
{
    float narrow = ((float)x - (float)least) / ((float)most - (float)least) * (float)bins;
    double wide = (x - least) / (most - least) * (double)bins;
    int64_t bin = (int64_t)(dtype == WEFT_F64 ? wide : (double)narrow);

    return bin < bins ? bin : bins - 1;
}

static void check_histogram(weft_dtype dtype, enum lie lie, const struct sizes *s, int64_t bins,
                            double least, double most)
{
    static const int64_t two[] = {2};
    struct operand x = operand_noise(dtype, lie, s->ndim, s->n, 2),
                   range = operand_new(dtype, lie, 1, two), y = operand_new(dtype, PLAIN, 1, &bins);

    range.values[0] = least;
    range.values[1] = most;
    operand_write(&range);
    if (least == most) least -= 1, most += 1;
    if (x.desc.numel > 3) x.values[2] = NAN, x.values[3] = most;
    operand_write(&x);
    for (int64_t j = 0; j < x.desc.numel; j++)
        if (x.values[j] >= least && x.values[j] <= most)
            y.want[bin_of(dtype, x.values[j], least, most, bins)]++;
    call_with(wf_cpu_histogram, &(union wf_op_attrs){.histogram = {.bins = bins}}, &y, 2,
              (struct operand *[]){&x, &range}, NULL);
    expect_near("histogram", &y, y.want, dtype_bound(dtype));
    expect_guards(&y);
    OPERANDS_FREE(&x, &range, &y);
}

/* Of elements that are equal, of bins that few or none of a GPU's blocks have room for. */
WT_UNIT(histogram__counts)
{
    EACH_ISA
    for (int t = 0; t < FLOAT_DTYPES; t++)
        for (int i = 0; i < COUNT; i++) {
            enum lie lie = nth_lie(i + t);

            check_histogram(float_dtypes[t], lie, &shapes[i], 7, -0.5, 0.75);
            check_histogram(float_dtypes[t], lie, &shapes[i], 1, 0.25, 0.25);
            check_histogram(float_dtypes[t], lie, &shapes[i], 1500, -1, 1);
            check_histogram(float_dtypes[t], lie, &shapes[i], 9000, -0.5, 1);
        }
}

int main(void) { return wt_unit_main("along_dims"); }
