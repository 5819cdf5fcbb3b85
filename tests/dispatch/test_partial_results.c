/*
 * test_partial_results.c: what a partial result and a product of partial operands cost later is
 * part of choosing: never more is sent than by the best of the ways that a program could ask for.
 */
#include <math.h>

#include "support/worlds.h"

/* Bytes that this rank sends, and not the time to start: figures can be compared. */
static struct wt_world open_by_bytes(void)
{
    struct wt_world w = wt_world_open();

    WT_EQ(weft_link_set(NULL, 0, 1000), WEFT_OK);
    return w;
}

static int64_t sent(struct wt_world *w)
{
    return weft_ledger_total(w->ledger, WEFT_COLL_COUNT, WEFT_DIRECTION_ANY, NULL).sent;
}

/* ---- a result that is reduced in the next op ---- */

/* trial 4.5: one collective of the smaller operand, not two that move more. */
WT_TEST_TIMES_IN_WORLD(product__that_is_used_at_once_gathers_what_costs_less, w, k, 2)
{
    const int64_t sizes[][3] = {{16, 8, 16}, {15, 8, 18}};
    weft_tensor *x = wt_whole(WEFT_F64, 0, sizes[k][0], sizes[k][1]);
    weft_tensor *weight = wt_whole(WEFT_F64, 1, sizes[k][1], sizes[k][2]);
    weft_tensor *y = weft_matmul(wt_spread(w, x, "S(0)"), wt_spread(w, weight, "S(0)"));

    y = weft_relu(y);
    WT_MOVED(w, WEFT_COLL_ALL_GATHER, 1);
    WT_ALL(wt_is_placed(y, "S(0)"));
    WT_ALL(wt_near_tensors(y, weft_relu(weft_matmul(x, weight)), WT_WITHIN(1e-12)));
}

/* ---- two partial factors ---- */

enum form { MUL, MUL_ROW, MUL_COLUMN, MATMUL, LINEAR, FORMS };

static const int64_t shapes[FORMS][2][2] = {{{24, 48}, {24, 48}},
                                            {{24, 48}, {1, 48}},
                                            {{48, 1}, {48, 24}},
                                            {{72, 24}, {24, 48}},
                                            {{24, 24}, {144, 24}}};

static weft_tensor *multiplied(enum form form, weft_tensor *a, weft_tensor *b)
{
    if (form == MATMUL) return weft_matmul(a, b);
    return form == LINEAR ? weft_linear(a, b, NULL, 1) : weft_mul(a, b);
}

/* What it sends until both gradients are there. `first`: to what the factors are brought before
 * ("P": left to the op). `used`: the result is, whole or as shards, by an op that takes no terms.
 */
static int64_t cost_of(struct wt_world *w, enum form form, const char *const *first, bool used)
{
    weft_tensor *leaf[2], *factor[2], *y;

    weft_ledger_reset(w->ledger);
    for (int i = 0; i < 2; i++) {
        weft_tensor *whole = wt_whole(WEFT_F64, i, shapes[form][i][0], shapes[form][i][1]);

        leaf[i] = weft_set_requires_grad(wt_partial(w, whole, WEFT_SUM), true);
        factor[i] = wt_to(leaf[i], first[i]);
    }
    y = multiplied(form, factor[0], factor[1]);
    WT_EQ(weft_backward(weft_sum_all(used ? weft_relu(y) : y)), WEFT_OK);
    for (int i = 0; i < 2; i++) WT_ALL(weft_grad(leaf[i]) != NULL);
    return sent(w);
}

static void check_cheapest(enum form form, bool used)
{
    static const char *const ways[][2] = {{"R", "P"},       {"P", "R"},       {"R", "R"},
                                          {"S(0)", "S(0)"}, {"S(1)", "S(1)"}, {"S(1)", "S(0)"}};
    struct wt_world w = open_by_bytes();
    int64_t own = cost_of(&w, form, (const char *const[]){"P", "P"}, used);

    for (int k = 0; k < 6; k++) {
        int64_t other = cost_of(&w, form, ways[k], used);

        wt_note("form %d, %d, %s and %s: %lld, by itself %lld", form, used, ways[k][0], ways[k][1],
                (long long)other, (long long)own);
        WT_ALL(own <= other);
    }
    wt_world_close(&w);
}

/* trial 4.5: of factors alike nothing can be saved by leaving one partial. */
WT_TEST(product__of_partial_factors_sends_least_in_both_directions)
{
    check_cheapest(MUL, true);
    check_cheapest(MUL, false);
}

/* trial 4.5: a small factor is reduced, once for the result and once for its gradient. */
WT_TEST(product__reduces_the_small_factor)
{
    check_cheapest(MUL_ROW, false);
    check_cheapest(MUL_COLUMN, false);
}

WT_TEST_TIMES_IN_WORLD(product__of_partial_factors_has_the_right_gradients, w, form, FORMS)
{
    weft_tensor *leaf[2], *plain[2];

    for (int i = 0; i < 2; i++) {
        weft_tensor *whole = wt_whole(WEFT_F64, i, shapes[form][i][0], shapes[form][i][1]);

        leaf[i] = weft_set_requires_grad(wt_partial(w, whole, WEFT_SUM), true);
        plain[i] = weft_set_requires_grad(weft_mul_scalar(whole, wt_ranks()), true);
    }
    WT_EQ(weft_backward(weft_sum_all(weft_relu(multiplied((enum form)form, leaf[0], leaf[1])))),
          WEFT_OK);
    WT_EQ(weft_backward(weft_sum_all(weft_relu(multiplied((enum form)form, plain[0], plain[1])))),
          WEFT_OK);
    for (int i = 0; i < 2; i++)
        WT_ALL(wt_near_tensors(weft_grad(leaf[i]), weft_grad(plain[i]), WT_WITHIN(1e-12)));
}

/* PW-07, MAT-18: without gradients one factor is reduced, and the product is partial. */
WT_TEST_TIMES_IN(product__of_partial_factors_without_gradients_stays_partial, w, form, FORMS,
                 wt_world_open_two_axes())
{
    weft_tensor *factor[2], *plain[2], *y;
    int axes = 0;

    for (int a = 0; a < 2; a++) axes += weft_mesh_axis_size(w->mesh, a) > 1;
    for (int i = 0; i < 2; i++) {
        weft_tensor *whole = wt_whole(WEFT_F64, i, shapes[form][i][0], shapes[form][i][1]);

        plain[i] = weft_mul_scalar(whole, wt_ranks());
        factor[i] = weft_from_local(
            whole, w->mesh, (weft_placement[]){weft_partial(WEFT_SUM), weft_partial(WEFT_SUM)},
            NULL);
    }
    y = multiplied((enum form)form, factor[0], factor[1]);
    WT_ALL(wt_is_placed(y, "P,P"));
    WT_MOVED(w, WEFT_COLL_ALL_REDUCE, axes);
    WT_ALL(wt_near_tensors(y, multiplied((enum form)form, plain[0], plain[1]), WT_WITHIN(1e-10)));
    weft_set_requires_grad(factor[0],
                           true); /* another plan of the same layouts, and the first again */
    y = multiplied((enum form)form, factor[0], factor[1]);
    WT_ALL(wt_near_tensors(y, multiplied((enum form)form, plain[0], plain[1]), WT_WITHIN(1e-10)));
    weft_no_grad_open();
    WT_ALL(wt_is_placed(multiplied((enum form)form, factor[0], factor[1]), "P,P"));
    weft_no_grad_close();
    weft_ledger_reset(w->ledger);
}

/* PW-13: terms of a norm have no sign. */
WT_TEST_TIMES_IN_WORLD(norm__times_a_number_stays_a_norm_unless_it_turns, w, i, 5)
{
    static const double by[] = {2, 0.5, -2, -0.5, 0};
    weft_tensor *x = wt_spread(w, wt_constant(16, 3, 7), "S(0)");
    weft_tensor *norm = weft_norm(x, 2, NULL, 0, false), *y;
    double want = 7 * sqrt(48) * by[i];

    y = i % 2 ? weft_div_scalar(norm, 1 / by[i]) : weft_mul_scalar(norm, by[i]);
    WT_ALL(wt_is_placed(y, by[i] >= 0 ? "P(norm 2)" : "R"));
    if (by[i] >= 0) WT_STILL(w);
    WT_ALL(wt_near_full(y, &want, WT_WITHIN(1e-5)));
}

/* PW-14: of fewer elements than ranks each rank gets all. */
WT_TEST_IN_WORLD(few__elements_are_not_scattered, w)
{
    weft_tensor *x = wt_partial(w, weft_full(WEFT_F32, (int64_t[]){1}, 1, 1), WEFT_SUM), *y;

    y = weft_add_scalar(x, 1);
    WT_ALL(wt_is_placed(y, "R") && wt_local_is_all(y, wt_ranks() + 1));
    WT_MOVED(w, WEFT_COLL_ALL_REDUCE, 1);
}

/* A leaf's gradient never becomes terms that have no sign, or an extreme. */
WT_TEST_TIMES_IN_WORLD(leaf__that_is_partial_has_a_gradient_with_its_sign, w, i, 5)
{
    const weft_placement placements[] = {weft_partial(WEFT_SUM), weft_partial(WEFT_AVG),
                                         weft_partial(WEFT_MAX), weft_partial(WEFT_PRODUCT),
                                         weft_norm_partial(2)};
    weft_tensor *x = wt_whole(WEFT_F64, 0, 8, 1), *sum = weft_sum(x, (int[]){0}, 1, true);
    weft_tensor *leaf =
        weft_set_requires_grad(weft_from_local(weft_full(WEFT_F64, (int64_t[]){1, 3}, 2, 3),
                                               w->mesh, &placements[i], NULL),
                               true);
    weft_tensor *y = weft_matmul(weft_neg(wt_spread(w, x, "S(0)")), leaf);

    WT_ALL(weft_backward(weft_sum_all(y)) == WEFT_OK);
    WT_ALL(wt_near_tensors(weft_grad(leaf), weft_expand(weft_neg(sum), (int64_t[]){1, 3}, 2),
                           WT_WITHIN(1e-12)));
}

int main(int argc, char **argv) { return wt_main(argc, argv, "partial_results"); }
