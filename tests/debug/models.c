/* models.c: see models.h. */
#include "debug/models.h"

#include <stdio.h>

static weft_tensor *in_turn(weft_module *m, weft_tensor *const *inputs, int n)
{
    weft_tensor *x = inputs[0];

    (void)n;
    for (int i = 0; i < weft_module_child_count(m); i++)
        x = weft_call(weft_module_child_at(m, i), x);
    return x;
}

weft_module *wt_mlp(void)
{
    static const weft_module_class kind = {.type = "MLP", .forward = in_turn};
    weft_module *m = weft_module_new(&kind, NULL);

    WEFT_CHECK(weft_module_add_child(
        m, "net1", weft_linear_new((weft_linear_config){.in = {10}, .out = {16}})));
    WEFT_CHECK(weft_module_add_child(m, "relu", weft_activation_new(WEFT_RELU)));
    WEFT_CHECK(weft_module_add_child(
        m, "net2", weft_linear_new((weft_linear_config){.in = {16}, .out = {10}})));
    return m;
}

weft_module *wt_split_mlp(weft_mesh *mesh)
{
    const weft_plan plan[] = {
        {"net1", weft_colwise_parallel()}, {"net2", weft_rowwise_parallel()}, {0}};
    weft_module *m = wt_mlp();

    WEFT_CHECK(weft_parallelize_module(m, mesh, plan));
    return m;
}

weft_module *wt_stack(int n)
{
    static const weft_module_class kind = {.type = "MLPStacked", .forward = in_turn};
    weft_module *m = weft_module_new(&kind, NULL), *layers = weft_sequential_new();
    char name[16];

    WEFT_CHECK(weft_module_add_child(m, "layers", layers));
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "%d", i);
        WEFT_CHECK(weft_module_add_child(layers, name, wt_mlp()));
    }
    return m;
}
