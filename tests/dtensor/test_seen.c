/*
 * test_seen.c: what a program can ask of tensors without changing them: are two equal or close, is
 * a gradient partial, is an order the default, what would a redistribution cost.
 */
/* mpi: 4 */
#include <math.h>
#include <stdlib.h>

#include "support/worlds.h"

static bool equal(weft_tensor *a, weft_tensor *b)
{
    bool is = false;

    WT_EQ(weft_equal(&is, a, b), WEFT_OK);
    return is;
}

static bool close_to(weft_tensor *a, weft_tensor *b, weft_allclose_options options)
{
    bool is = false;

    WT_EQ(weft_allclose(&is, a, b, options), WEFT_OK);
    return is;
}

static const char *const layouts[] = {
    "R,R",       "S(0),R",          "R,S(1)",       "S(0),S(0)",
    "S(1),S(0)", "S(0)[1],S(0)[0]", "SS(0,2),S(0)", "S(0,balanced),S(1)"};
enum { LAYOUTS = sizeof layouts / sizeof layouts[0] };

/* The last element, of which one rank alone knows, is another: every rank is told. */
static weft_tensor *with_last_changed(weft_tensor *t)
{
    int64_t n = weft_numel(t), shape[] = {weft_size(t, 0), weft_size(t, 1)};
    double *values = wt_values(t);
    weft_tensor *changed;

    values[n - 1] += 1e-3;
    changed = weft_from_data(WEFT_F64, shape, 2, values);
    free(values);
    return changed;
}

/* trial 4.10 */
WT_TEST_TIMES_IN(equal__of_any_two_layouts, w, k, 3, wt_world_open_two_axes())
{
    const int64_t rows[] = {12, 5, 1};
    weft_tensor *x = wt_whole(WEFT_F64, 0, rows[k], 7);
    weft_tensor *other = with_last_changed(x);

    for (int i = 0; i < LAYOUTS; i++)
        for (int j = 0; j < LAYOUTS; j++) {
            weft_tensor *a = wt_spread(w, x, layouts[i]);

            WT_ALL(equal(a, wt_spread(w, x, layouts[j])));
            WT_ALL(!equal(a, wt_spread(w, other, layouts[j])));
            WT_ALL(!equal(wt_spread(w, other, layouts[j]), a));
        }
    WT_ALL(equal(wt_spread(w, x, "S(1),R"), x) && equal(x, wt_spread(w, x, "R,S(0)")));
    WT_ALL(!equal(wt_spread(w, x, "S(1),R"), other) && equal(x, x) && !equal(x, other));
}

/* trial 4.10: shards that agree are not moved. */
WT_TEST_IN_WORLD(equal__compares_shards_where_they_are, w)
{
    weft_tensor *x = wt_whole(WEFT_F32, 0, 9, 4), *s = wt_spread(w, x, "S(0)");
    weft_tensor *p = wt_partial(w, x, WEFT_SUM);

    wt_moved(w, WEFT_COLL_COUNT);
    WT_ALL(equal(s, s));
    WT_MOVED(w, WEFT_COLL_ALL_REDUCE, 1);
    WT_ALL(equal(s, wt_spread(w, x, "R")));
    WT_MOVED(w, WEFT_COLL_ALL_REDUCE, 1);
    WT_ALL(close_to(p, weft_mul_scalar(x, wt_ranks()), (weft_allclose_options){0}));
    WT_ALL(close_to(weft_mul_scalar(s, wt_ranks()), p, (weft_allclose_options){0}));
    WT_ALL(weft_tensor_placement(p, 0).kind == WEFT_KIND_PARTIAL);
}

/* trial 4.10: as torch.equal and torch.allclose. */
WT_TEST_IN_WORLD(equal__follows_the_rules_of_numbers, w)
{
    const double nan_here[] = {1, NAN}, inf_here[] = {1, INFINITY}, zeros[] = {1, 0.0},
                 negative[] = {1, -0.0}, near[] = {1 + 1e-7, 0};
    const int64_t two = 2, big[] = {(1LL << 60) + 1, 0}, bigger[] = {(1LL << 60) + 2, 0};
    weft_tensor *nan = wt_spread(w, weft_from_data(WEFT_F64, &two, 1, nan_here), "S(0)");
    weft_tensor *inf = wt_spread(w, weft_from_data(WEFT_F64, &two, 1, inf_here), "S(0)");
    weft_tensor *zero = weft_from_data(WEFT_F64, &two, 1, zeros);
    weft_tensor *minus = weft_from_data(WEFT_F64, &two, 1, negative);
    weft_tensor *most = weft_from_data(WEFT_F64, &two, 1, near);
    weft_tensor *one = weft_full(WEFT_F64, NULL, 0, 1);
    bool is = true;

    WT_ALL(!equal(nan, nan) && !close_to(nan, nan, (weft_allclose_options){0}));
    WT_ALL(close_to(nan, nan, (weft_allclose_options){.equal_nan = true}));
    WT_ALL(equal(inf, inf) && close_to(inf, inf, (weft_allclose_options){0}));
    WT_ALL(!close_to(inf, zero, (weft_allclose_options){.relative = 1e9, .absolute = 1e9}));
    WT_ALL(equal(zero, minus) && !equal(zero, most));
    WT_ALL(close_to(zero, most, (weft_allclose_options){0}));
    WT_ALL(!close_to(zero, most, (weft_allclose_options){.relative = -1}));
    WT_ALL(
        !equal(weft_from_data(WEFT_I64, &two, 1, big), weft_from_data(WEFT_I64, &two, 1, bigger)));
    WT_EQ(weft_equal(&is, zero, one), WEFT_OK);
    WT_ALL(!is);
    WT_ALL(!close_to(zero, one, (weft_allclose_options){0}));
    WT_ALL(close_to(zero, one, (weft_allclose_options){.absolute = 2}));
    WT_ALL(weft_equal(&is, zero, weft_full(WEFT_F32, &two, 1, 1)) != WEFT_OK);
    WT_FAILED(WEFT_ERR_DTYPE, "equal: dtypes differ: f64 and f32");
    WT_ALL(weft_allclose(&is, nan, weft_full(WEFT_F64, (int64_t[]){3}, 1, 1),
                         (weft_allclose_options){0}) != WEFT_OK);
    WT_FAILED(WEFT_ERR_SHAPE, "sizes 2 and 3");
}

/* trial 4.10 */
WT_TEST_IN_WORLD(gradient__is_seen_to_be_partial, w)
{
    weft_tensor *x = wt_spread(w, wt_whole(WEFT_F64, 0, 8, 3), "S(0)");
    weft_tensor *weight = wt_spread(w, wt_whole(WEFT_F64, 1, 4, 3), "R");

    WT_ALL(!weft_grad_is_partial(weight) && weft_set_requires_grad(weight, true));
    WT_EQ(weft_backward(weft_sum_all(weft_linear(x, weight, NULL, 1))), WEFT_OK);
    wt_moved(w, WEFT_COLL_COUNT);
    WT_ALL(weft_grad_is_partial(weight) || wt_ranks() == 1);
    WT_STILL(w);
    WT_ALL(weft_grad(weight) && !weft_grad_is_partial(weight));
}

/* trial 4.10 */
WT_TEST_IN(order__is_seen_to_be_the_default, w, wt_world_open_two_axes())
{
    static const struct {
        const char *text;
        bool is;
    } cases[] = {{"S(0),S(0)", true},        {"S(1),S(0)", true},       {"R,P", true},
                 {"S(0)[1],S(0)[0]", false}, {"S(0)[0],S(0)[1]", true}, {"SS(0,2),S(0)", false}};

    for (int i = 0; i < 6; i++) {
        weft_placement p[2];
        weft_layout layout;

        WT_EQ(weft_placements_on(p, w->mesh, cases[i].text), WEFT_OK);
        WT_EQ(weft_layout_make(&layout, w->mesh, p, 2, (int64_t[]){16, 16}, 2), WEFT_OK);
        WT_EQ(weft_layout_has_default_order(&layout), cases[i].is);
    }
}

static bool exchanges(struct wt_world *w)
{
    return weft_ledger_count(w->ledger, WEFT_COLL_ALL_TO_ALL, WEFT_DIRECTION_ANY, NULL) > 0;
}

/* trial 4.10: what is told is what the ledger then counts, and nothing is sent for it. */
WT_TEST_TIMES_IN(redistribution__tells_its_cost, w, i, 6, wt_world_open_two_axes())
{
    static const char *const moves[][2] = {{"S(0),R", "R,R"},       {"S(0),S(0)", "R,R"},
                                           {"S(0),S(1)", "S(1),R"}, {"R,S(0)", "R,S(1)"},
                                           {"R,R", "S(0),S(1)"},    {"S(1),S(0)", "S(0),S(1)"}};
    weft_tensor *x = wt_spread(w, wt_whole(WEFT_F32, 0, 48, 96), moves[i][0]);
    weft_redistribution_cost cost, uneven;
    weft_placement to[2];
    weft_ledger_sum sum;

    WT_EQ(weft_placements_on(to, w->mesh, moves[i][1]), WEFT_OK);
    WT_EQ(weft_redistribute_cost(&cost, x, to), WEFT_OK);
    WT_EQ(
        weft_redistribute_cost(&uneven, wt_spread(w, wt_whole(WEFT_F32, 0, 5, 7), moves[i][0]), to),
        WEFT_OK);
    WT_STILL(w);
    WT_ALL(wt_to(x, moves[i][1]) != NULL);
    sum = weft_ledger_total(w->ledger, WEFT_COLL_COUNT, WEFT_DIRECTION_ANY, NULL);
    wt_note("%s to %s: %d collectives and %lld bytes, not %lld and %lld", moves[i][0], moves[i][1],
            cost.collectives, (long long)cost.bytes, (long long)sum.count, (long long)sum.sent);
    WT_EQ(cost.collectives, sum.count);
    WT_ALL(cost.bytes == sum.sent || (cost.bytes > 0 && exchanges(w)));
    WT_ALL((cost.microseconds > 1) == (sum.count > 0));
}

int main(int argc, char **argv) { return wt_main(argc, argv, "seen"); }
