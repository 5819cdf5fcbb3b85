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
    return wt_own(m);
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
    weft_mesh *mesh = wt_own(given_mesh());
    weft_module *m = wt_own(given_identity());
    weft_ledger *ledger = wt_own(weft_ledger_open());

    apply(m, mesh, weft_prepare_module_input("S(0)", "R"));
    for (int i = 0; i < 3; i++) {
        weft_tensor *whole = given(0, sizes[i][0] * wt_ranks(), sizes[i][1], 0);
        weft_tensor *x = given_shard(whole, mesh, "S(0)"), *y;

        weft_ledger_reset(ledger);
        y = weft_call(m, x);
        GIVEN_MOVED(ledger, WEFT_COLL_ALL_GATHER, 1);
        WT_ALL(given_is(y, "R"));
        WT_ALL(wt_near_tensors(y, whole, WT_EXACT));
        y = weft_redistribute(y, (weft_placement[]){weft_shard(0)});
        WT_ALL(wt_near_tensors(weft_to_local(y, NULL), x, WT_EXACT));
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
    weft_mesh *mesh = wt_own(given_mesh());
    weft_module *m = wt_own(given_identity());
    weft_tensor *x = given(0, 2, 3, 0);

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_style style = weft_prepare_module_input_output(cases[i].options);

        wt_row("%s", cases[i].text);
        WT_FAILS(weft_parallelize_module(m, mesh, (weft_plan[]){{"", style}, {0}}), WEFT_ERR_ARG,
                 cases[i].text);
        WT_ALL(weft_call(m, x) == x);
    }
}

/* Before anything moves: what is there is moved over the style's mesh and no other. */
WT_TEST(prepare__refuses_a_tensor_on_another_mesh)
{
    weft_mesh *mesh = wt_own(given_mesh()),
              *other = wt_own(weft_mesh_new(WEFT_CPU, "x=%d", wt_ranks()));
    weft_module *in = wt_own(given_identity()), *out = wt_own(given_identity());
    weft_tensor *x = given_spread(given(0, 8, 3, 0), other, "S(0)");
    weft_ledger *ledger = wt_own(weft_ledger_open());

    apply(in, mesh, weft_prepare_module_input("S(0)", "R"));
    apply(out, mesh, weft_prepare_module_output("S(0)", "R"));
    WT_FAILS(weft_call(in, x), WEFT_ERR_LAYOUT, "a tensor lies on mesh (x:");
    WT_FAILS(weft_call(out, x), WEFT_ERR_LAYOUT, "the style on (tp:");
    GIVEN_STILL(ledger);
}

/* STYLE-12: only a call knows how many inputs there are. */
WT_TEST(prepare__a_call_needs_as_many_inputs_as_layouts)
{
    static const int nothing = 0;
    weft_mesh *mesh = wt_own(given_mesh());
    weft_module *m = product_and_sum(&nothing, false, NULL);
    weft_tensor *pair[] = {given(0, 4, 8, 0), given(1, 4, 8, 0)};

    apply(m, mesh, weft_prepare_module_input("R", "R"));
    WT_FAILS(weft_call_n(m, pair, 2), WEFT_ERR_ARG,
             "module inputs and input_layouts should have same length, not 2 and 1");
}

static weft_tensor *add_what_is_given(weft_module *m, weft_tensor *const *in, int n)
{
    (void)m;
    return n > 1 ? weft_add(in[0], in[1]) : weft_mul_scalar(in[0], 2);
}

/* One plan is for calls with and without an optional input. */
WT_TEST(prepare__takes_calls_that_leave_out_what_is_optional)
{
    static const weft_module_class class = {
        .type = "add", .forward = add_what_is_given, .inputs = 1, .optional = 1};
    weft_mesh *mesh = wt_own(given_mesh());
    weft_module *m = wt_own(weft_module_new(&class, NULL));
    weft_tensor *pair[] = {given(0, 4, 8, 0), given(1, 4, 8, 0)};

    apply(m, mesh, weft_prepare_module_input("S(0),S(0)", "R,R"));
    WT_ALL(weft_size(weft_call_n(m, pair, 2), 0) == 4 * wt_ranks());
    WT_ALL(weft_size(weft_call(m, pair[0]), 0) == 4 * wt_ranks());
    WT_ALL(weft_size(weft_call_n(m, pair, 2), 0) == 4 * wt_ranks());
}

/* linear(x) + z under layouts of x and z. x comes plain, as this rank's shard, or as the tensor
 * itself. */
struct pair {
    int two;   /* added */
    bool keep; /* linear hands on a distributed tensor */
    const char *layouts, *desired;
    enum { WHOLE, PART, FED } x;
    bool z_whole;
    int gathers; /* of inputs, and of what linear gives when that is handed on plain */
};

static void check_pair(const struct pair *p, int64_t per_rank)
{
    weft_mesh *mesh = wt_own(given_mesh());
    weft_module *one = product_and_sum(&p->two, p->keep, NULL);
    weft_module *many = product_and_sum(&p->two, p->keep, mesh);
    int64_t rows = per_rank * wt_ranks();
    weft_tensor *x = given(0, rows, 8, 0), *z = given_like(x), *want, *got;
    weft_tensor *pair[] = {x, z};
    weft_ledger *ledger = wt_own(weft_ledger_open());

    want = weft_call_n(one, pair, 2);
    apply(many, mesh, weft_prepare_module_input(p->layouts, p->desired));
    if (p->x != WHOLE)
        pair[0] = p->x == FED ? given_spread(x, mesh, "S(0)") : given_shard(x, mesh, "S(0)");
    if (!p->z_whole) pair[1] = given_shard(z, mesh, "S(0)");
    got = weft_call_n(many, pair, 2);
    GIVEN_MOVED(ledger, WEFT_COLL_ALL_GATHER, p->gathers);
    WT_ALL(got && (weft_tensor_mesh(got) != NULL) == p->keep);
    WT_ALL(wt_has_shape(got, 2, (int)rows, 8));
    WT_ALL(wt_near_tensors(got, want, WT_WITHIN(1e-12)));
}

/* STYLE-13, STYLE-15: an input without a layout goes in as it is. C has no keyword arguments; the
 * layouts of x and z stand in the order of the call
 * (docs/decisions/0011-inputs-have-places-not-names.md). */
WT_TEST(prepare__several_inputs_by_place)
{
    static const struct pair pairs[] = {
        {0, false, "S(0), none", "R, none", PART, true, 2},
        {2, true, "S(0), S(0)", "R, R", PART, false, 2},
        {2, true, "S(0), S(0)", "R, R", FED, false, 2},
        {2, true, "none, S(0)", "none, R", WHOLE, false, 1},
    };

    for (int i = 0; i < 4 * 3; i++) {
        wt_row("%s to %s, %d rows", pairs[i / 3].layouts, pairs[i / 3].desired, i % 3 + 1);
        check_pair(&pairs[i / 3], i % 3 + 1);
    }
}

/* Weakness 10.4-13: the peer trusts the declaration of a distributed input and would leave this one
 * sharded. All combinations: tests/traps/test_weaknesses.c. */
WT_TEST(prepare__a_wrong_declaration_does_no_harm)
{
    weft_mesh *mesh = wt_own(given_mesh());
    weft_module *m = wt_own(given_identity());
    weft_tensor *x = given(0, 5, 7, 0), *y;

    apply(m, mesh, weft_prepare_module_input("R", "R"));
    y = weft_call(m, given_spread(x, mesh, "S(0)"));
    WT_ALL(given_is(y, "R"));
    WT_ALL(wt_near_tensors(y, x, WT_EXACT));
}

/* ---- output ---- */

/* STYLE-16, PAPI-06: a plain output, or a distributed one, is handed on as a shard. */
WT_TEST(prepare__an_output_is_cut_without_communication)
{
    static const int64_t sizes[][2] = {{8, 16}, {5, 3}, {16, 7}, {13, 7}, {3, 7}};
    weft_mesh *mesh = wt_own(given_mesh());
    weft_module *m = wt_own(given_identity());
    weft_ledger *ledger = wt_own(weft_ledger_open());

    apply(m, mesh, weft_prepare_module_output("R", "S(0)"));
    for (int i = 0; i < 5 * 2; i++) {
        const int64_t *size = sizes[i / 2];
        weft_tensor *x, *y;

        wt_row("%d x %d%s", (int)size[0], (int)size[1], i % 2 ? ", distributed" : "");
        x = given(0, size[0], size[1], 0);
        y = weft_call(m, i % 2 ? given_spread(x, mesh, "R") : x);
        GIVEN_STILL(ledger);
        WT_ALL(y && !weft_tensor_mesh(y));
        WT_EQ(weft_size(y, 0), weft_chunk_size(size[0], wt_ranks(), wt_rank()));
        WT_ALL(wt_near_tensors(y, given_shard(x, mesh, "S(0)"), WT_EXACT));
    }
}

/* Parameters stay plain, also of a module that holds others; and it may be done more than once. */
WT_TEST(prepare__parameters_stay_as_they_are)
{
    static const int nothing = 0;
    weft_mesh *mesh = wt_own(given_mesh());
    weft_module *m = product_and_sum(&nothing, false, NULL);

    apply(m, mesh, weft_prepare_module_input("R, R", "R, R"));
    apply(m, mesh, weft_prepare_module_output("R", "S(0)"));
    WT_ALL(!weft_tensor_mesh(weft_module_parameter(m, "linear.weight")));
    WT_EQ(weft_parallelize_module(m, mesh, (weft_plan[]){{"linear", weft_colwise_parallel()}, {0}}),
          WEFT_OK);
    WT_ALL(weft_tensor_mesh(weft_module_parameter(m, "linear.weight")) != NULL);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "prepare"); }
