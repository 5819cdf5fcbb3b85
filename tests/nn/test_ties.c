/*
 * test_ties.c: a weight that two modules share stays one where a function is given only one of
 * them, or is refused with both names; training is the yardstick.
 */
#include <math.h>
#include <string.h>

#include "support/given.h"

enum { VOCAB = 11, WIDTH = 6, BATCH = 2, TOKENS = 4, STEPS = 5 };

static weft_tensor *logits_of(weft_module *m, weft_tensor *const *inputs, int n)
{
    (void)n;
    return weft_call(weft_module_child(m, "head"),
                     weft_call(weft_module_child(m, "bert"), inputs[0]));
}

static const weft_module_class class_masked = {.type = "masked lm", .forward = logits_of};

static weft_module *bert_new(void)
{
    return weft_bert((weft_bert_config){
        .vocab = VOCAB, .context = TOKENS, .width = WIDTH, .heads = 2, .layers = 1});
}

static weft_module *head_on(weft_module *bert)
{
    weft_module *head =
        weft_linear_new((weft_linear_config){.in = {WIDTH}, .out = {VOCAB}, .no_bias = true});

    weft_module_set_parameter(head, "weight", weft_module_parameter(bert, "wte.weight"));
    return head;
}

/* A BERT and a head that shares its embedding, under one root. */
static weft_module *masked_new(void)
{
    weft_module *root = weft_module_new(&class_masked, NULL), *bert;

    weft_manual_seed(4);
    bert = bert_new();
    weft_module_add_child(root, "bert", bert);
    weft_module_add_child(root, "head", head_on(bert));
    return wt_own(root);
}

static weft_module *bert_of(weft_module *root) { return weft_module_child(root, "bert"); }

static bool is_tied(weft_module *root)
{
    return weft_module_parameter(root, "head.weight") ==
           weft_module_parameter(root, "bert.wte.weight");
}

/* The loss of the last of some steps. */
static double train(weft_module *m)
{
    int64_t shape[] = {BATCH, TOKENS}, tokens[BATCH * TOKENS], targets[BATCH * TOKENS];
    weft_optim *optim = wt_own(weft_sgd(m, (weft_sgd_config){.lr = 0.5}));
    double loss = 0;

    for (int i = 0; i < BATCH * TOKENS; i++) {
        tokens[i] = i * 3 % VOCAB;
        targets[i] = i * 5 % VOCAB;
    }
    for (int step = 0; step < STEPS; step++) {
        weft_scope *scope = weft_scope_open();
        weft_tensor *x = weft_from_data(WEFT_I64, shape, 2, tokens);
        weft_tensor *y = weft_from_data(WEFT_I64, shape, 2, targets);
        weft_tensor *l = weft_cross_entropy(weft_call(m, x), y, -100);

        loss = weft_item(weft_full_tensor(l));
        WT_EQ(weft_backward(l), WEFT_OK);
        WT_EQ(weft_step(optim), WEFT_OK);
        weft_scope_close(scope);
    }
    return loss;
}

static double yardstick(void)
{
    weft_module *m = masked_new();
    double loss = train(m);

    return loss;
}

static bool near(double a, double b) { return fabs(a - b) < 1e-4; }

/* trial 1.4 */
WT_TEST(ties__survive_a_cast_of_one_of_the_two)
{
    weft_module *m = masked_new();

    WT_EQ(weft_module_cast(bert_of(m), WEFT_F64), WEFT_OK);
    WT_EQ(weft_tensor_dtype(weft_module_parameter(m, "head.weight")), WEFT_F64);
    WT_ALL(is_tied(m));
    WT_ALL(near(train(m), yardstick()));
    m = masked_new();
    WT_EQ(weft_module_cast(weft_module_child(m, "head"), WEFT_F64), WEFT_OK);
    WT_EQ(weft_module_cast(bert_of(m), WEFT_F64), WEFT_OK);
    WT_ALL(is_tied(m));
}

/* trial 1.4 */
WT_TEST(ties__survive_materialize_of_one_of_the_two)
{
    weft_device before = weft_set_default_device(WEFT_META);
    weft_module *m = masked_new();

    weft_set_default_device(before);
    WT_EQ(weft_module_materialize(bert_of(m), WEFT_CPU), WEFT_OK);
    WT_ALL(is_tied(m));
    WT_ALL(near(train(m), yardstick()));
}

static weft_status refuse_nothing(weft_module *m, weft_mesh *mesh, void *payload)
{
    (void)m;
    (void)mesh;
    (void)payload;
    return WEFT_OK;
}

/* trial 1.4: refused by name from below, and done from above */
WT_TEST(ties__are_kept_or_named_by_plans_and_partitions)
{
    const weft_plan below[] = {{"wte", weft_rowwise_parallel()}, {0}};
    const weft_plan untied[] = {{"blocks.*.mlp.up", weft_colwise_parallel()},
                                {"blocks.*.mlp.down", weft_rowwise_parallel()},
                                {0}};
    const weft_plan above[] = {
        {"bert.wte", weft_rowwise_parallel()},
        {"head", weft_colwise_parallel_with((weft_style_options){.output_layouts = "R"})},
        {0}};
    weft_mesh *mesh = wt_own(weft_mesh_new(WEFT_CPU, "tp=%d", weft_world_size()));
    weft_module *m = masked_new();
    weft_tensor *weight = weft_module_parameter(m, "bert.wte.weight");

    WT_FAILS(weft_parallelize_module(bert_of(m), mesh, below), WEFT_ERR_LAYOUT,
             "'weight' of module 'bert.wte' and 'weight' of module 'head' are one");
    WT_FAILS(weft_distribute_module(bert_of(m), mesh, refuse_nothing, NULL, NULL, NULL),
             WEFT_ERR_LAYOUT, "'weight' of module 'head'");
    WT_ALL(is_tied(m) && weft_module_parameter(m, "head.weight") == weight);
    WT_EQ(weft_parallelize_module(bert_of(m), mesh, untied), WEFT_OK);
    WT_EQ(weft_parallelize_module(m, mesh, above), WEFT_OK);
    WT_ALL(is_tied(m));
    WT_ALL(near(train(m), yardstick()));
}

/* trial 1.4: modules of two trees that share a weight */
WT_TEST(ties__with_another_tree_are_named)
{
    const weft_plan plan[] = {{"wte", weft_rowwise_parallel()}, {0}};
    weft_mesh *mesh = wt_own(weft_mesh_new(WEFT_CPU, "tp=%d", weft_world_size()));
    weft_module *bert = wt_own(bert_new()), *head = head_on(bert);
    weft_tensor *weight = weft_module_parameter(bert, "wte.weight");

    WT_FAILS(weft_module_cast(bert, WEFT_F64), WEFT_ERR_STATE, "'weight'");
    WT_FAILS(weft_parallelize_module(bert, mesh, plan), WEFT_ERR_STATE, "'weight' of module 'wte'");
    WT_FAILS(weft_distribute_module(bert, mesh, NULL, NULL, NULL, NULL), WEFT_ERR_STATE,
             "another tree");
    WT_FAILS(weft_data_parallel(bert, mesh, (weft_data_parallel_config){0}), WEFT_ERR_STATE,
             "another tree");
    WT_ALL(weft_module_parameter(bert, "wte.weight") == weight);
    WT_ALL(weft_module_parameter(head, "weight") == weight);
    weft_module_release(head); /* and then it is free */
    WT_EQ(weft_parallelize_module(bert, mesh, plan), WEFT_OK);
}

/* trial 1.4 */
WT_TEST(ties__are_named_by_data_parallel_of_one_of_the_two)
{
    weft_mesh *mesh = wt_own(weft_mesh_new(WEFT_CPU, "dp=%d", weft_world_size()));
    weft_module *m = masked_new();

    WT_FAILS(weft_data_parallel(bert_of(m), mesh, (weft_data_parallel_config){0}), WEFT_ERR_STATE,
             "'weight' of module 'bert.wte' is a parameter of module 'head' too");
    WT_EQ(weft_data_parallel(m, mesh, (weft_data_parallel_config){0}), WEFT_OK);
    WT_ALL(is_tied(m));
}

/* trial 1.4: trying a plan on one of the two leaves both as they were */
WT_TEST(ties__survive_the_print_of_a_plan)
{
    const weft_plan plan[] = {{"blocks.*.mlp.up", weft_colwise_parallel()}, {0}};
    weft_mesh *mesh = wt_own(weft_mesh_new(WEFT_CPU, "tp=%d", weft_world_size()));
    weft_module *m = masked_new();
    weft_tensor *weight = weft_module_parameter(m, "head.weight");
    char text[4096];

    given_plan_text(text, sizeof text, bert_of(m), mesh, plan);
    WT_ALL(strstr(text, "mlp.up") != NULL);
    WT_ALL(is_tied(m) && weft_module_parameter(m, "head.weight") == weight);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "ties"); }
