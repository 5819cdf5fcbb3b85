/*
 * test_grouped.c: runs of rows that are each multiplied by a matrix of its own: every layout
 * against plain loops, what is sent, ends that are empty, and no new plan for other ends.
 */
/* mpi: 2 4 */
#include <stdlib.h>

#include "support/worlds.h"

static weft_tensor *ends_of(weft_dtype dtype, const int64_t *ends, int64_t n)
{
    weft_tensor *t = weft_full(WEFT_F64, &n, 1, 0);
    double *to = weft_data(t);

    for (int64_t i = 0; i < n; i++) to[i] = (double)ends[i];
    return weft_cast(t, dtype);
}

/* Row by row, in f64. */
static double *loops(weft_tensor *x, weft_tensor *weight, const int64_t *ends)
{
    int64_t rows = weft_size(x, 0), k = weft_size(x, 1), groups = weft_size(weight, 0),
            n = weft_size(weight, 2), g = 0;
    double *a = wt_values(x), *b = wt_values(weight), *y = calloc((size_t)(rows * n), 8);

    for (int64_t i = 0; i < rows; i++) {
        while (g < groups && i >= ends[g]) g++;
        if (g == groups) break;
        for (int64_t l = 0; l < k; l++)
            for (int64_t j = 0; j < n; j++) y[i * n + j] += a[i * k + l] * b[(g * k + l) * n + j];
    }
    free(a);
    free(b);
    return y;
}

WT_TEST_TIMES_IN_WORLD(grouped__in_every_layout, w, dtype, 4)
{
    static const char *const x_layouts[] = {"R", "S(0)", "S(1)"};
    static const char *const w_layouts[] = {"R", "S(0)", "S(1)", "S(2)"};
    static const int64_t ends[][4] = {{3, 3, 8, 11}, {0, 1, 2, 12}, {4, 8, 12, 13}, {0, 0, 0, 0}};
    double near = dtype == WEFT_BF16 ? 4e-2 : dtype == WEFT_F16 ? 1e-2 : 1e-5;

    for (int c = 0; c < 4 * 12; c++) {
        weft_tensor *x = wt_whole((weft_dtype)dtype, 0, 13, 6);
        weft_tensor *weight = wt_whole3((weft_dtype)dtype, 1, 4, 6, 5);
        weft_tensor *e = ends_of(c % 2 ? WEFT_I64 : WEFT_I32, ends[c / 12], 4), *y, *want;
        weft_tensor *in[2] = {
            weft_set_requires_grad(wt_spread(w, x, x_layouts[c % 3]), true),
            weft_set_requires_grad(wt_spread(w, weight, w_layouts[c / 3 % 4]), true)};
        double *values;

        wt_note("ends %d, %s by %s", c / 12, x_layouts[c % 3], w_layouts[c / 3 % 4]);
        values = loops(x, weight, ends[c / 12]);
        y = weft_grouped_mm(in[0], in[1], wt_spread(w, e, "R"));
        WT_ALL(wt_near_full(y, values, WT_WITHIN(near)));
        free(values);
        weft_set_requires_grad(x, true);
        weft_set_requires_grad(weight, true);
        want = weft_grouped_mm(x, weight, e);
        WT_EQ(weft_backward(weft_sum_all(y)), WEFT_OK);
        WT_EQ(weft_backward(weft_sum_all(want)), WEFT_OK);
        WT_ALL(wt_near_tensors(weft_grad(in[0]), weft_grad(x), WT_WITHIN(near)));
        WT_ALL(wt_near_tensors(weft_grad(in[1]), weft_grad(weight), WT_WITHIN(near)));
    }
}

/* The gradients by the products of each group. */
WT_TEST_IN_WORLD(grouped__gradients_are_those_of_products, w)
{
    const int64_t ends[] = {4, 4, 9};
    weft_tensor *x = weft_set_requires_grad(wt_whole(WEFT_F64, 0, 10, 6), true);
    weft_tensor *weight = weft_set_requires_grad(wt_whole3(WEFT_F64, 1, 3, 6, 5), true);
    weft_tensor *up = wt_whole(WEFT_F64, 2, 10, 5);
    int64_t from = 0;

    WT_EQ(weft_backward_from(weft_grouped_mm(x, weight, ends_of(WEFT_I32, ends, 3)), up), WEFT_OK);
    for (int g = 0; g < 3; from = ends[g++]) {
        weft_tensor *rows = weft_slice(weft_detach(x), 0, from, ends[g]);
        weft_tensor *d = weft_slice(up, 0, from, ends[g]),
                    *m = weft_select(weft_detach(weight), 0, g);

        WT_ALL(wt_near_tensors(weft_select(weft_grad(weight), 0, g),
                               weft_matmul_t(rows, d, true, false), WT_WITHIN(1e-12)));
        WT_ALL(wt_near_tensors(weft_slice(weft_grad(x), 0, from, ends[g]),
                               weft_matmul_t(d, m, false, true), WT_WITHIN(1e-12)));
    }
    WT_ALL(wt_near_tensors(weft_slice(weft_grad(x), 0, 9, 10),
                           weft_full(WEFT_F64, (int64_t[]){1, 6}, 2, 0), WT_EXACT));
}

/* MAT-23: two of them as a block of experts: f32, and bf16 whose rows are 8 bytes on four ranks,
 * for which the peer gathers */
WT_TEST_TIMES_IN_WORLD(grouped__of_a_block_of_experts, w, k, 3)
{
    static const int64_t sizes[][2] = {{16, 32}, {16, 16}, {8, 12}}; /* width, hidden */
    const int64_t ends[] = {16, 64};
    weft_dtype dtype = k == 1 ? WEFT_BF16 : WEFT_F32;
    double near = k == 1 ? 6e-2 : 2e-5;
    int64_t width = sizes[k][0], hidden = sizes[k][1];
    weft_tensor *x = weft_mul_scalar(wt_whole(dtype, 0, 64, width), 0.25);
    weft_tensor *w1 = weft_mul_scalar(wt_whole3(dtype, 1, 2, width, hidden), 0.25);
    weft_tensor *w2 = weft_mul_scalar(wt_whole3(dtype, 2, 2, hidden, width), 0.25);
    weft_tensor *e = ends_of(WEFT_I32, ends, 2), *spread_e = wt_spread(w, e, "R"), *y, *want, *up;
    weft_tensor *many[] = {wt_spread(w, x, "R"), wt_spread(w, w1, "S(2)"),
                           wt_spread(w, w2, "S(1)")};
    weft_tensor *one[] = {weft_detach(x), weft_detach(w1), weft_detach(w2)};

    for (int i = 0; i < 3; i++) {
        weft_set_requires_grad(many[i], true);
        weft_set_requires_grad(one[i], true);
    }
    weft_ledger_reset(w->ledger);
    y = weft_grouped_mm(weft_grouped_mm(many[0], many[1], spread_e), many[2], spread_e);
    WT_STILL(w);
    WT_ALL(wt_is_placed(y, "P"));
    y = wt_to(y, "S(0)");
    WT_MOVED(w, WEFT_COLL_REDUCE_SCATTER, 1);
    want = weft_grouped_mm(weft_grouped_mm(one[0], one[1], e), one[2], e);
    WT_ALL(wt_near_tensors(y, want, WT_WITHIN(near)));
    up = weft_full(dtype, (int64_t[]){64, width}, 2, 0.5);
    WT_EQ(weft_backward_from(want, up), WEFT_OK);
    up = wt_spread(w, up, "S(0)");
    weft_ledger_reset(w->ledger);
    WT_EQ(weft_backward_from(y, up), WEFT_OK);
    WT_MOVED(w, WEFT_COLL_ALL_GATHER, 1);
    for (int i = 0; i < 3; i++)
        WT_ALL(wt_near_tensors(weft_grad(many[i]), weft_grad(one[i]), WT_WITHIN(near)));
}

/* Other ends are numbers of the call, not of the plan. */
WT_TEST_IN_WORLD(grouped__ends_make_no_plan, w)
{
    weft_tensor *x = wt_spread(w, wt_whole(WEFT_F32, 0, 12, 4), "R");
    weft_tensor *weight = wt_spread(w, wt_whole3(WEFT_F32, 1, 2, 4, 3), "R");
    weft_plan_cache_stats before, after;

    for (int64_t i = 0; i < 4; i++) {
        weft_tensor *e = wt_spread(w, ends_of(WEFT_I32, (int64_t[]){i, 3 * i}, 2), "R");

        before = weft_plan_cache_statistics();
        WT_ALL(weft_grouped_mm(x, weight, e) != NULL);
        after = weft_plan_cache_statistics();
        if (i > 0) WT_ALL(after.plan_misses == before.plan_misses);
    }
    WT_ALL(weft_grouped_mm(x, weight, weft_full(WEFT_F32, (int64_t[]){2}, 1, 0)) == NULL);
    weft_error_clear();
}

int main(int argc, char **argv) { return wt_main(argc, argv, "grouped"); }
