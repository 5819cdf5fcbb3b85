/*
 * test_buffers.c: buffers of a module under replicas: statistics that every replica gathers over
 * its own rows are one device's, or the first replica's, after each step; and no rule, no message.
 */
/* ranks: 1 2 3 4 8 */
/* mpi: 2 */
#include <stdio.h>

#include "data_parallel/twins.h"
#include "support/scratch.h"

enum { WIDTH = 6, ROWS = 2, STEPS = 3 }; /* rows of each replica */

/* Smaller than any i32, so that both halves of it travel. */
static const int64_t first_count = -((int64_t)1 << 40) - 3;

/* x [N, W] -> mlp(x - mean); mean moves towards that of the rows, count counts calls. */
static weft_tensor *forward(weft_module *m, weft_tensor *const *inputs, int n)
{
    weft_tensor *mean = weft_module_buffer(m, "mean"), *count = weft_module_buffer(m, "count");
    weft_tensor *x = inputs[0], *y = weft_sub(x, weft_mul_scalar(mean, 1));
    const int rows = 0;

    (void)n;
    if (weft_module_training(m)) {
        weft_no_grad_open();
        weft_copy_(mean, weft_add(weft_mul_scalar(mean, 0.5),
                                  weft_mul_scalar(weft_mean(x, &rows, 1, false), 0.5)));
        weft_copy_(count, weft_add_scalar(count, 1));
        weft_no_grad_close();
    }
    return weft_call(weft_module_child(m, "mlp"), y);
}

static const weft_module_class class_centred = {.type = "centred", .forward = forward};

static weft_module *centred_new(void)
{
    weft_module *m = wt_own(weft_module_new(&class_centred, NULL));
    weft_scope *scope = weft_scope_open();
    const int64_t width = WIDTH, one = 1;

    weft_manual_seed(3);
    weft_module_add_child(
        m, "mlp",
        weft_mlp((weft_mlp_config){.in = WIDTH, .hidden = 8, .out = WIDTH, .dtype = WEFT_F64}));
    WT_EQ(weft_module_add_buffer(m, "mean", weft_full(WEFT_F64, &width, 1, 0.25),
                                 (weft_buffer_options){0}),
          WEFT_OK);
    WT_EQ(weft_module_add_buffer(m, "count", weft_from_data(WEFT_I64, &one, 1, &first_count),
                                 (weft_buffer_options){0}),
          WEFT_OK);
    WT_EQ(weft_module_add_buffer(m, "scratch", weft_full(WEFT_F32, &width, 1, 0),
                                 (weft_buffer_options){.unsaved = true}),
          WEFT_OK);
    weft_scope_close(scope);
    return m;
}

static weft_tensor *rows(int step, int first, int count)
{
    int64_t shape[] = {count, WIDTH};
    double x[8 * ROWS * WIDTH];

    for (int i = 0; i < count * WIDTH; i++)
        x[i] = 0.1 * ((step * 7 + (first * WIDTH + i) * 5) % 23) - 1;
    return weft_from_data(WEFT_F64, shape, 2, x);
}

static struct twins centred_twins(int dp, int tp, weft_data_parallel_config config)
{
    static const weft_plan plan[] = {
        {"mlp.up", {.kind = WEFT_STYLE_COLWISE}}, {"mlp.down", {.kind = WEFT_STYLE_ROWWISE}}, {0}};
    char mesh[32];
    struct twins t;

    snprintf(mesh, sizeof mesh, "dp=%d,tp=%d", dp, tp);
    t = tw_begin("dp", mesh);
    t.whole = centred_new();
    t.replica = centred_new();
    WT_EQ(weft_parallelize_module_strict(t.replica, t.tp, plan), WEFT_OK);
    WT_EQ(weft_data_parallel(t.replica, t.dp, config), WEFT_OK);
    t.whole_optim = wt_own(weft_sgd(t.whole, (weft_sgd_config){.lr = 0.1}));
    t.replica_optim = wt_own(weft_sgd(t.replica, (weft_sgd_config){.lr = 0.1}));
    weft_ledger_reset(t.world.ledger);
    return t;
}

/* One step of both; the whole one sees `seen` rows, from row 0 on. */
static void step_both(struct twins *t, int step, int seen)
{
    weft_scope *scope = weft_scope_open();
    weft_tensor *x = rows(step, 0, seen), *mine = rows(step, t->me * ROWS, ROWS);

    WT_EQ(weft_backward(weft_mean_all(weft_square(weft_call(t->whole, x)))), WEFT_OK);
    WT_EQ(weft_data_parallel_backward(
              t->replica, weft_mean_all(weft_square(weft_call(t->replica, mine))), ROWS),
          WEFT_OK);
    WT_EQ(weft_step(t->whole_optim), WEFT_OK);
    WT_EQ(weft_step(t->replica_optim), WEFT_OK);
    weft_scope_close(scope);
}

/* The buffer on this rank, whatever others have: `R` says that they have the same. */
static bool same_here(struct twins *t, const char *path)
{
    weft_tensor *here = weft_to_local(weft_module_buffer(t->replica, path), NULL);

    return wt_near_tensors(here, weft_module_buffer(t->whole, path), WT_WITHIN(1e-12));
}

static void train(weft_data_parallel_config config)
{
    for (int dp = 0, tp; tw_next_mesh(&dp, &tp);) {
        struct twins t = centred_twins(dp, tp, config);

        for (int step = 0; step < STEPS; step++) {
            step_both(&t, step, ROWS * t.replicas);
            WT_ALL(same_here(&t, "mean"));
            WT_ALL(same_here(&t, "count"));
            WT_ALL(wt_near_tensors(weft_module_parameter(t.replica, "mlp.up.weight"),
                                   weft_module_parameter(t.whole, "mlp.up.weight"),
                                   WT_WITHIN(1e-12)));
        }
    }
}

/* trial 1.7 */
WT_TEST(buffers__averaged_are_those_of_all_rows)
{
    train((weft_data_parallel_config){.buffers = WEFT_BUFFERS_AVERAGED});
    train((weft_data_parallel_config){.buffers = WEFT_BUFFERS_AVERAGED, .shard = true});
    train((weft_data_parallel_config){.buffers = WEFT_BUFFERS_AVERAGED, .backwards = 1});
}

/* trial 1.7: the first replica's, who has seen its own rows only */
WT_TEST(buffers__copied_are_those_of_the_first_replica)
{
    for (int dp = 0, tp; tw_next_mesh(&dp, &tp);) {
        struct twins t = centred_twins(dp, tp, (weft_data_parallel_config){0});

        for (int step = 0; step < STEPS; step++) {
            step_both(&t, step, ROWS);
            WT_ALL(same_here(&t, "mean"));
            WT_ALL(same_here(&t, "count"));
        }
    }
}

/* trial 1.7: without a step, when asked */
WT_TEST(buffers__are_shared_when_asked)
{
    struct twins t =
        centred_twins(wt_ranks(), 1, (weft_data_parallel_config){.buffers = WEFT_BUFFERS_AVERAGED});

    WT_ALL(weft_call(t.whole, rows(0, 0, ROWS * t.replicas)) != NULL);
    WT_ALL(weft_call(t.replica, rows(0, t.me * ROWS, ROWS)) != NULL);
    WT_EQ(weft_data_parallel_share_buffers(t.replica), WEFT_OK);
    WT_ALL(same_here(&t, "mean"));
    WT_FAILS(weft_data_parallel_share_buffers(t.whole), WEFT_ERR_STATE, "is no replica");
}

/* As any write in place: backward refuses what it saved before. */
WT_TEST(buffers__that_backward_needs_are_written)
{
    for (int averaged = 0; averaged < 2; averaged++) {
        weft_data_parallel_config config = {.buffers = averaged ? WEFT_BUFFERS_AVERAGED
                                                                : WEFT_BUFFERS_COPIED};
        struct twins t = centred_twins(wt_ranks(), 1, config);
        weft_tensor *mean = weft_module_buffer(t.replica, "mean");
        weft_tensor *x = weft_set_requires_grad(rows(0, 0, ROWS), true);
        weft_tensor *loss = weft_sum_all(weft_mul(x, weft_to_local(mean, NULL)));
        int64_t version = weft_tensor_version(mean);

        WT_EQ(weft_data_parallel_share_buffers(t.replica), WEFT_OK);
        WT_ALL(weft_tensor_version(mean) == version + 1);
        WT_FAILS(weft_backward(loss), WEFT_ERR_STATE,
                 "modified in place by weft_data_parallel_share_buffers");
    }
}

/* trial 1.7: one message for all buffers, none without a rule */
WT_TEST(buffers__take_one_message)
{
    for (int i = 0; i < 2; i++) {
        weft_data_parallel_config config = {.buffers = i ? WEFT_BUFFERS_OWN : WEFT_BUFFERS_COPIED};
        struct twins t = centred_twins(wt_ranks(), 1, config);

        WT_EQ(weft_data_parallel_share_buffers(t.replica), WEFT_OK);
        if (i)
            WT_STILL(&t.world);
        else
            WT_MOVED(&t.world, WEFT_COLL_ALL_REDUCE, 1);
    }
}

/* trial 1.7: replicas whose buffers differ at the start */
WT_TEST(buffers__are_equal_at_the_start_or_refused)
{
    struct wt_world w = wt_world_open_mesh("dp=%d", wt_ranks());
    weft_module *m = centred_new();
    weft_tensor *mean = weft_module_buffer(m, "mean");
    bool alone = wt_ranks() == 1;

    WT_EQ(weft_fill_(mean, weft_world_rank()), WEFT_OK);
    WT_EQ(weft_data_parallel(m, w.mesh, (weft_data_parallel_config){0}),
          alone ? WEFT_OK : WEFT_ERR_ARG);
    if (!alone) {
        WT_FAILED(WEFT_ERR_ARG, "differ in buffer 'mean' of module ''");
        WT_EQ(weft_data_parallel(m, w.mesh,
                                 (weft_data_parallel_config){.start = WEFT_REPLICAS_COPIED}),
              WEFT_OK);
    }
    WT_ALL(wt_local_is_all(weft_module_buffer(m, "mean"), 0));
}

WT_TEST(buffers__are_called_so_when_they_are_refused)
{
    struct wt_world w = wt_world_open_mesh("dp=%d", wt_ranks());
    weft_module *shares = centred_new(), *other = centred_new(), *strided = centred_new();
    weft_tensor *turned = weft_transpose(weft_full(WEFT_F64, (int64_t[]){3, 2}, 2, 1), 0, 1);

    WT_EQ(weft_module_set_buffer(other, "scratch", weft_module_buffer(shares, "mean")), WEFT_OK);
    WT_FAILS(weft_data_parallel(shares, w.mesh, (weft_data_parallel_config){0}), WEFT_ERR_STATE,
             "'mean' of module '' is a buffer of module '' of another tree too");
    WT_EQ(weft_module_set_buffer(strided, "mean", turned), WEFT_OK);
    WT_FAILS(weft_data_parallel(strided, w.mesh, (weft_data_parallel_config){0}), WEFT_ERR_ARG,
             "buffer 'mean' of module '' is a strided view");
}

/* trial 1.7: saved from replicas, loaded into one device's module */
WT_TEST(buffers__go_into_checkpoints)
{
    struct twins t =
        centred_twins(wt_ranks(), 1, (weft_data_parallel_config){.buffers = WEFT_BUFFERS_AVERAGED});
    weft_module *fresh = centred_new();
    weft_state *saved = wt_own(weft_state_new()), *loaded = wt_own(weft_state_new());
    const char *path = wt_scratch("checkpoint");

    step_both(&t, 0, ROWS * t.replicas);
    WT_EQ(weft_state_add_module(saved, "model", t.replica), WEFT_OK);
    WT_EQ(weft_state_add_module(loaded, "model", fresh), WEFT_OK);
    WT_ALL(weft_state_tensor(saved, "model.count") != NULL);
    WT_ALL(weft_state_tensor(saved, "model.scratch") == NULL);
    WT_EQ(weft_checkpoint_save(path, saved), WEFT_OK);
    WT_EQ(weft_checkpoint_load(path, loaded), WEFT_OK);
    WT_ALL(wt_near_tensors(weft_module_buffer(fresh, "mean"), weft_module_buffer(t.whole, "mean"),
                           WT_WITHIN(1e-12)));
    WT_ALL(weft_item(weft_module_buffer(fresh, "count")) == (double)(first_count + 1));
}

int main(int argc, char **argv) { return wt_scratch_end(wt_main(argc, argv, "buffers")); }
