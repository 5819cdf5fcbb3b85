/* test_hybrid.c: replicas along two axes, whose parameters are cut over one of them, over both, or
 * over none: hybrid sharding. They train as one device does, in so many messages. */
/* ranks: 1 2 3 4 6 8 */
/* mpi: 4 */
#include "data_parallel/twins.h"

/* ---- as one device ---- */

/* trial 4.3 */
WT_TEST(hybrid__trains_as_one_device)
{
    static const struct {
        const char *name;
        struct tw_options options;
    } rows[] = {
        {"cut over fsdp", {.config = {.shard_axes = "fsdp"}}},
        {"cut over dp", {.config = {.shard_axes = "dp"}}},
        {"cut over both", {.config = {.shard_axes = "dp,fsdp"}}},
        {"cut over both, without styles", {.config = {.shard = true}, .unplanned = true}},
        {"whole", {0}},
        {"sequence parallelism, tied, recomputed",
         {.config = {.shard_axes = "fsdp", .backwards = 2, .bucket_bytes = 1000},
          .sequence = true,
          .tied = true,
          .recompute = WEFT_RECOMPUTE_BLOCK}},
        {"sequence parallelism, frozen",
         {.config = {.shard_axes = "fsdp", .backwards = 2, .bucket_bytes = 1000},
          .sequence = true,
          .frozen = "blocks.0.mlp.up.weight"}},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tw_options o = rows[i].options;

        for (int dp = 0, tp; tw_next_hybrid(&dp, &o.fsdp, &tp);) {
            struct twins t;

            wt_row("%s, dp=%d,fsdp=%d,tp=%d", rows[i].name, dp, o.fsdp, tp);
            t = tw_open(dp, tp, o);
            tw_train(&t, tw_some);
        }
    }
}

/* trial 4.3: a name that the program gave to merged axes stands for those */
WT_TEST(hybrid__cut_over_merged_axes)
{
    struct tw_options o = {.config.shard_axes = "data"};

    for (int dp = 0, tp; tw_next_hybrid(&dp, &o.fsdp, &tp);) {
        weft_mesh *mesh = wt_own(weft_mesh_new(wt_device(), "dp=%d,fsdp=%d,tp=%d", dp, o.fsdp, tp));
        weft_mesh *both = wt_own(weft_mesh_sub(mesh, "dp,fsdp"));
        struct twins t;
        weft_tensor *weight;

        WT_ALL(wt_own(weft_mesh_flatten(both, "data")) != NULL);
        t = tw_open(dp, tp, o);
        weight = weft_module_parameter(t.replica, "blocks.0.mlp.up.weight");
        for (int a = 0; a < 2; a++) WT_ALL(weft_is_shard(weft_tensor_placement(weight, a)));
        tw_train(&t, tw_some);
    }
}

/* ---- messages ---- */

/* What a model's parameters have: gathered along fsdp, and as each rank keeps them. */
struct figures {
    int64_t parameters, trained, gathered_bytes, scattered_bytes, kept_bytes;
};

static weft_status add_up(weft_module *m, const char *name, weft_tensor *parameter, void *payload)
{
    struct figures *f = payload;
    weft_mesh *mesh = weft_tensor_mesh(parameter);
    int64_t bytes = weft_numel(parameter) * 8;

    (void)m;
    (void)name;
    if (weft_is_shard(weft_tensor_placement(parameter, 2))) bytes /= weft_mesh_axis_size(mesh, 2);
    f->parameters++;
    f->gathered_bytes += bytes;
    if (!weft_requires_grad(parameter)) return WEFT_OK;
    f->trained++;
    f->scattered_bytes += bytes;
    f->kept_bytes += weft_local_numel(parameter) * 8;
    return WEFT_OK;
}

static void has_moved(struct twins *t, weft_coll kind, weft_direction direction, int64_t count,
                      int64_t bytes)
{
    weft_ledger_sum sum = weft_ledger_total(t->world.ledger, kind, direction, NULL);

    WT_EQ(sum.count, count);
    WT_EQ(sum.bytes, bytes);
}

/* A step of `batches` backwards with no styles' messages, all gradients in one bucket. */
static void count_step(struct twins *t, int dp, int fsdp, int batches)
{
    struct figures f = {0};
    int64_t news, groups = dp > 1, inside = fsdp > 1, others = groups || inside;

    WT_EQ(weft_module_each_parameter(t->replica, add_up, &f), WEFT_OK);
    news = 8 * (2 + 2 * f.parameters);
    for (int i = 0; i < batches; i++) {
        weft_scope *scope = weft_scope_open();
        weft_tensor *loss;

        weft_ledger_reset(t->world.ledger);
        loss = tw_loss(t->replica, i, t->me, t->replicas, tw_all);
        has_moved(t, WEFT_COLL_COUNT, WEFT_DIRECTION_FORWARD, inside * f.parameters,
                  inside * f.gathered_bytes);
        has_moved(t, WEFT_COLL_ALL_GATHER, WEFT_DIRECTION_FORWARD, inside * f.parameters,
                  inside * f.gathered_bytes);
        weft_ledger_reset(t->world.ledger);
        WT_EQ(weft_data_parallel_backward(t->replica, loss, 1), WEFT_OK);
        has_moved(t, WEFT_COLL_COUNT, WEFT_DIRECTION_ANY, inside * f.trained,
                  inside * f.scattered_bytes);
        has_moved(t, WEFT_COLL_REDUCE_SCATTER, WEFT_DIRECTION_BACKWARD, inside * f.trained,
                  inside * f.scattered_bytes);
        weft_scope_close(scope);
    }
    weft_ledger_reset(t->world.ledger);
    WT_EQ(weft_step(t->replica_optim), WEFT_OK);
    has_moved(t, WEFT_COLL_COUNT, WEFT_DIRECTION_ANY, groups + others,
              groups * f.kept_bytes + others * news);
    has_moved(t, WEFT_COLL_ALL_REDUCE, WEFT_DIRECTION_OPTIM, groups + others,
              groups * f.kept_bytes + others * news);
}

/* trial 4.3 */
WT_TEST(hybrid__gathers_and_scatters_inside_and_sums_across)
{
    for (int dp = 0, fsdp = 0, tp; tw_next_hybrid(&dp, &fsdp, &tp);) {
        struct tw_options o = {
            .config.shard_axes = "fsdp", .fsdp = fsdp, .frozen = "blocks.1.mlp.down.bias"};
        struct twins t;

        if (tp > 1) continue;
        t = tw_open(dp, tp, o);
        count_step(&t, dp, fsdp, 1);
        count_step(&t, dp, fsdp, 3);
    }
}

/* Once merged, two axes are one to every message. */
/* trial 4.3 */
WT_TEST(hybrid__cut_over_both_gathers_once)
{
    for (int dp = 0, fsdp = 0, tp; tw_next_hybrid(&dp, &fsdp, &tp);) {
        struct tw_options o = {.config.shard = true, .fsdp = fsdp};
        struct figures f = {0};
        struct twins t = tw_open(dp, tp, o);
        int64_t others = dp * fsdp > 1;
        weft_tensor *loss;

        weft_mesh_release(weft_mesh_flatten(t.dp, NULL));
        weft_ledger_reset(t.world.ledger);
        WT_EQ(weft_module_each_parameter(t.replica, add_up, &f), WEFT_OK);
        loss = tw_loss(t.replica, 0, t.me, t.replicas, tw_all);
        WT_EQ(weft_ledger_count(t.world.ledger, WEFT_COLL_ALL_GATHER, WEFT_DIRECTION_FORWARD, NULL),
              others * f.parameters);
        weft_ledger_reset(t.world.ledger);
        WT_EQ(weft_data_parallel_backward(t.replica, loss, 1), WEFT_OK);
        WT_EQ(weft_ledger_count(t.world.ledger, WEFT_COLL_REDUCE_SCATTER, WEFT_DIRECTION_BACKWARD,
                                NULL),
              others * f.trained);
        weft_ledger_reset(t.world.ledger);
        WT_EQ(weft_step(t.replica_optim), WEFT_OK);
        WT_EQ(weft_ledger_count(t.world.ledger, WEFT_COLL_COUNT, WEFT_DIRECTION_ANY, NULL), others);
    }
}

int main(int argc, char **argv) { return wt_main(argc, argv, "hybrid"); }
