/* test_sharded.c: parameters that are cut over the replicas too. */
/* ranks: 1 2 3 4 6 8 */
/* mpi: 4 */
#include <stdio.h>
#include <string.h>

#include <weft/weft.h>

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
    return weft_from_data(WEFT_F64, 2, shape, x);
}

/* The same net as replicas of plain layers, and as cut replicas of parallel ones. */
struct pair {
    struct wt_world world;
    weft_mesh *dp, *tp;
    struct net nets[2];
    weft_module *plain, *cut;
    weft_optim *plain_adam, *cut_adam;
};

static void open_pair(struct pair *p, int dp, int tp, const int64_t *sizes, bool recompute)
{
    const weft_plan plan[] = {
        {"net1", weft_colwise_parallel()}, {"net2", weft_rowwise_parallel()}, {0}};

    *p = (struct pair){.world = wt_world_open_mesh("dp=%d,tp=%d", dp, tp),
                       .nets = {{.recompute = false}, {.recompute = recompute}}};
    p->dp = weft_mesh_sub(p->world.mesh, "dp");
    p->tp = weft_mesh_sub(p->world.mesh, "tp");
    p->plain = new_net(&p->nets[0], sizes);
    p->cut = new_net(&p->nets[1], sizes);
    WT_EQ(weft_data_parallel(p->plain, p->dp, (weft_data_parallel_config){0}), WEFT_OK);
    WT_EQ(weft_parallelize_module(p->cut, p->tp, plan), WEFT_OK);
    WT_EQ(weft_data_parallel(p->cut, p->dp, (weft_data_parallel_config){.shard = true}), WEFT_OK);
    p->plain_adam = weft_adamw(p->plain, (weft_adamw_config){.lr = 0.01});
    p->cut_adam = weft_adamw(p->cut, (weft_adamw_config){.lr = 0.01});
    weft_ledger_reset(p->world.ledger);
}

static void close_pair(struct pair *p)
{
    weft_optim_release(p->plain_adam);
    weft_optim_release(p->cut_adam);
    weft_module_release(p->plain);
    weft_module_release(p->cut);
    weft_mesh_release(p->dp);
    weft_mesh_release(p->tp);
    wt_world_close(&p->world);
}

static weft_status compare(weft_module *m, const char *name, weft_tensor *mine, void *payload)
{
    char path[32];

    snprintf(path, sizeof path, "%s.%s", weft_module_path(m), name);
    WT_ALL(wt_near_tensors(mine, weft_module_parameter(payload, path), WT_WITHIN(1e-11)));
    return WEFT_OK;
}

static void train(struct pair *p, const int64_t *sizes)
{
    int replica = weft_mesh_coordinate(p->dp, 0);

    for (int step = 0; step < 5; step++) {
        weft_scope *scope = weft_scope_open();
        weft_tensor *x = input(sizes[0], replica, step);
        weft_tensor *y[] = {weft_call(p->plain, x), weft_call(p->cut, x)};

        WT_ALL(wt_near_tensors(y[1], y[0], WT_WITHIN(1e-11)));
        WT_EQ(weft_backward(weft_sum_all(y[0])), WEFT_OK);
        WT_EQ(weft_backward(weft_sum_all(y[1])), WEFT_OK);
        WT_EQ(weft_step(p->plain_adam), WEFT_OK);
        WT_EQ(weft_step(p->cut_adam), WEFT_OK);
        WT_EQ(weft_module_each_parameter(p->cut, compare, p->plain), WEFT_OK);
        WT_ALL(wt_near_tensors(weft_call(p->cut, x), weft_call(p->plain, x), WT_WITHIN(1e-11)));
        weft_scope_close(scope);
    }
}

/* EX-15 */
WT_TEST(cut__trains_as_replicas_do)
{
    static const int64_t sizes[][4] = {{5, 8, 4, 12}, {3, 7, 5, 2}, {1, 3, 1, 9}};

    for (int dp = 0, tp; tw_next_mesh(&dp, &tp);)
        for (int i = 0; i < 3; i++)
            for (int recompute = 0; recompute < 2; recompute++) {
                struct pair p;

                open_pair(&p, dp, tp, sizes[i], recompute);
                train(&p, sizes[i]);
                close_pair(&p);
            }
}

int main(int argc, char **argv) { return wt_main(argc, argv, "sharded"); }
