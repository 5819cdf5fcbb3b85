/* reference.c: one training run of a model under a plan beside the files that say what it gives. */
#include "models/reference.h"

#include <stdio.h>

#include "support/golden.h"

enum { STEPS = 3 };

/* Gradients and weights are kept in f32. */
#define NEAR_FILE WT_WITHIN(2e-6)

static const char *path_of(const struct reference_model *model, const char *file)
{
    static _Thread_local char path[512];

    snprintf(path, sizeof path, "%s/tests/golden/%s/%s.safetensors", WT_SOURCE_DIR, model->folder,
             file);
    return path;
}

weft_tensor *reference_numbers(weft_weights *inputs, const char *name)
{
    return weft_cast(weft_weights_read(inputs, name, 0, NULL, NULL), WEFT_I64);
}

weft_tensor *reference_reals(weft_weights *inputs, const char *name)
{
    return weft_weights_read(inputs, name, WEFT_AS(WEFT_F64), NULL, NULL);
}

static weft_module *made_from(const struct reference_model *model, const char *file)
{
    weft_weights *weights = wt_own(weft_weights_open(path_of(model, file)));
    weft_module *m = wt_own(model->make());

    WT_ALL(m != NULL);
    WT_EQ(weft_weights_load(m, weights, model->names), WEFT_OK);
    return m;
}

/* A walk over all parameters, with one verdict at its end: every verdict is a collective. */
struct walk {
    weft_module *want;
    bool gradients, good;
};

static weft_status compare_one(weft_module *m, const char *name, weft_tensor *parameter,
                               void *payload)
{
    struct walk *walk = payload;
    weft_tensor *want =
        weft_module_parameter(weft_module_child(walk->want, weft_module_path(m)), name);
    weft_tensor *got = walk->gradients ? weft_grad(parameter) : parameter;

    if (want && got && wt_near_tensors(got, want, NEAR_FILE)) return WEFT_OK;
    if (walk->good) wt_note("%s.%s", weft_module_path(m), name);
    walk->good = false;
    return WEFT_OK;
}

static void compare(const struct reference_model *model, weft_module *m, const char *file,
                    bool gradients)
{
    struct walk walk = {made_from(model, file), gradients, true};

    WT_EQ(weft_module_each_parameter(m, compare_one, &walk), WEFT_OK);
    WT_ALL(walk.good);
}

static void check_sent(const weft_ledger *ledger, struct reference_count count, int steps)
{
    int64_t times = wt_ranks() > 1 ? steps : 0;

    WT_EQ(weft_ledger_count(ledger, WEFT_COLL_COUNT, WEFT_DIRECTION_FORWARD, NULL),
          times * count.forward);
    WT_EQ(weft_ledger_count(ledger, WEFT_COLL_COUNT, WEFT_DIRECTION_BACKWARD, NULL),
          times * count.backward);
    WT_EQ(weft_ledger_count(ledger, WEFT_COLL_COUNT, WEFT_DIRECTION_OPTIM, NULL),
          times * count.optim);
}

static double step(const struct reference_model *model, weft_module *m, weft_weights *inputs,
                   weft_optim *optim)
{
    weft_scope *scope = weft_scope_open();

    return wt_step_on_loss(scope, model->call(m, inputs, true), optim);
}

static void train(const struct reference_model *model, weft_module *m, weft_weights *inputs,
                  struct reference_count count)
{
    weft_optim *optim =
        wt_own(weft_adamw(m, (weft_adamw_config){.lr = 1e-3, .weight_decay = 0.01}));
    weft_tensor *want = reference_reals(inputs, "losses");
    weft_ledger *ledger = wt_own(weft_ledger_open());
    double losses[STEPS];

    for (int i = 0; i < STEPS; i++) losses[i] = step(model, m, inputs, optim);
    check_sent(ledger, count, STEPS);
    WT_ALL(wt_near(losses, weft_data(want), STEPS, WT_WITHIN(1e-9)));
}

void reference_check(const struct reference_model *model, const weft_plan *plan,
                     struct reference_count count)
{
    weft_mesh *mesh = wt_own(given_mesh());
    weft_weights *inputs = wt_own(weft_weights_open(path_of(model, "results")));
    weft_module *m = made_from(model, "model");

    WT_EQ(weft_parallelize_module(m, mesh, plan), WEFT_OK);
    WT_ALL(wt_near_tensors(model->call(m, inputs, false), reference_reals(inputs, "logits"),
                           WT_WITHIN(1e-10)));
    step(model, m, inputs, NULL);
    compare(model, m, "grads", true);
    m = made_from(model, "model");
    WT_EQ(weft_parallelize_module(m, mesh, plan), WEFT_OK);
    train(model, m, inputs, count);
    compare(model, m, "after", false);
}
