/*
 * test_registered.c: ops and rules that a program brings. IDs are those of the acceptance cases.
 */
/* mpi: 2 4 */
#include <math.h>
#include <string.h>

#include "dtensor/choose.h"
#include "dtensor/redistribute.h"
#include "dtensor/registry.h"
#include "ranks/worlds.h"
#include "tensor/tensor.h"

/* ---- the program's functions ---- */

static int64_t numel(const weft_part *p)
{
    int64_t n = 1;

    for (int d = 0; d < p->ndim; d++) n *= p->shape[d];
    return n;
}

/* The element with this row-major index in the part. */
static float *at(const weft_part *p, int64_t index)
{
    int64_t place = 0;

    for (int d = p->ndim - 1; d >= 0; d--) {
        place += index % p->shape[d] * p->stride[d];
        index /= p->shape[d];
    }
    return (float *)p->data + place;
}

static weft_status like_first(weft_op_info *info, void *payload)
{
    (void)payload;
    for (int i = 1; i < info->n_in; i++)
        if (info->in[i].present &&
            memcmp(info->in[i].shape, info->in[0].shape, sizeof info->in[0].shape) != 0)
            return weft_op_refuse("%s: input %d has another shape", info->op, i);
    info->out[0] = info->in[0];
    return WEFT_OK;
}

/* Sum of all inputs, times the first number if there is one. */
static void sum_inputs(const weft_op_info *info, const weft_part *in, weft_part *out,
                       const double *numbers, void *payload)
{
    (void)payload;
    for (int64_t e = 0; e < numel(&out[0]); e++) {
        double sum = 0;

        for (int i = 0; i < info->n_in; i++)
            if (in[i].data) sum += *at(&in[i], e);
        *at(&out[0], e) = (float)(numbers[0] != 0 ? sum * numbers[0] : sum);
    }
}

static weft_status nothing_more(const weft_op_info *info, weft_rule *rule, void *payload)
{
    (void)info;
    (void)rule;
    (void)payload;
    return WEFT_OK;
}

/* Any dim, the same for all operands. */
static weft_status every_dim(const weft_op_info *info, weft_rule *rule, void *payload)
{
    (void)payload;
    for (int d = 0; d < info->in[0].ndim; d++) {
        weft_placement in[WEFT_OP_INPUTS], out[WEFT_OP_OUTPUTS];

        for (int i = 0; i < WEFT_OP_INPUTS; i++) in[i] = weft_shard(d);
        for (int j = 0; j < WEFT_OP_OUTPUTS; j++) out[j] = weft_shard(d);
        if (weft_rule_accept(rule, in, out) != WEFT_OK) return weft_error_status();
    }
    return WEFT_OK;
}

static weft_status sum_gradient(const weft_op_backward *call, weft_tensor **in_gradients,
                                void *payload)
{
    (void)payload;
    for (int i = 0; i < call->info->n_in; i++)
        if (call->wanted[i]) in_gradients[i] = weft_mul_scalar(call->gradient, call->numbers[0]);
    return WEFT_OK;
}

static weft_op_spec sum_spec(const char *name, weft_rule_function *rule)
{
    return (weft_op_spec){
        .name = name, .n_out = 1, .shape = like_first, .rule = rule, .kernel = sum_inputs};
}

/* ---- worlds ---- */

/* Two axes, as square as the number of ranks allows. */
static struct wt_world open_grid(void)
{
    int rows = wt_ranks() % 2 == 0 ? 2 : 1;

    return wt_world_open_mesh("dp=%d,tp=%d", rows, wt_ranks() / rows);
}

static weft_tensor *run_one(int op, int n, const weft_argument *arguments)
{
    weft_tensor *out[WEFT_OP_OUTPUTS];

    return weft_op_run(op, out, n, arguments) == WEFT_OK ? out[0] : NULL;
}

/* ---- strategies and their cost ---- */

/* What the chooser counts for a registered op of two inputs, in microseconds. */
static double chosen_cost(int op, weft_tensor *const *in)
{
    int64_t attr[WF_CUSTOM_FIRST] = {
        [WF_CUSTOM_OP] = op, [WF_CUSTOM_COUNTS] = 0x11, [WF_CUSTOM_LENGTH] = WF_CUSTOM_FIRST};
    struct wf_infer call = {.row = &wf_ops[WF_OP_custom],
                            .name = "two",
                            .n_in = 2,
                            .n_out = 1,
                            .in = {in[0]->layout, in[1]->layout},
                            .attr = attr,
                            .n_attr = WF_CUSTOM_FIRST};
    struct wf_choice choice = {0};

    if (wf_shape_custom(&call) != WEFT_OK) return -1;
    return wf_choose(&call, in[0]->layout->mesh, &choice) == WEFT_OK ? (double)choice.cost / 1e6
                                                                     : -1;
}

/* COST-06: at its size and at an uneven one. */
WT_TEST(registered__replicate_everything)
{
    const int64_t shapes[][3] = {{8, 16, 32}, {5, 7, 3}};

    for (int k = 0; k < 2; k++) {
        struct wt_world w = open_grid();
        weft_op_spec spec = sum_spec("two", nothing_more);
        int op = weft_register_op(&spec), axes = 0;
        weft_tensor *whole[2], *spread[2], *y;
        weft_argument arguments[2];

        for (int i = 0; i < 2; i++) {
            whole[i] = wt_whole3(WEFT_F32, i, shapes[k][0], shapes[k][1], shapes[k][2]);
            spread[i] = wt_spread(&w, whole[i], "S(0),S(1)");
            arguments[i] = weft_tensor_argument(spread[i]);
        }
        if (k ==
            0) { /* the model of the whole change; it may use other orders where sizes differ */
            const weft_placement whole_placements[2] = {{0}};
            double sum = wf_redist_time(spread[0]->layout, whole_placements) +
                         wf_redist_time(spread[1]->layout, whole_placements);

            WT_ALL(fabs(chosen_cost(op, spread) - sum) <= 1e-3 * sum ||
                   weft_mesh_axis_size(w.mesh, 0) != weft_mesh_axis_size(w.mesh, 1));
            WT_ALL(chosen_cost(op, spread) >= sum * 0.999);
        }
        for (int a = 0; a < 2; a++) axes += weft_mesh_axis_size(w.mesh, a) > 1;
        y = run_one(op, 2, arguments);
        WT_ALL(y && wt_is_placed(y, "R,R"));
        /* at most one all-gather per input and axis; both axes in one is fewer */
        WT_ALL(weft_ledger_count(w.ledger, WEFT_COLL_ALL_GATHER, WEFT_DIRECTION_ANY, NULL) <=
               2 * axes);
        WT_EQ(weft_ledger_count(w.ledger, WEFT_COLL_ALL_GATHER, WEFT_DIRECTION_ANY, NULL),
              weft_ledger_count(w.ledger, WEFT_COLL_COUNT, WEFT_DIRECTION_ANY, NULL));
        WT_ALL(wt_near_tensors(y, weft_add(whole[0], whole[1]), WT_EXACT));
        WT_ALL(weft_unregister_op("two") == WEFT_OK);
        wt_world_close(&w);
    }
}

/* COST-03: one all-reduce of the pending operand beats a reduce-scatter and two all-gathers. */
WT_TEST(cost__latency_counts)
{
    const int64_t sizes[][3] = {{50, 6, 8}, {7, 5, 3}};

    for (int k = 0; k < 2; k++) {
        struct wt_world w = wt_world_open();
        const weft_placement split = weft_shard(0), whole = weft_replicate();
        weft_tensor *x = wt_whole(WEFT_F32, 0, sizes[k][0], sizes[k][1]);
        weft_tensor *weight = wt_whole(WEFT_F32, 1, sizes[k][2], sizes[k][1]);
        weft_tensor *bias = weft_reshape(wt_whole(WEFT_F32, 2, 1, sizes[k][2]), 1, &sizes[k][2]);
        weft_tensor *px = wt_pending(&w, x, WEFT_SUM), *y;
        weft_tensor *sw = wt_spread(&w, weight, "S(0)"), *sb = wt_spread(&w, bias, "S(0)");

        if (wt_ranks() > 1)
            WT_ALL(wf_redist_time(px->layout, &whole) < wf_redist_time(px->layout, &split) +
                                                            wf_redist_time(sw->layout, &whole) +
                                                            wf_redist_time(sb->layout, &whole));
        y = weft_linear(px, sw, sb, 1);
        WT_ALL(y && (wt_ranks() == 1 || wt_is_placed(y, "S(1)")));
        WT_MOVED(&w, WEFT_COLL_ALL_REDUCE, 1);
        y = wt_to(y, "R");
        WT_ALL(wt_near_tensors(y, weft_linear(weft_mul_scalar(x, wt_ranks()), weight, bias, 1),
                               WT_WITHIN(1e-4)));
        wt_world_close(&w);
    }
}

/* COST-07 */
WT_TEST(registered__lists_are_one_argument)
{
    const int64_t shapes[][3] = {{8, 16, 8}, {3, 5, 2}};

    for (int k = 0; k < 2; k++) {
        struct wt_world w = open_grid();
        weft_op_spec spec = sum_spec("listed", nothing_more);
        int op = weft_register_op(&spec);
        weft_tensor *whole[5], *spread[5], *sum;
        static const char *const placements[] = {"S(0),S(1)", "S(1),S(1)", "S(1),S(1)", "S(1),S(1)",
                                                 "S(1),S(0)"};
        weft_argument arguments[3];

        for (int i = 0; i < 5; i++) {
            whole[i] = wt_whole3(WEFT_F32, i, shapes[k][0], shapes[k][1], shapes[k][2]);
            spread[i] = wt_spread(&w, whole[i], placements[i]);
        }
        arguments[0] = weft_tensor_argument(spread[0]);
        arguments[1] = weft_list_argument(3, spread + 1);
        arguments[2] = weft_tensor_argument(spread[4]);
        sum = whole[0];
        for (int i = 1; i < 5; i++) sum = weft_add(sum, whole[i]);
        WT_ALL(wt_is_placed(run_one(op, 3, arguments), "R,R"));
        WT_ALL(wt_near_tensors(run_one(op, 3, arguments), sum, WT_WITHIN(1e-5)));
        WT_ALL(weft_unregister_op("listed") == WEFT_OK);
        wt_world_close(&w);
    }
}

/* The cheapest strategy, and no more moved than it needs: uneven and empty parts too. */
WT_TEST(registered__the_cheapest_strategy_wins)
{
    const int64_t rows[] = {12, 5, 1};

    for (int k = 0; k < 3; k++) {
        struct wt_world w = wt_world_open();
        weft_op_spec spec = sum_spec("dims", every_dim);
        int op = weft_register_op(&spec);
        weft_tensor *a = wt_whole(WEFT_F32, 0, rows[k], 8), *b = wt_whole(WEFT_F32, 1, rows[k], 8);
        weft_tensor *y;

        y = run_one(op, 2,
                    (weft_argument[]){weft_tensor_argument(wt_spread(&w, a, "S(0)")),
                                      weft_tensor_argument(wt_spread(&w, b, "R"))});
        WT_ALL(y && (wt_ranks() == 1 || wt_is_placed(y, "S(0)"))); /* one rank: all cost nothing */
        WT_STILL(&w);
        WT_ALL(wt_near_tensors(y, weft_add(a, b), WT_EXACT));
        WT_ALL(weft_unregister_op("dims") == WEFT_OK);
        wt_world_close(&w);
    }
}

/* COST-09 */
WT_TEST(registered__without_a_rule_it_is_refused)
{
    for (int64_t n = 4; n <= 7; n += 3) {
        struct wt_world w = wt_world_open();
        weft_op_spec spec = sum_spec("lonely", every_dim);
        int op = weft_register_op(&spec);
        weft_tensor *x = wt_whole(WEFT_F32, 0, n, 3);
        weft_argument spread = weft_tensor_argument(wt_spread(&w, x, "S(0)"));
        weft_argument plain = weft_tensor_argument(x);

        WT_ALL(run_one(op, 1, &spread) && run_one(op, 1, &spread));
        WT_ALL(weft_unregister_rule("lonely") == WEFT_OK);
        WT_ALL(!run_one(op, 1, &spread));
        WT_FAILED(WEFT_ERR_LAYOUT, "lonely does not have a sharding strategy registered");
        WT_ALL(run_one(op, 1, &plain) != NULL);
        WT_ALL(weft_register_rule("lonely", every_dim, NULL) == WEFT_OK);
        WT_ALL(run_one(op, 1, &spread) != NULL);
        WT_ALL(weft_unregister_op("lonely") == WEFT_OK);
        WT_ALL(!run_one(op, 1, &spread));
        WT_FAILED(WEFT_ERR_NOT_FOUND, "lonely does not have a sharding strategy registered");
        WT_STILL(&w);
        wt_world_close(&w);
    }
}

/* Outputs like the first three inputs; those in the payload's bit mask are not made. */
static weft_status some_outputs(weft_op_info *info, void *payload)
{
    const int *missing = payload;

    for (int j = 0; j < info->n_out; j++) {
        info->out[j] = info->in[j % 3];
        info->out[j].present = !(*missing >> j & 1);
    }
    return WEFT_OK;
}

static weft_status check_inputs(const weft_op_info *info, weft_rule *rule, void *payload)
{
    const int64_t *last = info->integers;

    (void)payload;
    for (int i = 0; i < 4; i++)
        if (info->in[i].shape[info->in[i].ndim - 1] != last[i])
            return weft_op_refuse("%s: input %d has %lld columns", info->op, i,
                                  (long long)info->in[i].shape[1]);
    return every_dim(info, rule, NULL);
}

static void columns(const weft_op_info *info, const weft_part *in, weft_part *out,
                    const double *numbers, void *payload)
{
    (void)numbers;
    (void)payload;
    for (int j = 0; j < info->n_out; j++)
        for (int64_t e = 0; out[j].data && e < numel(&out[j]); e++)
            *at(&out[j], e) = *at(&in[j % 3], e) + (float)(in[3].shape[1] % 7);
}

/* COST-10: one output of four is missing, then two. */
WT_TEST(registered__missing_outputs_shift_no_operand)
{
    static const int64_t sizes[][4] = {{128, 192, 192, 128}, {6, 10, 10, 6}};
    static int missing[] = {1 << 3, 1 << 1 | 1 << 3};

    for (int k = 0; k < 4; k++) {
        struct wt_world w = wt_world_open();
        const int64_t *last = sizes[k / 2];
        weft_op_spec spec = {.name = "four",
                             .n_out = 4,
                             .shape = some_outputs,
                             .rule = check_inputs,
                             .kernel = columns,
                             .payload = &missing[k % 2]};
        int op = weft_register_op(&spec);
        weft_argument arguments[8];
        weft_tensor *whole[4], *out[4];

        for (int i = 0; i < 4; i++) {
            whole[i] = wt_whole(WEFT_F32, i, 8, last[i]);
            arguments[i] = weft_tensor_argument(wt_spread(&w, whole[i], "S(0)"));
            arguments[4 + i] = weft_integer_argument(last[i]);
        }
        WT_ALL(weft_op_run(op, out, 8, arguments) == WEFT_OK);
        WT_STILL(&w);
        for (int j = 0; j < 4; j++) {
            WT_EQ(out[j] == NULL, missing[k % 2] >> j & 1);
            if (out[j])
                WT_ALL(wt_near_tensors(out[j], weft_add_scalar(whole[j % 3], (double)(last[3] % 7)),
                                       WT_EXACT));
        }
        WT_ALL(weft_unregister_op("four") == WEFT_OK);
        wt_world_close(&w);
    }
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
 * whole replicated, whichever is cheaper (docs/decisions/0005). */
WT_TEST(rules__softmax_of_ones_own)
{
    const int64_t shapes[][3] = {{8, 12, 16}, {5, 3, 7}};
    static const char *const sharded[] = {"S(0)", "S(1)", "S(2)"};
    const int dims[] = {-1, 0, 1};
    int asked = 0;

    for (int k = 0; k < 2; k++) {
        struct wt_world w = wt_world_open();
        weft_tensor *x = wt_whole3(WEFT_F32, 0, shapes[k][0], shapes[k][1], shapes[k][2]);

        WT_ALL(weft_register_rule("softmax", other_dims, &asked) == WEFT_OK);
        for (int i = 0; i < 9; i++) {
            int dim = dims[i / 3], shard = i % 3;
            weft_tensor *want = weft_softmax(x, dim);
            weft_tensor *y = weft_softmax(wt_spread(&w, x, sharded[shard]), dim);
            bool same = (dim < 0 ? dim + 3 : dim) == shard;
            int collectives = (int)wt_moved(&w, WEFT_COLL_COUNT);

            WT_ALL(y && (same || wt_ranks() == 1 || wt_is_placed(y, sharded[shard])));
            WT_ALL(!same || weft_tensor_placement(y, 0).dim != shard ||
                   weft_tensor_placement(y, 0).kind == WEFT_KIND_REPLICATE);
            WT_EQ(collectives, same && wt_ranks() > 1);
            WT_ALL(wt_near_tensors(y, want, WT_WITHIN(1e-6)));
            wt_moved(&w, WEFT_COLL_COUNT);
        }
        WT_ALL(weft_unregister_rule("softmax") == WEFT_OK);
        WT_ALL(asked > 0);
        wt_world_close(&w);
    }
}

/* REG-05: replaced, also where the plan was cached, and put back. */
WT_TEST(rules__replace_a_built_in_one_also_for_cached_calls)
{
    for (int64_t n = 4; n <= 9; n += 5) {
        struct wt_world w = wt_world_open();
        weft_tensor *whole = wt_whole(WEFT_F32, 0, n, 3), *x = wt_spread(&w, whole, "S(0)");
        weft_cache_stats before;

        WT_ALL(wt_is_placed(weft_exp(x), "S(0)"));
        WT_ALL(weft_register_rule("exp", nothing_more, NULL) == WEFT_OK);
        WT_ALL(wt_is_placed(weft_exp(x), "R"));
        before = weft_cache_statistics();
        WT_ALL(wt_is_placed(weft_exp(x), "R"));
        WT_EQ(weft_cache_statistics().plan_hits, before.plan_hits + 1);
        WT_ALL(wt_near_tensors(weft_exp(x), weft_exp(whole), WT_EXACT));
        WT_ALL(weft_unregister_rule("exp") == WEFT_OK);
        WT_ALL(wt_is_placed(weft_exp(x), "S(0)"));
        wt_world_close(&w);
    }
}

WT_TEST(rules__of_unknown_ops_are_refused)
{
    WT_ALL(weft_register_rule("no such op", nothing_more, NULL) != WEFT_OK);
    WT_FAILED(WEFT_ERR_NOT_FOUND, "no such op");
    WT_ALL(weft_register_rule("to_local", nothing_more, NULL) != WEFT_OK);
    WT_FAILED(WEFT_ERR_ARG, "to_local");
    WT_ALL(weft_unregister_op("exp") != WEFT_OK);
    WT_FAILED(WEFT_ERR_NOT_FOUND, "exp");
}

/* ---- arguments ---- */

static weft_status values_and_indices(weft_op_info *info, void *payload)
{
    (void)payload;
    info->out[0] = info->in[0];
    info->out[0].ndim = 1;
    info->out[1] = info->out[0];
    info->out[1].dtype = WEFT_I64;
    return WEFT_OK;
}

/* The least element of each row of a matrix, and where it is. */
static void least(const weft_op_info *info, const weft_part *in, weft_part *out,
                  const double *numbers, void *payload)
{
    (void)info;
    (void)numbers;
    (void)payload;
    for (int64_t r = 0; r < in[0].shape[0]; r++) {
        int64_t best = 0;

        for (int64_t c = 1; c < in[0].shape[1]; c++)
            if (*at(&in[0], r * in[0].shape[1] + c) < *at(&in[0], r * in[0].shape[1] + best))
                best = c;
        *at(&out[0], r) = *at(&in[0], r * in[0].shape[1] + best);
        ((int64_t *)out[1].data)[r] = best;
    }
}

/* REG-03 */
WT_TEST(registered__several_outputs_are_all_distributed)
{
    const int64_t rows[] = {4, 7};

    for (int k = 0; k < 2; k++) {
        struct wt_world w = wt_world_open();
        weft_op_spec spec = {.name = "least",
                             .n_out = 2,
                             .shape = values_and_indices,
                             .rule = nothing_more,
                             .kernel = least};
        int op = weft_register_op(&spec);
        weft_tensor *x = wt_whole(WEFT_F32, 0, rows[k], 6), *plain[2], *out[2];
        weft_argument whole = weft_tensor_argument(x);
        weft_argument spread = weft_tensor_argument(wt_spread(&w, x, "S(1)"));

        WT_ALL(weft_op_run(op, plain, 1, &whole) == WEFT_OK && !weft_tensor_mesh(plain[1]));
        WT_ALL(weft_op_run(op, out, 1, &spread) == WEFT_OK);
        for (int j = 0; j < 2; j++) {
            WT_ALL(weft_tensor_mesh(out[j]) == w.mesh && wt_is_placed(out[j], "R"));
            WT_ALL(wt_near_tensors(out[j], plain[j], WT_EXACT));
        }
        WT_ALL(weft_tensor_dtype(out[1]) == WEFT_I64);
        WT_ALL(weft_unregister_op("least") == WEFT_OK);
        wt_world_close(&w);
    }
}

/* REG-04: a text first; texts and integers are told apart and are part of the key, numbers are
 * not. */
WT_TEST(registered__arguments_need_not_be_tensors)
{
    for (int64_t n = 3; n <= 8; n += 5) {
        struct wt_world w = wt_world_open();
        weft_op_spec spec = sum_spec("told", every_dim);
        int op = weft_register_op(&spec);
        weft_tensor *whole = wt_whole(WEFT_F32, 0, n, 4), *x = wt_spread(&w, whole, "S(0)");
        weft_argument a[] = {weft_text_argument("sum"), weft_tensor_argument(x),
                             weft_tensor_argument(NULL), weft_integer_argument(3),
                             weft_number_argument(1)};
        weft_cache_stats before;

        WT_ALL(wt_near_tensors(run_one(op, 5, a), whole, WT_EXACT));
        WT_ALL(wt_is_placed(run_one(op, 5, a), "S(0)"));
        before = weft_cache_statistics();
        a[4].number = 2;
        WT_ALL(run_one(op, 5, a) != NULL);
        WT_EQ(weft_cache_statistics().plan_misses, before.plan_misses);
        a[0].text = "other";
        WT_ALL(run_one(op, 5, a) != NULL);
        WT_EQ(weft_cache_statistics().plan_misses, before.plan_misses + 1);
        a[3].integer = 4;
        WT_ALL(run_one(op, 5, a) != NULL);
        WT_EQ(weft_cache_statistics().plan_misses, before.plan_misses + 2);
        WT_ALL(weft_unregister_op("told") == WEFT_OK);
        wt_world_close(&w);
    }
}

static weft_status counted(weft_op_info *info, void *payload)
{
    (void)payload;
    info->out[0] = (weft_operand){.present = true, .dtype = WEFT_F32, .ndim = 1};
    info->out[0].shape[0] = info->integers[0];
    return WEFT_OK;
}

/* No tensor at all: the result is plain. And a tensor without elements: no kernel runs. */
WT_TEST(registered__without_tensors_or_elements)
{
    struct wt_world w = wt_world_open();
    weft_op_spec count = sum_spec("count", NULL), dims = sum_spec("dims", every_dim);
    weft_argument n[] = {weft_integer_argument(5), weft_number_argument(2)};
    weft_tensor *y, *x = wt_spread(&w, wt_whole(WEFT_F32, 0, 6, 4), "S(0)");
    weft_argument on_meta;
    int op;

    count.shape = counted;
    op = weft_register_op(&count);
    y = run_one(op, 2, n);
    WT_ALL(y && !weft_tensor_mesh(y) && wt_local_is_all(y, 0));
    WT_ALL(weft_unregister_op("count") == WEFT_OK);
    op = weft_register_op(&dims);
    on_meta = weft_tensor_argument(weft_tensor_to(x, WEFT_META));
    y = run_one(op, 1, &on_meta);
    WT_ALL(y && weft_tensor_device(y) == WEFT_META && wt_is_placed(y, "S(0)"));
    WT_ALL(weft_unregister_op("dims") == WEFT_OK);
    wt_world_close(&w);
}

WT_TEST(registered__gradients_flow)
{
    struct wt_world w = wt_world_open();
    weft_op_spec spec = sum_spec("scaled", every_dim);
    weft_tensor *leaf = weft_set_requires_grad(wt_spread(&w, wt_constant(5, 4, 1), "S(0)"), true);
    weft_argument a[] = {weft_tensor_argument(leaf), weft_number_argument(3)};
    int op;

    spec.gradient = sum_gradient;
    op = weft_register_op(&spec);
    WT_ALL(weft_backward(weft_sum_all(run_one(op, 2, a))) == WEFT_OK);
    WT_ALL(wt_is_placed(weft_grad(leaf), "S(0)") && wt_local_is_all(weft_grad(leaf), 3));
    weft_zero_grad(leaf);
    WT_ALL(weft_unregister_op("scaled") == WEFT_OK);
    spec.gradient = NULL;
    op = weft_register_op(&spec);
    WT_ALL(!weft_requires_grad(run_one(op, 2, a)));
    WT_ALL(weft_unregister_op("scaled") == WEFT_OK);
    wt_world_close(&w);
}

WT_TEST(registered__bad_calls_are_refused)
{
    struct wt_world w = wt_world_open();
    weft_op_spec spec = sum_spec("picky", every_dim), bad = spec;
    int op = weft_register_op(&spec);
    weft_argument many[9], two[2];

    WT_ALL(weft_register_op(&spec) < 0);
    WT_FAILED(WEFT_ERR_ARG, "picky already");
    bad = sum_spec("exp", NULL);
    WT_ALL(weft_register_op(&bad) < 0);
    WT_FAILED(WEFT_ERR_ARG, "exp already");
    bad = sum_spec("empty", NULL);
    bad.kernel = NULL;
    WT_ALL(weft_register_op(&bad) < 0);
    WT_FAILED(WEFT_ERR_ARG, "kernel");
    for (int i = 0; i < 9; i++) many[i] = weft_tensor_argument(wt_constant(2, 2, i));
    WT_ALL(!run_one(op, 9, many));
    WT_FAILED(WEFT_ERR_ARG, "picky: more than 8 tensors");
    two[0] = weft_tensor_argument(wt_constant(2, 2, 1));
    two[1] = weft_tensor_argument(wt_constant(2, 3, 1));
    WT_ALL(!run_one(op, 2, two));
    WT_FAILED(WEFT_ERR_SHAPE, "picky: input 1 has another shape");
    WT_ALL(!run_one(12345, 2, two));
    WT_FAILED(WEFT_ERR_NOT_FOUND, "12345");
    WT_ALL(weft_unregister_op("picky") == WEFT_OK);
    wt_world_close(&w);
}

int main(int argc, char **argv)
{
    static const struct wt_case cases[] = {
        WT_CASE(registered__replicate_everything),
        WT_CASE(cost__latency_counts),
        WT_CASE(registered__lists_are_one_argument),
        WT_CASE(registered__the_cheapest_strategy_wins),
        WT_CASE(registered__without_a_rule_it_is_refused),
        WT_CASE(registered__missing_outputs_shift_no_operand),
        WT_CASE(rules__softmax_of_ones_own),
        WT_CASE(rules__replace_a_built_in_one_also_for_cached_calls),
        WT_CASE(rules__of_unknown_ops_are_refused),
        WT_CASE(registered__several_outputs_are_all_distributed),
        WT_CASE(registered__arguments_need_not_be_tensors),
        WT_CASE(registered__without_tensors_or_elements),
        WT_CASE(registered__gradients_flow),
        WT_CASE(registered__bad_calls_are_refused),
        WT_END,
    };

    return wt_main(argc, argv, "registered", cases);
}
