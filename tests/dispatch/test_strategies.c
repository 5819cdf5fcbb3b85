/*
 * test_strategies.c: which strategy of a rule is taken, what the chooser counts, and rules that
 * replace those of built-in ops. IDs are those of the acceptance cases.
 */
/* mpi: 2 4 */
#include <math.h>

#include "dispatch/programs.h"
#include "dtensor/dispatch/choose_placements.h"
#include "dtensor/registration/registry.h"
#include "redistribute/redistribute.h"
#include "tensor/tensor.h"

/* ---- strategies and their cost ---- */

/* What the chooser counts for a registered op of two inputs, in microseconds. */
static double chosen_cost(int op, weft_tensor *const *in)
{
    union wf_op_attrs attrs = {.registered = {.op = op, .list_lengths = 0x11}};
    struct wf_infer call = {.row = &wf_ops[WF_OP_custom],
                            .name = "two",
                            .n_in = 2,
                            .n_out = 1,
                            .in = {in[0]->layout, in[1]->layout},
                            .attrs = &attrs};
    struct wf_placement_choice choice = {0};

    if (wf_shape_custom(&call) != WEFT_OK) return -1;
    return wf_choose_placements(&call, in[0]->layout->mesh, &choice) == WEFT_OK
               ? (double)choice.cost / 1e6
               : -1;
}

/* COST-06: at its size and at an uneven one. */
WT_TEST_TIMES_IN(registered__replicate_everything, w, k, 2, wt_world_open_two_axes())
{
    const int64_t shapes[][3] = {{8, 16, 32}, {5, 7, 3}};
    weft_op_spec spec = sum_op_spec("two", rule_replicated_only);
    int op = weft_register_op(&spec), axes = 0;
    weft_tensor *whole[2], *spread[2], *y;
    weft_argument arguments[2];

    for (int i = 0; i < 2; i++) {
        whole[i] = wt_whole3(WEFT_F32, i, shapes[k][0], shapes[k][1], shapes[k][2]);
        spread[i] = wt_spread(w, whole[i], "S(0),S(1)");
        arguments[i] = weft_tensor_argument(spread[i]);
    }
    if (k == 0) { /* the model of the whole change; it may use other orders where sizes differ */
        const weft_placement whole_placements[2] = {{0}};
        double sum = wf_redist_estimated_time(spread[0]->layout, whole_placements) +
                     wf_redist_estimated_time(spread[1]->layout, whole_placements);

        WT_ALL(fabs(chosen_cost(op, spread) - sum) <= 1e-3 * sum ||
               weft_mesh_axis_size(w->mesh, 0) != weft_mesh_axis_size(w->mesh, 1));
        WT_ALL(chosen_cost(op, spread) >= sum * 0.999);
    }
    for (int a = 0; a < 2; a++) axes += weft_mesh_axis_size(w->mesh, a) > 1;
    y = call_op(op, 2, arguments);
    WT_ALL(y && wt_is_placed(y, "R,R"));
    /* at most one all-gather per input and axis; both axes in one is fewer */
    WT_ALL(weft_ledger_count(w->ledger, WEFT_COLL_ALL_GATHER, WEFT_DIRECTION_ANY, NULL) <=
           2 * axes);
    WT_EQ(weft_ledger_count(w->ledger, WEFT_COLL_ALL_GATHER, WEFT_DIRECTION_ANY, NULL),
          weft_ledger_count(w->ledger, WEFT_COLL_COUNT, WEFT_DIRECTION_ANY, NULL));
    WT_ALL(wt_near_tensors(y, weft_add(whole[0], whole[1]), WT_EXACT));
    WT_ALL(weft_unregister_op("two") == WEFT_OK);
}

/* COST-03: one all-reduce of the partial operand beats a reduce-scatter and two all-gathers. */
WT_TEST_TIMES_IN_WORLD(cost__latency_counts, w, k, 2)
{
    const int64_t sizes[][3] = {{50, 6, 8}, {7, 5, 3}};
    const weft_placement split = weft_shard(0), whole = weft_replicate();
    weft_tensor *x = wt_whole(WEFT_F32, 0, sizes[k][0], sizes[k][1]);
    weft_tensor *weight = wt_whole(WEFT_F32, 1, sizes[k][2], sizes[k][1]);
    weft_tensor *bias = weft_reshape(wt_whole(WEFT_F32, 2, 1, sizes[k][2]), &sizes[k][2], 1);
    weft_tensor *px = wt_partial(w, x, WEFT_SUM), *y;
    weft_tensor *sw = wt_spread(w, weight, "S(0)"), *sb = wt_spread(w, bias, "S(0)");

    if (wt_ranks() > 1)
        WT_ALL(wf_redist_estimated_time(px->layout, &whole) <
               wf_redist_estimated_time(px->layout, &split) +
                   wf_redist_estimated_time(sw->layout, &whole) +
                   wf_redist_estimated_time(sb->layout, &whole));
    y = weft_linear(px, sw, sb, 1);
    WT_ALL(y && (wt_ranks() == 1 || wt_is_placed(y, "S(1)")));
    WT_MOVED(w, WEFT_COLL_ALL_REDUCE, 1);
    y = wt_to(y, "R");
    WT_ALL(wt_near_tensors(y, weft_linear(weft_mul_scalar(x, wt_ranks()), weight, bias, 1),
                           WT_WITHIN(1e-4)));
}

/* The cheapest strategy, and no more moved than it needs: uneven and empty shards too. */
WT_TEST_TIMES_IN_WORLD(registered__the_cheapest_strategy_wins, w, k, 3)
{
    const int64_t rows[] = {12, 5, 1};
    weft_op_spec spec = sum_op_spec("dims", rule_any_dim);
    int op = weft_register_op(&spec);
    weft_tensor *a = wt_whole(WEFT_F32, 0, rows[k], 8), *b = wt_whole(WEFT_F32, 1, rows[k], 8);
    weft_tensor *y;

    y = call_op(op, 2,
                (weft_argument[]){weft_tensor_argument(wt_spread(w, a, "S(0)")),
                                  weft_tensor_argument(wt_spread(w, b, "R"))});
    WT_ALL(y && wt_is_placed(y, "S(0)"));
    WT_STILL(w);
    WT_ALL(wt_near_tensors(y, weft_add(a, b), WT_EXACT));
    WT_ALL(weft_unregister_op("dims") == WEFT_OK);
}

/* Where nothing costs anything, on one rank, the same is chosen as where it does. */
WT_TEST_TIMES_IN_WORLD(layouts__on_one_rank_are_those_on_several, w, k, 3)
{
    const int64_t rows[] = {12, 5, 1};
    weft_tensor *x = wt_spread(w, wt_whole(WEFT_F32, 0, rows[k], 8), "S(0)");
    weft_tensor *r = wt_spread(w, wt_whole(WEFT_F32, 1, rows[k], 8), "R"), *y;

    y = weft_where(weft_gt(r, r), x, r);
    WT_ALL(y && wt_is_placed(y, "S(0)"));
    WT_ALL(wt_is_placed(weft_add(r, x), "S(0)"));
    WT_STILL(w);
    WT_ALL(wt_near_tensors(wt_to(weft_add(r, x), "P"), weft_add(r, x), WT_EXACT));
}

/* A partial sum's gradient is whole: a product of whole operands that makes it leaves no terms. */
WT_TEST_TIMES_IN_WORLD(gradient__of_a_partial_sum_is_made_without_messages, w, k, 2)
{
    const int64_t sizes[][3] = {{6, 8, 5}, {5, 3, 7}};
    weft_tensor *x = wt_spread(w, wt_whole(WEFT_F32, 0, 4, sizes[k][0]), "S(1)"), *sum, *y;
    weft_tensor *a = wt_spread(w, wt_whole(WEFT_F32, 1, sizes[k][1], sizes[k][0]), "S(1)");
    weft_tensor *b = wt_spread(w, wt_whole(WEFT_F32, 2, sizes[k][2], sizes[k][1]), "R");

    WT_ALL(weft_set_requires_grad(x, true) != NULL);
    sum = weft_linear(x, a, NULL, 1);
    y = wt_to(weft_linear(sum, b, NULL, 1), "R");
    WT_ALL(y && wt_is_placed(sum, "P"));
    WT_MOVED(w, WEFT_COLL_ALL_REDUCE, 1);
    WT_EQ(weft_backward(weft_sum_all(y)), WEFT_OK);
    WT_STILL(w);
    WT_ALL(wt_is_placed(weft_grad(x), "S(1)"));
}

/* ---- rules over built-in ops ---- */

/* Any dim but the one of the softmax, which is integer 0. */
static weft_status other_dims(const weft_op_info *info, weft_rule *rule, void *payload)
{
    int *asked = payload;

    ++*asked;
    for (int d = 0; d < info->in[0].ndim; d++) {
        weft_placement p = weft_shard(d - info->in[0].ndim); /* counted from the end */

        if (d != info->integers[0] && weft_rule_accept(rule, &p, &p) != WEFT_OK)
            return weft_error_status();
    }
    return WEFT_OK;
}

/* REG-01: where the softmax's own dim is sharded one collective makes another dim sharded or the
 * whole replicated, whichever is cheaper (docs/decisions/0005). Without a rule of one's own the dim
 * stays sharded, by two small all-reduces. */
WT_TEST_TIMES_IN_WORLD(rules__softmax_of_ones_own, w, k, 2)
{
    const int64_t shapes[][3] = {{8, 12, 16}, {5, 3, 7}};
    static const char *const sharded[] = {"S(0)", "S(1)", "S(2)"};
    const int dims[] = {-1, 0, 1};
    int asked = 0;
    weft_tensor *x = wt_whole3(WEFT_F32, 0, shapes[k][0], shapes[k][1], shapes[k][2]);

    WT_ALL(weft_register_rule("softmax", other_dims, &asked) == WEFT_OK);
    for (int i = 0; i < 9; i++) {
        int dim = dims[i / 3], shard = i % 3;
        weft_tensor *want = weft_softmax(x, dim);
        weft_tensor *y = weft_softmax(wt_spread(w, x, sharded[shard]), dim);
        bool same = (dim < 0 ? dim + 3 : dim) == shard;
        int collectives = (int)wt_moved(w, WEFT_COLL_COUNT);

        WT_ALL(y && (same || wt_ranks() == 1 || wt_is_placed(y, sharded[shard])));
        WT_ALL(!same || weft_tensor_placement(y, 0).dim != shard ||
               weft_tensor_placement(y, 0).kind == WEFT_KIND_REPLICATE);
        WT_EQ(collectives, same && wt_ranks() > 1);
        WT_ALL(wt_near_tensors(y, want, WT_WITHIN(1e-6)));
        wt_moved(w, WEFT_COLL_COUNT);
    }
    WT_ALL(weft_unregister_rule("softmax") == WEFT_OK);
    WT_ALL(asked > 0);
}

/* REG-05: replaced, also where the plan was cached, and put back. */
WT_TEST_TIMES_IN_WORLD(rules__replace_a_built_in_one_also_for_cached_calls, w, i, 2)
{
    int64_t n = 4 + 5 * i;
    weft_tensor *whole = wt_whole(WEFT_F32, 0, n, 3), *x = wt_spread(w, whole, "S(0)");
    weft_plan_cache_stats before;

    WT_ALL(wt_is_placed(weft_exp(x), "S(0)"));
    WT_ALL(weft_register_rule("exp", rule_replicated_only, NULL) == WEFT_OK);
    WT_ALL(wt_is_placed(weft_exp(x), "R"));
    before = weft_plan_cache_statistics();
    WT_ALL(wt_is_placed(weft_exp(x), "R"));
    WT_EQ(weft_plan_cache_statistics().plan_hits, before.plan_hits + 1);
    WT_ALL(wt_near_tensors(weft_exp(x), weft_exp(whole), WT_EXACT));
    WT_ALL(weft_unregister_rule("exp") == WEFT_OK);
    WT_ALL(wt_is_placed(weft_exp(x), "S(0)"));
}

WT_TEST(rules__of_unknown_ops_are_refused)
{
    WT_ALL(weft_register_rule("no such op", rule_replicated_only, NULL) != WEFT_OK);
    WT_FAILED(WEFT_ERR_NOT_FOUND, "no such op");
    WT_ALL(weft_register_rule("to_local", rule_replicated_only, NULL) != WEFT_OK);
    WT_FAILED(WEFT_ERR_ARG, "register_rule: to_local decides its layouts by itself");
    WT_ALL(weft_unregister_op("exp") != WEFT_OK);
    WT_FAILED(WEFT_ERR_NOT_FOUND, "exp");
}

int main(int argc, char **argv) { return wt_main(argc, argv, "strategies"); }
