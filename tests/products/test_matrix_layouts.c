/*
 * test_matrix_layouts.c: products of matrices and batches: which layout they give, what they send,
 * and the values and gradients of one device.
 */
/* mpi: 2 4 */
#include <math.h>

#include "products/compare.h"
#include "tensor/tensor.h"

static weft_tensor *mm(weft_tensor *const *in) { return weft_mm(in[0], in[1]); }

static weft_tensor *bmm(weft_tensor *const *in) { return weft_bmm(in[0], in[1]); }

static weft_tensor *addmm(weft_tensor *const *in) { return weft_addmm(in[0], in[1], in[2], 1, 1); }

static weft_tensor *addmm_scaled(weft_tensor *const *in)
{
    return weft_addmm(in[0], in[1], in[2], 0.5, -2);
}

/* MAT-01, MAT-02, MAT-04: the bias is a row, a matrix or a number; even and uneven */
WT_TEST_TIMES_IN_WORLD(addmm__is_placed_as_its_product, w, k, 2)
{
    static const struct {
        const char *bias, *a, *b, *y;
        int dims; /* of the bias */
    } rows[] = {{"R", "S(0)", "R", "S(0)", 1},    {"S(0)", "S(0)", "R", "S(0)", 2},
                {"S(0)", "R", "S(1)", "S(1)", 1}, {"S(1)", "R", "S(1)", "S(1)", 2},
                {"R", "R", "R", "R", 1},          {"R", "S(0)", "R", "S(0)", 0},
                {"R", "R", "S(1)", "S(1)", 0}};
    int64_t m = k ? 5 : 12, inner = k ? 3 : 8, n = k ? 7 : 4;

    for (int i = 0; i < 7; i++) {
        weft_tensor *bias = rows[i].dims == 2   ? wt_whole(WEFT_F32, 2, m, n)
                            : rows[i].dims == 1 ? vector(2, n)
                                                : weft_full(WEFT_F32, NULL, 0, 0.75);
        weft_tensor *whole[] = {bias, wt_whole(WEFT_F32, 0, m, inner),
                                wt_whole(WEFT_F32, 1, inner, n)};
        const char *layouts[] = {rows[i].bias, rows[i].a, rows[i].b};
        weft_tensor *y;

        wt_note("row %d", i);
        y = compare(w, addmm, whole, layouts, 3, 0);
        WT_ALL(wt_is_placed(y, rows[i].y));
        weft_ledger_reset(w->ledger);
        (void)compare(w, addmm_scaled, whole, layouts, 3, 3);
    }
}

/* MAT-01: nothing is sent for it */
WT_TEST_IN_WORLD(addmm__sends_nothing, w)
{
    weft_tensor *a = wt_spread(w, wt_whole(WEFT_F32, 0, 12, 8), "S(0)");
    weft_tensor *b = wt_spread(w, wt_whole(WEFT_F32, 1, 8, 4), "R");
    weft_tensor *row = wt_spread(w, vector(2, 4), "R");

    WT_ALL(wt_is_placed(weft_addmm(row, a, b, 1, 1), "S(0)"));
    WT_ALL(wt_is_placed(weft_addmm(row, a, b, 2, 3), "S(0)"));
    WT_STILL(w);
}

/* MAT-06: nothing to add up leaves the bias */
WT_TEST_TIMES_IN_WORLD(addmm__of_nothing_is_the_bias, w, k, 2)
{
    int64_t m = k ? 5 : 12, n = k ? 3 : 4;
    weft_tensor *a = wt_spread(w, weft_full(WEFT_F32, (int64_t[]){m, 0}, 2, 1), "S(0)");
    weft_tensor *b = wt_spread(w, weft_full(WEFT_F32, (int64_t[]){0, n}, 2, 1), "R");
    weft_tensor *bias = vector(2, n);
    weft_tensor *y = weft_addmm(wt_spread(w, bias, "R"), a, b, 1, 1);

    LIKE(y, weft_expand(bias, (int64_t[]){m, n}, 2));
}

/* MAT-07: of a partial product the bias counts once, as a row and as a matrix */
WT_TEST_TIMES_IN_WORLD(addmm__counts_the_bias_once, w, k, 4)
{
    int64_t m = k & 1 ? 5 : 12, inner = k & 1 ? 7 : 8, n = 4;
    weft_tensor *bias = k & 2 ? wt_whole(WEFT_F32, 2, m, n) : vector(2, n);
    weft_tensor *whole[] = {bias, wt_whole(WEFT_F32, 0, m, inner), wt_whole(WEFT_F32, 1, inner, n)};
    const char *layouts[] = {"R", "S(1)", "S(0)"};
    weft_tensor *y, *in[3];

    for (int i = 0; i < 3; i++) in[i] = wt_spread(w, whole[i], layouts[i]);
    weft_ledger_reset(w->ledger);
    y = addmm(in);
    WT_STILL(w);
    WT_ALL(wt_is_placed(y, "P"));
    (void)compare(w, addmm, whole, layouts, 3, 3);
    (void)compare(w, addmm_scaled, whole, layouts, 3, 3);
}

/* With beta 0 what is no number in the addend does not count. */
WT_TEST_IN_WORLD(addmm__beta_0_reads_no_addend, w)
{
    weft_tensor *a = wt_whole(WEFT_F32, 0, 5, 3), *b = wt_whole(WEFT_F32, 1, 3, 4);
    weft_tensor *nan = weft_full(WEFT_F32, (int64_t[]){4}, 1, NAN);

    LIKE(weft_addmm(wt_spread(w, nan, "R"), wt_spread(w, a, "S(0)"), wt_spread(w, b, "R"), 0, 1),
         weft_mm(a, b));
    WT_ALL(weft_addmm(weft_full(WEFT_F32, (int64_t[]){2, 5, 4}, 3, 0), a, b, 1, 1) == NULL);
    WT_ALL(weft_error_status() == WEFT_ERR_SHAPE);
    weft_error_clear();
    WT_ALL(weft_addmm(nan, b, a, 1, 1) == NULL);
    weft_error_clear();
}

/* MAT-09: an interleaved shard of the rows stays one, on one axis */
WT_TEST_IN_WORLD(mm__keeps_strided_shards, w)
{
    weft_placement strided = weft_strided_shard(0, 2);
    weft_tensor *b = wt_whole(WEFT_F32, 1, 3, 7), *spread_b = wt_spread(w, b, "R");

    for (int k = 0; k < 2; k++) {
        weft_tensor *a = wt_whole(WEFT_F32, 0, k ? 24 : 8, 3);
        weft_tensor *x = weft_redistribute(wt_spread(w, a, "R"), &strided), *y;

        weft_ledger_reset(w->ledger);
        y = weft_mm(x, spread_b);
        WT_STILL(w);
        WT_ALL(wt_ranks() == 1 || weft_placement_equal(weft_tensor_placement(y, 0), strided));
        LIKE(y, weft_mm(a, b));
    }
}

/* MAT-09: on two axes */
WT_TEST_IN(mm__keeps_strided_shards_of_two_axes, w, wt_world_open_two_axes())
{
    const weft_placement strided[] = {weft_strided_shard(0, 4), weft_strided_shard(0, 8)};

    for (int k = 0; k < 2; k++) {
        weft_tensor *a = wt_whole(WEFT_F32, 0, k ? 64 : 96, 8), *b = wt_whole(WEFT_F32, 1, 8, 8);
        weft_tensor *x = weft_redistribute(wt_spread(w, a, "R,R"), strided), *y;
        weft_tensor *spread_b = wt_spread(w, b, "R,R");

        weft_ledger_reset(w->ledger);
        y = weft_mm(x, spread_b);
        WT_STILL(w);
        for (int i = 0; i < 2; i++)
            WT_ALL(weft_placement_equal(weft_tensor_placement(y, i), weft_tensor_placement(x, i)));
        LIKE(y, weft_mm(a, b));
    }
}

static const char *const three[] = {"R", "S(0)", "S(1)", "S(2)"};

/* MAT-10: every pair of layouts, values and both gradients */
WT_TEST_TIMES_IN_WORLD(mm__of_every_pair_of_layouts, w, k, 2)
{
    weft_tensor *whole[] = {wt_whole(WEFT_F32, 0, k ? 5 : 12, k ? 7 : 8),
                            wt_whole(WEFT_F32, 1, k ? 7 : 8, k ? 3 : 16)};

    for (int p = 0; p < 9; p++) {
        wt_note("%s, %s", three[p / 3], three[p % 3]);
        (void)compare(w, mm, whole, (const char *const[]){three[p / 3], three[p % 3]}, 2, 2);
    }
}

/* MAT-17: every pair of layouts of a batch */
WT_TEST_TIMES_IN_WORLD(bmm__of_every_pair_of_layouts, w, k, 2)
{
    weft_tensor *whole[] = {wt_whole3(WEFT_F32, 0, k ? 3 : 4, k ? 5 : 8, k ? 2 : 4),
                            wt_whole3(WEFT_F32, 1, k ? 3 : 4, k ? 2 : 4, k ? 7 : 8)};

    for (int p = 0; p < 16; p++) {
        wt_note("%s, %s", three[p / 4], three[p % 4]);
        (void)compare(w, bmm, whole, (const char *const[]){three[p / 4], three[p % 4]}, 2, 2);
    }
}

/* MAT-11: a weight cut by its rows gives columns, and nothing is sent */
WT_TEST_TIMES_IN_WORLD(linear__of_three_dims_is_cut_in_the_last, w, k, 2)
{
    int64_t width = k ? 2048 : 32, tokens = k ? 47 : 7;
    weft_tensor *x = wt_whole3(WEFT_F32, 0, 1, tokens, width);
    weft_tensor *weight = wt_whole(WEFT_F32, 1, width, width), *y;
    weft_tensor *spread_x = wt_spread(w, x, "R"), *spread_w = wt_spread(w, weight, "S(0)");

    weft_no_grad_open();
    weft_ledger_reset(w->ledger);
    y = weft_linear(spread_x, spread_w, NULL, 1);
    weft_no_grad_close();
    WT_STILL(w);
    WT_ALL(wt_is_placed(y, "S(2)"));
    if (k == 0) LIKE(y, weft_linear(x, weight, NULL, 1));
}

/* MAT-12: a dim with fewer elements than ranks */
WT_TEST_TIMES_IN_WORLD(mm__of_an_empty_shard, w, k, 2)
{
    weft_tensor *whole[] = {wt_whole(WEFT_F32, 0, k ? 1 : 3, 4), wt_whole(WEFT_F32, 1, 4, 4)};

    (void)compare(w, mm, whole, (const char *const[]){"S(0)", "R"}, 2, 2);
}

/* MAT-13: contracted along a shard */
WT_TEST_TIMES_IN_WORLD(matmul__contracts_a_shard, w, k, 2)
{
    int64_t inner = k ? 33 : 128;
    weft_tensor *a = wt_whole(WEFT_F32, 0, 8, inner), *b = wt_whole(WEFT_F32, 1, inner, 128);

    LIKE(weft_matmul(wt_spread(w, a, "R"), wt_spread(w, b, "S(0)")), weft_matmul(a, b));
}

/* MAT-14: turned back and forth, and a vector is not turned */
WT_TEST_TIMES_IN_WORLD(transpose__turns_the_shard, w, k, 2)
{
    weft_tensor *x = wt_whole(WEFT_F32, 0, k ? 5 : 12, 8);
    weft_tensor *t = weft_transpose(wt_spread(w, x, "S(0)"), 0, 1), *v;

    WT_ALL(wt_is_placed(t, "S(1)"));
    WT_ALL(wt_has_shape(t, 2, (int64_t)8, (int64_t)(k ? 5 : 12)));
    WT_ALL(wt_is_placed(weft_transpose(t, 0, 1), "S(0)"));
    v = wt_spread(w, vector(0, 12), "S(0)");
    WT_ALL(wt_is_placed(weft_transpose(v, 0, 0), "S(0)"));
    WT_STILL(w);
    LIKE(t, weft_transpose(x, 0, 1));
}

/* MAT-15: terms are turned as terms, and multiplied as they lie */
WT_TEST_TIMES_IN_WORLD(transpose__of_terms_stays_terms, w, k, 2)
{
    int64_t m = k ? 5 : 12, inner = k ? 7 : 8;
    weft_tensor *a = wt_whole(WEFT_F32, 0, m, inner), *b = wt_whole(WEFT_F32, 1, inner, 4);
    weft_tensor *c = wt_whole(WEFT_F32, 2, m, 3);
    weft_tensor *p = weft_mm(wt_spread(w, a, "S(1)"), wt_spread(w, b, "S(0)"));
    weft_tensor *t = weft_transpose(p, 0, 1), *y;

    WT_ALL(wt_is_placed(t, "P"));
    y = weft_mm(t, wt_spread(w, c, "R"));
    WT_ALL(wt_is_placed(y, "P"));
    WT_STILL(w);
    LIKE(t, weft_transpose(weft_mm(a, b), 0, 1));
    LIKE(y, weft_mm(weft_transpose(weft_mm(a, b), 0, 1), c));
}

/* MAT-20: q, k and v whole, by batch, by heads: nothing is sent, forward or backward */
WT_TEST_TIMES_IN_WORLD(attention__stays_where_it_is, w, k, 6)
{
    static const char *const layouts[] = {"R", "S(0)", "S(2)"}; /* heads are dim 2 here */
    int64_t shape[] = {k < 3 ? 4 : 5, k < 3 ? 8 : 3, k < 3 ? 8 : 4, 8};
    const char *layout = layouts[k % 3];
    weft_tensor *one[3], *many[3], *y, *want, *up;

    for (int i = 0; i < 3; i++) {
        weft_tensor *t =
            weft_reshape(wt_whole(WEFT_F32, i, shape[0] * shape[1], shape[2] * shape[3]), shape, 4);

        one[i] = leaf(weft_detach(t));
        many[i] = leaf(wt_spread(w, weft_detach(t), layout));
    }
    want = weft_attention(one[0], one[1], one[2], true, 0);
    weft_ledger_reset(w->ledger);
    y = weft_attention(many[0], many[1], many[2], true, 0);
    WT_STILL(w);
    WT_ALL(wt_is_placed(y, layout));
    LIKE(y, want);
    up = weft_reshape(wt_whole(WEFT_F32, 3, shape[0] * shape[1], shape[2] * shape[3]), shape, 4);
    WT_EQ(weft_backward_from(want, up), WEFT_OK);
    up = wt_spread(w, up, layout);
    weft_ledger_reset(w->ledger);
    WT_EQ(weft_backward_from(y, up), WEFT_OK);
    WT_STILL(w);
    for (int i = 0; i < 3; i++) {
        WT_ALL(wt_is_placed(weft_grad(many[i]), layout));
        LIKE(weft_grad(many[i]), weft_grad(one[i]));
    }
}

static void check_mm_of_two_axes(struct wt_world *w)
{
    for (int k = 0; k < 2; k++) {
        weft_tensor *a = wt_whole(WEFT_F32, 0, k ? 7 : 256, k ? 5 : 128);
        weft_tensor *b = wt_whole(WEFT_F32, 1, k ? 5 : 128, k ? 9 : 256);
        weft_tensor *x = wt_spread(w, a, "S(0),R"), *y = wt_spread(w, b, "R,S(1)"), *z;

        weft_ledger_reset(w->ledger);
        z = weft_mm(x, y);
        WT_STILL(w);
        WT_ALL(wt_is_placed(z, "S(0),S(1)"));
        WT_ALL(wt_near_tensors(z, weft_mm(a, b), ((struct wt_tolerance){1e-5, 1.5e-5})));
    }
}

/* MAT-21: rows over one axis, columns over the other */
WT_TEST_IN(mm__of_two_axes, w, wt_world_open_two_axes()) { check_mm_of_two_axes(w); }

WT_TEST_IN(mm__of_two_axes_of_which_one_is_all, w,
           wt_world_open_mesh("dp=%d,tp=1", weft_world_size()))
{
    check_mm_of_two_axes(w);
}

WT_TEST_IN(mm__of_two_axes_of_which_the_other_is_all, w,
           wt_world_open_mesh("dp=1,tp=%d", weft_world_size()))
{
    check_mm_of_two_axes(w);
}

/* MAT-32: gradients are terms along the other axis, and nothing is sent */
WT_TEST_TIMES_IN(mm__gradients_of_two_axes, w, k, 2, wt_world_open_two_axes())
{
    int64_t m = k ? 5 : 8, inner = k ? 3 : 6, n = k ? 7 : 8;
    weft_tensor *whole[] = {wt_whole(WEFT_F32, 0, m, inner), wt_whole(WEFT_F32, 1, inner, n)};
    weft_tensor *x = leaf(wt_spread(w, whole[0], "S(0),R"));
    weft_tensor *weight = leaf(wt_spread(w, whole[1], "R,S(1)"));
    weft_tensor *y = weft_mm(x, weight), *up = wt_spread(w, wt_constant(m, n, 1), "S(0),S(1)");

    WT_ALL(wt_is_placed(y, "S(0),S(1)"));
    WT_EQ(weft_backward_from(y, up), WEFT_OK);
    WT_STILL(w);
    WT_ALL(wt_is_placed(x->grad, "S(0),P")); /* weft_grad would reduce them */
    WT_ALL(wt_is_placed(weight->grad, "P,S(1)"));
    LIKE(weft_grad(x), weft_matmul_t(wt_constant(m, n, 1), whole[1], false, true));
    LIKE(weft_grad(weight), weft_matmul_t(whole[0], wt_constant(m, n, 1), true, false));
}

int main(int argc, char **argv) { return wt_main(argc, argv, "matrix_layouts"); }
