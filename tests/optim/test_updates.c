/*
 * test_updates.c: every optimizer over a sharded model against one device and against PyTorch
 * (tests/golden/make_optim.py).
 *
 * PyTorch has each optimizer per tensor, list-wise and fused. Here they are one: a step takes all
 * parameters, each in one pass over memory. The golden file was written only where PyTorch's three
 * agreed.
 */
/* mpi: 2 */
#include <math.h>
#include <string.h>

#include "optim/models.h"
#include "support/golden.h"

union config {
    weft_sgd_config sgd;
    weft_adam_config adam;
    weft_adamw_config adamw;
    weft_adagrad_config adagrad;
    weft_rmsprop_config rmsprop;
    weft_adadelta_config adadelta;
    weft_nadam_config nadam;
    weft_radam_config radam;
    weft_adamax_config adamax;
    weft_asgd_config asgd;
    weft_muon_config muon;
};

typedef weft_optim *maker(weft_module *m, const union config *c);

#define MAKER(name)                                                                                \
    static weft_optim *make_##name(weft_module *m, const union config *c)                          \
    {                                                                                              \
        return wt_own(weft_##name(m, c->name));                                                    \
    }
MAKER(sgd)
MAKER(adam)
MAKER(adamw)
MAKER(adagrad)
MAKER(rmsprop)
MAKER(adadelta)
MAKER(nadam)
MAKER(radam)
MAKER(adamax)
MAKER(asgd)
MAKER(muon)

struct variant {
    const char *golden;
    maker *make;
    union config c;
};

/* clang-format off */
#define ROW(golden, name, ...) {golden, make_##name, {.name = {.lr = 0.1, __VA_ARGS__}}}

static const struct variant rows[] = {
    ROW("SGD.0", sgd, .momentum = 0),
    ROW("SGD.1", sgd, .momentum = 0.9),
    ROW("SGD.2", sgd, .momentum = 0.9, .dampening = 0.3),
    ROW("SGD.3", sgd, .momentum = 0.9, .dampening = 0.3, .weight_decay = 0.05),
    ROW("SGD.4", sgd, .momentum = 0.9, .dampening = 0.3, .weight_decay = 0.05, .maximize = true),
    ROW("SGD.5", sgd, .momentum = 0.8, .nesterov = true),
    ROW("SGD.6", sgd, .momentum = 0.8, .nesterov = true, .weight_decay = 0.1),
    ROW("Adam.0", adam, .eps = 0),
    ROW("Adam.1", adam, .weight_decay = 0.05),
    ROW("Adam.2", adam, .weight_decay = 0.05, .amsgrad = true),
    ROW("Adam.3", adam, .weight_decay = 0.05, .amsgrad = true, .maximize = true),
    ROW("AdamW.0", adamw, .weight_decay = 0.01), /* PyTorch's default */
    ROW("AdamW.1", adamw, .weight_decay = 0.05),
    ROW("AdamW.2", adamw, .beta1 = 0.6, .beta2 = 0.66, .eps = 1e-6, .weight_decay = 0.05, .amsgrad = true),
    ROW("AdamW.3", adamw, .beta1 = 0.6, .beta2 = 0.66, .eps = 1e-6, .weight_decay = 0.05, .amsgrad = true, .maximize = true),
    ROW("Adagrad.0", adagrad, .eps = 0),
    ROW("Adagrad.1", adagrad, .lr_decay = 0.05),
    ROW("Adagrad.2", adagrad, .lr_decay = 0.02, .weight_decay = 0.05),
    ROW("Adagrad.3", adagrad, .lr_decay = 0.02, .weight_decay = 0.05, .initial_accumulator = 0.03),
    ROW("Adagrad.4", adagrad, .lr_decay = 0.02, .weight_decay = 0.05, .initial_accumulator = 0.03, .eps = 1e-6),
    ROW("Adagrad.5", adagrad, .lr_decay = 0.02, .weight_decay = 0.05, .initial_accumulator = 0.03, .eps = 1e-6, .maximize = true),
    ROW("RMSprop.0", rmsprop, .eps = 0),
    ROW("RMSprop.1", rmsprop, .alpha = 0.85),
    ROW("RMSprop.2", rmsprop, .alpha = 0.88, .eps = 1e-6),
    ROW("RMSprop.3", rmsprop, .alpha = 0.88, .eps = 1e-6, .weight_decay = 0.05),
    ROW("RMSprop.4", rmsprop, .alpha = 0.88, .eps = 1e-6, .weight_decay = 0.05, .momentum = 0.9),
    ROW("RMSprop.5", rmsprop, .alpha = 0.88, .eps = 1e-6, .weight_decay = 0.05, .momentum = 0.9, .centered = true),
    ROW("RMSprop.6", rmsprop, .alpha = 0.88, .eps = 1e-6, .weight_decay = 0.05, .momentum = 0.9, .centered = true, .maximize = true),
    ROW("Adadelta.0", adadelta, .eps = 0),
    ROW("Adadelta.1", adadelta, .rho = 0.85),
    ROW("Adadelta.2", adadelta, .rho = 0.88, .eps = 1e-5),
    ROW("Adadelta.3", adadelta, .rho = 0.88, .eps = 1e-6, .weight_decay = 0.05),
    ROW("Adadelta.4", adadelta, .rho = 0.88, .eps = 1e-6, .weight_decay = 0.05, .maximize = true),
    ROW("NAdam.0", nadam, .eps = 0),
    ROW("NAdam.1", nadam, .weight_decay = 0.05),
    ROW("NAdam.2", nadam, .beta1 = 0.6, .beta2 = 0.66, .eps = 1e-6, .weight_decay = 0.05),
    ROW("NAdam.3", nadam, .beta1 = 0.6, .beta2 = 0.66, .eps = 1e-6, .weight_decay = 0.05, .decoupled = true),
    ROW("RAdam.0", radam, .eps = 0),
    ROW("RAdam.1", radam, .weight_decay = 0.05),
    ROW("RAdam.2", radam, .beta1 = 0.6, .beta2 = 0.66, .eps = 1e-6, .weight_decay = 0.05),
    ROW("RAdam.3", radam, .beta1 = 0.6, .beta2 = 0.66, .eps = 1e-6, .weight_decay = 0.05, .decoupled = true),
    ROW("Adamax.0", adamax, .eps = 0),
    ROW("Adamax.1", adamax, .beta1 = 0.6, .beta2 = 0.66),
    ROW("Adamax.2", adamax, .beta1 = 0.6, .beta2 = 0.66, .eps = 1e-6),
    ROW("Adamax.3", adamax, .beta1 = 0.6, .beta2 = 0.66, .eps = 1e-6, .weight_decay = 0.05),
    ROW("Adamax.4", adamax, .beta1 = 0.6, .beta2 = 0.66, .eps = 1e-6, .weight_decay = 0.05, .maximize = true),
    ROW("ASGD.0", asgd, .lambd = 0),
    ROW("ASGD.1", asgd, .lambd = 0.001),
    ROW("ASGD.2", asgd, .lambd = 0.001, .alpha = 0.85),
    ROW("ASGD.3", asgd, .lambd = 0.001, .alpha = 0.85, .t0 = 1e5),
    ROW("ASGD.4", asgd, .lambd = 0.001, .alpha = 0.85, .t0 = 1e5, .weight_decay = 0.05),
    ROW("ASGD.5", asgd, .lambd = 0.001, .alpha = 0.85, .t0 = 1e5, .weight_decay = 0.05, .maximize = true),
    ROW("ASGD.6", asgd, .t0 = 2), /* so that the average is no copy */
    ROW("Muon.0", muon, .eps = 0),
    ROW("Muon.1", muon, .no_nesterov = true),
    ROW("Muon.2", muon, .no_nesterov = true, .weight_decay = 0.05, .momentum = 0.8),
    ROW("Muon.3", muon, .rate = WEFT_MUON_MATCH_ADAMW),
    ROW("Muon.4", muon, .rate = WEFT_MUON_SPECTRAL),
    ROW("Muon.5", muon, .rate = WEFT_MUON_SPECTRAL, .ns_steps = 3),
};
/* clang-format on */
enum { ROWS = sizeof rows / sizeof *rows };

static const struct variant *row_of(const char *golden)
{
    for (int i = 0; i < ROWS; i++)
        if (strcmp(rows[i].golden, golden) == 0) return &rows[i];
    return NULL;
}

/* ---- against PyTorch, in f64, 8 steps ---- */

static void follow_golden(const struct wt_golden *golden, const struct variant *row,
                          weft_mesh *mesh)
{
    struct wt_mlp mlp = {.sizes = {8, 10, 16, 10},
                         .dtype = WEFT_F64,
                         .varied_input = row->make == make_muon,
                         .placements = "S(0)"};
    weft_optim *optim;

    wt_mlp_open(&mlp, mesh);
    optim = row->make(mlp.module, &row->c);
    WT_ALL(optim != NULL);
    for (int step = 1; step <= 8; step++) {
        weft_scope *scope = weft_scope_open();
        char name[32];

        if (step % 2 == 0) weft_optim_zero_grad(optim);
        WT_EQ(wt_mlp_backward(&mlp), WEFT_OK);
        WT_EQ(weft_step(optim), WEFT_OK);
        snprintf(name, sizeof name, "%s.%d", row->golden, step);
        if (step <= 2 || step == 8)
            WT_ALL(wt_golden_matches(golden, name, wt_mlp_weights(&mlp), WT_WITHIN(1e-9)));
        weft_scope_close(scope);
    }
}

/* ---- against one device, in f32, 2 steps ---- */

static void follow_one_device(const struct variant *row, struct wt_mlp mlp, weft_mesh *mesh)
{
    struct wt_mlp single = mlp;
    struct wt_tolerance near = {1.3e-6, 1e-5};
    weft_optim *spread, *alone;

    if (row->make == make_asgd) near = (struct wt_tolerance){1e-4, 1.3e-5};
    if (row->make == make_muon) near = (struct wt_tolerance){1e-4, 1e-4};
    single.placements = NULL;
    wt_mlp_open(&mlp, mesh);
    wt_mlp_open(&single, mesh);
    spread = row->make(mlp.module, &row->c);
    alone = row->make(single.module, &row->c);
    for (int step = 1; step <= 2; step++) {
        weft_scope *scope = weft_scope_open();

        WT_EQ(wt_mlp_backward(&mlp), WEFT_OK);
        WT_EQ(wt_mlp_backward(&single), WEFT_OK);
        WT_EQ(weft_step(spread), WEFT_OK);
        WT_EQ(weft_step(alone), WEFT_OK);
        WT_ALL(wt_near_tensors(wt_mlp_weights(&mlp), wt_mlp_weights(&single), near));
        weft_scope_close(scope);
    }
}

/* OPT-01, OPT-02, OPT-04, OPT-05, OPT-06, OPT-07, OPT-08, OPT-09: every row, at the acceptance
 * cases' sizes and at others that leave ranks without rows. Muon's golden rows are without its
 * rounding. */
WT_TEST(optimizers__equal_pytorch)
{
    static const struct wt_mlp sizes[] = {
        {.sizes = {8, 10, 16, 10}, .placements = "S(0)"},
        {.sizes = {5, 7, 6, 3}, .placements = "S(0)", .varied_input = true},
        {.sizes = {4, 2, 9, 1}, .placements = "S(-1)", .varied_input = true},
    };
    struct wt_golden *golden = wt_golden_open("optim");
    struct wt_world world = wt_world_open();

    for (int i = 0; i < ROWS; i++) {
        wt_row("%s", rows[i].golden);
        follow_golden(golden, &rows[i], world.mesh);
        for (int k = 0; k < 3; k++) follow_one_device(&rows[i], sizes[k], world.mesh);
    }
}

/* ---- the rate as a tensor ---- */

/* OPT-01, OPT-02: 0-d and of one element, and of any dtype; plain or on the mesh */
WT_TEST(rate__is_read_from_a_tensor)
{
    static const char *const names[] = {"Adam.0", "AdamW.1"};
    static const weft_dtype dtypes[] = {WEFT_F64, WEFT_F32, WEFT_F64};
    struct wt_golden *golden = wt_golden_open("optim");
    struct wt_world world = wt_world_open();
    int64_t one[] = {1, 1};

    for (int i = 0; i < 6; i++) {
        const struct variant *row = row_of(names[i / 3]);
        union config c = row->c;
        struct wt_mlp mlp = {.sizes = {8, 10, 16, 10}, .dtype = WEFT_F64, .placements = "S(0)"};
        weft_tensor *lr;
        weft_optim *optim;
        char name[32];

        wt_row("%s, a rate of %d dims", row->golden, i % 3);
        lr = weft_full(dtypes[i % 3], one, i % 3, 0.1);
        if (i % 2) lr = weft_distribute_tensor(lr, world.mesh, NULL, -1);
        c.adam.lr = 7; /* not used */
        wt_mlp_open(&mlp, world.mesh);
        optim = row->make(mlp.module, &c);
        WT_EQ(weft_optim_set_lr_tensor(optim, lr), WEFT_OK);
        WT_ALL(fabs(weft_optim_lr(optim) - 0.1) < 1e-8);
        WT_EQ(wt_mlp_backward(&mlp), WEFT_OK);
        WT_EQ(weft_step(optim), WEFT_OK);
        snprintf(name, sizeof name, "%s.1", row->golden);
        WT_ALL(wt_golden_matches(golden, name, wt_mlp_weights(&mlp),
                                 WT_WITHIN(i % 3 == 1 ? 1e-6 : 1e-9)));
    }
}

WT_TEST(rate__of_several_elements_is_refused)
{
    struct wt_world world = wt_world_open();
    struct wt_mlp mlp = {.sizes = {8, 10, 16, 10}, .placements = "S(0)"};
    weft_optim *optim;

    wt_mlp_open(&mlp, world.mesh);
    optim = wt_own(weft_adam(mlp.module, (weft_adam_config){.lr = 0.5}));
    WT_FAILS(weft_optim_set_lr_tensor(optim, wt_constant(1, 2, 0.1)), WEFT_ERR_ARG, "2 elements");
    WT_FAILS(weft_optim_set_lr_tensor(optim, wt_constant(1, 1, -0.1)), WEFT_ERR_ARG, "lr is -0.1");
    WT_ALL(weft_optim_lr(optim) == 0.5);
}

/* ---- state ---- */

static bool lies_as(const weft_tensor *state, const weft_tensor *parameter)
{
    bool same = weft_tensor_mesh(state) == weft_tensor_mesh(parameter);

    for (int d = 0; d < weft_ndim(parameter); d++)
        same &= weft_size(state, d) == weft_size(parameter, d) &&
                weft_local_size(state, d) == weft_local_size(parameter, d) &&
                weft_local_offset(state, d) == weft_local_offset(parameter, d);
    return same && weft_placement_equal(weft_tensor_placement(state, 0),
                                        weft_tensor_placement(parameter, 0));
}

static void check_states(weft_optim *optim, weft_tensor *p, int updates)
{
    WT_ALL(weft_optim_state_count(optim, p) > 0);
    for (int s = 0; s < weft_optim_state_count(optim, p); s++) {
        weft_tensor *state = weft_optim_state(optim, p, s);

        WT_ALL(state && lies_as(state, p));
        WT_ALL(weft_optim_state_name(optim, p, s) != NULL);
    }
    WT_ALL(weft_optim_state_name(optim, p, weft_optim_state_count(optim, p)) == NULL);
    WT_EQ(weft_optim_update_count(optim, p), updates);
}

/* OPT-12: of every optimizer, for even, uneven and empty shards; steps are plain numbers */
WT_TEST(state__lies_as_its_parameter)
{
    static const char *const optims[] = {"SGD.1",     "Adam.2",     "AdamW.0", "Adagrad.0",
                                         "RMSprop.5", "Adadelta.0", "NAdam.0", "RAdam.0",
                                         "Adamax.0",  "ASGD.0",     "Muon.0"};
    static const char *const names[] = {"net1.weight", "net1.bias", "net2.weight", "net2.bias"};
    struct wt_world world = wt_world_open();

    for (size_t i = 0; i < 3 * sizeof optims / sizeof *optims; i++) {
        const struct variant *row = row_of(optims[i / 3]);
        struct wt_mlp mlp = {.sizes = {8, 10, i % 3 ? 16 : 5, 10},
                             .placements = i % 3 == 2 ? "S(-1)" : "S(0)"};
        weft_optim *optim;

        wt_row("%s, sizes %d", row->golden, (int)(i % 3));
        wt_mlp_open(&mlp, world.mesh);
        optim = row->make(mlp.module, &row->c);
        for (int step = 0; step < 2; step++) {
            for (int n = 0; n < 4; n++)
                check_states(optim, weft_module_parameter(mlp.module, names[n]), step);
            WT_EQ(wt_mlp_backward(&mlp), WEFT_OK);
            WT_EQ(weft_step(optim), WEFT_OK);
        }
    }
}

int main(int argc, char **argv) { return wt_main(argc, argv, "updates"); }
