/* test_messages.c: how many messages a step of replicas takes, how long they are, and when they
 * go. */
/* ranks: 1 2 3 4 6 8 */
#include <stdlib.h>
#include <string.h>

#include "data_parallel/twins.h"
#include "device/timeline.h"

static weft_ledger_sum total(struct twins *t, weft_coll kind, weft_direction direction)
{
    return weft_ledger_total(t->world.ledger, kind, direction, NULL);
}

/* ---- what buckets there should be ---- */

struct packing {
    size_t open; /* bytes of the bucket that is being filled */
    int64_t buckets, bytes, parameters, trained;
    size_t sizes[64];
};

static weft_status list(weft_module *m, const char *name, weft_tensor *parameter, void *payload)
{
    struct packing *p = payload;
    size_t bytes = (size_t)weft_local_numel(parameter) * sizeof(double);

    (void)m;
    (void)name;
    p->parameters++;
    if (weft_requires_grad(parameter)) p->sizes[p->trained++] = bytes;
    return WEFT_OK;
}

/* From the last parameter to the first, where each bucket takes what fits in from all that are
 * left.
 */
static struct packing pack(weft_module *model, size_t limit)
{
    struct packing p = {0};
    bool done[64] = {false};

    weft_module_each_parameter(model, list, &p);
    for (int64_t i = p.trained - 1; i >= 0; i--) {
        if (done[i]) continue;
        p.open = 0;
        for (int64_t k = i; k >= 0; k--) {
            if (done[k]) continue;
            if (p.open && p.open + p.sizes[k] > limit) break;
            p.open += p.sizes[k];
            done[k] = true;
        }
        p.buckets += p.open > 0; /* nothing is sent of nothing */
        p.bytes += (int64_t)p.open;
    }
    return p;
}

/* The numbers that replicas tell each other: two, and two per parameter. */
static int64_t news_bytes(const struct packing *p) { return 8 * (2 + 2 * p->parameters); }

/* ---- the default: everything when gradients are asked for ---- */

static void step_in_buckets(int dp, int backwards, struct tw_options o)
{
    struct twins t = tw_open(dp, wt_ranks() / dp, o);
    size_t limit = o.config.bucket_bytes ? o.config.bucket_bytes : 25 << 20;
    struct packing p = pack(t.replica, limit);
    bool alone = dp == 1;

    for (int step = 0; step < 2; step++) {
        int64_t others = 0;

        for (int i = 0; i < backwards; i++) {
            weft_ledger_sum sum;

            weft_ledger_reset(t.world.ledger);
            tw_backward(&t, i, 1, tw_all);
            sum = total(&t, WEFT_COLL_COUNT, WEFT_DIRECTION_ANY);
            WT_ALL(i == 0 || sum.count == others); /* the styles' own */
            if (dp == wt_ranks()) WT_EQ(sum.count, 0);
            others = sum.count;
        }
        weft_ledger_reset(t.world.ledger);
        WT_EQ(weft_step(t.replica_optim), WEFT_OK);
        WT_EQ(total(&t, WEFT_COLL_ALL_REDUCE, WEFT_DIRECTION_OPTIM).count,
              alone ? 0 : p.buckets + 1);
        WT_EQ(total(&t, WEFT_COLL_ALL_REDUCE, WEFT_DIRECTION_OPTIM).bytes,
              alone ? 0 : p.bytes + news_bytes(&p));
        WT_EQ(total(&t, WEFT_COLL_COUNT, WEFT_DIRECTION_ANY).count, alone ? 0 : p.buckets + 1);
    }
}

WT_TEST(step__reduces_each_bucket_once)
{
    for (int dp = 0, tp; tw_next_mesh(&dp, &tp);) {
        step_in_buckets(dp, 1, (struct tw_options){0});
        step_in_buckets(dp, 3, (struct tw_options){.config.bucket_bytes = 1000});
        step_in_buckets(dp, 2, (struct tw_options){.config.bucket_bytes = 1, .tied = true});
        step_in_buckets(dp, 1, (struct tw_options){.frozen = "blocks.1.attn.qkv.weight"});
    }
}

WT_TEST(step__after_clipping_sends_nothing_more)
{
    struct twins t = tw_open(wt_ranks(), 1, (struct tw_options){0});
    double norm;

    tw_backward(&t, 0, 1, tw_all);
    WT_EQ(weft_clip_grad_norm(t.replica, 1, &norm), WEFT_OK);
    weft_ledger_reset(t.world.ledger);
    WT_EQ(weft_step(t.replica_optim), WEFT_OK);
    WT_EQ(total(&t, WEFT_COLL_COUNT, WEFT_DIRECTION_ANY).count, 0);
}

/* Gradients of norms are partial along tp: one all-reduce there for all, then the buckets. */
WT_TEST(step__with_sequence_parallelism_reduces_norms_together)
{
    for (int dp = 0, tp; tw_next_mesh(&dp, &tp);) {
        struct twins t = tw_open(dp, tp, (struct tw_options){.sequence = true});
        int64_t along_dp = dp > 1 ? 2 : 0, along_tp = tp > 1 ? 1 : 0;

        tw_backward(&t, 0, 1, tw_all);
        weft_ledger_reset(t.world.ledger);
        WT_EQ(weft_step(t.replica_optim), WEFT_OK);
        WT_EQ(total(&t, WEFT_COLL_COUNT, WEFT_DIRECTION_ANY).count, along_dp + along_tp);
        WT_EQ(total(&t, WEFT_COLL_ALL_REDUCE, WEFT_DIRECTION_OPTIM).count, along_dp + along_tp);
    }
}

/* ---- buckets that leave during the last backward ---- */

/* Whether GPUs were given the first sum of gradients before the last product for another gradient:
 * each in its stream, and the streams run beside each other. */
static bool sums_go_beside_products(void)
{
    int n, first_sum = -1, last_product = -1;
    const struct wf_span *spans = wf_timeline_read(&n);

    for (int i = 0; i < n; i++) {
        if (first_sum < 0 && strcmp(spans[i].name, "all-reduce") == 0) first_sum = i;
        if (strcmp(spans[i].name, "linear_dw") == 0) last_product = i;
    }
    wt_note("%d spans, the first sum is %d, the last product %d", n, first_sum, last_product);
    return first_sum >= 0 && spans[first_sum].stream == WF_STREAM_COMM && first_sum < last_product;
}

/* By NCCL, as the test of the stand-in for it says. */
static bool gpus_sum(void)
{
    const char *backend = getenv("WT_BACKEND");

    return wt_ranks() > 1 && backend && strcmp(backend, "nccl") == 0;
}

WT_TEST(backward__sends_what_is_complete)
{
    struct tw_options o = {.config = {.bucket_bytes = 1000, .backwards = 2}};
    struct twins t = tw_open(wt_ranks(), 1, o);
    struct packing p = pack(t.replica, 1000);
    int64_t others = wt_ranks() > 1;

    for (int step = 0; step < 2; step++) {
        weft_ledger_reset(t.world.ledger);
        wf_timeline_start();
        tw_backward(&t, 0, 2, tw_all);
        WT_ALL(!gpus_sum() || sums_go_beside_products());
        wf_timeline_stop();
        WT_EQ(weft_step(t.replica_optim), WEFT_OK);
        WT_EQ(total(&t, WEFT_COLL_ALL_REDUCE, WEFT_DIRECTION_ANY).count, others * (p.buckets + 1));
        WT_EQ(total(&t, WEFT_COLL_ALL_REDUCE, WEFT_DIRECTION_OPTIM).count, others);
        WT_EQ(total(&t, WEFT_COLL_ALL_REDUCE, WEFT_DIRECTION_BACKWARD).count, others * p.buckets);
    }
}

/* ---- parameters cut over the replicas ---- */

WT_TEST(cut__gathers_before_and_scatters_after)
{
    for (int dp = 0, tp; tw_next_mesh(&dp, &tp);) {
        struct tw_options o = {.config.shard = true, .frozen = "blocks.1.mlp.down.bias"};
        struct twins t = tw_open(dp, tp, o);
        struct packing p = pack(t.replica, 1 << 20);
        weft_tensor *loss = tw_loss(t.replica, 0, t.me, t.replicas, tw_all);
        int64_t others = dp > 1;

        WT_EQ(total(&t, WEFT_COLL_ALL_GATHER, WEFT_DIRECTION_FORWARD).count, others * p.parameters);
        weft_ledger_reset(t.world.ledger);
        WT_EQ(weft_data_parallel_backward(t.replica, loss, 1), WEFT_OK);
        WT_EQ(total(&t, WEFT_COLL_REDUCE_SCATTER, WEFT_DIRECTION_BACKWARD).count,
              others * p.trained);
        WT_EQ(total(&t, WEFT_COLL_ALL_GATHER, WEFT_DIRECTION_BACKWARD).count, 0);
        weft_ledger_reset(t.world.ledger);
        WT_EQ(weft_step(t.replica_optim), WEFT_OK);
        WT_EQ(total(&t, WEFT_COLL_COUNT, WEFT_DIRECTION_ANY).count, others);
    }
}

int main(int argc, char **argv) { return wt_main(argc, argv, "messages"); }
