/*
 * test_pass_epilogue.c: the pass epilogue: activations, their gradients, residuals, scales and the
 * gradient of a bias become part of a product's kernel, with the bits that they have behind it on
 * the CPU; casts to f32 only on a GPU.
 */
#include "as_immediate.h"
#include "passes.h"

#include <stdlib.h>
#include <string.h>

/* x [*,8], w [16,8], bias [16], and a second weight [4,16] */
FUNCTION(gelu_between_two)
{
    GIVE(weft_linear(weft_gelu_tanh(weft_linear(in[0], in[1], in[2], 1)), in[3], NULL, 1));
}

FUNCTION(residual)
{
    weft_tensor *y = weft_linear(in[0], in[1], in[2], 1);

    GIVE(*(bool *)state ? weft_add(y, in[3]) : weft_add(in[3], y));
}

/* On a GPU a product with an epilogue may be another kernel of cuBLASLt, which adds in another
 * order, and scales and gelu before it rounds to bf16; the device for tests has the CPU's kernels.
 */
static struct wt_tolerance tolerance_of(weft_dtype dtype)
{
    const char *library = getenv("WEFT_CUDA_LIBRARY");

    if (wt_device() == WEFT_CPU || (library && strstr(library, "weft-test-device")))
        return (struct wt_tolerance){0};
    return WT_WITHIN(dtype == WEFT_BF16 ? 0.08 : dtype == WEFT_F64 ? 1e-12 : 1e-5);
}

static struct pass_case layers(weft_compiled_function *function, weft_dtype dtype, bool gradients)
{
    return (struct pass_case){.function = function,
                              .dtype = dtype,
                              .n_in = 4,
                              .n_out = 1,
                              .rows = {16, 16, 16, 4},
                              .columns = {8, 8, 0, 16},
                              .placements = {"S(0)", "R", "R", "R"},
                              .tolerance = tolerance_of(dtype),
                              .gradients = gradients};
}

static int lines(weft_compiled *compiled, bool backward, const char *word)
{
    return given_lines(compiled, backward, true, word);
}

static weft_dtype nth_dtype(int i) { return (weft_dtype[]){WEFT_F32, WEFT_F64, WEFT_BF16}[i % 3]; }

/* With gradients the product is kept beside its activation, and read again behind linear_dx. */
WT_TEST_TIMES_IN_WORLD(gelu__and_its_gradient_are_parts, w, i, 6)
{
    bool gradients = i >= 3, summed;
    struct pass_case c = layers(gelu_between_two, nth_dtype(i), gradients);
    weft_compiled *with = given_compiled(w, &c, "+epilogue,min_cut");

    WT_EQ(lines(with, false, "linear+gelu_tanh("), 1);
    WT_EQ(lines(with, false, " gelu_tanh("), 0);
    if (!gradients) return;
    WT_EQ(lines(with, true, "linear_dx+gelu_tanh_grad("), 1);
    WT_EQ(lines(with, true, " gelu_tanh_grad("), 0);
    summed = wt_device() == WEFT_CPU || c.dtype != WEFT_F64; /* cuBLASLt has no such sums */
    WT_EQ(lines(with, true, "linear_dw+sum("), summed ? 1 : 0);
    /* that of the second weight, which has no bias */
    WT_EQ(lines(with, true, "linear_dw("), summed ? 1 : 2);
}

WT_TEST_TIMES_IN_WORLD(residual__is_part_of_linear, w, i, 6)
{
    bool product_first = i % 2;
    struct pass_case c = layers(residual, nth_dtype(i), false);
    weft_compiled *with;

    c.state = &product_first;
    c.rows[3] = c.rows[0];
    c.placements[3] = "S(0)";
    with = given_compiled(w, &c, "+epilogue");
    WT_EQ(lines(with, false, "linear+add("), 1);
    WT_EQ(lines(with, false, " add("), 0);
}

FUNCTION(scaled_between_two)
{
    GIVE(weft_linear(weft_mul_scalar(weft_linear(in[0], in[1], NULL, 1), 0.3), in[2], NULL, 1));
}

/* Of the gradients, that of the product before the scale. */
WT_TEST_TIMES_IN_WORLD(scale__is_part_of_linear, w, i, 6)
{
    bool gradients = i >= 3;
    struct pass_case c = layers(scaled_between_two, nth_dtype(i), gradients);
    weft_compiled *with;

    c.n_in = 3;
    c.rows[2] = c.rows[3];
    c.columns[2] = c.columns[3];
    with = given_compiled(w, &c, "+epilogue,min_cut");
    WT_EQ(lines(with, false, "linear+mul_scalar("), 1);
    WT_EQ(lines(with, false, " mul_scalar("), 0);
    if (!gradients) return;
    WT_EQ(lines(with, true, "linear_dx+mul_scalar("), 1);
    WT_EQ(lines(with, true, " mul_scalar("), 0);
}

/* Scores of attention, and what is made of them. */
FUNCTION(scaled_scores)
{
    weft_tensor *scores = weft_mul_scalar(weft_matmul(in[0], weft_transpose(in[1], 0, 1)), 0.3);

    GIVE(*(bool *)state ? weft_matmul(scores, in[1]) : scores);
}

WT_TEST_TIMES_IN_WORLD(scale__is_part_of_matmul, w, i, 6)
{
    bool twice = i >= 3;
    struct pass_case c = layers(scaled_scores, nth_dtype(i), twice);
    weft_compiled *with;

    c.state = &twice;
    c.n_in = 2;
    with = given_compiled(w, &c, "+epilogue,min_cut");
    WT_EQ(lines(with, false, "matmul+mul_scalar("), 1);
    if (!twice) return;
    /* of the gradient: the product before the scale is another one */
    WT_EQ(lines(with, true, "matmul+mul_scalar("), 1);
    WT_EQ(lines(with, true, " mul_scalar("), 0);
}

/* Inputs are f32, products of bf16. */
FUNCTION(wide_products)
{
    weft_tensor *y = weft_linear(weft_cast(in[0], WEFT_BF16), weft_cast(in[1], WEFT_BF16), NULL, 1);

    GIVE(weft_cast(y, WEFT_F32));
}

WT_TEST_TIMES_IN_WORLD(casts__are_parts_of_products_on_a_gpu, w, i, 2)
{
    static const char *const products[] = {"linear_dx", "linear_dw"};
    struct pass_case c = layers(wide_products, WEFT_F32, i);
    int apart = wt_device() == WEFT_CPU ? 1 : 0;
    weft_compiled *with;

    c.n_in = 2;
    c.placements[0] = "R"; /* else the gradient of the weight is reduced before it is cast */
    if (!apart) c.tolerance = WT_WITHIN(0.01); /* bf16 is not rounded to */
    with = given_compiled(w, &c, "+epilogue,min_cut");
    WT_EQ(lines(with, false, "linear+cast("), 1 - apart);
    for (int k = 0; i && k < 2; k++) {
        char joined[24];

        snprintf(joined, sizeof joined, "%s+cast(", products[k]);
        WT_EQ(lines(with, true, joined), 1 - apart);
    }
}

/* ---- what stays apart ---- */

FUNCTION(product_is_a_result)
{
    out[1] = weft_linear(in[0], in[1], in[2], 1);
    GIVE(weft_add(out[1], in[3]));
}

/* The added row is broadcast. */
FUNCTION(added_row) { GIVE(weft_add(weft_linear(in[0], in[1], in[2], 1), in[2])); }

FUNCTION(residual_made_behind)
{
    weft_tensor *y = weft_linear(in[0], in[1], in[2], 1), *r = weft_mul(in[3], in[3]);

    GIVE(weft_add(y, r));
}

FUNCTION(written_in_between)
{
    weft_tensor *y = weft_linear(in[0], in[1], in[2], 1);

    if (!weft_add_(y, in[3])) return weft_error_status();
    GIVE(weft_gelu_tanh(y));
}

FUNCTION(scaled_with_bias) { GIVE(weft_mul_scalar(weft_linear(in[0], in[1], in[2], 1), 0.3)); }

/* Of NaN it is NaN. */
FUNCTION(scaled_by_zero) { GIVE(weft_mul_scalar(weft_linear(in[0], in[1], NULL, 1), 0)); }

/* Its batch would be sought in the shape behind the view. */
FUNCTION(matmul_seen_otherwise)
{
    int64_t halves[] = {2, 8, 8}, rows[] = {16, 8}, square[] = {8, 8};
    weft_tensor *w = weft_reshape(weft_narrow(in[1], 0, 0, 8), square, 2);
    weft_tensor *y = weft_matmul(weft_reshape(in[3], halves, 3), w);

    GIVE(weft_mul_scalar(weft_reshape(y, rows, 2), 0.3));
}

FUNCTION(whole_numbers)
{
    weft_tensor *w = weft_cast(weft_mul_scalar(in[1], 10), WEFT_I32);
    weft_tensor *x = weft_cast(weft_mul_scalar(in[0], 10), WEFT_I32);

    GIVE(weft_mul_scalar(weft_matmul(x, weft_transpose(w, 0, 1)), 3));
}

FUNCTION(product_is_a_result_and_cast)
{
    out[1] = weft_linear(weft_cast(in[0], WEFT_BF16), weft_cast(in[1], WEFT_BF16), NULL, 1);
    GIVE(weft_cast(out[1], WEFT_F32));
}

static const struct {
    weft_compiled_function *function;
    const char *product;
    int n_out;
} apart[] = {{product_is_a_result, " linear(", 2},
             {added_row, " linear(", 1},
             {residual_made_behind, " linear(", 1},
             {written_in_between, " linear(", 1},
             {scaled_with_bias, " linear(", 1},
             {scaled_by_zero, " linear(", 1},
             {matmul_seen_otherwise, " matmul(", 1},
             {whole_numbers, " matmul(", 1},
             {product_is_a_result_and_cast, " linear(", 2}};
enum { APART = sizeof apart / sizeof *apart };

WT_TEST_TIMES_IN_WORLD(others__stay_apart, w, i, APART)
{
    struct pass_case c = layers(apart[i].function, WEFT_F32, false);
    weft_compiled *with;

    c.n_out = apart[i].n_out;
    c.rows[3] = c.rows[0];
    c.placements[3] = "S(0)";
    if (apart[i].function == matmul_seen_otherwise) {
        c.columns[3] = c.columns[0];
        c.placements[3] = "R";
    }
    with = given_compiled(w, &c, "+epilogue,fuse");
    WT_EQ(lines(with, false, "linear+"), 0);
    WT_EQ(lines(with, false, "matmul+"), 0);
    WT_EQ(lines(with, false, apart[i].product), 1);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "pass_epilogue"); }
