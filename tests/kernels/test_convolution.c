/* test_convolution.c: convolutions, sums and maxima of windows and picked elements against loops
 * over all indices, of operands that lie in memory in any way. */
#include "plain_convolution.h"

static const struct conv_case conv_cases[] = {
    {1,
     false,
     true,
     2,
     1,
     3,
     5,
     {9, 1},
     {3, 1},
     {.stride = {1}, .before = {1}, .after = {1}, .dilation = {1}}},
    {1, true, true, 2, 20, 1, 1, {8, 1}, {4, 1}, {.stride = {1}, .before = {3}, .dilation = {1}}},
    {1,
     false,
     false,
     3,
     1,
     16,
     16,
     {13, 1},
     {2, 1},
     {.stride = {3}, .before = {2}, .after = {1}, .dilation = {2}}},
    {2, false, true, 2, 1, 3, 8, {8, 12}, {4, 4}, {.stride = {4, 4}, .dilation = {1, 1}}},
    {2,
     false,
     true,
     1,
     1,
     17,
     19,
     {5, 6},
     {3, 2},
     {.stride = {1, 2}, .before = {1, 0}, .after = {1, 1}, .dilation = {1, 2}}},
    {2,
     true,
     false,
     2,
     3,
     2,
     4,
     {5, 5},
     {3, 3},
     {.stride = {1, 1}, .before = {1, 1}, .after = {1, 1}, .dilation = {1, 1}}},
    {2, false, false, 2, 1, 4, 3, {3, 4}, {1, 1}, {.stride = {1, 1}, .dilation = {1, 1}}},
    /* kernels of one place, with groups and a bias: images of few places, one such, of many */
    {2, true, true, 3, 2, 4, 3, {3, 4}, {1, 1}, {.stride = {1, 1}, .dilation = {1, 1}}},
    {2, true, true, 1, 2, 4, 3, {7, 7}, {1, 1}, {.stride = {1, 1}, .dilation = {1, 1}}},
    {2, true, true, 2, 2, 3, 4, {16, 17}, {1, 1}, {.stride = {1, 1}, .dilation = {1, 1}}},
    {3, true, true, 4, 1, 5, 6, {2, 3, 2}, {1, 1, 1}, {.stride = {1, 1, 1}, .dilation = {1, 1, 1}}},
    {2, false, true, 2, 1, 0, 3, {3, 4}, {1, 1}, {.stride = {1, 1}, .dilation = {1, 1}}},
    {2, false, true, 2, 1, 9, 0, {3, 4}, {2, 1}, {.stride = {1, 1}, .dilation = {1, 1}}},
    {2, false, true, 0, 1, 2, 9, {5, 4}, {3, 2}, {.stride = {1, 1}, .dilation = {1, 1}}},
    {1, true, true, 0, 2, 2, 2, {5, 1}, {3, 1}, {.stride = {2}, .dilation = {1}}},
    /* Several tiles of rows and of columns; lines of whole vectors and not. */
    {2,
     false,
     true,
     3,
     1,
     10,
     70,
     {8, 8},
     {3, 3},
     {.stride = {1, 1}, .before = {1, 1}, .after = {1, 1}, .dilation = {1, 1}}},
    {2,
     true,
     true,
     2,
     2,
     12,
     10,
     {7, 9},
     {3, 2},
     {.stride = {2, 3}, .before = {2, 1}, .after = {1, 0}, .dilation = {1, 2}}},
    /* Long sums, of many channels and of many places. */
    {2,
     false,
     true,
     2,
     1,
     128,
     9,
     {4, 4},
     {3, 3},
     {.stride = {1, 1}, .before = {1, 1}, .after = {1, 1}, .dilation = {1, 1}}},
    {1,
     false,
     true,
     2,
     1,
     3,
     9,
     {700, 1},
     {3, 1},
     {.stride = {1}, .before = {1}, .after = {1}, .dilation = {1}}},
    {1,
     true,
     true,
     3,
     5,
     1,
     2,
     {600, 1},
     {11, 1},
     {.stride = {1}, .before = {10}, .dilation = {1}}},
    {3,
     true,
     true,
     2,
     2,
     2,
     3,
     {4, 5, 6},
     {2, 3, 2},
     {.stride = {1, 2, 1}, .before = {1, 1, 0}, .after = {0, 1, 1}, .dilation = {1, 1, 2}}},
    {3,
     false,
     false,
     2,
     1,
     9,
     10,
     {3, 4, 5},
     {2, 2, 3},
     {.stride = {2, 1, 1}, .before = {0, 1, 1}, .after = {1, 0, 1}, .dilation = {1, 2, 1}}},
    /* on a GPU: a sum over places in parts, of which one more would begin behind the last place */
    {2,
     false,
     false,
     15,
     1,
     3,
     3,
     {32, 32},
     {3, 3},
     {.stride = {1, 1}, .before = {1, 1}, .after = {1, 1}, .dilation = {1, 1}}},
};
enum { CONVS = sizeof conv_cases / sizeof *conv_cases };

WT_UNIT_TIMES(conv__equals_loops, CONVS)
{
    EACH_ISA
    for (int t = 0; t < FLOAT_DTYPES; t++)
        for (int lie = 0; lie < LIES; lie++)
            check_conv(&conv_cases[_i], float_dtypes[t], (enum lie)lie);
}

/* ---- windows ---- */

/* Means of windows of 3 by 2, of which those at the borders have less. */
static void check_average(weft_dtype dtype, enum lie lie, bool transposed)
{
    const union wf_op_attrs attrs = {.resample = {.dims = 2,
                                                  .mode = WF_RESAMPLE_AVERAGE,
                                                  .transposed = transposed,
                                                  .size = {7, 9},
                                                  .to = {4, 4},
                                                  .kernel = {3, 2},
                                                  .stride = {2, 2},
                                                  .before = {1, 0}}};
    int64_t large[] = {3, 7, 9}, small[] = {3, 4, 4};
    struct operand x = operand_noise(dtype, lie, 3, transposed ? small : large, 3);
    struct operand y = operand_new(dtype, PLAIN, 3, transposed ? large : small);

    for (int64_t p = 0; p < 3 * 16; p++)
        for (int64_t t = 0; t < 6; t++) {
            int64_t a = p / 4 % 4 * 2 - 1 + t / 2, b = p % 4 * 2 + t % 2;
            int64_t rows = p / 4 % 4 == 0 || p / 4 % 4 == 3 ? 2 : 3, at = (p / 16 * 7 + a) * 9 + b;

            if (a < 0 || a >= 7) continue;
            if (transposed)
                y.want[at] += x.values[p] / (double)(2 * rows);
            else
                y.want[p] += x.values[at] / (double)(2 * rows);
        }
    call_with(wf_cpu_resample, &attrs, &y, 1, (struct operand *[]){&x}, NULL);
    expect_near("resample", &y, y.want, dtype_bound(dtype));
    expect_guards(&y);
    OPERANDS_FREE(&x, &y);
}

static void check_max_pool(weft_dtype dtype, enum lie lie)
{
    const union wf_op_attrs attrs = {.windows = {.dims = 2,
                                                 .size = {7, 9},
                                                 .to = {4, 7},
                                                 .kernel = {3, 2},
                                                 .stride = {2, 1},
                                                 .before = {1, 0},
                                                 .dilation = {1, 2}}};
    int64_t large[] = {3, 7, 9}, small[] = {3, 4, 7};
    struct operand x = operand_noise(dtype, lie, 3, large, 3),
                   y = operand_new(dtype, PLAIN, 3, small);
    struct operand at = operand_new(WEFT_I64, PLAIN, 3, small),
                   d = operand_noise(dtype, lie, 3, small, 4);
    struct operand dx = operand_new(dtype, PLAIN, 3, large);
    struct wf_kernel_call k = {.op = "max_pool", .n_in = 1, .n_out = 2, .attrs = &attrs};

    kernel_run(wf_cpu_max_pool, &k, (struct operand *[]){&y, &at}, (struct operand *[]){&x}, NULL);
    for (int64_t p = 0; p < y.desc.numel; p++) {
        int64_t plane = p / 28, best = -1;

        for (int64_t t = 0; t < 6; t++) {
            int64_t a = p / 7 % 4 * 2 - 1 + t / 2, b = p % 7 + t % 2 * 2;

            if (a < 0 || a >= 7) continue;
            if (best < 0 || x.values[plane * 63 + a * 9 + b] > x.values[plane * 63 + best])
                best = a * 9 + b;
        }
        ck_assert(at.values[p] == (double)best && y.values[p] == x.values[plane * 63 + best]);
        dx.want[plane * 63 + best] += d.values[p];
    }
    call_with(wf_cpu_max_pool_grad, &attrs, &dx, 2, (struct operand *[]){&d, &at}, NULL);
    expect_near("max_pool_grad", &dx, dx.want, dtype_bound(dtype));
    expect_guards(&y);
    expect_guards(&at);
    expect_guards(&dx);
    OPERANDS_FREE(&x, &y, &at, &d, &dx);
}

WT_UNIT(windows__equal_loops)
{
    EACH_ISA
    for (int t = 0; t < FLOAT_DTYPES; t++)
        for (int lie = 0; lie < LIES; lie++) {
            check_average(float_dtypes[t], (enum lie)lie, false);
            check_average(float_dtypes[t], (enum lie)lie, true);
            check_max_pool(float_dtypes[t], (enum lie)lie);
        }
}

/* ---- picked elements ---- */

static void check_pick(weft_dtype dtype, weft_dtype index, enum lie lie, int64_t first, int64_t n)
{
    int64_t shape[] = {5, n}, rows[] = {5}, classes[] = {7};
    struct operand x = operand_noise(dtype, lie, 2, shape, 1), t = operand_new(index, lie, 1, rows);
    struct operand w = operand_noise(dtype, lie, 1, classes, 2),
                   d = operand_noise(dtype, lie, 1, rows, 3);
    struct operand y = operand_new(dtype, PLAIN, 1, rows),
                   weights = operand_new(dtype, PLAIN, 1, rows);
    struct operand dx = operand_new(dtype, PLAIN, 2, shape);
    struct wf_scalars ignored = {.v = {2}};
    struct wf_kernel_call k = {.op = "nll_pick", .n_in = 3, .n_out = 2};

    x.desc.global[1] = dx.desc.global[1] = 7;
    x.desc.offset[1] = dx.desc.offset[1] = first;
    for (int64_t i = 0; i < 5; i++) {
        int64_t target = (3 * i + 2) % 7, column = target - first;

        t.values[i] = (double)target;
        if (target == 2 || column < 0 || column >= n) continue;
        y.want[i] = w.values[target] * x.values[i * n + column];
        weights.want[i] = w.values[target];
        dx.want[i * n + column] = w.values[target] * d.values[i];
    }
    operand_write(&t);
    kernel_run(wf_cpu_nll_pick, &k, (struct operand *[]){&y, &weights},
               (struct operand *[]){&x, &t, &w}, &ignored);
    expect_near("nll_pick", &y, y.want, dtype_bound(dtype));
    expect_near("nll_pick", &weights, weights.want, 0);
    call(wf_cpu_nll_pick_grad, &dx, 3, (struct operand *[]){&d, &t, &w}, &ignored);
    expect_near("nll_pick_grad", &dx, dx.want, dtype_bound(dtype));
    expect_guards(&y);
    expect_guards(&dx);
    OPERANDS_FREE(&x, &t, &w, &d, &y, &weights, &dx);
}

WT_UNIT(pick__equals_loops)
{
    for (int t = 0; t < FLOAT_DTYPES; t++)
        for (int lie = 0; lie < LIES; lie++) {
            check_pick(float_dtypes[t], WEFT_I64, (enum lie)lie, 0, 7);
            check_pick(float_dtypes[t], WEFT_I32, (enum lie)lie, 3, 2);
            check_pick(float_dtypes[t], WEFT_I32, (enum lie)lie, 7, 0);
        }
}

int main(void) { return wt_unit_main("convolution"); }
