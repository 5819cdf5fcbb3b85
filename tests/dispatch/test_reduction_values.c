/*
 * test_reduction_values.c: reductions, scans, order and norms against torch's results and gradients
 * (tests/golden/reductions.txt, made by make_reductions.py), of an x that lies in any way.
 */
/* mpi: 2 4 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/worlds.h"

enum { N = 4 * 3 * 5, LINE = 8192 };

static weft_tensor *number(double value) { return weft_full(WEFT_F64, NULL, 0, value); }

/* x, with not-a-number in the place of 0. */
static weft_tensor *zero_is_nan(weft_tensor *x)
{
    return weft_where(weft_eq(x, number(0)), number(NAN), x);
}

static weft_tensor *channels(weft_tensor *x, double a, double b, double c)
{
    weft_tensor *t = weft_from_data(WEFT_F64, (int64_t[]){3}, 1, (double[]){a, b, c});
    weft_mesh *mesh = weft_tensor_mesh(x);

    return weft_distribute_tensor(t, mesh, NULL, -1);
}

#define DIMS(...) ((int[]){__VA_ARGS__}), (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int))
#define CASES(CASE)                                                                                \
    CASE(sum, weft_sum(x, DIMS(0, 2), false))                                                      \
    CASE(mean, weft_mean(x, DIMS(1), true))                                                        \
    CASE(prod_0, weft_prod(x, DIMS(0), false))                                                     \
    CASE(prod_2, weft_prod(x, DIMS(2), false))                                                     \
    CASE(prod_all, weft_prod(weft_add_scalar(weft_mul_scalar(x, 3), 0.1), NULL, 0, false))         \
    CASE(amax, weft_amax(x, DIMS(0, 2), false))                                                    \
    CASE(amin, weft_amin(x, DIMS(2), false))                                                       \
    CASE(max, weft_max_with_index(x, 2, false, NULL))                                              \
    CASE(min, weft_min_with_index(x, 0, false, NULL))                                              \
    CASE(max_at, max_at(x))                                                                        \
    CASE(argmax_all, weft_argmax_all(weft_mul_scalar(x, 2)))                                       \
    CASE(argmin_all, weft_argmin_all(x))                                                           \
    CASE(any, weft_any(weft_gt(x, number(0.9)), DIMS(2), false))                                   \
    CASE(all, weft_all(weft_gt(x, number(-0.9)), DIMS(0), false))                                  \
    CASE(count_nonzero, weft_count_nonzero(x, DIMS(0, 1)))                                         \
    CASE(nansum, weft_nansum(zero_is_nan(x), DIMS(1), false))                                      \
    CASE(nanmean, weft_nanmean(zero_is_nan(x), DIMS(0), false))                                    \
    CASE(norm_0, weft_norm(x, 0, DIMS(2), false))                                                  \
    CASE(norm_1, weft_norm(x, 1, DIMS(0, 1), false))                                               \
    CASE(norm_2, weft_norm(x, 2, DIMS(1), true))                                                   \
    CASE(norm_3, weft_norm(x, 3, DIMS(0), false))                                                  \
    CASE(norm_half, weft_norm(weft_add_scalar(x, 2), 0.5, DIMS(2), false))                         \
    CASE(norm_inf, weft_norm(x, INFINITY, DIMS(1, 2), false))                                      \
    CASE(norm_neg_inf, weft_norm(weft_add_scalar(x, 2), -INFINITY, DIMS(0), false))                \
    CASE(dist, weft_dist(x, number(0.3), 3))                                                       \
    CASE(var, weft_var(x, DIMS(0, 2), 1, false))                                                   \
    CASE(var_0, weft_var(x, DIMS(1), 0, true))                                                     \
    CASE(std, weft_std(x, DIMS(0), 1, false))                                                      \
    CASE(std_all, weft_std(x, NULL, 0, 1, false))                                                  \
    CASE(logsumexp, weft_logsumexp(x, DIMS(1, 2), false))                                          \
    CASE(softmax, weft_softmax(x, 1))                                                              \
    CASE(log_softmax, weft_log_softmax(x, 0))                                                      \
    CASE(cumsum, weft_cumsum(x, 0))                                                                \
    CASE(cumprod, weft_cumprod(x, 2))                                                              \
    CASE(cumprod_0, weft_cumprod(x, 0))                                                            \
    CASE(sort, weft_cumsum(weft_sort(x, 2, false, NULL), 2))                                       \
    CASE(argsort, weft_argsort(x, 0, true))                                                        \
    CASE(histc, weft_histc(x, 7, -0.8, 0.9))                                                       \
    CASE(histc_all, weft_histc(x, 10, 0, 0))                                                       \
    CASE(layer_norm, weft_layer_norm(x, NULL, NULL, 1e-3))                                         \
    CASE(rms_norm, weft_rms_norm(x, NULL, 1e-3))                                                   \
    CASE(batch_norm, weft_batch_norm(x, channels(x, 1.5, -0.5, 2), channels(x, 0.25, 0.5, -1),     \
                                     1e-3, (weft_batch_norm_options){.training = true}))           \
    CASE(eval_norm,                                                                                \
         weft_batch_norm(x, NULL, NULL, 1e-3,                                                      \
                         (weft_batch_norm_options){.running_mean = channels(x, 0.5, -0.5, 0),      \
                                                   .running_var = channels(x, 1.5, 0.5, 2)}))      \
    CASE(group_norm, weft_group_norm(x, 1, NULL, NULL, 1e-3))                                      \
    CASE(group_norm_3, weft_group_norm(x, 3, NULL, NULL, 1e-3))

/* Where the largest of x and a little more of what comes later is: no ties, whose place torch
 * leaves open. */
static weft_tensor *max_at(weft_tensor *x)
{
    double later[N];
    weft_tensor *t, *at = NULL;

    for (int i = 0; i < N; i++) later[i] = 0.001 * i;
    t = weft_from_data(WEFT_F64, (int64_t[]){4, 3, 5}, 3, later);
    t = weft_distribute_tensor(t, weft_tensor_mesh(x), NULL, -1);
    return weft_max_with_index(weft_add(x, t), 0, false, &at) ? at : NULL;
}

typedef weft_tensor *function(weft_tensor *x);

#define FUNCTION(name, call)                                                                       \
    static weft_tensor *case_##name(weft_tensor *x) { return call; }
CASES(FUNCTION)

static const struct {
    const char *name;
    function *f;
} cases[] = {
#define ROW(name, call) {#name, case_##name},
    CASES(ROW)};
enum { COUNT = sizeof cases / sizeof *cases };

/* gives: how many numbers the line has; 0 for "-" */
static int read_numbers(FILE *file, double *values)
{
    static _Thread_local char line[LINE];
    char *at = line, *end;
    int n = 0;

    if (!fgets(line, sizeof line, file) || strcmp(line, "-\n") == 0) return 0;
    for (double v = strtod(at, &end); end != at; v = strtod(at, &end)) {
        values[n++] = v;
        at = end;
    }
    return n;
}

/* The block of a case: results and gradient. */
static bool find_case(const char *name, double *y, double *dx, int *n_dx)
{
    FILE *file = fopen(WT_SOURCE_DIR "/"
                                     "tests/golden/reductions.txt",
                       "r");
    char head[LINE];
    bool found = false;

    while (file && !found && fgets(head, sizeof head, file)) {
        head[strcspn(head, "\n")] = '\0';
        found = strcmp(head, name) == 0;
        read_numbers(file, y);
        *n_dx = read_numbers(file, dx);
    }
    if (file) fclose(file);
    return found;
}

static weft_tensor *input(void)
{
    double x[N];

    for (int i = 0; i < N; i++) x[i] = ((i * 37 + 11) % 101) / 50.0 - 1;
    x[5] = x[23] = x[38] = 0;
    x[9] = x[16] = x[44] = 0.75;
    return weft_from_data(WEFT_F64, (int64_t[]){4, 3, 5}, 3, x);
}

WT_TEST_TIMES_IN_WORLD(values__are_torchs, w, k, COUNT)
{
    static const char *const placed[] = {"R", "S(0)", "S(1)", "S(2)"};
    double want[N], want_dx[N];
    int n_dx = 0;

    WT_ALL(find_case(cases[k].name, want, want_dx, &n_dx));
    for (int p = 0; p < 4; p++) {
        weft_tensor *x = weft_set_requires_grad(wt_spread(w, input(), placed[p]), true);
        weft_tensor *y = cases[k].f(x);

        wt_note("%s, %s", cases[k].name, placed[p]);
        WT_ALL(wt_near_full(y, want, WT_WITHIN(1e-12)));
        WT_ALL(n_dx == 0 || weft_requires_grad(y));
        if (n_dx == 0) continue;
        WT_ALL(weft_backward(weft_sum_all(weft_square(y))) == WEFT_OK);
        WT_ALL(wt_near_full(weft_grad(x), want_dx, WT_WITHIN(1e-11)));
    }
}

int main(int argc, char **argv) { return wt_main(argc, argv, "reduction values"); }
