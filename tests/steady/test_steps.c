/*
 * test_steps.c: what a training step must not do once it has run: ask malloc for memory, make a
 * plan, or redistribute what no style and no module asked to redistribute.
 */
#include "support/malloc_count.h"
#include "support/worlds.h"

enum { VOCAB = 19, CONTEXT = 6, BATCH = 2, WARM = 4, STEPS = 6 };

struct training {
    struct wt_world world;
    weft_module *gpt;
    weft_optim *adam;
    weft_tensor *tokens, *targets;
};

static weft_tensor *text(int first)
{
    int64_t shape[] = {BATCH, CONTEXT}, words[BATCH * CONTEXT];

    for (int i = 0; i < BATCH * CONTEXT; i++) words[i] = (5 * i + first) % VOCAB;
    return weft_from_data(WEFT_I64, shape, 2, words);
}

static struct training start(void)
{
    struct training t = {.world = wt_world_open()};

    weft_manual_seed(3);
    t.gpt = weft_gpt((weft_gpt_config){.vocab = VOCAB,
                                       .context = CONTEXT,
                                       .width = 24,
                                       .heads = 6,
                                       .layers = 2,
                                       .dtype = WEFT_F64});
    WT_ALL(weft_parallelize_module(t.gpt, t.world.mesh, weft_gpt_plan()) == WEFT_OK);
    t.adam = weft_adamw(t.gpt, (weft_adamw_config){.lr = 1e-3});
    t.tokens = text(0);
    t.targets = text(5);
    WT_ALL(t.adam && t.tokens && t.targets);
    return t;
}

static void end(struct training *t)
{
    weft_optim_release(t->adam);
    weft_module_release(t->gpt);
    wt_world_close(&t->world);
}

static double step(struct training *t)
{
    weft_scope *scope = weft_scope_open();
    weft_tensor *loss = weft_gpt_loss(t->gpt, t->tokens, t->targets);
    weft_status status = loss ? weft_backward(loss) : weft_error_status();
    double value = status == WEFT_OK && weft_step(t->adam) == WEFT_OK ? weft_item(loss) : -1;

    weft_optim_zero_grad(t->adam);
    weft_scope_close(scope);
    return value;
}

/* Every op, gradient and collective of a step comes from the caches. All ranks are threads of this
 * process and counted together. In f64, because oneDNN, which has no such products, asks for room
 * of its own. */
static void count_mallocs(bool in_backward)
{
    struct training t = start();
    weft_plan_cache_stats before, after;
    int64_t calls;
    double loss = 0, last = 0;

    WT_EQ(weft_optim_update_in_backward(t.adam, in_backward), WEFT_OK);
    weft_ledger_close(t.world.ledger); /* it keeps a book that grows */
    t.world.ledger = NULL;
    for (int i = 0; i < WARM; i++) last = step(&t);
    before = weft_plan_cache_statistics();
    WT_ALL(last > 0);
    calls = malloc_count();
    for (int i = 0; i < STEPS; i++) loss = step(&t);
    calls = malloc_count() - calls;
    after = weft_plan_cache_statistics();
    WT_EQ(calls, 0);
    WT_EQ(after.plan_misses, before.plan_misses);
    WT_ALL(loss > 0 && loss < last);
    t.world.ledger = weft_ledger_open();
    end(&t);
}

WT_TEST(step__asks_malloc_for_nothing)
{
    count_mallocs(false);
    count_mallocs(true);
}

/* A model under styles, its loss, clipping and the optimizer never move what nobody asked them to
 * move. (Backward sums gradients where a plain tensor entered, which the guard reports.) */
WT_TEST(step__redistributes_nothing_by_itself)
{
    struct training t = start();
    weft_guard_open(WEFT_GUARD_ERROR);
    weft_tensor *loss = weft_gpt_loss(t.gpt, t.tokens, t.targets);
    weft_status backward;

    WT_ALL(loss != NULL);
    weft_guard_close();
    backward = weft_backward(loss);
    weft_guard_open(WEFT_GUARD_ERROR);
    WT_ALL(backward == WEFT_OK && weft_clip_grad_norm(t.gpt, 1.0, NULL) == WEFT_OK);
    WT_ALL(weft_step(t.adam) == WEFT_OK);
    weft_guard_close();
    end(&t);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "steady"); }
