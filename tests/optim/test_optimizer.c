/* test_optimizer.c: updates against their formulas over parameters that are sharded, replicated and
 * plain; what is refused. */
#include <math.h>

#include "optim/models.h"

enum { ROWS = 5, COLUMNS = 3, COUNT = ROWS * COLUMNS };

static const int64_t shape[] = {ROWS, COLUMNS};

/* One sharded by uneven rows, one replicated, one plain; the same numbers and gradients in all. */
static void fill(struct wt_bag *bag, struct wt_world *world)
{
    static const char *const names[] = {"a", "b", "c"}, *const placements[] = {"S(0)", "R", NULL};

    wt_bag_open(bag);
    for (int i = 0; i < 3; i++)
        wt_bag_add(bag, names[i], wt_numbers(WEFT_F64, 0, 2, shape),
                   wt_numbers(WEFT_F64, 5, 2, shape), world->mesh, placements[i], NULL);
}

static void all_near(struct wt_bag *bag, const double *want)
{
    for (int i = 0; i < 3; i++)
        WT_ALL(wt_near_full(wt_bag_parameter(bag, i), want, WT_WITHIN(1e-12)));
}

/* ---- by formula ---- */

/* Update number t, from 1 on, of one element by its gradient; m and v begin with 0. */
typedef void rule(double *w, double g, double *m, double *v, int t);

static void numbers(int which, double *out)
{
    WT_EQ(weft_read_f64(wt_numbers(WEFT_F64, which, 2, shape), out, COUNT), WEFT_OK);
}

/* Steps with rates 0.1, 0.05, .. where `falling`. */
static void follow(struct wt_bag *bag, weft_optim *optim, rule *update, bool falling)
{
    double want[COUNT], g[COUNT], m[COUNT] = {0}, v[COUNT] = {0};

    numbers(0, want);
    numbers(5, g);
    for (int t = 1; t <= 3; t++) {
        if (falling) weft_optim_set_lr(optim, 0.1 / t);
        wt_bag_steps(bag, optim, 1);
        for (int i = 0; i < COUNT; i++) update(&want[i], g[i], &m[i], &v[i], t);
        all_near(bag, want);
    }
}

static void by_adamw(double *w, double g, double *m, double *v, int t)
{
    *m = 0.9 * *m + 0.1 * g;
    *v = 0.999 * *v + 0.001 * g * g;
    *w *= 1 - 0.1 * 0.2;
    *w -= 0.1 * *m / (1 - pow(0.9, t)) / (sqrt(*v / (1 - pow(0.999, t))) + 1e-8);
}

WT_TEST(adamw__follows_its_formula)
{
    struct wt_world world = wt_world_open();
    struct wt_bag bag;
    weft_optim *optim;

    fill(&bag, &world);
    optim = wt_own(weft_adamw(bag.module, (weft_adamw_config){.lr = 0.1, .weight_decay = 0.2}));
    follow(&bag, optim, by_adamw, false);
    WT_EQ(weft_optim_step_count(optim), 3);
    WT_ALL(weft_grad(wt_bag_parameter(&bag, 0)) == NULL);
}

static void by_lion(double *w, double g, double *m, double *v, int t)
{
    double way = 0.9 * *m + 0.1 * g;

    (void)v;
    (void)t;
    *w = *w * (1 - 0.1 * 0.2) - 0.1 * ((way > 0) - (way < 0));
    *m = 0.99 * *m + 0.01 * g;
}

/* Lion has no counterpart in PyTorch. */
WT_TEST(lion__follows_its_formula)
{
    struct wt_world world = wt_world_open();
    struct wt_bag bag;
    weft_lion_config config = {.lr = 0.1, .weight_decay = 0.2};

    fill(&bag, &world);
    follow(&bag, wt_own(weft_lion(bag.module, config)), by_lion, false);
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

static _Thread_local weft_sgd_config sgd; /* what by_sgd goes by */

static void by_sgd(double *w, double g, double *m, double *v, int t)
{
    double d = (sgd.maximize ? -g : g) + sgd.weight_decay * *w;

    (void)v;
    *m = t == 1 ? d : sgd.momentum * *m + (1 - sgd.dampening) * d;
    if (sgd.momentum > 0) d = sgd.nesterov ? d + sgd.momentum * *m : *m;
    *w -= 0.1 / t * d;
}

WT_TEST(sgd__follows_its_formula)
{
    struct wt_world world = wt_world_open();

    for (size_t i = 0; i < sizeof sgds / sizeof *sgds; i++) {
        struct wt_bag bag;

        sgd = sgds[i];
        wt_row("momentum %g, weight decay %g%s", sgd.momentum, sgd.weight_decay,
               sgd.nesterov ? ", nesterov" : "");
        fill(&bag, &world);
        follow(&bag, wt_own(weft_sgd(bag.module, sgd)), by_sgd, true);
    }
}

WT_TEST(sgd__without_momentum_keeps_no_state)
{
    struct wt_world world = wt_world_open();
    double want[COUNT], g[COUNT];
    struct wt_bag bag;
    weft_optim *optim;
    int64_t before;

    numbers(0, want);
    numbers(5, g);
    fill(&bag, &world);
    before = weft_memory_of(WEFT_MEMORY_OPTIMIZER).live;
    optim = wt_own(weft_sgd(bag.module, (weft_sgd_config){.lr = 1}));
    WT_EQ(weft_memory_of(WEFT_MEMORY_OPTIMIZER).live, before);
    WT_EQ(wt_bag_backward(&bag), WEFT_OK);
    wt_bag_steps(&bag, optim, 1);
    for (int i = 0; i < COUNT; i++) want[i] -= 2 * g[i];
    all_near(&bag, want);
    WT_EQ(weft_step(optim), WEFT_OK);
    all_near(&bag, want);
}

WT_TEST(optim__notices_a_replaced_parameter)
{
    struct wt_world world = wt_world_open();
    struct wt_bag bag;
    weft_optim *optim;

    fill(&bag, &world);
    optim = wt_own(weft_sgd(bag.module, (weft_sgd_config){.lr = 1}));
    WT_EQ(weft_module_set_parameter(bag.module, "c", wt_numbers(WEFT_F64, 0, 2, shape)), WEFT_OK);
    WT_FAILS(weft_step(optim), WEFT_ERR_STATE, "parameter 'c'");
}

WT_TEST(optim__bad_settings_are_refused)
{
    struct wt_world world = wt_world_open();
    struct wt_bag bag;

    fill(&bag, &world);
    WT_FAILS(weft_sgd(bag.module, (weft_sgd_config){.lr = -1}), WEFT_ERR_ARG, "lr is -1");
    WT_FAILS(weft_sgd(bag.module, (weft_sgd_config){.lr = 1, .nesterov = true}), WEFT_ERR_ARG,
             "nesterov");
    WT_FAILS(weft_adamw(bag.module, (weft_adamw_config){.lr = 1, .beta1 = 1}), WEFT_ERR_ARG,
             "beta1 is 1");
    WT_FAILS(
        weft_sgd(bag.module,
                 (weft_sgd_config){.lr = 1, .momentum = 0.9, .dampening = 0.1, .nesterov = true}),
        WEFT_ERR_ARG, "no dampening");
    WT_FAILS(weft_rmsprop(bag.module, (weft_rmsprop_config){.lr = 1, .alpha = -0.5}), WEFT_ERR_ARG,
             "rmsprop: alpha is -0.5");
    WT_FAILS(weft_muon(bag.module, (weft_muon_config){.lr = 1, .ns_steps = 100}), WEFT_ERR_ARG,
             "muon: ns_steps is 100");
    WT_FAILS(weft_adadelta(bag.module, (weft_adadelta_config){.lr = NAN}), WEFT_ERR_ARG, "lr is");
    WT_FAILS(weft_adadelta(bag.module, (weft_adadelta_config){.lr = 1, .rho = 1.1}), WEFT_ERR_ARG,
             "rho is 1.1");
    WT_FAILS(weft_adagrad(bag.module, (weft_adagrad_config){.lr = 1, .lr_decay = -0.5}),
             WEFT_ERR_ARG, "lr_decay is -0.5");
    WT_FAILS(weft_adamax(bag.module, (weft_adamax_config){.lr = 1, .beta2 = 1}), WEFT_ERR_ARG,
             "beta2 is 1");
    WT_FAILS(weft_nadam(bag.module, (weft_nadam_config){.lr = 1, .momentum_decay = -0.2}),
             WEFT_ERR_ARG, "momentum_decay is -0.2");
    WT_FAILS(weft_radam(bag.module, (weft_radam_config){.lr = 1, .weight_decay = -1}), WEFT_ERR_ARG,
             "weight_decay is -1");
    WT_FAILS(weft_asgd(bag.module, (weft_asgd_config){.lr = 1, .weight_decay = -0.5}), WEFT_ERR_ARG,
             "weight_decay is -0.5");
    WT_FAILS(weft_sgd(bag.module, (weft_sgd_config){.lr = 1, .momentum = -0.5}), WEFT_ERR_ARG,
             "momentum is -0.5");
    WT_FAILS(weft_adamw(NULL, (weft_adamw_config){.lr = 1}), WEFT_ERR_ARG, "NULL");
}

int main(int argc, char **argv) { return wt_main(argc, argv, "optimizer"); }
