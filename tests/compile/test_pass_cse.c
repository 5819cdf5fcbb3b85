/* test_pass_cse.c: the passes cse and identities: what is computed or moved twice is done once, and
 * copies and moves that change nothing are left out. The bits stay. */
#include "passes.h"

#define FUNCTION(name)                                                                             \
    static weft_status name(weft_tensor *const *in, int n_in CK_ATTRIBUTE_UNUSED,                  \
                            weft_tensor **out, int n_out CK_ATTRIBUTE_UNUSED,                      \
                            void *state CK_ATTRIBUTE_UNUSED)

/* in[0] of S(0) is gathered for each of three products. */
FUNCTION(three_products)
{
    weft_tensor *sum = NULL;

    for (int k = 1; k < 4; k++) {
        weft_tensor *x = wt_to(in[0], "R");
        weft_tensor *y = weft_matmul(x, in[k]);

        sum = sum ? weft_add(sum, y) : y;
    }
    out[0] = sum;
    return sum ? WEFT_OK : weft_error_status();
}

/* CAP-23: one gather for three uses, issued and waited for before the first product. */
WT_TEST_TIMES_IN_WORLD(gather__is_done_once, w, i, 3)
{
    struct pass_case c = {.function = three_products,
                          .n_in = 4,
                          .n_out = 1,
                          .rows = {i == 2 ? 1 : 20 + i, 16, 16, 16},
                          .columns = {16, 8, 8, 8},
                          .placements = {"S(0)", "S(1)", "S(1)", "S(1)"},
                          .gradients = true};
    weft_compiled *with = given_compiled(w, &c, NULL),
                  *without = given_compiled(w, &c, "cse,identities");

    if (weft_world_size() == 1) return;
    WT_EQ(given_lines(without, false, true, "start all-gather"), 3);
    WT_EQ(given_lines(with, false, true, "start all-gather"), 1);
    WT_EQ(given_lines(with, false, true, "wait("), 1);
}

FUNCTION(same_twice)
{
    weft_tensor *a = weft_gelu(in[0]), *b = weft_gelu(in[0]);

    out[0] = weft_mul(a, in[1]);
    out[1] = weft_mul(weft_gelu(in[0]), in[1]);
    out[2] = b;
    return out[1] && out[2] ? WEFT_OK : weft_error_status();
}

/* Results keep bytes of their own: two of the same value are not one tensor, nor is one what
 * backward reads. */
WT_TEST_TIMES_IN_WORLD(same_kernels__are_run_once, w, i, 2)
{
    struct pass_case c = {.function = same_twice,
                          .n_in = 2,
                          .n_out = 3,
                          .rows = {7, 7},
                          .columns = {5, 5},
                          .placements = {"S(0)", "S(0)"},
                          .gradients = i == 1};
    weft_compiled *with = given_compiled(w, &c, "fuse"),
                  *without = given_compiled(w, &c, "fuse,cse");
    weft_tensor *in[2], *out[3];

    WT_EQ(given_lines(without, false, true, " gelu("), 3);
    WT_EQ(given_lines(with, false, true, " gelu("), 1 + i);
    WT_EQ(given_lines(with, false, true, " mul("), 2);
    for (int k = 0; k < 2; k++)
        in[k] = weft_set_requires_grad(
            weft_detach(wt_spread(w, wt_whole(WEFT_F32, k, 7, 5), "S(0)")), c.gradients);
    WT_ALL(weft_compiled_call(with, in, 2, out, 3) == WEFT_OK);
    WT_ALL(weft_data(out[0]) != weft_data(out[1]) || weft_local_numel(out[0]) == 0);
}

/* in[0] is written between two uses: both are computed. */
FUNCTION(written_between)
{
    weft_tensor *a = weft_gelu(in[0]), *b;

    if (!weft_add_(in[0], in[1])) return weft_error_status();
    b = weft_gelu(in[0]);
    out[0] = weft_mul(a, b);
    return out[0] ? WEFT_OK : weft_error_status();
}

WT_TEST_IN_WORLD(operands_written_between__are_not_the_same, w)
{
    struct pass_case c = {.function = written_between,
                          .n_in = 2,
                          .n_out = 1,
                          .rows = {6, 6},
                          .columns = {5, 5},
                          .placements = {"S(0)", "S(0)"}};
    weft_compiled *with = given_compiled(w, &c, "fuse");

    WT_EQ(given_lines(with, false, true, " gelu("), 2);
}

/* There and back again, and a clone. */
FUNCTION(there_and_back)
{
    weft_tensor *x = wt_to(wt_to(in[0], "R"), "S(0)");

    out[0] = weft_add(weft_clone(x), in[1]);
    return out[0] ? WEFT_OK : weft_error_status();
}

WT_TEST_TIMES_IN_WORLD(moves_back__are_left_out, w, i, 2)
{
    struct pass_case c = {.function = there_and_back,
                          .n_in = 2,
                          .n_out = 1,
                          .rows = {7 + i, 7 + i},
                          .columns = {5, 5},
                          .placements = {"S(0)", "S(0)"},
                          .gradients = true};
    weft_compiled *with = given_compiled(w, &c, "fuse"),
                  *without = given_compiled(w, &c, "fuse,identities");

    WT_EQ(weft_compiled_get_counts(with).nodes, 1);
    if (weft_world_size() > 1) WT_EQ(given_lines(without, false, true, "start all-gather"), 1);
    WT_EQ(given_lines(with, false, true, "start"), 0);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "pass_cse"); }
