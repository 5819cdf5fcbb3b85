/*
 * test_source.c: plans on ranks whose models differ: with a source all of them have that rank's
 * parameters afterwards, without one each keeps its own and nothing is sent.
 */
/* mpi: 4 */
#include "support/given.h"
#include "support/near_modules.h"

enum { SEED = 100 };

static weft_status spread_from(weft_module *m, weft_mesh *mesh, const weft_plan *plan, int source)
{
    return weft_parallelize_module_with(m, mesh, plan,
                                        (weft_parallelize_options){.source = WEFT_SOURCE(source)});
}

/* A norm, Linear(10,hidden), ReLU, Linear(hidden,10): all its values depend on the seed. */
static weft_module *model(int seed, int64_t hidden)
{
    weft_module *m = weft_sequential_new();

    weft_manual_seed((uint64_t)seed);
    weft_module_add_child(m, "norm",
                          weft_layer_norm_new((weft_norm_config){.width = 10, .dtype = WEFT_F64}));
    weft_module_add_child(
        m, "net1",
        weft_linear_new((weft_linear_config){.in = {10}, .out = {hidden}, .dtype = WEFT_F64}));
    weft_module_add_child(m, "relu", weft_activation_new(WEFT_RELU));
    weft_module_add_child(
        m, "net2",
        weft_linear_new((weft_linear_config){.in = {hidden}, .out = {10}, .dtype = WEFT_F64}));
    weft_normal_(weft_module_parameter(m, "norm.weight"), 1, 0.1, NULL);
    weft_normal_(weft_module_parameter(m, "norm.bias"), 0, 0.1, NULL);
    return wt_own(m);
}

/* Every style that spreads parameters: scattered are net1's two and net2.weight. */
static const weft_plan whole_plan[] = {
    {"norm", {.kind = WEFT_STYLE_SEQUENCE, .options = {.keep_distributed = true}}},
    {"net1", {.kind = WEFT_STYLE_COLWISE}},
    {"net2", {.kind = WEFT_STYLE_ROWWISE}},
    {0},
};

static const char *const nets[] = {"net1.weight", "net1.bias", "net2.weight", "net2.bias"};

static const weft_plan gathered_plan[] = {
    {"net*", {.kind = WEFT_STYLE_COLWISE, .options = {.output_layouts = "R"}}},
    {0},
};

/* `many` computes what `one` does, and its gradients are that one's. */
static void check_same(weft_module *many, weft_module *one, weft_mesh *mesh)
{
    weft_tensor *x = given(0, 2, 6, 10);

    WT_NEAR_STEPS(many, given_spread(x, mesh, "R"), one, x, WT_WITHIN(1e-12));
}

static void check_source(int source, int64_t hidden)
{
    weft_mesh *mesh = wt_own(given_mesh());
    weft_module *one = model(SEED + source, hidden), *many = model(SEED + wt_rank(), hidden);
    weft_ledger *ledger = wt_own(weft_ledger_open());
    int several = wt_ranks() > 1;

    WT_EQ(spread_from(many, mesh, whole_plan, source), WEFT_OK);
    WT_EQ(weft_ledger_count(ledger, WEFT_COLL_SCATTER, WEFT_DIRECTION_ANY, NULL), 3 * several);
    WT_EQ(weft_ledger_count(ledger, WEFT_COLL_BROADCAST, WEFT_DIRECTION_ANY, NULL), 3 * several);
    WT_EQ(weft_ledger_count(ledger, WEFT_COLL_COUNT, WEFT_DIRECTION_ANY, NULL), 6 * several);
    WT_NEAR_PARAMETERS(many, one, WT_EXACT);
    check_same(many, one, mesh);
}

WT_TEST(source__its_parameters_are_those_of_all)
{
    const int sources[] = {0, wt_ranks() - 1, wt_ranks() / 2}, hidden[] = {16, 13, 3};

    for (int i = 0; i < 3; i++) {
        wt_row("source %d, hidden %d", sources[i], hidden[i]);
        check_source(sources[i], hidden[i]);
    }
}

/* PyTorch's own case: column-wise layers by a wildcard, from rank 1; what has no style stays. */
WT_TEST(source__of_some_modules_only)
{
    int source = wt_ranks() > 1;
    weft_mesh *mesh = wt_own(given_mesh());
    weft_module *one = model(SEED + source, 16), *many = model(SEED + wt_rank(), 16);
    weft_tensor *norm = weft_module_parameter(many, "norm.weight");

    weft_set_requires_grad(weft_module_parameter(many, "net1.weight"), false);
    WT_EQ(spread_from(many, mesh, gathered_plan, source), WEFT_OK);
    for (int i = 0; i < 4; i++)
        WT_ALL(wt_near_tensors(weft_module_parameter(many, nets[i]),
                               weft_module_parameter(one, nets[i]), WT_EXACT));
    WT_ALL(weft_module_parameter(many, "norm.weight") == norm && !weft_tensor_mesh(norm));
    WT_ALL(!weft_requires_grad(weft_module_parameter(many, "net1.weight")));
    WT_ALL(weft_requires_grad(weft_module_parameter(many, "net1.bias")));
}

/* Without a source: this rank's shard of its own copy. */
WT_TEST(source__without_one_nothing_is_sent)
{
    for (int named = 0; named < 2; named++) {
        weft_mesh *mesh = wt_own(given_mesh());
        weft_module *own = model(SEED + wt_rank(), 13), *m = model(SEED + wt_rank(), 13);
        weft_ledger *ledger = wt_own(weft_ledger_open());
        const char *const layouts[] = {"S(0)", "S(0)", "S(1)", "R"};

        if (named)
            WT_EQ(spread_from(m, mesh, whole_plan, -1), WEFT_OK);
        else
            WT_EQ(weft_parallelize_module(m, mesh, whole_plan), WEFT_OK);
        GIVEN_STILL(ledger);
        for (int i = 0; i < 4; i++) {
            weft_tensor *part = weft_to_local(weft_module_parameter(m, nets[i]), NULL);
            weft_tensor *whole = weft_detach(weft_module_parameter(own, nets[i]));

            WT_ALL(given_is(weft_module_parameter(m, nets[i]), layouts[i]));
            WT_ALL(wt_near_tensors(part, given_shard(whole, mesh, layouts[i]), WT_EXACT));
        }
    }
}

/* Each line of a larger mesh has a source of its own. */
WT_TEST(source__is_a_place_on_the_mesh_of_the_plan)
{
    int dp = wt_ranks() % 2 == 0 ? 2 : 1, ways = wt_ranks() / dp, source = ways - 1;
    weft_mesh *mesh = wt_own(weft_mesh_new(WEFT_CPU, "dp=%d,tp=%d", dp, ways));
    weft_mesh *tp = wt_own(weft_mesh_sub(mesh, "tp"));
    weft_module *one = model(SEED + weft_mesh_coordinate(mesh, 0) * ways + source, 13);
    weft_module *many = model(SEED + wt_rank(), 13);

    WT_EQ(spread_from(many, tp, whole_plan, source), WEFT_OK);
    WT_NEAR_PARAMETERS(many, one, WT_EXACT);
    check_same(many, one, tp);
}

/* ---- whole models, shared parameters, styles of one's own ---- */

static weft_module *llama(int seed)
{
    weft_manual_seed((uint64_t)seed);
    return wt_own(weft_llama((weft_llama_config){.vocab = 13,
                                                 .width = 16,
                                                 .heads = 4,
                                                 .kv_heads = 1,
                                                 .layers = 1,
                                                 .hidden = 10,
                                                 .dtype = WEFT_F64}));
}

/* Norms, and keys and values that all ranks have, are broadcast; the rest is scattered. */
WT_TEST(source__of_a_ready_plan)
{
    int source = wt_ranks() - 1;
    weft_mesh *mesh = wt_own(given_mesh());
    weft_module *one = llama(SEED + source), *many = llama(SEED + wt_rank());
    weft_tensor *x = given_tokens(2, 6, 13, 0), *t = given_tokens(2, 6, 13, 4), *loss;

    WT_EQ(spread_from(many, mesh, weft_gpt_plan_sequence(), source), WEFT_OK);
    WT_NEAR_PARAMETERS(many, one, WT_EXACT);
    loss = weft_gpt_loss(many, x, t);
    WT_ALL(wt_near_tensors(loss, weft_gpt_loss(one, x, t), WT_WITHIN(1e-12)));
    WT_EQ(weft_backward(loss), WEFT_OK);
}

static weft_module *tied(int seed)
{
    weft_module *m = weft_sequential_new();
    weft_module *head =
        weft_linear_new((weft_linear_config){.in = {6}, .out = {11}, .no_bias = true});

    weft_manual_seed((uint64_t)seed);
    weft_module_add_child(m, "wte",
                          weft_embedding_new((weft_embedding_config){.rows = 11, .width = 6}));
    weft_module_set_parameter(head, "weight", weft_module_parameter(m, "wte.weight"));
    weft_module_add_child(m, "head", head);
    return wt_own(m);
}

WT_TEST(source__shared_parameters_stay_one)
{
    int source = wt_ranks() - 1;
    weft_mesh *mesh = wt_own(given_mesh());
    weft_module *one = tied(SEED + source), *many = tied(SEED + wt_rank());
    weft_plan plan[] = {{"wte", weft_rowwise_parallel()}, {"head", weft_colwise_parallel()}, {0}};

    WT_EQ(spread_from(many, mesh, plan, source), WEFT_OK);
    WT_EQ(weft_module_parameter_count(many), 1);
    WT_NEAR_PARAMETERS(many, one, WT_EXACT);
}

/* The weight by rows, of this rank's copy; the bias is left to the library. */
static weft_status split_weight(weft_module *m, weft_mesh *mesh, void *payload)
{
    weft_placement rows = weft_shard(0);
    weft_tensor *weight = weft_module_parameter(m, "weight");

    (void)payload;
    return weft_module_set_parameter(m, "weight", weft_distribute_tensor(weight, mesh, &rows, -1));
}

WT_TEST(source__of_what_a_custom_style_leaves_plain)
{
    static const weft_style_functions by_rows = {"by rows", split_weight, NULL, NULL, NULL};
    int source = wt_ranks() - 1;
    weft_mesh *mesh = wt_own(given_mesh());
    weft_module *one = model(SEED + source, 13), *own = model(SEED + wt_rank(), 13);
    weft_module *many = model(SEED + wt_rank(), 13);
    weft_plan plan[] = {{"net1", weft_custom_style(&by_rows, NULL)}, {0}};
    weft_tensor *bias, *part;

    WT_EQ(spread_from(many, mesh, plan, source), WEFT_OK);
    bias = weft_module_parameter(many, "net1.bias");
    part = weft_to_local(weft_module_parameter(many, "net1.weight"), NULL);
    WT_ALL(given_is(bias, "R"));
    WT_ALL(wt_near_tensors(bias, weft_module_parameter(one, "net1.bias"), WT_EXACT));
    WT_ALL(wt_near_tensors(
        part, given_shard(weft_detach(weft_module_parameter(own, "net1.weight")), mesh, "S(0)"),
        WT_EXACT));
}

/* ---- refusals, and who is not there ---- */

WT_TEST(source__that_is_not_there_is_refused)
{
    weft_mesh *mesh = wt_own(given_mesh());
    weft_module *m = model(SEED, 13);
    weft_ledger *ledger = wt_own(weft_ledger_open());

    WT_FAILS(spread_from(m, mesh, whole_plan, wt_ranks()), WEFT_ERR_ARG,
             "parallelize: source rank");
    WT_FAILS(spread_from(m, mesh, whole_plan, -2), WEFT_ERR_ARG, "parallelize: source rank -2");
    WT_FAILS(
        spread_from(m, mesh, (weft_plan[]){{"net9", weft_colwise_parallel()}, {0}}, wt_ranks()),
        WEFT_ERR_ARG, "parallelize: source rank");
    WT_ALL(!weft_tensor_mesh(weft_module_parameter(m, "net1.weight")));
    GIVEN_STILL(ledger);
}

WT_TEST(source__on_a_mesh_without_ranks_is_refused)
{
    weft_mesh *mesh = wt_own(weft_mesh_new_fake(1, "tp=4"));
    weft_module *m = model(SEED, 13);

    WT_FAILS(spread_from(m, mesh, whole_plan, 2), WEFT_ERR_COMM, "a fake mesh has no ranks");
    WT_ALL(!weft_tensor_mesh(weft_module_parameter(m, "net1.weight")));
    WT_EQ(spread_from(m, mesh, whole_plan, -1), WEFT_OK);
}

/* Ranks outside the mesh call the same, hold nothing and wait for nobody. */
WT_TEST(source__on_a_mesh_of_some_ranks)
{
    int count = (wt_ranks() + 1) / 2, ranks[8];
    bool inside = wt_rank() % 2 == 0;
    weft_tensor *x = given(0, 2, 6, 10), *y, *y_one;
    weft_module *one, *many = model(SEED + wt_rank(), 13);
    weft_mesh *mesh;

    for (int i = 0; i < count; i++) ranks[i] = 2 * i;
    one = model(SEED + ranks[count - 1], 13);
    mesh = wt_own(weft_mesh_from_ranks(WEFT_CPU, &count, 1, "tp", ranks));
    WT_EQ(spread_from(many, mesh, whole_plan, count - 1), WEFT_OK);
    for (int i = 0; i < 4; i++) {
        weft_tensor *t = weft_module_parameter(many, nets[i]);

        WT_ALL(inside ? wt_near_tensors(t, weft_module_parameter(one, nets[i]), WT_EXACT)
                      : weft_local_numel(t) == 0);
    }
    y = weft_call(many, given_spread(x, mesh, "R"));
    y_one = weft_call(one, x);
    WT_ALL(inside ? wt_near_tensors(y, y_one, WT_WITHIN(1e-12)) : y != NULL);
    WT_EQ(weft_backward(weft_sum_all(weft_mul(y, y))), WEFT_OK);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "source"); }
