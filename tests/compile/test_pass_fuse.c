/* test_pass_fuse.c: the pass fuse: chains become one node whose kernels run tile by tile, with the
 * same bits. */
#include "passes.h"

#include <math.h>
#include <string.h>

#define FUNCTION(name)                                                                             \
    static weft_status name(weft_tensor *const *in, int n_in CK_ATTRIBUTE_UNUSED,                  \
                            weft_tensor **out, int n_out CK_ATTRIBUTE_UNUSED,                      \
                            void *state CK_ATTRIBUTE_UNUSED)

FUNCTION(eight_formulas)
{
    weft_tensor *x = weft_add(in[0], in[1]);

    x = weft_mul(x, in[0]);
    x = weft_gelu(x);
    x = weft_add_scalar(x, 0.5);
    x = weft_silu(x);
    x = weft_sub(x, in[1]);
    x = weft_mul_scalar(x, 1.5);
    out[0] = weft_tanh(x);
    return out[0] ? WEFT_OK : weft_error_status();
}

static const struct {
    weft_dtype dtype;
    int64_t rows, columns;
    const char *placement;
} chains[] = {
    {WEFT_F32, 64, 9, "S(0)"},   {WEFT_F32, 1, 3, "S(0)"},      {WEFT_F32, 301, 257, "S(1)"},
    {WEFT_F32, 7, 5, "R"},       {WEFT_BF16, 301, 257, "S(0)"}, {WEFT_F64, 123, 457, "S(0)"},
    {WEFT_F16, 50, 201, "S(1)"},
};

WT_TEST_TIMES_IN_WORLD(chains__are_one_node, w, i, 7)
{
    struct pass_case c = {.function = eight_formulas,
                          .dtype = chains[i].dtype,
                          .n_in = 2,
                          .n_out = 1,
                          .rows = {chains[i].rows, chains[i].rows},
                          .columns = {chains[i].columns, chains[i].columns},
                          .placements = {chains[i].placement, chains[i].placement}};
    weft_compiled *with = given_compiled(w, &c, NULL), *without = given_compiled(w, &c, "fuse");
    int64_t here;

    WT_EQ(weft_compiled_get_counts(without).nodes, 8);
    here = weft_local_numel(
        wt_spread(w, wt_whole(c.dtype, 0, c.rows[0], c.columns[0]), chains[i].placement));
    WT_ALL(weft_compiled_get_counts(with).nodes == 1 || here <= 1);
    WT_ALL(given_lines(with, false, true, "fused: add mul gelu add_scalar silu sub") == 1 ||
           here <= 1);
    /* what is between them needs no memory of its own */
    WT_ALL(weft_compiled_get_counts(with).memory == 0 || here <= 1);
    c.gradients = true;
    given_compiled(w, &c, NULL);
}

/* in: x, residual, weight, bias */
FUNCTION(norm_and_softmax)
{
    weft_tensor *x = weft_add(in[0], in[1]);

    x = weft_layer_norm(x, in[2], in[3], 1e-5);
    x = weft_add(weft_mul_scalar(x, 0.5), in[3]);
    x = weft_softmax(x, -1);
    out[0] = weft_add(x, in[1]);
    out[1] = weft_rms_norm(out[0], in[2], 1e-6);
    return out[1] ? WEFT_OK : weft_error_status();
}

static const int64_t row_cases[][2] = {{12, 17}, {301, 129}, {3, 64}, {640, 33}};

WT_TEST_TIMES_IN_WORLD(norms_and_softmax__are_fused, w, i, 4)
{
    struct pass_case c = {
        .function = norm_and_softmax,
        .dtype = WEFT_F32,
        .n_in = 4,
        .n_out = 2,
        .rows = {row_cases[i][0], row_cases[i][0], row_cases[i][1], row_cases[i][1]},
        .columns = {row_cases[i][1], row_cases[i][1]},
        .placements = {"S(0)", "S(0)", "R", "R"}};
    weft_compiled *with, *without;

    with = given_compiled(w, &c, NULL);
    without = given_compiled(w, &c, "fuse");
    WT_EQ(weft_compiled_get_counts(without).nodes, 7);
    if (row_cases[i][0] >= 2 * weft_world_size())
        WT_EQ(given_lines(with, false, true,
                          "fused: add layer_norm mul_scalar add softmax add rms_norm"),
              1);
    c.gradients = true;
    given_compiled(w, &c, NULL);
}

/* Softmax, by its formulas, and the mean of each row. */
FUNCTION(rows_of_formulas)
{
    int last = -1;
    weft_tensor *x = weft_add(in[0], in[1]), *y;

    y = weft_exp(weft_sub(x, weft_amax(x, &last, 1, true)));
    y = weft_div(y, weft_sum(y, &last, 1, true));
    out[0] = weft_mean(weft_mul(y, y), &last, 1, false);
    return out[0] ? WEFT_OK : weft_error_status();
}

WT_TEST_TIMES_IN_WORLD(reductions_of_rows__are_fused, w, i, 4)
{
    struct pass_case c = {.function = rows_of_formulas,
                          .dtype = i % 2 ? WEFT_BF16 : WEFT_F32,
                          .n_in = 2,
                          .n_out = 1,
                          .rows = {row_cases[i][0], row_cases[i][0]},
                          .columns = {row_cases[i][1], row_cases[i][1]},
                          .placements = {"S(0)", "S(0)"}};
    weft_compiled *with = given_compiled(w, &c, NULL), *without = given_compiled(w, &c, "fuse");

    WT_EQ(weft_compiled_get_counts(without).nodes, 8);
    if (row_cases[i][0] >= 2 * weft_world_size())
        WT_EQ(given_lines(with, false, true, "fused: add max sub exp sum div mul sum"), 1);
    c.gradients = true;
    given_compiled(w, &c, NULL);
}

/* A node between that reads and writes other bytes is passed over; one that the chain needs is not.
 */
FUNCTION(product_between)
{
    weft_tensor *x = weft_gelu(in[0]), *y = weft_matmul(in[0], in[1]);

    x = weft_mul_scalar(x, 2);
    out[0] = weft_add(x, y);
    return out[0] ? WEFT_OK : weft_error_status();
}

WT_TEST_IN_WORLD(other_nodes__stay_where_they_must, w)
{
    struct pass_case c = {.function = product_between,
                          .n_in = 2,
                          .n_out = 1,
                          .rows = {8, 8},
                          .columns = {8, 8},
                          .placements = {"R", "R"}};
    weft_compiled *with = given_compiled(w, &c, NULL);

    WT_EQ(weft_compiled_get_counts(with).nodes, 3);
    WT_EQ(given_lines(with, false, true, "fused: gelu mul_scalar("), 1);
}

/* Written in place between two uses: as without the pass. */
FUNCTION(in_place_between)
{
    weft_tensor *x = weft_gelu(in[0]), *y;

    if (!weft_mul_(in[0], in[1])) return weft_error_status();
    y = weft_mul_scalar(in[0], 2);
    out[0] = weft_add(x, y);
    return out[0] ? WEFT_OK : weft_error_status();
}

WT_TEST_IN_WORLD(writes_in_place__keep_their_place, w)
{
    struct pass_case c = {.function = in_place_between,
                          .n_in = 2,
                          .n_out = 1,
                          .rows = {9, 9},
                          .columns = {8, 8},
                          .placements = {"S(0)", "S(0)"}};

    given_compiled(w, &c, NULL);
}

/* ---- formulas whose values stay in registers ---- */

FUNCTION(simple_formulas)
{
    weft_tensor *x = weft_neg(in[0]), *kept;

    x = weft_add_scalar(weft_abs(x), -1.25);
    x = weft_mul(weft_relu(x), in[1]);
    kept = x = weft_rsub_scalar(weft_square(x), 2);
    x = weft_div_scalar(weft_mul_scalar(x, 1.1), 3.3);
    x = weft_add(in[1], weft_sub(x, in[1]));
    x = weft_sub(in[1], weft_div(x, in[1]));
    x = weft_div(in[0], x);
    out[0] = weft_mul(x, x);
    out[1] = weft_add(weft_mul_scalar(kept, 0.5), kept);
    return out[0] && out[1] ? WEFT_OK : weft_error_status();
}

static weft_tensor *specials(int64_t n, int shift)
{
    static const float values[] = {0,   -0.0f,  1.5f,    -2.25f, INFINITY, -INFINITY,
                                   NAN, 1e-42f, 3.4e38f, -1.25f, 1.25f};
    weft_tensor *t = weft_empty(WEFT_F32, &n, 1);
    float *data = weft_data(t);

    for (int64_t i = 0; i < n; i++)
        data[i] = i % 3 ? values[(i + shift) % 11] : (float)wt_element(shift, i);
    return t;
}

/* The very bits, also of what is no number, in every length of a last block. */
WT_TEST(values_in_registers__have_the_bits_of_kernels)
{
    weft_scope *scope = weft_scope_open();

    for (int64_t n = 2; n < 700; n += n < 40 ? 1 : 61) {
        weft_tensor *in[] = {specials(n, 0), specials(n, 4)}, *out[2], *want[2];
        weft_compiled *compiled = weft_compile(
            simple_formulas, NULL, (weft_compile_config){.name = "tested", .fullgraph = true});

        WT_ALL(simple_formulas(in, 2, want, 2, NULL) == WEFT_OK);
        for (int k = 0; k < 2; k++) {
            WT_ALL(weft_compiled_call(compiled, in, 2, out, 2) == WEFT_OK);
            for (int j = 0; j < 2; j++)
                WT_EQ(memcmp(weft_data(out[j]), weft_data(want[j]), (size_t)n * sizeof(float)), 0);
        }
        WT_EQ(weft_compiled_get_counts(compiled).nodes, 1);
        weft_compiled_release(compiled);
    }
    weft_scope_close(scope);
}

/* Results that are longer than the cache are stored past it. */
FUNCTION(long_results)
{
    out[0] = weft_mul_scalar(weft_add_scalar(in[0], 1), 2);
    out[1] = weft_gelu(out[0]);
    return out[1] ? WEFT_OK : weft_error_status();
}

WT_TEST(long_results__are_whole)
{
    weft_scope *scope = weft_scope_open();
    int64_t n = (2 << 20) + 77;
    weft_tensor *in = specials(n, 1), *out[2], *want[2];
    weft_compiled *compiled = weft_compile(
        long_results, NULL, (weft_compile_config){.name = "tested", .fullgraph = true});

    WT_ALL(long_results(&in, 1, want, 2, NULL) == WEFT_OK);
    for (int k = 0; k < 2; k++) {
        WT_ALL(weft_compiled_call(compiled, &in, 1, out, 2) == WEFT_OK);
        for (int j = 0; j < 2; j++)
            WT_EQ(memcmp(weft_data(out[j]), weft_data(want[j]), (size_t)n * sizeof(float)), 0);
    }
    WT_EQ(weft_compiled_get_counts(compiled).nodes, 1);
    weft_compiled_release(compiled);
    weft_scope_close(scope);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "pass_fuse"); }
