/*
 * test_slices.c: a slice of a dim that is cut: only the slice's own elements are sent, and their
 * gradient goes back without messages, whatever cuts the dim.
 */
/* mpi: 4 */
#include <stdlib.h>

#include "support/worlds.h"

/* Placements on a mesh of two axes, of which some cut dim 0. */
static const char *const cuts[] = {"S(0),R",       "R,S(0)",          "S(0),S(0)",
                                   "S(0),S(1)",    "S(0)[1],S(0)[0]", "SS(0,2),S(0)",
                                   "S(1),SS(0,3)", "S(0,balanced),R", "R,S(0|2,1)"};

enum { CUTS = sizeof cuts / sizeof cuts[0], COLUMNS = 6 };

/* How many ranks cut dim 0. */
static int ways_of(const weft_tensor *x)
{
    int ways = 1;

    for (int a = 0; a < 2; a++) {
        weft_placement p = weft_tensor_placement(x, a);
        bool cut = p.kind == WEFT_KIND_SHARD || p.kind == WEFT_KIND_STRIDED;

        if (cut && p.dim == 0) ways *= weft_mesh_axis_size(weft_tensor_mesh(x), a);
    }
    return ways;
}

/* The same placements, replicated where dim 0 was cut. */
static bool is_whole_there(const weft_tensor *y, const weft_tensor *x)
{
    for (int a = 0; a < 2; a++) {
        weft_placement was = weft_tensor_placement(x, a), is = weft_tensor_placement(y, a);

        if (weft_mesh_axis_size(weft_tensor_mesh(x), a) == 1) continue;
        if (was.kind == WEFT_KIND_REPLICATE || was.dim == 0) was = weft_replicate();
        if (!weft_placement_equal(was, is)) return false;
    }
    return true;
}

static weft_tensor *weights(int64_t rows) { return wt_whole(WEFT_F64, 7, rows, COLUMNS); }

static weft_tensor *gradient_of_slice(weft_tensor *x, int64_t from, int64_t to)
{
    weft_tensor *y = weft_slice(x, 0, from, to), *g = weights(to - from);

    if (weft_tensor_mesh(y)) {
        weft_placement whole[] = {weft_replicate(), weft_replicate()};

        g = weft_distribute_tensor(g, weft_tensor_mesh(y), whole, -1);
    }
    return weft_backward(weft_sum_all(weft_mul(y, g))) == WEFT_OK ? weft_grad(x) : NULL;
}

/* One slice [from, to): its values, what it sends, its gradient. */
static void check_slice(struct wt_world *w, weft_tensor *plain, const char *cut, int64_t from,
                        int64_t to)
{
    weft_tensor *x = wt_spread(w, plain, cut), *y;
    weft_tensor *leaf = weft_mul_scalar(plain, 1);
    int ways = ways_of(x);
    int64_t columns, bytes;

    weft_ledger_reset(w->ledger);
    y = weft_slice(x, 0, from, to);
    WT_ALL(y && wt_ranks() > 0 && (ways == 1 || is_whole_there(y, x)));
    columns = weft_local_size(y, 1);
    bytes = ways > 1 ? (to - from) * columns * 8 : 0;
    WT_EQ(weft_ledger_bytes(w->ledger, WEFT_COLL_COUNT, WEFT_DIRECTION_ANY, NULL) <= 2 * bytes, 1);
    WT_EQ(weft_ledger_count(w->ledger, WEFT_COLL_ALL_REDUCE, WEFT_DIRECTION_ANY, NULL),
          weft_ledger_count(w->ledger, WEFT_COLL_COUNT, WEFT_DIRECTION_ANY, NULL));
    WT_ALL(wt_near_tensors(y, weft_slice(plain, 0, from, to), WT_EXACT));
    weft_ledger_reset(w->ledger);
    WT_ALL(weft_set_requires_grad(x, true) && weft_set_requires_grad(leaf, true));
    WT_ALL(wt_near_tensors(gradient_of_slice(x, from, to), gradient_of_slice(leaf, from, to),
                           WT_EXACT));
    WT_ALL(wt_is_placed(weft_grad(x), cut) || wt_ranks() == 1);
}

/* trial 4.5 */
WT_TEST(slice__of_a_cut_dim_sends_itself_only)
{
    const int64_t sizes[] = {36, 24, 75};

    for (int k = 0; k < 3; k++) {
        int64_t n = sizes[k];
        struct wt_world w = wt_world_open_two_axes();
        weft_tensor *plain = wt_whole(WEFT_F64, 0, n, COLUMNS);

        for (int i = 0; i < CUTS; i++) {
            const int64_t starts[] = {0, n / 3, n - 1};

            for (int s = 0; s < 3; s++) {
                check_slice(&w, plain, cuts[i], starts[s], starts[s] + 1);
                if (4 * wt_ranks() <= n && s < 2)
                    check_slice(&w, plain, cuts[i], starts[s], starts[s] + 2);
            }
        }
        wt_world_close(&w);
    }
}

/* trial 4.5: with ranks that hold nothing, one dim only, and each position. */
WT_TEST_TIMES_IN_WORLD(select__of_every_position, w, k, 2)
{
    const int64_t sizes[] = {20, 17};
    weft_tensor *plain = weft_reshape(wt_whole(WEFT_F32, 0, sizes[k], 1), &sizes[k], 1);
    weft_tensor *x = wt_spread(w, plain, "S(0)");

    for (int64_t i = 0; i < sizes[k]; i++) {
        weft_tensor *y = weft_select(x, 0, i);

        WT_ALL(y && wt_is_placed(y, "R") && weft_item(y) == weft_item(weft_select(plain, 0, i)));
        WT_MOVED(w, WEFT_COLL_ALL_REDUCE, 1);
    }
}

/* trial 4.5: forward one position and backward nothing, where everything was sent twice. */
WT_TEST_IN_WORLD(select__costs_a_position_forward_and_backward, w)
{
    weft_tensor *plain = wt_whole3(WEFT_F32, 0, 2, 36, 12), *x = wt_spread(w, plain, "S(1)"), *y;
    weft_ledger_sum sum;

    WT_ALL(weft_set_requires_grad(x, true) != NULL);
    y = weft_select(x, 1, -1);
    sum = weft_ledger_total(w->ledger, WEFT_COLL_COUNT, WEFT_DIRECTION_FORWARD, NULL);
    WT_EQ(sum.bytes, wt_ranks() > 1 ? 2 * 12 * 4 : 0);
    WT_EQ(sum.count, wt_ranks() > 1);
    wt_moved(w, WEFT_COLL_COUNT);
    WT_EQ(weft_backward(weft_sum_all(weft_square(y))), WEFT_OK);
    WT_ALL(wt_is_placed(weft_grad(x), "S(1)"));
    WT_STILL(w);
}

/* Partial sums pass, and what cannot be added up goes the other way; the guard sees what is sent.
 */
WT_TEST_IN(slice__of_other_operands, w, wt_world_open_two_axes())
{
    weft_tensor *ints = wt_whole(WEFT_I64, 0, 40, 3), *flags = weft_gt(ints, weft_neg(ints));
    weft_tensor *plain = wt_whole(WEFT_F64, 0, 40, 3), *x, *y;

    WT_ALL(wt_near_tensors(weft_slice(wt_spread(w, ints, "S(0),S(0)"), 0, 3, 4),
                           weft_slice(ints, 0, 3, 4), WT_EXACT));
    WT_ALL(wt_near_tensors(weft_slice(wt_spread(w, flags, "S(0),S(0)"), 0, 39, 40),
                           weft_slice(flags, 0, 39, 40), WT_EXACT));
    x = weft_redistribute(wt_spread(w, plain, "S(1),S(0)"),
                          (weft_placement[]){weft_partial(WEFT_SUM), weft_shard(0)});
    y = weft_slice(x, 0, 20, 21);
    WT_ALL(y && weft_is_partial(weft_tensor_placement(y, 0)));
    WT_ALL(wt_near_tensors(y, weft_slice(plain, 0, 20, 21), WT_EXACT));
    x = wt_spread(w, plain, "R,S(0)");
    weft_guard_open(WEFT_GUARD_ERROR);
    y = weft_slice(x, 0, 1, 2);
    weft_guard_close();
    WT_ALL((y != NULL) == (weft_mesh_axis_size(w->mesh, 1) == 1));
    if (!y) WT_FAILED(WEFT_ERR_LAYOUT, "slice");
}

int main(int argc, char **argv) { return wt_main(argc, argv, "slices"); }
