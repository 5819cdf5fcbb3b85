/*
 * test_registered.c: ops that a program brings: their arguments, outputs and gradients. IDs are
 * those of the acceptance cases.
 */
/* mpi: 2 4 */
#include "dispatch/programs.h"

/* COST-07 */
WT_TEST_TIMES_IN(registered__lists_are_one_argument, w, k, 2, wt_world_open_two_axes())
{
    const int64_t shapes[][3] = {{8, 16, 8}, {3, 5, 2}};
    weft_op_spec spec = sum_op_spec("listed", rule_replicated_only);
    int op = weft_register_op(&spec);
    weft_tensor *whole[5], *spread[5], *sum;
    static const char *const placements[] = {"S(0),S(1)", "S(1),S(1)", "S(1),S(1)", "S(1),S(1)",
                                             "S(1),S(0)"};
    weft_argument arguments[3];

    for (int i = 0; i < 5; i++) {
        whole[i] = wt_whole3(WEFT_F32, i, shapes[k][0], shapes[k][1], shapes[k][2]);
        spread[i] = wt_spread(w, whole[i], placements[i]);
    }
    arguments[0] = weft_tensor_argument(spread[0]);
    arguments[1] = weft_list_argument(spread + 1, 3);
    arguments[2] = weft_tensor_argument(spread[4]);
    sum = whole[0];
    for (int i = 1; i < 5; i++) sum = weft_add(sum, whole[i]);
    WT_ALL(wt_is_placed(call_op(op, 3, arguments), "R,R"));
    WT_ALL(wt_near_tensors(call_op(op, 3, arguments), sum, WT_WITHIN(1e-5)));
    WT_ALL(weft_unregister_op("listed") == WEFT_OK);
}

/* COST-09 */
WT_TEST_TIMES_IN_WORLD(registered__without_a_rule_it_is_refused, w, i, 2)
{
    int64_t n = 4 + 3 * i;
    weft_op_spec spec = sum_op_spec("lonely", rule_any_dim);
    int op = weft_register_op(&spec);
    weft_tensor *x = wt_whole(WEFT_F32, 0, n, 3);
    weft_argument spread = weft_tensor_argument(wt_spread(w, x, "S(0)"));
    weft_argument plain = weft_tensor_argument(x);
    int64_t before;

    WT_ALL(call_op(op, 1, &spread) && call_op(op, 1, &spread));
    WT_ALL(weft_unregister_rule("lonely") == WEFT_OK);
    WT_ALL(!call_op(op, 1, &spread));
    WT_FAILED(WEFT_ERR_LAYOUT, "lonely does not have a sharding strategy registered");
    WT_ALL(call_op(op, 1, &plain) != NULL);
    WT_ALL(weft_register_rule("lonely", rule_any_dim, NULL) == WEFT_OK);
    WT_ALL(call_op(op, 1, &spread) != NULL);
    before = weft_plan_cache_statistics().plan_entries;
    WT_ALL(weft_unregister_op("lonely") == WEFT_OK);
    WT_ALL(weft_plan_cache_statistics().plan_entries < before); /* its plans are gone */
    WT_ALL(!call_op(op, 1, &spread));
    WT_FAILED(WEFT_ERR_NOT_FOUND, "lonely does not have a sharding strategy registered");
    WT_STILL(w);
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
    return rule_any_dim(info, rule, NULL);
}

static void columns(const weft_op_info *info, const weft_op_shard *in, weft_op_shard *out,
                    const double *numbers, void *payload)
{
    (void)numbers;
    (void)payload;
    for (int j = 0; j < info->n_out; j++)
        for (int64_t e = 0; out[j].data && e < shard_numel(&out[j]); e++)
            *shard_element(&out[j], e) =
                *shard_element(&in[j % 3], e) + (float)(in[3].shape[1] % 7);
}

/* COST-10: one output of four is missing, then two. */
WT_TEST_TIMES_IN_WORLD(registered__missing_outputs_shift_no_operand, w, k, 4)
{
    static const int64_t sizes[][4] = {{128, 192, 192, 128}, {6, 10, 10, 6}};
    static int missing[] = {1 << 3, 1 << 1 | 1 << 3};
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
        arguments[i] = weft_tensor_argument(wt_spread(w, whole[i], "S(0)"));
        arguments[4 + i] = weft_integer_argument(last[i]);
    }
    WT_ALL(weft_op_run(op, out, arguments, 8) == WEFT_OK);
    WT_STILL(w);
    for (int j = 0; j < 4; j++) {
        WT_EQ(out[j] == NULL, missing[k % 2] >> j & 1);
        if (out[j])
            WT_ALL(wt_near_tensors(out[j], weft_add_scalar(whole[j % 3], (double)(last[3] % 7)),
                                   WT_EXACT));
    }
    WT_ALL(weft_unregister_op("four") == WEFT_OK);
}

/* ---- arguments ---- */

static weft_status sum_gradient(const weft_op_backward *call, weft_tensor **in_gradients,
                                void *payload)
{
    (void)payload;
    for (int i = 0; i < call->info->n_in; i++)
        if (call->wanted[i]) in_gradients[i] = weft_mul_scalar(call->gradient, call->numbers[0]);
    return WEFT_OK;
}

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
static void least(const weft_op_info *info, const weft_op_shard *in, weft_op_shard *out,
                  const double *numbers, void *payload)
{
    (void)info;
    (void)numbers;
    (void)payload;
    for (int64_t r = 0; r < in[0].shape[0]; r++) {
        int64_t best = 0;

        for (int64_t c = 1; c < in[0].shape[1]; c++)
            if (*shard_element(&in[0], r * in[0].shape[1] + c) <
                *shard_element(&in[0], r * in[0].shape[1] + best))
                best = c;
        *shard_element(&out[0], r) = *shard_element(&in[0], r * in[0].shape[1] + best);
        ((int64_t *)out[1].data)[r] = best;
    }
}

/* REG-03 */
WT_TEST_TIMES_IN_WORLD(registered__several_outputs_are_all_distributed, w, k, 2)
{
    const int64_t rows[] = {4, 7};
    weft_op_spec spec = {.name = "least",
                         .n_out = 2,
                         .shape = values_and_indices,
                         .rule = rule_replicated_only,
                         .kernel = least};
    int op = weft_register_op(&spec);
    weft_tensor *x = wt_whole(WEFT_F32, 0, rows[k], 6), *plain[2], *out[2];
    weft_argument whole = weft_tensor_argument(x);
    weft_argument spread = weft_tensor_argument(wt_spread(w, x, "S(1)"));

    WT_ALL(weft_op_run(op, plain, &whole, 1) == WEFT_OK && !weft_tensor_mesh(plain[1]));
    WT_ALL(weft_op_run(op, out, &spread, 1) == WEFT_OK);
    for (int j = 0; j < 2; j++) {
        WT_ALL(weft_tensor_mesh(out[j]) == w->mesh && wt_is_placed(out[j], "R"));
        WT_ALL(wt_near_tensors(out[j], plain[j], WT_EXACT));
    }
    WT_ALL(weft_tensor_dtype(out[1]) == WEFT_I64);
    WT_ALL(weft_unregister_op("least") == WEFT_OK);
}

/* REG-04: a text first; texts and integers are told apart and are part of the key, numbers are
 * not. */
WT_TEST_TIMES_IN_WORLD(registered__arguments_need_not_be_tensors, w, i, 2)
{
    int64_t n = 3 + 5 * i;
    weft_op_spec spec = sum_op_spec("told", rule_any_dim);
    int op = weft_register_op(&spec);
    weft_tensor *whole = wt_whole(WEFT_F32, 0, n, 4), *x = wt_spread(w, whole, "S(0)");
    weft_argument a[] = {weft_text_argument("sum"), weft_tensor_argument(x),
                         weft_tensor_argument(NULL), weft_integer_argument(3),
                         weft_number_argument(1)};
    weft_plan_cache_stats before;

    WT_ALL(wt_near_tensors(call_op(op, 5, a), whole, WT_EXACT));
    WT_ALL(wt_is_placed(call_op(op, 5, a), "S(0)"));
    before = weft_plan_cache_statistics();
    a[4].number = 2;
    WT_ALL(call_op(op, 5, a) != NULL);
    WT_EQ(weft_plan_cache_statistics().plan_misses, before.plan_misses);
    a[0].text = "other";
    WT_ALL(call_op(op, 5, a) != NULL);
    WT_EQ(weft_plan_cache_statistics().plan_misses, before.plan_misses + 1);
    a[3].integer = 4;
    WT_ALL(call_op(op, 5, a) != NULL);
    WT_EQ(weft_plan_cache_statistics().plan_misses, before.plan_misses + 2);
    WT_ALL(weft_unregister_op("told") == WEFT_OK);
}

static weft_status counted(weft_op_info *info, void *payload)
{
    (void)payload;
    info->out[0] = (weft_operand){.present = true, .dtype = WEFT_F32, .ndim = 1};
    info->out[0].shape[0] = info->integers[0];
    return WEFT_OK;
}

/* No tensor at all: the result is plain. And a tensor without elements: no kernel runs. */
WT_TEST_IN_WORLD(registered__without_tensors_or_elements, w)
{
    weft_op_spec count = sum_op_spec("count", NULL), dims = sum_op_spec("dims", rule_any_dim);
    weft_argument n[] = {weft_integer_argument(5), weft_number_argument(2)};
    weft_tensor *y, *x = wt_spread(w, wt_whole(WEFT_F32, 0, 6, 4), "S(0)");
    weft_argument on_meta;
    int op;

    count.shape = counted;
    op = weft_register_op(&count);
    y = call_op(op, 2, n);
    WT_ALL(y && !weft_tensor_mesh(y) && wt_local_is_all(y, 0));
    WT_ALL(weft_unregister_op("count") == WEFT_OK);
    op = weft_register_op(&dims);
    on_meta = weft_tensor_argument(weft_to_device(x, WEFT_META));
    y = call_op(op, 1, &on_meta);
    WT_ALL(y && weft_tensor_device(y) == WEFT_META && wt_is_placed(y, "S(0)"));
    WT_ALL(weft_unregister_op("dims") == WEFT_OK);
}

WT_TEST_IN_WORLD(registered__gradients_flow, w)
{
    weft_op_spec spec = sum_op_spec("scaled", rule_any_dim);
    weft_tensor *leaf = weft_set_requires_grad(wt_spread(w, wt_constant(5, 4, 1), "S(0)"), true);
    weft_argument a[] = {weft_tensor_argument(leaf), weft_number_argument(3)};
    int op;

    spec.gradient = sum_gradient;
    op = weft_register_op(&spec);
    WT_ALL(weft_backward(weft_sum_all(call_op(op, 2, a))) == WEFT_OK);
    WT_ALL(wt_is_placed(weft_grad(leaf), "S(0)") && wt_local_is_all(weft_grad(leaf), 3));
    weft_zero_grad(leaf);
    WT_ALL(weft_unregister_op("scaled") == WEFT_OK);
    spec.gradient = NULL;
    op = weft_register_op(&spec);
    WT_ALL(!weft_requires_grad(call_op(op, 2, a)));
    WT_ALL(weft_unregister_op("scaled") == WEFT_OK);
}

WT_TEST_IN_WORLD(registered__bad_calls_are_refused, w)
{
    weft_op_spec spec = sum_op_spec("picky", rule_any_dim), bad = spec;
    int op = weft_register_op(&spec);
    weft_argument many[9], two[2];

    WT_ALL(weft_register_op(&spec) < 0);
    WT_FAILED(WEFT_ERR_ARG, "picky already");
    bad = sum_op_spec("exp", NULL);
    WT_ALL(weft_register_op(&bad) < 0);
    WT_FAILED(WEFT_ERR_ARG, "exp already");
    bad = sum_op_spec("empty", NULL);
    bad.kernel = NULL;
    WT_ALL(weft_register_op(&bad) < 0);
    WT_FAILED(WEFT_ERR_ARG, "kernel");
    for (int i = 0; i < 9; i++) many[i] = weft_tensor_argument(wt_constant(2, 2, i));
    WT_FAILS(call_op(op, 9, many), WEFT_ERR_ARG, "picky: more than 8 tensors");
    two[0] = weft_tensor_argument(wt_constant(2, 2, 1));
    two[1] = weft_tensor_argument(wt_constant(2, 3, 1));
    WT_FAILS(call_op(op, 2, two), WEFT_ERR_SHAPE, "picky: input 1 has another shape");
    WT_FAILS(call_op(12345, 2, two), WEFT_ERR_NOT_FOUND, "12345");
    WT_ALL(weft_unregister_op("picky") == WEFT_OK);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "registered"); }
