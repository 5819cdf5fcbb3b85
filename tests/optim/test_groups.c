/* test_groups.c: parameters with settings of their own, by pattern. */
#include <math.h>
#include <string.h>

#include "optim/models.h"

static weft_module *make_gpt(struct wt_world *world)
{
    weft_module *gpt = wt_own(weft_gpt((weft_gpt_config){
        .vocab = 11, .context = 4, .width = 12, .heads = 3, .layers = 2, .dtype = WEFT_F64}));

    WT_EQ(weft_parallelize_module(gpt, world->mesh, weft_gpt_plan()), WEFT_OK);
    return gpt;
}

struct tally {
    weft_optim *optim;
    const char *setting;
    double value;
    int has, others;
};

static weft_status count(weft_module *m, const char *name, weft_tensor *p, void *payload)
{
    struct tally *tally = payload;

    (void)m;
    (void)name;
    if (weft_optim_setting(tally->optim, p, tally->setting) == tally->value)
        tally->has++;
    else
        tally->others++;
    return WEFT_OK;
}

static int with(weft_optim *optim, weft_module *m, const char *setting, double value)
{
    struct tally tally = {.optim = optim, .setting = setting, .value = value};

    weft_module_each_parameter(m, count, &tally);
    return tally.has;
}

WT_TEST(pattern__goes_token_by_token)
{
    static const struct {
        const char *pattern;
        int matches;
    } rows[] = {
        {"**.bias", 13},          {"**", 29},
        {"blocks.*.norm?.*", 8},  {"blocks.*.norm1.weight", 2},
        {"blocks.0.**", 12},      {"blocks.[1-9].mlp.*.weight", 2},
        {"**.mlp.**", 8},         {"norm_f.*", 2},
        {"blocks.**.weight", 12}, {"wte.weight", 1},
        {"**.norm*.**", 10},      {"head.weight.**", 1},
    };
    struct wt_world world = wt_world_open();
    weft_module *gpt = make_gpt(&world);
    weft_optim *adamw = wt_own(weft_adamw(gpt, (weft_adamw_config){.lr = 1, .weight_decay = 0.1}));

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double value = 1 + (double)i;

        WT_EQ(weft_optim_set(adamw, rows[i].pattern, "weight_decay", value), WEFT_OK);
        wt_note("%s", rows[i].pattern);
        WT_EQ(with(adamw, gpt, "weight_decay", value), rows[i].matches);
    }
}

WT_TEST(path__begins_below_the_optimizers_module)
{
    struct wt_world world = wt_world_open();
    weft_module *gpt = make_gpt(&world), *block = weft_module_child(gpt, "blocks.1");
    weft_optim *adamw =
        wt_own(weft_adamw(block, (weft_adamw_config){.lr = 1, .weight_decay = 0.1}));

    WT_EQ(weft_optim_set(adamw, "mlp.up.bias", "weight_decay", 0), WEFT_OK);
    WT_EQ(with(adamw, block, "weight_decay", 0), 1);
    WT_FAILS(weft_optim_set(adamw, "blocks.**", "weight_decay", 0), WEFT_ERR_NOT_FOUND,
             "'blocks.**'");
}

/* No decay for biases and norms, a slower head: as one optimizer each. */
WT_TEST(group__is_updated_as_by_an_optimizer_of_its_own)
{
    const int64_t shape[] = {7, 3};
    static const char *const names[] = {"weight", "bias", "head"};
    struct wt_world world = wt_world_open();
    struct wt_bag all, one[3];
    weft_adamw_config config = {.lr = 0.1, .weight_decay = 0.3};
    weft_optim *optim, *optims[3];

    wt_bag_open(&all);
    for (int i = 0; i < 3; i++) {
        wt_bag_open(&one[i]);
        for (int twin = 0; twin < 2; twin++)
            wt_bag_add(twin ? &one[i] : &all, names[i], wt_numbers(WEFT_F64, i, 2, shape),
                       wt_numbers(WEFT_F64, i + 5, 2, shape), world.mesh, "S(0)", NULL);
    }
    optim = wt_own(weft_adamw(all.module, config));
    WT_EQ(weft_optim_set(optim, "bias", "weight_decay", 0), WEFT_OK);
    WT_EQ(weft_optim_set(optim, "bias", "beta1", 0), WEFT_OK); /* no default takes its place */
    WT_EQ(weft_optim_set(optim, "head", "lr_factor", 0.25), WEFT_OK);
    for (int i = 0; i < 3; i++) {
        weft_adamw_config own = config;

        if (i == 1) own.weight_decay = 0;
        if (i == 2) own.lr *= 0.25;
        optims[i] = wt_own(weft_adamw(one[i].module, own));
    }
    WT_EQ(weft_optim_set(optims[1], "**", "beta1", 0), WEFT_OK);
    for (int step = 0; step < 3; step++) {
        double rate = 0.1 / (step + 1);

        weft_optim_set_lr(optim, rate);
        wt_bag_steps(&all, optim, 1);
        for (int i = 0; i < 3; i++) {
            weft_optim_set_lr(optims[i], i == 2 ? rate * 0.25 : rate);
            wt_bag_steps(&one[i], optims[i], 1);
            WT_ALL(wt_near_tensors(weft_module_parameter(all.module, names[i]),
                                   weft_module_parameter(one[i].module, names[i]), WT_EXACT));
        }
    }
}

WT_TEST(setting__that_decides_state_holds_from_the_first_step)
{
    struct wt_world world = wt_world_open();
    struct wt_mlp mlp = {.sizes = {8, 10, 5, 10}, .placements = "S(0)"};
    weft_tensor *weight, *bias;
    weft_optim *sgd;

    wt_mlp_open(&mlp, world.mesh);
    sgd = wt_own(weft_sgd(mlp.module, (weft_sgd_config){.lr = 0.1}));
    weight = weft_module_parameter(mlp.module, "net1.weight");
    bias = weft_module_parameter(mlp.module, "net1.bias");
    WT_EQ(weft_optim_set(sgd, "*.weight", "momentum", 0.5), WEFT_OK);
    WT_EQ(weft_optim_state_count(sgd, weight), 1);
    WT_EQ(weft_optim_state_count(sgd, bias), 0);
    WT_EQ(wt_mlp_backward(&mlp), WEFT_OK);
    WT_EQ(weft_step(sgd), WEFT_OK);
    WT_FAILS(weft_optim_set(sgd, "*.bias", "momentum", 0.5), WEFT_ERR_STATE,
             "momentum decides which state 'net1.bias' has");
    WT_FAILS(weft_optim_set(sgd, "**", "momentum", 0.7), WEFT_ERR_STATE, "decides which state");
    WT_ALL(weft_optim_setting(sgd, weight, "momentum") == 0.5); /* nothing changed */
    WT_EQ(weft_optim_set(sgd, "*.weight", "momentum", 0.7), WEFT_OK);
    WT_ALL(weft_optim_setting(sgd, weight, "momentum") == 0.7);
    WT_ALL(weft_optim_setting(sgd, bias, "momentum") == 0);
}

WT_TEST(setting__that_cannot_be_is_refused)
{
    struct wt_world world = wt_world_open();
    struct wt_mlp mlp = {.sizes = {8, 10, 5, 10}, .placements = "S(0)"};
    weft_optim *optim;

    wt_mlp_open(&mlp, world.mesh);
    optim = wt_own(weft_sgd(mlp.module, (weft_sgd_config){.lr = 0.1}));
    WT_FAILS(weft_optim_set(optim, "net3.*", "weight_decay", 1), WEFT_ERR_NOT_FOUND,
             "pattern 'net3.*' matches no parameter");
    WT_FAILS(weft_optim_set(optim, "*", "weight_decay", 1), WEFT_ERR_NOT_FOUND,
             "pattern '*'"); /* no dot is crossed */
    WT_FAILS(weft_optim_set(optim, "**", "beta1", 0.5), WEFT_ERR_NOT_FOUND,
             "sgd has no setting 'beta1'");
    WT_FAILS(weft_optim_set(optim, "**", "lr", 0.5), WEFT_ERR_NOT_FOUND, "lr_factor");
    WT_FAILS(weft_optim_set(optim, "**", "weight_decay", -1), WEFT_ERR_ARG, "weight_decay is -1");
    WT_FAILS(weft_optim_set(optim, "**", "weight_decay", NAN), WEFT_ERR_ARG, "out of range");
    WT_FAILS(weft_optim_set(optim, "**", "maximize", 0.5), WEFT_ERR_ARG, "no whole number");
    WT_FAILS(weft_optim_set(optim, "**", "nesterov", 1), WEFT_ERR_ARG, "nesterov needs momentum");
    WT_ALL(isnan(weft_optim_setting(optim, mlp.input, "momentum")));
    WT_FAILED(WEFT_ERR_NOT_FOUND, "no such parameter");
}

int main(int argc, char **argv) { return wt_main(argc, argv, "groups"); }
