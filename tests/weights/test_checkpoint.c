/* test_checkpoint.c: what is saved in one layout is loaded in any other, bit by bit, or not at all.
 */
/* mpi: 2 4 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "io/checkpoint/manifest.h"
#include "io/safetensors.h"
#include "support/scratch.h"
#include "support/worlds.h"

/* A state of one tensor. */
static weft_state *state_of(const char *name, weft_tensor *t)
{
    weft_state *state = weft_state_new();

    WT_EQ(weft_state_add_tensor(state, name, t), WEFT_OK);
    return state;
}

static void save_one(const char *path, weft_tensor *t)
{
    weft_state *state = state_of("t", t);

    WT_EQ(weft_checkpoint_save(path, state), WEFT_OK);
    weft_state_release(state);
}

static void load_one(const char *path, weft_tensor *t)
{
    weft_state *state = state_of("t", t);
    weft_status status = weft_checkpoint_load(path, state);

    wt_note("%s", weft_error_message());
    WT_EQ(status, WEFT_OK);
    weft_state_release(state);
}

static weft_tensor *zeros(struct wt_world *w, int64_t rows, int64_t columns, const char *placements)
{
    return wt_spread(w, wt_constant(rows, columns, 0), placements);
}

/* ---- one tensor ---- */

/* CKPT-01: (4,4), and sizes that do not divide, between every two layouts, and back */
WT_TEST_IN_WORLD(tensor__saved_in_one_layout_is_loaded_in_another, w)
{
    static const char *const layouts[] = {"R", "S(0)", "S(1)", "SS(0,2)", "S(1|1,2,1)"};
    static const int64_t sizes[][2] = {{4, 4}, {7, 8}, {1, 4}, {0, 4}};
    enum { N = sizeof layouts / sizeof layouts[0] };
    const char *path = wt_scratch("one");

    for (int i = 0; i < 4 * N * N; i++) {
        const int64_t *size = sizes[i / (N * N)];
        const char *from = layouts[i / N % N], *to = layouts[i % N];
        weft_scope *scope = weft_scope_open();
        weft_tensor *whole = wt_whole(WEFT_F32, i, size[0], size[1]);
        weft_tensor *saved = wt_spread(w, whole, from), *again;
        weft_tensor *loaded = zeros(w, size[0], size[1], to);

        save_one(path, saved);
        load_one(path, loaded);
        wt_note("%s to %s", from, to);
        WT_ALL(wt_near_tensors(loaded, whole, WT_EXACT));
        again = zeros(w, size[0], size[1], from);
        load_one(path, again);
        WT_ALL(memcmp(weft_data(again), weft_data(saved),
                      (size_t)weft_local_numel(saved) * sizeof(float)) == 0);
        weft_scope_close(scope);
        wt_remove(path);
    }
}

/* CKPT-02: every ordered pair on two axes */
WT_TEST(tensor__two_axes_to_two_axes)
{
    static const char *const layouts[] = {"R,R", "R,S(0)", "S(0),R", "S(0),S(0)", "S(1),S(0)"};
    enum { N = sizeof layouts / sizeof layouts[0] };
    int outer = wt_ranks() % 2 ? 1 : 2;
    struct wt_world w = wt_world_open_mesh("dp=%d,tp=%d", outer, wt_ranks() / outer);
    weft_tensor *whole = wt_whole(WEFT_F32, 1, 4, 5);

    for (int i = 0; i < N * N; i++) {
        weft_tensor *loaded = zeros(&w, 4, 5, layouts[i % N]);

        save_one(wt_scratch("two"), wt_spread(&w, whole, layouts[i / N]));
        load_one(wt_scratch("two"), loaded);
        wt_note("%s to %s", layouts[i / N], layouts[i % N]);
        WT_ALL(wt_near_tensors(loaded, whole, WT_EXACT));
    }
    wt_world_close(&w);
}

/* CKPT-07: from two axes to one over all ranks, and to a mesh of some of them only */
WT_TEST(tensor__another_mesh)
{
    int outer = wt_ranks() % 2 ? 1 : 2;
    struct wt_world w = wt_world_open_mesh("dp=%d,tp=%d", outer, wt_ranks() / outer);
    struct wt_world line = wt_world_open();
    struct wt_world few = wt_world_open_mesh("tp=%d", (wt_ranks() + 1) / 2);
    static const int64_t sizes[][2] = {{8, 5}, {10, 5}, {15, 10}, {30, 15}, {5, 30}};

    for (int i = 0; i < 5; i++) {
        weft_tensor *whole = wt_whole(WEFT_F32, i, sizes[i][0], sizes[i][1]);
        weft_tensor *t = zeros(&line, sizes[i][0], sizes[i][1], "S(0)");
        weft_tensor *u = zeros(&few, sizes[i][0], sizes[i][1], "S(1)");

        save_one(wt_scratch("mesh"), wt_spread(&w, whole, "R,S(0)"));
        load_one(wt_scratch("mesh"), t);
        load_one(wt_scratch("mesh"), u);
        WT_ALL(wt_near_tensors(t, whole, WT_EXACT));
        WT_ALL(!weft_mesh_is_member(few.mesh) || wt_near_tensors(u, whole, WT_EXACT));
        save_one(wt_scratch("mesh"), u); /* ranks outside its mesh write nothing */
        load_one(wt_scratch("mesh"), t);
        WT_ALL(wt_near_tensors(t, whole, WT_EXACT));
    }
    wt_world_close(&few);
    wt_world_close(&line);
    wt_world_close(&w);
}

/* CKPT-08: entries in all files, and values, counted */
WT_TEST_IN_WORLD(plan__everything_is_stored_once, w)
{
    weft_state *state = weft_state_new();
    struct wf_manifest manifest;
    int64_t value = 7, n = 8 * wt_ranks(), entries = 0, elements = 0, ten = 10;

    WT_EQ(weft_state_add_tensor(state, "tensor", weft_full(WEFT_F32, &ten, 1, 1)), WEFT_OK);
    WT_EQ(weft_state_add_int(state, "value", &value), WEFT_OK);
    WT_EQ(weft_state_add_tensor(state, "sharded",
                                wt_spread(w, weft_full(WEFT_F32, &n, 1, 2), "S(0)")),
          WEFT_OK);
    WT_EQ(weft_state_count(state), 3);
    WT_EQ(weft_checkpoint_save(wt_scratch("plan"), state), WEFT_OK);
    WT_EQ(wf_manifest_read(&manifest, wt_scratch("plan")), WEFT_OK);
    WT_EQ(manifest.n_values, 1);
    for (int64_t f = 0; f < manifest.n_files; f++) {
        char path[512];
        struct wf_safetensors file;

        snprintf(path, sizeof path, "%s/%s", wt_scratch("plan"), manifest.files[f].name);
        WT_EQ(wf_safetensors_open(&file, path), WEFT_OK);
        entries += file.n_entries;
        for (int64_t i = 0; i < file.n_entries; i++) elements += file.entries[i].numel;
        wf_safetensors_close(&file);
    }
    WT_EQ(entries, 1 + wt_ranks());
    WT_EQ(elements, 10 + 8 * wt_ranks());
    wf_manifest_free(&manifest);
    weft_state_release(state);
}

/* ---- modules, optimizers, generators, numbers ---- */

static weft_module *mlp(int64_t in, int64_t hidden, int64_t out)
{
    weft_module *m = weft_sequential_new();

    weft_module_add_child(m, "net1",
                          weft_linear_new((weft_linear_config){.in = {in}, .out = {hidden}}));
    weft_module_add_child(m, "relu", weft_activation_new(WEFT_RELU));
    weft_module_add_child(m, "net2",
                          weft_linear_new((weft_linear_config){.in = {hidden}, .out = {out}}));
    return m;
}

/* Column-wise, then row-wise; or every parameter cut along its first dim. */
static weft_module *spread_mlp(struct wt_world *w, bool tensor_parallel, uint64_t seed)
{
    static const weft_placement rows[] = {{.kind = WEFT_KIND_SHARD}};
    static const char *const names[] = {"net1", "net2"};
    weft_module *m;

    weft_manual_seed(seed);
    m = mlp(10, 16, 10);
    if (tensor_parallel) {
        WT_EQ(weft_parallelize_module(m, w->mesh,
                                      (weft_plan[]){{"net1", weft_colwise_parallel()},
                                                    {"net2", weft_rowwise_parallel()},
                                                    {0}}),
              WEFT_OK);
        return m;
    }
    for (int i = 0; i < 2; i++) {
        weft_module *layer = weft_module_child(m, names[i]);

        for (int p = 0; p < 2; p++) {
            const char *name = p ? "bias" : "weight";
            weft_tensor *t = weft_module_parameter(layer, name);

            weft_module_set_parameter(layer, name, weft_distribute_tensor(t, w->mesh, rows, -1));
        }
    }
    return m;
}

static bool same_parameters(weft_module *a, weft_module *b)
{
    static const char *const paths[] = {"net1.weight", "net1.bias", "net2.weight", "net2.bias"};
    bool same = true;

    for (int i = 0; i < 4; i++)
        same &= wt_near_tensors(weft_module_parameter(a, paths[i]),
                                weft_module_parameter(b, paths[i]), WT_EXACT);
    return same;
}

static weft_state *module_state(weft_module *m)
{
    weft_state *state = weft_state_new();

    WT_EQ(weft_state_add_module(state, "model", m), WEFT_OK);
    return state;
}

/* CKPT-06: and keys in the same order */
WT_TEST_IN_WORLD(module__rows_of_parameters_become_a_tensor_parallel_model, w)
{
    weft_module *from = spread_mlp(w, false, 1), *to = spread_mlp(w, true, 2);
    weft_state *saved = module_state(from), *loaded = module_state(to);

    WT_EQ(weft_checkpoint_save(wt_scratch("module"), saved), WEFT_OK);
    WT_ALL(!same_parameters(from, to));
    WT_EQ(weft_checkpoint_load(wt_scratch("module"), loaded), WEFT_OK);
    WT_ALL(same_parameters(from, to));
    WT_EQ(weft_state_count(loaded), 4);
    for (int64_t i = 0; i < 4; i++)
        WT_ALL(strcmp(weft_state_name(saved, i), weft_state_name(loaded, i)) == 0);
    WT_ALL(strcmp(weft_state_name(saved, 0), "model.net1.weight") == 0);
    WT_RELEASE(weft_state_release, saved, loaded);
    WT_RELEASE(weft_module_release, from, to);
}

static weft_tensor *loss_of(weft_module *m, int which)
{
    weft_tensor *y = weft_call(m, wt_whole(WEFT_F32, which, 6, 10));

    return weft_mse(y, wt_whole(WEFT_F32, which + 1, 6, 10));
}

static double train(weft_module *m, weft_optim *optim, int from, int to)
{
    double loss = 0;

    for (int step = from; step < to; step++) {
        weft_scope *scope = weft_scope_open();
        weft_tensor *l = loss_of(m, step);

        WT_EQ(weft_backward(l), WEFT_OK);
        WT_EQ(weft_step(optim), WEFT_OK);
        loss = weft_item(weft_full_tensor(l));
        weft_scope_close(scope);
    }
    return loss;
}

/* A list takes all of several things, or none. */
WT_TEST_IN_WORLD(refused__a_module_of_which_one_name_is_in_use, w)
{
    weft_module *m = spread_mlp(w, true, 1);
    weft_optim *optim = weft_adamw(m, (weft_adamw_config){.lr = 1});
    weft_state *state = weft_state_new(), *other = module_state(m);
    int64_t epoch = 3;

    WT_EQ(weft_state_add_int(state, "a.net2.weight", &epoch), WEFT_OK);
    WT_EQ(weft_state_add_module(state, "a", m), WEFT_ERR_ARG);
    WT_FAILED(WEFT_ERR_ARG, "the name 'a.net2.weight' is in use");
    WT_EQ(weft_state_count(state), 1);
    WT_EQ(weft_state_add_int(state, "b.net2.weight.exp_avg", &epoch), WEFT_OK);
    WT_FAILS(weft_state_add_optim(state, "b", optim, m), WEFT_ERR_ARG, "exp_avg' is in use");
    WT_EQ(weft_state_count(state), 2);
    WT_EQ(weft_state_add_int(state, "c.model.net2.bias", &epoch), WEFT_OK);
    WT_FAILS(weft_state_add_state(state, "c", other), WEFT_ERR_ARG, "bias' is in use");
    WT_EQ(weft_state_count(state), 3);
    WT_EQ(weft_state_add_state(state, "d", other), WEFT_OK);
    WT_EQ(weft_state_count(state), 3 + 4);
    WT_EQ(weft_state_add_int(state, "\xff", &epoch), WEFT_ERR_ARG); /* nobody could read it */
    WT_FAILED(WEFT_ERR_ARG, "is no name");
    WT_RELEASE(weft_state_release, state, other);
    weft_optim_release(optim);
    weft_module_release(m);
}

/* CKPT-05: a step changes the parameters, loading brings them back; and the optimizer, so that the
 * same steps give the same bits */
WT_TEST_IN_WORLD(training__goes_on_as_if_it_had_not_stopped, w)
{
    weft_module *m = spread_mlp(w, true, 3), *other = spread_mlp(w, true, 4);
    weft_optim *optim = weft_adamw(m, (weft_adamw_config){.lr = 1e-2, .weight_decay = 0.1});
    weft_optim *again = weft_adamw(other, (weft_adamw_config){.lr = 7});
    weft_state *state = module_state(m), *loaded = module_state(other);
    double loss;

    WT_EQ(weft_state_add_optim(state, "optim", optim, m), WEFT_OK);
    WT_EQ(weft_state_add_optim(loaded, "optim", again, other), WEFT_OK);
    train(m, optim, 0, 3);
    WT_EQ(weft_checkpoint_save(wt_scratch("training"), state), WEFT_OK);
    loss = train(m, optim, 3, 6);
    WT_EQ(weft_checkpoint_load(wt_scratch("training"), loaded), WEFT_OK);
    WT_ALL(!same_parameters(m, other));
    WT_EQ(weft_optim_step_count(again), 3);
    WT_EQ(weft_optim_update_count(again, weft_module_parameter(other, "net1.bias")), 3);
    WT_ALL(weft_optim_lr(again) == 1e-2);
    weft_optim_release(optim); /* weight decay is a setting, not a state */
    optim = again;
    again = weft_adamw(other, (weft_adamw_config){.lr = 1e-2, .weight_decay = 0.1});
    weft_state_release(loaded);
    loaded = module_state(other);
    WT_EQ(weft_state_add_optim(loaded, "optim", again, other), WEFT_OK);
    WT_EQ(weft_checkpoint_load(wt_scratch("training"), loaded), WEFT_OK);
    WT_ALL(train(other, again, 3, 6) == loss);
    WT_ALL(same_parameters(m, other));
    WT_RELEASE(weft_state_release, state, loaded);
    WT_RELEASE(weft_optim_release, optim, again);
    WT_RELEASE(weft_module_release, m, other);
}

/* CKPT-04: a sharded and a replicated parameter, and what is no parameter */
WT_TEST_IN_WORLD(extra__numbers_bytes_and_generators_come_back, w)
{
    weft_tensor *a = wt_spread(w, wt_whole(WEFT_F32, 1, 4, 1), "S(0)");
    weft_tensor *b = wt_spread(w, wt_whole(WEFT_F32, 2, 4, 1), "R");
    weft_tensor *extra = weft_full(WEFT_I64, NULL, 0, 0);
    weft_generator *g = weft_generator_new(5);
    weft_state *state = weft_state_new(), *inner = weft_state_new();
    int64_t number = 1;
    double real = 0.1, nothing = -0.0, least = -DBL_TRUE_MIN, most = INFINITY;
    char text[] = "any bytes";

    weft_uniform_(wt_spread(w, wt_constant(3, 3, 0), "S(0)"), 0, 1, g);
    weft_state_add_tensor(state, "a", a);
    weft_state_add_tensor(state, "b", b);
    weft_state_add_int(inner, "number", &number);
    weft_state_add_real(inner, "real", &real);
    weft_state_add_real(inner, "nothing", &nothing);
    weft_state_add_real(inner, "least", &least);
    weft_state_add_real(inner, "most", &most);
    weft_state_add_tensor(inner, "tensor", extra);
    weft_state_add_bytes(inner, "text", text, sizeof text);
    weft_state_add_generator(inner, "generator", g);
    WT_EQ(weft_state_add_state(state, "extra", inner), WEFT_OK);
    WT_EQ(weft_checkpoint_save(wt_scratch("extra"), state), WEFT_OK);
    number = 10;
    real = 10;
    nothing = least = most = 3;
    memset(text, 'x', sizeof text);
    *(int64_t *)weft_data(extra) = 10;
    weft_fill_(a, 10);
    weft_fill_(b, 10);
    weft_generator_reseed(g, 6);
    WT_EQ(weft_checkpoint_load(wt_scratch("extra"), state), WEFT_OK);
    WT_ALL(wt_near_tensors(a, wt_whole(WEFT_F32, 1, 4, 1), WT_EXACT));
    WT_ALL(wt_near_tensors(b, wt_whole(WEFT_F32, 2, 4, 1), WT_EXACT));
    WT_EQ(number, 1);
    WT_ALL(real == 0.1 && nothing == 0 && signbit(nothing));
    WT_ALL(least == -DBL_TRUE_MIN && most == INFINITY);
    WT_ALL(strcmp(text, "any bytes") == 0);
    WT_EQ(*(int64_t *)weft_data(extra), 0);
    WT_EQ(weft_generator_seed(g), 5);
    WT_EQ(weft_generator_draws(g), 1);
    WT_RELEASE(weft_state_release, state, inner);
    weft_generator_release(g);
}

/* CKPT-13 */
WT_TEST_IN_WORLD(gather__whole_tensors_on_the_ranks_that_want_them, w)
{
    weft_state *state = weft_state_new(), *inner = weft_state_new(), *all, *some;
    weft_tensor *whole = wt_whole(WEFT_F32, 1, 5, 3);
    static const int ranks[] = {0, 2};
    bool wanted = wt_rank() == 0 || wt_rank() == 2;
    int64_t number = 4;

    weft_state_add_tensor(state, "t", wt_spread(w, whole, "S(0)"));
    weft_state_add_int(inner, "n", &number);
    weft_state_add_tensor(inner, "u", wt_spread(w, whole, "S(1)"));
    weft_state_add_state(state, "list.0", inner);
    all = weft_state_gather(state, NULL, 0);
    some = weft_state_gather(state, ranks, 2);
    WT_EQ(weft_state_count(all), 3);
    WT_ALL(weft_tensor_mesh(weft_state_tensor(all, "list.0.u")) == NULL);
    WT_ALL(wt_near_tensors(weft_state_tensor(all, "list.0.u"), whole, WT_EXACT));
    WT_EQ(weft_state_count(some), wanted ? 3 : 0);
    WT_ALL(!wanted || wt_near_tensors(weft_state_tensor(some, "t"), whole, WT_EXACT));
    WT_RELEASE(weft_state_release, all, some, inner, state);
}

/* ---- refused ---- */

/* CKPT-16 */
WT_TEST_IN_WORLD(refused__a_partial_sum, w)
{
    weft_state *state = weft_state_new();

    WT_FAILS(weft_state_add_tensor(state, "p", wt_partial(w, wt_constant(2, 2, 1), WEFT_SUM)),
             WEFT_ERR_LAYOUT, "'p' is partial");
    WT_FAILS(weft_state_add_tensor(state, "m", wt_partial(w, wt_constant(2, 2, 1), WEFT_MAX)),
             WEFT_ERR_LAYOUT, "'m' is partial");
    WT_EQ(weft_state_count(state), 0);
    weft_state_release(state);
}

/* CKPT-17 */
WT_TEST_IN_WORLD(refused__a_path_with_a_scheme, w)
{
    static const char *const paths[] = {"abc://abc.abc", "s3://bucket/run"};
    weft_state *state = state_of("t", wt_constant(2, 2, 1));

    for (int i = 0; i < 2; i++) {
        WT_FAILS(weft_checkpoint_save(paths[i], state), WEFT_ERR_ARG, "Cannot detect");
        WT_FAILS(weft_checkpoint_load(paths[i], state), WEFT_ERR_ARG, "Cannot detect");
    }
    WT_EQ(weft_checkpoint_load(wt_scratch("none"), state), WEFT_ERR_NOT_FOUND);
    WT_FAILED(WEFT_ERR_NOT_FOUND, "checkpoint.json");
    weft_state_release(state);
}

WT_TEST_IN_WORLD(refused__what_the_checkpoint_lacks_or_has_otherwise, w)
{
    weft_tensor *t = zeros(w, 3, 2, "S(0)");
    weft_state *state = state_of("t", t);
    int64_t n = 3, size = 0;

    save_one(wt_scratch("other"), wt_constant(4, 2, 1));
    WT_EQ(weft_checkpoint_load(wt_scratch("other"), state), WEFT_ERR_SHAPE);
    WT_FAILED(WEFT_ERR_SHAPE, "'t' is [4,2], not [3,2]");
    weft_state_add_int(state, "step", &n);
    weft_state_add_tensor(state, "u", weft_full(WEFT_I64, &size, 1, 0));
    WT_EQ(weft_checkpoint_load(wt_scratch("other"), state), WEFT_ERR_NOT_FOUND);
    WT_FAILED(WEFT_ERR_NOT_FOUND, "lacks 2 things: step, u");
    weft_state_release(state);
    state = state_of("t", weft_cast(wt_constant(4, 2, 1), WEFT_I64));
    WT_EQ(weft_checkpoint_load(wt_scratch("other"), state), WEFT_ERR_DTYPE);
    WT_FAILED(WEFT_ERR_DTYPE, "is F32, which cannot be read as i64");
    WT_FAILS(weft_state_add_int(state, "t", &n), WEFT_ERR_ARG, "'t' is in use");
    weft_state_release(state);
    state = state_of("t", weft_neg(weft_set_requires_grad(wt_constant(4, 2, 1), true)));
    WT_EQ(weft_checkpoint_load(wt_scratch("other"), state), WEFT_ERR_STATE);
    WT_FAILED(WEFT_ERR_STATE, "'t' is the result of neg");
    weft_state_release(state);
    WT_EQ(n, 3);
    WT_ALL(wt_local_is_all(t, 0));
}

/* The byte at `at` from the end of a file becomes another; rank 0 does it. */
static void damage(const char *path, long at)
{
    if (wt_rank() == 0) {
        FILE *file = fopen(path, "r+b");
        int byte;

        fseek(file, -at, SEEK_END);
        byte = fgetc(file);
        fseek(file, -at, SEEK_END);
        fputc(byte ^ 1, file);
        fclose(file);
    }
    WT_ALL(true);
}

WT_TEST_IN_WORLD(refused__damaged_files_and_nothing_is_changed, w)
{
    weft_tensor *t = zeros(w, 9, 4, "S(1)");
    weft_state *state = state_of("t", t);
    char path[512];

    for (int which = 0; which < 4; which++) {
        wt_remove(wt_scratch("damaged"));
        WT_ALL(true);
        save_one(wt_scratch("damaged"), wt_spread(w, wt_whole(WEFT_F32, 1, 9, 4), "S(0)"));
        snprintf(path, sizeof path, "%s/%s", wt_scratch("damaged"),
                 which < 3 ? "g000001-r00000.safetensors" : "checkpoint.json");
        if (which < 2) damage(path, which ? 60 : 2); /* data; in most cases, too */
        if (which == 2 && wt_rank() == 0) remove(path);
        if (which == 3) damage(path, 40);
        WT_ALL(weft_checkpoint_load(wt_scratch("damaged"), state) != WEFT_OK);
        WT_FAILED(which == 2 ? WEFT_ERR_NOT_FOUND : WEFT_ERR_IO, "damaged");
        WT_ALL(wt_local_is_all(t, 0));
    }
    weft_state_release(state);
}

/* A save that died left a file and no list: the checkpoint before is there, the next save works. */
WT_TEST_IN_WORLD(saving__again_replaces_and_leaves_nothing_behind, w)
{
    weft_tensor *t = zeros(w, 6, 2, "S(0)");
    char path[512];
    struct stat st;

    save_one(wt_scratch("again"), wt_spread(w, wt_constant(6, 2, 1), "S(0)"));
    snprintf(path, sizeof path, "%s/.weft-0123456789abcdef.part", wt_scratch("again"));
    if (wt_rank() == 0) {
        wt_write_text(path, "half a file");
        wt_age_file(path, 7200);
    }
    WT_ALL(true);
    load_one(wt_scratch("again"), t);
    WT_ALL(wt_local_is_all(t, 1));
    save_one(wt_scratch("again"), wt_spread(w, wt_constant(6, 2, 2), "S(1)"));
    save_one(wt_scratch("again"), wt_spread(w, wt_constant(6, 2, 3), "S(1)"));
    load_one(wt_scratch("again"), t);
    WT_ALL(wt_local_is_all(t, 3));
    WT_ALL(stat(path, &st) != 0);
    snprintf(path, sizeof path, "%s/g000001-r00000.safetensors", wt_scratch("again"));
    WT_ALL(stat(path, &st) != 0);
}

/* Where rank 1 would write there is something else. */
WT_TEST_IN_WORLD(saving__what_one_rank_cannot_write_fails_on_all_and_the_old_one_stays, w)
{
    weft_tensor *t = zeros(w, 8, 2, "S(1)");
    weft_state *state = state_of("t", wt_spread(w, wt_constant(8, 2, 5), "S(0)"));
    char path[512];

    save_one(wt_scratch("full"), wt_spread(w, wt_constant(8, 2, 4), "S(0)"));
    snprintf(path, sizeof path, "%s/g000002-r00001.safetensors", wt_scratch("full"));
    if (wt_rank() == 0) mkdir(path, 0777);
    WT_ALL(true);
    if (wt_ranks() > 1) {
        WT_EQ(weft_checkpoint_save(wt_scratch("full"), state), WEFT_ERR_IO);
        WT_FAILED(WEFT_ERR_IO, "g000002-r00001.safetensors: is there, and no save of ours");
    }
    load_one(wt_scratch("full"), t);
    WT_ALL(wt_local_is_all(t, 4));
    weft_state_release(state);
}

WT_TEST_IN_WORLD(refused__a_number_that_the_dtype_cannot_hold, w)
{
    int64_t n = 3;
    weft_state *state;

    save_one(wt_scratch("wide"), weft_from_data(WEFT_I64, &n, 1, (int64_t[]){1, 2, 1ll << 40}));
    state = state_of("t", weft_full(WEFT_I32, &n, 1, 0));
    WT_EQ(weft_checkpoint_load(wt_scratch("wide"), state), WEFT_ERR_DTYPE);
    WT_FAILED(WEFT_ERR_DTYPE, "'t': a number does not fit i32");
    weft_state_release(state);
}

/* Names begin at the module that is saved, wherever it stands in a tree. */
WT_TEST_IN_WORLD(saved__a_child_module_is_loaded_as_a_module_of_its_own, w)
{
    weft_module *child = weft_linear_new((weft_linear_config){.in = {3}, .out = {2}});
    weft_module *alone = weft_linear_new((weft_linear_config){.in = {3}, .out = {2}});
    weft_module *tree = weft_sequential_new();
    weft_state *states[] = {weft_state_new(), weft_state_new()};

    WT_EQ(weft_module_add_child(tree, "first", child), WEFT_OK);
    WT_EQ(weft_state_add_module(states[0], "model", child), WEFT_OK);
    WT_EQ(weft_state_add_module(states[1], "model", alone), WEFT_OK);
    WT_EQ(weft_checkpoint_save(wt_scratch("child"), states[0]), WEFT_OK);
    WT_EQ(weft_checkpoint_load(wt_scratch("child"), states[1]), WEFT_OK);
    WT_ALL(wt_near_tensors(weft_module_parameter(alone, "weight"),
                           weft_module_parameter(child, "weight"), WT_EXACT));
    for (int i = 0; i < 2; i++) weft_state_release(states[i]);
    weft_module_release(tree);
    weft_module_release(alone);
}

int main(int argc, char **argv) { return wt_scratch_end(wt_main(argc, argv, "checkpoint")); }
