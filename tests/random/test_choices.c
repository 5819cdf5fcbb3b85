/*
 * test_choices.c: permutations, drawing indices by weight, and first values of weights: each result
 * is as likely as it should be. Seeds are fixed; bounds are about 4.5 standard deviations.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/mpi_check.h"
#include <weft/weft.h>

enum { DRAWS = 24000, MANY = 2000, SEEDS = 3 };

static const uint64_t seeds[] = {0, 1234, ((uint64_t)1 << 63) + 42};

static void expect_counts(const char *what, const double *counts, const double *expected, int n)
{
    double chi = 0, freedom = n - 1;

    for (int i = 0; i < n; i++) chi += pow(counts[i] - expected[i], 2) / expected[i];
    ck_assert_msg((chi - freedom) / sqrt(2 * freedom) < 4.5, "%s: chi-square %g of %d classes",
                  what, chi, n);
}

/* ---- permutations ---- */

static void permute(int64_t *order, int64_t n)
{
    weft_scope *scope = weft_scope_open();
    weft_spec spec = {.dtype = WEFT_I64, .ndim = 1, .shape = {n}};
    weft_tensor *t = weft_make_randperm(spec, NULL);

    ck_assert_ptr_nonnull(t);
    memcpy(order, weft_data(t), (size_t)n * sizeof *order);
    weft_scope_close(scope);
}

WT_UNIT(randperm__has_every_number_once)
{
    static const int64_t sizes[] = {1, 2, 3, 17, 1023, 1024, 1025, 2048, 3000, 65536, 100003};

    for (int i = 0; i < 11 * SEEDS; i++) {
        int64_t n = sizes[i % 11], *order = malloc((size_t)n * sizeof *order), strays = 0;
        char *seen = calloc((size_t)n, 1);

        weft_manual_seed(seeds[i / 11]);
        permute(order, n);
        for (int64_t j = 0; j < n; j++) {
            strays += order[j] < 0 || order[j] >= n || seen[order[j]];
            if (order[j] >= 0 && order[j] < n) seen[order[j]] = 1;
        }
        ck_assert_int_eq(strays, 0);
        free(order);
        free(seen);
    }
}

/* All 24 orders of 4 elements, and where each of 7 elements goes. */
WT_UNIT_TIMES(randperm__of_few_has_all_orders_alike, SEEDS)
{
    double counts[256] = {0}, all[24], expected[24], place[7][7] = {{0}}, even[7];
    int64_t order[7];
    int n = 0;

    weft_manual_seed(seeds[_i]);
    for (int d = 0; d < DRAWS; d++) {
        permute(order, 4);
        counts[order[0] << 6 | order[1] << 4 | order[2] << 2 | order[3]]++;
        permute(order, 7);
        for (int i = 0; i < 7; i++) place[i][order[i]]++;
    }
    for (int i = 0; i < 256; i++)
        if (counts[i] > 0 && n < 24) all[n++] = counts[i];
    ck_assert_int_eq(n, 24);
    for (int i = 0; i < 24; i++) expected[i] = DRAWS / 24;
    expect_counts("orders of 4", all, expected, 24);
    for (int i = 0; i < 7; i++) even[i] = (double)DRAWS / 7;
    for (int i = 0; i < 7; i++) expect_counts("places of 7", place[i], even, 7);
}

/* The keyed map of many elements: places, fixed points, rises, and even and odd orders. */
WT_UNIT_TIMES(randperm__of_many_looks_random, SEEDS)
{
    enum { REPEATS = 400, CLASSES = 20 };
    static int64_t order[MANY];
    double first[CLASSES] = {0}, last[CLASSES] = {0}, even[CLASSES], fixed = 0, rises = 0, odd = 0;
    const double repeats = REPEATS, many = MANY;
    double along = 0;

    weft_manual_seed(seeds[_i]);
    for (int r = 0; r < REPEATS; r++) {
        char seen[MANY] = {0};
        int cycles = 0;

        permute(order, MANY);
        first[order[0] * CLASSES / MANY]++;
        last[order[MANY - 1] * CLASSES / MANY]++;
        for (int64_t i = 0; i < MANY; i++) {
            fixed += order[i] == i;
            rises += i > 0 && order[i] > order[i - 1];
            along += ((double)i / many - 0.5) * ((double)order[i] / many - 0.5) * 12;
            if (!seen[i]) cycles++;
            for (int64_t j = i; !seen[j]; j = order[j]) seen[j] = 1;
        }
        odd += (MANY - cycles) % 2;
    }
    for (int c = 0; c < CLASSES; c++) even[c] = REPEATS / CLASSES;
    expect_counts("place of the first", first, even, CLASSES);
    expect_counts("place of the last", last, even, CLASSES);
    ck_assert_msg(fabs(fixed - repeats) < 4.5 * sqrt(repeats), "%g fixed points", fixed);
    rises = rises / repeats - (many - 1) / 2;
    ck_assert_msg(fabs(rises) < 4.5 * sqrt((many + 1) / 12 / repeats), "%g more rises", rises);
    ck_assert_msg(fabs(along) < 4.5 * sqrt(many * repeats), "correlation %g", along);
    ck_assert_msg(fabs(odd - repeats / 2) < 4.5 * sqrt(repeats) / 2, "%g odd orders", odd);
}

/* ---- drawing by weight ---- */

static const float weights[] = {1, 0, 2, 0.5f, 4, 0.25f};
enum { WEIGHTS = 6 };
static const double total = 7.75;

/* RNG-02: how often each index comes, from many rows and from one. */
WT_UNIT_TIMES(multinomial__draws_by_weight, 2 * SEEDS)
{
    bool one_row = _i % 2;
    int64_t rows = one_row ? 1 : DRAWS, n = one_row ? DRAWS : 1;
    weft_scope *scope = weft_scope_open();
    weft_tensor *p = weft_from_data(WEFT_F32, (int64_t[]){1, WEIGHTS}, 2, weights), *y;
    double counts[WEIGHTS] = {0}, of_positive[5], expected[5];
    const int64_t *index;

    weft_manual_seed(seeds[_i / 2]);
    y = weft_multinomial(weft_expand(p, (int64_t[]){rows, WEIGHTS}, 2), n, true, NULL);
    ck_assert_ptr_nonnull(y);
    index = weft_data(y);
    for (int i = 0; i < DRAWS; i++) counts[index[i]]++;
    ck_assert(counts[1] == 0);
    for (int i = 0, k = 0; i < WEIGHTS; i++) {
        if (weights[i] <= 0) continue;
        of_positive[k] = counts[i];
        expected[k++] = (double)DRAWS * weights[i] / total;
    }
    expect_counts("multinomial", of_positive, expected, 5);
    weft_scope_close(scope);
}

/* Without replacement: ordered pairs have the chance p_i p_j / (1 - p_i). */
WT_UNIT_TIMES(multinomial__without_replacement_draws_pairs_by_weight, SEEDS)
{
    weft_scope *scope = weft_scope_open();
    weft_tensor *p = weft_from_data(WEFT_F32, (int64_t[]){1, WEIGHTS}, 2, weights), *y;
    double counts[WEIGHTS][WEIGHTS] = {{0}}, got[20], expected[20];
    const int64_t *index;
    int k = 0;

    weft_manual_seed(seeds[_i]);
    y = weft_multinomial(weft_expand(p, (int64_t[]){DRAWS, WEIGHTS}, 2), 2, false, NULL);
    ck_assert_ptr_nonnull(y);
    index = weft_data(y);
    for (int i = 0; i < DRAWS; i++) counts[index[2 * i]][index[2 * i + 1]]++;
    for (int i = 0; i < WEIGHTS; i++)
        for (int j = 0; j < WEIGHTS; j++) {
            if (i == j || weights[i] <= 0 || weights[j] <= 0) {
                ck_assert(counts[i][j] == 0);
                continue;
            }
            got[k] = counts[i][j];
            expected[k++] = (double)DRAWS * weights[i] / total * weights[j] / (total - weights[i]);
        }
    ck_assert_int_eq(k, 20);
    expect_counts("pairs", got, expected, 20);
    weft_scope_close(scope);
}

WT_UNIT(multinomial__without_replacement_can_draw_all)
{
    enum { WIDE = 1000 };
    weft_scope *scope = weft_scope_open();
    weft_tensor *p = weft_make_uniform((weft_spec){.ndim = 1, .shape = {WIDE}}, 1, 2, NULL);
    weft_tensor *y = weft_multinomial(p, WIDE, false, NULL);
    const int64_t *index = weft_data(y);
    char seen[WIDE] = {0};
    int different = 0;

    ck_assert(weft_ndim(y) == 1 && weft_size(y, 0) == WIDE);
    for (int i = 0; i < WIDE; i++) {
        different += !seen[index[i]];
        seen[index[i]] = 1;
    }
    ck_assert_int_eq(different, WIDE);
    weft_scope_close(scope);
}

/* ---- first values ---- */

typedef weft_status initialise(weft_tensor *t);

static weft_status relu_uniform(weft_tensor *t)
{
    return weft_kaiming_uniform_(t, 0, WEFT_FAN_IN, NULL);
}

static weft_status linear_uniform(weft_tensor *t)
{
    return weft_kaiming_uniform_(t, sqrt(5), WEFT_FAN_IN, NULL);
}

static weft_status relu_normal(weft_tensor *t)
{
    return weft_kaiming_normal_(t, 0, WEFT_FAN_OUT, NULL);
}

static weft_status glorot_uniform(weft_tensor *t) { return weft_xavier_uniform_(t, 2, NULL); }

static weft_status glorot_normal(weft_tensor *t) { return weft_xavier_normal_(t, 0.5, NULL); }

/* Weights [out, in, 3]: fans are 3 in and 3 out. */
WT_UNIT(init__has_the_variance_of_its_fans)
{
    enum { OUT = 200, IN = 50, N = OUT * IN * 3 };
    const struct {
        initialise *init;
        double std;
        bool bounded; /* by sqrt(3) std */
    } kinds[] = {
        {relu_uniform, sqrt(2.0 / (3 * IN)), true},
        {linear_uniform, sqrt(1.0 / 3 / (3 * IN)), true},
        {relu_normal, sqrt(2.0 / (3 * OUT)), false},
        {glorot_uniform, 2 * sqrt(2.0 / (3 * (IN + OUT))), true},
        {glorot_normal, 0.5 * sqrt(2.0 / (3 * (IN + OUT))), false},
    };
    static double values[N];

    for (int i = 0; i < 5 * SEEDS; i++) {
        weft_scope *scope = weft_scope_open();
        weft_tensor *t = weft_empty(WEFT_F32, (int64_t[]){OUT, IN, 3}, 3);
        double std = kinds[i % 5].std, mean = 0, square = 0, most = 0;

        weft_manual_seed(seeds[i / 5]);
        ck_assert_int_eq(kinds[i % 5].init(t), WEFT_OK);
        weft_read_f64(t, values, N);
        for (int j = 0; j < N; j++) {
            mean += values[j] / (double)N;
            square += values[j] * values[j] / (double)N;
            most = fmax(most, fabs(values[j]));
        }
        ck_assert_msg(fabs(mean) < 4.5 * std / sqrt(N), "mean %g", mean);
        ck_assert_msg(fabs(sqrt(square) / std - 1) < 0.02, "%g, not %g", sqrt(square), std);
        ck_assert((most <= sqrt(3) * std * (1 + 1e-6)) == kinds[i % 5].bounded);
        weft_scope_close(scope);
    }
}

WT_UNIT(init__refuses_vectors)
{
    weft_tensor *t = weft_empty(WEFT_F32, (int64_t[]){5}, 1);

    ck_assert_int_eq(weft_kaiming_normal_(t, 0, WEFT_FAN_IN, NULL), WEFT_ERR_SHAPE);
    weft_error_clear();
    ck_assert_int_eq(weft_xavier_uniform_(t, 1, NULL), WEFT_ERR_SHAPE);
    weft_error_clear();
}

int main(int argc, char **argv)
{
    int failed;

    WEFT_CHECK(weft_init(&argc, &argv));
    failed = wt_unit_main("choices");
    return weft_finalize() || failed;
}
