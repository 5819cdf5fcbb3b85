/* test_replicas.c: a step of replicas that has run before asks malloc for nothing either. */
#include "support/malloc_count.h"
#include "support/worlds.h"

enum { VOCAB = 19, CONTEXT = 6, WARM = 4, STEPS = 4 };

static weft_tensor *words(int rows, int first)
{
    int64_t shape[] = {rows, CONTEXT}, text[2 * CONTEXT];

    for (int i = 0; i < rows * CONTEXT; i++) text[i] = (5 * i + first) % VOCAB;
    return weft_from_data(WEFT_I64, shape, 2, text);
}

static weft_status step(weft_module *gpt, weft_optim *adam, weft_tensor *in, weft_tensor *target)
{
    weft_scope *scope = weft_scope_open();
    weft_status status = WEFT_OK;

    for (int i = 0; i < 2 && status == WEFT_OK; i++)
        status = weft_data_parallel_backward(gpt, weft_gpt_loss(gpt, in, target), CONTEXT);
    if (status == WEFT_OK) status = weft_step(adam);
    weft_scope_close(scope);
    return status;
}

static void train(int dp, int fsdp, int tp, weft_data_parallel_config config)
{
    struct wt_world w = wt_world_open_mesh("dp=%d,fsdp=%d,tp=%d", dp, fsdp, tp);
    weft_mesh *replicas = weft_mesh_sub(w.mesh, "dp,fsdp"), *styles = weft_mesh_sub(w.mesh, "tp");
    weft_module *gpt;
    weft_optim *adam;
    weft_tensor *in = words(2, 0), *target = words(2, 5);
    weft_status status = WEFT_OK;
    weft_plan_cache_stats before, after;
    int64_t calls;

    weft_manual_seed(3);
    gpt = weft_gpt((weft_gpt_config){.vocab = VOCAB,
                                     .context = CONTEXT,
                                     .width = 24,
                                     .heads = 6,
                                     .layers = 2,
                                     .dtype = WEFT_F64});
    WT_EQ(weft_parallelize_module(gpt, styles, weft_gpt_plan_sequence()), WEFT_OK);
    WT_EQ(weft_data_parallel(gpt, replicas, config), WEFT_OK);
    adam = weft_adamw(gpt, (weft_adamw_config){.lr = 1e-3});
    weft_ledger_close(w.ledger); /* it keeps a book that grows */
    for (int i = 0; i < WARM; i++) WT_EQ(step(gpt, adam, in, target), WEFT_OK);
    before = weft_plan_cache_statistics();
    WT_ALL(true); /* every rank has come so far: their calls of malloc are counted together */
    calls = malloc_count();
    for (int i = 0; i < STEPS && status == WEFT_OK; i++) status = step(gpt, adam, in, target);
    calls = malloc_count() - calls;
    after = weft_plan_cache_statistics();
    WT_EQ(status, WEFT_OK);
    WT_EQ(calls, 0);
    WT_EQ(after.plan_misses, before.plan_misses);
    w.ledger = weft_ledger_open();
    weft_optim_release(adam);
    weft_module_release(gpt);
    WT_RELEASE(weft_mesh_release, replicas, styles);
    wt_world_close(&w);
}

WT_TEST(step__of_replicas_asks_malloc_for_nothing)
{
    for (int dp = 1; dp <= wt_ranks(); dp++) {
        if (wt_ranks() % dp) continue;
        train(dp, 1, wt_ranks() / dp, (weft_data_parallel_config){.bucket_bytes = 20000});
        train(dp, 1, wt_ranks() / dp, (weft_data_parallel_config){.backwards = 2});
        train(dp, 1, wt_ranks() / dp, (weft_data_parallel_config){.shard = true});
        train(dp, wt_ranks() / dp, 1, (weft_data_parallel_config){.shard_axes = "fsdp"});
    }
}

int main(int argc, char **argv) { return wt_main(argc, argv, "steady replicas"); }
