/*
 * test_uneven.c: where elements lie. Traps 1, 2, 12, 13 and 26 and weaknesses 10.4-1, 2, 4,
 * 10, 12 of other libraries: uneven, nested and strided shards, empty ranks, dims that are not the
 * first.
 */
#include <stdio.h>
#include <stdlib.h>

#include "support/worlds.h"

static weft_tensor *counted(int64_t n)
{
    return weft_make_arange((weft_spec){.dtype = WEFT_F64, .ndim = 1, .shape = {n}}, 0, 1);
}

static bool holds_count(weft_tensor *t, int64_t n)
{
    double *got = wt_values(t);
    bool good = got && weft_numel(t) == n;

    for (int64_t i = 0; good && i < n; i++) {
        if (got[i] != (double)i) wt_note("element %lld is %g", (long long)i, got[i]);
        good = got[i] == (double)i;
    }
    free(got);
    return good;
}

/* ---- chunks ---- */

/* Trap 1: 5 over 4 is 2,2,1,0, not 2,1,1,1; an empty chunk begins at the end; and ranks without
 * elements take part in every collective. */
WT_TEST_TIMES_IN_WORLD(chunks__are_ceil_and_the_last_may_be_empty, w, i, 12)
{
    int64_t n = i;
    weft_tensor *t = wt_spread(w, counted(n), "S(0)");
    int64_t chunk = (n + wt_ranks() - 1) / wt_ranks(), begin = chunk * wt_rank();

    WT_EQ(weft_local_offset(t, 0), begin < n ? begin : n);
    WT_EQ(weft_local_size(t, 0), begin >= n ? 0 : (begin + chunk < n ? chunk : n - begin));
    WT_ALL(holds_count(t, n));
    WT_ALL(weft_item(wt_to(weft_sum_all(t), "R")) == (double)(n * (n - 1) / 2));
    WT_ALL(wt_near_tensors(wt_to(wt_to(weft_mul_scalar(t, 2), "P"), "S(0)"),
                           weft_mul_scalar(counted(n), 2), WT_EXACT));
}

/* Trap 1: two axes that shard one dim split the pieces of the first again. That is not the chunk
 * rule over their product: 10 over 2 x 4 is 2,2,1,0,2,2,1,0. */
WT_TEST_IN(chunks__nested_are_not_flat, w, wt_world_open_two_axes())
{
    for (int64_t n = 0; n <= 20; n += n < 12 ? 1 : 4) {
        weft_tensor *t = wt_spread(w, counted(n), "S(0),S(0)");
        int dp = weft_mesh_axis_size(w->mesh, 0), tp = weft_mesh_axis_size(w->mesh, 1);
        int i = weft_mesh_coordinate(w->mesh, 0), j = weft_mesh_coordinate(w->mesh, 1);
        int64_t outer = weft_chunk_size(n, dp, i), inner = weft_chunk_size(outer, tp, j);

        WT_EQ(weft_local_size(t, 0), inner);
        WT_EQ(weft_local_offset(t, 0),
              inner ? weft_chunk_offset(n, dp, i) + weft_chunk_offset(outer, tp, j) : n);
        WT_ALL(holds_count(t, n) && holds_count(wt_to(t, "S(0),R"), n));
        WT_ALL(holds_count(wt_to(t, "R,S(0)"), n));
    }
}

/* Weakness 10.4-1: a collective over merged axes must not forget that the chunks are nested. */
WT_TEST_TIMES_IN(merged_axes__do_not_change_uneven_nested_chunks, w, i, 25,
                 wt_world_open_two_axes())
{
    int64_t n = i;
    weft_mesh *merged = weft_mesh_flatten(w->mesh, "all");
    weft_tensor *t = wt_spread(w, counted(n), "S(0),S(0)"), *sum;

    WT_ALL(holds_count(wt_to(t, "R,R"), n));
    sum = weft_from_local(counted(n), w->mesh,
                          (weft_placement[]){weft_partial(WEFT_SUM), weft_partial(WEFT_SUM)}, NULL);
    sum = weft_mul_scalar(sum, 1.0 / wt_ranks());
    WT_ALL(wt_near_tensors(wt_to(sum, "S(0),S(0)"), counted(n), WT_WITHIN(1e-14)));
    WT_ALL(wt_near_tensors(wt_to(sum, "R,S(0)"), counted(n), WT_WITHIN(1e-14)));
    WT_ALL(wt_near_tensors(wt_to(sum, "R,R"), counted(n), WT_WITHIN(1e-14)));
    weft_mesh_release(merged);
}

/* Weakness 10.4-2: two strided shards are gathered, also where a merged mesh exists. */
WT_TEST_TIMES_IN(merged_axes__gather_strided_shards, w, i, 9, wt_world_open_two_axes())
{
    int64_t n = 3 * i;
    weft_mesh *merged = weft_mesh_flatten(w->mesh, "all");

    WT_ALL(holds_count(wt_to(wt_spread(w, counted(n), "SS(0,2),SS(0,2)"), "R,R"), n));
    WT_ALL(holds_count(wt_to(wt_spread(w, counted(n), "SS(0,2),S(0)"), "S(0),S(0)"), n));
    WT_ALL(holds_count(wt_to(wt_spread(w, counted(n), "S(0)[1],S(0)"), "R,R"), n));
    weft_mesh_release(merged);
}

/* ---- from_local ---- */

/* Trap 2: without the global shape uneven shards would be taken for even ones. The shape makes them
 * right, and a part that is not the rank's chunk is refused; beside other ranks, whose parts may
 * fit, that ends the job (test_disagreement.c). */
WT_TEST_TIMES_IN_WORLD(from_local__of_uneven_parts_needs_the_global_shape, w, i, 3)
{
    int64_t n = 1 + 4 * i;
    weft_placement rows = weft_shard(0);
    int64_t mine = weft_chunk_size(n, wt_ranks(), wt_rank());
    weft_tensor *part = weft_slice(counted(n), 0, weft_chunk_offset(n, wt_ranks(), wt_rank()),
                                   weft_chunk_offset(n, wt_ranks(), wt_rank()) + mine);
    weft_tensor *t = weft_from_local(part, w->mesh, &rows, &n);

    WT_ALL(holds_count(t, n));
    if (wt_ranks() == 1) {
        part = weft_cat((weft_tensor *[]){part, counted(1)}, 2, 0);
        WT_FAILS(weft_from_local(part, w->mesh, &rows, &n), WEFT_ERR_SHAPE, "from_local");
    }
    wt_moved(w, WEFT_COLL_COUNT);
    WT_ALL(wt_to(t, "S(0)") == t);
    WT_STILL(w);
}

/* Trap 2 once more: parts that came out of a mesh are known to be uneven, also after ops, and then
 * nobody may leave the shape out. Even ones, and the peer's ranks, would go on with another shape.
 */
WT_TEST_TIMES_IN_WORLD(from_local__of_parts_known_to_be_uneven, w, i, 9)
{
    int64_t n = 1 + i;
    weft_placement rows = weft_shard(0);
    weft_tensor *part = weft_to_local(wt_spread(w, counted(n), "S(0)"), NULL), *t;

    part = weft_add_scalar(weft_reshape(weft_square(part), (int64_t[]){-1, 1}, 2), 1);
    t = weft_from_local(part, w->mesh, &rows, NULL);
    WT_ALL(!t == (n % wt_ranks() != 0));
    if (!t) WT_FAILED(WEFT_ERR_LAYOUT, "shards of different sizes");
    t = weft_from_local(part, w->mesh, &rows, (int64_t[]){n, 1});
    WT_ALL(t && weft_numel(t) == n);
}

/* ---- dims that are not the first, and operands that are not contiguous ---- */

/* Trap 12, in both directions: the pieces that a collective brings must be put side by side, and
 * what it sends must be what the view shows. */
WT_TEST_IN_WORLD(gather__of_views_along_any_dim, w)
{
    weft_tensor *whole = wt_whole3(WEFT_F64, 0, 3, 5, 7);
    static const char *const layouts[] = {"S(0)", "S(1)", "S(2)"};
    static const int orders[][3] = {{2, 0, 1}, {1, 0, 2}, {0, 2, 1}};

    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            weft_tensor *x = weft_set_requires_grad(wt_spread(w, whole, layouts[i]), true);
            weft_tensor *plain =
                weft_set_requires_grad(weft_mul_scalar(weft_detach(whole), 1), true);
            weft_tensor *view = weft_slice(weft_permute(x, orders[j]), 1, 1, 3);
            weft_tensor *want = weft_slice(weft_permute(plain, orders[j]), 1, 1, 3);

            WT_ALL(wt_near_tensors(weft_full_tensor(view), want, WT_EXACT));
            for (int k = 0; k < 3; k++)
                WT_ALL(wt_near_tensors(wt_to(view, layouts[k]), want, WT_EXACT));
            WT_ALL(weft_backward(weft_sum_all(weft_square(wt_to(view, layouts[j])))) == WEFT_OK);
            WT_ALL(weft_backward(weft_sum_all(weft_square(want))) == WEFT_OK);
            WT_ALL(wt_near_tensors(weft_grad(x), weft_grad(plain), WT_WITHIN(1e-14)));
        }
}

/* ---- views ---- */

/* Trap 13: a reshape takes global sizes; what each rank gets follows from them. A dim of one
 * element per rank is no dim of size 1, and a global dim of size 1 stays one on ranks without it.
 */
WT_TEST_IN_WORLD(views__speak_of_global_sizes, w)
{
    int64_t n = wt_ranks();
    weft_tensor *t = wt_spread(w, wt_whole3(WEFT_F64, 0, n, 1, 6), "S(0)"), *y;

    y = weft_reshape(t, (int64_t[]){n, 6}, 2); /* squeezes dim 1, not dim 0 of one row per rank */
    WT_ALL(wt_is_placed(y, "S(0)") && wt_has_shape(y, 2, (int)n, 6));
    WT_EQ(weft_local_size(y, 0), 1);
    y = weft_reshape(y, (int64_t[]){n, 2, 3}, 3);
    WT_ALL(wt_is_placed(y, "S(0)"));
    y = weft_reshape(y, (int64_t[]){n * 2, 3}, 2);
    WT_ALL((n == 1 || wt_is_placed(y, "S(0)")) && wt_has_shape(y, 2, 2 * (int)n, 3));
    WT_STILL(w);
    WT_ALL(wt_near_tensors(
        y, weft_reshape(wt_whole3(WEFT_F64, 0, n, 1, 6), (int64_t[]){2 * n, 3}, 2), WT_EXACT));
    t = wt_spread(w, wt_whole(WEFT_F64, 1, 1, 4), "S(0)"); /* rank 0 has the only row */
    y = weft_sum(t, (int[]){0}, 1, false);
    WT_ALL(wt_has_shape(y, 1, 4));
    WT_ALL(
        wt_near_tensors(y, weft_reshape(wt_whole(WEFT_F64, 1, 1, 4), (int64_t[]){4}, 1), WT_EXACT));
    y = weft_reshape(t, (int64_t[]){4}, 1);
    WT_ALL(
        wt_near_tensors(y, weft_reshape(wt_whole(WEFT_F64, 1, 1, 4), (int64_t[]){4}, 1), WT_EXACT));
}

/* Trap 13: dims that do not divide are merged and split all the same, with the right values. */
WT_TEST_TIMES_IN_WORLD(views__of_dims_that_do_not_divide, w, i, 3)
{
    static const char *const layouts[] = {"S(0)", "S(1)", "S(2)"};
    weft_tensor *whole = wt_whole3(WEFT_F64, 0, 5, 3, 7);
    weft_tensor *t = wt_spread(w, whole, layouts[i]);
    const int64_t merged[][2] = {{15, 7}, {5, 21}, {3, 35}};

    for (int j = 0; j < 3; j++)
        WT_ALL(wt_near_tensors(weft_reshape(t, merged[j], 2), weft_reshape(whole, merged[j], 2),
                               WT_EXACT));
    WT_ALL(
        wt_near_tensors(weft_reshape(weft_reshape(t, (int64_t[]){105}, 1), (int64_t[]){7, 5, 3}, 3),
                        weft_reshape(whole, (int64_t[]){7, 5, 3}, 3), WT_EXACT));
}

/* ---- axes of one rank ---- */

/* Trap 26: they send nothing, and still carry the label that was asked for. */
WT_TEST_IN(axis_of_one__changes_labels_only, w, wt_world_open_mesh("one=1,tp=%d", wt_ranks()))
{
    weft_tensor *x =
        weft_set_requires_grad(wt_spread(w, wt_whole(WEFT_F32, 0, 5, 3), "S(0),S(1)"), true);
    static const char *const layouts[] = {"P,S(1)", "R,S(1)", "S(1),S(1)", "S(0),S(1)"};
    weft_tensor *y = x;

    for (int i = 0; i < 4; i++) {
        y = wt_to(y, layouts[i]);
        WT_ALL(wt_is_placed(y, layouts[i]) && weft_data(y) == weft_data(x));
    }
    WT_ALL(wt_is_placed(weft_softmax(x, 0), "S(0),S(1)"));
    WT_ALL(weft_backward(weft_sum_all(y)) == WEFT_OK);
    WT_ALL(wt_is_placed(weft_grad(x), "S(0),S(1)") && wt_local_is_all(weft_grad(x), 1));
    WT_STILL(w);
}

/* ---- what moves ---- */

/* Weakness 10.4-12: from one sharded dim to another each rank sends each other rank its piece, and
 * nothing is gathered. */
WT_TEST_TIMES_IN_WORLD(all_to_all__is_one, w, i, 3)
{
    const int64_t rows[] = {8, 7, 1}, columns[] = {8, 3, 9};
    weft_tensor *t = wt_spread(w, wt_whole(WEFT_F32, 0, rows[i], columns[i]), "S(0)");
    int64_t bytes = 4 * weft_local_size(t, 0) *
                    (columns[i] - weft_chunk_size(columns[i], wt_ranks(), wt_rank()));
    weft_tensor *moved = wt_to(t, "S(1)");

    WT_EQ(weft_ledger_total(w->ledger, WEFT_COLL_ALL_TO_ALL, WEFT_DIRECTION_ANY, NULL).sent,
          wt_ranks() > 1 ? bytes : 0);
    WT_MOVED(w, WEFT_COLL_ALL_TO_ALL, 1);
    WT_ALL(wt_near_tensors(moved, wt_whole(WEFT_F32, 0, rows[i], columns[i]), WT_EXACT));
}

/* Weakness 10.4-10: a shard order survives ops, and what follows from it is known of every rank: no
 * two parts overlap, and together they are the whole. */
WT_TEST(strided__parts_do_not_overlap)
{
    static const char *const layouts[] = {"SS(0,2),S(0)", "S(0)[1],S(0)", "SS(0,3),SS(0,2)"};

    for (int i = 0; i < 3; i++)
        for (int64_t n = 1; n <= 24; n += 5) {
            struct wt_world w = wt_world_open_two_axes();
            weft_tensor *t = wt_spread(&w, counted(n), layouts[i]);
            int times[24] = {0};
            weft_layout layout;

            t = weft_mul_scalar(t, 1);
            WT_ALL(wt_is_placed(t, layouts[i]) && holds_count(t, n));
            WT_ALL(weft_layout_of(&layout, t) == WEFT_OK);
            for (int r = 0; r < wt_ranks(); r++) {
                weft_chunk chunks[24];
                int at[WEFT_MAX_AXES];
                int64_t count;

                WT_ALL(weft_mesh_find(w.mesh, r, at));
                count = weft_layout_chunks(&layout, at, chunks, 24);
                for (int64_t k = 0; k < count; k++)
                    for (int64_t e = 0; e < chunks[k].size[0]; e++)
                        times[chunks[k].offset[0] + e]++;
            }
            for (int64_t e = 0; e < n; e++) WT_EQ(times[e], 1);
            wt_world_close(&w);
        }
}

int main(int argc, char **argv) { return wt_main(argc, argv, "uneven"); }
