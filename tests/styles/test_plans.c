/*
 * test_plans.c: plans on whole models: keys and wildcards, what matches nothing, meshes, and plans
 * from text.
 */
/* mpi: 4 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "support/given.h"
#include "support/near_modules.h"
#include "support/stderr_text.h"

/* ---- models ---- */

static void add_linear(weft_module *m, const char *name, int64_t in, int64_t out)
{
    weft_module_add_child(
        m, name,
        weft_linear_new((weft_linear_config){.in = {in}, .out = {out}, .dtype = WEFT_F64}));
}

/* Linear(10,16), ReLU, Linear(16,10) */
static weft_module *mlp(void)
{
    weft_module *m = weft_sequential_new();

    add_linear(m, "net1", 10, 16);
    weft_module_add_child(m, "relu", weft_activation_new(WEFT_RELU));
    add_linear(m, "net2", 16, 10);
    return m;
}

static weft_module *inside(const char *name, weft_module *child)
{
    weft_module *m = weft_sequential_new();

    weft_module_add_child(m, name, child);
    return m;
}

static weft_module *stacked(void)
{
    weft_module *layers = weft_sequential_new();

    weft_module_add_child(layers, "0", mlp());
    weft_module_add_child(layers, "1", mlp());
    return inside("layers", layers);
}

static weft_module *one_linear(void)
{
    weft_module *m = weft_sequential_new();

    add_linear(m, "only", 10, 16);
    return m;
}

static weft_module *contained(void) { return inside("dummy_encoder", mlp()); }

/* ---- one device against many ---- */

static void step(weft_module *m)
{
    weft_optim *sgd = wt_own(weft_sgd(m, (weft_sgd_config){.lr = 0.25}));

    WT_EQ(weft_step(sgd), WEFT_OK);
}

/* `distributed` parameters are spread; the model gives what one device gives, and learns it. */
static void check_model(weft_module *(*make)(void), weft_mesh *mesh, const weft_plan *plan,
                        int64_t rows, int distributed)
{
    weft_tensor *x = given(0, rows, 10, 0);
    weft_module *one, *many;
    weft_ledger *ledger = wt_own(weft_ledger_open());

    weft_manual_seed(6);
    one = wt_own(make());
    weft_manual_seed(6);
    many = wt_own(make());
    WT_EQ(weft_parallelize_module(many, mesh, plan), WEFT_OK);
    WT_NEAR_STEPS(many, x, one, x, WT_WITHIN(1e-12));
    WT_EQ(weft_ledger_parameter_count(ledger, true), distributed);
    step(one);
    step(many);
    WT_NEAR_PARAMETERS(many, one, WT_WITHIN(1e-12));
}

static weft_style gathered(void)
{
    return weft_colwise_parallel_with((weft_style_options){.output_layouts = "R"});
}

/* PAPI-01, PAPI-02, PAPI-04, PAPI-08, PAPI-09; and the module itself beside those below it */
WT_TEST(plans__keys_and_wildcards)
{
    weft_style col = weft_colwise_parallel(), row = weft_rowwise_parallel();
    weft_style from_rows =
        weft_colwise_parallel_with((weft_style_options){.input_layouts = "S(0)"});
    weft_style to_rows = weft_rowwise_parallel_with((weft_style_options){.output_layouts = "S(0)"});
    weft_style cut =
        weft_prepare_module_input_output((weft_style_options){.input_layouts = "R",
                                                              .desired_input_layouts = "S(0)",
                                                              .output_layouts = "S(0)",
                                                              .desired_output_layouts = "R"});
    weft_style to_kept_rows = weft_rowwise_parallel_with(
        (weft_style_options){.output_layouts = "S(0)", .keep_distributed = true});
    const struct {
        const char *name;
        weft_module *(*make)(void);
        weft_plan plan[4];
        int64_t rows;
        int distributed;
    } cases[] = {
        {"PAPI-01", mlp, {{"net1", gathered()}, {"net2", gathered()}}, 12, 4},
        {"PAPI-02",
         contained,
         {{"dummy_encoder.net1", gathered()}, {"dummy_encoder.net2", gathered()}},
         12,
         4},
        {"PAPI-04", one_linear, {{"only", gathered()}}, 8, 2},
        {"PAPI-04, the module itself is below", one_linear, {{"*", gathered()}}, 5, 2},
        {"PAPI-08 *", mlp, {{"net*", gathered()}}, 12, 4},
        {"PAPI-08 ?", mlp, {{"net?", gathered()}}, 12, 4},
        {"PAPI-08 []", mlp, {{"net[1-2]", gathered()}}, 12, 4},
        {"one of them", mlp, {{"*[!1u]", gathered()}}, 7, 2},
        {"PAPI-09", stacked, {{"layers.*.net[1]", col}, {"layers.*.net[2]", row}}, 12, 8},
        {"rows outside", mlp, {{"", cut}, {"net1", from_rows}, {"net2", to_rows}}, 24, 4},
        {"any rows", mlp, {{"", cut}, {"net1", from_rows}, {"net2", to_kept_rows}}, 7, 4},
        {"one layer", stacked, {{"layers.1.net1", col}, {"layers.[1-9].net2", row}}, 3, 4},
    };
    weft_mesh *mesh = wt_own(given_mesh());

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        wt_row("%s", cases[i].name);
        check_model(cases[i].make, mesh, cases[i].plan, cases[i].rows, cases[i].distributed);
    }
}

/* ---- what matches nothing ---- */

/* PAPI-11 */
WT_TEST(plans__a_pattern_without_match_is_a_warning)
{
    weft_style lenient = gathered();
    weft_mesh *mesh = wt_own(given_mesh());
    int all, first, second;

    lenient.optional = true;
    wt_stderr_begin();
    check_model(mlp, mesh,
                (weft_plan[]){{"net0.hello.world", gathered()},
                              {"net1", gathered()},
                              {"net3", gathered()},
                              {"net4", lenient},
                              {0}},
                12, 2);
    all = wt_stderr_times("could not be resolved");
    first = wt_stderr_times("'net0.hello.world' could not");
    second = wt_stderr_times("'net3' could not");
    WT_EQ(all, wt_rank() ? -1 : 2);
    WT_EQ(first, wt_rank() ? -1 : 1);
    WT_EQ(second, wt_rank() ? -1 : 1);
}

/* PAPI-11: without a plan a warning; with an empty one nothing. */
WT_TEST(plans__no_plan_is_a_warning)
{
    weft_mesh *mesh = wt_own(given_mesh());
    int warnings;

    wt_stderr_begin();
    check_model(mlp, mesh, NULL, 12, 0);
    warnings = wt_stderr_times("no plan is given");
    WT_EQ(warnings, wt_rank() ? -1 : 1);
    wt_stderr_begin();
    check_model(mlp, mesh, (weft_plan[]){{0}}, 12, 0);
    warnings = wt_stderr_times("plan");
    WT_EQ(warnings, wt_rank() ? -1 : 0);
    wt_note("%s", "");
}

WT_TEST(plans__strict_refuses_both)
{
    weft_mesh *mesh = wt_own(given_mesh());
    weft_module *m = wt_own(mlp());
    weft_style lenient = gathered();

    lenient.optional = true;
    WT_FAILS(weft_parallelize_module_strict(m, mesh, NULL), WEFT_ERR_ARG, "plan is NULL");
    WT_FAILS(weft_parallelize_module_strict(
                 m, mesh, (weft_plan[]){{"net1", gathered()}, {"net3", gathered()}, {0}}),
             WEFT_ERR_NOT_FOUND, "'net3' matches no module");
    WT_ALL(!weft_tensor_mesh(weft_module_parameter(m, "net1.weight")));
    WT_EQ(weft_parallelize_module_strict(
              m, mesh, (weft_plan[]){{"net1", gathered()}, {"net3", lenient}, {0}}),
          WEFT_OK);
}

/* ---- meshes ---- */

/* PAPI-12 */
WT_TEST(plans__without_a_mesh_the_innermost_default_is_taken)
{
    weft_mesh *mesh = wt_own(given_mesh());
    weft_module *m = wt_own(mlp());

    WT_FAILS(weft_parallelize_module(m, NULL, (weft_plan[]){{"net1", gathered()}, {0}}),
             WEFT_ERR_STATE, "no mesh is currently active");
    weft_default_mesh_open(mesh);
    check_model(one_linear, NULL, (weft_plan[]){{"only", gathered()}, {0}}, 8, 2);
    check_model(mlp, NULL, (weft_plan[]){{"net*", gathered()}, {0}}, 5, 4);
    WT_EQ(weft_default_mesh_close(mesh), WEFT_OK);
}

/* PAPI-14 */
WT_TEST(plans__take_one_axis_of_a_mesh)
{
    int dp = wt_ranks() % 2 == 0 ? 2 : 1;
    weft_mesh *mesh = wt_own(weft_mesh_new(WEFT_CPU, "dp=%d,tp=%d", dp, wt_ranks() / dp));
    weft_mesh *tp = wt_own(weft_mesh_sub(mesh, "tp"));
    weft_plan plan[] = {{"net1", weft_colwise_parallel()}, {"net2", weft_rowwise_parallel()}, {0}};
    weft_module *m = wt_own(mlp());

    WT_FAILS(weft_parallelize_module(m, mesh, plan), WEFT_ERR_ARG, "use weft_mesh_sub");
    WT_ALL(!weft_tensor_mesh(weft_module_parameter(m, "net1.weight")));
    check_model(mlp, tp, plan, 12, 4);
}

/* ---- plans from text ---- */

static const char text[] = "# an MLP\n"
                           "\n"
                           "  layers.*.net[1]  colwise          # into hidden features\n"
                           "layers.*.net2\trowwise output=S(0) keep\r\n"
                           "layers.*.drop sequence desired_input=S(0) local optional\n"
                           ". prepare output=S(0) desired_output=R";

WT_TEST(plans__from_text)
{
    weft_plan *plan = wt_own(weft_plan_parse(text));
    weft_mesh *mesh = wt_own(given_mesh());

    WT_ALL(plan != NULL);
    WT_ALL(!strcmp(plan[0].pattern, "layers.*.net[1]") && plan[0].style.line == 3);
    WT_ALL(plan[1].style.kind == WEFT_STYLE_ROWWISE && plan[1].style.options.keep_distributed);
    WT_ALL(!strcmp(plan[1].style.options.output_layouts, "S(0)"));
    WT_ALL(plan[2].style.optional && !plan[2].style.options.keep_distributed);
    WT_ALL(!plan[3].pattern[0] && plan[3].style.line == 6);
    WT_ALL(!plan[4].pattern);
    check_model(stacked, mesh, plan, 12, 8);
    check_model(stacked, mesh, plan, 5, 8);
    weft_plan_release(NULL);
    plan = wt_own(weft_plan_parse(""));
    WT_ALL(plan && !plan[0].pattern);
}

WT_TEST(plans__faults_in_text_are_named_by_line)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"net1 colwise\nnet2 colwsie", "plan line 2: 'colwsie' is none of colwise"},
        {"net1 custom", "plan line 1: 'custom' is none of"},
        {"\n\nnet1", "plan line 3: pattern 'net1' has no style"},
        {"net1 # colwise", "plan line 1: pattern 'net1' has no style"},
        {"net1 colwise output=S(x)", "plan line 1: placements \"S(x)\""},
        {"#\nnet1 colwise input=", "plan line 2: placements \"\""},
        {"net1 colwise keeps", "plan line 1: 'keeps' is none of input="},
        {"net1 colwise input=S(0) output=R input=R",
         "plan line 1: 'input=R', but 'S(0)' was said before"},
        {"net1 colwise output = R", "plan line 1: 'output' is none of input="},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        wt_row("%s", cases[i].text);
        WT_FAILS(weft_plan_parse(cases[i].text), WEFT_ERR_ARG, cases[i].message);
    }
    WT_FAILS(weft_plan_parse(NULL), WEFT_ERR_ARG, "text is NULL");
}

WT_TEST(plans__faults_of_a_line_that_show_when_it_is_applied)
{
    static const struct {
        const char *text;
        weft_status status;
        const char *message;
    } cases[] = {
        {"net1 colwise\nrelu colwise", WEFT_ERR_ARG,
         "plan line 2: in module relu: style colwise does not support"},
        {"net1 colwise\nnet9 rowwise", WEFT_ERR_NOT_FOUND, "plan line 2: pattern 'net9'"},
        {"net1 colwise\n\nnet* rowwise", WEFT_ERR_STATE, "plan line 3: module 'net1' is matched"},
        {"net1 rowwise desired_input=R", WEFT_ERR_ARG,
         "plan line 1: in module net1: style rowwise"},
    };
    weft_mesh *mesh = wt_own(given_mesh());

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_module *m;
        weft_plan *plan;

        wt_row("%s", cases[i].text);
        m = wt_own(mlp());
        plan = wt_own(weft_plan_parse(cases[i].text));

        WT_FAILS(weft_parallelize_module_strict(m, mesh, plan), cases[i].status, cases[i].message);
        WT_ALL(!weft_tensor_mesh(weft_module_parameter(m, "net1.weight")));
    }
}

WT_TEST(plans__from_a_file)
{
    weft_mesh *mesh = wt_own(given_mesh());
    char path[64];
    weft_plan *plan;
    FILE *file;

    snprintf(path, sizeof path, "/tmp/weft_plan_%d_%d", (int)getpid(), wt_rank());
    file = fopen(path, "w");
    WT_ALL(file != NULL);
    for (int i = 0; i < 300; i++) fprintf(file, "# a long file has a long beginning\n");
    fprintf(file, "net? colwise output=R\n");
    fclose(file);
    plan = weft_plan_read(path);
    WT_ALL(plan && plan[0].style.line == 301);
    check_model(mlp, mesh, plan, 12, 4);
    weft_plan_release(plan);
    file = fopen(path, "w");
    fprintf(file, "net1 colwise\nnet2 wise\n");
    fclose(file);
    WT_FAILS(weft_plan_read(path), WEFT_ERR_ARG, " line 2: 'wise'");
    remove(path);
    if (wt_ranks() == 1) { /* beside others, which may have the file, it ends the job */
        WT_FAILS(weft_plan_read(path), WEFT_ERR_IO, "cannot be opened");
    }
}

int main(int argc, char **argv) { return wt_main(argc, argv, "plans"); }
