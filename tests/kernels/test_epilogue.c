/*
 * test_epilogue.c: products with an epilogue, and weight gradients with the sum beside them,
 * against plain loops in f64. Each with a bias, with one that is absent in the call, and without.
 */
#include "plain_product.h"

struct sizes3 {
    int64_t rows, n, k;
};

/* Numbers that vectors and tiles do not divide, rows of eight, one, none; many rows. */
static const struct sizes3 shapes[] = {
    {3, 4, 5},   {16, 24, 40}, {1, 8, 8}, {33, 65, 17},  {300, 72, 30},
    {8, 16, 64}, {0, 8, 5},    {5, 8, 0}, {1024, 40, 9}, {70, 130, 96},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

#define SCALE (-0.375) /* exact in all dtypes */
static const struct wf_scalars scale = {.s = {SCALE}};

static double gelu_tanh(double x)
{
    return x / 2 * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
}

static double gelu_tanh_derivative(double x)
{
    double u = 0.79788456080286535588 * (x + 0.044715 * x * x * x), t = tanh(u);

    return (1 + t) / 2 + x / 2 * (1 - t * t) * 0.79788456080286535588 * (1 + 3 * 0.044715 * x * x);
}

static double expected(enum wf_epilogue epilogue, double x, double beside)
{
    switch (epilogue) {
    case WF_EPILOGUE_NONE:
        return x;
    case WF_EPILOGUE_GELU_TANH:
        return gelu_tanh(x);
    case WF_EPILOGUE_ADD:
        return x + beside;
    case WF_EPILOGUE_GELU_TANH_GRAD:
        return x * gelu_tanh_derivative(beside);
    case WF_EPILOGUE_SCALE:
        return x * SCALE;
    }
    return 0;
}

/* A product is rounded before what stands behind it, or is not: twice the bound of a product. */
static double bound_for(weft_dtype dtype, int64_t k)
{
    return 2 * dtype_bound(dtype) * (dtype == WEFT_F32 ? 1 + (double)k / 100 : 1);
}

static struct operand noise_of(weft_dtype dtype, int64_t rows, int64_t columns, uint64_t seed)
{
    return operand_noise(dtype, PLAIN, 2, (int64_t[]){rows, columns}, seed);
}

static struct operand result_of(weft_dtype dtype, int64_t rows, int64_t columns)
{
    return operand_new(dtype, PLAIN, 2, (int64_t[]){rows, columns});
}

/* `bias`: 0 not described, 1 described and absent, 2 given. */
static void check_linear(const struct sizes3 *s, weft_dtype dtype, enum wf_epilogue epilogue,
                         bool keeps, int bias)
{
    struct operand x = noise_of(dtype, s->rows, s->k, 1), w = noise_of(dtype, s->n, s->k, 2);
    struct operand b = operand_noise(dtype, PLAIN, 1, &s->n, 3);
    struct operand beside = noise_of(dtype, s->rows, s->n, 4);
    struct operand y = result_of(dtype, s->rows, s->n), product = result_of(dtype, s->rows, s->n);
    struct naive p = {s->rows, s->n, s->k, s->k, 1, 1, s->k};
    struct wf_kernel_call k = {
        .op = "linear",
        .n_in = epilogue == WF_EPILOGUE_ADD ? 4 : 3,
        .n_out = keeps ? 2 : 1,
        .attrs = &(union wf_op_attrs){.linear = {.k_dims = 1, .epilogue = (uint8_t)epilogue}},
        .in = {&x.desc, &w.desc, bias ? &b.desc : NULL, &beside.desc},
        .out = {&y.desc, &product.desc}};
    const void *in[] = {x.data, w.data, bias == 2 ? b.data : NULL, beside.data};

    multiply(&p, x.values, w.values, bias == 2 ? b.values : NULL, product.want);
    for (int64_t i = 0; i < y.desc.numel; i++)
        y.want[i] = expected(epilogue, product.want[i], beside.values[i]);
    ck_assert_int_eq(wf_cpu_linear(&k), WEFT_OK);
    k.run(&k, (void *[]){y.data, product.data}, in, &scale);
    operand_read(&y);
    operand_read(&product);
    expect_near("linear", &y, y.want, bound_for(dtype, s->k));
    if (keeps) expect_near("its product", &product, product.want, bound_for(dtype, s->k));
    wf_kernel_call_drop(&k);
    OPERANDS_FREE(&x, &w, &b, &beside, &y, &product);
}

/* gradient: of an activation at z, or a scale, which reads no z */
static void check_gradient(const struct sizes3 *s, weft_dtype dtype, bool transposed,
                           enum wf_epilogue epilogue)
{
    struct operand d = noise_of(dtype, s->rows, s->n, 1);
    struct operand w = transposed ? noise_of(dtype, s->k, s->n, 2) : noise_of(dtype, s->n, s->k, 2);
    struct operand z = noise_of(dtype, s->rows, s->k, 3), dx = result_of(dtype, s->rows, s->k);
    struct naive p = {s->rows, s->k, s->n, s->n, 1, transposed ? 1 : s->k, transposed ? s->n : 1};

    multiply(&p, d.values, w.values, NULL, dx.want);
    for (int64_t i = 0; i < dx.desc.numel; i++)
        dx.want[i] = expected(epilogue, dx.want[i], z.values[i]);
    call_with(wf_cpu_linear_dx,
              &(union wf_op_attrs){
                  .linear = {.k_dims = 1, .transposed = transposed, .epilogue = (uint8_t)epilogue}},
              &dx, epilogue == WF_EPILOGUE_SCALE ? 2 : 3, (struct operand *[]){&d, &w, &z}, &scale);
    expect_near("linear_dx", &dx, dx.want, bound_for(dtype, s->n));
    OPERANDS_FREE(&d, &w, &z, &dx);
}

/* Of 16-bit floats, written in f32: the product, dx and dw. */
static void check_wide(const struct sizes3 *s, weft_dtype dtype)
{
    struct operand x = noise_of(dtype, s->rows, s->k, 1), w = noise_of(dtype, s->n, s->k, 2);
    struct operand d = noise_of(dtype, s->rows, s->n, 3), y = result_of(WEFT_F32, s->rows, s->n);
    struct operand dx = result_of(WEFT_F32, s->rows, s->k), dw = result_of(WEFT_F32, s->n, s->k);
    struct naive forward = {s->rows, s->n, s->k, s->k, 1, 1, s->k};
    struct naive to_x = {s->rows, s->k, s->n, s->n, 1, s->k, 1};
    struct naive to_w = {s->n, s->k, s->rows, 1, s->n, s->k, 1};
    const union wf_op_attrs linear = {.linear = {.k_dims = 1, .wide = true}};
    const union wf_op_attrs weight = {.linear_dw = {.k_dims = 1, .n_dims = 1}};

    multiply(&forward, x.values, w.values, NULL, y.want);
    multiply(&to_x, d.values, w.values, NULL, dx.want);
    multiply(&to_w, d.values, x.values, NULL, dw.want);
    call_with(wf_cpu_linear, &linear, &y, 2, (struct operand *[]){&x, &w}, NULL);
    call_with(wf_cpu_linear_dx, &linear, &dx, 2, (struct operand *[]){&d, &w}, NULL);
    call_with(wf_cpu_linear_dw, &weight, &dw, 2, (struct operand *[]){&d, &x}, NULL);
    expect_near("wide linear", &y, y.want, bound_for(WEFT_F32, s->k));
    expect_near("wide linear_dx", &dx, dx.want, bound_for(WEFT_F32, s->n));
    expect_near("wide linear_dw", &dw, dw.want, bound_for(WEFT_F32, s->rows));
    OPERANDS_FREE(&x, &w, &d, &y, &dx, &dw);
}

/* A batch of products; one b for all of them, or one for each. */
static void check_batch(const struct sizes3 *s, weft_dtype dtype, bool turned, bool one_b)
{
    enum { BATCH = 3 };
    int64_t a_shape[] = {BATCH, turned ? s->k : s->rows, turned ? s->rows : s->k};
    int64_t b_shape[] = {BATCH, s->k, s->n}, y_shape[] = {BATCH, s->rows, s->n};
    struct operand a = operand_noise(dtype, PLAIN, 3, a_shape, 1);
    struct operand b = operand_noise(dtype, PLAIN, one_b ? 2 : 3, b_shape + one_b, 2);
    struct operand y = operand_new(dtype, PLAIN, 3, y_shape);
    struct naive p = {s->rows, s->n, s->k, turned ? 1 : s->k, turned ? s->rows : 1, s->n, 1};

    for (int i = 0; i < BATCH; i++)
        multiply(&p, a.values + i * s->rows * s->k, b.values + (one_b ? 0 : i * s->k * s->n), NULL,
                 y.want + i * s->rows * s->n);
    for (int64_t i = 0; i < y.desc.numel; i++) y.want[i] *= SCALE;
    call_with(
        wf_cpu_matmul,
        &(union wf_op_attrs){.matmul = {.transpose_a = turned, .epilogue = WF_EPILOGUE_SCALE}}, &y,
        2, (struct operand *[]){&a, &b}, &scale);
    expect_near("matmul", &y, y.want, bound_for(dtype, s->k));
    OPERANDS_FREE(&a, &b, &y);
}

/* left^T right, and the sum over the rows of one of them. */
static void check_sum(const struct sizes3 *s, weft_dtype dtype, int summed)
{
    struct operand left = noise_of(dtype, s->rows, s->n, 1),
                   right = noise_of(dtype, s->rows, s->k, 2), dw = result_of(dtype, s->n, s->k);
    const struct operand *added = summed == WF_SUMMED_LEFT ? &left : &right;
    int64_t columns = summed == WF_SUMMED_LEFT ? s->n : s->k;
    struct operand sum = operand_new(dtype, PLAIN, 1, &columns);
    struct naive p = {s->n, s->k, s->rows, 1, s->n, s->k, 1};
    struct wf_kernel_call k = {
        .op = "linear_dw",
        .n_in = 2,
        .n_out = 2,
        .attrs = &(
            union wf_op_attrs){.linear_dw = {.k_dims = 1, .n_dims = 1, .summed = (uint8_t)summed}},
        .in = {&left.desc, &right.desc},
        .out = {&dw.desc, &sum.desc}};

    multiply(&p, left.values, right.values, NULL, dw.want);
    for (int64_t i = 0; i < s->rows; i++)
        for (int64_t j = 0; j < columns; j++) sum.want[j] += added->values[i * columns + j];
    ck_assert_int_eq(wf_cpu_linear_dw(&k), WEFT_OK);
    k.run(&k, (void *[]){dw.data, sum.data}, (const void *[]){left.data, right.data}, NULL);
    operand_read(&dw);
    operand_read(&sum);
    expect_near("linear_dw", &dw, dw.want, bound_for(dtype, s->rows));
    expect_near("the sum", &sum, sum.want, bound_for(dtype, s->rows));
    wf_kernel_call_drop(&k);
    OPERANDS_FREE(&left, &right, &dw, &sum);
}

WT_UNIT_TIMES(epilogue__is_of_the_product, SHAPES)
{
    EACH_ISA
    for (int d = 0; d < FLOAT_DTYPES; d++)
        for (int bias = 0; bias < 3; bias++)
            for (int e = WF_EPILOGUE_GELU_TANH; e <= WF_EPILOGUE_ADD; e++)
                for (int keeps = 0; keeps < 2; keeps++)
                    check_linear(&shapes[_i], float_dtypes[d], (enum wf_epilogue)e, keeps, bias);
}

WT_UNIT_TIMES(scale__is_of_the_product, SHAPES)
{
    EACH_ISA
    for (int d = 0; d < FLOAT_DTYPES; d++) {
        for (int bias = 0; bias < 3; bias++)
            check_linear(&shapes[_i], float_dtypes[d], WF_EPILOGUE_SCALE, false, bias);
        for (int i = 0; i < 4; i++) check_batch(&shapes[_i], float_dtypes[d], i % 2, i / 2);
    }
}

WT_UNIT_TIMES(products_of_16_bits__are_written_in_f32, SHAPES)
{
    EACH_ISA
    for (int d = 0; d < FLOAT_DTYPES; d++)
        if (wf_dtype_is_16_bit_float(float_dtypes[d])) check_wide(&shapes[_i], float_dtypes[d]);
}

WT_UNIT_TIMES(gradient_of_an_activation__is_behind_dx, SHAPES)
{
    EACH_ISA
    for (int d = 0; d < FLOAT_DTYPES; d++)
        for (int transposed = 0; transposed < 2; transposed++) {
            check_gradient(&shapes[_i], float_dtypes[d], transposed, WF_EPILOGUE_GELU_TANH_GRAD);
            check_gradient(&shapes[_i], float_dtypes[d], transposed, WF_EPILOGUE_SCALE);
        }
}

WT_UNIT_TIMES(gradient_of_a_bias__is_beside_dw, SHAPES)
{
    EACH_ISA
    for (int d = 0; d < FLOAT_DTYPES; d++)
        for (int summed = WF_SUMMED_LEFT; summed <= WF_SUMMED_RIGHT; summed++)
            if (shapes[_i].n && shapes[_i].k) check_sum(&shapes[_i], float_dtypes[d], summed);
}

int main(void) { return wt_unit_main("epilogue"); }
