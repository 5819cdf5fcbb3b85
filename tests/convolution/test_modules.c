/*
 * test_modules.c: convolutions as layers: parameters named, shaped and begun as torch's, alike at
 * every number of ranks, and spread by a function of one's own.
 */
#include <math.h>
#include <stdlib.h>

#include "support/worlds.h"

static const weft_conv_config configs[] = {
    {.in = 3, .out = 8, .kernel = {4, 4}, .options = {.stride = {4, 4}}},
    {.in = 8,
     .out = 8,
     .kernel = {4},
     .options = {.padding = {3}, .groups = 8, .causal = true},
     .no_bias = true}};

static weft_module *layer(int k)
{
    weft_manual_seed(5);
    return k ? weft_conv1d_new(configs[k]) : weft_conv2d_new(configs[k]);
}

static weft_tensor *input(int k)
{
    return k ? wt_whole3(WEFT_F32, 0, 2, 8, 7)
             : weft_reshape(wt_whole(WEFT_F32, 0, 6, 16 * 8), (int64_t[]){2, 3, 16, 8}, 4);
}

static weft_tensor *called(int k, weft_module *m, weft_tensor *x)
{
    weft_tensor *weight = weft_module_parameter(m, "weight");

    if (k) return weft_conv1d(x, weight, NULL, configs[k].options);
    return weft_conv2d(x, weight, weft_module_parameter(m, "bias"), configs[k].options);
}

WT_TEST_TIMES_IN_WORLD(layers__are_named_shaped_and_begun_as_torchs, w, k, 2)
{
    weft_module *m = layer(k), *other = layer(k);
    double bound = k ? 1 / sqrt(4) : 1 / sqrt(3 * 16), largest = 0, *values;
    weft_tensor *weight = weft_module_parameter(m, "weight");

    WT_ALL(k ? wt_has_shape(weight, 3, (int64_t)8, (int64_t)1, (int64_t)4)
             : wt_has_shape(weight, 4, (int64_t)8, (int64_t)3, (int64_t)4, (int64_t)4));
    WT_EQ(weft_module_parameter_count(m), k ? 1 : 2);
    values = wt_values(weight);
    for (int64_t i = 0; i < weft_numel(weight); i++) largest = fmax(largest, fabs(values[i]));
    free(values);
    WT_ALL(largest <= bound && largest > 0.8 * bound);
    WT_ALL(wt_near_tensors(weight, weft_module_parameter(other, "weight"), WT_EXACT));
    WT_ALL(wt_near_tensors(weft_call(m, input(k)), called(k, m, input(k)), WT_EXACT));
    WT_RELEASE(weft_module_release, m, other);
}

/* Output channels on their ranks. */
static weft_status spread_channels(weft_module *m, weft_mesh *mesh, void *payload)
{
    static const char *const names[] = {"weight", "bias"};
    const weft_placement channels = weft_shard(0);

    (void)payload;
    for (int i = 0; i < weft_module_parameter_count(m); i++) {
        weft_tensor *t = weft_module_parameter(m, names[i]);

        t = weft_distribute_tensor(t, mesh, &channels, -1);
        if (weft_module_set_parameter(m, names[i], t) != WEFT_OK) return weft_error_status();
    }
    return WEFT_OK;
}

WT_TEST_TIMES_IN_WORLD(layers__are_spread_by_channels, w, k, 2)
{
    weft_module *one = layer(k), *many = layer(k);
    weft_tensor *x = input(k), *y, *want;

    WT_EQ(weft_distribute_module(many, w->mesh, spread_channels, NULL, NULL, NULL), WEFT_OK);
    weft_ledger_reset(w->ledger);
    y = weft_call(many, wt_spread(w, x, k ? "S(1)" : "R"));
    WT_STILL(w);
    WT_ALL(wt_is_placed(y, "S(1)"));
    want = weft_call(one, x);
    WT_ALL(wt_near_tensors(y, want, WT_WITHIN(1e-5)));
    WT_EQ(weft_backward(weft_sum_all(weft_square(y))), WEFT_OK);
    WT_EQ(weft_backward(weft_sum_all(weft_square(want))), WEFT_OK);
    WT_ALL(wt_near_tensors(weft_grad(weft_module_parameter(many, "weight")),
                           weft_grad(weft_module_parameter(one, "weight")), WT_WITHIN(1e-4)));
    WT_RELEASE(weft_module_release, one, many);
}

WT_TEST_IN_WORLD(layers__refuse_sizes, w)
{
    WT_ALL(weft_conv1d_new((weft_conv_config){.in = 3, .out = 4}) == NULL);
    weft_error_clear();
    WT_ALL(weft_conv1d_new((weft_conv_config){
               .in = 3, .out = 4, .kernel = {2}, .options = {.groups = 2}}) == NULL);
    weft_error_clear();
}

int main(int argc, char **argv) { return wt_main(argc, argv, "modules"); }
