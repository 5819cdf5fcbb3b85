/* test_sharded.c: parameters that are cut over the replicas too. */
/* ranks: 1 2 3 4 6 8 */
/* mpi: 4 */
#include <stdio.h>

#include "data_parallel/twins.h"

/* ---- three layers, ReLU after each ---- */

struct net {
    weft_module *layers[3];
    bool recompute;
};

static weft_tensor *run(weft_tensor *const *in, int n, void *payload)
{
    const struct net *net = payload;
    weft_tensor *x = in[0];

    (void)n;
    for (int i = 0; i < 3; i++) x = weft_relu(weft_call(net->layers[i], x));
    return x;
}

static weft_tensor *forward(weft_module *m, weft_tensor *const *inputs, int n)
{
    struct net *net = weft_module_payload(m);

    return net->recompute ? weft_recomputed(run, inputs, n, net, NULL) : run(inputs, n, net);
}

static const weft_module_class net_class = {.type = "net", .forward = forward};

static weft_module *new_net(struct net *net, const int64_t *sizes)
{
    weft_module *m = weft_module_new(&net_class, net);
    char name[] = "net1";

    weft_manual_seed(11);
    for (int i = 0; i < 3; i++, name[3]++) {
        net->layers[i] = weft_linear_new((weft_linear_config){
            .in = {sizes[i]}, .out = {sizes[i + 1]}, .std = 0.5, .dtype = WEFT_F64});
        WT_EQ(weft_module_add_child(m, name, net->layers[i]), WEFT_OK);
    }
    return m;
}

/* Equal inside a replica, different from one to the next. */
static weft_tensor *input(int64_t columns, int replica, int step)
{
    int64_t shape[] = {4, columns};
    double x[4 * 16];

    for (int64_t i = 0; i < 4 * columns; i++) x[i] = wt_element(3 * replica + step, i);
    return weft_from_data(WEFT_F64, shape, 2, x);
}

/* The same net as replicas of plain layers, `whole`, and as cut replicas of parallel ones. */
static struct twins open_pair(struct net nets[2], int dp, int tp, const int64_t *sizes)
{
    const weft_plan plan[] = {
        {"net1", weft_colwise_parallel()}, {"net2", weft_rowwise_parallel()}, {0}};
    char mesh[32];
    struct twins t;

    snprintf(mesh, sizeof mesh, "dp=%d,tp=%d", dp, tp);
    t = tw_begin("dp", mesh);
    t.whole = wt_own(new_net(&nets[0], sizes));
    t.replica = wt_own(new_net(&nets[1], sizes));
    WT_EQ(weft_data_parallel(t.whole, t.dp, (weft_data_parallel_config){0}), WEFT_OK);
    WT_EQ(weft_parallelize_module(t.replica, t.tp, plan), WEFT_OK);
    WT_EQ(weft_data_parallel(t.replica, t.dp, (weft_data_parallel_config){.shard = true}), WEFT_OK);
    tw_optimize(&t);
    return t;
}

static void train(struct twins *t, const int64_t *sizes)
{
    for (int step = 0; step < 5; step++) {
        weft_scope *scope = weft_scope_open();
        weft_tensor *x = input(sizes[0], t->me, step);
        weft_tensor *y[] = {weft_call(t->whole, x), weft_call(t->replica, x)};

        WT_ALL(wt_near_tensors(y[1], y[0], WT_WITHIN(1e-11)));
        WT_EQ(weft_backward(weft_sum_all(y[0])), WEFT_OK);
        WT_EQ(weft_backward(weft_sum_all(y[1])), WEFT_OK);
        WT_EQ(weft_step(t->whole_optim), WEFT_OK);
        WT_EQ(weft_step(t->replica_optim), WEFT_OK);
        WT_NEAR_PARAMETERS(t->replica, t->whole, WT_WITHIN(1e-11));
        WT_ALL(wt_near_tensors(weft_call(t->replica, x), weft_call(t->whole, x), WT_WITHIN(1e-11)));
        weft_scope_close(scope);
    }
}

/* EX-15 */
WT_TEST(cut__trains_as_replicas_do)
{
    static const int64_t sizes[][4] = {{5, 8, 4, 12}, {3, 7, 5, 2}, {1, 3, 1, 9}};

    for (int dp = 0, tp; tw_next_mesh(&dp, &tp);)
        for (int i = 0; i < 6; i++) {
            struct net nets[2] = {{.recompute = false}, {.recompute = i % 2}};
            struct twins t;

            wt_row("dp=%d,tp=%d, sizes %d%s", dp, tp, i / 2, i % 2 ? ", recomputed" : "");
            t = open_pair(nets, dp, tp, sizes[i / 2]);
            train(&t, sizes[i / 2]);
        }
}

WT_TEST(cut__along_the_first_dim_that_gives_every_rank_some)
{
    int64_t n = wt_ranks();
    const struct {
        int64_t rows, columns;
        const char *placements;
    } cases[] = {{n, 2 * n, "S(0)"}, {n - 1, 2 * n, "S(1)"}, {n - 1, 1, "S(0)"}};

    for (int i = 0; n > 1 && i < 3; i++) {
        weft_module *m;

        wt_row("[%lld,%lld]", (long long)cases[i].rows, (long long)cases[i].columns);
        m = wt_own(weft_linear_new((weft_linear_config){
            .in = {cases[i].columns}, .out = {cases[i].rows}, .dtype = WEFT_F64}));
        WT_EQ(weft_data_parallel(m, wt_own(weft_mesh_new(WEFT_CPU, "dp=%lld", (long long)n)),
                                 (weft_data_parallel_config){.shard = true}),
              WEFT_OK);
        WT_ALL(wt_is_placed(weft_module_parameter(m, "weight"), cases[i].placements));
    }
}

int main(int argc, char **argv) { return wt_main(argc, argv, "sharded"); }
