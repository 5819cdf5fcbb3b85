/*
 * test_example.c: the example that capture began with: local pieces become distributed tensors,
 * one is reshaped, their product is redistributed and unwrapped. On two ranks x is (2, 4) and y
 * (4, 2). Values and gradients are those of one process that holds all of both.
 */
/* mpi: 2 */
#include <stdio.h>
#include <string.h>

#include "as_immediate.h"

struct example {
    struct wt_world *w;
    const char *y_layout;
};

/* in: of each rank 2n of the elements of x, in a row, and its piece of y. */
FUNCTION(reshape_and_multiply)
{
    const struct example *e = state;
    weft_mesh *mesh = e->w->mesh;
    int64_t ranks = weft_mesh_axis_size(mesh, 0);
    weft_tensor *x = weft_from_local(in[0], mesh, weft_placements(mesh, "S(0)"), NULL);
    weft_tensor *y = weft_from_local(in[1], mesh, weft_placements(mesh, e->y_layout), NULL);

    x = weft_reshape(x, (int64_t[]){ranks, 2 * ranks}, 2);
    GIVE(weft_to_local(weft_redistribute(weft_matmul(x, y), NULL), NULL));
}

/* The same of whole plain tensors. */
FUNCTION(whole_product) { GIVE(weft_matmul(in[0], in[1])); }

/* What backward begins with: every element of the product has a gradient of its own. */
static weft_tensor *weighted(weft_tensor *product, int64_t ranks)
{
    return weft_sum(weft_mul(product, wt_whole(WEFT_F32, 7, ranks, ranks)), NULL, 0, false);
}

static weft_tensor *leaf(weft_tensor *t)
{
    weft_no_grad_open();
    t = weft_clone(t);
    WT_ALL(weft_no_grad_close() == WEFT_OK);
    return weft_set_requires_grad(t, true);
}

static void check_against_one_process(struct example *e, weft_compiled *compiled, int k)
{
    int64_t ranks = wt_ranks(), rank = wt_rank(), columns = 2 * ranks, flat[] = {columns};
    bool rows = strcmp(e->y_layout, "S(0)") == 0;
    weft_tensor *x = leaf(wt_whole(WEFT_F32, k, ranks, columns));
    weft_tensor *y = leaf(wt_whole(WEFT_F32, k + 3, columns, ranks));
    weft_tensor *whole[] = {x, y}, *local[2], *want, *got = NULL;
    int dim = rows ? 0 : 1;
    int64_t piece = rows ? 2 : 1;

    weft_no_grad_open();
    local[0] = weft_reshape(weft_slice(x, 0, rank, rank + 1), flat, 1);
    local[1] = weft_slice(y, dim, rank * piece, (rank + 1) * piece);
    WT_ALL(weft_no_grad_close() == WEFT_OK);
    for (int i = 0; i < 2; i++) local[i] = leaf(local[i]);
    if (compiled)
        WT_ALL(weft_compiled_call(compiled, local, 2, &got, 1) == WEFT_OK);
    else
        WT_ALL(reshape_and_multiply(local, 2, &got, 1, e) == WEFT_OK);
    WT_ALL(whole_product(whole, 2, &want, 1, NULL) == WEFT_OK);
    WT_ALL(wt_near_tensors(got, want, WT_WITHIN(1e-5)));
    WT_ALL(weft_backward(weighted(got, ranks)) == WEFT_OK);
    WT_ALL(weft_backward(weighted(want, ranks)) == WEFT_OK);
    WT_ALL(wt_near_tensors(weft_grad(local[0]),
                           weft_reshape(weft_slice(weft_grad(x), 0, rank, rank + 1), flat, 1),
                           WT_WITHIN(1e-5)));
    WT_ALL(wt_near_tensors(weft_grad(local[1]),
                           weft_slice(weft_grad(y), dim, rank * piece, (rank + 1) * piece),
                           WT_WITHIN(1e-5)));
}

static const char *const layouts[] = {"S(0)", "S(1)"};

/* A7 */
WT_TEST_TIMES_IN_WORLD(example__immediate_is_as_one_process, w, i, 2)
{
    struct example e = {w, layouts[i]};

    check_against_one_process(&e, NULL, 0);
}

/* A7 */
WT_TEST_TIMES_IN_WORLD(example__compiled_is_as_one_process, w, i, 4)
{
    struct example e = {w, layouts[i % 2]};
    weft_compiled *compiled = wt_compile(reshape_and_multiply, &e, i / 2);

    for (int k = 0; k < 3; k++) check_against_one_process(&e, compiled, k);
    WT_EQ(weft_compiled_get_counts(compiled).captures, 1);
    WT_EQ(weft_compiled_get_counts(compiled).replays, 2);
    WT_EQ(weft_compiled_get_counts(compiled).plain, 0);
}

/* A7, with the very bits of immediate execution. */
WT_TEST_TIMES_IN_WORLD(example__has_the_bits_of_immediate_calls, w, i, 4)
{
    struct example e = {w, layouts[i % 2]};
    int64_t ranks = wt_ranks();
    struct wt_compiled_input of[] = {
        {NULL, {2 * ranks}, true},
        {NULL, {i % 2 ? 2 * ranks : 2, i % 2 ? 1 : ranks}, true},
    };

    wt_is_as_immediate(w, reshape_and_multiply, &e, i / 2, of, 2, 1);
}

/* ---- its lists ---- */

static const char golden[] = "tested, forward\n"
                             "  %0 = start all-gather(in1)\n"
                             "  in0 = from_local(in0)   f32[8] [S(0)] on (tp:2)\n"
                             "  in1 = from_local(in1)   f32[4,2] [S(0)] on (tp:2)\n"
                             "  in0 = reshape(in0)   f32[2,4] [S(0)] on (tp:2)\n"
                             "  wait(%0)\n"
                             "  %1 = matmul(in0, %0)   f32[2,2] [S(0)] on (tp:2)\n"
                             "  %2 = start all-gather(%1)\n"
                             "  %2 = to_local(%2)   f32[2,2] {I} of (tp:2)\n"
                             "  wait(%2)\n"
                             "  result 0: %2\n"
                             "tested, backward\n"
                             "  in0 = from_local(in0)   f32[2,2] [R] on (tp:2)\n"
                             "  %0 = copy(in0)\n"
                             "  %1 = matmul(%0, f0)   f32[2,4] [S(0)] on (tp:2)\n"
                             "  %2 = matmul(f1, %0)   f32[4,2] [P] on (tp:2)\n"
                             "  %3 = start reduce-scatter(%2)\n"
                             "  %1 = reshape(%1)   f32[8] [S(0)] on (tp:2)\n"
                             "  %3 = to_local(%3)   f32[2,2] {S(0)} of (tp:2)\n"
                             "  %1 = to_local(%1)   f32[4] {S(0)} of (tp:2)\n"
                             "  wait(%3)\n"
                             "  result 0: %3\n"
                             "  result 1: %1\n";

/* How often `part` comes in the forward list, or in the backward list, which follows it. */
static int count(const char *text, bool backward, const char *part)
{
    const char *border = strstr(text, "tested, backward");
    int n = 0;

    for (const char *at = text; border && (at = strstr(at, part)); at++)
        n += (at > border) == backward;
    return n;
}

/* A7, A6, A12: a gather, its wait, the product, and the gather that was asked for; in backward two
 * products, no gather and one reduce-scatter. The transposed operands of both are no copies. */
WT_TEST_TIMES_IN_WORLD(example__has_short_lists, w, i, 2)
{
    struct example e = {w, layouts[i]};
    weft_compiled *compiled = wt_compile(reshape_and_multiply, &e, true);
    char text[8000] = {0};
    FILE *out = fmemopen(text, sizeof text - 1, "w");
    bool several = wt_ranks() > 1;

    for (int k = 0; k < 2; k++) check_against_one_process(&e, compiled, k);
    weft_compiled_print(compiled, true, out);
    fclose(out);
    wt_note("%s", text);
    if (wt_ranks() == 2 && i == 0) WT_ALL(strcmp(text, golden) == 0);
    WT_EQ(count(text, false, "matmul("), 1);
    WT_EQ(count(text, false, "start "), several ? 2 : 0);
    WT_EQ(count(text, false, "start all-gather("), several ? 2 : 0);
    WT_EQ(count(text, false, " wait("), several ? 2 : 0);
    WT_EQ(count(text, true, "matmul("), 2);
    WT_EQ(count(text, true, "start "), several ? 1 : 0);
    WT_EQ(count(text, true, "start reduce-scatter("), several ? 1 : 0);
    for (int backward = 0; backward < 2; backward++)
        for (int k = 0; k < 4; k++)
            WT_EQ(count(text, backward, (const char *[]){"cat(", "split", "detach", "alias"}[k]),
                  0);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "example"); }
