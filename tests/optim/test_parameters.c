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

typedef weft_optim *maker(weft_module *m, struct choice c);

#define MAKER(name, ...)                                                                           \
    static weft_optim *name(weft_module *m, struct choice c)                                       \
    {                                                                                              \
        return weft_##name(                                                                        \
            m, (weft_##name##_config){.lr = c.lr, .maximize = c.maximize, __VA_ARGS__});           \
    }
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

static maker *const makers[] = {sgd,     adam,    adamw,    nadam, radam, adamax,
                                adagrad, rmsprop, adadelta, asgd,  lion,  muon};
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

static weft_tensor *parameter(struct wt_bag *bag, int i)
{
    return weft_module_parameter(bag->module, bag->items[i].name);
}

/* ---- gradients that point elsewhere, or nowhere ---- */

static void steps(struct wt_bag *bag, weft_optim *optim, int n)
{
    for (int i = 0; i < n; i++) {
        WT_EQ(wt_bag_backward(bag), WEFT_OK);
        WT_EQ(weft_step(optim), WEFT_OK);
    }
}

WT_TEST(maximize__is_the_way_down_of_the_negated)
{
    for (int i = 0; i < MAKERS; i++) {
        struct wt_world world = wt_world_open();
        struct wt_bag bags[2];

        for (int up = 0; up < 2; up++) {
            weft_optim *optim;

            fill(&bags[up], &world, up ? 1 : -1);
            optim = makers[i](bags[up].module, (struct choice){.lr = 0.1, .maximize = up});
            WT_EQ(weft_optim_set(optim, "**", "weight_decay", 0.3), WEFT_OK);
            steps(&bags[up], optim, 8);
            weft_optim_release(optim);
        }
        wt_note("optimizer %d", i);
        for (int k = 0; k < 2; k++)
            WT_ALL(wt_near_tensors(parameter(&bags[0], k), parameter(&bags[1], k), WT_EXACT));
        for (int up = 0; up < 2; up++) wt_bag_close(&bags[up]);
        wt_world_close(&world);
    }
}

/* Gradients of zero, and a rate of zero, move nothing; with the rate 0 the state goes on. */
WT_TEST(zero__moves_nothing)
{
    for (int i = 0; i < 2 * MAKERS; i++) {
        struct wt_world world = wt_world_open();
        bool still = i % 2;
        struct wt_bag bag;
        weft_optim *optim;

        fill(&bag, &world, still ? 1 : 0);
        optim = makers[i / 2](bag.module, (struct choice){.lr = still ? 0 : 1e-3});
        steps(&bag, optim, 3);
        wt_note("optimizer %d", i / 2);
        for (int k = 0; k < 2; k++) {
            weft_tensor *p = parameter(&bag, k);

            WT_ALL(wt_near_tensors(p, wt_numbers(WEFT_F64, k + 1, k + 1, shape), WT_WITHIN(1e-14)));
            WT_EQ(weft_optim_update_count(optim, p), 3);
        }
        WT_ALL(!still || !wt_is_all(weft_optim_state(optim, parameter(&bag, 1), 0), 0));
        weft_optim_release(optim);
        wt_bag_close(&bag);
        wt_world_close(&world);
    }
}

/* ---- parameters without a gradient ---- */

static weft_status backward_of(struct wt_bag *bag, int i)
{
    weft_tensor *product = weft_mul(parameter(bag, i), bag->items[i].factor);

    return weft_backward(weft_full_tensor(weft_sum_all(product)));
}

/* The vector has a gradient at every third step only: it goes as by an optimizer that steps then.
 */
WT_TEST(parameter__without_a_gradient_is_left_alone)
{
    for (int i = 0; i < MAKERS; i++) {
        struct wt_world world = wt_world_open();
        struct wt_bag rare, often;
        weft_optim *optims[2];

        fill(&rare, &world, 1);
        fill(&often, &world, 1);
        optims[0] = makers[i](rare.module, (struct choice){.lr = 0.1});
        optims[1] = makers[i](often.module, (struct choice){.lr = 0.1});
        for (int step = 0; step < 9; step++) {
            WT_EQ(backward_of(&rare, 1), WEFT_OK);
            if (step % 3 == 2) WT_EQ(backward_of(&rare, 0), WEFT_OK);
            if (step == 4) weft_optim_zero_grad(optims[0]);
            WT_EQ(weft_step(optims[0]), WEFT_OK);
        }
        steps(&often, optims[1], 3);
        WT_EQ(weft_optim_update_count(optims[0], parameter(&rare, 0)), 3);
        WT_EQ(weft_optim_update_count(optims[0], parameter(&rare, 1)), 8);
        WT_EQ(weft_optim_step_count(optims[0]), 9);
        wt_note("optimizer %d", i);
        WT_ALL(wt_near_tensors(parameter(&rare, 0), parameter(&often, 0), WT_EXACT));
        for (int k = 0; k < 2; k++) weft_optim_release(optims[k]);
        wt_bag_close(&rare);
        wt_bag_close(&often);
        wt_world_close(&world);
    }
}

/* As in fine-tuning: one is thawed after some steps and one frozen, whatever the optimizer, after
 * it was made. */
static void thaw(maker *make, weft_dtype dtype, bool in_backward)
{
    struct wt_world world = wt_world_open();
    struct wt_bag bag, later;
    weft_optim *optim, *twin;
    weft_tensor *p, *kept;

    wt_bag_open(&bag);
    wt_bag_open(&later);
    for (int i = 0; i < 2; i++)
        wt_bag_add(&bag, i ? "thawed" : "frozen", wt_numbers(dtype, i, 2, shape),
                   wt_numbers(dtype, i + 5, 2, shape), world.mesh, "S(0)", NULL);
    wt_bag_add(&later, "thawed", wt_numbers(dtype, 1, 2, shape), wt_numbers(dtype, 6, 2, shape),
               world.mesh, "S(0)", NULL);
    p = parameter(&bag, 1);
    weft_set_requires_grad(p, false);
    optim = make(bag.module, (struct choice){.lr = 0.1});
    twin = make(later.module, (struct choice){.lr = 0.1});
    WT_EQ(weft_optim_update_in_backward(optim, in_backward), WEFT_OK);
    WT_EQ(weft_optim_state_count(optim, p), 0);
    for (int step = 0; step < 2; step++) {
        WT_EQ(backward_of(&bag, 0), WEFT_OK);
        WT_EQ(weft_step(optim), WEFT_OK);
    }
    WT_ALL(wt_near_tensors(p, wt_numbers(dtype, 1, 2, shape), WT_EXACT));
    kept = weft_cast(weft_detach(parameter(&bag, 0)), WEFT_F64);
    weft_set_requires_grad(parameter(&bag, 0), false);
    weft_set_requires_grad(p, true);
    for (int step = 0; step < 3; step++) {
        WT_EQ(backward_of(&bag, 1), WEFT_OK);
        WT_EQ(weft_step(optim), WEFT_OK);
        WT_ALL(weft_grad(p) == NULL);
        steps(&later, twin, 1);
        WT_ALL(wt_near_tensors(p, parameter(&later, 0), WT_EXACT));
    }
    WT_ALL(wt_near_tensors(parameter(&bag, 0), kept, WT_EXACT));
    WT_EQ(weft_optim_update_count(optim, p), 3);
    WT_EQ(weft_optim_state_count(optim, p), weft_optim_state_count(twin, parameter(&later, 0)));
    for (int s = 0; s < weft_optim_state_count(optim, p); s++)
        WT_ALL(wt_near_tensors(weft_optim_state(optim, p, s),
                               weft_optim_state(twin, parameter(&later, 0), s), WT_EXACT));
    weft_set_requires_grad(parameter(&bag, 0), true); /* and its state is still there */
    WT_EQ(backward_of(&bag, 0), WEFT_OK);
    WT_EQ(weft_step(optim), WEFT_OK);
    WT_EQ(weft_optim_update_count(optim, parameter(&bag, 0)), 3);
    weft_optim_release(optim);
    weft_optim_release(twin);
    wt_bag_close(&bag);
    wt_bag_close(&later);
    wt_world_close(&world);
}

WT_TEST(parameter__is_thawed_and_frozen)
{
    for (int i = 0; i < MAKERS; i++) thaw(makers[i], i % 3 ? WEFT_F32 : WEFT_BF16, i % 2);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "parameters"); }
