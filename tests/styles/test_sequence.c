/*
 * test_sequence.c: sequence parallel equals one device without any communication, forward and
 * backward; gradients of parameters wait as partial sums and are reduced together, once.
 */
/* mpi: 4 */
#include "support/given.h"
#include "support/near_modules.h"
#include "tensor/tensor.h"

enum kind { LAYER_NORM, LAYER_NORM_PLAIN, RMS_NORM, POSITION };

struct row {
    const char *name;
    enum kind kind;
    int64_t a, b, c;
    const char *along; /* NULL: the style's own, S(1) */
    const char *layout;
};

static const struct row rows[] = {
    {"layer norm", LAYER_NORM, 20, 32, 12, NULL, "S(1)"},
    {"layer norm, not affine", LAYER_NORM_PLAIN, 20, 32, 12, NULL, "S(1)"},
    {"RMS norm", RMS_NORM, 20, 32, 12, NULL, "S(1)"},
    {"layer norm, uneven", LAYER_NORM, 3, 13, 5, NULL, "S(1)"},
    {"RMS norm, ranks with nothing", RMS_NORM, 3, 2, 5, NULL, "S(1)"},
    {"layer norm along dim 0", LAYER_NORM, 7, 2, 6, "S(0)", "S(0)"},
    {"RMS norm along dim 0", RMS_NORM, 9, 6, 0, "S(0)", "S(0)"},
    {"layer norm not affine, uneven", LAYER_NORM_PLAIN, 2, 5, 3, NULL, "S(1)"},
};

static weft_module *make(const struct row *row)
{
    int64_t width = row->c ? row->c : row->b;
    weft_norm_config config = {
        .width = width, .no_weight = row->kind == LAYER_NORM_PLAIN, .dtype = WEFT_F64};

    if (row->kind == RMS_NORM) return weft_rms_norm_new(config);
    return weft_layer_norm_new(config);
}

static weft_style style_along(const char *along)
{
    weft_style_options options = {.desired_input_layouts = along, .keep_distributed = true};

    return along ? weft_sequence_parallel_with(options) : weft_sequence_parallel();
}

/* Both parameters in one collective, and the result is the one device's. */
static void check_reduction(weft_module *many, weft_module *one, weft_ledger *ledger)
{
    static const char *const names[] = {"weight", "bias"};
    weft_tensor *leaves[2];
    int n = weft_module_parameter_count(many);

    for (int i = 0; i < n; i++) {
        leaves[i] = weft_module_parameter(many, names[i]);
        /* weft_grad would reduce it, so look at what the leaf holds */
        WT_ALL(given_is(leaves[i]->grad, "P"));
    }
    weft_ledger_reset(ledger);
    WT_EQ(weft_reduce_gradients(leaves, n), WEFT_OK);
    GIVEN_MOVED(ledger, WEFT_COLL_ALL_REDUCE, n > 0);
    WT_EQ(weft_reduce_gradients(leaves, n), WEFT_OK);
    GIVEN_STILL(ledger);
    for (int i = 0; i < n; i++) {
        WT_ALL(given_is(weft_grad(leaves[i]), "R"));
        WT_ALL(wt_near_tensors(weft_grad(leaves[i]),
                               weft_grad(weft_module_parameter(one, names[i])), WT_WITHIN(1e-12)));
    }
}

static void check_row(const struct row *row, bool plain_input)
{
    weft_mesh *mesh = given_mesh();
    weft_module *one = make(row), *many = make(row);
    weft_tensor *x_one = weft_set_requires_grad(given(0, row->a, row->b, row->c), true);
    weft_tensor *y_one = weft_call(one, x_one), *c = given_like(y_one), *x, *y;
    weft_ledger *ledger;

    WT_EQ(weft_backward(weft_sum_all(weft_mul(y_one, c))), WEFT_OK);
    WT_EQ(weft_parallelize_module(many, mesh, (weft_plan[]){{"", style_along(row->along)}, {0}}),
          WEFT_OK);
    x = given_spread(weft_detach(x_one), mesh, row->layout);
    if (plain_input) x = weft_detach(weft_to_local(x, NULL));
    weft_set_requires_grad(x, true);
    c = given_spread(c, mesh, row->layout);
    ledger = weft_ledger_open();
    wt_note("%s", row->name);
    y = weft_call(many, x);
    WT_ALL(given_is(y, row->layout));
    WT_EQ(weft_backward(weft_sum_all(weft_mul(y, c))), WEFT_OK);
    GIVEN_STILL(ledger);
    WT_ALL(wt_near_tensors(y, y_one, WT_WITHIN(1e-12)));
    WT_ALL(wt_near_tensors(weft_grad(x),
                           plain_input ? given_shard(weft_grad(x_one), mesh, row->layout)
                                       : weft_grad(x_one),
                           WT_WITHIN(1e-12)));
    check_reduction(many, one, ledger);
    weft_ledger_close(ledger);
    weft_module_release(one);
    weft_module_release(many);
    weft_mesh_release(mesh);
}

/* STYLE-17, STYLE-18 */
WT_TEST(sequence__norms_equal_one_device_without_communication)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t split = rows[i].along ? rows[i].a : rows[i].b;

        check_row(&rows[i], false);
        if (split % wt_ranks() == 0) check_row(&rows[i], true);
    }
}

static void check_dropout(int64_t length, const char *layout)
{
    weft_mesh *mesh = given_mesh();
    weft_module *one = weft_dropout_new(0.5), *many = weft_dropout_new(0.5);
    weft_tensor *x = given(0, 6, length, 4), *y, *y_one;
    weft_ledger *ledger;

    WT_EQ(weft_parallelize_module(many, mesh, (weft_plan[]){{"", weft_sequence_parallel()}, {0}}),
          WEFT_OK);
    weft_manual_seed(5);
    y_one = weft_call(one, x);
    weft_manual_seed(5);
    x = given_spread(x, mesh, layout);
    ledger = weft_ledger_open();
    y = weft_call(many, x);
    WT_ALL(given_is(y, layout));
    GIVEN_STILL(ledger);
    WT_ALL(wt_near_tensors(y, y_one, WT_EXACT));
    weft_module_train(many, false);
    WT_ALL(wt_near_tensors(weft_call(many, x), given(0, 6, length, 4), WT_EXACT));
    weft_ledger_close(ledger);
    weft_module_release(one);
    weft_module_release(many);
    weft_mesh_release(mesh);
}

/* STYLE-19: and the bits are those of one device, since draws belong to global elements. */
WT_TEST(sequence__dropout_draws_what_one_device_draws)
{
    check_dropout(8, "S(1)");
    check_dropout(5, "S(1)");
    check_dropout(3, "S(1)");
}

/* STYLE-26: the output as this rank's shard, and in another layout. */
WT_TEST(sequence__hands_on_what_the_options_say)
{
    weft_mesh *mesh = given_mesh();
    weft_norm_config config = {.width = 4, .dtype = WEFT_F64};
    weft_module *m = weft_layer_norm_new(config), *whole = weft_layer_norm_new(config);
    weft_tensor *x = given(0, 3, 6, 4), *want, *y;
    weft_ledger *ledger;

    want = weft_detach(weft_call(whole, x));
    WT_EQ(weft_parallelize_module(
              m, mesh,
              (weft_plan[]){{"", weft_sequence_parallel_with((weft_style_options){0})}, {0}}),
          WEFT_OK);
    WT_EQ(weft_parallelize_module(
              whole, mesh,
              (weft_plan[]){{"", weft_sequence_parallel_with((weft_style_options){
                                     .output_layouts = "R", .keep_distributed = true})},
                            {0}}),
          WEFT_OK);
    y = weft_call(m, given_spread(x, mesh, "S(1)"));
    WT_ALL(y && !weft_tensor_mesh(y));
    WT_ALL(wt_near_tensors(y, given_shard(want, mesh, "S(1)"), WT_WITHIN(1e-12)));
    ledger = weft_ledger_open();
    y = weft_call(whole, given_spread(x, mesh, "S(1)"));
    GIVEN_MOVED(ledger, WEFT_COLL_ALL_GATHER, 1);
    WT_ALL(given_is(y, "R"));
    WT_ALL(wt_near_tensors(y, want, WT_WITHIN(1e-12)));
    /* a replicated input is cut without communication, one in another layout by one all-to-all */
    weft_ledger_reset(ledger);
    y = weft_call(m, given_spread(x, mesh, "R"));
    GIVEN_STILL(ledger);
    WT_ALL(wt_near_tensors(y, given_shard(want, mesh, "S(1)"), WT_WITHIN(1e-12)));
    y = weft_call(m, given_spread(x, mesh, "S(0)"));
    GIVEN_MOVED(ledger, WEFT_COLL_ALL_TO_ALL, 1);
    WT_ALL(wt_near_tensors(y, given_shard(want, mesh, "S(1)"), WT_WITHIN(1e-12)));
    weft_ledger_close(ledger);
    weft_module_release(m);
    weft_module_release(whole);
    weft_mesh_release(mesh);
}

/* An input that is cut along another dim than the style's: moved there, and its gradient back. */
static void check_fed(const struct row *row, const char *fed, const char *along, const char *layout)
{
    weft_mesh *mesh = given_mesh();
    weft_module *one = make(row), *many = make(row);
    weft_tensor *x_one = weft_set_requires_grad(given(0, row->a, row->b, row->c), true);
    weft_tensor *y_one = weft_call(one, x_one), *c = given_like(y_one), *x, *y;
    weft_ledger *ledger;

    WT_EQ(weft_backward(weft_sum_all(weft_mul(y_one, c))), WEFT_OK);
    WT_EQ(weft_parallelize_module(many, mesh, (weft_plan[]){{"", style_along(along)}, {0}}),
          WEFT_OK);
    x = weft_set_requires_grad(given_spread(weft_detach(x_one), mesh, fed), true);
    c = given_spread(c, mesh, layout);
    wt_note("%s, fed %s", row->name, fed);
    ledger = weft_ledger_open();
    y = weft_call(many, x);
    GIVEN_MOVED(ledger, WEFT_COLL_ALL_TO_ALL, 1);
    WT_ALL(given_is(y, layout));
    WT_EQ(weft_backward(weft_sum_all(weft_mul(y, c))), WEFT_OK);
    GIVEN_MOVED(ledger, WEFT_COLL_ALL_TO_ALL, 1);
    WT_ALL(wt_near_tensors(y, y_one, WT_WITHIN(1e-12)));
    WT_ALL(wt_near_tensors(weft_grad(x), weft_grad(x_one), WT_WITHIN(1e-12)));
    check_reduction(many, one, ledger);
    weft_ledger_close(ledger);
    weft_module_release(one);
    weft_module_release(many);
    weft_mesh_release(mesh);
}

WT_TEST(sequence__moves_an_input_that_is_cut_otherwise)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].along) continue;
        check_fed(&rows[i], "S(0)", NULL, "S(1)");
        check_fed(&rows[i], "S(0)", "S(-2)", "S(1)");
        check_fed(&rows[i], "S(-1)", "S(0)", "S(0)");
    }
}

/* A dim that the norm averages over can be the sequence's too: it is gathered inside, and the
 * output is cut again. */
WT_TEST(sequence__along_what_a_norm_averages)
{
    for (int i = 0; i < 3; i++) {
        weft_mesh *mesh = given_mesh();
        weft_module *one = make(&rows[i]), *many = make(&rows[i]);
        weft_tensor *x_one = weft_set_requires_grad(given(0, 3, 5, 12), true), *x, *y;
        weft_tensor *y_one = weft_call(one, x_one), *c = given_like(y_one);

        wt_note("%s", rows[i].name);
        WT_EQ(weft_parallelize_module(many, mesh, (weft_plan[]){{"", style_along("S(-1)")}, {0}}),
              WEFT_OK);
        WT_EQ(weft_backward(weft_sum_all(weft_mul(y_one, c))), WEFT_OK);
        x = weft_set_requires_grad(given_spread(weft_detach(x_one), mesh, "S(0)"), true);
        y = weft_call(many, x);
        WT_ALL(given_is(y, "S(2)"));
        WT_ALL(wt_near_tensors(y, y_one, WT_WITHIN(1e-12)));
        WT_EQ(weft_backward(weft_sum_all(weft_mul(y, given_spread(c, mesh, "S(2)")))), WEFT_OK);
        WT_ALL(wt_near_tensors(weft_grad(x), weft_grad(x_one), WT_WITHIN(1e-12)));
        WT_NEAR_GRADIENTS(many, one, WT_WITHIN(1e-12));
        weft_module_release(one);
        weft_module_release(many);
        weft_mesh_release(mesh);
    }
}

/* A frozen norm stays frozen (the peer makes it trainable). */
WT_TEST(sequence__frozen_parameters_stay_frozen)
{
    weft_mesh *mesh = given_mesh();
    weft_module *m = weft_layer_norm_new((weft_norm_config){.width = 6});

    weft_set_requires_grad(weft_module_parameter(m, "weight"), false);
    WT_EQ(weft_parallelize_module(m, mesh, (weft_plan[]){{"", weft_sequence_parallel()}, {0}}),
          WEFT_OK);
    WT_ALL(!weft_requires_grad(weft_module_parameter(m, "weight")));
    WT_ALL(weft_requires_grad(weft_module_parameter(m, "bias")));
    WT_ALL(given_is(weft_module_parameter(m, "weight"), "R"));
    weft_module_release(m);
    weft_mesh_release(mesh);
}

/* STYLE-21: what has no row is refused and named. */
WT_TEST(sequence__refuses_what_has_no_sequence)
{
    weft_mesh *mesh = given_mesh();
    weft_module *m = weft_linear_new((weft_linear_config){.in = {4}, .out = {4}});
    weft_module *norm = weft_layer_norm_new((weft_norm_config){.width = 4});
    weft_style partial =
        weft_sequence_parallel_with((weft_style_options){.desired_input_layouts = "P"});
    weft_style desired =
        weft_colwise_parallel_with((weft_style_options){.desired_input_layouts = "R"});

    WT_EQ(weft_parallelize_module(m, mesh, (weft_plan[]){{"", weft_sequence_parallel()}, {0}}),
          WEFT_ERR_ARG);
    WT_FAILED(WEFT_ERR_ARG, "(only: layer norm, RMS norm, dropout, position embedding)");
    WT_EQ(weft_parallelize_module(norm, mesh, (weft_plan[]){{"", weft_colwise_parallel()}, {0}}),
          WEFT_ERR_ARG);
    WT_FAILED(WEFT_ERR_ARG, "(only: linear, grouped linear, embedding)");
    WT_EQ(weft_parallelize_module(norm, mesh, (weft_plan[]){{"", partial}, {0}}), WEFT_ERR_ARG);
    WT_FAILED(WEFT_ERR_ARG, "is no shard");
    WT_EQ(weft_parallelize_module(m, mesh, (weft_plan[]){{"", desired}, {0}}), WEFT_ERR_ARG);
    WT_FAILED(WEFT_ERR_ARG, "no desired layouts");
    WT_ALL(!weft_tensor_mesh(weft_module_parameter(m, "weight")));
    WT_ALL(!weft_tensor_mesh(weft_module_parameter(norm, "weight")));
    weft_module_release(m);
    weft_module_release(norm);
    weft_mesh_release(mesh);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "sequence"); }
