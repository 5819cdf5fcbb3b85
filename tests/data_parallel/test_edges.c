/* test_edges.c: what replicas refuse, how they begin, and steps that are not like the others. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "data_parallel/twins.h"

/* ---- layers of which a call uses some ---- */

struct parts {
    weft_module *layers[3];
    unsigned used; /* bits */
};

static weft_tensor *forward(weft_module *m, weft_tensor *const *inputs, int n)
{
    const struct parts *p = weft_module_payload(m);
    weft_tensor *x = inputs[0];

    (void)n;
    for (int i = 0; i < 3; i++)
        if (p->used >> i & 1) x = weft_call(p->layers[i], x);
    return x;
}

static const weft_module_class class_parts = {.type = "parts", .forward = forward};

static weft_module *new_shards(struct parts *p)
{
    weft_module *m = weft_module_new(&class_parts, p);
    const char *names[] = {"a", "b", "c"};

    weft_manual_seed(3);
    for (int i = 0; i < 3; i++) {
        p->layers[i] = weft_linear_new(
            (weft_linear_config){.in = {3}, .out = {3}, .std = 1, .dtype = WEFT_F64});
        WT_EQ(weft_module_add_child(m, names[i], p->layers[i]), WEFT_OK);
    }
    p->used = 7;
    return wt_own(m);
}

static weft_tensor *some_rows(void) { return wt_whole(WEFT_F64, 5, 2, 3); }

static weft_tensor *loss_of(weft_module *m) { return weft_sum_all(weft_call(m, some_rows())); }

/* Replicas, and the same module on one device. */
struct replicas {
    struct wt_world world;
    struct parts parts, whole_parts;
    weft_module *m, *whole;
};

static void open(struct replicas *r, weft_data_parallel_config config)
{
    *r = (struct replicas){.world = wt_world_open_mesh("dp=%d", wt_ranks())};
    r->m = new_shards(&r->parts);
    r->whole = new_shards(&r->whole_parts);
    WT_EQ(weft_data_parallel(r->m, r->world.mesh, config), WEFT_OK);
}

/* ---- refusals ---- */

WT_TEST(refused__before_anything_changed)
{
    struct wt_world w = wt_world_open_mesh("dp=%d,tp=1", wt_ranks());
    weft_mesh *dp = wt_part(&w, "dp");
    struct parts parts;
    weft_module *m = new_shards(&parts);
    weft_data_parallel_config config = {0};
    double mean;

    WT_FAILS(weft_data_parallel(NULL, dp, config), WEFT_ERR_ARG, "module or mesh is NULL");
    WT_FAILS(weft_data_parallel_backward(m, some_rows(), 1), WEFT_ERR_STATE, "is no replica");
    WT_FAILS(weft_data_parallel_loss(m, &mean, NULL), WEFT_ERR_STATE, "is no replica");
    WT_FAILS(weft_data_parallel(m, dp, (weft_data_parallel_config){.backwards = -1}), WEFT_ERR_ARG,
             "-1 backwards");
    WT_FAILS(weft_data_parallel(m, dp, (weft_data_parallel_config){.start = 3}), WEFT_ERR_ARG,
             "no start 3");
    WT_FAILS(weft_data_parallel(m, dp, (weft_data_parallel_config){.shard_axes = "tp"}),
             WEFT_ERR_NOT_FOUND, "no axis \"tp\"");
    WT_FAILS(weft_data_parallel(m, dp, (weft_data_parallel_config){.expert_axes = "dp,ep"}),
             WEFT_ERR_NOT_FOUND, "no axis \"ep\"");
    WT_ALL(!weft_tensor_mesh(weft_module_parameter(m, "a.weight")));
    WT_EQ(weft_data_parallel(m, dp, config), WEFT_OK);
    WT_FAILS(weft_data_parallel(m, dp, config), WEFT_ERR_STATE, "is a replica already");
    WT_FAILS(weft_data_parallel_backward(m, loss_of(m), -1), WEFT_ERR_ARG, "-1 tokens");
    WT_FAILS(weft_data_parallel_backward(m, some_rows(), 1), WEFT_ERR_SHAPE,
             "the loss has 6 elements");
}

/* trial 4.3: experts over axes that the program merged, in another order too */
WT_TEST(experts__may_be_over_merged_axes)
{
    struct wt_world w = wt_world_open_mesh("dp=%d,ep=1", wt_ranks());
    weft_mesh *turned = wt_part(&w, "ep,dp"), *ep = wt_part(&w, "ep");
    weft_mesh *dp = wt_part(&w, "dp");
    weft_data_parallel_config config = {.expert_axes = "all"};
    struct parts parts;
    weft_module *m = new_shards(&parts);

    WT_ALL(wt_own(weft_mesh_flatten(turned, "all")) != NULL);
    WT_EQ(weft_parallelize_module(m, dp, (weft_plan[]){{"a", weft_colwise_parallel()}, {0}}),
          WEFT_OK);
    WT_FAILS(weft_data_parallel(m, ep, config), WEFT_ERR_NOT_FOUND, "no axis \"all\"");
    WT_EQ(weft_data_parallel(m, w.mesh, config), WEFT_OK);
    WT_ALL(weft_is_shard(weft_tensor_placement(weft_module_parameter(m, "a.weight"), 0)));
}

WT_TEST(refused__a_mesh_that_does_not_go_with_the_styles)
{
    struct wt_world w = wt_world_open();
    weft_mesh *line = wt_own(weft_mesh_new(WEFT_CPU, "dp=%d", wt_ranks()));
    struct parts parts;
    weft_module *m = new_shards(&parts);

    WT_EQ(weft_parallelize_module(m, w.mesh, (weft_plan[]){{"a", weft_colwise_parallel()}, {0}}),
          WEFT_OK);
    WT_FAILS(weft_data_parallel(m, line, (weft_data_parallel_config){0}), WEFT_ERR_ARG,
             "not cut from the same mesh");
    WT_FAILS(weft_data_parallel(m, w.mesh, (weft_data_parallel_config){0}), WEFT_ERR_ARG,
             "parameter 'weight' of module 'a' is distributed over axis \"tp\"");
    WT_ALL(weft_tensor_mesh(weft_module_parameter(m, "a.weight")) == w.mesh);
}

WT_TEST(refused__parameters_of_which_some_have_elements)
{
    struct wt_world w = wt_world_open_mesh("dp=%d", wt_ranks());
    struct parts parts;
    weft_module *m = new_shards(&parts);
    weft_tensor *meta = weft_empty_like(weft_module_parameter(m, "b.bias"), WEFT_META);

    WT_EQ(weft_module_set_parameter(parts.layers[1], "bias", meta), WEFT_OK);
    WT_FAILS(weft_data_parallel(m, w.mesh, (weft_data_parallel_config){0}), WEFT_ERR_STATE,
             "parameter 'bias' of module 'b' has no elements");
    WT_ALL(!weft_tensor_mesh(weft_module_parameter(m, "a.weight")));
}

WT_TEST(refused__a_backward_between_reduction_and_step)
{
    struct replicas r;
    double norm;

    open(&r, (weft_data_parallel_config){0});
    WT_EQ(weft_backward(loss_of(r.m)), WEFT_OK);
    WT_EQ(weft_clip_grad_norm(r.m, 1, &norm), WEFT_OK);
    WT_FAILS(weft_backward(loss_of(r.m)), WEFT_ERR_STATE, "take the step or drop them");
}

WT_TEST(refused__a_parameter_that_was_replaced)
{
    struct replicas r;
    weft_tensor *w;

    open(&r, (weft_data_parallel_config){0});
    w = weft_full(WEFT_F64, (int64_t[]){3, 3}, 2, 0);
    WT_EQ(weft_module_set_parameter(r.parts.layers[0], "weight", w), WEFT_OK);
    WT_FAILS(loss_of(r.m), WEFT_ERR_STATE, "replaced after weft_data_parallel");
    WT_ALL(weft_module_parameter(r.m, "a.weight") == w);
    WT_ALL(weft_tensor_mesh(weft_module_parameter(r.m, "a.bias")) != NULL);
}

/* ---- how replicas begin ---- */

/* One element of one parameter is another number on the last replica. */
static weft_module *unlike(struct parts *parts)
{
    weft_module *m = new_shards(parts);

    ((double *)weft_data(weft_module_parameter(m, "b.weight")))[4] += wt_rank() == wt_ranks() - 1;
    return m;
}

/* The difference is on one line of replicas: the other lines hear of it. */
WT_TEST(start__finds_what_differs_on_every_rank)
{
    const weft_plan plan[] = {{"c", weft_colwise_parallel()}, {0}};
    weft_data_parallel_config config = {0};

    for (int dp = 0, tp; tw_next_mesh(&dp, &tp);) {
        struct wt_world w = wt_world_open_mesh("dp=%d,tp=%d", dp, tp);
        weft_mesh *replicas = wt_part(&w, "dp");
        struct parts parts;
        weft_module *m = unlike(&parts);

        WT_EQ(weft_parallelize_module(m, wt_part(&w, "tp"), plan), WEFT_OK);
        if (dp == 1) {
            WT_EQ(weft_data_parallel(m, replicas, config), WEFT_OK);
            continue;
        }
        WT_FAILS(weft_data_parallel(m, replicas, config), WEFT_ERR_ARG,
                 "differ in parameter 'weight' of module 'b'");
        WT_ALL(!weft_tensor_mesh(weft_module_parameter(m, "b.weight")));
    }
}

WT_TEST(start__copies_the_first)
{
    struct wt_world w = wt_world_open_mesh("dp=%d", wt_ranks());
    struct parts parts, good;
    weft_module *m = unlike(&parts), *first = new_shards(&good);
    weft_data_parallel_config config = {.start = WEFT_REPLICAS_COPIED};

    if (wt_ranks() == 1) ((double *)weft_data(weft_module_parameter(m, "b.weight")))[4] -= 1;
    WT_EQ(weft_data_parallel(m, w.mesh, config), WEFT_OK);
    WT_ALL(wt_near_tensors(weft_to_local(weft_module_parameter(m, "b.weight"), NULL),
                           weft_module_parameter(first, "b.weight"), WT_WITHIN(1e-15)));
}

WT_TEST(start__trusts_without_a_message)
{
    struct replicas r;

    open(&r, (weft_data_parallel_config){.start = WEFT_REPLICAS_TRUSTED});
    WT_STILL(&r.world);
}

/* ---- stages of a pipeline, each with a module of its own ---- */

/* A module of so many numbers, the last of which is `last`. */
static weft_module *new_numbers(int count, double last)
{
    weft_module *m = wt_own(weft_module_new(&class_parts, NULL));
    const int64_t size = 3;
    char name[16];

    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, "p%d", i);
        weft_module_add_parameter(m, name, weft_full(WEFT_F32, &size, 1, i < count - 1 ? i : last));
    }
    return m;
}

/* Two stages with so many numbers each; the replicas of stage `unlike` (-1: none) differ in the
 * last of them. */
static void begin_stages(const int *counts, int unlike)
{
    struct wt_world w;
    weft_mesh *dp;
    int stage, me;
    weft_module *m;
    bool differ;

    wt_row("%d and %d numbers, stage %d is unlike", counts[0], counts[1], unlike);
    w = wt_world_open_mesh("pp=2,dp=%d", wt_ranks() / 2);
    dp = wt_part(&w, "dp");
    stage = weft_mesh_local_rank(w.mesh, "pp");
    me = weft_mesh_local_rank(w.mesh, "dp");
    m = new_numbers(counts[stage], stage == unlike ? me : 0);
    differ = unlike >= 0 && counts[unlike] && weft_mesh_size(dp) > 1;
    WT_EQ(weft_data_parallel(m, dp, (weft_data_parallel_config){0}),
          differ ? WEFT_ERR_ARG : WEFT_OK);
    if (differ) {
        char named[32];

        snprintf(named, sizeof named, "'p%d'", counts[unlike] - 1);
        WT_ALL(strstr(weft_error_message(), stage == unlike ? named : "another module") != NULL);
        WT_FAILED(WEFT_ERR_ARG, "replicas differ in");
    }
}

WT_TEST(start__is_compared_in_each_stage)
{
    static const int counts[][2] = {{10, 12}, {12, 10}, {0, 3}, {3, 0}, {0, 0}};

    for (int i = 0; i < 5 && wt_ranks() % 2 == 0; i++)
        for (int unlike = -1; unlike < 2; unlike++) begin_stages(counts[i], unlike);
}

/* ---- steps that are not like the others ---- */

static bool grad_is(struct replicas *r, const char *name, weft_tensor *want)
{
    weft_tensor *grad = weft_grad(weft_module_parameter(r->m, name));

    return want ? grad && wt_near_tensors(grad, want, WT_WITHIN(1e-13)) : !grad;
}

/* b is used by nobody, a by the first replica only. */
WT_TEST(unused__is_zeros_where_some_use_it_and_nothing_where_nobody_does)
{
    weft_data_parallel_config configs[] = {
        {0}, {.bucket_bytes = 80, .backwards = 1}, {.bucket_bytes = 1}};

    for (int i = 0; i < 3; i++) {
        struct replicas r;
        weft_tensor *leaf, *want;

        open(&r, configs[i]);
        r.parts.used = wt_rank() == 0 ? 5 : 4;
        WT_EQ(weft_data_parallel_backward(r.m, loss_of(r.m), 1), WEFT_OK);
        leaf = weft_module_parameter(r.m, "c.bias");
        WT_EQ(weft_reduce_gradients(&leaf, 1), WEFT_OK);
        r.whole_parts.used = 5;
        WT_EQ(weft_backward(weft_mul_scalar(loss_of(r.whole), 1.0 / wt_ranks())), WEFT_OK);
        want = weft_grad(weft_module_parameter(r.whole, "a.weight"));
        WT_ALL(grad_is(&r, "a.weight", want));
        WT_ALL(grad_is(&r, "b.weight", NULL));
        r.whole_parts.used = 4;
        WT_EQ(weft_backward(weft_mul_scalar(loss_of(r.whole), 1 - 1.0 / wt_ranks())), WEFT_OK);
        WT_ALL(grad_is(&r, "c.weight", weft_grad(weft_module_parameter(r.whole, "c.weight"))));
    }
}

/* Replicas that have nothing to do may leave the backward out. */
WT_TEST(backward__may_be_left_out_without_tokens)
{
    struct replicas r;
    weft_optim *optim;
    weft_status status = WEFT_OK;
    double loss;
    int64_t tokens;

    open(&r, (weft_data_parallel_config){0});
    optim = wt_own(weft_sgd(r.m, (weft_sgd_config){.lr = 0.1}));
    if (wt_rank() == wt_ranks() / 2) status = weft_data_parallel_backward(r.m, loss_of(r.m), 5);
    WT_EQ(status, WEFT_OK);
    WT_EQ(weft_step(optim), WEFT_OK);
    WT_EQ(weft_data_parallel_loss(r.m, &loss, &tokens), WEFT_OK);
    WT_EQ(tokens, 5);
}

WT_TEST(plain_backward__is_the_mean_over_replicas)
{
    struct replicas r;
    double loss;

    open(&r, (weft_data_parallel_config){0});
    WT_EQ(weft_backward(weft_mul_scalar(loss_of(r.m), wt_rank())), WEFT_OK);
    WT_EQ(weft_backward(weft_mul_scalar(loss_of(r.whole), (wt_ranks() - 1) / 2.0)), WEFT_OK);
    WT_ALL(grad_is(&r, "a.weight", weft_grad(weft_module_parameter(r.whole, "a.weight"))));
    WT_EQ(weft_data_parallel_loss(r.m, &loss, NULL), WEFT_OK);
    WT_ALL(isnan(loss));
}

/* Tokens of gradients that were dropped do not count, also when buckets had left. */
WT_TEST(dropped__gradients_take_their_tokens_along)
{
    for (int backwards = 0; backwards < 3; backwards++) {
        struct replicas r;
        weft_optim *optim;
        int64_t tokens;

        open(&r, (weft_data_parallel_config){.backwards = backwards, .bucket_bytes = 100});
        optim = wt_own(weft_sgd(r.m, (weft_sgd_config){.lr = 0.1}));
        WT_EQ(weft_data_parallel_backward(r.m, loss_of(r.m), 100), WEFT_OK);
        weft_optim_zero_grad(optim);
        WT_ALL(grad_is(&r, "a.weight", NULL));
        for (int i = 0; i < 2; i++)
            WT_EQ(weft_data_parallel_backward(r.m, loss_of(r.m), 3), WEFT_OK);
        WT_EQ(weft_step(optim), WEFT_OK);
        WT_EQ(weft_data_parallel_loss(r.m, NULL, &tokens), WEFT_OK);
        WT_EQ(tokens, 6 * wt_ranks());
    }
}

/* The module goes while others still add up what it sent. */
WT_TEST(released__with_buckets_on_their_way)
{
    for (int backwards = 0; backwards < 2; backwards++) {
        int64_t before = weft_memory_of(WEFT_MEMORY_COMMUNICATION).live;
        struct replicas r;

        open(&r, (weft_data_parallel_config){.backwards = backwards, .bucket_bytes = 100});
        WT_EQ(weft_data_parallel_backward(r.m, loss_of(r.m), 3), WEFT_OK);
        wt_world_close(&r.world);
        WT_EQ(weft_memory_of(WEFT_MEMORY_COMMUNICATION).live, before);
    }
}

/* Two optimizers over parts of the module: the first step reduces for both. */
WT_TEST(optimizers__of_parts_step_one_after_another)
{
    struct replicas r;
    weft_optim *one, *parts[2];

    open(&r, (weft_data_parallel_config){0});
    one = wt_own(weft_sgd(r.whole, (weft_sgd_config){.lr = 0.1}));
    parts[0] = wt_own(weft_sgd(r.parts.layers[0], (weft_sgd_config){.lr = 0.1}));
    parts[1] = wt_own(weft_sgd(r.parts.layers[2], (weft_sgd_config){.lr = 0.1}));
    WT_EQ(weft_data_parallel_backward(r.m, loss_of(r.m), 2), WEFT_OK);
    WT_EQ(weft_backward(loss_of(r.whole)), WEFT_OK);
    WT_EQ(weft_step(one), WEFT_OK);
    for (int i = 0; i < 2; i++) WT_EQ(weft_step(parts[i]), WEFT_OK);
    WT_ALL(wt_near_tensors(weft_module_parameter(r.m, "a.weight"),
                           weft_module_parameter(r.whole, "a.weight"), WT_WITHIN(1e-13)));
    WT_ALL(wt_near_tensors(weft_module_parameter(r.m, "c.weight"),
                           weft_module_parameter(r.whole, "c.weight"), WT_WITHIN(1e-13)));
}

/* Gradients that no optimizer took are added to, as elsewhere; in the second step the first replica
 * uses no layer. */
static void leave_over(weft_data_parallel_config config)
{
    struct replicas r;
    weft_optim *optim;

    open(&r, config);
    optim = wt_own(weft_sgd(r.parts.layers[0], (weft_sgd_config){.lr = 0}));
    for (int step = 0; step < 3; step++) {
        bool some_idle = step == 1 && !config.shard;
        double share = !some_idle || wt_ranks() > 1; /* the mean is over the others' tokens */
        weft_status status = WEFT_OK;

        if (!some_idle || wt_rank() > 0)
            status = weft_data_parallel_backward(r.m, loss_of(r.m), 1);
        else if (config.backwards)
            status = weft_data_parallel_backward(r.m, weft_sum_all(some_rows()), 0);
        WT_EQ(status, WEFT_OK);
        WT_EQ(weft_step(optim), WEFT_OK);
        WT_EQ(weft_backward(weft_mul_scalar(loss_of(r.whole), share)), WEFT_OK);
    }
    WT_ALL(grad_is(&r, "b.weight", weft_grad(weft_module_parameter(r.whole, "b.weight"))));
    WT_ALL(grad_is(&r, "c.bias", weft_grad(weft_module_parameter(r.whole, "c.bias"))));
}

WT_TEST(left_over__gradients_go_on_growing)
{
    leave_over((weft_data_parallel_config){0});
    leave_over((weft_data_parallel_config){.backwards = 1, .bucket_bytes = 100});
    leave_over((weft_data_parallel_config){.shard = true});
}

/* A parameter may be frozen and thawed between steps. */
WT_TEST(frozen__between_steps)
{
    struct replicas r;
    weft_tensor *w;

    open(&r, (weft_data_parallel_config){.backwards = 1});
    w = weft_module_parameter(r.m, "b.weight");
    for (int step = 0; step < 4; step++) {
        WT_ALL(weft_set_requires_grad(w, step % 2 == 0) != NULL);
        WT_EQ(weft_data_parallel_backward(r.m, loss_of(r.m), 1), WEFT_OK);
        WT_EQ(weft_reduce_gradients(&w, 1), WEFT_OK);
        WT_ALL(!weft_grad(w) == (step % 2 == 1));
        WT_ALL(weft_grad(weft_module_parameter(r.m, "a.weight")) != NULL);
        for (int i = 0; i < 3; i++) {
            weft_zero_grad(weft_module_parameter(r.parts.layers[i], "weight"));
            weft_zero_grad(weft_module_parameter(r.parts.layers[i], "bias"));
        }
    }
}

WT_TEST(mean__weighs_by_tokens)
{
    struct replicas r;
    double mean, sum = 0, count = 0;

    open(&r, (weft_data_parallel_config){0});
    for (int i = 0; i < wt_ranks(); i++) sum += 1.5 * i * i, count += i;
    WT_EQ(weft_data_parallel_mean(r.m, wt_rank() ? 1.5 * wt_rank() : NAN, wt_rank(), &mean),
          WEFT_OK);
    WT_ALL(wt_ranks() == 1 ? isnan(mean) : fabs(mean - sum / count) < 1e-13);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "edges"); }
