/* test_replicas.c: replicas train as one device does, whatever each of them gets to see. */
/* ranks: 1 2 3 4 6 8 */
/* mpi: 2 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <weft/weft.h>

#include "data_parallel/twins.h"

/* ---- whole steps ---- */

static bool near(double a, double b) { return fabs(a - b) <= 1e-10 * (1 + fabs(b)); }

/* Two steps of two batches each, clipped. */
static void train(struct twins *t, tw_counts *counts)
{
    for (int step = 0; step < 2; step++) {
        double norm[2], loss, mean = tw_backward(t, 2 * step, 2, counts);
        int64_t tokens;

        WT_EQ(weft_clip_grad_norm(t->whole, 0.5, &norm[0]), WEFT_OK);
        WT_EQ(weft_clip_grad_norm(t->replica, 0.5, &norm[1]), WEFT_OK);
        WT_ALL(near(norm[1], norm[0]));
        WT_ALL(tw_same_gradients(t));
        WT_EQ(weft_step(t->whole_optim), WEFT_OK);
        WT_EQ(weft_step(t->replica_optim), WEFT_OK);
        WT_ALL(tw_same_parameters(t));
        WT_EQ(weft_data_parallel_loss(t->replica, &loss, &tokens), WEFT_OK);
        WT_ALL(near(loss, mean));
        WT_EQ(tokens, t->tokens);
    }
}

static void train_everywhere(struct tw_options o, tw_counts *counts)
{
    for (int dp = 0, tp; tw_next_mesh(&dp, &tp);) {
        struct twins t = tw_open(dp, tp, o);

        train(&t, counts);
        tw_close(&t);
    }
}

/* The later rows count less and less; of the third none, so that some replicas have no token. */
static bool some(int row, int position) { return row != 2 && position >= row; }

static bool only_the_first_row(int row, int position)
{
    (void)position;
    return row == 0;
}

WT_TEST(replicas__train_as_one_device) { train_everywhere((struct tw_options){0}, tw_all); }

WT_TEST(replicas__without_styles)
{
    train_everywhere((struct tw_options){.unplanned = true}, some);
}

WT_TEST(replicas__weigh_by_the_tokens_that_count)
{
    train_everywhere((struct tw_options){0}, some);
    train_everywhere((struct tw_options){.config.shard = true}, some);
}

WT_TEST(replicas__need_no_tokens)
{
    train_everywhere((struct tw_options){0}, only_the_first_row);
    train_everywhere((struct tw_options){.config.shard = true}, only_the_first_row);
}

WT_TEST(replicas__with_sequence_parallelism)
{
    train_everywhere((struct tw_options){.sequence = true}, some);
    train_everywhere((struct tw_options){.sequence = true, .config.shard = true}, some);
}

WT_TEST(replicas__with_tied_weights)
{
    train_everywhere((struct tw_options){.tied = true}, some);
    train_everywhere((struct tw_options){.tied = true, .config.shard = true}, some);
}

WT_TEST(replicas__with_frozen_parameters)
{
    struct tw_options o = {.frozen = "blocks.0.mlp.up.weight"};

    train_everywhere(o, some);
    o.config.shard = true;
    train_everywhere(o, some);
}

WT_TEST(replicas__with_recomputation)
{
    struct tw_options o = {.recompute = WEFT_RECOMPUTE_BLOCK};

    train_everywhere(o, some);
    o.config.shard = true;
    train_everywhere(o, some);
}

WT_TEST(replicas__in_small_buckets)
{
    train_everywhere((struct tw_options){.config.bucket_bytes = 1}, some);
    train_everywhere((struct tw_options){.config.bucket_bytes = 1000, .sequence = true}, some);
}

WT_TEST(replicas__send_buckets_during_backward)
{
    struct tw_options o = {.config = {.backwards = 2, .bucket_bytes = 1000}};

    train_everywhere(o, some);
    o.sequence = o.tied = true;
    train_everywhere(o, only_the_first_row);
    o.recompute = WEFT_RECOMPUTE_BLOCK;
    o.config.backwards = 1;
    train_everywhere(o, some);
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
        tw_close(&t);
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
