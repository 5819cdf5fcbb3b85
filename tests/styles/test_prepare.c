/*
 * test_prepare.c: prepare-module moves inputs and output of any module and leaves parameters alone.
 */
/* mpi: 4 */
#include "support/given.h"

/* ---- modules of the cases ---- */

/* y = linear(x) + 2 + z, or linear(x) + z */
static weft_tensor *add_to_product(weft_module *m, weft_tensor *const *inputs, int n)
{
    const int *two = weft_module_payload(m);
    weft_tensor *y = weft_call(weft_module_child_at(m, 0), inputs[0]);

    (void)n;
    return weft_add(*two ? weft_add_scalar(y, *two) : y, inputs[1]);
}

static weft_module *product_and_sum(const int *two, bool keep, weft_mesh *mesh)
{
    static const weft_module_class kind = {
        .type = "product and sum", .forward = add_to_product, .inputs = 2};
    weft_module *m = weft_module_new(&kind, (void *)(uintptr_t)two);
    weft_style colwise = weft_colwise_parallel_with(
        (weft_style_options){.output_layouts = keep ? NULL : "R", .keep_distributed = keep});

    weft_manual_seed(4);
    weft_module_add_child(
        m, "linear",
        weft_linear_new((weft_linear_config){.in = {8}, .out = {8}, .dtype = WEFT_F64}));
    if (mesh)
        WT_EQ(weft_parallelize_module(m, mesh, (weft_plan[]){{"linear", colwise}, {0}}), WEFT_OK);
    return m;
}

static void apply(weft_module *m, weft_mesh *mesh, weft_style style)
{
    WT_EQ(weft_parallelize_module(m, mesh, (weft_plan[]){{"", style}, {0}}), WEFT_OK);
}

/* ---- inputs ---- */

/* STYLE-10, PAPI-05 */
WT_TEST(prepare__an_input_is_moved_to_the_desired_layout)
{
    static const int64_t sizes[][2] = {{2, 16}, {5, 7}, {1, 3}};

    for (int i = 0; i < 3; i++) {
        weft_mesh *mesh = given_mesh();
        weft_module *m = given_identity();
        weft_tensor *whole = given(0, sizes[i][0] * wt_ranks(), sizes[i][1], 0);
        weft_tensor *x = given_shard(whole, mesh, "S(0)"), *y;
        weft_ledger *ledger;

        apply(m, mesh, weft_prepare_module_input("S(0)", "R"));
        ledger = weft_ledger_open();
        y = weft_call(m, x);
        GIVEN_MOVED(ledger, WEFT_COLL_ALL_GATHER, 1);
        WT_ALL(given_is(y, "R"));
        WT_ALL(wt_near_tensors(y, whole, WT_EXACT));
        y = weft_redistribute(y, (weft_placement[]){weft_shard(0)});
        WT_ALL(wt_near_tensors(weft_to_local(y, NULL), x, WT_EXACT));
        weft_ledger_close(ledger);
        weft_module_release(m);
        weft_mesh_release(mesh);
    }
}

/* STYLE-11 */
WT_TEST(prepare__lists_of_different_length_are_refused)
{
    static const struct {
        weft_style_options options;
        const char *text;
    } cases[] = {
        {{.input_layouts = "S(0)", .desired_input_layouts = "R, R"},
         "input_layouts and desired_input_layouts should have same length, not 1 and 2"},
        {{.input_layouts = "S(0),none,R", .desired_input_layouts = "R, R"},
         "should have same length, not 3 and 2"},
        {{.output_layouts = "S(0)", .desired_output_layouts = "R,R"},
         "output_layouts and desired_output_layouts should have same length"},
        {{.output_layouts = "S(0),R", .desired_output_layouts = "R,R"},
         "module outputs and output_layouts should have same length"},
        {{.input_layouts = "S(0)"}, "input_layouts and desired_input_layouts go together"},
        {{.desired_output_layouts = "R"}, "go together"},
        {{.input_layouts = "S(x)", .desired_input_layouts = "R"}, "S(x)"},
        {{.input_layouts = "S(0,balanced) R", .desired_input_layouts = "R"}, "more than 1"},
        {{.input_layouts = "none R", .desired_input_layouts = "R"}, "is not S(dim)"},
        {{.input_layouts = "S(0),,R", .desired_input_layouts = "R"}, "is not S(dim)"},
        {{0}, "neither inputs nor output"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_mesh *mesh = given_mesh();
        weft_module *m = given_identity();
        weft_style style = weft_prepare_module_input_output(cases[i].options);
        weft_tensor *x = given(0, 2, 3, 0);

        wt_note("%s", cases[i].text);
        WT_EQ(weft_parallelize_module(m, mesh, (weft_plan[]){{"", style}, {0}}), WEFT_ERR_ARG);
        WT_FAILED(WEFT_ERR_ARG, cases[i].text);
        WT_ALL(weft_call(m, x) == x);
        weft_module_release(m);
        weft_mesh_release(mesh);
    }
}

/* Before anything moves: what is there is moved over the style's mesh and no other. */
WT_TEST(prepare__refuses_a_tensor_on_another_mesh)
{
    weft_mesh *mesh = given_mesh(), *other = weft_mesh_new(WEFT_CPU, "x=%d", wt_ranks());
    weft_module *in = given_identity(), *out = given_identity();
    weft_tensor *x = given_spread(given(0, 8, 3, 0), other, "S(0)");
    weft_ledger *ledger = weft_ledger_open();

    apply(in, mesh, weft_prepare_module_input("S(0)", "R"));
    apply(out, mesh, weft_prepare_module_output("S(0)", "R"));
    WT_ALL(weft_call(in, x) == NULL);
    WT_FAILED(WEFT_ERR_LAYOUT, "a tensor lies on mesh (x:");
    WT_ALL(weft_call(out, x) == NULL);
    WT_FAILED(WEFT_ERR_LAYOUT, "the style on (tp:");
    GIVEN_STILL(ledger);
    weft_ledger_close(ledger);
    weft_module_release(in);
    weft_module_release(out);
    weft_mesh_release(mesh);
    weft_mesh_release(other);
}

/* STYLE-12: only a call knows how many inputs there are. */
WT_TEST(prepare__a_call_needs_as_many_inputs_as_layouts)
{
    static const int nothing = 0;
    weft_mesh *mesh = given_mesh();
    weft_module *m = product_and_sum(&nothing, false, NULL);
    weft_tensor *pair[] = {given(0, 4, 8, 0), given(1, 4, 8, 0)};

    apply(m, mesh, weft_prepare_module_input("R", "R"));
    WT_ALL(weft_call_n(m, pair, 2) == NULL);
    WT_FAILED(WEFT_ERR_ARG, "module inputs and input_layouts should have same length, not 2 and 1");
    weft_module_release(m);
    weft_mesh_release(mesh);
}

/* STYLE-13: an input without a layout goes in as it is. */
WT_TEST(prepare__none_leaves_an_input_alone)
{
    static const int nothing = 0;
    const int64_t rows[] = {2, 3};

    for (int i = 0; i < 2; i++) {
        weft_mesh *mesh = given_mesh();
        weft_module *one = product_and_sum(&nothing, false, NULL);
        weft_module *many = product_and_sum(&nothing, false, mesh);
        int64_t n = rows[i] * wt_ranks();
        weft_tensor *x = given(0, n, 8, 0), *y = given(1, n, 8, 0), *want, *got;
        weft_tensor *pair[] = {x, y};

        want = weft_call_n(one, pair, 2);
        apply(many, mesh, weft_prepare_module_input("S(0), none", "R, none"));
        pair[0] = given_shard(x, mesh, "S(0)");
        got = weft_call_n(many, pair, 2);
        WT_ALL(got && !weft_tensor_mesh(got));
        WT_ALL(wt_has_shape(got, 2, n, (int64_t)8));
        WT_ALL(wt_near_tensors(got, want, WT_WITHIN(1e-12)));
        weft_module_release(one);
        weft_module_release(many);
        weft_mesh_release(mesh);
    }
}

/* How x comes: as this rank's shard of S(0), as that tensor itself, or whole and left alone. */
enum first { PART, FED, LEFT };

static void check_two_inputs(int64_t per_rank, enum first first)
{
    static const int two = 2;
    weft_mesh *mesh = given_mesh();
    weft_module *one = product_and_sum(&two, true, NULL);
    weft_module *many = product_and_sum(&two, true, mesh);
    weft_tensor *x = given(0, per_rank * wt_ranks(), 8, 0), *z = given_like(x), *want, *got;
    weft_tensor *pair[] = {x, z};
    weft_ledger *ledger;

    want = weft_call_n(one, pair, 2);
    if (first == LEFT)
        apply(many, mesh, weft_prepare_module_input("none, S(0)", "none, R"));
    else
        apply(many, mesh, weft_prepare_module_input("S(0), S(0)", "R, R"));
    if (first != LEFT)
        pair[0] = first == FED ? given_spread(x, mesh, "S(0)") : given_shard(x, mesh, "S(0)");
    pair[1] = given_shard(z, mesh, "S(0)");
    ledger = weft_ledger_open();
    got = weft_call_n(many, pair, 2);
    GIVEN_MOVED(ledger, WEFT_COLL_ALL_GATHER, first == LEFT ? 1 : 2);
    WT_ALL(got && weft_tensor_mesh(got));
    WT_ALL(wt_near_tensors(got, want, WT_WITHIN(1e-12)));
    weft_ledger_close(ledger);
    weft_module_release(one);
    weft_module_release(many);
    weft_mesh_release(mesh);
}

/* STYLE-15: C has no keyword arguments; the layouts of x and z stand in the order of the call
 * (docs/decisions/0011-inputs-have-places-not-names.md). */
WT_TEST(prepare__several_inputs_by_place)
{
    check_two_inputs(1, PART);
    check_two_inputs(1, FED);
    check_two_inputs(1, LEFT);
    check_two_inputs(3, PART);
    check_two_inputs(3, LEFT);
}

/* Weakness 10.4-13: the peer trusts the declaration of a distributed input and would leave this one
 * sharded. All combinations: tests/traps/test_weaknesses.c. */
WT_TEST(prepare__a_wrong_declaration_does_no_harm)
{
    weft_mesh *mesh = given_mesh();
    weft_module *m = given_identity();
    weft_tensor *x = given(0, 5, 7, 0), *y;

    apply(m, mesh, weft_prepare_module_input("R", "R"));
    y = weft_call(m, given_spread(x, mesh, "S(0)"));
    WT_ALL(given_is(y, "R"));
    WT_ALL(wt_near_tensors(y, x, WT_EXACT));
    weft_module_release(m);
    weft_mesh_release(mesh);
}

/* Local inputs: the module sees plain tensors, and gradients find their way back. */
WT_TEST(prepare__local_inputs)
{
    weft_mesh *mesh = given_mesh();
    weft_module *m = given_identity();
    weft_style style = weft_prepare_module_input_output((weft_style_options){
        .input_layouts = "S(0)", .desired_input_layouts = "S(1)", .local_inputs = true});
    weft_tensor *whole = given(0, 2 * wt_ranks(), 3 * wt_ranks(), 0), *x, *y, *c;
    weft_ledger *ledger;

    apply(m, mesh, style);
    x = weft_set_requires_grad(weft_detach(given_shard(whole, mesh, "S(0)")), true);
    ledger = weft_ledger_open();
    y = weft_call(m, x);
    GIVEN_MOVED(ledger, WEFT_COLL_ALL_TO_ALL, 1);
    WT_ALL(y && !weft_tensor_mesh(y));
    WT_ALL(wt_near_tensors(y, given_shard(whole, mesh, "S(1)"), WT_EXACT));
    c = given_like(whole);
    WT_EQ(weft_backward(weft_sum_all(weft_mul(y, given_shard(c, mesh, "S(1)")))), WEFT_OK);
    GIVEN_MOVED(ledger, WEFT_COLL_ALL_TO_ALL, 1);
    WT_ALL(wt_near_tensors(weft_grad(x), given_shard(c, mesh, "S(0)"), WT_EXACT));
    weft_ledger_close(ledger);
    weft_module_release(m);
    weft_mesh_release(mesh);
}

/* ---- output ---- */

/* STYLE-16 */
WT_TEST(prepare__an_output_is_moved_and_handed_on_as_a_shard)
{
    static const int64_t sizes[][2] = {{8, 16}, {5, 3}};

    for (int i = 0; i < 2; i++) {
        weft_mesh *mesh = given_mesh();
        weft_module *m = given_identity();
        weft_tensor *x = given(0, sizes[i][0], sizes[i][1], 0), *y;
        weft_ledger *ledger;

        apply(m, mesh, weft_prepare_module_output("R", "S(0)"));
        ledger = weft_ledger_open();
        y = weft_call(m, x);
        GIVEN_STILL(ledger);
        WT_ALL(y && !weft_tensor_mesh(y));
        WT_EQ(weft_size(y, 0), weft_chunk_size(sizes[i][0], wt_ranks(), wt_rank()));
        WT_ALL(wt_near_tensors(y, given_shard(x, mesh, "S(0)"), WT_EXACT));
        weft_ledger_close(ledger);
        weft_module_release(m);
        weft_mesh_release(mesh);
    }
}

/* PAPI-06 */
WT_TEST(prepare__a_distributed_output_is_cut)
{
    static const int64_t rows[] = {16, 13, 3};

    for (int i = 0; i < 3; i++) {
        weft_mesh *mesh = given_mesh();
        weft_module *m = given_identity();
        weft_tensor *x = given(0, rows[i], 7, 0), *y;

        apply(m, mesh, weft_prepare_module_output("R", "S(0)"));
        y = weft_call(m, given_spread(x, mesh, "R"));
        WT_ALL(y && !weft_tensor_mesh(y));
        WT_ALL(wt_near_tensors(y, given_shard(x, mesh, "S(0)"), WT_EXACT));
        weft_module_release(m);
        weft_mesh_release(mesh);
    }
}

/* STYLE-26 for the general form: both sides, kept distributed. */
WT_TEST(prepare__inputs_and_output_together)
{
    weft_mesh *mesh = given_mesh();
    weft_module *m = given_identity();
    weft_style style =
        weft_prepare_module_input_output((weft_style_options){.input_layouts = "S(0)",
                                                              .desired_input_layouts = "R",
                                                              .output_layouts = "R",
                                                              .desired_output_layouts = "S(-1)",
                                                              .keep_distributed = true});
    weft_tensor *x = given(0, 3 * wt_ranks(), 5, 0), *y;
    weft_ledger *ledger;

    apply(m, mesh, style);
    ledger = weft_ledger_open();
    y = weft_call(m, given_shard(x, mesh, "S(0)"));
    GIVEN_MOVED(ledger, WEFT_COLL_ALL_GATHER, 1);
    WT_ALL(given_is(y, "S(1)"));
    WT_ALL(wt_near_tensors(y, x, WT_EXACT));
    weft_ledger_close(ledger);
    weft_module_release(m);
    weft_mesh_release(mesh);
}

/* Parameters stay plain, also of a module that holds others; and it may be done more than once. */
WT_TEST(prepare__parameters_stay_as_they_are)
{
    static const int nothing = 0;
    weft_mesh *mesh = given_mesh();
    weft_module *m = product_and_sum(&nothing, false, NULL);

    apply(m, mesh, weft_prepare_module_input("R, R", "R, R"));
    apply(m, mesh, weft_prepare_module_output("R", "S(0)"));
    WT_ALL(!weft_tensor_mesh(weft_module_parameter(m, "linear.weight")));
    WT_EQ(weft_parallelize_module(m, mesh, (weft_plan[]){{"linear", weft_colwise_parallel()}, {0}}),
          WEFT_OK);
    WT_ALL(weft_tensor_mesh(weft_module_parameter(m, "linear.weight")) != NULL);
    weft_module_release(m);
    weft_mesh_release(mesh);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "prepare"); }
