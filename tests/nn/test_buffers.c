/*
 * test_buffers.c: buffers of a module: names, walks with paths, what goes with parameters (casts,
 * plans, files) and what does not (optimizers, counts).
 */
#include <stdio.h>
#include <string.h>

#include "support/scratch.h"
#include "support/worlds.h"

enum { WIDTH = 4 };

static weft_tensor *numbers(weft_dtype dtype, double value)
{
    const int64_t width = WIDTH;

    return weft_full(dtype, &width, 1, value);
}

static const weft_buffer_options usual = {0}, unsaved = {.unsaved = true};

/* A linear layer 0 with a buffer that stands before its bias would, and 1 with one more. */
static weft_module *model(void)
{
    weft_module *root = weft_sequential_new();
    weft_scope *scope = weft_scope_open();

    weft_manual_seed(2);
    for (int i = 0; i < 2; i++) {
        weft_module *m =
            weft_linear_new((weft_linear_config){.in = {WIDTH}, .out = {WIDTH}, .no_bias = i == 0});

        WT_EQ(weft_module_add_buffer(m, "seen", numbers(WEFT_F32, 2 + i), usual), WEFT_OK);
        weft_module_add_child(root, i ? "1" : "0", m);
    }
    WT_EQ(weft_module_add_buffer(root, "calls", numbers(WEFT_I64, 7), unsaved), WEFT_OK);
    weft_scope_close(scope);
    return root;
}

/* trial 1.7 */
WT_TEST(buffers__have_names_and_refusals_like_parameters)
{
    weft_module *m = wt_own(model());
    weft_tensor *leaf = weft_set_requires_grad(numbers(WEFT_F32, 0), true);

    WT_FAILS(weft_module_add_buffer(m, "calls", numbers(WEFT_F32, 1), usual), WEFT_ERR_ARG,
             "has a buffer 'calls' already");
    WT_FAILS(weft_module_add_parameter(m, "calls", numbers(WEFT_F32, 1)), WEFT_ERR_ARG,
             "has a buffer 'calls' already");
    WT_FAILS(
        weft_module_add_buffer(weft_module_child(m, "0"), "weight", numbers(WEFT_F32, 1), usual),
        WEFT_ERR_ARG, "has a parameter 'weight' already");
    WT_FAILS(weft_module_add_buffer(m, "a.b", numbers(WEFT_F32, 1), usual), WEFT_ERR_ARG,
             "'a.b' is no name");
    WT_FAILS(weft_module_add_buffer(m, "leaf", leaf, usual), WEFT_ERR_STATE,
             "'leaf' of module '' wants a gradient");
    WT_FAILS(weft_module_set_buffer(m, "calls", leaf), WEFT_ERR_STATE, "wants a gradient");
    WT_FAILS(weft_module_set_parameter(m, "calls", numbers(WEFT_F32, 1)), WEFT_ERR_NOT_FOUND,
             "no parameter 'calls'");
    WT_FAILS(weft_module_parameter(m, "0.seen"), WEFT_ERR_NOT_FOUND, "no parameter 'seen'");
    WT_FAILS(weft_module_buffer(m, "0.weight"), WEFT_ERR_NOT_FOUND, "no buffer 'weight'");
    WT_EQ(weft_module_set_buffer(m, "calls", numbers(WEFT_I64, 9)), WEFT_OK);
    WT_ALL(wt_is_all(weft_module_buffer(m, "calls"), 9));
}

static weft_status write_path(const weft_module_tensor *it, void *payload)
{
    char *text = payload;

    snprintf(text + strlen(text), 200 - strlen(text), "%s%s%s ", it->path, it->buffer ? "!" : "",
             it->unsaved ? "-" : "");
    return it->module && it->tensor ? WEFT_OK : WEFT_ERR_STATE;
}

/* trial 1.7, trial 4.2: full paths below where the walk begins; parameters before buffers */
WT_TEST(walks__give_full_paths)
{
    weft_module *top = wt_own(weft_sequential_new()), *m = model();
    char text[200] = "";

    weft_module_add_child(top, "model", m);
    WT_EQ(weft_module_each_tensor(top, write_path, text), WEFT_OK);
    WT_ALL(!strcmp(text, "model.calls!- model.0.weight model.0.seen! model.1.weight model.1.bias "
                         "model.1.seen! "));
    *text = '\0';
    WT_EQ(weft_module_each_tensor(weft_module_child(top, "model.1"), write_path, text), WEFT_OK);
    WT_ALL(!strcmp(text, "weight bias seen! "));
    WT_EQ(
        weft_module_add_parameter(weft_module_child(top, "model.0"), "late", numbers(WEFT_F32, 1)),
        WEFT_OK);
    *text = '\0';
    WT_EQ(weft_module_each_tensor(weft_module_child(top, "model.0"), write_path, text), WEFT_OK);
    WT_ALL(!strcmp(text, "weight late seen! "));
}

/* trial 1.7 */
WT_TEST(buffers__are_no_parameters)
{
    weft_module *m = wt_own(model());
    weft_optim *optim = wt_own(weft_sgd(m, (weft_sgd_config){.lr = 1, .weight_decay = 0.5}));
    weft_tensor *x = wt_constant(2, WIDTH, 1);

    WT_EQ(weft_module_parameter_count(m), 3);
    WT_EQ(weft_module_numel(m), 2 * WIDTH * WIDTH + WIDTH);
    WT_EQ(weft_backward(weft_sum_all(weft_call(m, x))), WEFT_OK);
    WT_EQ(weft_step(optim), WEFT_OK);
    WT_ALL(wt_is_all(weft_module_buffer(m, "0.seen"), 2));
}

/* trial 1.7 */
WT_TEST(buffers__go_where_parameters_go)
{
    static const weft_plan plan[] = {
        {"0", {.kind = WEFT_STYLE_COLWISE}}, {"1", {.kind = WEFT_STYLE_ROWWISE}}, {0}};
    struct wt_world w = wt_world_open();
    weft_module *m = wt_own(model()), *one = wt_own(model());
    weft_tensor *x = weft_full(WEFT_F64, (int64_t[]){3, WIDTH}, 2, 0.5);

    WT_EQ(weft_module_cast(m, WEFT_F64), WEFT_OK);
    WT_EQ(weft_module_cast(one, WEFT_F64), WEFT_OK);
    WT_EQ(weft_tensor_dtype(weft_module_buffer(m, "0.seen")), WEFT_F64);
    WT_EQ(weft_tensor_dtype(weft_module_buffer(m, "calls")), WEFT_I64);
    WT_EQ(weft_parallelize_module_strict(m, w.mesh, plan), WEFT_OK);
    WT_ALL(wt_is_placed(weft_module_buffer(m, "0.seen"), "R"));
    WT_ALL(!weft_requires_grad(weft_module_buffer(m, "0.seen")));
    WT_ALL(weft_tensor_mesh(weft_module_buffer(m, "calls")) == NULL);
    WT_ALL(wt_near_tensors(weft_call(m, x), weft_call(one, x), WT_WITHIN(1e-12)));
    WT_EQ(weft_distribute_module(one, w.mesh, NULL, NULL, NULL, NULL), WEFT_OK);
    WT_ALL(wt_is_placed(weft_module_buffer(one, "calls"), "R"));
}

static weft_status add_both_and_fail(weft_module *m, weft_mesh *mesh, void *payload)
{
    (void)mesh;
    (void)payload;
    WT_EQ(weft_module_add_parameter(m, "more", numbers(WEFT_F32, 1)), WEFT_OK);
    WT_EQ(weft_module_add_buffer(m, "worn", numbers(WEFT_F32, 1), usual), WEFT_OK);
    return strcmp(weft_module_path(m), "1") ? WEFT_OK : WEFT_ERR_ARG;
}

/* trial 1.7: what a partition has added is gone when it fails */
WT_TEST(buffers__are_as_before_when_a_partition_fails)
{
    struct wt_world w = wt_world_open();
    weft_module *m = wt_own(model());
    char before[200] = "", after[200] = "";

    weft_module_each_tensor(m, write_path, before);
    WT_EQ(weft_distribute_module(m, w.mesh, add_both_and_fail, NULL, NULL, NULL), WEFT_ERR_ARG);
    weft_error_clear();
    weft_module_each_tensor(m, write_path, after);
    WT_ALL(!strcmp(before, after));
    WT_ALL(weft_tensor_mesh(weft_module_buffer(m, "0.seen")) == NULL);
    WT_ALL(wt_is_all(weft_module_buffer(m, "1.seen"), 3));
}

/* A number of its own for each module. */
static weft_status add_one(weft_module *m, weft_mesh *mesh, void *payload)
{
    int *count = payload;

    (void)mesh;
    return weft_module_add_parameter(m, "more", numbers(WEFT_F32, ++*count));
}

/* What a partition adds stands before the buffers, which stay tied. */
WT_TEST(buffers__stay_tied_when_a_partition_adds_a_parameter)
{
    struct wt_world w = wt_world_open();
    weft_module *m = wt_own(model());
    int count = 0;

    WT_EQ(
        weft_module_set_buffer(weft_module_child(m, "1"), "seen", weft_module_buffer(m, "0.seen")),
        WEFT_OK);
    WT_EQ(weft_distribute_module(m, w.mesh, add_one, NULL, NULL, &count), WEFT_OK);
    WT_ALL(wt_is_placed(weft_module_buffer(m, "0.seen"), "R"));
    WT_ALL(weft_module_buffer(m, "0.seen") == weft_module_buffer(m, "1.seen"));
    WT_ALL(weft_module_parameter(m, "0.more") != weft_module_parameter(m, "1.more"));
}

/* Only the first of two modules' buffers is cut. */
static weft_status cut_first(weft_module *m, weft_mesh *mesh, void *payload)
{
    weft_placement cut = weft_shard(0);
    weft_tensor *seen;

    (void)payload;
    if (strcmp(weft_module_path(m), "0")) return WEFT_OK;
    seen = weft_distribute_tensor(weft_module_buffer(m, "seen"), mesh, &cut, -1);
    return weft_module_set_buffer(m, "seen", seen);
}

/* trial 1.4 (buffers): what two modules share is spread once, or refused with both names */
WT_TEST(buffers__that_are_shared_and_would_be_spread_differently_are_named)
{
    struct wt_world w = wt_world_open();
    weft_module *m = wt_own(model()), *other = wt_own(model());
    weft_tensor *shared = weft_module_buffer(m, "0.seen");

    WT_EQ(weft_module_set_buffer(weft_module_child(m, "1"), "seen", shared), WEFT_OK);
    WT_FAILS(weft_distribute_module(m, w.mesh, cut_first, NULL, NULL, NULL), WEFT_ERR_LAYOUT,
             "'seen' of module '0' and 'seen' of module '1' are one tensor, but "
             "would be spread differently");
    WT_ALL(weft_module_buffer(m, "0.seen") == shared && weft_module_buffer(m, "1.seen") == shared);
    WT_EQ(weft_module_set_buffer(weft_module_child(other, "1"), "seen", shared), WEFT_OK);
    WT_FAILS(weft_distribute_module(m, w.mesh, NULL, NULL, NULL, NULL), WEFT_ERR_STATE,
             "'seen' of module '0' would be spread, but a module of another "
             "tree has it too");
    WT_ALL(weft_module_buffer(m, "0.seen") == shared);
}

/* trial 1.7 */
WT_TEST(buffers__go_into_files_of_weights_and_tables)
{
    weft_module *m = wt_own(model()), *fresh = wt_own(model());
    const char *path = wt_scratch("buffers.safetensors");
    FILE *out = tmpfile();
    weft_weights *weights;
    char text[2048] = "";

    WT_EQ(weft_fill_(weft_module_buffer(m, "1.seen"), 5), WEFT_OK);
    WT_EQ(weft_weights_save(m, path, NULL), WEFT_OK);
    weights = weft_weights_open(path);
    WT_EQ(weft_weights_count(weights), 5);
    WT_ALL(weft_weights_find(weights, "calls") == NULL);
    WT_EQ(weft_weights_load(fresh, weights, NULL), WEFT_OK);
    weft_weights_close(weights);
    WT_ALL(wt_is_all(weft_module_buffer(fresh, "1.seen"), 5));
    weft_module_print(m, out);
    rewind(out);
    text[fread(text, 1, sizeof text - 1, out)] = '\0';
    fclose(out);
    WT_ALL(strstr(text, "buffer f32[4]") != NULL);
    WT_ALL(strstr(text, "36 parameters, 36 trained, 12 in buffers, 208 bytes on this rank"));
}

int main(int argc, char **argv) { return wt_scratch_end(wt_main(argc, argv, "buffers")); }
