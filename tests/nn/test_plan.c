/* test_plan.c: which modules a plan means, what it refuses, and that a refused plan changes
 * nothing. */
#include <string.h>

#include "support/given.h"

/* Two MLPs of layers net1, relu, net2 under "layers", and a norm beside them. */
static weft_module *stack(void)
{
    weft_module *root = weft_sequential_new(), *layers = weft_sequential_new();
    const char *names[] = {"0", "1"};

    for (int i = 0; i < 2; i++) {
        weft_module *m = weft_sequential_new();

        weft_module_add_child(m, "net1",
                              weft_linear_new((weft_linear_config){.in = {10}, .out = {16}}));
        weft_module_add_child(m, "relu", weft_activation_new(WEFT_RELU));
        weft_module_add_child(m, "net2",
                              weft_linear_new((weft_linear_config){.in = {16}, .out = {10}}));
        weft_module_add_child(layers, names[i], m);
    }
    weft_module_add_child(root, "layers", layers);
    weft_module_add_child(root, "norm", weft_layer_norm_new((weft_norm_config){.width = 10}));
    return wt_own(root);
}

static bool distributed(weft_module *root, const char *path)
{
    return weft_tensor_mesh(weft_module_parameter(root, path)) != NULL;
}

static int count_distributed(weft_module *root)
{
    static const char *const paths[] = {"layers.0.net1.weight", "layers.0.net2.weight",
                                        "layers.1.net1.weight", "layers.1.net2.weight",
                                        "norm.weight"};
    int n = 0;

    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) n += distributed(root, paths[i]);
    return n;
}

WT_TEST(plan__wildcards_stay_between_dots)
{
    static const struct {
        const char *pattern;
        int matches; /* -1: none, an error */
    } cases[] = {{"layers.*.net1", 2},    {"layers.0.net?", 2},  {"layers.[01].net[1-2]", 4},
                 {"layers.1.net1", 1},    {"*.net1", -1},        {"layers.*", -1},
                 {"layers.*.*.net1", -1}, {"layers.0.net3", -1}, {"layers..net1", -1},
                 {"layers.0.net1.", -1}};
    weft_mesh *mesh = wt_own(given_mesh());

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_plan plan[] = {{cases[i].pattern, weft_colwise_parallel()}, {0}};
        weft_module *root;
        weft_status status;

        wt_row("pattern %s", cases[i].pattern);
        root = stack();
        status = weft_parallelize_module_strict(root, mesh, plan);
        WT_EQ(status == WEFT_OK, cases[i].matches > 0);
        WT_EQ(count_distributed(root), cases[i].matches > 0 ? cases[i].matches : 0);
        if (status != WEFT_OK)
            WT_ALL(strstr(weft_error_message(), cases[i].pattern) ||
                   strstr(weft_error_message(), "layers."));
        weft_error_clear();
    }
}

/* Refused, with this status and text, and nothing is distributed afterwards. */
static void refused(const weft_plan *plan, weft_status status, const char *part)
{
    weft_module *root = stack();
    weft_mesh *mesh = wt_own(given_mesh());

    WT_FAILS(weft_parallelize_module_strict(root, mesh, plan), status, part);
    WT_EQ(count_distributed(root), 0);
}

WT_TEST(plan__refusals_change_nothing)
{
    weft_style col = weft_colwise_parallel(), row = weft_rowwise_parallel();
    weft_style unreadable =
        weft_colwise_parallel_with((weft_style_options){.output_layouts = "S(x)"});
    weft_style two = weft_colwise_parallel_with((weft_style_options){.input_layouts = "R,R"});

    refused((weft_plan[]){{"layers.0.net1", col}, {"net0.hello", row}, {0}}, WEFT_ERR_NOT_FOUND,
            "'net0.hello' matches no module");
    refused((weft_plan[]){{"layers.0.net1", col}, {"layers.*.net1", row}, {0}}, WEFT_ERR_STATE,
            "'layers.0.net1' is matched by 'layers.0.net1' and by 'layers.*.net1'");
    refused(
        (weft_plan[]){{"layers.0.net1", col}, {"norm", row}, {0}}, WEFT_ERR_ARG,
        "in module norm: style rowwise does not support modules of type layer norm (only: linear, "
        "embedding, conv1d, conv2d)");
    refused((weft_plan[]){{"layers.0.net1", col}, {"layers.1.net1", unreadable}, {0}}, WEFT_ERR_ARG,
            "layers.1.net1");
    refused((weft_plan[]){{"layers.0.net1", two}, {0}}, WEFT_ERR_ARG, "layers.0.net1");
}

WT_TEST(plan__is_applied_once)
{
    weft_module *root = stack();
    weft_mesh *mesh = wt_own(given_mesh());
    weft_plan first[] = {{"layers.0.net1", weft_colwise_parallel()}, {0}};
    weft_plan second[] = {{"layers.1.net1", weft_colwise_parallel()},
                          {"layers.0.net1", weft_rowwise_parallel()},
                          {0}};

    WT_EQ(weft_parallelize_module(root, mesh, first), WEFT_OK);
    WT_FAILS(weft_parallelize_module(root, mesh, second), WEFT_ERR_STATE,
             "'layers.0.net1' (linear) was distributed before");
    WT_EQ(count_distributed(root), 1);
}

/* Plans of one part after another, each below the module that it is given. */
WT_TEST(plan__of_a_part_of_the_tree)
{
    weft_module *root = stack(), *first = weft_module_child(root, "layers.0");
    weft_mesh *mesh = wt_own(given_mesh());
    weft_plan itself[] = {{"", weft_colwise_parallel()}, {0}};
    weft_plan below[] = {{"net2", weft_rowwise_parallel()}, {0}};
    weft_plan all[] = {{"layers.1.net?", weft_colwise_parallel()},
                       {"layers.0.net2", weft_colwise_parallel()},
                       {0}};
    weft_plan hooks[] = {{"layers.*", weft_prepare_module_input("R", "R")}, {0}};

    WT_EQ(weft_parallelize_module(weft_module_child(first, "net1"), mesh, itself), WEFT_OK);
    WT_EQ(weft_parallelize_module(first, mesh, below), WEFT_OK);
    WT_EQ(count_distributed(root), 2);
    WT_FAILS(weft_parallelize_module(root, mesh, all), WEFT_ERR_STATE,
             "'layers.0.net2' (linear) was distributed before");
    WT_EQ(count_distributed(root), 2);
    WT_EQ(weft_parallelize_module(root, mesh, hooks), WEFT_OK);
    WT_EQ(weft_parallelize_module(root, mesh, hooks), WEFT_OK);
}

/* An embedding and a head that share their weight [12,6]. */
static weft_module *tied(void)
{
    weft_module *root = weft_sequential_new(),
                *head =
                    weft_linear_new((weft_linear_config){.in = {6}, .out = {12}, .no_bias = true});

    weft_module_add_child(root, "wte",
                          weft_embedding_new((weft_embedding_config){.rows = 12, .width = 6}));
    weft_module_set_parameter(head, "weight", weft_module_parameter(root, "wte.weight"));
    weft_module_add_child(root, "head", head);
    return wt_own(root);
}

WT_TEST(plan__shared_parameters_stay_one_or_are_refused)
{
    weft_module *root = tied();
    weft_mesh *mesh = wt_own(given_mesh());
    weft_tensor *before = weft_module_parameter(root, "wte.weight");
    weft_plan apart[] = {{"wte", weft_colwise_parallel()}, {"head", weft_colwise_parallel()}, {0}};
    weft_plan across[] = {{"wte", weft_rowwise_parallel()}, {"head", weft_rowwise_parallel()}, {0}};
    weft_plan half[] = {{"wte", weft_rowwise_parallel()}, {0}};
    weft_plan alike[] = {{"wte", weft_rowwise_parallel()}, {"head", weft_colwise_parallel()}, {0}};

    WT_FAILS(weft_parallelize_module(root, mesh, apart), WEFT_ERR_LAYOUT,
             "'weight' of module 'wte' and 'weight' of module 'head' are one tensor");
    WT_FAILS(weft_parallelize_module(root, mesh, across), WEFT_ERR_LAYOUT, "are one tensor");
    WT_FAILS(weft_parallelize_module(root, mesh, half), WEFT_ERR_LAYOUT, "one tensor");
    WT_ALL(weft_module_parameter(root, "wte.weight") == before);
    WT_ALL(weft_module_parameter(root, "head.weight") == before);
    WT_EQ(weft_parallelize_module(root, mesh, alike), WEFT_OK);
    WT_ALL(weft_module_parameter(root, "wte.weight") == weft_module_parameter(root, "head.weight"));
    WT_ALL(weft_tensor_mesh(weft_module_parameter(root, "wte.weight")) != NULL);
    WT_EQ(weft_module_parameter_count(root), 1);
}

/* ---- distribute_module ---- */

static weft_status shard_net1(weft_module *m, weft_mesh *mesh, void *payload)
{
    const char *fail_at = payload;
    weft_placement rows = weft_shard(0);

    if (fail_at && !strcmp(weft_module_path(m), fail_at))
        return weft_module_child(m, "nowhere") ? WEFT_OK : WEFT_ERR_NOT_FOUND;
    if (strcmp(weft_module_name(m), "net1")) return WEFT_OK;
    return weft_module_set_parameter(
        m, "weight", weft_distribute_tensor(weft_module_parameter(m, "weight"), mesh, &rows, -1));
}

WT_TEST(distribute_module__replicates_what_is_not_partitioned)
{
    weft_module *root = stack();
    weft_mesh *mesh = wt_own(given_mesh());

    WT_EQ(weft_distribute_module(root, mesh, shard_net1, NULL, NULL, NULL), WEFT_OK);
    WT_EQ(count_distributed(root), 5);
    WT_EQ(weft_tensor_placement(weft_module_parameter(root, "layers.1.net1.weight"), 0).kind,
          WEFT_KIND_SHARD);
    WT_EQ(weft_tensor_placement(weft_module_parameter(root, "layers.1.net1.bias"), 0).kind,
          WEFT_KIND_REPLICATE);
    WT_EQ(weft_tensor_placement(weft_module_parameter(root, "norm.weight"), 0).kind,
          WEFT_KIND_REPLICATE);
    WT_FAILS(weft_distribute_module(root, mesh, NULL, NULL, NULL, NULL), WEFT_ERR_STATE,
             "was distributed before");
}

/* What styles have spread stays so; only the rest becomes replicated. */
WT_TEST(distribute_module__takes_the_rest_of_a_tree_with_styles)
{
    weft_module *root = stack();
    weft_mesh *mesh = wt_own(given_mesh());
    weft_plan plan[] = {{"layers.*.net1", weft_colwise_parallel()}, {0}};
    weft_tensor *before;

    WT_EQ(weft_parallelize_module(root, mesh, plan), WEFT_OK);
    before = weft_module_parameter(root, "layers.1.net1.weight");
    WT_EQ(weft_distribute_module(root, mesh, NULL, NULL, NULL, NULL), WEFT_OK);
    WT_EQ(count_distributed(root), 5);
    WT_ALL(weft_module_parameter(root, "layers.1.net1.weight") == before);
    WT_EQ(weft_tensor_placement(before, 0).kind, WEFT_KIND_SHARD);
    WT_EQ(weft_tensor_placement(weft_module_parameter(root, "layers.1.net2.weight"), 0).kind,
          WEFT_KIND_REPLICATE);
}

WT_TEST(distribute_module__a_failing_partition_leaves_the_tree_as_it_was)
{
    weft_module *root = stack();
    weft_mesh *mesh = wt_own(given_mesh());
    char where[] = "layers.1.net2";
    weft_tensor *before = weft_module_parameter(root, "layers.0.net1.weight");

    WT_FAILS(weft_distribute_module(root, mesh, shard_net1, NULL, NULL, where), WEFT_ERR_NOT_FOUND,
             "layers.1.net2");
    WT_EQ(count_distributed(root), 0);
    WT_ALL(weft_module_parameter(root, "layers.0.net1.weight") == before);
    WT_EQ(weft_distribute_module(root, mesh, shard_net1, NULL, NULL, NULL), WEFT_OK);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "plan"); }
