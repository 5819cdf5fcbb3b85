/*
 * test_masters.c: bf16 and f16 parameters are updated through f32 masters: no small step is lost,
 * the masters are state like any other, and a checkpoint of them goes on anywhere.
 */
/* mpi: 2 */
#include <math.h>
#include <string.h>

#include "optim/models.h"
#include "support/scratch.h"

static const int64_t shape[] = {9, 5};

static const weft_dtype halves[] = {WEFT_BF16, WEFT_F16};

/* One matrix; the same numbers in any dtype, since all of them are bf16's and f16's. */
static void fill(struct wt_bag *bag, weft_dtype dtype, weft_mesh *mesh, const char *placements)
{
    weft_tensor *w = wt_numbers(WEFT_BF16, 1, 2, shape), *g = wt_numbers(WEFT_BF16, 2, 2, shape);

    wt_bag_open(bag);
    wt_bag_add(bag, "w", weft_cast(w, dtype), weft_cast(g, dtype), mesh, placements, NULL);
}

static weft_tensor *master_of(weft_optim *optim, weft_tensor *p)
{
    return weft_optim_state(optim, p, weft_optim_state_count(optim, p) - 1);
}

WT_MAKER(sgd, .lr = 1e-3, .momentum = 0.9)
WT_MAKER(adam, .lr = 1e-4, .weight_decay = 0.1, .amsgrad = true)
WT_MAKER(adamw, .lr = 1e-4, .weight_decay = 0.1)
WT_MAKER(adagrad, .lr = 1e-4, .initial_accumulator = 0.1)
WT_MAKER(rmsprop, .lr = 1e-4, .momentum = 0.9, .centered = true, .eps = 1e-2)
WT_MAKER(adadelta, .lr = 1)
WT_MAKER(nadam, .lr = 1e-4)
WT_MAKER(radam, .lr = 1e-4)
WT_MAKER(adamax, .lr = 1e-4)
WT_MAKER(asgd, .lr = 1e-3)
WT_MAKER(lion, .lr = 1e-4)
WT_MAKER(muon, .lr = 1e-4)

static const struct wt_maker *const makers[] = {&sgd,     &adam,     &adamw, &adagrad,
                                                &rmsprop, &adadelta, &nadam, &radam,
                                                &adamax,  &asgd,     &lion,  &muon};
enum { MAKERS = sizeof makers / sizeof *makers };

static const char *const layouts[] = {"S(0)", "S(1)", "R"};

/* Masters go exactly as the same parameter in f32, and the parameter is the master rounded. */
WT_TEST(master__goes_as_a_parameter_in_f32)
{
    struct wt_world world = wt_world_open();

    for (int i = 0; i < 3 * MAKERS; i++) {
        struct wt_bag narrow, wide;
        weft_optim *optims[2];
        weft_tensor *p, *q;

        weft_dtype dtype = halves[i % 2];

        wt_row("%s, %s, %s", makers[i / 3]->name, layouts[i % 3], weft_dtype_name(dtype));
        fill(&narrow, dtype, world.mesh, layouts[i % 3]);
        fill(&wide, WEFT_F32, world.mesh, layouts[i % 3]);
        optims[0] = makers[i / 3]->make(narrow.module);
        optims[1] = makers[i / 3]->make(wide.module);
        p = weft_module_parameter(narrow.module, "w");
        q = weft_module_parameter(wide.module, "w");
        WT_EQ(weft_tensor_dtype(master_of(optims[0], p)), WEFT_F32);
        WT_ALL(strcmp(weft_optim_state_name(optims[0], p, weft_optim_state_count(optims[0], p) - 1),
                      "master") == 0);
        WT_ALL(wt_near_tensors(master_of(optims[0], p), q, WT_EXACT));
        for (int step = 0; step < 5; step++) {
            wt_bag_steps(&narrow, optims[0], 1);
            wt_bag_steps(&wide, optims[1], 1);
            WT_ALL(wt_near_tensors(master_of(optims[0], p), q, WT_WITHIN(1e-7)));
            WT_ALL(wt_near_tensors(p, weft_cast(master_of(optims[0], p), dtype), WT_EXACT));
        }
    }
}

/* Steps of 2^-12 move no bf16 near 1, and steps of 2^-14 no f16; sixteen of them do. */
WT_TEST(small_steps__add_up)
{
    static const double rates[] = {0x1p-12, 0x1p-14};
    struct wt_world world = wt_world_open();

    for (int i = 0; i < 2; i++) {
        struct wt_bag bag;
        weft_optim *optim;
        weft_tensor *p;

        wt_bag_open(&bag);
        wt_bag_add(&bag, "w", weft_full(halves[i], shape, 2, 1), weft_full(halves[i], shape, 2, 1),
                   world.mesh, "S(0)", NULL);
        optim = wt_own(weft_sgd(bag.module, (weft_sgd_config){.lr = rates[i]}));
        p = weft_module_parameter(bag.module, "w");
        for (int step = 0; step < 16; step++) {
            wt_bag_steps(&bag, optim, 1);
            if (step == 0) WT_ALL(wt_local_is_all(p, 1));
        }
        WT_ALL(wt_local_is_all(p, 1 - 16 * rates[i]));
    }
}

/* Weights that are read in after the optimizer was made are not undone by older masters. */
WT_TEST(parameter__that_was_written_to_leads)
{
    static const uint16_t eight[] = {0x4100, 0x4800};
    struct wt_world world = wt_world_open();

    for (int k = 0; k < 2; k++) {
        struct wt_bag bag;
        weft_optim *optim;
        weft_tensor *p;

        fill(&bag, halves[k], world.mesh, "S(0)");
        optim = wt_own(weft_sgd(bag.module, (weft_sgd_config){.lr = 0.25}));
        p = weft_module_parameter(bag.module, "w");
        for (int64_t i = 0; i < weft_local_numel(p); i++) ((uint16_t *)weft_data(p))[i] = eight[k];
        WT_EQ(wt_bag_backward(&bag), WEFT_OK);
        weft_zero_grad(p); /* no update without a gradient */
        WT_EQ(weft_step(optim), WEFT_OK);
        WT_ALL(wt_local_is_all(p, 8));
        wt_bag_steps(&bag, optim, 1);
        WT_ALL(wt_near_tensors(
            master_of(optim, p),
            weft_add_scalar(
                weft_mul_scalar(weft_cast(wt_numbers(WEFT_BF16, 2, 2, shape), WEFT_F32), -0.25), 8),
            WT_WITHIN(1e-6)));
    }
}

static weft_state *list(struct wt_bag *bag, weft_optim *optim)
{
    weft_state *state = wt_own(weft_state_new());

    WT_EQ(weft_state_add_module(state, "model", bag->module), WEFT_OK);
    WT_EQ(weft_state_add_optim(state, "optim", optim, bag->module), WEFT_OK);
    return state;
}

/* 3 steps, saved, loaded in another layout, 2 more: as 5 steps, bit by bit. */
WT_TEST(checkpoint__goes_on_in_another_layout)
{
    struct wt_world world = wt_world_open();

    for (int i = 0; i < 3 * MAKERS; i++) {
        const char *path = wt_scratch("masters");
        struct wt_bag bags[2];
        weft_optim *optims[2];
        weft_tensor *p, *q;

        wt_row("%s, %s", makers[i / 3]->name, layouts[i % 3]);
        for (int k = 0; k < 2; k++) {
            weft_state *state;

            fill(&bags[k], halves[i % 2], world.mesh, layouts[(i + k) % 3]);
            optims[k] = makers[i / 3]->make(bags[k].module);
            if (k == 0) wt_bag_steps(&bags[0], optims[0], 3);
            state = list(&bags[k], optims[k]);
            WT_ALL(weft_state_tensor(state, "optim.w.master") != NULL);
            WT_EQ((k ? weft_checkpoint_load(path, state) : weft_checkpoint_save(path, state)),
                  WEFT_OK);
            wt_bag_steps(&bags[k], optims[k], 2);
        }
        p = weft_module_parameter(bags[0].module, "w");
        q = weft_module_parameter(bags[1].module, "w");
        WT_EQ(weft_optim_update_count(optims[1], q), 5);
        WT_ALL(wt_near_tensors(p, q, makers[i / 3] == &muon ? WT_WITHIN(1e-2) : WT_EXACT));
        WT_ALL(wt_near_tensors(master_of(optims[0], p), master_of(optims[1], q),
                               makers[i / 3] == &muon ? WT_WITHIN(1e-6) : WT_EXACT));
    }
}

/* Gradients are of the model's dtype, and norms and clipping take them. */
static void check_model_learns(weft_dtype dtype)
{
    struct wt_world world = wt_world_open();
    weft_module *gpt;
    weft_optim *optim;
    int64_t size[] = {2, 4}, tokens[] = {1, 2, 3, 4, 5, 6, 7, 8};
    weft_tensor *text = weft_from_data(WEFT_I64, size, 2, tokens);
    double losses[2] = {0}, norm;

    weft_manual_seed(3);
    gpt = wt_own(weft_gpt((weft_gpt_config){
        .vocab = 11, .context = 4, .width = 24, .heads = 3, .layers = 1, .dtype = dtype}));
    WT_EQ(weft_parallelize_module(gpt, world.mesh, weft_gpt_plan_sequence()), WEFT_OK);
    optim = wt_own(weft_adamw(gpt, (weft_adamw_config){.lr = 1e-2}));
    for (int step = 0; step < 20; step++) {
        weft_scope *scope = weft_scope_open();
        weft_tensor *loss = weft_gpt_loss(gpt, text, text);

        losses[step > 0] = weft_item(loss);
        WT_EQ(weft_backward(loss), WEFT_OK);
        WT_EQ(weft_clip_grad_norm(gpt, 1, &norm), WEFT_OK);
        WT_ALL(norm > 0 && isfinite(norm));
        WT_EQ(weft_step(optim), WEFT_OK);
        weft_scope_close(scope);
    }
    WT_ALL(losses[1] < 0.3 * losses[0]);
}

WT_TEST(model__in_bf16_learns) { check_model_learns(WEFT_BF16); }
WT_TEST(model__in_f16_learns) { check_model_learns(WEFT_F16); }

int main(int argc, char **argv) { return wt_scratch_end(wt_main(argc, argv, "masters")); }
