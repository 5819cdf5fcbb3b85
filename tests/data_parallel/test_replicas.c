/* test_replicas.c: replicas train as one device does, whatever each of them gets to see. */
/* ranks: 1 2 3 4 6 8 */
/* mpi: 2 */
#include <string.h>

#include "data_parallel/twins.h"

static bool only_the_first_row(int row, int position)
{
    (void)position;
    return row == 0;
}

WT_TEST(replicas__train_as_one_device)
{
    static const struct {
        const char *name;
        tw_counts *counts;
        struct tw_options options;
    } rows[] = {
        {"all tokens count", tw_all, {0}},
        {"without styles", tw_some, {.unplanned = true}},
        {"weighed by the tokens that count", tw_some, {0}},
        {"weighed, cut", tw_some, {.config = {.shard = true}}},
        {"no tokens", only_the_first_row, {0}},
        {"no tokens, cut", only_the_first_row, {.config = {.shard = true}}},
        {"sequence parallelism", tw_some, {.sequence = true}},
        {"sequence parallelism, cut", tw_some, {.sequence = true, .config = {.shard = true}}},
        {"tied", tw_some, {.tied = true}},
        {"tied, cut", tw_some, {.tied = true, .config = {.shard = true}}},
        {"frozen", tw_some, {.frozen = "blocks.0.mlp.up.weight"}},
        {"frozen, cut", tw_some, {.frozen = "blocks.0.mlp.up.weight", .config = {.shard = true}}},
        {"recomputed", tw_some, {.recompute = WEFT_RECOMPUTE_BLOCK}},
        {"recomputed, cut",
         tw_some,
         {.recompute = WEFT_RECOMPUTE_BLOCK, .config = {.shard = true}}},
        {"a bucket each", tw_some, {.config = {.bucket_bytes = 1}}},
        {"small buckets", tw_some, {.config = {.bucket_bytes = 1000}, .sequence = true}},
        {"buckets in backward", tw_some, {.config = {.backwards = 2, .bucket_bytes = 1000}}},
        {"buckets in backward, tied",
         only_the_first_row,
         {.config = {.backwards = 2, .bucket_bytes = 1000}, .sequence = true, .tied = true}},
        {"buckets in the first of two backwards",
         tw_some,
         {.config = {.backwards = 1, .bucket_bytes = 1000},
          .sequence = true,
          .tied = true,
          .recompute = WEFT_RECOMPUTE_BLOCK}},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int dp = 0, tp; tw_next_mesh(&dp, &tp);) {
            struct twins t;

            wt_row("%s, dp=%d,tp=%d", rows[i].name, dp, tp);
            t = tw_open(dp, tp, rows[i].options);
            tw_train(&t, rows[i].counts);
        }
}

/* A weight that a recomputed block of a replica has read, written before backward. */
static void write_between(struct tw_options o, const char *path)
{
    for (int dp = 0, tp; tw_next_mesh(&dp, &tp);) {
        struct twins t = tw_open(dp, tp, o);
        weft_tensor *weight = weft_module_parameter(t.replica, path);
        weft_tensor *loss = tw_loss(t.replica, 0, t.me, t.replicas, tw_all);

        weft_no_grad_open();
        WT_EQ(weft_copy_(weight, weft_mul_scalar(weight, 2)), WEFT_OK);
        weft_no_grad_close();
        WT_EQ(weft_data_parallel_backward(t.replica, loss, 1), WEFT_ERR_STATE);
        WT_ALL(strstr(weft_error_message(), "recomputed") != NULL);
        WT_FAILED(WEFT_ERR_STATE, "modified in place by copy");
    }
}

WT_TEST(replicas__refuse_what_was_written_before_it_runs_again)
{
    static const char *const paths[] = {"blocks.0.mlp.up.weight", "blocks.1.norm1.bias"};

    for (int i = 0; i < 8; i++) {
        struct tw_options o = {.recompute = WEFT_RECOMPUTE_BLOCK, .config = {.shard = i & 1}};

        o.unplanned = i & 4;
        o.frozen = i & 2 ? paths[i / 4] : NULL;
        write_between(o, paths[i / 4]);
    }
}

int main(int argc, char **argv) { return wt_main(argc, argv, "replicas"); }
