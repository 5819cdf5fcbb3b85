/*
 * test_several_axes.c: redistribution on meshes of two and three axes: values and collectives of
 * the acceptance cases. Where the peer gathers to make way for another axis, one all-to-all moves
 * every element once: fewer collectives than the cases ask for.
 */
/* ranks: 4 8 */
/* mpi: 4 8 */
#include <stdlib.h>
#include <string.h>

#include "redistribute/shapes.h"
#include "support/greedy_planner.h"
#include "support/worlds.h"
#include "tensor/tensor.h"

/* A mesh of one axis more in front where there are more ranks than a case needs. */
static struct wt_world open_square(void)
{
    return wt_ranks() == 4 ? wt_world_open_mesh("a=2,b=2") : wt_world_open_mesh("a=4,b=2");
}

/* From a layout to another: the parts are those of a direct distribution, in so many collectives.
 */
static void check_move(struct wt_world *w, const struct shape *shape, const char *from,
                       const char *to, int collectives)
{
    weft_tensor *whole = shape_whole(shape, false), *y;

    wt_moved(w, WEFT_COLL_COUNT);
    y = wt_to(shape_spread(w->mesh, whole, from), to);
    wt_note("%s to %s", from, to);
    WT_EQ(wt_moved(w, WEFT_COLL_COUNT), collectives);
    WT_ALL(wt_is_placed(y, to) && shape_same_local(y, shape_spread(w->mesh, whole, to)));
    wt_note(" ");
}

/* RED-24: rows of ranks by a first axis, then the second */
WT_TEST_TIMES_IN(nested_shards__are_chunks_of_chunks, w, i, wt_ranks() == 4 ? 8 : 0, open_square())
{
    static const struct {
        int64_t rows, columns;
        int local[4];
    } cases[] = {
        {10, 5, {3, 2, 3, 2}}, {9, 5, {3, 2, 2, 2}}, {3, 5, {1, 1, 1, 0}}, {1, 3, {1, 0, 0, 0}}};
    weft_tensor *whole = wt_whole(WEFT_F32, 0, cases[i / 2].rows, cases[i / 2].columns);
    weft_tensor *t = wt_spread(w, whole, i % 2 ? "S(0),S(1)" : "S(0),S(0)");

    if (i % 2 == 0) WT_EQ(weft_local_size(t, 0), cases[i / 2].local[wt_rank()]);
    WT_ALL(wt_near_tensors(t, whole, WT_EXACT));
}

/* RED-25, RED-26, RED-27, RED-28 */
WT_TEST_IN(redistribute__two_axes_take_one_exchange, w, open_square())
{
    static const struct shape shapes[] = {{2, {8, 8}}, {3, {8, 8, 8}}, {2, {8, 5}},
                                          {2, {5, 8}}, {2, {5, 5}},    {3, {7, 3, 2}}};
    static const struct {
        const char *from, *to;
        int dims;
    } moves[] = {{"S(0),S(1)", "S(0),S(0)", 2}, {"S(0),S(1)", "S(1),S(0)", 2},
                 {"S(0),S(0)", "S(1),S(1)", 2}, {"S(0),S(2)", "S(1),S(0)", 3},
                 {"S(1),S(1)", "S(1),S(2)", 3}, {"S(0),S(0)", "S(0),R", 2},
                 {"S(0),R", "R,S(0)", 2},       {"S(0),S(0)", "R,S(0)", 2}};

    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++) {
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            if (shapes[s].ndim >= moves[i].dims)
                check_move(w, &shapes[s], moves[i].from, moves[i].to, 1);
    }
}

/* RED-30: what is allowed; refusals are in test_redistribute.c */
WT_TEST_TIMES_IN(redistribute__shards_become_a_partial_sum, w, i, 2, open_square())
{
    static const struct shape shapes[] = {{2, {6, 6}}, {2, {5, 7}}};
    weft_tensor *whole = shape_whole(&shapes[i], false);
    weft_tensor *y = wt_to(shape_spread(w->mesh, whole, "S(0),S(1)"), "R,P");

    WT_MOVED(w, WEFT_COLL_ALL_GATHER, 1);
    WT_ALL(wt_is_placed(y, "R,P") && weft_local_numel(y) == weft_numel(whole));
    WT_ALL(wt_near_tensors(y, whole, WT_EXACT));
}

/* RED-23, RED-31: an axis of one rank changes its label only; a partial sum over it is the value.
 */
WT_TEST_TIMES_IN(redistribute__axes_of_one_rank_never_communicate, w, i, 18,
                 wt_world_open_mesh("a=%d,b=1", wt_ranks()))
{
    static const char *const from[] = {"S(1)", "R", "P"}, *const to[] = {"S(0)", "S(1)", "R"};
    static const int64_t rows[] = {8, 5};
    weft_tensor *whole = wt_whole(WEFT_F32, 0, rows[i / 9], 6), *x, *y;
    char source[16], target[16];
    weft_placement p[2];

    snprintf(source, sizeof source, "S(0),%s", from[i % 3]);
    snprintf(target, sizeof target, "S(0),%s", to[i / 3 % 3]);
    weft_placements_parse(p, 2, source);
    x = weft_from_local(shape_local(wt_spread(w, whole, "S(0),R"), 1), w->mesh, p,
                        (int64_t[]){rows[i / 9], 6});
    y = wt_to(x, target);
    WT_ALL(wt_is_placed(y, target) && shape_same_local(y, wt_spread(w, whole, target)));
    WT_STILL(w);
    WT_ALL(weft_data(y) == weft_data(x)); /* not even copied */
}

/* RED-49 */
WT_TEST_IN(redistribute__partial_rows_are_scattered, w, open_square())
{
    weft_placement p[2] = {weft_partial(WEFT_SUM), weft_shard(0)};
    weft_tensor *local = wt_constant(2, 6, wt_rank() + 1);
    int64_t shape[2] = {4, 6};
    weft_tensor *y = wt_to(weft_from_local(local, w->mesh, p, shape), "S(0),R");
    int owners = weft_mesh_axis_size(w->mesh, 0);
    double got[24];

    WT_ALL(weft_read_f64(y, got, 24) == WEFT_OK);
    for (int64_t i = 0; i < weft_local_numel(y); i++) {
        int64_t row = weft_local_offset(y, 0) + i / 6;
        double sum = 0;

        for (int other = 0; other < owners; other++) sum += (double)(2 * other + row / 2 + 1);
        WT_ALL(got[i] == sum);
    }
    if (wt_ranks() == 4) WT_ALL(wt_local_is_all(y, wt_rank() < 2 ? 4 : 6));
}

/* RED-15: the parts that are put together and those that are cut, by one all-to-all */
WT_TEST_IN(redistribute__along_one_of_two_axes, w, open_square())
{
    int ways = weft_mesh_axis_size(w->mesh, 0);
    weft_tensor *whole = wt_whole(WEFT_F32, 0, 12 * ways, 2 * ways), *y;

    y = wt_to(wt_spread(w, whole, "S(0),R"), "S(1),R");
    WT_MOVED(w, WEFT_COLL_ALL_TO_ALL, 1);
    WT_EQ(weft_local_size(y, 0), 12 * ways);
    WT_EQ(weft_local_size(y, 1), 2);
    WT_EQ(weft_local_stride(y, 0), 2);
    WT_EQ(weft_local_stride(y, 1), 1);
    WT_ALL(shape_same_local(y, wt_spread(w, whole, "S(1),R")));
}

/* RED-47: rows that lie one after another stay where they arrive, others are put in order */
WT_TEST_IN(redistribute__gathered_dims_are_put_in_order, w, open_square())
{
    static const struct {
        struct shape shape;
        const char *from, *to;
    } cases[] = {{{3, {1, 64, 48}}, "S(1),S(1)", "S(1),R"},
                 {{3, {4, 64, 48}}, "S(1),S(1)", "S(1),R"},
                 {{3, {1, 64, 48}}, "S(2),S(2)", "S(2),R"},
                 {{3, {1, 9, 7}}, "S(1),S(1)", "S(1),R"}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_move(w, &cases[i].shape, cases[i].from, cases[i].to, 1);
}

/* ---- three axes ---- */

/* RED-34: one exchange each where the peer needs two gathers and more */
WT_TEST_TIMES_IN(orders__lead_to_each_other, w, i, wt_ranks() == 8 ? 8 : 0,
                 wt_world_open_mesh("a=2,b=2,c=2"))
{
    static const struct shape shapes[] = {{3, {8, 8, 8}}, {3, {11, 3, 5}}};
    static const char *const moves[][2] = {
        {"S(0),S(0),S(0)", "R,S(0),S(0)"},
        {"S(0)[1],S(0)[0],S(0)[2]", "R,S(0),S(0)"},
        {"S(0)[1],S(0)[0],S(0)[2]", "S(0),S(0),R"},
        {"S(0),S(0),R", "R,S(1),S(0)"},
    };
    check_move(w, &shapes[i / 4], moves[i % 4][0], moves[i % 4][1], 1);
}

/* Move by one axis at a time; the plan is run as the library's would be. */
static weft_tensor *moved_greedily(weft_tensor *x, const weft_tensor *like)
{
    struct wf_redist_plan *plan =
        wf_redist_plan_with_planner(wt_greedy_steps, x->layout, like->layout);
    struct wf_block *block = wf_redist_run(plan, x->data);

    wf_redist_plan_free(plan);
    return wf_tensor_new(like->layout, block, block->data, "test");
}

/* RED-35: both planners arrive at the same */
WT_TEST_TIMES_IN(planners__agree_on_the_result, w, i, wt_ranks() == 8 ? 2 : 0,
                 wt_world_open_mesh("a=2,b=2,c=2"))
{
    static const struct shape shapes[] = {{2, {8, 8}}, {3, {9, 5, 2}}};
    weft_placement to[] = {weft_shard(1), weft_shard(1), weft_shard(1)};
    weft_tensor *whole = shape_whole(&shapes[i], false),
                *x = shape_spread(w->mesh, whole, "S(0),S(0),S(0)");
    weft_tensor *y = weft_redistribute(x, to), *z;

    WT_MOVED(w, WEFT_COLL_ALL_TO_ALL, 1);
    z = moved_greedily(x, y);
    WT_ALL(wt_moved(w, WEFT_COLL_COUNT) >= 1);
    WT_ALL(shape_same_local(y, z) && wt_is_placed(z, "S(1),S(1),S(1)"));
    WT_ALL(shape_same_local(y, shape_spread(w->mesh, whole, "S(1),S(1),S(1)")));
}

/* RED-36 */
WT_TEST_TIMES_IN(orders__all_hold_the_value, w, s, wt_ranks() == 8 ? 4 : 0,
                 wt_world_open_mesh("a=2,b=2,c=2"))
{
    static const struct shape shapes[] = {
        {2, {16, 8}}, {3, {8, 16, 32}}, {2, {17, 5}}, {4, {33, 16, 8, 1}}};
    static const int count[] = {0, 0, 24, 60, 120};
    weft_placement orders[SHAPE_MOST_ORDERS][WEFT_MAX_AXES];
    weft_tensor *whole = shape_whole(&shapes[s], false), *turning = NULL;
    int n = shape_orders(orders, shapes[s].ndim), wrong = 0;

    WT_EQ(n, count[shapes[s].ndim]);
    for (int i = 0; i < n; i++) {
        weft_scope *scope = weft_scope_open();
        weft_tensor *t = weft_distribute_tensor(whole, w->mesh, orders[i], -1);

        turning = weft_redistribute(turning ? turning : t, orders[i]);
        wrong += !shape_same_local(t, turning) || !wt_near_tensors(t, whole, WT_EXACT);
        turning = weft_scope_return(scope, turning);
    }
    WT_EQ(wrong, 0);
    WT_ALL(wt_near_tensors(turning, whole, WT_EXACT));
}

/* A tensor with these placements and its value: shards of `whole`, terms that are multiples. */
static weft_tensor *with_terms(struct wt_world *w, weft_tensor *whole, const weft_placement *p,
                               double *value)
{
    weft_placement spread[WEFT_MAX_AXES];
    int64_t shape[4];
    double factor = 1;

    *value = 1;
    for (int a = 0; a < 3; a++) {
        spread[a] = weft_is_partial(p[a]) ? weft_replicate() : p[a];
        if (!weft_is_partial(p[a])) continue;
        factor *= 1 + weft_mesh_coordinate(w->mesh, a);
        if (p[a].reduce == WEFT_SUM) *value *= 3; /* 1 + 2; of positive terms 1 is the least */
    }
    for (int d = 0; d < weft_ndim(whole); d++) shape[d] = weft_size(whole, d);
    return weft_from_local(shape_local(weft_distribute_tensor(whole, w->mesh, spread, -1), factor),
                           w->mesh, p, shape);
}

static void check_terms(struct wt_world *w, weft_tensor *whole, const weft_placement *p)
{
    weft_placement orders[SHAPE_MOST_ORDERS][WEFT_MAX_AXES];
    int n = shape_orders(orders, weft_ndim(whole)), wrong = 0;
    weft_scope *scope = weft_scope_open();
    double value, *want = wt_values(whole);
    weft_tensor *x = with_terms(w, whole, p, &value);

    for (int64_t i = 0; i < weft_numel(whole); i++) want[i] *= value;
    for (int i = 0; i < n; i++) {
        weft_scope *inner = weft_scope_open();

        wrong += !wt_near_full(weft_redistribute(x, orders[i]), want, WT_WITHIN(1e-6));
        weft_scope_close(inner);
    }
    WT_EQ(wrong, 0);
    free(want);
    weft_scope_close(scope);
}

/* RED-37 */
WT_TEST_TIMES_IN(partial__any_terms_to_any_order, w, s, wt_ranks() == 8 ? 3 : 0,
                 wt_world_open_mesh("a=2,b=2,c=2"))
{
    static const struct shape shapes[] = {{2, {16, 8}}, {2, {17, 5}}, {3, {13, 2, 13}}};
    weft_placement kinds[] = {weft_shard(0),          weft_shard(1),          weft_shard(2),
                              weft_partial(WEFT_SUM), weft_partial(WEFT_MIN), weft_replicate()};
    weft_tensor *whole = shape_whole(&shapes[s], true);

    for (int code = 0; code < 64; code++) {
        weft_placement p[3];
        int n = 0;

        if (__builtin_popcount((unsigned)code) != 3) continue;
        for (int k = 0; k < 6; k++)
            if (code >> k & 1) p[n++] = kinds[k];
        if ((code >> 2 & 1 && shapes[s].ndim < 3) || (code >> 3 & 3) == 3) continue;
        check_terms(w, whole, p);
    }
}

/* RED-37, RED-45: what may be partial together */
WT_TEST_TIMES_IN(partial__mixed_reductions_are_refused, w, i, 4, open_square())
{
    static const struct {
        weft_reduce a, b;
        bool allowed;
    } pairs[] = {{WEFT_SUM, WEFT_MIN, false},
                 {WEFT_SUM, WEFT_MAX, false},
                 {WEFT_MAX, WEFT_MIN, false},
                 {WEFT_SUM, WEFT_AVG, true}};
    weft_placement p[2] = {weft_partial(pairs[i].a), weft_partial(pairs[i].b)};
    weft_tensor *t = weft_from_local(wt_constant(2, 3, 4), w->mesh, p, NULL);

    if (!pairs[i].allowed) {
        WT_FAILS(t, WEFT_ERR_LAYOUT, "mixed partial reductions are not supported");
    } else {
        WT_ALL(wt_is_all(t, 4 * weft_mesh_axis_size(w->mesh, 0)));
    }
}

/* ---- flattened axes ---- */

struct flat_case {
    const char *from, *to;
    weft_coll coll;
    int count;
};

static void check_flat(const char *mesh, const char *flat, const struct flat_case *c)
{
    struct wt_world w = wt_world_open_mesh("%s", mesh);
    weft_mesh *sub = weft_mesh_sub(w.mesh, flat), *merged = weft_mesh_flatten(sub, NULL);
    struct shape shape = {3, {16, 16, 16}};
    weft_tensor *ones = weft_full(WEFT_F32, shape.size, 3, 1), *x, *y;
    weft_placement p[WEFT_MAX_AXES], spread[WEFT_MAX_AXES];
    int n = weft_placements_parse(p, WEFT_MAX_AXES, c->from);
    double value = 1;

    for (int a = 0; a < n; a++) {
        spread[a] = weft_is_partial(p[a]) ? weft_replicate() : p[a];
        if (weft_is_partial(p[a])) value *= weft_mesh_axis_size(w.mesh, a);
    }
    x = weft_from_local(shape_local(weft_distribute_tensor(ones, w.mesh, spread, -1), 1), w.mesh, p,
                        shape.size);
    wt_moved(&w, WEFT_COLL_COUNT);
    y = wt_to(x, c->to);
    wt_note("%s to %s", c->from, c->to);
    WT_EQ(wt_moved(&w, c->coll), c->count);
    wt_note(" ");
    WT_ALL(wt_is_placed(y, c->to) && wt_is_all(y, value));
    WT_RELEASE(weft_mesh_release, merged, sub);
    wt_world_close(&w);
}

/* RED-39, RED-41 */
WT_TEST(flattened__both_axes_of_two)
{
    static const struct flat_case cases[] = {{"P,P", "R,R", WEFT_COLL_ALL_REDUCE, 1},
                                             {"P,P", "R,R", WEFT_COLL_COUNT, 1},
                                             {"S(0),S(0)", "R,R", WEFT_COLL_ALL_GATHER, 1},
                                             {"S(0),S(0)", "R,R", WEFT_COLL_COUNT, 1},
                                             {"S(0),S(1)", "R,R", WEFT_COLL_ALL_GATHER, 2}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char mesh[32];

        snprintf(mesh, sizeof mesh, "A=%d,B=2", wt_ranks() / 2);
        check_flat(mesh, "A,B", &cases[i]);
    }
}

/* RED-42, RED-44 (with one all-to-all less than the peer's all-gather and all-reduce) */
WT_TEST(flattened__two_or_three_axes_of_three)
{
    static const struct flat_case all[] = {{"P,P,P", "R,R,R", WEFT_COLL_ALL_REDUCE, 1}},
                                  two[] = {{"P,P,R", "S(0),S(1),R", WEFT_COLL_REDUCE_SCATTER, 2},
                                           {"P,P,R", "S(0),S(1),R", WEFT_COLL_COUNT, 2},
                                           {"P,P,S(0)", "S(0),S(0),S(0)", WEFT_COLL_COUNT, 2},
                                           {"P,P,R", "R,R,R", WEFT_COLL_COUNT, 1}};

    if (wt_ranks() != 8) return;
    check_flat("A=2,B=2,C=2", "A,B,C", &all[0]);
    for (size_t i = 0; i < sizeof two / sizeof *two; i++) check_flat("A=2,B=2,C=2", "A,B", &two[i]);
}

/* RED-42: nobody flattened these (their names are their own) */
WT_TEST_IN(flattened__without_it_axes_go_one_by_one, w,
           wt_ranks() == 8 ? wt_world_open_mesh("D=2,E=2,F=2") : wt_world_open_mesh("D=2,E=2,F=1"))
{
    weft_placement p[3] = {weft_partial(WEFT_SUM), weft_partial(WEFT_SUM), weft_partial(WEFT_SUM)};
    weft_tensor *x = weft_from_local(wt_constant(4, 4, 1), w->mesh, p, NULL);

    x = wt_to(x, "R,R,R");
    WT_MOVED(w, WEFT_COLL_ALL_REDUCE, wt_ranks() == 8 ? 3 : 2);
    WT_ALL(wt_local_is_all(x, wt_ranks()));
}

int main(int argc, char **argv) { return wt_main(argc, argv, "redistribution on several axes"); }
