/* test_spread.c: replicas' parameters are tensors over both axes: they give the numbers of tensors
 * that are used as such, and go to files and come back as any others. */
/* ranks: 1 2 3 4 6 8 */
/* mpi: 4 */
#include "data_parallel/twins.h"
#include "support/given.h"
#include "support/scratch.h"

/* ---- beside tensors over both axes ---- */

enum { ROWS = 5, IN = 3, HIDDEN = 7, OUT = 2 };

/* mean((relu(x w1) w2 - y)^2), of which ops alone know how it is spread */
static weft_tensor *loss_of(weft_tensor *x, weft_tensor *y, weft_tensor *w1, weft_tensor *w2)
{
    return weft_mse(weft_matmul(weft_relu(weft_matmul(x, w1)), w2), y);
}

static weft_tensor *forward(weft_module *m, weft_tensor *const *inputs, int n)
{
    (void)n;
    return loss_of(inputs[0], inputs[1], weft_module_parameter(m, "w1"),
                   weft_module_parameter(m, "w2"));
}

static const weft_module_class class_net = {.type = "net", .forward = forward, .inputs = 2};

static weft_tensor *first(void) { return wt_whole(WEFT_F64, 1, IN, HIDDEN); }
static weft_tensor *second(void) { return wt_whole(WEFT_F64, 2, HIDDEN, OUT); }
static weft_tensor *input(void) { return wt_whole(WEFT_F64, 3, ROWS, IN); }
static weft_tensor *wanted(void) { return wt_whole(WEFT_F64, 4, ROWS, OUT); }

static weft_tensor *leaf(struct wt_world *w, weft_tensor *whole, const char *placements)
{
    return weft_set_requires_grad(wt_spread(w, whole, placements), true);
}

/* A module whose parameters are spread over a mesh by hand, as replicas along dp. */
static weft_module *replica(weft_mesh *dp, weft_mesh *mesh, const char *const *spread, bool shard)
{
    weft_module *m = wt_own(weft_module_new(&class_net, NULL));

    WT_EQ(weft_module_add_parameter(m, "w1", given_spread(first(), mesh, spread[0])), WEFT_OK);
    WT_EQ(weft_module_add_parameter(m, "w2", given_spread(second(), mesh, spread[1])), WEFT_OK);
    WT_EQ(weft_data_parallel(m, dp, (weft_data_parallel_config){.shard = shard}), WEFT_OK);
    return m;
}

static void same_gradients(weft_module *m, weft_tensor *w1, weft_tensor *w2)
{
    weft_tensor *got1 = weft_grad(weft_module_parameter(m, "w1"));
    weft_tensor *got2 = weft_grad(weft_module_parameter(m, "w2"));

    WT_ALL(wt_near_tensors(got1, weft_grad(w1), WT_WITHIN(1e-13)));
    WT_ALL(wt_near_tensors(got2, weft_grad(w2), WT_WITHIN(1e-13)));
}

/* The rows that S(0) gives this rank's place on dp, over tp. */
static weft_tensor *my_rows(weft_tensor *whole, weft_mesh *dp, weft_mesh *tp, int64_t *rows)
{
    int ways = weft_mesh_size(dp), me = weft_mesh_coordinate(dp, 0);
    int64_t begin = weft_chunk_offset(ROWS, ways, me);

    *rows = weft_chunk_size(ROWS, ways, me);
    return weft_from_local(weft_contiguous(weft_slice(whole, 0, begin, begin + *rows)), tp, NULL,
                           NULL);
}

static void compare(int dp_size, int tp_size, bool shard)
{
    struct wt_world w = wt_world_open_mesh("dp=%d,tp=%d", dp_size, tp_size);
    weft_mesh *dp = wt_part(&w, "dp"), *tp = wt_part(&w, "tp");
    weft_module *m = replica(dp, tp, (const char *[]){"S(1)", "S(0)"}, shard);
    weft_tensor *w1 = leaf(&w, first(), "R,S(1)"), *w2 = leaf(&w, second(), "R,S(0)"), *in[2];
    weft_tensor *loss =
        loss_of(wt_spread(&w, input(), "S(0),R"), wt_spread(&w, wanted(), "S(0),R"), w1, w2);
    int64_t rows;
    double mean;

    WT_EQ(weft_backward(loss), WEFT_OK);
    in[0] = my_rows(input(), dp, tp, &rows);
    in[1] = my_rows(wanted(), dp, tp, &rows);
    WT_EQ(weft_data_parallel_backward(m, weft_call_n(m, in, 2), rows), WEFT_OK);
    same_gradients(m, w1, w2);
    WT_EQ(weft_data_parallel_loss(m, &mean, NULL), WEFT_OK);
    WT_ALL(wt_near(&mean, &(double){weft_item(weft_full_tensor(loss))}, 1, WT_WITHIN(1e-13)));
    WT_ALL(shard || wt_is_placed(weft_module_parameter(m, "w1"), "R,S(1)"));
}

WT_TEST(replicas__give_the_numbers_of_tensors_over_both_axes)
{
    for (int dp = 0, tp; tw_next_mesh(&dp, &tp);) {
        compare(dp, tp, false);
        compare(dp, tp, true);
    }
}

/* ---- more axes ---- */

/* Parameters over two axes, one dim by both of them; replicas over one axis, or two merged. */
static void compare_on(const char *mesh, const char *axes, bool shard)
{
    struct wt_world w = wt_world_open_mesh("%s", mesh);
    weft_mesh *some = wt_part(&w, axes), *dp = wt_own(weft_mesh_flatten(some, NULL));
    weft_mesh *model = wt_part(&w, weft_mesh_ndim(some) == 1 ? "x,y" : "x");
    const char *spreads[2][2] = {{"S(1),S(1)", "S(0)[1],S(0)[0]"}, {"S(1)", "S(0)"}};
    weft_module *m = replica(dp, model, spreads[weft_mesh_ndim(model) == 1], shard);
    weft_tensor *w1 = weft_set_requires_grad(first(), true);
    weft_tensor *w2 = weft_set_requires_grad(second(), true), *in[2];

    in[0] = weft_from_local(input(), model, NULL, NULL);
    in[1] = weft_from_local(wanted(), model, NULL, NULL);
    WT_EQ(weft_data_parallel_backward(m, weft_call_n(m, in, 2), 3), WEFT_OK);
    WT_EQ(weft_backward(loss_of(input(), wanted(), w1, w2)), WEFT_OK);
    same_gradients(m, w1, w2);
}

WT_TEST(replicas__of_parameters_over_several_axes)
{
    static const char *const meshes[] = {"a=1,x=1,y=1", "a=2,x=1,y=1", "a=1,x=3,y=1",
                                         "a=2,x=2,y=1", "a=1,x=2,y=2", "a=2,x=1,y=3",
                                         "a=3,x=2,y=1", "a=2,x=2,y=2"};
    static const int sizes[] = {1, 2, 3, 4, 4, 6, 6, 8};

    for (int i = 0; i < 8; i++)
        for (int shard = 0; sizes[i] == wt_ranks() && shard < 2; shard++) {
            wt_row("%s%s", meshes[i], shard ? ", cut" : "");
            compare_on(meshes[i], "a", shard);
            compare_on(meshes[i], "a,y", shard);
        }
}

/* ---- checkpoints ---- */

static weft_state *everything(weft_module *m, weft_optim *optim)
{
    weft_state *state = wt_own(weft_state_new());

    WT_EQ(weft_state_add_module(state, "model", m), WEFT_OK);
    WT_EQ(weft_state_add_optim(state, "optim", optim, m), WEFT_OK);
    return state;
}

static void step(struct twins *t, int batch)
{
    tw_backward(t, batch, 1, tw_all);
    WT_EQ(weft_step(t->whole_optim), WEFT_OK);
    WT_EQ(weft_step(t->replica_optim), WEFT_OK);
}

/* Train a step and save; on another mesh load, and go on like the twin that was never saved. */
static void save_and_load(int dp, int tp, struct tw_options from, struct tw_options to)
{
    struct twins t = tw_open(dp, tp, from);
    const char *path = wt_scratch("replicas");
    weft_state *state = everything(t.replica, t.replica_optim);

    step(&t, 0);
    WT_EQ(weft_checkpoint_save(path, state), WEFT_OK);

    t = tw_open(tp, dp, to);
    tw_backward(&t, 0, 1, tw_all);
    WT_EQ(weft_step(t.whole_optim), WEFT_OK);
    weft_optim_zero_grad(t.replica_optim);
    state = everything(t.replica, t.replica_optim);
    WT_EQ(weft_checkpoint_load(path, state), WEFT_OK);
    TW_SAME_PARAMETERS(&t);
    step(&t, 1);
    TW_SAME_PARAMETERS(&t);
    wt_remove(path);
}

/* trial 4.3 */
WT_TEST(checkpoint__of_hybrid_replicas_loads_on_other_meshes)
{
    for (int dp = 0, fsdp = 0, tp; tw_next_hybrid(&dp, &fsdp, &tp);) {
        struct tw_options cut = {.config.shard_axes = "fsdp", .fsdp = fsdp};
        struct tw_options whole = {.fsdp = fsdp, .sequence = true};

        save_and_load(dp, tp, cut, cut);
        save_and_load(dp, tp, cut, whole);
        save_and_load(dp, tp, whole, cut);
    }
}

WT_TEST(checkpoint__of_replicas_loads_on_other_meshes)
{
    struct tw_options cut = {.config.shard = true}, copied = {.sequence = true};

    for (int dp = 0, tp; tw_next_mesh(&dp, &tp);) {
        save_and_load(dp, tp, cut, cut);
        save_and_load(dp, tp, cut, copied);
        save_and_load(dp, tp, copied, cut);
    }
}

/* ---- forecasts ---- */

static void step_of_replica(weft_module *model, weft_mesh *dp, weft_mesh *tp, bool shard)
{
    int64_t shape[] = {2, TW_CONTEXT};
    weft_scope *scope = weft_scope_open();
    weft_tensor *tokens = weft_full(WEFT_I32, shape, 2, 1);
    double norm;

    WT_EQ(weft_parallelize_module(model, tp, weft_gpt_plan_sequence()), WEFT_OK);
    WT_EQ(
        weft_data_parallel(
            model, dp, (weft_data_parallel_config){.shard = shard, .start = WEFT_REPLICAS_TRUSTED}),
        WEFT_OK);
    WT_EQ(weft_data_parallel_backward(model, weft_gpt_loss(model, tokens, tokens), 7), WEFT_OK);
    WT_EQ(weft_clip_grad_norm(model, 1, &norm), WEFT_OK);
    weft_scope_close(scope);
}

static weft_module *small_gpt(void)
{
    return wt_own(weft_gpt((weft_gpt_config){
        .vocab = TW_VOCAB, .context = TW_CONTEXT, .width = 12, .heads = 3, .layers = 1}));
}

/* Without elements and without other ranks a step has the same messages. */
static void forecast(int dp, int tp, bool shard)
{
    struct wt_world w = wt_world_open_mesh("dp=%d,tp=%d", dp, tp);
    weft_mesh *fake = wt_own(weft_mesh_new_fake(wt_rank(), "dp=%d,tp=%d", dp, tp));
    weft_mesh *meshes[] = {w.mesh, fake};
    weft_ledger_sum sums[2];

    for (int i = 0; i < 2; i++) {
        weft_device before = weft_set_default_device(i ? WEFT_META : WEFT_CPU);
        weft_mesh *dp_mesh = wt_own(weft_mesh_sub(meshes[i], "dp"));
        weft_mesh *tp_mesh = wt_own(weft_mesh_sub(meshes[i], "tp"));
        weft_module *model = small_gpt();

        weft_mesh_release(weft_mesh_flatten(meshes[i], NULL)); /* as cases before may have done */
        weft_ledger_reset(w.ledger);
        step_of_replica(model, dp_mesh, tp_mesh, shard);
        sums[i] = weft_ledger_total(w.ledger, WEFT_COLL_COUNT, WEFT_DIRECTION_ANY, NULL);
        weft_set_default_device(before);
    }
    WT_EQ(sums[1].count, sums[0].count);
    WT_EQ(sums[1].bytes, sums[0].bytes);
}

WT_TEST(forecast__has_the_messages_of_a_step)
{
    for (int dp = 0, tp; tw_next_mesh(&dp, &tp);) {
        forecast(dp, tp, false);
        forecast(dp, tp, true);
    }
}

/* ---- several dtypes ---- */

static const char *const names[] = {"a", "b", "c", "d"};
static const weft_dtype dtypes[] = {WEFT_F32, WEFT_BF16, WEFT_F32, WEFT_BF16};

/* The sum of all elements: every gradient is ones. */
static weft_tensor *sum_forward(weft_module *m, weft_tensor *const *inputs, int n)
{
    weft_tensor *sum = inputs[0];

    (void)n;
    for (int i = 0; i < 4; i++)
        sum = weft_add(sum, weft_cast(weft_sum_all(weft_module_parameter(m, names[i])), WEFT_F64));
    return sum;
}

static const weft_module_class class_sum = {.type = "sum", .forward = sum_forward};

WT_TEST(buckets__are_of_one_dtype)
{
    struct wt_world w = wt_world_open_mesh("dp=%d", wt_ranks());
    weft_module *m = wt_own(weft_module_new(&class_sum, NULL));
    weft_tensor *leaf, *zero = weft_full(WEFT_F64, NULL, 0, 0);

    for (int i = 0; i < 4; i++)
        WT_EQ(weft_module_add_parameter(m, names[i], wt_whole(dtypes[i], i, i + 1, 3)), WEFT_OK);
    WT_EQ(weft_data_parallel(m, w.mesh, (weft_data_parallel_config){0}), WEFT_OK);
    weft_ledger_reset(w.ledger);
    WT_EQ(weft_data_parallel_backward(m, weft_call(m, zero), 4), WEFT_OK);
    leaf = weft_module_parameter(m, "a");
    WT_EQ(weft_reduce_gradients(&leaf, 1), WEFT_OK);
    WT_MOVED(&w, WEFT_COLL_ALL_REDUCE, 3); /* f32, bf16, and what replicas tell each other */
    for (int i = 0; i < 4; i++) {
        leaf = weft_grad(weft_module_parameter(m, names[i]));
        WT_ALL(leaf && weft_tensor_dtype(leaf) == dtypes[i] && wt_is_all(leaf, 1));
    }
}

int main(int argc, char **argv) { return wt_scratch_end(wt_main(argc, argv, "spread")); }
