/*
 * test_pieces.c: slices, pieces, joins, pads and copies over layouts: values of one device, where
 * the result lies and what is sent.
 */
/* mpi: 2 4 */
#include <stdlib.h>
#include <string.h>

#include <weft/extend/plan_cache.h>

#include "support/given.h"
#include "support/worlds.h"

#define SIZES(...) (const int64_t[]){__VA_ARGS__}, (int)(sizeof(int64_t[]){__VA_ARGS__} / 8)

/* ---- slices ---- */

/* TEN-29, and more columns than ranks */
WT_TEST_TIMES_IN_WORLD(slices__are_pythons, w, i, 2)
{
    int64_t columns = i ? 9 : 4;
    weft_tensor *x = wt_whole(WEFT_F32, 0, 2, columns), *s = wt_spread(w, x, "S(1)");
    static const struct {
        int dim;
        int64_t start, end, step;
    } cuts[] = {{1, 0, 2, 1},         {1, 2, INT64_MAX, 1}, {1, 0, 4, 1}, {1, 0, 8, 1},
                {0, 0, 2, 1},         {1, -3, -1, 1},       {1, 3, 1, 1}, {1, INT64_MIN, 99, 2},
                {1, 1, INT64_MAX, 3}, {1, 0, 4, 4},         {0, 1, 2, 5}};

    for (size_t k = 0; k < sizeof cuts / sizeof *cuts; k++) {
        int64_t size = cuts[k].dim ? columns : 2, from = cuts[k].start, to = cuts[k].end, n = 0;
        double want[32];
        weft_tensor *got = weft_slice_step(s, cuts[k].dim, from, to, cuts[k].step);

        wt_note("cut %d", (int)k);
        if (from < 0) from = from < -size ? 0 : from + size;
        if (to < 0) to += size;
        if (to > size) to = size;
        for (int r = 0; r < 2; r++)
            for (int64_t c = 0; c < columns; c++) {
                int64_t at = cuts[k].dim ? c : r;

                if (at >= from && at < to && (at - from) % cuts[k].step == 0)
                    want[n++] = (float)wt_element(0, r * columns + c);
            }
        WT_EQ(weft_numel(got), n);
        WT_ALL(wt_near_full(got, want, WT_EXACT));
    }
    weft_ledger_reset(w->ledger);
    WT_ALL(weft_slice_step(s, 1, 0, INT64_MAX, 1) == s);
    WT_ALL(wt_is_placed(weft_slice_step(s, 0, 0, 2, 2), "S(1)"));
    WT_STILL(w);
    WT_FAILS(weft_slice_step(s, 1, 0, 2, 0) ? WEFT_OK : weft_error_status(), WEFT_ERR_ARG,
             "slice_step: step 0");
    weft_error_clear();
}

/* TEN-34, and another number of columns */
WT_TEST_TIMES_IN_WORLD(slice__has_a_gradient, w, i, 2)
{
    int64_t n = i ? 7 : 5;
    weft_tensor *x = weft_set_requires_grad(
                    weft_detach(wt_spread(w, wt_whole(WEFT_F32, 0, 1024, 10), "R")), true),
                *y = weft_slice(x, 1, 0, n);
    double *want = calloc(1024 * 10, sizeof *want);

    WT_ALL(wt_near_tensors(y, weft_slice(wt_whole(WEFT_F32, 0, 1024, 10), 1, 0, n), WT_EXACT));
    WT_EQ(weft_backward(weft_sum_all(weft_mul(y, y))), WEFT_OK);
    WT_STILL(w);
    for (int64_t k = 0; k < 1024 * 10; k++) want[k] = k % 10 < n ? 2 * (float)wt_element(0, k) : 0;
    WT_ALL(wt_near_full(weft_grad(x), want, WT_EXACT));
    free(want);
}

/* ---- pieces ---- */

/* Terms: those of rank r are r + 1 times the numbers. */
static weft_tensor *terms(struct wt_world *w, weft_tensor *t, weft_reduce reduce)
{
    const weft_placement p = weft_partial(reduce);

    t = weft_mul_scalar(t, 1 + weft_world_rank());
    return weft_from_local(weft_drop_grad_types(t), w->mesh, &p, NULL);
}

/* TEN-30: a product too, which PyTorch reduces first; and 7 x 9 */
WT_TEST_TIMES_IN_WORLD(split__of_terms_is_terms, w, i, 5 * 2 * 3 * 2)
{
    static const weft_reduce reductions[] = {WEFT_SUM, WEFT_AVG, WEFT_MIN, WEFT_MAX, WEFT_PRODUCT};
    weft_reduce reduce = reductions[i / 12];
    int dim = i / 6 % 2, size = 2 + i / 2 % 3;
    int64_t rows = i % 2 ? 7 : 8, columns = i % 2 ? 9 : 8;
    weft_tensor *p = terms(w, wt_whole(WEFT_F32, 0, rows, columns), reduce), *piece[8], *full;
    int n;

    weft_ledger_reset(w->ledger);
    n = weft_split_size(piece, p, dim, size);
    WT_STILL(w);
    WT_EQ(n, ((dim ? columns : rows) + size - 1) / size);
    full = weft_full_tensor(p);
    for (int k = 0; k < n; k++) {
        weft_placement placed = weft_tensor_placement(piece[k], 0);
        int64_t end = (k + 1) * (int64_t)size, most = dim ? columns : rows;

        WT_ALL(weft_is_partial(placed) && placed.reduce == reduce);
        WT_ALL(wt_near_tensors(piece[k],
                               weft_slice(full, dim, k * (int64_t)size, end < most ? end : most),
                               WT_WITHIN(1e-6)));
    }
}

/* OPDB-03: along the dim that is cut, which is brought together once */
WT_TEST_TIMES_IN_WORLD(unbind__along_a_sharded_dim, w, dim, 2)
{
    weft_tensor *x = wt_whole(WEFT_F32, 0, 7, 5), *piece[7], *plain[7];
    char placed[16];

    snprintf(placed, sizeof placed, "S(%d)", dim);
    WT_EQ(weft_unbind(plain, x, dim), WEFT_OK);
    x = wt_spread(w, x, placed);
    weft_ledger_reset(w->ledger);
    WT_EQ(weft_unbind(piece, x, dim), WEFT_OK);
    WT_MOVED(w, WEFT_COLL_ALL_GATHER, 1);
    for (int k = 0; k < (dim ? 5 : 7); k++) WT_ALL(wt_near_tensors(piece[k], plain[k], WT_EXACT));
    WT_EQ(weft_unbind(piece, x, 1 - dim), WEFT_OK);
    WT_ALL(wt_is_placed(piece[1], "S(0)"));
}

/* Sizes of chunks and of equal pieces are PyTorch's. */
WT_TEST_IN_WORLD(pieces__have_these_sizes, w)
{
    static const int64_t chunked[] = {3, 3, 3, 1}, even[] = {3, 3, 2, 2};
    weft_tensor *x = wt_spread(w, wt_whole(WEFT_F32, 0, 10, 3), "S(1)"), *piece[12];

    WT_EQ(weft_split_chunks(piece, 4, x, 0), 4);
    for (int k = 0; k < 4; k++) WT_EQ(weft_size(piece[k], 0), chunked[k]);
    WT_EQ(weft_split_chunks(piece, 6, x, 0), 5);
    WT_EQ(weft_split_even(piece, 4, x, 0), WEFT_OK);
    for (int k = 0; k < 4; k++) WT_EQ(weft_size(piece[k], 0), even[k]);
    WT_EQ(weft_split_size(piece, x, 0, 20), 1);
    WT_ALL(weft_split_chunks(piece, 0, x, 0) == -1);
    weft_error_clear();
    WT_ALL(weft_split_size(piece, x, 0, 0) == -1);
    weft_error_clear();
    WT_STILL(w);
}

/* ---- joins ---- */

static struct wt_world two_axes(void)
{
    return wt_ranks() == 4 ? wt_world_open_mesh("dp=2,tp=2") : wt_world_open_two_axes();
}

static weft_tensor *placed_locally(struct wt_world *w, weft_tensor *t, const char *placements)
{
    weft_placement p[WEFT_MAX_AXES];

    weft_placements_parse(p, WEFT_MAX_AXES, placements);
    return weft_from_local(weft_drop_grad_types(weft_detach(t)), w->mesh, p, NULL);
}

/* TEN-13, and three of them */
WT_TEST_IN(stack__of_terms, w, two_axes())
{
    weft_tensor *a = placed_locally(w, wt_constant(4, 8, 2), "P R"),
                *b = placed_locally(w, wt_constant(4, 8, 3), "P P"), *y;
    double dp = weft_mesh_axis_size(w->mesh, 0), all = weft_world_size();

    weft_ledger_reset(w->ledger);
    y = weft_stack((weft_tensor *[]){a, b}, 2, 0);
    WT_STILL(w);
    if (wt_ranks() == 4) WT_ALL(wt_is_placed(y, "P P"));
    WT_ALL(wt_has_shape(y, 3, 2, 4, 8));
    WT_ALL(wt_is_all(weft_select(y, 0, 0), 2 * dp) && wt_is_all(weft_select(y, 0, 1), 3 * all));
    y = weft_stack((weft_tensor *[]){b, a, b}, 3, -1);
    WT_ALL(wt_has_shape(y, 3, 4, 8, 3));
    WT_ALL(wt_is_all(weft_select(y, 2, 1), 2 * dp) && wt_is_all(weft_select(y, 2, 2), 3 * all));
}

/* TEN-13, and 5 x 7 */
WT_TEST_TIMES_IN_WORLD(stack__moves_the_sharded_dim, w, i, 2)
{
    int64_t n = i ? 5 : 8, m = i ? 7 : 8;
    weft_tensor *x[] = {wt_whole(WEFT_F32, 0, n, m), wt_whole(WEFT_F32, 1, n, m)}, *s[2], *y;

    for (int k = 0; k < 2; k++) s[k] = wt_spread(w, x[k], "S(1)");
    weft_ledger_reset(w->ledger);
    for (int dim = 0; dim < 2; dim++) {
        y = weft_stack(s, 2, dim);
        WT_STILL(w);
        WT_ALL(wt_is_placed(y, "S(2)"));
        WT_ALL(wt_has_shape(y, 3, dim ? n : 2, dim ? (int64_t)2 : n, m));
        WT_ALL(wt_near_tensors(y, weft_stack(x, 2, dim), WT_EXACT));
        weft_ledger_reset(w->ledger);
    }
    WT_ALL(wt_near_tensors(weft_hstack(s, 2), weft_cat(x, 2, 1), WT_EXACT));
    WT_ALL(wt_near_tensors(weft_vstack(s, 2), weft_cat(x, 2, 0), WT_EXACT));
    WT_FAILS(weft_stack((weft_tensor *[]){s[0], weft_ravel(s[0])}, 2, 0) ? WEFT_OK
                                                                         : weft_error_status(),
             WEFT_ERR_SHAPE, "stack: tensor 1 has 1 dims, tensor 0 has 2");
    weft_error_clear();
}

/* TEN-14, and of shards */
WT_TEST_TIMES_IN_WORLD(stack__again_makes_no_plan, w, i, 2)
{
    weft_tensor *x[3];
    weft_plan_cache_stats before;

    for (int k = 0; k < 3; k++) x[k] = wt_spread(w, wt_whole(WEFT_F32, k, 6, 4), i ? "S(0)" : "R");
    WT_ALL(weft_stack(x, 3, 0) != NULL);
    before = weft_plan_cache_statistics();
    WT_ALL(weft_stack(x, 3, 0) != NULL);
    WT_EQ(weft_plan_cache_statistics().plan_misses, before.plan_misses);
    WT_ALL(weft_plan_cache_statistics().plan_hits > before.plan_hits);
}

/* ---- pads ---- */

/* MAT-25, and 7 x 5 */
WT_TEST_TIMES_IN_WORLD(pad__needs_the_padded_dim_alone, w, i, 2)
{
    static const int64_t pads[] = {1, 1};
    weft_tensor *x = i ? wt_whole(WEFT_F32, 0, 7, 5) : wt_whole(WEFT_F32, 0, 8, 6), *y, *p;
    weft_tensor *plain = weft_pad(x, pads, 1, WEFT_PAD_CONSTANT, 0);

    y = weft_pad(wt_spread(w, x, "S(0)"), pads, 1, WEFT_PAD_CONSTANT, 0);
    WT_STILL(w);
    WT_ALL(wt_is_placed(y, "S(0)"));
    WT_ALL(wt_near_tensors(y, plain, WT_EXACT));
    weft_ledger_reset(w->ledger);
    y = weft_pad(wt_spread(w, x, "S(1)"), pads, 1, WEFT_PAD_CONSTANT, 0);
    if (wt_ranks() > 1) WT_EQ(wt_moved(w, WEFT_COLL_COUNT), 1);
    WT_ALL(wt_near_tensors(y, plain, WT_EXACT));
    p = terms(w, x, WEFT_SUM);
    weft_ledger_reset(w->ledger);
    y = weft_pad(p, pads, 1, WEFT_PAD_CONSTANT, 0);
    WT_STILL(w);
    WT_ALL(wt_is_placed(y, "P"));
    WT_ALL(wt_near_tensors(y, weft_pad(weft_full_tensor(p), pads, 1, WEFT_PAD_CONSTANT, 0),
                           WT_WITHIN(1e-6)));
    y = weft_pad(p, pads, 1, WEFT_PAD_CONSTANT, 1);
    WT_ALL(!weft_is_partial(weft_tensor_placement(y, 0)));
    WT_ALL(wt_near_tensors(y, weft_pad(weft_full_tensor(p), pads, 1, WEFT_PAD_CONSTANT, 1),
                           WT_WITHIN(1e-6)));
}

/* OPDB-03: reflected along a dim that is cut, or beside one */
WT_TEST_TIMES_IN_WORLD(pad__reflects_a_sharded_dim, w, i, 3 * 2)
{
    static const weft_pad_mode modes[] = {WEFT_PAD_REFLECT, WEFT_PAD_REPLICATE, WEFT_PAD_CIRCULAR};
    static const int64_t pads[] = {2, 3};
    weft_tensor *x = wt_whole(WEFT_F32, 0, 5, 7), *y;

    y = weft_pad(wt_spread(w, x, i % 2 ? "S(1)" : "S(0)"), pads, 1, modes[i / 2], 0);
    if (i % 2 == 0) WT_STILL(w);
    WT_ALL(wt_near_tensors(y, weft_pad(x, pads, 1, modes[i / 2], 0), WT_EXACT));
    WT_FAILS(weft_pad(x, (int64_t[]){8, 0}, 1, WEFT_PAD_REFLECT, 0) ? WEFT_OK : weft_error_status(),
             WEFT_ERR_SHAPE, "pad: 8 and 0 elements around dim 1 of size 7");
    weft_error_clear();
}

/* ---- copies ---- */

/* TEN-01 */
WT_TEST_IN_WORLD(copies__have_their_own_storage, w)
{
    static const char *const layouts[] = {"R", "S(0)", "S(1)"};
    weft_tensor *x = wt_whole(WEFT_F32, 0, 16, 32), *s, *y;

    for (int k = 0; k < 3; k++) {
        s = wt_spread(w, x, layouts[k]);
        WT_ALL(weft_contiguous(s) == s && wt_near_tensors(weft_contiguous(s), x, WT_EXACT));
        y = weft_contiguous(weft_t(s));
        WT_ALL(weft_is_contiguous(y) && wt_near_tensors(y, weft_t(x), WT_EXACT));
        y = weft_detach(s);
        WT_ALL(y != s && weft_data(y) == weft_data(s));
        y = weft_clone(s);
        WT_ALL(y != s && (weft_local_numel(s) == 0 || weft_data(y) != weft_data(s)));
        WT_ALL(wt_is_placed(y, layouts[k]) && wt_near_tensors(y, x, WT_EXACT));
    }
    s = weft_set_requires_grad(weft_detach(s), true);
    WT_EQ(weft_backward(weft_sum_all(weft_mul_scalar(weft_clone(s), 3))), WEFT_OK);
    WT_ALL(wt_is_all(weft_grad(s), 3));
}

/* TEN-02, TEN-03: to and from every layout, and expanded; also 5 x 7 */
WT_TEST_TIMES_IN_WORLD(copy__goes_to_any_layout, w, i, 2)
{
    static const char *const layouts[] = {"R", "S(0)", "S(1)", "P"};
    int64_t n = i ? 5 : 12, m = i ? 7 : 12;
    weft_tensor *x = wt_whole(WEFT_F32, 0, n, m), *into, *from, *row = weft_select(x, 0, 1);

    for (int a = 0; a < 4; a++)
        for (int b = 0; b < 4; b++) {
            wt_note("%s over %s", layouts[b], layouts[a]);
            into = a < 3 ? wt_spread(w, wt_constant(n, m, 0), layouts[a])
                         : wt_partial(w, wt_constant(n, m, 1), WEFT_SUM);
            from =
                b < 3 ? wt_spread(w, x, layouts[b])
                      : terms(w, weft_mul_scalar(x, 2.0 / wt_ranks() / (wt_ranks() + 1)), WEFT_SUM);
            weft_ledger_reset(w->ledger);
            WT_EQ(weft_copy_(into, from), WEFT_OK);
            if (a == b) WT_STILL(w);
            WT_ALL(wt_is_placed(into, layouts[a]));
            WT_ALL(wt_near_tensors(into, x, WT_WITHIN(1e-6)));
            if (b == 2 || b == 3) continue;
            WT_EQ(weft_copy_(into, wt_spread(w, row, layouts[b])), WEFT_OK);
            WT_ALL(wt_near_tensors(into, weft_expand_as(row, x), WT_WITHIN(1e-6)));
        }
}

/* TEN-04: what moves is the source, before it is repeated. */
WT_TEST_TIMES_IN_WORLD(copy__of_a_small_source_moves_little, w, i, 4 * 3)
{
    static const char *const to[] = {"R", "S(0)", "S(1)", "S(2)"}, *const from[] = {"S(0)", "R",
                                                                                    "P"};
    weft_tensor *x = wt_whole(WEFT_F32, 0, 8, 1),
                *want = weft_full(WEFT_F32, (int64_t[]){4, 8, 6}, 3, 0);
    weft_tensor *into = wt_spread(w, want, to[i % 4]);
    bool terms = i / 4 == 2;
    weft_tensor *source = terms ? wt_partial(w, weft_div_scalar(x, wt_ranks()), WEFT_SUM)
                                : wt_spread(w, x, from[i / 4]);

    want = weft_add(want, x);
    WT_ALL(weft_copy_(into, source) == WEFT_OK && wt_is_placed(into, to[i % 4]));
    WT_ALL(weft_ledger_total(w->ledger, WEFT_COLL_COUNT, WEFT_DIRECTION_ANY, NULL).sent <= 64 * 8);
    wt_moved(w, WEFT_COLL_COUNT);
    WT_ALL(wt_near_tensors(into, want, WT_WITHIN(1e-6)));
}

/* TEN-28: a gradient is brought back by one collective. */
WT_TEST_IN_WORLD(slice__of_a_sharded_dim_moves_once_in_each_direction, w)
{
    weft_tensor *x = wt_whole(WEFT_F32, 0, 8, 16);
    weft_tensor *leaf = weft_set_requires_grad(wt_spread(w, x, "S(1)"), true), *y;
    weft_tensor *g = wt_spread(w, wt_constant(8, 8, 1), "S(1)");

    x = weft_set_requires_grad(x, true);
    y = weft_slice(leaf, 1, 8, 16);
    WT_ALL(wt_moved(w, WEFT_COLL_COUNT) <= 1);
    WT_ALL(weft_backward_from(y, g) == WEFT_OK);
    WT_ALL(wt_moved(w, WEFT_COLL_COUNT) <= 1);
    WT_ALL(weft_backward(weft_sum_all(weft_slice(x, 1, 8, 16))) == WEFT_OK);
    WT_ALL(wt_is_placed(weft_grad(leaf), "S(1)") &&
           wt_near_tensors(weft_grad(leaf), weft_grad(x), WT_EXACT));
}

/* TEN-03, at its size */
WT_TEST_IN_WORLD(copy__expands, w)
{
    weft_tensor *row = weft_select(wt_whole(WEFT_F32, 0, 2, 128), 0, 1), *into;

    into = wt_spread(w, wt_constant(128, 128, 0), "R");
    WT_EQ(weft_copy_(into, wt_spread(w, row, "R")), WEFT_OK);
    WT_ALL(wt_near_tensors(into, weft_expand(row, SIZES(128, 128)), WT_EXACT));
    into = wt_spread(w, wt_constant(128, 128, 0), "S(1)");
    WT_EQ(weft_copy_(into, wt_spread(w, row, "S(0)")), WEFT_OK);
    WT_STILL(w);
    WT_ALL(wt_near_tensors(into, weft_expand(row, SIZES(128, 128)), WT_EXACT));
}

/* TEN-05, an average too */
WT_TEST_TIMES_IN_WORLD(copy__of_terms_to_terms, w, i, 4)
{
    static const weft_reduce reductions[] = {WEFT_SUM, WEFT_MAX, WEFT_MIN, WEFT_AVG};
    weft_tensor *into = wt_partial(w, wt_constant(4, 5, 0), reductions[i]),
                *from = terms(w, wt_constant(4, 5, 2), reductions[i]);

    weft_ledger_reset(w->ledger);
    WT_EQ(weft_copy_(into, from), WEFT_OK);
    WT_STILL(w);
    WT_EQ(weft_tensor_placement(into, 0).reduce, reductions[i]);
    WT_ALL(wt_local_is_all(into, 2 * (1 + weft_world_rank())));
}

/* ---- made like others ---- */

/* TEN-09, and uneven rows */
WT_TEST_TIMES_IN_WORLD(like__has_the_layout, w, i, 2)
{
    int64_t rows = i ? 4 * wt_ranks() - 1 : 4 * wt_ranks();
    weft_tensor *x = wt_spread(w, wt_whole(WEFT_F32, 0, rows, 8), "S(0)");
    weft_tensor *made[] = {weft_empty_like(x, WEFT_CPU), weft_full_like(x, 42), weft_ones_like(x),
                           weft_zeros_like(x)};
    weft_spec spec = weft_spec_of(x);
    weft_tensor *half;

    for (int k = 0; k < 4; k++) {
        WT_ALL(wt_is_placed(made[k], "S(0)"));
        WT_EQ(weft_local_size(made[k], 0), weft_local_size(x, 0));
        WT_EQ(weft_local_size(made[k], 1), 8);
        if (k > 0) WT_ALL(wt_local_is_all(made[k], k == 1 ? 42 : k == 2 ? 1 : 0));
    }
    spec.dtype = WEFT_BF16;
    half = weft_make_zeros(spec);
    WT_ALL(weft_tensor_dtype(half) == WEFT_BF16 && wt_is_placed(half, "S(0)"));
    WT_ALL(weft_tensor_dtype(x) == WEFT_F32 && wt_local_is_all(half, 0));
    WT_STILL(w);
}

/* TEN-16, and from a partial sum */
WT_TEST_IN_WORLD(new_full__of_its_own_shape_is_placed_alike, w)
{
    static const char *const layouts[] = {"S(0)", "R"};

    for (int k = 0; k < 2; k++) {
        weft_tensor *x = wt_spread(w, wt_whole(WEFT_F32, 0, 12, 8), layouts[k]), *y;

        weft_ledger_reset(w->ledger);
        y = weft_new_full(x, SIZES(4, 8), 42);
        WT_ALL(wt_is_placed(y, "R") && wt_has_shape(y, 2, 4, 8));
        WT_STILL(w);
        WT_ALL(wt_is_all(y, 42));
        weft_ledger_reset(w->ledger);
        y = weft_new_full(x, SIZES(12, 8), 42);
        WT_ALL(wt_is_placed(y, layouts[k]));
        WT_STILL(w);
        WT_ALL(wt_is_all(y, 42));
    }
    WT_ALL(wt_is_placed(
        weft_new_full(wt_partial(w, wt_constant(2, 3, 1), WEFT_SUM), SIZES(2, 3), 4), "R"));
}

/* TEN-12, an average too */
WT_TEST_TIMES_IN_WORLD(materialize__keeps_terms, w, i, 2)
{
    weft_module *m = wt_own(given_identity());
    const weft_placement p = weft_partial(i ? WEFT_AVG : WEFT_SUM);
    weft_device before = weft_set_default_device(WEFT_META);
    weft_tensor *buffer =
        weft_from_local(weft_empty(WEFT_F32, (int64_t[]){3, 4}, 2), w->mesh, &p, NULL);

    weft_set_default_device(before);
    WT_EQ(weft_module_add_buffer(m, "b", buffer, (weft_buffer_options){0}), WEFT_OK);
    WT_EQ(weft_module_materialize(m, WEFT_CPU), WEFT_OK);
    buffer = weft_module_buffer(m, "b");
    WT_ALL(weft_tensor_device(buffer) == WEFT_CPU && weft_data(buffer) != NULL);
    WT_ALL(weft_placement_equal(weft_tensor_placement(buffer, 0), p));
    WT_ALL(wt_is_placed(weft_empty_like(buffer, WEFT_CPU), "R"));
}

/* TEN-33, f16 too */
WT_TEST_TIMES_IN_WORLD(type_as__follows, w, i, 2)
{
    weft_dtype narrow = i ? WEFT_F16 : WEFT_BF16;
    weft_tensor *x = wt_spread(w, wt_whole(narrow, 0, 7, 5), "S(0)"), *wide, *back;

    wide = weft_cast(x, WEFT_F32);
    back = weft_type_as(wide, x);
    WT_ALL(weft_tensor_dtype(wide) == WEFT_F32 && weft_tensor_dtype(back) == narrow);
    WT_EQ(weft_tensor_dtype(weft_to_local(back, NULL)), narrow);
    WT_EQ(weft_tensor_dtype(weft_to_local(wide, NULL)), WEFT_F32);
    WT_ALL(weft_type_as(x, back) == x);
    WT_ALL(wt_is_placed(back, "S(0)") && wt_near_tensors(back, x, WT_EXACT));
}

/* TEN-35: the loss, and draws that replicated probabilities make alike; also 10 x 7 */
WT_TEST_TIMES_IN_WORLD(replicated__stays_so, w, i, 2)
{
    int64_t rows = i ? 10 : 1024, classes = i ? 7 : 10, *labels = malloc(1024 * sizeof *labels);
    weft_tensor *x = weft_set_requires_grad(wt_whole(WEFT_F32, 0, rows, classes), true), *z, *t, *p;
    weft_tensor *loss, *plain;
    weft_generator *g = wt_own(weft_generator_new(3));

    for (int64_t k = 0; k < rows; k++) labels[k] = (5 * k + 1) % classes;
    t = weft_from_data(WEFT_I64, &rows, 1, labels);
    free(labels);
    plain = weft_cross_entropy(x, t, -100);
    WT_EQ(weft_backward(plain), WEFT_OK);
    z = weft_set_requires_grad(weft_detach(wt_spread(w, wt_whole(WEFT_F32, 0, rows, classes), "R")),
                               true);
    weft_ledger_reset(w->ledger);
    loss = weft_cross_entropy(z, wt_spread(w, t, "R"), -100);
    WT_EQ(weft_backward(loss), WEFT_OK);
    WT_ALL(wt_near_tensors(loss, plain, WT_WITHIN(1e-5)));
    WT_ALL(wt_near_tensors(weft_grad(z), weft_grad(x), WT_WITHIN(1e-6)));
    p = weft_set_requires_grad(
        weft_detach(wt_spread(w, weft_sigmoid(wt_whole(WEFT_F32, 0, rows, classes)), "R")), true);
    t = weft_bernoulli(p, g);
    WT_ALL(wt_is_placed(t, "R"));
    plain = wt_to(weft_from_local(weft_drop_grad_types(weft_to_local(t, NULL)), w->mesh,
                                  (weft_placement[]){weft_partial(WEFT_AVG)}, NULL),
                  "R");
    WT_ALL(wt_near_tensors(t, plain, WT_EXACT)); /* the same on every rank */
}

int main(int argc, char **argv) { return wt_main(argc, argv, "pieces"); }
