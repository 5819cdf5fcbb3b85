/*
 * test_steady.c: what writing one more token must not do once it has run: ask malloc for memory,
 * make a plan, or send more than it must.
 */
#include "support/malloc_count.h"
#include "support/worlds.h"

enum { VOCAB = 37, BATCH = 2, ROOM = 32, WARM = 6, STEPS = 8 };

static int32_t newest[8][BATCH]; /* per rank */

static bool write_token(weft_module *gpt)
{
    weft_scope *scope = weft_scope_open();
    int64_t shape[] = {BATCH, 1};
    int32_t *mine = newest[wt_rank()];
    weft_tensor *best =
        weft_argmax(weft_gpt_next(gpt, weft_from_data(WEFT_I32, shape, 2, mine)), 1);
    const int64_t *index = best ? weft_data(weft_to_local(best, NULL)) : NULL;

    for (int b = 0; index && b < BATCH; b++) mine[b] = (int32_t)index[b];
    weft_scope_close(scope);
    return index != NULL;
}

WT_TEST(token__asks_malloc_for_nothing)
{
    struct wt_world w = wt_world_open();
    weft_module *gpt = wt_own(weft_gpt((weft_gpt_config){
        .vocab = VOCAB, .context = ROOM, .width = 40, .heads = 5, .layers = 2, .tied = true}));
    weft_plan_cache_stats before, after;
    int64_t calls;
    bool written = true;

    WT_ALL(weft_parallelize_module(gpt, w.mesh, weft_gpt_plan()) == WEFT_OK);
    weft_module_train(gpt, false);
    weft_no_grad_open();
    WT_ALL(weft_module_cache(gpt, ROOM) == WEFT_OK);
    weft_ledger_close(w.ledger); /* it keeps a book that grows */
    w.ledger = NULL;
    for (int i = 0; i < WARM; i++) written = write_token(gpt) && written;
    WT_ALL(written);
    before = weft_plan_cache_statistics();
    calls = malloc_count();
    for (int i = 0; i < STEPS; i++) written = write_token(gpt) && written;
    calls = malloc_count() - calls;
    after = weft_plan_cache_statistics();
    WT_ALL(written);
    WT_EQ(calls, 0);
    WT_EQ(after.plan_misses, before.plan_misses);
    weft_no_grad_close();
    w.ledger = weft_ledger_open();
    wt_world_close(&w);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "steady"); }
