/*
 * test_custom.c: a style of one's own is the three functions that the library's styles are made of.
 */
/* mpi: 3 */
#include <string.h>

#include "support/given.h"
#include "support/near_modules.h"

/* ---- a style: split a linear layer's weight by rows, gather the output, count the calls ---- */

struct counts {
    int partitions, inputs, outputs;
    const char *fail_in;
};

static weft_status split_rows(weft_module *m, weft_mesh *mesh, void *payload)
{
    struct counts *counts = payload;
    weft_placement rows = weft_shard(0);
    weft_tensor *whole = weft_module_parameter(m, "weight");

    counts->partitions++;
    if (counts->fail_in && !strcmp(counts->fail_in, weft_module_path(m)))
        return weft_module_child(m, "nowhere") ? WEFT_OK : WEFT_ERR_NOT_FOUND;
    return weft_module_set_parameter(m, "weight", weft_distribute_tensor(whole, mesh, &rows, -1));
}

static weft_status take_whole(weft_module *m, weft_tensor **inputs, int n, weft_mesh *mesh,
                              void *payload)
{
    struct counts *counts = payload;
    weft_placement whole = weft_replicate();

    (void)m;
    counts->inputs += n;
    inputs[0] = weft_from_local(inputs[0], mesh, &whole, NULL);
    return inputs[0] ? WEFT_OK : weft_error_status();
}

static weft_tensor *give_whole(weft_module *m, weft_tensor *output, weft_mesh *mesh, void *payload)
{
    struct counts *counts = payload;

    (void)m;
    (void)mesh;
    counts->outputs++;
    return weft_full_tensor(output);
}

static const weft_style_functions by_rows = {"by rows", split_rows, take_whole, give_whole, NULL};

/* ---- a style without partition: hooks alone ---- */

static weft_tensor *double_it(weft_module *m, weft_tensor *output, weft_mesh *mesh, void *payload)
{
    const double *factor = payload;

    (void)m;
    (void)mesh;
    return weft_mul_scalar(output, *factor);
}

static const weft_style_functions twice = {"twice", NULL, NULL, double_it, NULL};

static weft_module *pair(int64_t hidden)
{
    weft_module *m = weft_sequential_new();

    weft_manual_seed(9);
    weft_module_add_child(
        m, "a",
        weft_linear_new((weft_linear_config){.in = {6}, .out = {hidden}, .dtype = WEFT_F64}));
    weft_module_add_child(
        m, "b",
        weft_linear_new((weft_linear_config){.in = {hidden}, .out = {4}, .dtype = WEFT_F64}));
    return wt_own(m);
}

static void check_pair(int64_t hidden)
{
    weft_mesh *mesh = wt_own(given_mesh());
    weft_module *one = pair(hidden), *many = pair(hidden);
    struct counts counts = {0};
    weft_plan plan[] = {{"a", weft_custom_style(&by_rows, &counts)}, {0}};
    weft_tensor *x = given(0, 5, 6, 0);

    WT_EQ(weft_parallelize_module(many, mesh, plan), WEFT_OK);
    WT_ALL(given_is(weft_module_parameter(many, "a.weight"), "S(0)"));
    WT_ALL(given_is(weft_module_parameter(many, "a.bias"), "R"));
    WT_ALL(!weft_tensor_mesh(weft_module_parameter(many, "b.weight")));
    WT_NEAR_STEPS(many, x, one, x, WT_WITHIN(1e-12));
    WT_EQ(counts.partitions, 1);
    WT_EQ(counts.inputs, 1);
    WT_EQ(counts.outputs, 1);
}

WT_TEST(custom__equals_one_device)
{
    check_pair(8);
    check_pair(5);
    check_pair(2);
}

WT_TEST(custom__hooks_alone_leave_parameters_as_they_are)
{
    weft_mesh *mesh = wt_own(given_mesh());
    weft_module *one = pair(8), *many = pair(8);
    double two = 2;
    weft_plan plan[] = {
        {"", weft_custom_style(&twice, &two)},
        {"a", weft_colwise_parallel_with((weft_style_options){.output_layouts = "R"})},
        {0}};
    weft_tensor *x = given(0, 5, 6, 0);

    WT_EQ(weft_parallelize_module(many, mesh, plan), WEFT_OK);
    WT_ALL(!weft_tensor_mesh(weft_module_parameter(many, "b.weight")));
    WT_ALL(wt_near_tensors(weft_call(many, x), weft_mul_scalar(weft_call(one, x), 2),
                           WT_WITHIN(1e-12)));
}

WT_TEST(custom__a_failing_partition_leaves_the_tree_as_it_was)
{
    weft_mesh *mesh = wt_own(given_mesh());
    weft_module *m = pair(8);
    struct counts counts = {.fail_in = "b"};
    weft_plan plan[] = {{"*", weft_custom_style(&by_rows, &counts)}, {0}};
    weft_tensor *before = weft_module_parameter(m, "a.weight");

    WT_FAILS(weft_parallelize_module(m, mesh, plan), WEFT_ERR_NOT_FOUND, "nowhere");
    WT_EQ(counts.partitions, 2);
    WT_ALL(weft_module_parameter(m, "a.weight") == before);
    WT_ALL(weft_call(m, given(0, 5, 6, 0)) != NULL);
    WT_EQ(counts.inputs, 0);
}

/* Below a module that a partition has spread everything is, also what no line names. */
WT_TEST(custom__is_printed_with_what_it_makes)
{
    weft_mesh *mesh = wt_own(given_mesh());
    weft_module *m = pair(5);
    struct counts counts = {0};
    weft_plan plan[] = {{"a", weft_custom_style(&by_rows, &counts)}, {0}};
    weft_tensor *before = weft_module_parameter(m, "a.weight");
    char text[2048], after[2048], want[128];
    int rows = (5 + wt_ranks() - 1) / wt_ranks(), mine = 5 - wt_rank() * rows;

    mine = mine < 0 ? 0 : mine < rows ? mine : rows;
    given_plan_text(text, sizeof text, m, mesh, plan);
    WT_ALL(weft_module_parameter(m, "a.weight") == before && !weft_tensor_mesh(before));
    snprintf(want, sizeof want, "by rows linear\n    weight   f64[5,6] S(0), %d B\n", mine * 6 * 8);
    WT_ALL(strstr(text, want) != NULL);
    WT_ALL(strstr(text, "    bias     f64[5] R, 40 B\n") != NULL);
    WT_ALL(strstr(text, "no style, linear\n    weight   f64[4,5] plain, 160 B\n") != NULL);
    snprintf(want, sizeof want, "parameters: %d B on this rank of 472 B\n", 232 + mine * 48);
    WT_ALL(strstr(text, want) != NULL);
    WT_EQ(weft_parallelize_module(m, mesh, plan), WEFT_OK);
    given_plan_text(after, sizeof after, m, mesh, plan);
    WT_ALL(strcmp(text, after) == 0);
}

/* ---- a style that gives a layer a parameter of its own ---- */

static weft_status add_scale(weft_module *m, weft_mesh *mesh, void *payload)
{
    const bool *fails = payload;
    weft_tensor *one = weft_full(WEFT_F64, (int64_t[]){1}, 1, 1);
    weft_status status =
        weft_module_add_parameter(m, "scale", weft_distribute_tensor(one, mesh, NULL, -1));

    if (status != WEFT_OK || !*fails) return status;
    return weft_module_child(m, "nowhere") ? WEFT_OK : WEFT_ERR_NOT_FOUND;
}

static const weft_style_functions scaled = {"scaled", add_scale, NULL, NULL, NULL};

WT_TEST(custom__parameters_of_a_partition_come_and_go_with_it)
{
    weft_mesh *mesh = wt_own(given_mesh());
    weft_module *m = pair(5);
    bool fails = false;
    weft_plan plan[] = {{"a", weft_custom_style(&scaled, &fails)}, {0}};
    char text[2048];

    for (int i = 0; i < 2; i++) {
        given_plan_text(text, sizeof text, m, mesh, plan);
        WT_ALL(strstr(text, "    scale    f64[1] R, 8 B\n") != NULL);
        WT_EQ(weft_module_parameter_count(m), 4);
    }
    fails = true;
    WT_FAILS(weft_parallelize_module(m, mesh, plan), WEFT_ERR_NOT_FOUND, "nowhere");
    WT_EQ(weft_module_parameter_count(m), 4);
    fails = false;
    WT_EQ(weft_parallelize_module(m, mesh, plan), WEFT_OK);
    WT_EQ(weft_module_parameter_count(m), 5);
}

WT_TEST(custom__without_functions_is_refused)
{
    static const weft_style_functions nothing = {"nothing", NULL, NULL, NULL, NULL};
    weft_mesh *mesh = wt_own(given_mesh());
    weft_module *m = pair(8);

    WT_FAILS(
        weft_parallelize_module(m, mesh, (weft_plan[]){{"a", weft_custom_style(NULL, NULL)}, {0}}),
        WEFT_ERR_ARG, "without functions");
    WT_FAILS(weft_parallelize_module(m, mesh,
                                     (weft_plan[]){{"a", weft_custom_style(&nothing, NULL)}, {0}}),
             WEFT_ERR_ARG, "custom style nothing: every function is NULL");
}

int main(int argc, char **argv) { return wt_main(argc, argv, "custom"); }
