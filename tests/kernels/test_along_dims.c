/*
 * test_along_dims.c: reductions beside sums and maxima, scans, order, places and counts along dims,
 * against plain loops.
 */
#include "cases.h"

static const struct sizes shapes[] = {
    {1, {1}},      {1, {37}},    {2, {8, 8}},     {2, {0, 4}},    {2, {3, 0}},
    {2, {5, 130}}, {2, {70, 3}}, {3, {4, 5, 33}}, {3, {2, 1, 6}}, {4, {2, 3, 4, 5}},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

/* ---- reductions over a set of dims ---- */

enum reduction { MIN, PROD, COUNT, NORM, DEVIATION, SUM_EXP, REDUCTIONS };
static wf_kernel_prepare *const prepare[REDUCTIONS] = {
    wf_cpu_min, wf_cpu_prod, wf_cpu_count_nonzero, wf_cpu_norm, wf_cpu_deviation, wf_cpu_sum_exp};
static const double powers[] = {2, 1, 3, 0, INFINITY, -INFINITY};

static double start_of(enum reduction what, double p, weft_dtype dtype)
{
    if (what == PROD) return 1;
    if (what == MIN && dtype == WEFT_I32) return INT32_MAX;
    if (what == MIN && dtype == WEFT_I64) return (double)INT64_MAX;
    return what == MIN || (what == NORM && p < 0) ? INFINITY : 0;
}

/* What the result is after one more element. */
static double step(enum reduction what, double p, double so_far, double x, double q)
{
    switch (what) {
    case MIN:
        return fmin(so_far, x);
    case PROD:
        return so_far * x;
    case COUNT:
        return so_far + (x != 0);
    case DEVIATION:
        return so_far + (x - q) * (x - q);
    case SUM_EXP:
        return so_far + exp(x - q);
    default:
        if (isinf(p)) return p > 0 ? fmax(so_far, fabs(x)) : fmin(so_far, fabs(x));
        return so_far + (p == 0 ? x != 0 : pow(fabs(x), p));
    }
}

static void fill(struct operand *x, enum reduction what, uint64_t seed)
{
    if (what == COUNT || !wf_dtypes[x->desc.dtype].is_float) {
        operand_whole(x, seed, what == PROD ? 1 : 3);
        return;
    }
    for (int64_t i = 0; i < x->desc.numel; i++) {
        uint64_t state = seed * 977 + (uint64_t)i;

        x->values[i] = noise(&state);
        if (what == PROD) x->values[i] = 1 + 0.25 * x->values[i];
    }
    operand_write(x);
}

static void check(enum reduction what, weft_dtype dtype, enum lie lie, const struct sizes *s,
                  int64_t mask, double p)
{
    struct operand x = operand_new(dtype, lie, s->ndim, s->n), q, y;
    int64_t shape[WEFT_MAX_DIMS] = {0};
    struct wf_scalars scalars = {.s = {1}};
    union wf_op_attrs attrs = {.reduce = {.dims = (uint32_t)mask}};

    if (what == NORM) attrs.norm.p = p;
    fill(&x, what, 5);
    for (int d = 0; d < s->ndim; d++) shape[d] = mask >> d & 1 ? 1 : s->n[d];
    q = operand_noise(dtype, PLAIN, s->ndim, shape, 8);
    y = operand_new(what == COUNT ? WEFT_I64 : dtype, PLAIN, s->ndim, shape);
    for (int64_t i = 0; i < y.desc.numel; i++) y.want[i] = start_of(what, p, dtype);
    for (int64_t i = 0; i < x.desc.numel; i++) {
        int64_t to = broadcast_number(&y.desc, &x.desc, i);

        y.want[to] = step(what, p, y.want[to], x.values[i], q.values[to]);
    }
    for (int64_t i = 0; i < y.desc.numel && what == NORM && p != 0 && !isinf(p); i++)
        y.want[i] = pow(y.want[i], 1 / p);
    call_with(prepare[what], &attrs, &y, what == DEVIATION || what == SUM_EXP ? 2 : 1,
              (struct operand *[]){&x, &q}, &scalars);
    for (int64_t i = 0; i < y.desc.numel; i++)
        if (isinf(y.want[i]) && y.values[i] == y.want[i]) y.values[i] = y.want[i] = 0;
    expect_near("reduction", &y, y.want, dtype_bound(dtype));
    expect_guards(&y);
    OPERANDS_FREE(&x, &q, &y);
}

/* Both inputs of deviation and sum_exp have one dtype, of at least 32 bits. */
static bool takes(enum reduction what, weft_dtype dtype)
{
    if (what == MIN || what == COUNT) return true;
    if (what == PROD) return dtype != WEFT_I32 && dtype != WEFT_I64;
    return what == NORM ? wf_dtypes[dtype].is_float : dtype == WEFT_F32 || dtype == WEFT_F64;
}

WT_UNIT(reductions__equal_plain_loops)
{
    EACH_ISA
    for (int what = 0; what < REDUCTIONS; what++)
        for (int t = WEFT_F32; t <= WEFT_I64; t++)
            for (int i = 0; i < N_SHAPES && takes((enum reduction)what, (weft_dtype)t); i++)
                for (int64_t mask = 0; mask < 1 << shapes[i].ndim; mask++)
                    check((enum reduction)what, (weft_dtype)t, nth_lie(i + t + (int)mask),
                          &shapes[i], mask, powers[(i + mask) % 6]);
}

/* ---- along one dim: the operand as [before, n, after] ---- */

struct lines {
    int64_t count, n, after;
};

static struct lines lines_along(const struct wf_tensor_desc *x, int dim)
{
    struct lines l = {.count = 1, .n = x->shape[dim], .after = 1};

    for (int d = 0; d < x->ndim; d++) {
        if (d != dim) l.count *= x->shape[d];
        if (d > dim) l.after *= x->shape[d];
    }
    return l;
}

static int64_t place(const struct lines *l, int64_t line, int64_t i)
{
    return (line / l->after * l->n + i) * l->after + line % l->after;
}

enum scan { CUMSUM, CUMPROD, CUMPROD_GRAD, LINEAR, LINEAR_GRAD, SCANS };
static wf_kernel_prepare *const prepare_scan[SCANS] = {wf_cpu_cumsum, wf_cpu_cumprod,
                                                       wf_cpu_cumprod_grad, wf_cpu_linear_scan,
                                                       wf_cpu_linear_scan_grad};

/* dx_k is the sum of d_i over i >= k times the product of all x_j with j <= i, but x_k. */
static double cumprod_grad(const struct operand *d, const struct operand *x, const struct lines *l,
                           int64_t line, int64_t k)
{
    double sum = 0;

    for (int64_t i = k; i < l->n; i++) {
        double product = d->values[place(l, line, i)];

        for (int64_t j = 0; j <= i; j++)
            if (j != k) product *= x->values[place(l, line, j)];
        sum += product;
    }
    return sum;
}

static void want_line(enum scan what, bool back, struct operand *y, const struct operand *a,
                      const struct operand *b, const struct lines *l, int64_t line)
{
    bool from_end = what == LINEAR_GRAD || (what == CUMSUM && back);
    double so_far = what == CUMPROD ? 1 : 0;

    for (int64_t k = 0; k < l->n; k++) {
        int64_t i = from_end ? l->n - 1 - k : k, at = place(l, line, i);
        double x = a->values[at];

        if (what == CUMSUM) so_far += x;
        if (what == CUMPROD) so_far *= x;
        if (what == LINEAR) so_far = x * so_far + b->values[at];
        if (what == LINEAR_GRAD)
            so_far = x + (i + 1 < l->n ? b->values[place(l, line, i + 1)] * so_far : 0);
        y->want[at] = what == CUMPROD_GRAD ? cumprod_grad(a, b, l, line, i) : so_far;
    }
}

static void check_scan(enum scan what, weft_dtype dtype, enum lie lie, const struct sizes *s,
                       int dim)
{
    struct operand a = operand_noise(dtype, lie, s->ndim, s->n, 3),
                   b = operand_noise(dtype, nth_lie((int)lie + 1), s->ndim, s->n, 4),
                   y = operand_new(dtype, PLAIN, s->ndim, s->n);
    bool back = what == CUMSUM && dim % 2;
    struct lines l = lines_along(&a.desc, dim);

    if (b.desc.numel > 3 && what == CUMPROD_GRAD) b.values[2] = 0; /* no division finds it */
    operand_write(&b);
    for (int64_t line = 0; line < l.count; line++) want_line(what, back, &y, &a, &b, &l, line);
    call_with(prepare_scan[what], &(union wf_op_attrs){.scan = {.dim = dim, .back = back}}, &y,
              what == CUMSUM || what == CUMPROD ? 1 : 2, (struct operand *[]){&a, &b}, NULL);
    expect_near("scan", &y, y.want, 4 * dtype_bound(dtype));
    expect_guards(&y);
    OPERANDS_FREE(&a, &b, &y);
}

WT_UNIT(scans__equal_plain_loops)
{
    EACH_ISA
    for (int what = 0; what < SCANS; what++)
        for (int t = 0; t < FLOAT_DTYPES; t++)
            for (int i = 0; i < N_SHAPES; i++)
                for (int dim = 0; dim < shapes[i].ndim; dim++)
                    check_scan((enum scan)what, float_dtypes[t], nth_lie(i + t + dim), &shapes[i],
                               dim);
}

/* ---- order ---- */

/* Stable, by insertion; NaN is largest. */
static bool comes_after(double a, double b, bool descending)
{
    if (isnan(a) || isnan(b)) return descending ? isnan(b) && !isnan(a) : isnan(a) && !isnan(b);
    return descending ? a < b : a > b;
}

static void check_sort(weft_dtype dtype, enum lie lie, int64_t rows, int64_t n, bool descending)
{
    int64_t shape[] = {rows, n};
    struct operand x = operand_new(dtype, lie, 2, shape), y = operand_new(dtype, PLAIN, 2, shape),
                   at = operand_new(WEFT_I64, PLAIN, 2, shape);
    struct wf_kernel_call k = {.op = "sort",
                               .n_in = 1,
                               .n_out = 2,
                               .attrs = &(union wf_op_attrs){.sort = {.descending = descending}}};

    operand_whole(&x, (uint64_t)(7 + n), 9);
    for (int64_t i = 4; i < x.desc.numel && wf_dtypes[dtype].is_float; i += 11)
        x.values[i] = (double)NAN;
    operand_write(&x);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < n; i++) {
            int64_t to = i;

            for (; to > 0 && comes_after(y.want[r * n + to - 1], x.values[r * n + i], descending);
                 to--) {
                y.want[r * n + to] = y.want[r * n + to - 1];
                at.want[r * n + to] = at.want[r * n + to - 1];
            }
            y.want[r * n + to] = x.values[r * n + i];
            at.want[r * n + to] = (double)i;
        }
    kernel_run(wf_cpu_sort, &k, (struct operand *[]){&y, &at}, (struct operand *[]){&x}, NULL);
    for (int64_t i = 0; i < y.desc.numel; i++)
        ck_assert(y.values[i] == y.want[i] || (isnan(y.values[i]) && isnan(y.want[i])));
    expect_near("places", &at, at.want, 0);
    expect_guards(&y);
    expect_guards(&at);
    OPERANDS_FREE(&x, &y, &at);
}

WT_UNIT(sort__equals_insertion)
{
    static const int64_t sizes[] = {0, 1, 2, 7, 33, 300};

    EACH_ISA
    for (int t = WEFT_F32; t <= WEFT_I64; t++)
        for (int i = 0; i < 6; i++) {
            check_sort((weft_dtype)t, nth_lie(i + t), 3, sizes[i], i % 2);
            check_sort((weft_dtype)t, nth_lie(i + t + 1), 1, sizes[i], i % 2 == 0);
        }
}

/* ---- places and counts ---- */

WT_UNIT(index_of__is_the_first)
{
    EACH_ISA
    for (int t = WEFT_F32; t <= WEFT_I64; t++)
        for (int i = 0; i < N_SHAPES; i++)
            for (int64_t mask = 1; mask < 1 << shapes[i].ndim; mask++) {
                const struct sizes *s = &shapes[i];
                struct operand x = operand_new((weft_dtype)t, nth_lie(i + t), s->ndim, s->n), v, y;
                int64_t shape[WEFT_MAX_DIMS] = {0};

                operand_whole(&x, 11, 4);
                for (int d = 0; d < s->ndim; d++) shape[d] = mask >> d & 1 ? 1 : s->n[d];
                v = operand_new((weft_dtype)t, PLAIN, s->ndim, shape);
                y = operand_new(WEFT_I64, PLAIN, s->ndim, shape);
                operand_whole(&v, 12, 4);
                for (int64_t j = 0; j < y.desc.numel; j++) y.want[j] = (double)INT64_MAX;
                for (int64_t j = x.desc.numel - 1; j >= 0; j--) {
                    int64_t to = broadcast_number(&y.desc, &x.desc, j), left = j, number = 0,
                            stride = 1;

                    for (int d = s->ndim - 1; d >= 0; left /= s->n[d--])
                        if (mask >> d & 1) {
                            number += left % s->n[d] * stride;
                            stride *= s->n[d];
                        }
                    if (x.values[j] == v.values[to]) y.want[to] = (double)number;
                }
                call_with(wf_cpu_index_of, &(union wf_op_attrs){.reduce = {.dims = (uint32_t)mask}},
                          &y, 2, (struct operand *[]){&x, &v}, NULL);
                expect_near("index_of", &y, y.want, 0);
                expect_guards(&y);
                OPERANDS_FREE(&x, &v, &y);
            }
}

WT_UNIT(histogram__counts)
{
    static const int64_t two[] = {2};
    enum { BINS = 7 };

    EACH_ISA
    for (int t = 0; t < FLOAT_DTYPES; t++)
        for (int i = 0; i < N_SHAPES; i++) {
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

int main(void) { return wt_unit_main("along_dims"); }
