/* test_module.c: the tree of modules, calls and hooks. */
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

#include "base/call_context.h"
#include "base/error.h"
#include "nn/module.h"
#include "support/mpi_check.h"
#include "support/near.h"
#include "support/owned.h"

/* ---- a module of one's own ---- */

static weft_tensor *plus_one(weft_module *m, weft_tensor *const *inputs, int n)
{
    int *calls = weft_module_payload(m);

    (void)n;
    if (calls) ++*calls;
    return weft_add_scalar(inputs[0], 1);
}

static weft_tensor *add_both(weft_module *m, weft_tensor *const *inputs, int n)
{
    (void)m;
    return n == 2 ? weft_add(inputs[0], inputs[1]) : inputs[0];
}

static weft_tensor *fails(weft_module *m, weft_tensor *const *inputs, int n)
{
    (void)m;
    (void)n;
    return weft_reshape(inputs[0], (int64_t[]){77}, 1);
}

static const weft_module_class one = {.type = "one", .forward = plus_one};
static const weft_module_class both = {.type = "both", .forward = add_both, .optional = 1};
static const weft_module_class wrong = {.type = "wrong", .forward = fails};

static weft_module *small_tree(void)
{
    weft_module *root = weft_sequential_new(), *inner = weft_sequential_new();

    weft_module_add_child(inner, "0", weft_module_new(&one, NULL));
    weft_module_add_child(inner, "1", weft_module_new(&one, NULL));
    weft_module_add_child(root, "first", weft_module_new(&one, NULL));
    weft_module_add_child(root, "inner", inner);
    return root;
}

static weft_tensor *number(double value) { return weft_full(WEFT_F64, (int64_t[]){1}, 1, value); }

/* ---- tree ---- */

WT_TEST(module__children_are_found_by_path)
{
    weft_module *root = wt_own(small_tree());

    WT_ALL(weft_module_child(root, "") == root);
    WT_ALL(!strcmp(weft_module_path(weft_module_child(root, "inner.1")), "inner.1"));
    WT_EQ(weft_module_child_count(root), 2);
    WT_ALL(weft_module_child_at(root, 1) == weft_module_child(root, "inner"));
    WT_ALL(weft_module_child_at(root, 2) == NULL);
    WT_FAILS(weft_module_child(root, "inner.2"), WEFT_ERR_NOT_FOUND,
             "'inner' (sequential) has no child '2'");
    WT_FAILS(weft_module_parameter(root, "inner.1.weight"), WEFT_ERR_NOT_FOUND,
             "'inner.1' (one) has no parameter 'weight'");
}

WT_TEST(module__paths_follow_into_a_larger_tree)
{
    weft_module *top = wt_own(weft_sequential_new()), *root = small_tree();

    WT_EQ(weft_module_add_child(top, "model", root), WEFT_OK);
    WT_ALL(!strcmp(weft_module_path(weft_module_child(top, "model.inner.0")), "model.inner.0"));
}

WT_TEST(module__bad_children_are_refused_and_released)
{
    weft_module *root = wt_own(small_tree());

    WT_FAILS(weft_module_add_child(root, "first", weft_module_new(&one, NULL)), WEFT_ERR_ARG,
             "has a child 'first' already");
    WT_FAILS(weft_module_add_child(root, "a.b", weft_module_new(&one, NULL)), WEFT_ERR_ARG,
             "'a.b' is no name");
    WT_FAILS(weft_module_add_child(root, "again", weft_module_child(root, "first")), WEFT_ERR_ARG,
             "part of a tree already");
    WT_FAILS(weft_module_add_child(root, "itself", root), WEFT_ERR_ARG, "part of a tree already");
    WT_FAILS(weft_module_add_child(weft_module_child(root, "first"), "above", root), WEFT_ERR_ARG,
             "part of a tree already");
    WT_FAILS(weft_module_add_child(root, "none", NULL), WEFT_ERR_ARG, "NULL");
    WT_EQ(weft_module_child_count(root), 2);
}

WT_TEST(module__parameters_are_visited_once_and_in_order)
{
    weft_module *root = wt_own(weft_mlp((weft_mlp_config){.in = 3, .hidden = 5, .out = 2}));
    weft_module *tied = weft_sequential_new();

    WT_EQ(weft_module_parameter_count(root), 4);
    WT_EQ(weft_module_numel(root), 3 * 5 + 5 + 5 * 2 + 2);
    WT_EQ(weft_module_add_parameter(tied, "shared", weft_module_parameter(root, "up.weight")),
          WEFT_OK);
    WT_EQ(weft_module_add_child(root, "tied", tied), WEFT_OK);
    WT_EQ(weft_module_parameter_count(root), 4);
    WT_FAILS(weft_module_add_parameter(tied, "shared", number(1)), WEFT_ERR_ARG,
             "has a parameter 'shared' already");
}

WT_TEST(layers__equal_seeds_give_equal_parameters)
{
    weft_linear_config config = {.in = {4}, .out = {2, 3}, .std = 0.5, .dtype = WEFT_F64};
    weft_module *a, *b;

    weft_manual_seed(7);
    a = wt_own(weft_linear_new(config));
    weft_manual_seed(7);
    b = wt_own(weft_linear_new(config));
    WT_ALL(wt_near_tensors(weft_module_parameter(a, "weight"), weft_module_parameter(b, "weight"),
                           WT_EXACT));
    WT_ALL(wt_has_shape(weft_module_parameter(a, "weight"), 3, 2, 3, 4));
    WT_ALL(wt_has_shape(weft_module_parameter(a, "bias"), 2, 2, 3));
}

/* ---- calls ---- */

WT_TEST(call__runs_children_and_gives_their_result)
{
    weft_module *root = wt_own(small_tree());

    WT_ALL(weft_item(weft_call(root, number(5))) == 8);
    WT_FAILS(weft_call(root, NULL), WEFT_ERR_ARG, "NULL");
    WT_ALL(weft_call(NULL, number(1)) == NULL);
}

WT_TEST(call__counts_inputs)
{
    weft_module *m = wt_own(weft_module_new(&both, NULL));
    weft_tensor *in[] = {number(1), number(2), number(3)};

    WT_ALL(weft_item(weft_call_n(m, in, 1)) == 1);
    WT_ALL(weft_item(weft_call_n(m, in, 2)) == 3);
    WT_FAILS(weft_call_n(m, in, 3), WEFT_ERR_ARG, "both takes at most 2 inputs, not 3");
    WT_FAILS(weft_call_n(m, in, 0), WEFT_ERR_ARG, "both takes at least 1 input, not 0");
}

WT_TEST(call__errors_name_the_path_and_the_place_is_restored)
{
    weft_module *root = wt_own(small_tree());

    WT_EQ(weft_module_add_child(weft_module_child(root, "inner"), "bad",
                                weft_module_new(&wrong, NULL)),
          WEFT_OK);
    WT_FAILS(weft_call(root, number(1)), WEFT_ERR_SHAPE, "inner.bad");
    WT_ALL(wf_current_context.module == NULL);
}

/* ---- hooks ---- */

struct seen {
    int inputs, outputs, scopes, released;
};

static weft_status double_input(weft_module *m, weft_tensor **inputs, int n, void *payload)
{
    struct seen *seen = payload;

    (void)m;
    (void)n;
    seen->inputs++;
    inputs[0] = weft_mul_scalar(inputs[0], 2);
    return inputs[0] ? WEFT_OK : weft_error_status();
}

static weft_tensor *negate_output(weft_module *m, weft_tensor *output, void *payload)
{
    struct seen *seen = payload;

    (void)m;
    seen->outputs++;
    return weft_neg(output);
}

static void count_release(void *payload) { ((struct seen *)payload)->released++; }

WT_TEST(hooks__change_inputs_and_outputs_and_are_released)
{
    struct seen seen = {0};
    weft_module *m = weft_module_new(&one, NULL);
    weft_tensor *x = number(5);

    WT_EQ(weft_module_on_input(m, double_input, &seen, count_release), WEFT_OK);
    WT_EQ(weft_module_on_output(m, negate_output, &seen, count_release), WEFT_OK);
    WT_ALL(weft_item(weft_call(m, x)) == -11);
    WT_ALL(weft_item(x) == 5);
    WT_EQ(seen.inputs + seen.outputs, 2);
    WT_FAILS(weft_module_on_input(m, NULL, &seen, count_release), WEFT_ERR_ARG, "hook");
    WT_EQ(seen.released, 1);
    weft_module_release(m);
    WT_EQ(seen.released, 3);
}

static weft_scope *open_counted_scope(void *payload)
{
    ((struct seen *)payload)->scopes++;
    return weft_scope_open();
}

static weft_status add_more_hooks(weft_module *m, weft_tensor **inputs, int n, void *payload)
{
    (void)inputs;
    (void)n;
    for (int i = 0; i < 8; i++) WF_TRY(weft_module_on_output(m, negate_output, payload, NULL));
    return WEFT_OK;
}

WT_TEST(hooks__are_one_record_each_and_one_opens_the_scope)
{
    struct seen first = {0}, second = {0}, all = {0};
    weft_module *m = weft_module_new(&one, NULL);

    WT_EQ(wf_module_add_hook(m, (struct wf_hook){.open_scope = open_counted_scope,
                                                 .payload = &first,
                                                 .release = count_release}),
          WEFT_OK);
    WT_EQ(wf_module_add_hook(m, (struct wf_hook){.input = double_input,
                                                 .output = negate_output,
                                                 .payload = &all,
                                                 .release = count_release}),
          WEFT_OK);
    WT_EQ(wf_module_add_hook(m, (struct wf_hook){.open_scope = open_counted_scope,
                                                 .payload = &second,
                                                 .release = count_release}),
          WEFT_OK);
    WT_EQ(m->n_hooks, 2);
    WT_EQ(first.released, 1);
    WT_ALL(weft_item(weft_call(m, number(5))) == -11);
    WT_EQ(first.scopes, 0);
    WT_EQ(second.scopes, 1);
    WT_ALL(wf_module_view_hook(m) == NULL);
    wf_hooks_truncate(m, 1);
    WT_EQ(all.released, 1);
    WT_ALL(weft_item(weft_call(m, number(5))) == 6);
    weft_module_release(m);
    WT_EQ(second.released, 1);
}

WT_TEST(hooks__may_add_hooks)
{
    struct seen seen = {0};
    weft_module *m = weft_module_new(&one, NULL);

    WT_EQ(weft_module_on_input(m, add_more_hooks, &seen, NULL), WEFT_OK);
    WT_EQ(weft_module_on_input(m, double_input, &seen, NULL), WEFT_OK);
    WT_ALL(weft_item(weft_call(m, number(5))) == 11);
    WT_EQ(seen.inputs, 1);
    WT_EQ(seen.outputs, 8);
    weft_module_release(m);
}

/* Backward may come when the module is gone; the next one may lie where that was. */
WT_TEST(module__that_is_gone_is_booked_where_it_was)
{
    static const char *const names[] = {"one", "two", "six"};
    weft_style whole = weft_colwise_parallel_with((weft_style_options){.output_layouts = "R"});
    weft_mesh *mesh = wt_own(weft_mesh_new(WEFT_CPU, "tp=%d", wt_ranks()));
    weft_ledger *ledger = wt_own(weft_ledger_open());

    for (int i = 0; i < 3; i++) {
        weft_module *root = weft_sequential_new();
        weft_tensor *x = weft_full(WEFT_F32, (int64_t[]){2, 4}, 2, 1), *y;

        weft_module_add_child(root, names[i],
                              weft_linear_new((weft_linear_config){.in = {4}, .out = {6}}));
        WT_EQ(weft_parallelize_module(root, mesh, (weft_plan[]){{names[i], whole}, {0}}), WEFT_OK);
        y = weft_call(root, weft_set_requires_grad(x, true));
        weft_module_release(root);
        WT_EQ(weft_backward(weft_sum_all(y)), WEFT_OK);
        WT_EQ(weft_ledger_count(ledger, WEFT_COLL_ALL_REDUCE, WEFT_DIRECTION_BACKWARD, names[i]),
              wt_ranks() > 1);
    }
}

WT_TEST(module__payload_is_freed_with_it)
{
    static const weft_module_class owner = {.type = "owner", .forward = plus_one, .free = free};
    weft_module *m = wt_own(weft_module_new(&owner, calloc(1, sizeof(int))));

    WT_ALL(weft_item(weft_call(m, number(1))) == 2);
    WT_EQ(*(int *)weft_module_payload(m), 1);
}

WT_TEST(module__evaluation_switches_dropout_off)
{
    weft_module *m = wt_own(weft_sequential_new());
    weft_tensor *x = weft_full(WEFT_F64, (int64_t[]){64}, 1, 1);

    weft_module_add_child(m, "drop", weft_dropout_new(0.5));
    weft_module_train(m, false);
    WT_ALL(wt_near_tensors(weft_call(m, x), x, WT_EXACT));
    weft_module_train(m, true);
    WT_ALL(weft_module_training(weft_module_child(m, "drop")));
    WT_ALL(weft_item(weft_sum_all(weft_cast(weft_eq(weft_call(m, x), x), WEFT_F64))) == 0);
}

WT_TEST(layers__bad_configs_are_refused)
{
    WT_FAILS(weft_linear_new((weft_linear_config){.in = {4}}), WEFT_ERR_ARG, "`out` has no sizes");
    WT_FAILS(weft_linear_new((weft_linear_config){.in = {4}, .out = {2}, .out_split = 1}),
             WEFT_ERR_ARG, "out_split 1 of 1 dims");
    WT_FAILS(weft_mlp((weft_mlp_config){.in = 4, .out = 4}), WEFT_ERR_ARG, "mlp: hidden is 0");
    WT_FAILS(weft_attention_new((weft_attention_config){.width = 10, .heads = 3}), WEFT_ERR_ARG,
             "width 10 is no multiple of 3 heads");
    WT_FAILS(weft_linear_new((weft_linear_config){.in = {4}, .out = {2}, .dtype = WEFT_I32}),
             WEFT_ERR_DTYPE, "linear: parameter weight cannot be i32");
    WT_FAILS(weft_gpt((weft_gpt_config){.vocab = 8, .context = 4, .width = 8, .heads = 2}),
             WEFT_ERR_ARG, "gpt: layers is 0");
    WT_FAILS(weft_gpt((weft_gpt_config){.vocab = 8, .context = 4, .width = 8, .layers = 1}),
             WEFT_ERR_ARG, "gpt: heads is 0");
}

WT_TEST(position_embedding__takes_inputs_with_and_without_a_batch)
{
    weft_module *m = wt_own(weft_position_new(
        (weft_position_config){.length = 4, .width = 2, .std = 0.5, .dtype = WEFT_F64}));
    weft_tensor *single = weft_full(WEFT_F64, (int64_t[]){3, 2}, 2, 1);
    weft_tensor *batch = weft_full(WEFT_F64, (int64_t[]){5, 3, 2}, 3, 1);
    weft_tensor *y = weft_call(m, single);

    WT_ALL(y && weft_ndim(y) == 2 && !wt_near_tensors(y, single, WT_EXACT));
    WT_ALL(wt_near_tensors(weft_select(weft_call(m, batch), 0, 4), y, WT_EXACT));
    WT_FAILS(weft_call(m, weft_full(WEFT_F64, (int64_t[]){2}, 1, 1)), WEFT_ERR_SHAPE,
             "position embedding: the input has 1 dims");
}

int main(int argc, char **argv) { return wt_main(argc, argv, "module"); }
