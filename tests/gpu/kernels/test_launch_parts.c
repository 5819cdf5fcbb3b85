/*
 * test_launch_parts.c: calls with more indices than a launch may have are several launches. The
 * limit is made so small that small operands need them, in every way that operands can lie.
 */
#include "both_devices.h"

extern int64_t wf_cuda_index_limit;

static const int64_t limits[] = {64, 7, 1000};
static const struct sizes shapes[] = {{1, {1000}},   {1, {1003}},     {2, {40, 33}},
                                      {2, {3, 512}}, {3, {5, 7, 36}}, {3, {70, 1, 5}}};
enum { CALLS = 3 * 6 * LIES };

/* Call `number`: limit, shape and lie. */
static const struct sizes *start_call(int number, enum lie *lie)
{
    wf_cuda_index_limit = limits[number % 3];
    *lie = nth_lie(number / 18);
    return &shapes[number / 3 % 6];
}

static void end_call(struct operand *y, const char *what)
{
    wf_cuda_index_limit = (int64_t)1 << 30;
    expect_same_bits(y, what);
    both_operands_free(y);
}

static void check_call(int number, const struct kernel *kernel, weft_dtype dtype, int n_in,
                       bool smaller_b)
{
    enum lie lie;
    const struct sizes *s = start_call(number, &lie);
    struct wf_scalars scalars = {.s = {1.5, 2}, .v = {3, 4}};
    struct operand x[2] = {operand_noise(dtype, lie, s->ndim, s->n, 1),
                           smaller_b ? operand_noise(dtype, PLAIN, 1, &s->n[s->ndim - 1], 2)
                                     : operand_noise(dtype, PLAIN, s->ndim, s->n, 2)};
    struct operand y[2] = {operand_new(dtype, PLAIN, s->ndim, s->n),
                           operand_new(dtype, PLAIN, s->ndim, s->n)};

    run_both(kernel, y, n_in, (struct operand *[]){&x[0], &x[1]}, NULL, &scalars);
    end_call(y, kernel->name);
    both_operands_free(x);
}

WT_UNIT(elementwise__in_parts)
{
    static const struct kernel neg = KERNEL(neg), maximum = KERNEL(maximum), fill = KERNEL(fill);

    for (int i = 0; i < CALLS; i++) {
        check_call(i, &neg, WEFT_F32, 1, false);
        check_call(i, &maximum, WEFT_BF16, 2, false);
        check_call(i, &maximum, WEFT_F64, 2, true);
        check_call(i, &fill, WEFT_F32, 0, false);
    }
}

/* So many packs that a thread takes several of those for which an input is the same: along the
 * outermost dim, not in fours, or along another; that input is the first or the second. */
WT_UNIT(elementwise__shared_input_is_read_once)
{
    static const struct kernel sub = KERNEL(sub);
    static const struct sizes whole[] = {{2, {5, 419584}}, {3, {3, 5, 140000}}};
    static const struct sizes shared[] = {{1, {419584}}, {3, {3, 1, 140000}}};

    for (int i = 0; i < 4; i++) {
        const struct sizes *s = &whole[i / 2], *b = &shared[i / 2];
        struct operand x[2] = {operand_noise(WEFT_F32, PLAIN, s->ndim, s->n, 1),
                               operand_noise(WEFT_F32, PLAIN, b->ndim, b->n, 2)};
        struct operand y[2] = {operand_new(WEFT_F32, PLAIN, s->ndim, s->n),
                               operand_new(WEFT_F32, PLAIN, s->ndim, s->n)};

        run_both(&sub, y, 2, (struct operand *[]){&x[i % 2], &x[1 - i % 2]}, NULL, NULL);
        expect_same_bits(y, sub.name);
        both_operands_free(y);
        both_operands_free(x);
    }
}

WT_UNIT(moves__in_parts)
{
    static const struct kernel copy = KERNEL(copy);

    for (int i = 0; i < CALLS; i++)
        for (int t = 0; t < FLOAT_DTYPES; t++) check_call(i, &copy, float_dtypes[t], 1, false);
}

WT_UNIT(elements_by_place__in_parts)
{
    static const struct kernel kernels[] = {KERNEL(arange), KERNEL(uniform), KERNEL(normal)};
    static const struct kernel dropout = KERNEL(dropout);

    for (int i = 0; i < CALLS; i++) {
        for (int c = 0; c < 3; c++) check_call(i, &kernels[c], WEFT_F32, 0, false);
        check_call(i, &dropout, WEFT_F64, 1, false);
    }
}

WT_UNIT(slices__in_parts)
{
    static const struct kernel masked = KERNEL(slice_masked);

    for (int i = 0; i < CALLS; i++) {
        enum lie lie;
        struct sizes s = *start_call(i, &lie), part = s;
        int dim = i % s.ndim;
        union wf_op_attrs attrs = {.slice = {.dim = dim, .length = (s.n[dim] + 1) / 2}};
        struct wf_scalars scalars = {.v = {s.n[dim] / 3}};
        struct operand x = operand_noise(WEFT_F32, lie, s.ndim, s.n, 1), y[2];

        part.n[dim] = attrs.slice.length;
        for (int k = 0; k < 2; k++) y[k] = operand_new(WEFT_F32, PLAIN, part.ndim, part.n);
        run_both(&masked, y, 1, (struct operand *[]){&x}, &attrs, &scalars);
        end_call(y, masked.name);
        operand_free(&x);
    }
}

/* Rows of 2 n gates and values. */
WT_UNIT(swiglu__in_parts)
{
    for (int i = 0; i < CALLS; i++) {
        enum lie lie;
        const struct sizes *s = start_call(i, &lie);
        int64_t last = s->n[s->ndim - 1], rows = 1, x_shape[3];
        struct operand x, d, dx, whole;
        struct wf_kernel_call k = {.op = "swiglu_grad", .n_in = 2, .n_out = 1};

        for (int d_ = 0; d_ < s->ndim - 1; d_++) rows *= s->n[d_];
        memcpy(x_shape, (int64_t[]){rows, 2, last}, sizeof x_shape);
        x = operand_noise(WEFT_F32, lie, 3, x_shape, 3);
        d = operand_noise(WEFT_F32, PLAIN, 2, (int64_t[]){rows, last}, 4);
        dx = operand_new(WEFT_F32, PLAIN, 3, x_shape);
        whole = operand_new(WEFT_F32, PLAIN, 3, x_shape);
        kernel_run(wf_cuda_swiglu_grad, &k, &(struct operand *){&dx}, (struct operand *[]){&d, &x},
                   NULL);
        wf_cuda_index_limit = (int64_t)1 << 30;
        kernel_run(wf_cuda_swiglu_grad, &k, &(struct operand *){&whole},
                   (struct operand *[]){&d, &x}, NULL);
        ck_assert_mem_eq(dx.data, whole.data, (size_t)dx.desc.numel * sizeof(float));
        operand_free(&x);
        operand_free(&d);
        operand_free(&dx);
        operand_free(&whole);
    }
}

/* Many tiles, and sums in two parts. */
WT_UNIT(products__in_parts)
{
    static const int64_t a_shape[] = {260, 1100}, b_shape[] = {1100, 150}, shape[] = {260, 150};
    union wf_op_attrs attrs = {.matmul = {0}};

    for (int t = 0; t < FLOAT_DTYPES; t++) {
        struct operand a = operand_noise(float_dtypes[t], PLAIN, 2, a_shape, 1);
        struct operand b = operand_noise(float_dtypes[t], PLAIN, 2, b_shape, 2);
        struct operand y = operand_new(float_dtypes[t], PLAIN, 2, shape);
        struct operand whole = operand_new(float_dtypes[t], PLAIN, 2, shape);

        wf_cuda_index_limit = 4;
        call_with(wf_cuda_matmul, &attrs, &y, 2, (struct operand *[]){&a, &b}, NULL);
        wf_cuda_index_limit = (int64_t)1 << 30;
        call_with(wf_cuda_matmul, &attrs, &whole, 2, (struct operand *[]){&a, &b}, NULL);
        ck_assert_mem_eq(y.data, whole.data, operand_bytes(&y.desc));
        OPERANDS_FREE(&a, &b, &y, &whole);
    }
}

WT_UNIT(grouped_products__in_parts)
{
    static const int64_t x_shape[] = {260, 40}, w_shape[] = {3, 40, 150}, shape[] = {260, 150};
    static const int64_t groups[] = {3};

    for (int t = 0; t < FLOAT_DTYPES; t++) {
        struct operand x = operand_noise(float_dtypes[t], PLAIN, 2, x_shape, 1);
        struct operand w = operand_noise(float_dtypes[t], PLAIN, 3, w_shape, 2);
        struct operand d = operand_noise(float_dtypes[t], PLAIN, 2, shape, 3);
        struct operand ends = operand_new(WEFT_I32, PLAIN, 1, groups), y[2], dw[2];

        for (int g = 0; g < 3; g++) ends.values[g] = 70 * g + 60;
        operand_write(&ends);
        for (int i = 0; i < 2; i++) {
            y[i] = operand_new(float_dtypes[t], PLAIN, 2, shape);
            dw[i] = operand_new(float_dtypes[t], PLAIN, 3, w_shape);
            wf_cuda_index_limit = i ? (int64_t)1 << 30 : 4;
            call(wf_cuda_grouped_mm, &y[i], 3, (struct operand *[]){&x, &w, &ends}, NULL);
            call(wf_cuda_grouped_mm_dw, &dw[i], 3, (struct operand *[]){&x, &d, &ends}, NULL);
        }
        expect_same_bits(y, "grouped_mm");
        expect_same_bits(dw, "grouped_mm_dw");
        both_operands_free(y);
        both_operands_free(dw);
        OPERANDS_FREE(&x, &w, &d, &ends);
    }
}

/* As products of tiles, and with few channels per group. */
static void check_convolution(wf_kernel_prepare *prepare, const union wf_op_attrs *attrs,
                              struct operand *a, struct operand *b, const struct operand *like)
{
    struct operand y = operand_new(WEFT_F32, PLAIN, like->desc.ndim, like->desc.shape);
    struct operand whole = operand_new(WEFT_F32, PLAIN, like->desc.ndim, like->desc.shape);

    wf_cuda_index_limit = 4;
    call_with(prepare, attrs, &y, 2, (struct operand *[]){a, b}, NULL);
    wf_cuda_index_limit = (int64_t)1 << 30;
    call_with(prepare, attrs, &whole, 2, (struct operand *[]){a, b}, NULL);
    ck_assert_mem_eq(y.data, whole.data, operand_bytes(&y.desc));
    OPERANDS_FREE(&y, &whole);
}

WT_UNIT(convolutions__in_parts)
{
    static const int64_t conv_shapes[][3][4] = {{{2, 1, 20, 301}, {1, 70, 20, 3}, {2, 1, 70, 301}},
                                                {{3, 5, 1, 301}, {5, 1, 1, 3}, {3, 5, 1, 301}}};
    union wf_op_attrs attrs = {.conv = {.dims = 1, .grouped = true}};

    attrs.conv.stride[0] = attrs.conv.dilation[0] = 1;
    attrs.conv.before[0] = attrs.conv.after[0] = 1;
    for (int i = 0; i < 2; i++) {
        struct operand x = operand_noise(WEFT_F32, PLAIN, 4, conv_shapes[i][0], 1);
        struct operand w = operand_noise(WEFT_F32, PLAIN, 4, conv_shapes[i][1], 2);
        struct operand d = operand_noise(WEFT_F32, PLAIN, 4, conv_shapes[i][2], 3);

        check_convolution(wf_cuda_conv, &attrs, &x, &w, &d);
        check_convolution(wf_cuda_conv_dx, &attrs, &d, &w, &x);
        check_convolution(wf_cuda_conv_dw, &attrs, &d, &x, &w);
        OPERANDS_FREE(&x, &w, &d);
    }
}

WT_UNIT(multinomial__in_parts)
{
    static const struct kernel multinomial = KERNEL(multinomial);

    for (int i = 0; i < CALLS; i++) {
        enum lie lie;
        const struct sizes *s = start_call(i, &lie);
        struct sizes drawn = *s;
        union wf_op_attrs attrs = {.multinomial = {.n = 3, .replacement = true}};
        struct wf_scalars scalars = {.v = {3, 4}};
        struct operand x = operand_noise(WEFT_F32, lie, s->ndim, s->n, 1), y[2];

        for (int64_t j = 0; j < x.desc.numel; j++) x.values[j] = fabs(x.values[j]) + 0.01;
        operand_write(&x);
        drawn.n[s->ndim - 1] = 3;
        for (int k = 0; k < 2; k++) y[k] = operand_new(WEFT_I64, PLAIN, drawn.ndim, drawn.n);
        run_both(&multinomial, y, 1, (struct operand *[]){&x}, &attrs, &scalars);
        end_call(y, multinomial.name);
        operand_free(&x);
    }
}

int main(void) { return wt_unit_main("launch_parts"); }
