/*
 * test_modules.c: modules spread by functions of one's own, made without elements, cast: what their
 * parameters are then, and that they compute what the plain module does.
 */
/* mpi: 4 */
#include <stdio.h>
#include <string.h>

#include "support/worlds.h"
#include "tensor/tensor.h"

static const weft_placement whole[] = {{.kind = WEFT_KIND_REPLICATE}};
static const weft_placement rows[] = {{.kind = WEFT_KIND_SHARD}};

/* `layers` linear layers of `width`, named 0, 1, ... */
static weft_module *chain(int layers, int64_t width)
{
    weft_module *root = weft_sequential_new();
    char name[16];

    for (int i = 0; i < layers; i++) {
        snprintf(name, sizeof name, "%d", i);
        weft_module_add_child(root, name,
                              weft_linear_new((weft_linear_config){.in = {width}, .out = {width}}));
    }
    return root;
}

static weft_tensor *parameter(weft_module *m, int layer, const char *name)
{
    char path[32];

    snprintf(path, sizeof path, "%d.%s", layer, name);
    return weft_module_parameter(m, path);
}

/* Every parameter is distributed by rows where `sharded` says so, else replicated. */
static bool all_placed(weft_module *m, int layers, bool (*sharded)(int layer))
{
    static const char *const names[] = {"weight", "bias"};

    for (int i = 0; i < 2 * layers; i++) {
        weft_tensor *t = parameter(m, i / 2, names[i % 2]);

        if (!weft_tensor_mesh(t) || !wt_is_placed(t, sharded(i / 2) ? "S(0)" : "R")) return false;
        if (!weft_requires_grad(t) || t->node) return false;
    }
    return true;
}

static bool all_of_them(int layer) { return layer >= 0; }
static bool none_of_them(int layer) { return layer < 0; }
static bool first_and_eighth(int layer) { return layer == 0 || layer == 8; }

/* Shard a linear layer's parameters by rows where `payload` says so. */
static weft_status shard_rows(weft_module *m, weft_mesh *mesh, void *payload)
{
    bool (*sharded)(int) = *(bool (**)(int))payload;
    int layer = -1;

    if (strcmp(weft_module_type(m), "linear") != 0) return WEFT_OK;
    sscanf(weft_module_name(m), "%d", &layer);
    if (!sharded(layer)) return WEFT_OK;
    for (int i = 0; i < 2; i++) {
        const char *name = i ? "bias" : "weight";
        weft_tensor *t = weft_distribute_tensor(weft_module_parameter(m, name), mesh, rows, -1);

        if (weft_module_set_parameter(m, name, t) != WEFT_OK) return weft_error_status();
    }
    return WEFT_OK;
}

/* API-09, API-10: 20 layers of 20, and widths that do not divide. */
WT_TEST_TIMES_IN_WORLD(distribute_module__shards_what_it_is_told_and_replicates_the_rest, w, i, 9)
{
    static const int64_t widths[] = {20, 7, 3};
    static bool (*const told[])(int) = {all_of_them, none_of_them, first_and_eighth};

    bool (*sharded)(int) = told[i % 3];
    weft_module *m = chain(20, widths[i / 3]);

    WT_EQ(weft_distribute_module(m, w->mesh, i % 3 == 1 ? NULL : shard_rows, NULL, NULL, &sharded),
          WEFT_OK);
    WT_ALL(all_placed(m, 20, sharded));
    WT_STILL(w);
    weft_module_release(m);
}

/* ---- hooks ---- */

static weft_status wrap_rows(weft_module *m, weft_tensor **inputs, int n, weft_mesh *mesh,
                             void *payload)
{
    (void)m;
    (void)n;
    inputs[0] = weft_from_local(inputs[0], mesh, payload, NULL);
    return inputs[0] ? WEFT_OK : weft_error_status();
}

static weft_tensor *unwrap(weft_module *m, weft_tensor *output, weft_mesh *mesh, void *payload)
{
    (void)m;
    (void)mesh;
    (void)payload;
    return weft_to_local(output, NULL);
}

/* API-11: a replicated layer on this rank's rows is the plain layer on them. */
WT_TEST_TIMES_IN_WORLD(distribute_module__hooks_wrap_the_input_and_unwrap_the_output, w, i, 3)
{
    static const int64_t sizes[][2] = {{5, 20}, {1, 7}, {4, 8}};
    weft_module *plain, *m;
    weft_tensor *x = weft_full(WEFT_F32, sizes[i], 2, 0.25 + wt_rank()), *y;

    weft_manual_seed(7);
    plain = chain(1, sizes[i][1]);
    weft_manual_seed(7);
    m = chain(1, sizes[i][1]);
    WT_EQ(weft_distribute_module(m, w->mesh, NULL, wrap_rows, unwrap, (void *)rows), WEFT_OK);
    y = weft_call(m, x);
    WT_ALL(weft_tensor_mesh(y) == NULL);
    WT_ALL(wt_near_tensors(y, weft_call(plain, x), WT_WITHIN(1e-6)));
    WT_STILL(w);
    WT_RELEASE(weft_module_release, m, plain);
}

/* API-12 */
WT_TEST_TIMES_IN_WORLD(distribute_module__replicated_input_gives_replicated_gradients, w, i, 2)
{
    static const int64_t widths[] = {10, 3};
    weft_module *m = chain(10, widths[i]);
    weft_tensor *x = weft_full(WEFT_F32, (int64_t[]){4, widths[i]}, 2, 0.5), *g;

    WT_EQ(weft_distribute_module(m, w->mesh, NULL, wrap_rows, NULL, (void *)whole), WEFT_OK);
    WT_ALL(weft_backward(weft_sum_all(weft_call(m, x))) == WEFT_OK);
    g = weft_grad(parameter(m, 0, "weight"));
    WT_ALL(g && weft_tensor_mesh(g) == w->mesh && wt_is_placed(g, "R"));
    WT_STILL(w);
    weft_module_release(m);
}

/* API-16: refused, and nothing has changed. */
WT_TEST_IN_WORLD(distribute_module__is_called_once, w)
{
    bool (*sharded)(int) = first_and_eighth, (*other)(int) = all_of_them;
    weft_module *m = chain(10, 6);
    weft_tensor *before[20], *x = weft_full(WEFT_F32, (int64_t[]){2, 6}, 2, 1), *y;

    WT_EQ(weft_distribute_module(m, w->mesh, shard_rows, NULL, NULL, &sharded), WEFT_OK);
    for (int i = 0; i < 20; i++) before[i] = parameter(m, i / 2, i % 2 ? "weight" : "bias");
    WT_FAILS(weft_distribute_module(m, w->mesh, shard_rows, wrap_rows, unwrap, &other),
             WEFT_ERR_STATE, "distributed before");
    for (int i = 0; i < 20; i++)
        WT_ALL(parameter(m, i / 2, i % 2 ? "weight" : "bias") == before[i]);
    WT_ALL(all_placed(m, 10, sharded));
    y = weft_call(m, weft_distribute_tensor(x, w->mesh, whole, -1)); /* no hook was added */
    WT_ALL(y && weft_tensor_mesh(y) == w->mesh);
    weft_module_release(m);
}

/* ---- without elements ---- */

static weft_status materialize_rows(weft_module *m, weft_mesh *mesh, void *payload)
{
    (void)payload;
    if (strcmp(weft_module_type(m), "linear") != 0) return WEFT_OK;
    for (int i = 0; i < 2; i++) {
        const char *name = i ? "bias" : "weight";
        weft_tensor *old = weft_module_parameter(m, name),
                    *t = weft_distribute_tensor(old, mesh, rows, 0);

        t = weft_set_requires_grad(weft_empty_like(t, WEFT_CPU), weft_requires_grad(old));
        if (!t || weft_module_set_parameter(m, name, t) != WEFT_OK) return weft_error_status();
    }
    return WEFT_OK;
}

static weft_module *meta_chain(int layers, int64_t width)
{
    weft_device before = weft_set_default_device(WEFT_META);
    weft_module *m = chain(layers, width);

    weft_set_default_device(before);
    return m;
}

/* API-15 */
WT_TEST_TIMES_IN_WORLD(meta_module__gets_its_elements_from_the_partition_function, w, i, 3)
{
    static const int64_t widths[] = {8, 5, 1};
    weft_module *m = meta_chain(3, widths[i]);

    WT_ALL(weft_tensor_device(parameter(m, 1, "weight")) == WEFT_META);
    WT_EQ(weft_distribute_module(m, w->mesh, materialize_rows, NULL, NULL, NULL), WEFT_OK);
    WT_ALL(all_placed(m, 3, all_of_them));
    for (int l = 0; l < 3; l++)
        WT_ALL(weft_tensor_device(parameter(m, l, "weight")) == WEFT_CPU &&
               weft_tensor_device(parameter(m, l, "bias")) == WEFT_CPU);
    WT_STILL(w);
    weft_module_release(m);
}

static weft_gpt_config small_gpt(void)
{
    return (weft_gpt_config){
        .vocab = 11, .context = 6, .width = 12, .heads = 4, .layers = 2, .hidden = 10};
}

static const weft_plan gpt_plan[] = {
    {"blocks.*.mlp.up", {.kind = WEFT_STYLE_COLWISE}},
    {"blocks.*.mlp.down", {.kind = WEFT_STYLE_ROWWISE}},
    {"wte", {.kind = WEFT_STYLE_ROWWISE}},
    {NULL, {.kind = WEFT_STYLE_COLWISE}},
};

struct comparison {
    weft_module *other;
    bool equal;
    int count;
};

static weft_status compare(weft_module *m, const char *name, weft_tensor *t, void *payload)
{
    struct comparison *c = payload;
    char path[128];
    weft_tensor *want;

    snprintf(path, sizeof path, "%s%s%s", weft_module_path(m), weft_module_path(m)[0] ? "." : "",
             name);
    want = weft_module_parameter(c->other, path);
    c->equal &= want && wt_near_tensors(t, want, WT_EXACT) &&
                weft_requires_grad(t) == weft_requires_grad(want);
    c->count++;
    return WEFT_OK;
}

/* Spread first, filled afterwards: the bits of the model that was made in one piece, and the same
 * numbers drawn next. */
WT_TEST_IN_WORLD(meta_module__materialized_equals_the_one_made_directly, w)
{
    weft_device before;
    weft_module *direct, *m;
    struct comparison c = {.equal = true};
    weft_memory planned = weft_memory_simulated(WEFT_MEMORY_WEIGHTS);

    weft_manual_seed(11);
    direct = weft_gpt(small_gpt());
    weft_manual_seed(11);
    before = weft_set_default_device(WEFT_META);
    m = weft_gpt(small_gpt());
    weft_set_default_device(before);
    WT_ALL(weft_memory_simulated(WEFT_MEMORY_WEIGHTS).live > planned.live);
    weft_set_requires_grad(weft_module_parameter(m, "norm_f.weight"), false);
    weft_set_requires_grad(weft_module_parameter(direct, "norm_f.weight"), false);
    WT_EQ(weft_parallelize_module(m, w->mesh, gpt_plan), WEFT_OK);
    weft_uniform_(wt_constant(3, 3, 0), 0, 1, NULL);
    WT_EQ(weft_module_materialize(m, WEFT_CPU), WEFT_OK);
    WT_EQ(weft_memory_simulated(WEFT_MEMORY_WEIGHTS).live, planned.live);
    WT_STILL(w);
    c.other = direct;
    WT_EQ(weft_module_each_parameter(m, compare, &c), WEFT_OK);
    WT_ALL(c.equal && c.count == weft_module_parameter_count(direct));
    WT_ALL(weft_module_materialize(m, WEFT_META) != WEFT_OK);
    WT_FAILED(WEFT_ERR_ARG, "materialize");
    WT_RELEASE(weft_module_release, m, direct);
}

/* ---- a model that is made without elements trains as the other ---- */

static weft_module *two_layers(int64_t hidden)
{
    weft_module *m = weft_sequential_new();

    weft_module_add_child(m, "net1",
                          weft_linear_new((weft_linear_config){.in = {5}, .out = {hidden}}));
    weft_module_add_child(m, "relu", weft_activation_new(WEFT_RELU));
    weft_module_add_child(m, "net2",
                          weft_linear_new((weft_linear_config){.in = {hidden}, .out = {4}}));
    return m;
}

static void set_values(weft_module *m)
{
    weft_fill_(weft_module_parameter(m, "net1.weight"), 0.5);
    weft_fill_(weft_module_parameter(m, "net2.weight"), 1.0);
    weft_fill_(weft_module_parameter(m, "net1.bias"), 1.5);
    weft_fill_(weft_module_parameter(m, "net2.bias"), 1.2);
}

static const weft_plan two_plan[] = {
    {"net1", {.kind = WEFT_STYLE_COLWISE}},
    {"net2", {.kind = WEFT_STYLE_ROWWISE}},
    {NULL, {.kind = WEFT_STYLE_COLWISE}},
};

static weft_status train_once(weft_module *m, weft_tensor *x, double lr)
{
    weft_optim *optim = weft_sgd(m, (weft_sgd_config){.lr = lr});
    weft_status status = weft_backward(weft_sum_all(weft_call(m, x)));

    if (status == WEFT_OK) status = weft_step(optim);
    weft_optim_release(optim);
    return status;
}

static bool near_outputs(weft_module *m, weft_module *direct, weft_tensor *x)
{
    return wt_near_tensors(weft_call(m, x), weft_call(direct, x),
                           (struct wt_tolerance){1e-5, 1e-5});
}

/* DT-03: lr 0.1 kills every unit, 0.001 does not; also a hidden width that does not divide. */
WT_TEST_TIMES_IN_WORLD(meta_module__trains_as_the_one_made_directly, w, i, 3)
{
    static const int64_t hidden[] = {1024, 1024, 37};
    static const double rates[] = {0.1, 0.001, 0.001};
    weft_device before = weft_set_default_device(WEFT_META);
    weft_module *m = two_layers(hidden[i]), *direct;
    weft_tensor *x, *next;

    weft_set_default_device(before);
    direct = two_layers(hidden[i]);
    x = wt_whole(WEFT_F32, 0, 20, 5);
    next = wt_whole(WEFT_F32, 1, 20, 5);
    WT_EQ(weft_parallelize_module(m, w->mesh, two_plan), WEFT_OK);
    WT_EQ(weft_module_materialize(m, WEFT_CPU), WEFT_OK);
    set_values(m);
    set_values(direct);
    WT_ALL(near_outputs(m, direct, x));
    WT_EQ(train_once(m, x, rates[i]), WEFT_OK);
    WT_EQ(train_once(direct, x, rates[i]), WEFT_OK);
    WT_ALL(near_outputs(m, direct, next));
    if (i == 0) {
        weft_tensor *dead = weft_full(WEFT_F32, (int64_t[]){20, 4}, 2, -0.8);

        WT_ALL(wt_near_tensors(weft_call(m, next), dead, WT_WITHIN(1e-5)));
    }
    WT_RELEASE(weft_module_release, m, direct);
}

/* ---- another dtype ---- */

/* API-14: there is no autocast (docs/decisions/0007). */
WT_TEST_TIMES_IN_WORLD(cast__changes_global_and_local_dtype, w, i, 2)
{
    static const int64_t widths[] = {8, 5};
    weft_tensor *t = wt_spread(w, wt_constant(4, widths[i], 1.25), "R"), *y;
    weft_module *m = chain(2, widths[i]);
    bool (*sharded)(int) = all_of_them;

    t = weft_cast(t, WEFT_BF16);
    WT_EQ(weft_tensor_dtype(t), WEFT_BF16);
    WT_EQ(weft_tensor_dtype(weft_to_local(t, NULL)), WEFT_BF16);
    WT_ALL(wt_is_placed(t, "R") && wt_is_all(t, 1.25));
    WT_EQ(weft_distribute_module(m, w->mesh, shard_rows, NULL, NULL, &sharded), WEFT_OK);
    WT_EQ(weft_module_cast(m, WEFT_BF16), WEFT_OK);
    WT_ALL(all_placed(m, 2, all_of_them));
    for (int l = 0; l < 2; l++) {
        WT_EQ(weft_tensor_dtype(parameter(m, l, "weight")), WEFT_BF16);
        WT_EQ(weft_tensor_dtype(weft_to_local(parameter(m, l, "bias"), NULL)), WEFT_BF16);
    }
    y = weft_call(m, t);
    WT_EQ(weft_tensor_dtype(y), WEFT_BF16);
    WT_FAILS(weft_module_cast(m, WEFT_I32), WEFT_ERR_DTYPE, "cannot be i32");
    WT_EQ(weft_tensor_dtype(parameter(m, 0, "weight")), WEFT_BF16);
    weft_module_release(m);
}

WT_TEST_IN_WORLD(cast__keeps_shared_parameters_shared, w)
{
    weft_module *m = chain(2, 4);

    WT_EQ(weft_module_set_parameter(weft_module_child(m, "1"), "weight", parameter(m, 0, "weight")),
          WEFT_OK);
    WT_EQ(weft_module_cast(m, WEFT_F64), WEFT_OK);
    WT_ALL(parameter(m, 0, "weight") == parameter(m, 1, "weight"));
    WT_EQ(weft_tensor_dtype(parameter(m, 0, "weight")), WEFT_F64);
    WT_EQ(weft_module_parameter_count(m), 3);
    weft_module_release(m);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "modules"); }
