/*
 * test_sequence.c: sequence parallel equals one device without any communication, forward and
 * backward; gradients of parameters wait as partial sums and are reduced together, once. Dropout,
 * and what comes in and goes out in other layouts, is in suite/.
 */
/* mpi: 4 */
#include <string.h>

#include "support/given.h"
#include "support/near_modules.h"
#include "tensor/tensor.h"

enum kind { LAYER_NORM, LAYER_NORM_PLAIN, RMS_NORM };

struct row {
    const char *name;
    enum kind kind;
    int64_t a, b, c;
};

static const struct row rows[] = {
    {"layer norm", LAYER_NORM, 20, 32, 12},
    {"layer norm, not affine", LAYER_NORM_PLAIN, 20, 32, 12},
    {"RMS norm", RMS_NORM, 20, 32, 12},
    {"layer norm, uneven", LAYER_NORM, 3, 13, 5},
    {"RMS norm, ranks with nothing", RMS_NORM, 3, 2, 5},
    {"layer norm not affine, uneven", LAYER_NORM_PLAIN, 2, 5, 3},
    {"RMS norm, a matrix", RMS_NORM, 9, 6, 0},
};
enum { ROWS = sizeof rows / sizeof *rows };

static weft_module *make(const struct row *row)
{
    int64_t width = row->c ? row->c : row->b;
    weft_norm_config config = {
        .width = width, .no_weight = row->kind == LAYER_NORM_PLAIN, .dtype = WEFT_F64};

    return wt_own(row->kind == RMS_NORM ? weft_rms_norm_new(config) : weft_layer_norm_new(config));
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

/* The style along a dim (NULL: its own, S(1)), whose layout that is, fed a tensor or a plain shard
 * in a layout: one that is cut otherwise is moved there, and its gradient back. */
static void check(const struct row *row, const char *along, const char *layout, const char *fed,
                  bool plain)
{
    int moves = strcmp(fed, layout) != 0;
    weft_mesh *mesh = wt_own(given_mesh());
    weft_module *one = make(row), *many = make(row);
    weft_tensor *x_one = weft_set_requires_grad(given(0, row->a, row->b, row->c), true);
    weft_tensor *y_one = weft_call(one, x_one), *c = given_like(y_one), *x, *y;
    weft_ledger *ledger = wt_own(weft_ledger_open());

    WT_EQ(weft_backward(weft_sum_all(weft_mul(y_one, c))), WEFT_OK);
    WT_EQ(weft_parallelize_module(many, mesh, (weft_plan[]){{"", style_along(along)}, {0}}),
          WEFT_OK);
    x = given_spread(weft_detach(x_one), mesh, fed);
    if (plain) x = weft_detach(weft_to_local(x, NULL));
    weft_set_requires_grad(x, true);
    c = given_spread(c, mesh, layout);
    y = weft_call(many, x);
    GIVEN_MOVED(ledger, WEFT_COLL_ALL_TO_ALL, moves);
    WT_ALL(given_is(y, layout));
    WT_EQ(weft_backward(weft_sum_all(weft_mul(y, c))), WEFT_OK);
    GIVEN_MOVED(ledger, WEFT_COLL_ALL_TO_ALL, moves);
    WT_ALL(wt_near_tensors(y, y_one, WT_WITHIN(1e-12)));
    WT_ALL(wt_near_tensors(weft_grad(x),
                           plain ? given_shard(weft_grad(x_one), mesh, fed) : weft_grad(x_one),
                           WT_WITHIN(1e-12)));
    check_reduction(many, one, ledger);
}

/* STYLE-17, STYLE-18 */
WT_TEST(sequence__norms_equal_one_device_without_communication)
{
    for (int i = 0; i < 4 * ROWS; i++) {
        const struct row *row = &rows[i / 4];
        bool along_rows = i / 2 % 2, plain = i % 2;
        const char *layout = along_rows ? "S(0)" : "S(1)";

        if (!along_rows && !row->c) continue;
        if (plain && (along_rows ? row->a : row->b) % wt_ranks() != 0) continue;
        wt_row("%s, %s%s", row->name, layout, plain ? ", plain" : "");
        check(row, along_rows ? "S(0)" : NULL, layout, layout, plain);
    }
}

WT_TEST(sequence__moves_an_input_that_is_cut_otherwise)
{
    static const char *const ways[][3] = {
        {NULL, "S(1)", "S(0)"}, {"S(-2)", "S(1)", "S(0)"}, {"S(0)", "S(0)", "S(-1)"}};

    for (int i = 0; i < 3 * ROWS; i++) {
        const char *const *way = ways[i % 3];

        if (!rows[i / 3].c) continue;
        wt_row("%s, %s fed %s", rows[i / 3].name, way[1], way[2]);
        check(&rows[i / 3], way[0], way[1], way[2], false);
    }
}

/* A dim that the norm averages over can be the sequence's too: it is gathered inside, and the
 * output is cut again. */
WT_TEST(sequence__along_what_a_norm_averages)
{
    for (int i = 0; i < 3; i++) {
        weft_mesh *mesh = wt_own(given_mesh());
        weft_module *one = make(&rows[i]), *many = make(&rows[i]);
        weft_tensor *x_one = weft_set_requires_grad(given(0, 3, 5, 12), true), *x, *y;
        weft_tensor *y_one = weft_call(one, x_one), *c = given_like(y_one);

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
    }
}

/* STYLE-21: what has no row is refused and named. */
WT_TEST(sequence__refuses_what_has_no_sequence)
{
    weft_mesh *mesh = wt_own(given_mesh());
    weft_module *m = wt_own(weft_linear_new((weft_linear_config){.in = {4}, .out = {4}}));
    weft_module *norm = wt_own(weft_layer_norm_new((weft_norm_config){.width = 4}));
    weft_style partial =
        weft_sequence_parallel_with((weft_style_options){.desired_input_layouts = "P"});
    weft_style desired =
        weft_colwise_parallel_with((weft_style_options){.desired_input_layouts = "R"});

    WT_FAILS(weft_parallelize_module(m, mesh, (weft_plan[]){{"", weft_sequence_parallel()}, {0}}),
             WEFT_ERR_ARG, "(only: layer norm, RMS norm, dropout, position embedding)");
    WT_FAILS(weft_parallelize_module(norm, mesh, (weft_plan[]){{"", weft_colwise_parallel()}, {0}}),
             WEFT_ERR_ARG, "(only: linear, grouped linear, embedding, conv1d, conv2d)");
    WT_FAILS(weft_parallelize_module(norm, mesh, (weft_plan[]){{"", partial}, {0}}), WEFT_ERR_ARG,
             "is no shard");
    WT_FAILS(weft_parallelize_module(m, mesh, (weft_plan[]){{"", desired}, {0}}), WEFT_ERR_ARG,
             "no desired layouts");
    WT_ALL(!weft_tensor_mesh(weft_module_parameter(m, "weight")));
    WT_ALL(!weft_tensor_mesh(weft_module_parameter(norm, "weight")));
}

/* ---- a block of an embedding, a norm and a linear layer ---- */

static weft_module *block_of(int64_t width)
{
    weft_module *block = weft_sequential_new();
    weft_embedding_config table = {.rows = 32, .width = width, .dtype = WEFT_F64};

    weft_module_add_child(block, "embedding", weft_embedding_new(table));
    weft_module_add_child(
        block, "norm", weft_layer_norm_new((weft_norm_config){.width = width, .dtype = WEFT_F64}));
    weft_module_add_child(
        block, "linear",
        weft_linear_new((weft_linear_config){.in = {width}, .out = {width}, .dtype = WEFT_F64}));
    return wt_own(block);
}

static const char *const block_parameters[] = {"embedding.weight", "norm.weight", "norm.bias",
                                               "linear.weight", "linear.bias"};

/* Bits of `wanted`: the embedding, the norm, the linear layer. */
static void want_gradients(weft_module *block, int wanted)
{
    for (int i = 0; i < 5; i++)
        weft_set_requires_grad(weft_module_parameter(block, block_parameters[i]),
                               wanted >> (i + 1) / 2 & 1);
}

/* MATH-09, at its sizes and others: which gradients are wanted changes nothing of the forward. */
WT_TEST(sequence__between_an_embedding_and_a_linear_layer)
{
    /* plain shards of a dim that a layer does not know must be even; others go on distributed */
    const bool uneven = 8 % wt_ranks() != 0;
    const weft_style_options table = {
        .input_layouts = "R", .output_layouts = "S(1)", .keep_distributed = uneven};
    const weft_style_options linear = {.input_layouts = "S(1)", .output_layouts = "R"};
    const weft_plan plan[] = {
        {"embedding", weft_rowwise_parallel_with(table)},
        {"norm", weft_sequence_parallel_with((weft_style_options){.keep_distributed = uneven})},
        {"linear", weft_colwise_parallel_with(linear)},
        {0}};

    for (int k = 0; k < 16; k++) {
        int64_t width = k < 8 ? 10 : 6, ranks = wt_ranks();
        weft_mesh *mesh;
        weft_module *one, *many;
        weft_tensor *tokens, *y_one, *y, *c;
        weft_ledger *ledger;

        wt_row("width %d, gradients %d", (int)width, k % 8);
        mesh = wt_own(given_mesh());
        weft_manual_seed(3);
        one = block_of(width);
        weft_manual_seed(3);
        many = block_of(width);
        tokens = given_tokens(k < 8 ? 8 : 3, 8, 32, 3);
        want_gradients(one, k % 8);
        want_gradients(many, k % 8);
        WT_EQ(weft_parallelize_module(many, mesh, plan), WEFT_OK);
        ledger = wt_own(weft_ledger_open());
        y_one = weft_call(one, tokens);
        y = weft_call(many, tokens);
        WT_EQ(weft_ledger_count(ledger, WEFT_COLL_REDUCE_SCATTER, WEFT_DIRECTION_FORWARD, NULL),
              ranks > 1);
        WT_EQ(weft_ledger_count(ledger, WEFT_COLL_ALL_GATHER, WEFT_DIRECTION_FORWARD, NULL),
              ranks > 1 ? 2 : 0);
        WT_EQ(weft_ledger_count(ledger, WEFT_COLL_COUNT, WEFT_DIRECTION_FORWARD, NULL),
              ranks > 1 ? 3 : 0);
        WT_ALL(wt_near_tensors(y, y_one, WT_WITHIN(1e-12)));
        if (k % 8 == 0) continue;
        c = given_like(y_one);
        WT_EQ(weft_backward(weft_sum_all(weft_mul(y_one, c))), WEFT_OK);
        WT_EQ(weft_backward(weft_sum_all(weft_mul(y, c))), WEFT_OK);
        for (int i = 0; i < 5; i++) {
            weft_tensor *dx = weft_grad(weft_module_parameter(many, block_parameters[i]));

            if (!(k % 8 >> (i + 1) / 2 & 1)) continue;
            WT_ALL(wt_near_tensors(dx, weft_grad(weft_module_parameter(one, block_parameters[i])),
                                   WT_WITHIN(1e-11)));
        }
    }
}

int main(int argc, char **argv) { return wt_main(argc, argv, "sequence"); }
