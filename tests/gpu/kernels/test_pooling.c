/*
 * test_pooling.c: CUDA kernels of windows beside the CPU's, on the same operands: maxima to the
 * same bits, weighted sums but for rounding. Windows overlap, leave gaps, and reach beyond the
 * borders; planes are of one launch or of many.
 */
#include "both_devices.h"

extern int64_t wf_cuda_index_limit;

enum { MOST_DIMS = 4 };

/* x has its first dim and another before the planes, where `lead` is 2. */
static int shape_of(int64_t *shape, int lead, int dims, const int32_t *size)
{
    static const int64_t leading[] = {3, 2};
    int n = 0;

    for (int d = 0; d < lead; d++) shape[n++] = leading[d];
    for (int d = 0; d < dims; d++) shape[n++] = size[d];
    return n;
}

/* In every second call a launch has a few planes. */
static void limit_launches(int i) { wf_cuda_index_limit = i % 2 ? 100 : (int64_t)1 << 30; }

/* ---- maxima ---- */

static const struct wf_windows_attrs pools[] = {
    {.dims = 2,
     .size = {7, 9},
     .to = {4, 7},
     .kernel = {3, 2},
     .stride = {2, 1},
     .before = {1, 0},
     .dilation = {1, 2}},
    {.dims = 2,
     .size = {24, 33},
     .to = {12, 16},
     .kernel = {2, 2},
     .stride = {2, 2},
     .dilation = {1, 1}},
    {.dims = 2,
     .size = {20, 17},
     .to = {20, 17},
     .kernel = {5, 5},
     .stride = {1, 1},
     .before = {2, 2},
     .dilation = {1, 1}},
    {.dims = 2,
     .size = {30, 5},
     .to = {6, 2},
     .kernel = {2, 1},
     .stride = {5, 3},
     .dilation = {1, 1}},
    {.dims = 1,
     .size = {401},
     .to = {133},
     .kernel = {4},
     .stride = {3},
     .before = {1},
     .dilation = {1}},
    {.dims = 1,
     .size = {40},
     .to = {35},
     .kernel = {3},
     .stride = {1},
     .before = {1},
     .dilation = {3}},
    {.dims = 3,
     .size = {5, 6, 7},
     .to = {3, 3, 3},
     .kernel = {3, 2, 3},
     .stride = {2, 2, 2},
     .before = {1, 0, 0},
     .dilation = {1, 1, 1}},
    {.dims = 3,
     .size = {4, 3, 9},
     .to = {3, 3, 9},
     .kernel = {2, 3, 3},
     .stride = {1, 1, 1},
     .before = {0, 1, 1},
     .dilation = {1, 1, 1}},
};
enum { POOLS = sizeof pools / sizeof *pools };

static void check_max_pool(const struct wf_windows_attrs *a, weft_dtype dtype, enum lie lie,
                           int lead)
{
    static const struct kernel pool = KERNEL(max_pool), grad = KERNEL(max_pool_grad);
    union wf_op_attrs attrs = {.windows = *a};
    int64_t large[MOST_DIMS], small[MOST_DIMS];
    int n = shape_of(large, lead, a->dims, a->size);
    struct operand x = operand_new(dtype, lie, n, large), y[2], at[2], d, strided, dx[2];

    (void)shape_of(small, lead, a->dims, a->to);
    d = operand_noise(dtype, lie, n, small, 4);
    strided = operand_new(WEFT_I64, lie, n, small);
    operand_whole(&x, 3, 4); /* some are equal */
    for (int64_t i = 11; i < x.desc.numel; i += 97) x.values[i] = i % 2 ? NAN : -INFINITY;
    operand_write(&x);
    for (int cpu = 0; cpu < 2; cpu++) {
        struct wf_kernel_call k = {.op = pool.name, .n_in = 1, .n_out = 2, .attrs = &attrs};

        y[cpu] = operand_new(dtype, PLAIN, n, small);
        at[cpu] = operand_new(WEFT_I64, PLAIN, n, small);
        dx[cpu] = operand_new(dtype, PLAIN, n, large);
        kernel_run(cpu ? pool.cpu : pool.cuda, &k, (struct operand *[]){&y[cpu], &at[cpu]},
                   (struct operand *[]){&x}, NULL);
    }
    expect_same_bits(at, "max_pool's indices");
    for (int64_t i = 0; i < y->desc.numel; i++)
        ck_assert(y[0].values[i] == y[1].values[i] ||
                  (isnan(y[0].values[i]) && isnan(y[1].values[i])));
    expect_guards(&y[0]);
    memcpy(strided.values, at->values, (size_t)at->desc.numel * sizeof *at->values);
    operand_write(&strided);
    run_both(&grad, dx, 2, (struct operand *[]){&d, &strided}, &attrs, NULL);
    expect_same_bits(dx, grad.name);
    both_operands_free(y);
    both_operands_free(at);
    both_operands_free(dx);
    OPERANDS_FREE(&x, &d, &strided);
}

WT_UNIT_TIMES(max_pool__has_the_bits_of_the_cpu, POOLS)
{
    for (int t = 0; t < FLOAT_DTYPES; t++)
        for (int i = 0; i < LIES * 2; i++) {
            limit_launches(i / LIES + t);
            check_max_pool(&pools[_i], float_dtypes[t], nth_lie(i),
                           pools[_i].dims == 3 ? 1 : 1 + i / LIES);
        }
}

/* ---- weighted sums ---- */

static const struct wf_resample_attrs samples[] = {
    {.dims = 2,
     .mode = WF_RESAMPLE_AVERAGE,
     .size = {7, 9},
     .to = {4, 4},
     .kernel = {3, 2},
     .stride = {2, 2},
     .before = {1, 0}},
    {.dims = 2,
     .mode = WF_RESAMPLE_AVERAGE,
     .option = true,
     .size = {17, 20},
     .to = {17, 10},
     .kernel = {3, 4},
     .stride = {1, 2},
     .before = {1, 1}},
    {.dims = 1,
     .mode = WF_RESAMPLE_AVERAGE,
     .size = {300},
     .to = {60},
     .kernel = {3},
     .stride = {5}},
    {.dims = 3,
     .mode = WF_RESAMPLE_AVERAGE,
     .size = {4, 6, 8},
     .to = {2, 3, 4},
     .kernel = {2, 2, 2},
     .stride = {2, 2, 2}},
    {.dims = 2, .mode = WF_RESAMPLE_ADAPTIVE, .size = {14, 23}, .to = {7, 5}},
    {.dims = 2, .mode = WF_RESAMPLE_ADAPTIVE, .size = {3, 7}, .to = {5, 7}},
    {.dims = 3, .mode = WF_RESAMPLE_ADAPTIVE, .size = {5, 4, 7}, .to = {1, 3, 2}},
    {.dims = 1, .mode = WF_RESAMPLE_NEAREST, .size = {40}, .to = {93}},
    {.dims = 2, .mode = WF_RESAMPLE_NEAREST, .size = {9, 31}, .to = {18, 11}, .scale = {2, 0.37}},
    {.dims = 2, .mode = WF_RESAMPLE_NEAREST_EXACT, .size = {9, 31}, .to = {20, 11}},
    {.dims = 3, .mode = WF_RESAMPLE_NEAREST, .size = {3, 4, 5}, .to = {6, 2, 7}},
    {.dims = 1, .mode = WF_RESAMPLE_LINEAR, .size = {50}, .to = {333}},
    {.dims = 2, .mode = WF_RESAMPLE_LINEAR, .size = {13, 7}, .to = {26, 15}, .scale = {2, 2.2}},
    {.dims = 2, .mode = WF_RESAMPLE_LINEAR, .option = true, .size = {13, 40}, .to = {5, 13}},
    {.dims = 2, .mode = WF_RESAMPLE_LINEAR, .option = true, .size = {5, 1}, .to = {1, 9}},
    {.dims = 3, .mode = WF_RESAMPLE_LINEAR, .size = {3, 5, 4}, .to = {5, 3, 8}},
    {.dims = 2, .mode = WF_RESAMPLE_CUBIC, .size = {8, 11}, .to = {20, 9}},
    {.dims = 2, .mode = WF_RESAMPLE_CUBIC, .option = true, .size = {8, 2}, .to = {21, 12}},
    {.dims = 2, .mode = WF_RESAMPLE_CUBIC, .size = {40, 30}, .to = {12, 64}, .scale = {0.3, 2.15}},
};
enum { SAMPLES = sizeof samples / sizeof *samples };

static void check_resample(struct wf_resample_attrs a, weft_dtype dtype, enum lie lie, int lead)
{
    static const struct kernel resample = KERNEL(resample);
    union wf_op_attrs attrs = {.resample = a};
    int64_t from[MOST_DIMS], to[MOST_DIMS];
    int n = shape_of(from, lead, a.dims, a.transposed ? a.to : a.size);
    struct operand x = operand_noise(dtype, lie, n, from, 3), y[2];

    (void)shape_of(to, lead, a.dims, a.transposed ? a.size : a.to);
    for (int i = 0; i < 2; i++) y[i] = operand_new(dtype, PLAIN, n, to);
    run_both(&resample, y, 1, (struct operand *[]){&x}, &attrs, NULL);
    expect_near(resample.name, &y[0], y[1].values, dtype_bound(dtype));
    expect_guards(&y[0]);
    both_operands_free(y);
    operand_free(&x);
}

WT_UNIT_TIMES(resample__equals_the_cpu, SAMPLES)
{
    struct wf_resample_attrs a = samples[_i];

    for (int t = 0; t < FLOAT_DTYPES; t++)
        for (int i = 0; i < LIES * 4; i++) {
            limit_launches(i / LIES + t);
            a.transposed = i / LIES / 2;
            check_resample(a, float_dtypes[t], nth_lie(i), a.dims == 3 ? 1 : 1 + i / LIES % 2);
        }
}

/* What is infinite, or no number, beside elements that have weight 0. */
WT_UNIT(resample__spreads_what_is_no_number)
{
    static const struct kernel resample = KERNEL(resample);
    const union wf_op_attrs attrs = {
        .resample = {.dims = 1, .mode = WF_RESAMPLE_LINEAR, .size = {9}, .to = {17}, .option = 1}};
    struct operand x = operand_noise(WEFT_F32, PLAIN, 2, (int64_t[]){3, 9}, 1), y[2];

    for (int i = 0; i < 2; i++) y[i] = operand_new(WEFT_F32, PLAIN, 2, (int64_t[]){3, 17});
    x.values[4] = NAN;
    x.values[17] = x.values[22] = INFINITY;
    operand_write(&x);
    run_both(&resample, y, 1, (struct operand *[]){&x}, &attrs, NULL);
    for (int64_t i = 0; i < y->desc.numel; i++) {
        double a = y[0].values[i], b = y[1].values[i];

        ck_assert_msg(isnan(a) ? isnan(b) : a == b || fabs(a - b) < 1e-6, "%lld: %g, not %g",
                      (long long)i, a, b);
    }
    both_operands_free(y);
    operand_free(&x);
}

/* No planes. */
WT_UNIT(windows__of_nothing)
{
    static const struct kernel resample = KERNEL(resample);
    const union wf_op_attrs attrs = {.resample = samples[0]};
    struct operand x = operand_new(WEFT_F32, PLAIN, 3, (int64_t[]){0, 7, 9}), y[2];

    for (int i = 0; i < 2; i++) y[i] = operand_new(WEFT_F32, PLAIN, 3, (int64_t[]){0, 4, 4});
    run_both(&resample, y, 1, (struct operand *[]){&x}, &attrs, NULL);
    expect_same_bits(y, resample.name);
    both_operands_free(y);
    operand_free(&x);
}

int main(void) { return wt_unit_main("pooling"); }
