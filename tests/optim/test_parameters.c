/*
 * test_parameters.c: what any parameter may be beside a sharded matrix with a gradient at every
 * step: of another dtype, mesh or size, without a gradient, frozen for a while; with each
 * optimizer.
 */
/* mpi: 2 */
#include <math.h>

#include "optim/models.h"

static const int64_t shape[] = {7, 3};

/* ---- optimizers ---- */

struct choice {
    double lr;
    bool maximize;
};

struct maker {
    const char *name;
    weft_optim *(*make)(weft_module *m, struct choice c);
};

#define MAKER(name, ...)                                                                           \
    static weft_optim *make_##name(weft_module *m, struct choice c)                                \
    {                                                                                              \
        return wt_own(weft_##name(                                                                 \
            m, (weft_##name##_config){.lr = c.lr, .maximize = c.maximize, __VA_ARGS__}));          \
    }                                                                                              \
    static const struct maker name = {#name, make_##name};
MAKER(sgd, .momentum = 0.9, .nesterov = true)
MAKER(adam, .amsgrad = true)
MAKER(adamw, .beta1 = 0.8)
MAKER(nadam, .decoupled = true)
MAKER(radam, .beta2 = 0.99)
MAKER(adamax, .eps = 1e-6)
MAKER(adagrad, .lr_decay = 0.1)
MAKER(rmsprop, .momentum = 0.9, .centered = true)
MAKER(adadelta, .rho = 0.8)
MAKER(asgd, .lambd = 1e-12)
MAKER(lion, .beta1 = 0.8)
MAKER(muon, .ns_steps = 3)

static const struct maker *const makers[] = {&sgd,     &adam,    &adamw,    &nadam, &radam, &adamax,
                                             &adagrad, &rmsprop, &adadelta, &asgd,  &lion,  &muon};
enum { MAKERS = sizeof makers / sizeof *makers };

/* A matrix and a vector, sharded, with `factor` times the tests' numbers as gradients. */
static void fill(struct wt_bag *bag, struct wt_world *world, double factor)
{
    const char *const names[] = {"vector", "matrix"};

    wt_bag_open(bag);
    for (int ndim = 1; ndim <= 2; ndim++)
        wt_bag_add(bag, names[ndim - 1], wt_numbers(WEFT_F64, ndim, ndim, shape),
                   weft_mul_scalar(wt_numbers(WEFT_F64, ndim + 5, ndim, shape), factor),
                   world->mesh, "S(0)", NULL);
}

/* ---- gradients that point elsewhere, or nowhere ---- */

WT_TEST(maximize__is_the_way_down_of_the_negated)
{
    struct wt_world world = wt_world_open();

    for (int i = 0; i < MAKERS; i++) {
        struct wt_bag bags[2];

        wt_row("%s", makers[i]->name);
        for (int up = 0; up < 2; up++) {
            weft_optim *optim;

            fill(&bags[up], &world, up ? 1 : -1);
            optim = makers[i]->make(bags[up].module, (struct choice){.lr = 0.1, .maximize = up});
            WT_EQ(weft_optim_set(optim, "**", "weight_decay", 0.3), WEFT_OK);
            wt_bag_steps(&bags[up], optim, 8);
        }
        for (int k = 0; k < 2; k++)
            WT_ALL(wt_near_tensors(wt_bag_parameter(&bags[0], k), wt_bag_parameter(&bags[1], k),
                                   WT_EXACT));
    }
}

/* Gradients of zero, and a rate of zero, move nothing; with the rate 0 the state goes on. */
WT_TEST(zero__moves_nothing)
{
    struct wt_world world = wt_world_open();

    for (int i = 0; i < 2 * MAKERS; i++) {
        bool still = i % 2;
        struct wt_bag bag;
        weft_optim *optim;

        wt_row("%s, %s", makers[i / 2]->name, still ? "rate 0" : "gradient 0");
        fill(&bag, &world, still ? 1 : 0);
        optim = makers[i / 2]->make(bag.module, (struct choice){.lr = still ? 0 : 1e-3});
        wt_bag_steps(&bag, optim, 3);
        for (int k = 0; k < 2; k++) {
            weft_tensor *p = wt_bag_parameter(&bag, k);

            WT_ALL(wt_near_tensors(p, wt_numbers(WEFT_F64, k + 1, k + 1, shape), WT_WITHIN(1e-14)));
            WT_EQ(weft_optim_update_count(optim, p), 3);
        }
        WT_ALL(!still || !wt_is_all(weft_optim_state(optim, wt_bag_parameter(&bag, 1), 0), 0));
    }
}

/* ---- parameters without a gradient ---- */

static weft_status backward_of(struct wt_bag *bag, int i)
{
    weft_tensor *product = weft_mul(wt_bag_parameter(bag, i), bag->items[i].factor);

    return weft_backward(weft_full_tensor(weft_sum_all(product)));
}

/* The vector has a gradient at every third step only: it goes as by an optimizer that steps then.
 */
WT_TEST(parameter__without_a_gradient_is_left_alone)
{
    struct wt_world world = wt_world_open();

    for (int i = 0; i < MAKERS; i++) {
        struct wt_bag rare, often;
        weft_optim *optims[2];

        wt_row("%s", makers[i]->name);
        fill(&rare, &world, 1);
        fill(&often, &world, 1);
        optims[0] = makers[i]->make(rare.module, (struct choice){.lr = 0.1});
        optims[1] = makers[i]->make(often.module, (struct choice){.lr = 0.1});
        for (int step = 0; step < 9; step++) {
            WT_EQ(backward_of(&rare, 1), WEFT_OK);
            if (step % 3 == 2) WT_EQ(backward_of(&rare, 0), WEFT_OK);
            if (step == 4) weft_optim_zero_grad(optims[0]);
            WT_EQ(weft_step(optims[0]), WEFT_OK);
        }
        wt_bag_steps(&often, optims[1], 3);
        WT_EQ(weft_optim_update_count(optims[0], wt_bag_parameter(&rare, 0)), 3);
        WT_EQ(weft_optim_update_count(optims[0], wt_bag_parameter(&rare, 1)), 8);
        WT_EQ(weft_optim_step_count(optims[0]), 9);
        WT_ALL(wt_near_tensors(wt_bag_parameter(&rare, 0), wt_bag_parameter(&often, 0), WT_EXACT));
    }
}

/* As in fine-tuning: one is thawed after some steps and one frozen, whatever the optimizer, after
 * it was made. */
static void thaw(struct wt_world *world, const struct maker *maker, weft_dtype dtype,
                 bool in_backward)
{
    struct wt_bag bag, later;
    weft_optim *optim, *twin;
    weft_tensor *p, *kept;

    wt_row("%s", maker->name);
    wt_bag_open(&bag);
    wt_bag_open(&later);
    for (int i = 0; i < 2; i++)
        wt_bag_add(&bag, i ? "thawed" : "frozen", wt_numbers(dtype, i, 2, shape),
                   wt_numbers(dtype, i + 5, 2, shape), world->mesh, "S(0)", NULL);
    wt_bag_add(&later, "thawed", wt_numbers(dtype, 1, 2, shape), wt_numbers(dtype, 6, 2, shape),
               world->mesh, "S(0)", NULL);
    p = wt_bag_parameter(&bag, 1);
    weft_set_requires_grad(p, false);
    optim = maker->make(bag.module, (struct choice){.lr = 0.1});
    twin = maker->make(later.module, (struct choice){.lr = 0.1});
    WT_EQ(weft_optim_update_in_backward(optim, in_backward), WEFT_OK);
    WT_EQ(weft_optim_state_count(optim, p), 0);
    for (int step = 0; step < 2; step++) {
        WT_EQ(backward_of(&bag, 0), WEFT_OK);
        WT_EQ(weft_step(optim), WEFT_OK);
    }
    WT_ALL(wt_near_tensors(p, wt_numbers(dtype, 1, 2, shape), WT_EXACT));
    kept = weft_cast(weft_detach(wt_bag_parameter(&bag, 0)), WEFT_F64);
    weft_set_requires_grad(wt_bag_parameter(&bag, 0), false);
    weft_set_requires_grad(p, true);
    for (int step = 0; step < 3; step++) {
        WT_EQ(backward_of(&bag, 1), WEFT_OK);
        WT_EQ(weft_step(optim), WEFT_OK);
        WT_ALL(weft_grad(p) == NULL);
        wt_bag_steps(&later, twin, 1);
        WT_ALL(wt_near_tensors(p, wt_bag_parameter(&later, 0), WT_EXACT));
    }
    WT_ALL(wt_near_tensors(wt_bag_parameter(&bag, 0), kept, WT_EXACT));
    WT_EQ(weft_optim_update_count(optim, p), 3);
    WT_EQ(weft_optim_state_count(optim, p),
          weft_optim_state_count(twin, wt_bag_parameter(&later, 0)));
    for (int s = 0; s < weft_optim_state_count(optim, p); s++)
        WT_ALL(wt_near_tensors(weft_optim_state(optim, p, s),
                               weft_optim_state(twin, wt_bag_parameter(&later, 0), s), WT_EXACT));
    weft_set_requires_grad(wt_bag_parameter(&bag, 0), true); /* and its state is still there */
    WT_EQ(backward_of(&bag, 0), WEFT_OK);
    WT_EQ(weft_step(optim), WEFT_OK);
    WT_EQ(weft_optim_update_count(optim, wt_bag_parameter(&bag, 0)), 3);
}

WT_TEST(parameter__is_thawed_and_frozen)
{
    struct wt_world world = wt_world_open();

    for (int i = 0; i < MAKERS; i++) thaw(&world, makers[i], i % 3 ? WEFT_F32 : WEFT_BF16, i % 2);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "parameters"); }
