/*
 * test_with_options.c: redistribution with casts, without waiting, by another planner; plans as
 * text; what planning assumes of links.
 */
/* mpi: 2 4 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/worlds.h"

static weft_tensor *with(weft_tensor *t, const char *to, weft_redistribute_options options)
{
    weft_placement p[WEFT_MAX_AXES];

    weft_placements_parse(p, WEFT_MAX_AXES, to);
    return weft_redistribute_with(t, p, &options);
}

/* ---- dtypes ---- */

static const unsigned dtypes[] = {0, WEFT_AS(WEFT_F32), WEFT_AS(WEFT_BF16), WEFT_AS(WEFT_F16)};

/* RED-12: a replicated tensor and other layouts; small whole numbers are exact in all of them */
WT_TEST_TIMES_IN_WORLD(dtypes__cast_forward_and_back, w, i, 16 * 4)
{
    static const char *const moves[][2] = {
        {"R", "R"}, {"S(0)", "S(0)"}, {"S(0)", "R"}, {"R", "S(1)"}};
    weft_redistribute_options o = {.forward = dtypes[i % 4], .backward = dtypes[i / 4 % 4]};
    const char *from = moves[i / 16][0], *to = moves[i / 16][1];
    weft_dtype forward = o.forward ? (weft_dtype)(o.forward - 1) : WEFT_F32;
    weft_tensor *x = weft_set_requires_grad(wt_spread(w, wt_constant(12, 3, 5), from), true);
    weft_tensor *y = with(x, to, o);

    WT_ALL(weft_tensor_dtype(y) == forward && wt_is_placed(y, to) && wt_local_is_all(y, 5));
    if (i < 32) WT_STILL(w);
    wt_moved(w, WEFT_COLL_COUNT);
    WT_ALL(weft_backward_from(y, weft_cast(wt_spread(w, wt_constant(12, 3, 1), to), forward)) ==
           WEFT_OK);
    if (i < 32) WT_STILL(w);
    WT_ALL(weft_tensor_dtype(weft_grad(x)) == WEFT_F32 && wt_is_placed(weft_grad(x), from) &&
           wt_local_is_all(weft_grad(x), 1));
}

/* Terms are cast one by one, and sent once; so are those of a gradient. */
WT_TEST_TIMES_IN_WORLD(dtypes__of_terms_cost_no_reduction_more, w, i, 4 * 3)
{
    static const weft_reduce reduces[] = {WEFT_SUM, WEFT_AVG, WEFT_MAX, WEFT_PRODUCT};
    static const char *const to[] = {"R", "S(0)", "S(1)"};
    weft_redistribute_options half = {.forward = WEFT_AS(WEFT_BF16), .backward = WEFT_AS(WEFT_F32)};
    weft_reduce reduce = reduces[i / 3];
    double n = wt_ranks(), whole = reduce == WEFT_SUM       ? 2 * n
                                   : reduce == WEFT_PRODUCT ? pow(2, n)
                                                            : 2;
    weft_tensor *x = wt_partial(w, wt_constant(8, 8, 2), reduce), *y;

    weft_guard_open(WEFT_GUARD_ERROR);
    y = with(x, to[i % 3], half);
    weft_guard_close();
    WT_ALL(wt_is_placed(y, to[i % 3]) && weft_tensor_dtype(y) == WEFT_BF16);
    WT_ALL(wt_local_is_all(y, whole));
    WT_MOVED(w, i % 3 ? WEFT_COLL_REDUCE_SCATTER : WEFT_COLL_ALL_REDUCE, 1);
}

/* Rounding tells in which dtype things moved: 1 + 2^-12 is 1 in bf16. */
WT_TEST_TIMES_IN_WORLD(dtypes__decide_what_is_rounded, w, backward, 2)
{
    const double fine = 1 + 0x1p-12;
    weft_redistribute_options o = {.forward = WEFT_AS(WEFT_F32),
                                   .backward = backward ? WEFT_AS(WEFT_BF16) : 0};
    weft_tensor *x = weft_set_requires_grad(wt_spread(w, wt_constant(5, 4, fine), "S(0)"), true);
    weft_tensor *y = with(x, "R", o);

    WT_ALL(wt_local_is_all(y, fine));
    WT_ALL(weft_backward_from(y, wt_spread(w, wt_constant(5, 4, fine), "R")) == WEFT_OK);
    WT_ALL(wt_local_is_all(weft_grad(x), backward ? 1 : fine));
    o = (weft_redistribute_options){.forward = WEFT_AS(WEFT_BF16)};
    WT_ALL(wt_local_is_all(with(x, "R", o), 1));
}

WT_TEST_IN_WORLD(dtypes__unknown_ones_are_refused, w)
{
    weft_redistribute_options o = {.forward = WEFT_DTYPE_COUNT + 1};

    WT_ALL(!with(wt_spread(w, wt_constant(4, 3, 1), "S(0)"), "R", o));
    WT_FAILED(WEFT_ERR_ARG, "redistribute");
    WT_ALL(!with(wt_constant(4, 3, 1), "R", (weft_redistribute_options){.async = true}));
    WT_FAILED(WEFT_ERR_ARG, "plain");
}

/* ---- without waiting ---- */

static const weft_redistribute_options async = {.async = true};

/* DT-23 */
WT_TEST_TIMES_IN_WORLD(async__is_waited_for_by_arithmetic_not_by_views, w, i, 2)
{
    static const int64_t rows[] = {4, 13};
    weft_tensor *x = wt_spread(w, wt_constant(rows[i], 2, 1), "S(0)"), *y, *view;
    bool flies = wt_ranks() > 1;

    WT_ALL(!weft_is_in_flight(with(x, "R", (weft_redistribute_options){.async = false})));
    y = with(x, "R", async);
    WT_ALL(weft_is_in_flight(y) == flies);
    view = weft_to_local(weft_reshape(y, (int64_t[]){2 * rows[i]}, 1), NULL);
    WT_ALL(weft_is_in_flight(view) == flies && weft_is_in_flight(y) == flies);
    WT_ALL(wt_local_is_all(weft_add_scalar(view, 1), 2));
    WT_ALL(!weft_is_in_flight(view) && !weft_is_in_flight(y));
    WT_ALL(wt_local_is_all(y, 1));
}

/* Every kind of collective, uneven too; read directly, or waited for, or not at all. */
WT_TEST_TIMES_IN_WORLD(async__arrives_as_it_would_otherwise, w, i, 6 * 3)
{
    static const char *const moves[][2] = {{"S(0)", "R"}, {"S(0)", "S(1)"}, {"P", "R"},
                                           {"P", "S(1)"}, {"R", "S(0)"},    {"S(1)", "SS(0,2)"}};
    weft_tensor *whole = wt_whole(WEFT_F32, 0, 13, 7);
    bool sums = moves[i % 6][0][0] == 'P';
    weft_tensor *x = sums ? wt_partial(w, whole, WEFT_SUM) : wt_spread(w, whole, moves[i % 6][0]);
    weft_tensor *want = wt_to(x, moves[i % 6][1]), *y = with(x, moves[i % 6][1], async);
    double got[91], expected[91];

    if (i / 6 == 0) WT_ALL(weft_wait(y) == y && !weft_is_in_flight(y));
    if (i / 6 < 2)
        WT_ALL(weft_read_f64(y, got, 91) == WEFT_OK &&
               weft_read_f64(want, expected, 91) == WEFT_OK &&
               memcmp(got, expected, (size_t)weft_local_numel(y) * sizeof *got) == 0);
}

/* Several in flight, waited for in another order on every rank, with another collective between. */
WT_TEST_IN_WORLD(async__several_in_any_order, w)
{
    weft_tensor *under_way[5];

    for (int i = 0; i < 5; i++)
        under_way[i] =
            with(wt_spread(w, wt_constant(9 + i, 4, i), i % 2 ? "S(0)" : "S(1)"), "R", async);
    WT_ALL(wt_local_is_all(wt_to(wt_spread(w, wt_constant(7, 3, 8), "S(0)"), "R"), 8));
    for (int i = 0; i < 5; i++) {
        int which = (i + wt_rank()) % 5;
        bool good = wt_local_is_all(weft_wait(under_way[which]), which);

        WT_ALL(good);
    }
}

/* The source may go; gradients flow as always. */
WT_TEST_IN_WORLD(async__keeps_its_source_and_its_gradient, w)
{
    weft_tensor *x = weft_set_requires_grad(wt_spread(w, wt_constant(6, 4, 3), "S(0)"), true), *y;
    weft_scope *scope = weft_scope_open();

    y = weft_scope_return(scope, with(weft_mul_scalar(x, 2), "R", async));
    WT_ALL(weft_backward(weft_sum_all(weft_mul(y, y))) == WEFT_OK);
    WT_ALL(wt_local_is_all(y, 6) && wt_local_is_all(weft_grad(x), 24));
    WT_ALL(wt_is_placed(weft_grad(x), "S(0)"));
}

/* ---- plans as text, links ---- */

WT_TEST_IN_WORLD(explain__names_steps_and_bytes, w)
{
    weft_tensor *x = wt_spread(w, wt_constant(8 * wt_ranks(), 3, 1), "S(0)");
    char text[128], want[128] = "";
    weft_placement r = weft_replicate(), far = weft_shard(2);

    if (wt_ranks() > 1)
        snprintf(want, sizeof want, "tp: S(0)->R all-gather %d B", 8 * 3 * 4 * (wt_ranks() - 1));
    WT_EQ(weft_redistribution_format(x, &r, text, sizeof text), strlen(want));
    WT_ALL(strcmp(text, want) == 0);
    WT_EQ(weft_redistribution_format(x, &r, NULL, sizeof text), strlen(want)); /* trial 3 */
    WT_EQ(weft_redistribution_format(x, &far, text, sizeof text), -1);
    WT_FAILED(WEFT_ERR_LAYOUT, "redistribute");
    WT_STILL(w);
}

/* What weft_redistribute refuses has no plan and no cost, and the same is said of it. */
WT_TEST_IN_WORLD(explain__refuses_what_redistribute_refuses, w)
{
    static const char *const moves[][2] = {
        {"R", "P"}, {"R", "P(max)"}, {"S(0)", "P(max)"}, {"S(0)", "P(avg)"}};
    weft_redistribution_cost cost = {.collectives = -7};
    char text[128] = "as before";

    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++) {
        weft_tensor *x = wt_spread(w, wt_constant(8, 3, 1), moves[i][0]);
        weft_placement to;

        WT_ALL(weft_placements_on(&to, w->mesh, moves[i][1]) == WEFT_OK);
        WT_ALL(!weft_redistribute(x, &to));
        WT_FAILED(WEFT_ERR_LAYOUT, "redistribute: Can not redistribute");
        WT_EQ(weft_redistribution_format(x, &to, text, sizeof text), -1);
        WT_FAILED(WEFT_ERR_LAYOUT, "redistribute: Can not redistribute");
        WT_FAILS(weft_redistribute_cost(&cost, x, &to), WEFT_ERR_LAYOUT,
                 "redistribute: Can not redistribute");
    }
    WT_EQ(weft_redistribution_format(NULL, NULL, text, sizeof text), -1);
    WT_FAILED(WEFT_ERR_ARG, "redistribution_format: the tensor is NULL");
    WT_EQ(weft_redistribution_format(wt_constant(2, 2, 1), NULL, text, sizeof text), -1);
    WT_FAILED(WEFT_ERR_ARG, "redistribution_format: the tensor is plain");
    WT_FAILS(weft_redistribute_cost(&cost, NULL, NULL), WEFT_ERR_ARG,
             "redistribute_cost: the tensor is NULL");
    WT_FAILS(weft_redistribute_cost(NULL, NULL, NULL), WEFT_ERR_ARG, "nowhere to write to");
    WT_ALL(strcmp(text, "as before") == 0 && cost.collectives == -7);
    WT_STILL(w);
}

WT_TEST_IN_WORLD(links__are_set_or_measured_alike_on_all_ranks, w)
{
    double latency, bandwidth, mine[2], most[2];
    weft_placement max = weft_partial(WEFT_MAX);

    WT_ALL(weft_link_set("tp", 2.5, 1000) == WEFT_OK && weft_link_set(NULL, 7, 70) == WEFT_OK);
    weft_link("tp", &latency, &bandwidth);
    WT_ALL(latency == 2.5 && bandwidth == 1000);
    weft_link("other", &latency, &bandwidth);
    WT_ALL(latency == 7 && bandwidth == 70);
    WT_FAILS(weft_link_set("tp", -1, 1), WEFT_ERR_ARG, "weft_link_set");
    WT_ALL(weft_link_measure(w->mesh) == WEFT_OK);
    weft_link("tp", &mine[0], &mine[1]);
    WT_ALL(wt_ranks() == 1 || (mine[0] > 0 && mine[1] > 0 && mine[0] != 2.5));
    WT_ALL(weft_read_f64(
               weft_redistribute(weft_from_local(weft_from_data(WEFT_F64, (int64_t[]){2}, 1, mine),
                                                 w->mesh, &max, NULL),
                                 (weft_placement[]){weft_replicate()}),
               most, 2) == WEFT_OK);
    WT_ALL(most[0] == mine[0] && most[1] == mine[1]);
    WT_ALL(weft_link_set(NULL, 6.6, 8000) == WEFT_OK && weft_link_set("tp", 6.6, 8000) == WEFT_OK);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "redistribution with options"); }
