/*
 * test_pass_epilogue.c: the pass epilogue: activations, their gradients, residuals and the gradient
 * of a bias become part of a product's kernel, with the bits that they have behind it on the CPU.
 */
#include "as_immediate.h"
#include "passes.h"

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

static struct pass_case layers(weft_compiled_function *function, weft_dtype dtype, bool gradients)
{
    return (struct pass_case){.function = function,
                              .dtype = dtype,
                              .n_in = 4,
                              .n_out = 1,
                              .rows = {16, 16, 16, 4},
                              .columns = {8, 8, 0, 16},
                              .placements = {"S(0)", "R", "R", "R"},
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

WT_TEST_TIMES_IN_WORLD(others__stay_apart, w, i, 4)
{
    static weft_compiled_function *const functions[] = {product_is_a_result, added_row,
                                                        residual_made_behind, written_in_between};
    struct pass_case c = layers(functions[i], WEFT_F32, false);
    weft_compiled *with;

    if (i == 0) c.n_out = 2;
    c.rows[3] = c.rows[0];
    c.placements[3] = "S(0)";
    with = given_compiled(w, &c, "+epilogue,fuse");
    WT_EQ(lines(with, false, "linear+"), 0);
    WT_EQ(lines(with, false, "linear("), 1);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "pass_epilogue"); }
