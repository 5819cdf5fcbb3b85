/*
 * test_redistribute.c: from one layout to another through the public functions: values, gradients
 * and collectives. IDs are those of the acceptance cases; steps by themselves:
 * test_plan.c.
 */
/* mpi: 1 2 3 4 */
#include <string.h>

#include "dtensor/dispatch/redistribute_op.h"
#include "support/worlds.h"

/* ---- redistribute: values and counts ---- */

struct move {
    const char *from, *to;
    weft_coll forward, backward; /* WEFT_COLL_COUNT: none */
};

/* RED-01, RED-02, RED-03, RED-06, RED-11, RED-14, RED-16 (there is no complex dtype; f64 moves as
 * many bytes) */
static const struct move moves[] = {
    {"S(0)", "R", WEFT_COLL_ALL_GATHER, WEFT_COLL_COUNT},
    {"S(1)", "R", WEFT_COLL_ALL_GATHER, WEFT_COLL_COUNT},
    {"R", "R", WEFT_COLL_COUNT, WEFT_COLL_COUNT},
    {"R", "S(0)", WEFT_COLL_COUNT, WEFT_COLL_ALL_GATHER},
    {"R", "S(1)", WEFT_COLL_COUNT, WEFT_COLL_ALL_GATHER},
    {"S(0)", "S(1)", WEFT_COLL_ALL_TO_ALL, WEFT_COLL_ALL_TO_ALL},
    {"S(1)", "S(0)", WEFT_COLL_ALL_TO_ALL, WEFT_COLL_ALL_TO_ALL},
    {"S(1)", "S(-1)", WEFT_COLL_COUNT, WEFT_COLL_COUNT},
};

static void check_move(const struct move *m, weft_dtype dtype, int64_t rows, int64_t columns)
{
    struct wt_world w = wt_world_open();
    weft_tensor *whole = wt_whole(dtype, 0, rows, columns), *g = wt_whole(dtype, 1, rows, columns);
    weft_tensor *x = weft_set_requires_grad(wt_spread(&w, whole, m->from), true);
    weft_tensor *y = wt_to(x, m->to);

    WT_MOVED(&w, m->forward, m->forward != WEFT_COLL_COUNT);
    WT_ALL(wt_is_placed(y, strcmp(m->to, "S(-1)") == 0 ? "S(1)" : m->to) &&
           wt_near_shard(y, whole, WT_EXACT));
    WT_ALL(weft_backward_from(y, wt_spread(&w, g, m->to)) == WEFT_OK);
    WT_ALL(wt_is_placed(weft_grad(x), m->from) && wt_near_shard(weft_grad(x), g, WT_EXACT));
    WT_MOVED(&w, m->backward, m->backward != WEFT_COLL_COUNT);
    wt_world_close(&w);
}

WT_TEST(redistribute__moves_once_and_back)
{
    static const int64_t sizes[][2] = {{12, 3}, {13, 3}, {14, 3}, {3, 12}, {3, 13},
                                       {3, 14}, {8, 8},  {8, 5},  {5, 8},  {5, 5}};

    for (size_t m = 0; m < sizeof moves / sizeof *moves; m++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            check_move(&moves[m], s % 2 ? WEFT_F64 : WEFT_F32, sizes[s][0], sizes[s][1]);
}

/* RED-14 */
WT_TEST_TIMES_IN_WORLD(redistribute__moves_three_dims, w, i, 4)
{
    static const int64_t sizes[][3] = {{8, 8, 8}, {5, 3, 7}};
    const int64_t *n = sizes[i / 2];
    weft_tensor *whole = wt_whole3(WEFT_F32, 0, n[0], n[1], n[2]);
    weft_tensor *y = wt_to(wt_spread(w, whole, i % 2 ? "S(1)" : "S(0)"), i % 2 ? "S(0)" : "S(1)");

    WT_MOVED(w, WEFT_COLL_ALL_TO_ALL, 1);
    WT_ALL(wt_near_shard(y, whole, WT_EXACT));
}

/* RED-08: one reduce-scatter or one all-reduce, chunks as large as they come. */
WT_TEST_TIMES_IN_WORLD(redistribute__partial_sums_are_added_once, w, i, 5 * 3 * 7)
{
    static const weft_dtype dtypes[] = {WEFT_F32, WEFT_F64, WEFT_BF16, WEFT_I32, WEFT_I64};
    static const char *const to[] = {"R", "S(0)", "S(1)"};
    static const int64_t sizes[][2] = {{12, 3}, {13, 3}, {14, 3}, {3, 12},
                                       {3, 13}, {3, 14}, {1, 5}};
    const char *target = to[i % 3];
    const int64_t *size = sizes[i / 15];
    weft_tensor *ones = weft_full(dtypes[i / 3 % 5], size, 2, 1);
    weft_tensor *y = wt_to(wt_partial(w, ones, WEFT_SUM), target);

    WT_MOVED(w, i % 3 ? WEFT_COLL_REDUCE_SCATTER : WEFT_COLL_ALL_REDUCE, 1);
    WT_ALL(wt_is_placed(y, target) && wt_local_is_all(y, wt_ranks()));
    for (int d = 0; d < 2; d++)
        WT_EQ(weft_local_size(y, d),
              i % 3 == d + 1 ? weft_chunk_size(size[d], wt_ranks(), wt_rank()) : size[d]);
}

WT_TEST_TIMES_IN_WORLD(redistribute__gradient_of_a_partial_sum_is_replicated, w, i, 3)
{
    static const char *const to[] = {"R", "S(0)", "S(1)"};
    weft_tensor *a = weft_set_requires_grad(wt_whole(WEFT_F64, 0, 5, 7), true);
    weft_tensor *y = wt_to(wt_partial(w, a, WEFT_SUM), to[i]);

    wt_moved(w, WEFT_COLL_COUNT);
    WT_ALL(weft_backward_from(y, wt_spread(w, wt_whole(WEFT_F64, 1, 5, 7), to[i])) == WEFT_OK);
    WT_ALL(wt_near_tensors(weft_grad(a), wt_whole(WEFT_F64, 1, 5, 7), WT_EXACT));
    WT_MOVED(w, i ? WEFT_COLL_ALL_GATHER : WEFT_COLL_COUNT, i > 0);
}

/* RED-04: nothing to do, forward and backward; a replicated gradient stays what it is */
WT_TEST_TIMES_IN_WORLD(redistribute__partial_to_partial_is_the_tensor_itself, w, i, 4)
{
    static const int64_t rows[] = {12, 3};
    weft_tensor *ones = wt_constant(rows[i / 2], 5, 1), *t, *g;

    t = weft_set_requires_grad(wt_partial(w, ones, WEFT_SUM), true);
    g = i % 2 ? wt_spread(w, ones, "R") : wt_partial(w, ones, WEFT_SUM);
    WT_ALL(wt_to(t, "P") == t);
    WT_ALL(weft_backward_from(wt_to(t, "P"), g) == WEFT_OK);
    WT_ALL(wt_is_placed(weft_grad(t), i % 2 ? "R" : "P") && wt_local_is_all(weft_grad(t), 1));
    WT_STILL(w);
}

/* RED-05: the gradient that to_local declares as partial is reduced once */
WT_TEST_TIMES_IN_WORLD(redistribute__gradient_declared_partial_is_reduced, w, i, 2)
{
    static const int64_t rows[] = {12, 5};
    weft_tensor *x = weft_set_requires_grad(wt_spread(w, wt_constant(rows[i], 3, 2), "R"), true);
    weft_placement partial = weft_partial(WEFT_SUM);
    weft_tensor *y = weft_to_local(wt_to(x, "R"), &partial);

    WT_STILL(w);
    WT_ALL(weft_backward_from(y, wt_constant(rows[i], 3, 1)) == WEFT_OK);
    WT_ALL(wt_local_is_all(weft_grad(x), wt_ranks()));
    WT_MOVED(w, WEFT_COLL_ALL_REDUCE, 1);
}

/* RED-09, RED-22, RED-30: what would become partial; nothing is sent, and the next call works */
WT_TEST(redistribute__refuses_what_would_be_partial)
{
    static const char *const one[][2] = {{"R", "P"},         {"R", "P(max)"}, {"S(0)", "P(avg)"},
                                         {"S(0)", "P(max)"}, {"P", "P(avg)"}, {"P(max)", "P"}},
                             *const two[][2] = {{"S(0),R", "S(0),P"},
                                                {"S(0),R", "R,P"},
                                                {"S(0),P(product)", "R,P"},
                                                {"S(0),R", "P,P(avg)"}};

    for (int i = 0; i < 10; i++) {
        struct wt_world w = i < 6 ? wt_world_open() : wt_world_open_mesh("dp=%d,tp=1", wt_ranks());
        const char *const *names = i < 6 ? one[i] : two[i - 6];
        weft_placement p[WEFT_MAX_AXES];
        weft_tensor *t;

        weft_placements_parse(p, WEFT_MAX_AXES, names[0]);
        t = weft_from_local(wt_constant(2, 3, 1), w.mesh, p, NULL);
        WT_ALL(t && !wt_to(t, names[1]));
        WT_FAILED(WEFT_ERR_LAYOUT, "Can not redistribute");
        WT_FAILS(
            weft_redistribute_with(t, (weft_placements_parse(p, WEFT_MAX_AXES, names[1]), p), NULL),
            WEFT_ERR_LAYOUT, "Can not redistribute");
        WT_STILL(&w);
        WT_ALL(wt_to(t, i < 6 ? "R" : "R,R") != NULL);
        wt_world_close(&w);
    }
}

/* RED-18 */
WT_TEST_TIMES_IN_WORLD(redistribute__reduces_as_the_placement_says, w, i, 4)
{
    int n = wt_ranks();
    const struct {
        weft_reduce reduce;
        double local, want;
    } rows[] = {{WEFT_AVG, wt_rank() + 1, (n + 1) / 2.0},
                {WEFT_MAX, wt_rank() + 1, n},
                {WEFT_MIN, wt_rank() + 1, 1},
                {WEFT_PRODUCT, 2, 1 << n}};
    weft_tensor *t = wt_partial(w, wt_constant(3, 5, rows[i].local), rows[i].reduce);

    WT_ALL(wt_local_is_all(wt_to(t, "R"), rows[i].want));
    WT_MOVED(w, WEFT_COLL_ALL_REDUCE, 1);
    WT_ALL(wt_local_is_all(wt_to(t, "S(0)"), rows[i].want));
}

/* RED-21 */
WT_TEST_IN_WORLD(redistribute__empty_tensors_keep_their_shape, w)
{
    weft_tensor *t = wt_to(wt_spread(w, wt_constant(0, 3, 1), "S(0)"), "R");

    WT_ALL(wt_has_shape(t, 2, 0, 3) && wt_is_placed(t, "R"));
    WT_EQ(weft_local_numel(t), 0);
    t = wt_to(wt_to(t, "S(1)"), "S(0)");
    WT_ALL(wt_has_shape(weft_full_tensor(t), 2, 0, 3));
}

/* RED-30: a shard is a term of a sum when the rest is filled with zeros. */
WT_TEST_IN_WORLD(redistribute__shard_to_partial_sum_is_local, w)
{
    weft_tensor *x =
        weft_set_requires_grad(wt_spread(w, wt_whole(WEFT_F32, 0, 5, 3), "S(0)"), true);
    weft_tensor *y = wt_to(x, "P");

    WT_STILL(w);
    WT_EQ(weft_local_numel(y), 15);
    WT_ALL(wt_near_tensors(y, wt_whole(WEFT_F32, 0, 5, 3), WT_EXACT));
    wt_moved(w, WEFT_COLL_COUNT);
    WT_ALL(weft_backward_from(y, wt_spread(w, wt_constant(5, 3, 1), "R")) == WEFT_OK);
    WT_ALL(wt_is_placed(weft_grad(x), "S(0)") && wt_local_is_all(weft_grad(x), 1));
    WT_STILL(w);
}

WT_TEST_IN_WORLD(redistribute__refuses, w)
{
    weft_tensor *t = wt_spread(w, wt_constant(4, 3, 1), "S(0)");

    WT_FAILS(wt_to(t, "S(2)"), WEFT_ERR_LAYOUT, "redistribute");
    WT_FAILS(wt_to(wt_constant(4, 3, 1), "S(0)"), WEFT_ERR_ARG, "plain");
    WT_STILL(w);
}

/* DT-21 */
WT_TEST_TIMES_IN_WORLD(full_tensor__is_the_whole_on_every_rank, w, i, 3)
{
    static const char *const placements[] = {"R", "S(0)", "S(1)"};
    weft_tensor *whole = wt_whole(WEFT_F64, 0, 5, 7);
    weft_tensor *x = weft_set_requires_grad(wt_spread(w, whole, placements[i]), true);
    weft_tensor *full = weft_full_tensor(x);
    double *want = wt_values(whole);

    WT_MOVED(w, WEFT_COLL_ALL_GATHER, i > 0);
    WT_ALL(weft_tensor_mesh(full) == NULL && wt_near_full(full, want, WT_EXACT));
    WT_ALL(weft_backward(weft_sum_all(weft_mul(full, full))) == WEFT_OK);
    for (int e = 0; e < 35; e++) want[e] *= 2;
    WT_ALL(wt_near_local(weft_grad(x), want, WT_EXACT));
    WT_STILL(w);
    free(want);
}

/* ---- two mesh axes ---- */

/* DT-33: every pair of placements, sizes that split evenly and not. */
WT_TEST_TIMES_IN(redistribute__on_two_axes_keeps_the_value, w, i, 64 * 4, wt_world_open_two_axes())
{
    static const char *const all[] = {"R,R",       "S(0),R",    "R,S(1)",    "S(0),S(0)",
                                      "S(0),S(1)", "S(1),S(0)", "S(1),S(1)", "R,S(0)"};
    static const int64_t sizes[][2] = {{8, 8}, {9, 5}, {3, 5}, {1, 3}};
    weft_tensor *whole = wt_whole(WEFT_F32, 0, sizes[i / 64][0], sizes[i / 64][1]);
    weft_tensor *y = wt_to(wt_spread(w, whole, all[i % 8]), all[i / 8 % 8]);

    WT_ALL(wt_is_placed(y, all[i / 8 % 8]) && wt_near_shard(y, whole, WT_EXACT));
}

/* RED-25, RED-26: the peer's counts are never passed */
WT_TEST_TIMES_IN(redistribute__on_two_axes_takes_few_steps, w, i, wt_ranks() == 4 ? 6 : 0,
                 wt_world_open_mesh("dp=2,tp=2"))
{
    static const struct {
        const char *from, *to;
        int most;
    } rows[] = {{"S(0),S(1)", "S(0),S(0)", 1}, {"S(0),S(1)", "S(1),S(0)", 2},
                {"S(0),S(0)", "S(1),S(1)", 2}, {"S(0),S(0)", "R,R", 2},
                {"S(0),R", "R,R", 1},          {"R,R", "S(0),S(1)", 0}};
    WT_ALL(wt_to(wt_spread(w, wt_constant(8, 8, 1), rows[i].from), rows[i].to) != NULL);
    WT_ALL(wt_moved(w, WEFT_COLL_COUNT) <= rows[i].most);
}

/* RED-23, RED-31: an axis of one rank never communicates, but its placement changes. */
WT_TEST_TIMES_IN(redistribute__axis_of_one_rank_only_changes_labels, w, i, 6,
                 wt_world_open_mesh("tp=%d,one=1", wt_ranks()))
{
    static const char *const from[] = {"S(0),S(1)", "S(0),R"}, *const to[] = {"S(0),S(0)",
                                                                              "S(0),S(1)",
                                                                              "S(0),R"};
    weft_tensor *whole = wt_whole(WEFT_F32, 0, 5, 3);
    weft_tensor *y = wt_to(wt_spread(w, whole, from[i % 2]), to[i / 2]);

    WT_ALL(wt_is_placed(y, to[i / 2]) && wt_near_shard(y, whole, WT_EXACT));
    WT_STILL(w);
}

/* Inside the library only: what a rank adds to a partial maximum or minimum of a shard is the
 * dtype's own extreme. */
WT_TEST_IN_WORLD(redistribute__a_shard_becomes_a_partial_extreme, w)
{
    static const weft_dtype dtypes[] = {WEFT_F32, WEFT_F64, WEFT_BF16, WEFT_I32, WEFT_I64};
    static const char *const extremes[] = {"P(max)", "P(min)"};

    for (int i = 0; i < 10; i++) {
        weft_dtype dtype = dtypes[i / 2];
        weft_tensor *x = weft_mul_scalar(weft_square(wt_whole(WEFT_F64, 0, 5, 3)), 9), *t;

        x = weft_cast(i % 2 == 0 ? weft_neg(x) : x, dtype);
        t = wf_redistribute(wt_spread(w, x, "S(0)"), weft_placements(w->mesh, extremes[i % 2]));
        wt_note("%s of %s", extremes[i % 2], weft_dtype_name(dtype));
        WT_ALL(t && wt_near_tensors(wt_to(t, "R"), x, WT_EXACT));
    }
}

int main(int argc, char **argv) { return wt_main(argc, argv, "redistribute"); }
