/*
 * test_distributions.c: numbers are distributed as they should be: by their distribution function,
 * moments, counts in classes, and correlation with what was drawn before. Seeds are fixed, so a
 * test always gives the same verdict; bounds are about 4.5 standard deviations.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/mpi_check.h"
#include <weft/weft.h>

enum { N = 1 << 16, CLASSES = 64 };

static const uint64_t seeds[] = {0, 1234, ((uint64_t)1 << 63) + 42};
enum { SEEDS = sizeof seeds / sizeof *seeds };

static double values[N];

/* ---- what a sample must be ---- */

/* Counts against what is expected: chi-square, taken to a standard deviation of 1. */
static void expect_counts(const char *what, const double *counts, const double *expected, int n)
{
    double chi = 0, freedom = n - 1;

    for (int i = 0; i < n; i++) chi += pow(counts[i] - expected[i], 2) / expected[i];
    ck_assert_msg((chi - freedom) / sqrt(2 * freedom) < 4.5, "%s: chi-square %g of %d classes",
                  what, chi, n);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Largest distance between the sample's distribution and [0, 1)'s (Kolmogorov and Smirnov). */
static void expect_distance(const char *what, const double *u, int n)
{
    double *sorted = malloc((size_t)n * sizeof *sorted), most = 0;

    memcpy(sorted, u, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, by_value);
    for (int i = 0; i < n; i++) {
        double distance = fabs(sorted[i] - (i + 0.5) / n) + 0.5 / n;

        if (distance > most) most = distance;
    }
    free(sorted);
    ck_assert_msg(most * sqrt(n) < 2.3, "%s: distance %g", what, most);
}

/* n numbers that should be uniform in [0, 1) and independent of each other. */
static void expect_uniform(const char *what, const double *u, int n)
{
    double counts[CLASSES] = {0}, expected[CLASSES], mean = 0, square = 0;
    int strays = 0;

    for (int i = 0; i < n; i++) {
        strays += !(u[i] >= 0 && u[i] <= 1);
        counts[u[i] > 0 && u[i] < 1 ? (int)(u[i] * (double)CLASSES) : u[i] > 0 ? CLASSES - 1 : 0]++;
        mean += u[i] / n;
        square += (u[i] - 0.5) * (u[i] - 0.5) / n;
    }
    ck_assert_msg(strays == 0, "%s: %d numbers outside", what, strays);
    for (int c = 0; c < CLASSES; c++) expected[c] = n / (double)CLASSES;
    expect_counts(what, counts, expected, CLASSES);
    expect_distance(what, u, n);
    ck_assert_msg(fabs(mean - 0.5) * sqrt(12.0 * n) < 4.5, "%s: mean %g", what, mean);
    ck_assert_msg(fabs(square - 1.0 / 12) * sqrt(180.0 * n) < 4.5, "%s: variance %g", what, square);
    for (int lag = 1; lag <= 8; lag++) {
        double sum = 0;

        for (int i = lag; i < n; i++) sum += 12 * (u[i] - 0.5) * (u[i - lag] - 0.5);
        ck_assert_msg(fabs(sum) / sqrt(n - lag) < 4.5, "%s: correlation %g at %d", what, sum / n,
                      lag);
    }
}

/* libcheck writes a line for every assertion: one for all values. */
static void expect_within(const char *what, double low, double high)
{
    double least = INFINITY, most = -INFINITY;

    for (int i = 0; i < N; i++) {
        least = fmin(least, values[i]);
        most = fmax(most, values[i]);
    }
    ck_assert_msg(least >= low && most <= high, "%s: from %g to %g", what, least, most);
}

/* ---- continuous distributions: F(x) is uniform ---- */

static double normal_share(double x) { return 0.5 * erfc(-x / sqrt(2)); }

static weft_status draw_uniform(weft_tensor *t) { return weft_uniform_(t, -3, 5, NULL); }
static double uniform_share(double x) { return (x + 3) / 8; }

static weft_status draw_normal(weft_tensor *t) { return weft_normal_(t, -1, 2, NULL); }
static double moved_share(double x) { return normal_share((x + 1) / 2); }

static weft_status draw_log_normal(weft_tensor *t) { return weft_log_normal_(t, 0.5, 0.75, NULL); }
static double log_normal_share(double x) { return normal_share((log(x) - 0.5) / 0.75); }

static weft_status draw_exponential(weft_tensor *t) { return weft_exponential_(t, 2.5, NULL); }
static double exponential_share(double x) { return -expm1(-2.5 * x); }

/* Truncated normal numbers in windows across the middle, at one side, and far out. */
static const double windows[][2] = {
    {-1, 2}, {-INFINITY, 0.3}, {1.5, INFINITY}, {5, 5.5}, {-9, -8.5}};
enum { WINDOWS = sizeof windows / sizeof *windows };
static int window;

static weft_status draw_trunc_normal(weft_tensor *t)
{
    return weft_trunc_normal_(t, 0, 1, windows[window][0], windows[window][1], NULL);
}

static double trunc_normal_share(double x)
{
    double low = windows[window][0], high = windows[window][1];

    if (low > 0) /* near 1 shares have no digits left: mirrored */
        return 1 - (normal_share(-x) - normal_share(-high)) /
                       (normal_share(-low) - normal_share(-high));
    return (normal_share(x) - normal_share(low)) / (normal_share(high) - normal_share(low));
}

struct continuous {
    const char *name;
    weft_status (*draw)(weft_tensor *t);
    double (*share)(double x);
};

static const struct continuous continuous[] = {
    {"uniform", draw_uniform, uniform_share},
    {"normal", draw_normal, moved_share},
    {"log_normal", draw_log_normal, log_normal_share},
    {"exponential", draw_exponential, exponential_share},
    {"trunc_normal", draw_trunc_normal, trunc_normal_share},
};
enum { CONTINUOUS = sizeof continuous / sizeof *continuous };

/* The elements of a draw as f64. */
static void drawn(weft_dtype dtype, weft_status (*draw)(weft_tensor *t))
{
    weft_scope *scope = weft_scope_open();
    weft_tensor *t = weft_empty(dtype, (int64_t[]){N}, 1);

    ck_assert_int_eq(draw(t), WEFT_OK);
    ck_assert_int_eq(weft_read_f64(t, values, N), WEFT_OK);
    weft_scope_close(scope);
}

WT_UNIT_TIMES(continuous__has_its_distribution, 2)
{
    for (int s = 0; s < SEEDS; s++)
        for (int c = 0; c < CONTINUOUS; c++)
            for (window = 0; window < (c == CONTINUOUS - 1 ? WINDOWS : 1); window++) {
                weft_manual_seed(seeds[s]);
                drawn(_i ? WEFT_F64 : WEFT_F32, continuous[c].draw);
                for (int i = 0; i < N; i++) values[i] = continuous[c].share(values[i]);
                expect_uniform(continuous[c].name, values, N);
            }
    window = 0;
}

/* They have too few values for their distribution to be told: the same numbers, rounded. f16 has
 * steps of 2^-24 below 2^-14. */
WT_UNIT(continuous__is_rounded_to_16_bits)
{
    static const struct {
        weft_dtype dtype;
        double smallest, step;
    } halves[] = {{WEFT_BF16, 1e-30, 1.0 / 128}, {WEFT_F16, 0x1p-14, 1.0 / 1024}};

    for (int i = 0; i < 2 * CONTINUOUS; i++) {
        int c = i / 2;
        static double exact[N];

        weft_manual_seed(seeds[1]);
        drawn(WEFT_F32, continuous[c].draw);
        memcpy(exact, values, sizeof exact);
        weft_manual_seed(seeds[1]);
        drawn(halves[i % 2].dtype, continuous[c].draw);
        for (int k = 0; k < N; k++)
            values[k] = (values[k] - exact[k]) / (fabs(exact[k]) + halves[i % 2].smallest);
        expect_within(continuous[c].name, -halves[i % 2].step, halves[i % 2].step);
    }
}

WT_UNIT(trunc_normal__stays_in_its_window)
{
    for (window = 0; window < WINDOWS; window++)
        for (weft_dtype dtype = WEFT_F32; weft_dtype_is_float(dtype); dtype++) {
            drawn(dtype, draw_trunc_normal);
            expect_within("trunc_normal", windows[window][0], windows[window][1]);
        }
    window = 0;
}

/* A window so far out that almost nothing lies in it still gives numbers in it. */
WT_UNIT(trunc_normal__far_out_gives_its_bound)
{
    double got[8];
    weft_tensor *t = weft_make_trunc_normal((weft_spec){.dtype = WEFT_F64, .ndim = 1, .shape = {8}},
                                            0, 1, 60, 61, NULL);

    ck_assert_int_eq(weft_read_f64(t, got, 8), WEFT_OK);
    for (int i = 0; i < 8; i++) ck_assert(got[i] >= 60 && got[i] <= 61);
}

/* A model has nearly the same first values in any dtype. */
WT_UNIT(normal__is_nearly_the_same_in_f32_and_f64)
{
    static double wide[N];

    weft_manual_seed(7);
    drawn(WEFT_F64, draw_normal);
    memcpy(wide, values, sizeof wide);
    weft_manual_seed(7);
    drawn(WEFT_F32, draw_normal);
    for (int i = 0; i < N; i++) values[i] = fabs(values[i] - wide[i]);
    expect_within("f32 beside f64", 0, 1e-2);
    qsort(values, N, sizeof *values, by_value);
    ck_assert_msg(values[N - N / 100] < 1e-5, "%g", values[N - N / 100]); /* all but the tails */
}

/* ---- streams ---- */

WT_UNIT(streams__of_draws_and_of_seeds_are_independent)
{
    static double other[N];

    for (int s = 0; s < SEEDS; s++)
        for (int next_seed = 0; next_seed < 2; next_seed++) {
            double sum = 0;

            weft_manual_seed(seeds[s]);
            drawn(WEFT_F64, draw_uniform);
            memcpy(other, values, sizeof other);
            if (next_seed) weft_manual_seed(seeds[s] + 1);
            drawn(WEFT_F64, draw_uniform);
            for (int i = 0; i < N; i++)
                sum += 12 * (uniform_share(values[i]) - 0.5) * (uniform_share(other[i]) - 0.5);
            ck_assert(fabs(sum) / sqrt(N) < 4.5);
        }
}

/* Every bit of the words is as often 1 as 0, and so is the sum of any two. */
WT_UNIT(philox__bits_are_balanced)
{
    static double ones[32][32];

    for (int s = 0; s < SEEDS; s++) {
        const uint32_t key[] = {(uint32_t)seeds[s], (uint32_t)(seeds[s] >> 32)};
        double most = 0;

        memset(ones, 0, sizeof ones);
        for (uint32_t b = 0; b < N / 4; b++) {
            uint32_t words[4];

            weft_philox(words, (const uint32_t[]){b, 0, 3, 0}, key);
            for (int w = 0; w < 4; w++)
                for (int i = 0; i < 32; i++)
                    for (int j = 0; j <= i; j++)
                        ones[i][j] += (i == j ? words[w] >> i : words[w] >> i ^ words[w] >> j) & 1;
        }
        for (int i = 0; i < 32; i++)
            for (int j = 0; j <= i; j++) most = fmax(most, fabs(ones[i][j] - N / 2) * 2 / sqrt(N));
        ck_assert_msg(most < 4.5, "%g", most);
    }
}

/* ---- discrete distributions ---- */

static weft_tensor *line(weft_dtype dtype) { return weft_empty(dtype, (int64_t[]){N}, 1); }

WT_UNIT_TIMES(geometric__has_its_distribution, 9)
{
    static const double chances[] = {0.3, 0.05, 0.9};
    static const weft_dtype dtypes[] = {WEFT_F32, WEFT_I64, WEFT_I32};
    double p = chances[_i % 3], counts[12] = {0}, expected[12], rest = 1;
    weft_scope *scope = weft_scope_open();
    weft_tensor *t = line(dtypes[_i / 3]);
    int strays = 0, classes = p > 0.5 ? 4 : 12; /* the last one is everything beyond */

    weft_manual_seed(seeds[_i % 3]);
    ck_assert_int_eq(weft_geometric_(t, p, NULL), WEFT_OK);
    ck_assert_int_eq(weft_read_f64(t, values, N), WEFT_OK);
    expect_within("geometric", 1, INFINITY);
    for (int i = 0; i < N; i++) {
        strays += values[i] != floor(values[i]);
        counts[values[i] < classes ? (int)values[i] - 1 : classes - 1]++;
    }
    for (int c = 0; c < classes; c++) {
        expected[c] = (double)N * (c < classes - 1 ? rest * p : rest);
        rest *= 1 - p;
    }
    ck_assert_int_eq(strays, 0);
    expect_counts("geometric", counts, expected, classes);
    weft_scope_close(scope);
}

WT_UNIT(geometric__goes_to_its_ends)
{
    weft_scope *scope = weft_scope_open();
    weft_tensor *t = line(WEFT_U8);
    double mean = 0;

    ck_assert_int_eq(weft_geometric_(t, 1, NULL), WEFT_OK);
    weft_read_f64(t, values, N);
    expect_within("always", 1, 1);
    ck_assert_int_eq(weft_geometric_(t, 1e-6, NULL), WEFT_OK);
    weft_read_f64(t, values, N);
    expect_within("bytes", 1, 255);
    t = line(WEFT_F64);
    ck_assert_int_eq(weft_geometric_(t, 1e-12, NULL), WEFT_OK);
    weft_read_f64(t, values, N);
    for (int i = 0; i < N; i++) mean += values[i] / (double)N;
    ck_assert(fabs(mean * 1e-12 - 1) * sqrt(N) < 4.5);
    weft_scope_close(scope);
}

WT_UNIT(bernoulli__has_its_share)
{
    static const double chances[] = {0, 1e-4, 0.25, 0.5, 0.999, 1};

    for (int i = 0; i < 6 * WEFT_C64 * SEEDS; i++) {
        weft_scope *scope = weft_scope_open();
        weft_tensor *t = line((weft_dtype)(i / 6 % WEFT_C64));
        double p = chances[i % 6], ones = 0, sigma = sqrt((double)N * p * (1 - p));
        int strays = 0;

        weft_manual_seed(seeds[i / 6 / WEFT_C64] + (uint64_t)i);
        ck_assert_int_eq(weft_bernoulli_(t, p, NULL), WEFT_OK);
        weft_read_f64(t, values, N);
        expect_within("bernoulli", 0, 1);
        for (int j = 0; j < N; j++) {
            strays += values[j] != 0 && values[j] != 1;
            ones += values[j];
        }
        ck_assert_int_eq(strays, 0);
        ck_assert_msg(fabs(ones - (double)N * p) <= 4.5 * sigma, "p %g: %g ones", p, ones);
        weft_scope_close(scope);
    }
}

WT_UNIT(randint__is_uniform)
{
    static const struct {
        weft_dtype dtype;
        int64_t low, high;
    } ranges[] = {{WEFT_I32, 0, 10},   {WEFT_I64, -3, 4}, {WEFT_F32, 0, 100},    {WEFT_U8, 0, 256},
                  {WEFT_BF16, -9, -2}, {WEFT_BOOL, 0, 2}, {WEFT_F16, 1950, 2049}};

    for (int i = 0; i < 7 * SEEDS; i++) {
        weft_scope *scope = weft_scope_open();
        int64_t low = ranges[i % 7].low, n = ranges[i % 7].high - low;
        double counts[256] = {0}, expected[256];
        weft_tensor *t = line(ranges[i % 7].dtype);

        weft_manual_seed(seeds[i / 7]);
        ck_assert_int_eq(weft_randint_(t, low, low + n, NULL), WEFT_OK);
        weft_read_f64(t, values, N);
        expect_within("randint", (double)low, (double)(low + n - 1));
        for (int j = 0; j < N; j++) counts[(int)(values[j] - (double)low)]++;
        for (int64_t c = 0; c < n; c++) expected[c] = (double)N / (double)n;
        expect_counts("randint", counts, expected, (int)n);
        weft_scope_close(scope);
    }
}

/* Ranges beyond 32 bits, up to all of i64. */
WT_UNIT(randint__is_uniform_in_wide_ranges)
{
    static const int64_t bounds[][2] = {
        {INT64_MIN, INT64_MAX}, {0, (int64_t)3 << 61}, {-5, 1LL << 40}};

    for (int i = 0; i < 3 * SEEDS; i++) {
        weft_scope *scope = weft_scope_open();
        double low = (double)bounds[i % 3][0], high = (double)bounds[i % 3][1];
        weft_tensor *t = line(WEFT_I64);

        weft_manual_seed(seeds[i / 3]);
        ck_assert_int_eq(weft_randint_(t, bounds[i % 3][0], bounds[i % 3][1], NULL), WEFT_OK);
        weft_read_f64(t, values, N);
        for (int j = 0; j < N; j++) values[j] = (values[j] - low) / (high - low);
        expect_uniform("randint", values, N);
        weft_scope_close(scope);
    }
}

int main(int argc, char **argv)
{
    int failed;

    WEFT_CHECK(weft_init(&argc, &argv));
    failed = wt_unit_main("distributions");
    return weft_finalize() || failed;
}
