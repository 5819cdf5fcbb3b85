/*
 * test_in_backward.c: parameters that are updated while backward runs get the same numbers,
 * bit for bit, from gradients that are not alive together.
 */
/* ranks: 1 2 3 4 */
/* mpi: 2 */
#include <string.h>

#include "optim/models.h"

/* ---- twins: the same model, trained in both ways ---- */

enum { VOCAB = 24, CONTEXT = 5, STEPS = 3 };

WT_MAKER(sgd, .lr = 0.05, .momentum = 0.9)
WT_MAKER(adamw, .lr = 1e-2, .weight_decay = 0.1)
WT_MAKER(muon, .lr = 1e-2, .weight_decay = 0.1)
WT_MAKER(lion, .lr = 1e-3)

static const struct wt_maker *const makers[] = {&sgd, &adamw, &muon, &lion};
enum { MAKERS = sizeof makers / sizeof *makers };

static const weft_gpt_config gpt_shape = {
    .vocab = VOCAB, .context = CONTEXT, .width = 24, .heads = 12, .layers = 2};

struct twins {
    struct wt_world world;
    weft_module *gpt[2];
    weft_optim *optim[2]; /* the second updates in backward */
};

static weft_module *make_gpt(weft_gpt_config config, weft_mesh *mesh, const weft_plan *plan)
{
    weft_module *gpt;

    weft_manual_seed(5);
    gpt = wt_own(weft_gpt(config));
    WT_EQ(weft_parallelize_module(gpt, mesh, plan), WEFT_OK);
    return gpt;
}

static struct twins open_twins(weft_gpt_config config, const weft_plan *plan,
                               const struct wt_maker *maker)
{
    struct twins t = {.world = wt_world_open()};

    for (int i = 0; i < 2; i++) {
        t.gpt[i] = make_gpt(config, t.world.mesh, plan);
        t.optim[i] = maker->make(t.gpt[i]);
    }
    WT_EQ(weft_optim_update_in_backward(t.optim[1], true), WEFT_OK);
    return t;
}

static weft_tensor *words(int first)
{
    int64_t shape[] = {2, CONTEXT}, text[2 * CONTEXT];

    for (int i = 0; i < 2 * CONTEXT; i++) text[i] = (7 * i + first) % VOCAB;
    return weft_from_data(WEFT_I64, shape, 2, text);
}

static weft_tensor *loss_of(weft_module *gpt, int step)
{
    return weft_gpt_loss(gpt, words(step), words(step + 3));
}

static bool same_bytes(weft_tensor *a, weft_tensor *b)
{
    size_t bytes = (size_t)weft_local_numel(a) * weft_dtype_size(weft_tensor_dtype(a));

    return weft_local_numel(a) == weft_local_numel(b) &&
           (bytes == 0 || memcmp(weft_data(a), weft_data(b), bytes) == 0);
}

static weft_status compare(weft_module *m, const char *name, weft_tensor *mine, void *payload)
{
    const struct twins *t = payload;
    const char *path = weft_module_path(m);
    char full[64];

    snprintf(full, sizeof full, "%s%s%s", path, path[0] ? "." : "", name);
    WT_ALL(same_bytes(mine, weft_module_parameter(t->gpt[0], full)));
    WT_EQ(weft_optim_update_count(t->optim[1], mine),
          weft_optim_update_count(t->optim[0], weft_module_parameter(t->gpt[0], full)));
    return WEFT_OK;
}

static void train_twins(struct twins *t)
{
    for (int step = 0; step < STEPS; step++) {
        weft_scope *scope = weft_scope_open();
        double losses[2];

        for (int i = 0; i < 2; i++) {
            weft_tensor *loss;

            weft_manual_seed((uint64_t)step); /* of dropout */
            loss = loss_of(t->gpt[i], step);
            losses[i] = weft_item(loss);
            weft_optim_set_lr(t->optim[i], 1e-2 / (step + 1));
            WT_EQ(weft_backward(loss), WEFT_OK);
            WT_EQ(weft_step(t->optim[i]), WEFT_OK);
        }
        WT_ALL(losses[0] == losses[1]);
        weft_scope_close(scope);
    }
    WT_EQ(weft_optim_step_count(t->optim[1]), STEPS);
    WT_EQ(weft_module_each_parameter(t->gpt[1], compare, t), WEFT_OK);
}

/* Of a plan for tokens as shards the norms' gradients are partial sums. */
WT_TEST(twins__of_every_kind_go_alike)
{
    const weft_plan *plans[] = {weft_gpt_plan(), weft_gpt_plan_sequence()};

    for (int i = 0; i < 2 * MAKERS; i++) {
        struct twins t;

        wt_row("%s%s", makers[i / 2]->name, i % 2 ? ", sequence parallelism" : "");
        t = open_twins(gpt_shape, plans[i % 2], makers[i / 2]);
        train_twins(&t);
    }
}

WT_TEST(twins__tied_and_recomputed)
{
    static const weft_recompute kinds[] = {0, WEFT_RECOMPUTE_MLP, WEFT_RECOMPUTE_BLOCK};

    for (int i = 0; i < 6; i++) {
        weft_gpt_config config = gpt_shape;
        struct twins t;

        wt_row("recomputed %d%s", (int)kinds[i % 3], i < 3 ? "" : ", tied");
        config.recompute = kinds[i % 3];
        config.tied = i >= 3;
        config.dropout = 0.1;
        t = open_twins(config, weft_gpt_plan_sequence(), &adamw);
        train_twins(&t);
    }
}

WT_TEST(twins__in_16_bits)
{
    for (int i = 0; i < 2; i++) {
        weft_gpt_config config = gpt_shape;
        struct twins t;

        config.dtype = i ? WEFT_F16 : WEFT_BF16;
        t = open_twins(config, weft_gpt_plan(), &adamw);
        train_twins(&t);
    }
}

/* ---- an MLP that is used several times, in pieces that run again ---- */

struct loops {
    weft_module *mlp;
    bool recompute, nested;
};

static weft_tensor *twice(weft_tensor *const *in, int n, void *payload)
{
    const struct loops *loops = payload;

    (void)n;
    return weft_relu(weft_call(loops->mlp, weft_gelu(weft_call(loops->mlp, in[0]))));
}

static weft_tensor *four_times(weft_tensor *const *in, int n, void *payload)
{
    weft_tensor *x = weft_recomputed(twice, in, n, payload, NULL);

    return weft_recomputed(twice, &x, 1, payload, NULL);
}

static weft_tensor *run_loops(const struct loops *loops, weft_tensor *x)
{
    void *payload = (void *)loops;

    for (int i = 0; i < 2; i++)
        x = loops->nested      ? weft_recomputed(four_times, &x, 1, payload, NULL)
            : loops->recompute ? weft_recomputed(twice, &x, 1, payload, NULL)
                               : twice(&x, 1, payload);
    return x;
}

static weft_module *shared_mlp(weft_mesh *mesh)
{
    const weft_plan plan[] = {
        {"mlp.up", weft_colwise_parallel()}, {"mlp.down", weft_rowwise_parallel()}, {0}};
    weft_module *root = wt_own(weft_sequential_new());

    weft_manual_seed(9);
    weft_module_add_child(root, "mlp", weft_mlp((weft_mlp_config){.in = 6, .hidden = 8, .out = 6}));
    WT_EQ(weft_parallelize_module(root, mesh, plan), WEFT_OK);
    return root;
}

static weft_tensor *trained(struct wt_world *w, bool recompute, bool nested, bool in_backward)
{
    weft_module *root = shared_mlp(w->mesh);
    weft_optim *optim = make_adamw(root);
    struct loops loops = {weft_module_child(root, "mlp"), recompute, nested};
    weft_tensor *weight = weft_module_parameter(root, "mlp.up.weight");

    WT_EQ(weft_optim_update_in_backward(optim, in_backward), WEFT_OK);
    for (int step = 0; step < STEPS; step++) {
        weft_scope *scope = weft_scope_open();
        weft_tensor *x = wt_whole(WEFT_F32, step, 4, 6);

        if (recompute) weft_recomputed(twice, &x, 1, &loops, NULL); /* backward never comes to it */
        WT_EQ(weft_backward(weft_sum_all(weft_square(run_loops(&loops, x)))), WEFT_OK);
        if (in_backward && !recompute) WT_ALL(!weft_grad(weight));
        WT_EQ(weft_step(optim), WEFT_OK);
        WT_ALL(!weft_grad(weight));
        weft_scope_close(scope);
    }
    return weight;
}

/* A weight is what it was in forward until the last piece that uses it has run again. */
WT_TEST(shared_weight__in_pieces_waits_for_the_last)
{
    struct wt_world w = wt_world_open();

    for (int how = 0; how < 3; how++) {
        weft_tensor *late = trained(&w, how > 0, how == 2, false);
        weft_tensor *early = trained(&w, how > 0, how == 2, true);

        WT_ALL(same_bytes(late, early));
    }
}

/* ---- when ---- */

struct seen {
    weft_tensor *w;
    float before;
    bool updated;
};

/* Before this in forward is after it in backward. */
static weft_tensor *look(weft_tensor *const *in, int n, void *payload)
{
    struct seen *seen = payload;

    (void)n;
    if (weft_local_numel(seen->w)) seen->updated = *(float *)weft_data(seen->w) != seen->before;
    return weft_mul_scalar(in[0], 2);
}

/* The weight of a piece is updated when that piece is through, not at the end of backward. */
WT_TEST(update__comes_with_the_last_use)
{
    for (int pieces = 0; pieces < 2; pieces++) {
        struct wt_world w = wt_world_open();
        weft_module *root = shared_mlp(w.mesh);
        weft_optim *optim = make_adamw(root);
        struct loops loops = {weft_module_child(root, "mlp"), pieces == 1, false};
        weft_tensor *x = weft_set_requires_grad(wt_whole(WEFT_F32, 1, 4, 6), true), *loss;
        struct seen seen = {.w = weft_module_parameter(root, "mlp.up.weight")};

        WT_EQ(weft_optim_update_in_backward(optim, true), WEFT_OK);
        if (weft_local_numel(seen.w)) seen.before = *(float *)weft_data(seen.w);
        loss = weft_sum_all(run_loops(&loops, weft_recomputed(look, &x, 1, &seen, NULL)));
        WT_ALL(!seen.updated);
        WT_EQ(weft_backward(loss), WEFT_OK);
        WT_ALL(seen.updated || weft_local_numel(seen.w) == 0);
    }
}

/* The first step is still to come, but what is remembered of the update is not forgotten. */
WT_TEST(setting__that_decides_state_holds_from_the_first_update)
{
    struct wt_world w = wt_world_open();
    weft_module *root = shared_mlp(w.mesh);
    weft_optim *optim = make_sgd(root);
    struct loops loops = {.mlp = weft_module_child(root, "mlp")};
    weft_tensor *x = wt_whole(WEFT_F32, 1, 4, 6);

    WT_EQ(weft_optim_update_in_backward(optim, true), WEFT_OK);
    WT_EQ(weft_backward(weft_sum_all(run_loops(&loops, x))), WEFT_OK);
    WT_FAILS(weft_optim_set(optim, "mlp.up.*", "momentum", 0), WEFT_ERR_STATE,
             "momentum decides which state 'mlp.up.weight' has");
    WT_EQ(weft_optim_state_count(optim, weft_module_parameter(root, "mlp.up.weight")), 1);
    WT_EQ(weft_step(optim), WEFT_OK);
}

/* ---- memory ---- */

static weft_status largest_of(weft_module *m, const char *name, weft_tensor *p, void *payload)
{
    int64_t bytes = 4 * weft_local_numel(p), *largest = payload;

    (void)m;
    (void)name;
    if (bytes > largest[0]) largest[0] = bytes;
    largest[1] += bytes;
    return WEFT_OK;
}

static int64_t peak_of_a_step(int layers, bool in_backward, int64_t *sizes)
{
    struct wt_world w;
    weft_gpt_config config = gpt_shape;
    weft_module *gpt;
    weft_optim *optim;
    int64_t peak = 0;

    wt_row("%d layers%s", layers, in_backward ? ", in backward" : "");
    w = wt_world_open();
    config.layers = layers;
    gpt = make_gpt(config, w.mesh, weft_gpt_plan());
    optim = make_adamw(gpt);
    sizes[0] = sizes[1] = 0;
    weft_module_each_parameter(gpt, largest_of, sizes);
    WT_EQ(weft_optim_update_in_backward(optim, in_backward), WEFT_OK);
    for (int step = 0; step < 2; step++) {
        weft_scope *scope = weft_scope_open();

        weft_memory_reset_peak();
        WT_EQ(weft_backward(loss_of(gpt, step)), WEFT_OK);
        peak = weft_memory_of(WEFT_MEMORY_GRADIENTS).peak;
        WT_EQ(weft_step(optim), WEFT_OK);
        weft_scope_close(scope);
    }
    return peak;
}

/* All parameters otherwise; the gradients of one node here, whatever the number of layers. */
WT_TEST(gradients__are_not_alive_together)
{
    int64_t sizes[2];

    for (int layers = 2; layers <= 4; layers += 2) {
        WT_ALL(peak_of_a_step(layers, false, sizes) >= sizes[1]);
        WT_ALL(peak_of_a_step(layers, true, sizes) < 2 * sizes[0]);
    }
}

/* ---- what does not go together ---- */

static weft_tensor *copy_of(weft_tensor *t)
{
    weft_tensor *copy;

    weft_no_grad_open();
    copy = weft_mul_scalar(t, 1);
    weft_no_grad_close();
    return copy;
}

WT_TEST(later_backward__is_refused_and_changes_nothing)
{
    struct twins t = open_twins(gpt_shape, weft_gpt_plan(), &adamw);
    weft_tensor *w = weft_module_parameter(t.gpt[1], "head.weight"), *first, *second, *after;

    first = loss_of(t.gpt[1], 0);
    second = loss_of(t.gpt[1], 1);
    WT_EQ(weft_backward(first), WEFT_OK);
    WT_ALL(!weft_grad(w));
    WT_EQ(weft_error_status(), WEFT_OK);
    after = copy_of(w);
    WT_FAILS(weft_backward(second), WEFT_ERR_STATE, "updated by adamw in an earlier backward");
    WT_FAILS(weft_optim_update_in_backward(t.optim[1], false), WEFT_ERR_STATE,
             "take the step first");
    WT_ALL(same_bytes(w, after));
    WT_EQ(weft_step(t.optim[1]), WEFT_OK);
    WT_ALL(same_bytes(w, after));
    WT_EQ(weft_backward(second), WEFT_ERR_STATE); /* it saved weights that are others now */
    WT_FAILED(WEFT_ERR_STATE, "modified in place by adamw");
    WT_ALL(same_bytes(w, after));
    WT_EQ(weft_backward(loss_of(t.gpt[1], 1)), WEFT_OK); /* nothing waits for the refused one */
    WT_ALL(!same_bytes(w, after));
    WT_ALL(!weft_grad(w));
}

WT_TEST(used_tape__is_refused_and_the_next_goes_on)
{
    struct twins t = open_twins(gpt_shape, weft_gpt_plan(), &adamw);
    weft_tensor *w = weft_module_parameter(t.gpt[1], "head.weight"), *loss, *after;

    loss = loss_of(t.gpt[1], 0);
    WT_EQ(weft_backward(loss), WEFT_OK);
    WT_EQ(weft_step(t.optim[1]), WEFT_OK);
    after = copy_of(w);
    WT_FAILS(weft_backward(loss), WEFT_ERR_STATE, "tape");
    WT_ALL(same_bytes(w, after));
    WT_EQ(weft_backward(loss_of(t.gpt[1], 1)), WEFT_OK);
    WT_ALL(!same_bytes(w, after));
    WT_EQ(weft_step(t.optim[1]), WEFT_OK);
}

WT_TEST(clipping__is_refused)
{
    struct twins t = open_twins(gpt_shape, weft_gpt_plan(), &adamw);
    double norm = -1;

    WT_EQ(weft_backward(loss_of(t.gpt[1], 0)), WEFT_OK);
    WT_FAILS(weft_clip_grad_norm(t.gpt[1], 1, &norm), WEFT_ERR_STATE, "is updated in backward");
    WT_ALL(norm == -1);
    WT_FAILS(weft_clip_grad_value(t.gpt[1], 1), WEFT_ERR_STATE, "is updated in backward");
    WT_EQ(weft_step(t.optim[1]), WEFT_OK);
    WT_EQ(weft_optim_update_in_backward(t.optim[1], false), WEFT_OK);
    WT_EQ(weft_backward(loss_of(t.gpt[1], 1)), WEFT_OK);
    WT_EQ(weft_clip_grad_norm(t.gpt[1], 1, NULL), WEFT_OK);
    WT_EQ(weft_step(t.optim[1]), WEFT_OK);
}

WT_TEST(parameters__have_one_optimizer_in_backward)
{
    struct twins t = open_twins(gpt_shape, weft_gpt_plan(), &adamw);
    weft_optim *other = make_sgd(t.gpt[1]);

    WT_FAILS(weft_optim_update_in_backward(other, true), WEFT_ERR_STATE,
             "updated in backward by another optimizer");
    WT_EQ(weft_optim_update_in_backward(t.optim[1], true), WEFT_OK); /* again: nothing new */
    WT_EQ(weft_optim_update_in_backward(t.optim[1], false), WEFT_OK);
    WT_EQ(weft_optim_update_in_backward(other, true), WEFT_OK);
    WT_FAILS(weft_optim_update_in_backward(NULL, true), WEFT_ERR_ARG, "the optimizer is NULL");
}

/* ---- frozen parameters, other leaves, and replicas ---- */

WT_TEST(frozen__parameters_and_inputs_are_as_ever)
{
    struct twins t = {.world = wt_world_open()};

    for (int i = 0; i < 2; i++) {
        t.gpt[i] = make_gpt(gpt_shape, t.world.mesh, weft_gpt_plan());
        weft_set_requires_grad(weft_module_parameter(t.gpt[i], "wpe.weight"), false);
        weft_set_requires_grad(weft_module_parameter(t.gpt[i], "blocks.0.mlp.up.weight"), false);
        t.optim[i] = make_adamw(t.gpt[i]);
    }
    WT_EQ(weft_optim_update_in_backward(t.optim[1], true), WEFT_OK);
    train_twins(&t);
}

/* They are reduced over the replicas first: all is left to the step. */
WT_TEST(replicas__wait_for_the_step)
{
    struct wt_world w = wt_world_open();
    weft_module *gpt[2];
    weft_optim *optim[2];
    weft_tensor *p[2];

    for (int i = 0; i < 2; i++) {
        weft_manual_seed(5);
        gpt[i] = wt_own(weft_gpt(gpt_shape));
        WT_EQ(weft_data_parallel(gpt[i], w.mesh, (weft_data_parallel_config){0}), WEFT_OK);
        optim[i] = make_adamw(gpt[i]);
        WT_EQ(weft_optim_update_in_backward(optim[i], i == 1), WEFT_OK);
        WT_EQ(weft_data_parallel_backward(gpt[i], loss_of(gpt[i], weft_mesh_coordinate(w.mesh, 0)),
                                          CONTEXT),
              WEFT_OK);
        p[i] = weft_module_parameter(gpt[i], "head.weight");
        WT_ALL(weft_grad(p[i]) != NULL);
        WT_EQ(weft_clip_grad_norm(gpt[i], 1, NULL), WEFT_OK);
        WT_EQ(weft_step(optim[i]), WEFT_OK);
    }
    WT_ALL(same_bytes(p[0], p[1]));
}

int main(int argc, char **argv) { return wt_main(argc, argv, "optim.in_backward"); }
