/*
 * test_styles.c: a pair of convolutions split by column-wise and row-wise styles beside one device,
 * batch norm and group norm as layers, and what styles say of those that they do not split.
 */
#include <weft/parallel.h>

#include "support/worlds.h"

static weft_module *pair(int dims, bool bias)
{
    weft_conv_config first = {.in = 3, .out = 6, .kernel = {3, 3}, .options = {.padding = {1, 1}}};
    weft_conv_config second = {.in = 6, .out = 5, .kernel = {2, 2}};
    weft_module *m = weft_sequential_new();

    weft_manual_seed(3);
    first.no_bias = second.no_bias = !bias;
    weft_module_add_child(m, "up", dims == 1 ? weft_conv1d_new(first) : weft_conv2d_new(first));
    weft_module_add_child(m, "act", weft_activation_new(WEFT_RELU));
    weft_module_add_child(m, "down", dims == 1 ? weft_conv1d_new(second) : weft_conv2d_new(second));
    return wt_own(m);
}

static weft_tensor *input(int dims)
{
    weft_tensor *x = wt_whole(WEFT_F32, 0, 6, 7 * 8);

    return dims == 1 ? weft_reshape(x, (int64_t[]){2, 3, 56}, 3)
                     : weft_reshape(x, (int64_t[]){2, 3, 7, 8}, 4);
}

WT_TEST_TIMES_IN_WORLD(styles__split_channels_of_a_pair, w, k, 4)
{
    static const char *const names[] = {"up.weight", "up.bias", "down.weight", "down.bias"};
    int dims = 1 + k % 2;
    bool bias = k / 2;
    weft_module *one = pair(dims, bias), *many = pair(dims, bias);
    weft_tensor *x = weft_set_requires_grad(input(dims), true);
    weft_tensor *x_one = weft_set_requires_grad(input(dims), true), *y, *want;
    weft_plan plan[] = {
        {"up", weft_colwise_parallel_with((weft_style_options){.keep_distributed = true})},
        {"down", weft_rowwise_parallel()},
        {0}};

    WT_EQ(weft_parallelize_module(many, w->mesh, plan), WEFT_OK);
    WT_ALL(wt_is_placed(weft_module_parameter(many, "up.weight"), "S(0)"));
    WT_ALL(wt_is_placed(weft_module_parameter(many, "down.weight"), "S(1)"));
    wt_moved(w, WEFT_COLL_COUNT);
    y = weft_call(many, x);
    WT_MOVED(w, WEFT_COLL_ALL_REDUCE, 1);
    want = weft_call(one, x_one);
    WT_ALL(wt_near_tensors(y, want, WT_WITHIN(1e-5)));
    wt_moved(w, WEFT_COLL_COUNT);
    WT_EQ(weft_backward(weft_sum_all(weft_square(y))), WEFT_OK);
    WT_MOVED(w, WEFT_COLL_ALL_REDUCE, 1);
    WT_EQ(weft_backward(weft_sum_all(weft_square(want))), WEFT_OK);
    WT_ALL(wt_near_tensors(weft_grad(x), weft_grad(x_one), WT_WITHIN(1e-4)));
    for (int i = 0; i < 4; i += bias ? 1 : 2)
        WT_ALL(wt_near_tensors(weft_grad(weft_module_parameter(many, names[i])),
                               weft_grad(weft_module_parameter(one, names[i])), WT_WITHIN(1e-4)));
}

WT_TEST_IN_WORLD(styles__say_what_they_do_not_split, w)
{
    weft_conv_config grouped = {.in = 4, .out = 4, .kernel = {2}, .options = {.groups = 2}};
    weft_module *modules[] = {
        wt_own(weft_conv1d_new(grouped)),
        wt_own(weft_batch_norm_new((weft_batch_norm_config){.channels = 4})),
        wt_own(weft_group_norm_new((weft_group_norm_config){.channels = 4, .groups = 2}))};
    static const char *const words[] = {"modules of type conv1d with groups",
                                        "modules of type batch norm", "modules of type group norm"};

    for (int i = 0; i < 3; i++) {
        weft_plan plan[] = {{"", weft_colwise_parallel()}, {0}};

        WT_FAILS(weft_parallelize_module(modules[i], w->mesh, plan), WEFT_ERR_ARG, words[i]);
    }
}

/* ---- norms ---- */

static weft_tensor *batch(int step) { return wt_whole3(WEFT_F32, step, 6, 4, 5); }

/* A distributed batch has the statistics of all of it; the running ones follow and serve. */
WT_TEST_TIMES_IN_WORLD(batch_norm__of_a_sharded_batch, w, k, 4)
{
    static const char *const places[] = {"S(0)", "R"};
    weft_batch_norm_config config = {.channels = 4, .momentum = 0.25, .no_weight = k / 2};
    weft_module *m = wt_own(weft_batch_norm_new(config));
    weft_tensor *mean = weft_full(WEFT_F32, (int64_t[]){4}, 1, 0),
                *var = weft_full(WEFT_F32, (int64_t[]){4}, 1, 1);
    weft_tensor *weight = weft_full(WEFT_F32, (int64_t[]){4}, 1, 1),
                *bias = weft_full(WEFT_F32, (int64_t[]){4}, 1, 0);
    weft_batch_norm_options options = {
        .training = true, .running_mean = mean, .running_var = var, .momentum = 0.25};

    WT_EQ(weft_module_parameter_count(m), k / 2 ? 0 : 2);
    WT_EQ(weft_distribute_module(m, w->mesh, NULL, NULL, NULL, NULL), WEFT_OK);
    for (int step = 0; step < 3; step++) {
        weft_tensor *x = wt_spread(w, batch(step), places[k % 2]);

        options.training = step < 2;
        weft_module_train(m, step < 2);
        WT_ALL(wt_near_tensors(weft_call(m, x),
                               weft_batch_norm(batch(step), weight, bias, 1e-5, options),
                               WT_WITHIN(1e-5)));
        WT_ALL(wt_near_tensors(weft_module_buffer(m, "running_mean"), mean, WT_WITHIN(1e-6)));
        WT_ALL(wt_near_tensors(weft_module_buffer(m, "running_var"), var, WT_WITHIN(1e-6)));
    }
    WT_ALL(!wt_is_all(mean, 0) && !wt_is_all(var, 1));
}

WT_TEST_IN_WORLD(batch_norm__without_running_statistics, w)
{
    weft_module *m =
        wt_own(weft_batch_norm_new((weft_batch_norm_config){.channels = 4, .no_running = true}));
    weft_tensor *x = batch(0), *want = weft_batch_norm(x, NULL, NULL, 1e-5,
                                                       (weft_batch_norm_options){.training = true});

    for (int training = 0; training < 2; training++) {
        weft_module_train(m, training);
        WT_ALL(wt_near_tensors(weft_call(m, x), want, WT_WITHIN(1e-6)));
    }
    WT_ALL(!weft_module_buffer(m, "running_mean"));
    weft_error_clear();
}

WT_TEST_IN_WORLD(group_norm__is_the_ops, w)
{
    weft_module *m =
        wt_own(weft_group_norm_new((weft_group_norm_config){.channels = 4, .groups = 2}));
    weft_tensor *x = batch(1), *want = weft_group_norm(x, 2, NULL, NULL, 1e-5);

    WT_ALL(wt_near_tensors(weft_call(m, x), want, WT_WITHIN(1e-6)));
    WT_EQ(weft_distribute_module(m, w->mesh, NULL, NULL, NULL, NULL), WEFT_OK);
    WT_ALL(wt_near_tensors(weft_call(m, wt_spread(w, x, "S(0)")), want, WT_WITHIN(1e-6)));
}

WT_TEST_IN_WORLD(norms__refuse_sizes, w)
{
    WT_FAILS(weft_batch_norm_new((weft_batch_norm_config){0}), WEFT_ERR_ARG, "channels is 0");
    WT_FAILS(weft_batch_norm_new((weft_batch_norm_config){.channels = 2, .momentum = 2}),
             WEFT_ERR_ARG, "momentum is 2");
    WT_FAILS(weft_batch_norm_new(
                 (weft_batch_norm_config){.channels = 2, .dtype = WEFT_I32, .no_weight = true}),
             WEFT_ERR_DTYPE, "cannot be i32");
    WT_FAILS(weft_group_norm_new((weft_group_norm_config){.channels = 4, .groups = 3}),
             WEFT_ERR_ARG, "no 3 equal groups");
}

int main(int argc, char **argv) { return wt_main(argc, argv, "styles"); }
