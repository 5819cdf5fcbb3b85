/* test_optimizer.c: updates against their formulas over parameters that are sharded, replicated and
 * plain; what is refused. */
#include <math.h>
#include <string.h>

#include <weft/weft.h>

#include "support/mpi_check.h"
#include "support/near.h"

/* ---- a module with three parameters: loss = sum(c * w), so that the gradient is c ---- */

enum { ROWS = 5, COLS = 3, COUNT = ROWS * COLS };

static weft_tensor *weighted_sum(weft_module *m, weft_tensor *const *inputs, int n)
{
    weft_tensor *sum =
        weft_full_tensor(weft_sum_all(weft_mul(inputs[0], weft_module_parameter(m, "a"))));

    (void)n;
    sum = weft_add(
        sum, weft_full_tensor(weft_sum_all(weft_mul(inputs[1], weft_module_parameter(m, "b")))));
    return weft_add(sum, weft_sum_all(weft_mul(inputs[2], weft_module_parameter(m, "c"))));
}

static const weft_module_class weighted = {
    .type = "weighted", .forward = weighted_sum, .inputs = 3};

static void fill(double *x, int i0)
{
    for (int i = 0; i < COUNT; i++) x[i] = ((i + i0) * 37 + 11) % 101 / 50.0 - 1;
}

static weft_tensor *formula(int i0)
{
    double x[COUNT];

    fill(x, i0);
    return weft_from_data(WEFT_F64, (int64_t[]){ROWS, COLS}, 2, x);
}

struct world {
    weft_mesh *mesh;
    weft_module *m;
    weft_tensor *in[3];
};

/* a sharded by uneven rows, b replicated, c plain; the same numbers in all of them. */
static struct world make_world(void)
{
    struct world w = {.mesh = weft_mesh_new(WEFT_CPU, "tp=%d", weft_world_size())};
    weft_placement spread[] = {weft_shard(0), weft_replicate()};
    const char *names[] = {"a", "b", "c"};

    w.m = weft_module_new(&weighted, NULL);
    for (int i = 0; i < 3; i++) {
        weft_tensor *p = formula(0);

        w.in[i] = formula(5);
        if (i < 2) w.in[i] = weft_distribute_tensor(w.in[i], w.mesh, &spread[i], -1);
        if (i < 2) p = weft_distribute_tensor(p, w.mesh, &spread[i], -1);
        weft_module_add_parameter(w.m, names[i], p);
    }
    return w;
}

static void drop_world(struct world *w)
{
    weft_module_release(w->m);
    weft_mesh_release(w->mesh);
}

static weft_status backward(struct world *w) { return weft_backward(weft_call_n(w->m, w->in, 3)); }

static bool all_near(struct world *w, const double *want)
{
    return wt_near_full(weft_module_parameter(w->m, "a"), want, WT_WITHIN(1e-12)) &&
           wt_near_full(weft_module_parameter(w->m, "b"), want, WT_WITHIN(1e-12)) &&
           wt_near_full(weft_module_parameter(w->m, "c"), want, WT_WITHIN(1e-12));
}

WT_TEST(adamw__follows_its_formula)
{
    struct world w = make_world();
    weft_optim *optim = weft_adamw(w.m, (weft_adamw_config){.lr = 0.1, .weight_decay = 0.2});
    double want[COUNT], g[COUNT], m[COUNT] = {0}, v[COUNT] = {0};

    fill(want, 0);
    fill(g, 5);
    for (int t = 1; t <= 3; t++) {
        WT_EQ(backward(&w), WEFT_OK);
        WT_EQ(weft_step(optim), WEFT_OK);
        for (int i = 0; i < COUNT; i++) {
            want[i] *= 1 - 0.1 * 0.2;
            m[i] = 0.9 * m[i] + 0.1 * g[i];
            v[i] = 0.999 * v[i] + 0.001 * g[i] * g[i];
            want[i] -= 0.1 * m[i] / (1 - pow(0.9, t)) / (sqrt(v[i] / (1 - pow(0.999, t))) + 1e-8);
        }
        WT_ALL(all_near(&w, want));
    }
    WT_EQ(weft_optim_step_count(optim), 3);
    WT_ALL(weft_grad(weft_module_parameter(w.m, "a")) == NULL);
    weft_optim_release(optim);
    drop_world(&w);
}

/* Lion has no counterpart in PyTorch. */
WT_TEST(lion__follows_its_formula)
{
    struct world w = make_world();
    weft_optim *optim = weft_lion(w.m, (weft_lion_config){.lr = 0.1, .weight_decay = 0.2});
    double want[COUNT], g[COUNT], m[COUNT] = {0};

    fill(want, 0);
    fill(g, 5);
    for (int t = 1; t <= 3; t++) {
        WT_EQ(backward(&w), WEFT_OK);
        WT_EQ(weft_step(optim), WEFT_OK);
        for (int i = 0; i < COUNT; i++) {
            double way = 0.9 * m[i] + 0.1 * g[i];

            want[i] = want[i] * (1 - 0.1 * 0.2) - 0.1 * ((way > 0) - (way < 0));
            m[i] = 0.99 * m[i] + 0.01 * g[i];
        }
        WT_ALL(all_near(&w, want));
    }
    weft_optim_release(optim);
    drop_world(&w);
}

/* The settings of PyTorch's own tests of sharded SGD, and all of them together. */
static const weft_sgd_config sgds[] = {
    {.momentum = 0},
    {.momentum = 0.05},
    {.momentum = 0.06, .dampening = 0.07},
    {.momentum = 0.08, .weight_decay = 0.05, .nesterov = true, .maximize = true},
    {.momentum = 0.9, .weight_decay = 0.2, .nesterov = true},
    {.momentum = 0.9, .dampening = 0.5, .weight_decay = 0.2, .maximize = true},
    {.weight_decay = 0.1, .maximize = true},
};

WT_TEST(sgd__follows_its_formula)
{
    for (size_t i = 0; i < sizeof sgds / sizeof *sgds; i++) {
        struct world w = make_world();
        weft_sgd_config c = sgds[i];
        weft_optim *optim = weft_sgd(w.m, c);
        double want[COUNT], g[COUNT], v[COUNT] = {0};

        fill(want, 0);
        fill(g, 5);
        for (int t = 0; t < 3; t++) {
            weft_optim_set_lr(optim, 0.1 / (t + 1));
            WT_EQ(backward(&w), WEFT_OK);
            WT_EQ(weft_step(optim), WEFT_OK);
            for (int k = 0; k < COUNT; k++) {
                double d = (c.maximize ? -g[k] : g[k]) + c.weight_decay * want[k];

                v[k] = t == 0 ? d : c.momentum * v[k] + (1 - c.dampening) * d;
                if (c.momentum > 0) d = c.nesterov ? d + c.momentum * v[k] : v[k];
                want[k] -= 0.1 / (t + 1) * d;
            }
            WT_ALL(all_near(&w, want));
        }
        weft_optim_release(optim);
        drop_world(&w);
    }
}

WT_TEST(sgd__without_momentum_keeps_no_state)
{
    struct world w = make_world();
    int64_t before = weft_memory_of(WEFT_MEMORY_OPTIMIZER).live;
    weft_optim *optim = weft_sgd(w.m, (weft_sgd_config){.lr = 1});
    double want[COUNT], g[COUNT];

    WT_EQ(weft_memory_of(WEFT_MEMORY_OPTIMIZER).live, before);
    fill(want, 0);
    fill(g, 5);
    WT_EQ(backward(&w), WEFT_OK);
    WT_EQ(backward(&w), WEFT_OK);
    WT_EQ(weft_step(optim), WEFT_OK);
    for (int i = 0; i < COUNT; i++) want[i] -= 2 * g[i];
    WT_ALL(all_near(&w, want));
    WT_EQ(weft_step(optim), WEFT_OK);
    WT_ALL(all_near(&w, want));
    weft_optim_release(optim);
    drop_world(&w);
}

WT_TEST(optim__notices_a_replaced_parameter)
{
    struct world w = make_world();
    weft_optim *optim = weft_sgd(w.m, (weft_sgd_config){.lr = 1});

    WT_EQ(weft_module_set_parameter(w.m, "c", formula(0)), WEFT_OK);
    WT_EQ(weft_step(optim), WEFT_ERR_STATE);
    WT_FAILED(WEFT_ERR_STATE, "parameter 'c'");
    weft_optim_release(optim);
    drop_world(&w);
}

WT_TEST(optim__bad_settings_are_refused)
{
    struct world w = make_world();

    WT_ALL(weft_sgd(w.m, (weft_sgd_config){.lr = -1}) == NULL);
    WT_FAILED(WEFT_ERR_ARG, "lr is -1");
    WT_ALL(weft_sgd(w.m, (weft_sgd_config){.lr = 1, .nesterov = true}) == NULL);
    WT_FAILED(WEFT_ERR_ARG, "nesterov");
    WT_ALL(weft_adamw(w.m, (weft_adamw_config){.lr = 1, .beta1 = 1}) == NULL);
    WT_FAILED(WEFT_ERR_ARG, "beta1 is 1");
    WT_ALL(
        weft_sgd(w.m, (weft_sgd_config){
                          .lr = 1, .momentum = 0.9, .dampening = 0.1, .nesterov = true}) == NULL);
    WT_FAILED(WEFT_ERR_ARG, "no dampening");
    WT_ALL(weft_rmsprop(w.m, (weft_rmsprop_config){.lr = 1, .alpha = -0.5}) == NULL);
    WT_FAILED(WEFT_ERR_ARG, "rmsprop: alpha is -0.5");
    WT_ALL(weft_muon(w.m, (weft_muon_config){.lr = 1, .ns_steps = 100}) == NULL);
    WT_FAILED(WEFT_ERR_ARG, "muon: ns_steps is 100");
    WT_ALL(weft_adadelta(w.m, (weft_adadelta_config){.lr = NAN}) == NULL);
    WT_FAILED(WEFT_ERR_ARG, "lr is");
    WT_ALL(weft_adadelta(w.m, (weft_adadelta_config){.lr = 1, .rho = 1.1}) == NULL);
    WT_FAILED(WEFT_ERR_ARG, "rho is 1.1");
    WT_ALL(weft_adagrad(w.m, (weft_adagrad_config){.lr = 1, .lr_decay = -0.5}) == NULL);
    WT_FAILED(WEFT_ERR_ARG, "lr_decay is -0.5");
    WT_ALL(weft_adamax(w.m, (weft_adamax_config){.lr = 1, .beta2 = 1}) == NULL);
    WT_FAILED(WEFT_ERR_ARG, "beta2 is 1");
    WT_ALL(weft_nadam(w.m, (weft_nadam_config){.lr = 1, .momentum_decay = -0.2}) == NULL);
    WT_FAILED(WEFT_ERR_ARG, "momentum_decay is -0.2");
    WT_ALL(weft_radam(w.m, (weft_radam_config){.lr = 1, .weight_decay = -1}) == NULL);
    WT_FAILED(WEFT_ERR_ARG, "weight_decay is -1");
    WT_ALL(weft_asgd(w.m, (weft_asgd_config){.lr = 1, .weight_decay = -0.5}) == NULL);
    WT_FAILED(WEFT_ERR_ARG, "weight_decay is -0.5");
    WT_ALL(weft_sgd(w.m, (weft_sgd_config){.lr = 1, .momentum = -0.5}) == NULL);
    WT_FAILED(WEFT_ERR_ARG, "momentum is -0.5");
    WT_ALL(weft_adamw(NULL, (weft_adamw_config){.lr = 1}) == NULL);
    WT_FAILED(WEFT_ERR_ARG, "NULL");
    drop_world(&w);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "optimizer"); }
