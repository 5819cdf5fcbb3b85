/*
 * test_next.c: what a model says of the next token: with keys and values remembered as without, the
 * prompt whole or in pieces, on any number of ranks.
 */
/* ranks: 1 2 3 4 5 6 8 */
/* mpi: 2 3 */
#include <string.h>

#include "support/worlds.h"

enum { VOCAB = 37, WIDTH = 40, HEADS = 5, LENGTH = 24, BATCH = 2 };

static const struct wt_tolerance close_to = {1e-5, 1e-5};

static weft_module *new_gpt(weft_dtype dtype)
{
    return weft_gpt((weft_gpt_config){.vocab = VOCAB,
                                      .context = LENGTH,
                                      .width = WIDTH,
                                      .heads = HEADS,
                                      .layers = 2,
                                      .tied = true,
                                      .dtype = dtype});
}

static weft_module *llama(int64_t kv_heads, int layers, bool by_heads, weft_dtype dtype)
{
    return weft_llama((weft_llama_config){.vocab = VOCAB,
                                          .width = WIDTH,
                                          .heads = 10,
                                          .kv_heads = kv_heads,
                                          .layers = layers,
                                          .by_heads = by_heads,
                                          .dtype = dtype});
}

static weft_module *new_llama(weft_dtype dtype) { return llama(5, 2, false, dtype); }
/* More ranks than these have keys. */
static weft_module *new_narrow(weft_dtype dtype) { return llama(2, 1, false, dtype); }
/* There every rank computes keys for the heads it has. */
static weft_module *new_by_heads(weft_dtype dtype) { return llama(2, 1, true, dtype); }

static const struct {
    const char *name;
    weft_module *(*make)(weft_dtype dtype);
} models[] = {{"gpt", new_gpt},
              {"llama", new_llama},
              {"llama of few keys", new_narrow},
              {"llama by heads", new_by_heads}};
enum { MODELS = sizeof models / sizeof *models };

/* Tokens [first, first + n) of every sequence. */
static weft_tensor *text(int64_t first, int64_t n)
{
    weft_tensor *t = weft_empty(WEFT_I32, (int64_t[]){BATCH, n}, 2);
    int32_t *ids = weft_data(t);

    for (int64_t b = 0; b < BATCH; b++)
        for (int64_t i = 0; i < n; i++)
            ids[b * n + i] = (int32_t)((7 * (first + i) + 11 * b) % VOCAB);
    return t;
}

static weft_module *spread(struct wt_world *w, weft_module *m)
{
    weft_module_train(m, false);
    WT_EQ(weft_parallelize_module(m, w->mesh, weft_gpt_plan()), WEFT_OK);
    return m;
}

/* The last position's logits of the first n tokens, by the whole sequence. */
static weft_tensor *recomputed(weft_module *m, int64_t n)
{
    return weft_select(weft_call(m, text(0, n)), 1, n - 1);
}

static weft_module *made(int i)
{
    weft_manual_seed(5);
    return wt_own(models[i].make(WEFT_F32));
}

/* A row of a case begins: one model, spread. */
static weft_module *row(struct wt_world *w, int i)
{
    wt_row("%s", models[i].name);
    return spread(w, made(i));
}

/* From the start, the prompt in pieces of `chunk`, then token by token. */
static void check_pieces(weft_module *m, weft_module *plain, int64_t prompt, int64_t chunk)
{
    WT_ALL(weft_module_cache(m, LENGTH) == WEFT_OK);
    for (int64_t at = 0; at < LENGTH;) {
        int64_t n = at >= prompt ? 1 : at + chunk < prompt ? chunk : prompt - at;
        weft_scope *scope = weft_scope_open();
        weft_tensor *next = weft_gpt_next(m, text(at, n));

        at += n;
        WT_ALL(wt_has_shape(next, 2, BATCH, VOCAB));
        WT_EQ(weft_module_cached(m), at);
        WT_ALL(wt_near_tensors(next, recomputed(plain, at), close_to));
        weft_scope_close(scope);
    }
    WT_ALL(weft_module_cache(m, 0) == WEFT_OK);
}

WT_TEST(next__with_a_cache_is_what_the_whole_sequence_says)
{
    struct wt_world w = wt_world_open();

    for (int i = 0; i < MODELS; i++) {
        weft_module *m = row(&w, i), *plain = made(i);

        weft_module_train(plain, false);
        weft_no_grad_open();
        check_pieces(m, plain, 10, 10);
        check_pieces(m, plain, 11, 4);
        check_pieces(m, plain, 1, 1);
        weft_no_grad_close();
    }
}

WT_TEST(next__without_a_cache_is_the_last_position)
{
    struct wt_world w = wt_world_open();

    for (int i = 0; i < MODELS; i++) {
        weft_module *m = row(&w, i);

        WT_ALL(wt_near_tensors(weft_gpt_next(m, text(0, 9)), recomputed(m, 9), close_to));
    }
}

/* They go through the rows of their own; 8 or 11 bits of precision through two layers. */
static void check_near(weft_dtype dtype, double within)
{
    struct wt_world w = wt_world_open();
    weft_module *m, *plain = made(0);

    weft_manual_seed(5);
    m = spread(&w, wt_own(new_gpt(dtype)));
    weft_no_grad_open();
    weft_module_train(plain, false);
    WT_ALL(weft_module_cache(m, LENGTH) == WEFT_OK);
    weft_gpt_next(m, text(0, 7));
    WT_ALL(wt_near_tensors(weft_cast(weft_gpt_next(m, text(7, 1)), WEFT_F32), recomputed(plain, 8),
                           WT_WITHIN(within)));
    weft_no_grad_close();
}

WT_TEST(next__in_bf16_is_near) { check_near(WEFT_BF16, 0.03); }
WT_TEST(next__in_f16_is_near) { check_near(WEFT_F16, 0.004); }

/* Nothing is counted, and nothing hangs; what fitted still does. */
WT_TEST(next__a_full_cache_is_an_error)
{
    struct wt_world w = wt_world_open();

    for (int i = 0; i < MODELS; i++) {
        weft_module *m = row(&w, i);

        weft_no_grad_open();
        WT_ALL(weft_module_cache(m, 6) == WEFT_OK);
        WT_ALL(weft_gpt_next(m, text(0, 5)) != NULL);
        WT_FAILS(weft_gpt_next(m, text(5, 2)), WEFT_ERR_SHAPE, "2");
        WT_ALL(weft_gpt_next(m, text(5, 1)) != NULL);
        weft_no_grad_close();
    }
}

WT_TEST(next__refuses_other_modules)
{
    weft_module *m = wt_own(weft_sequential_new());

    WT_FAILS(weft_gpt_next(m, text(0, 3)), WEFT_ERR_ARG, "sequential");
}

/* One all-reduce for the embedding and two per block, of one token's features each. */
WT_TEST(next__sends_one_token)
{
    struct wt_world w = wt_world_open();
    weft_module *m = spread(&w, made(0));
    int ways = wt_ranks() > 1;

    weft_no_grad_open();
    WT_ALL(weft_module_cache(m, LENGTH) == WEFT_OK);
    weft_gpt_next(m, text(0, 8));
    weft_ledger_reset(w.ledger);
    weft_gpt_next(m, text(8, 1));
    WT_EQ(weft_ledger_count(w.ledger, WEFT_COLL_COUNT, WEFT_DIRECTION_ANY, NULL), 5 * ways);
    WT_EQ(weft_ledger_bytes(w.ledger, WEFT_COLL_ALL_REDUCE, WEFT_DIRECTION_ANY, NULL),
          5 * ways * BATCH * WIDTH * (int64_t)sizeof(float));
    weft_no_grad_close();
}

int main(int argc, char **argv) { return wt_main(argc, argv, "next"); }
