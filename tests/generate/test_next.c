/*
 * test_next.c: what a model says of the next token: with keys and values remembered as without, the
 * prompt whole or in pieces, on any number of ranks.
 */
/* ranks: 1 2 3 4 5 6 8 */
/* mpi: 2 3 */
#include <string.h>

#include "support/worlds.h"

enum { VOCAB = 37, WIDTH = 40, HEADS = 5, KV = 5, LENGTH = 24, BATCH = 2 };

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

static weft_module *new_llama(weft_dtype dtype)
{
    return weft_llama((weft_llama_config){.vocab = VOCAB,
                                          .width = WIDTH,
                                          .heads = 2 * KV,
                                          .kv_heads = KV,
                                          .layers = 2,
                                          .dtype = dtype});
}

/* More ranks than these have keys. */
static weft_module *new_narrow(weft_dtype dtype)
{
    return weft_llama((weft_llama_config){
        .vocab = VOCAB, .width = WIDTH, .heads = 10, .kv_heads = 2, .layers = 1, .dtype = dtype});
}

/* There every rank computes keys for the heads it has. */
static weft_module *new_by_heads(weft_dtype dtype)
{
    return weft_llama((weft_llama_config){.vocab = VOCAB,
                                          .width = WIDTH,
                                          .heads = 10,
                                          .kv_heads = 2,
                                          .layers = 1,
                                          .by_heads = true,
                                          .dtype = dtype});
}

static weft_module *(*const models[])(weft_dtype) = {new_gpt, new_llama, new_narrow, new_by_heads};
enum { MODELS = sizeof models / sizeof *models };

/* Tokens [first, first + n) of every sequence. */
static weft_tensor *text(int64_t first, int64_t n)
{
    weft_tensor *t = weft_empty(WEFT_I32, 2, (int64_t[]){BATCH, n});
    int32_t *ids = weft_data(t);

    for (int64_t b = 0; b < BATCH; b++)
        for (int64_t i = 0; i < n; i++)
            ids[b * n + i] = (int32_t)((7 * (first + i) + 11 * b) % VOCAB);
    return t;
}

static weft_module *spread(struct wt_world *w, weft_module *m)
{
    weft_module_train(m, false);
    return weft_parallelize_module(m, w->mesh, weft_gpt_plan()) == WEFT_OK ? m : NULL;
}

/* The last position's logits of the first n tokens, by the whole sequence. */
static weft_tensor *recomputed(weft_module *m, int64_t n)
{
    return weft_select(weft_call(m, text(0, n)), 1, n - 1);
}

static weft_module *made(int i)
{
    weft_manual_seed(5);
    return models[i](WEFT_F32);
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
    for (int i = 0; i < MODELS; i++) {
        struct wt_world w = wt_world_open();
        weft_module *plain = made(i), *m = spread(&w, made(i));

        WT_ALL(m != NULL);
        weft_module_train(plain, false);
        weft_no_grad_open();
        check_pieces(m, plain, 10, 10);
        check_pieces(m, plain, 11, 4);
        check_pieces(m, plain, 1, 1);
        weft_no_grad_close();
        weft_module_release(m);
        weft_module_release(plain);
        wt_world_close(&w);
    }
}

WT_TEST(next__without_a_cache_is_the_last_position)
{
    for (int i = 0; i < MODELS; i++) {
        struct wt_world w = wt_world_open();
        weft_module *m = spread(&w, made(i));

        WT_ALL(wt_near_tensors(weft_gpt_next(m, text(0, 9)), recomputed(m, 9), close_to));
        weft_module_release(m);
        wt_world_close(&w);
    }
}

/* bf16 goes through the rows of its own; 8 bits of precision through two layers. */
WT_TEST(next__in_bf16_is_near)
{
    struct wt_world w = wt_world_open();
    weft_module *m, *plain = made(0);

    weft_manual_seed(5);
    m = spread(&w, new_gpt(WEFT_BF16));
    weft_no_grad_open();
    weft_module_train(plain, false);
    WT_ALL(weft_module_cache(m, LENGTH) == WEFT_OK);
    weft_gpt_next(m, text(0, 7));
    WT_ALL(wt_near_tensors(weft_cast(weft_gpt_next(m, text(7, 1)), WEFT_F32), recomputed(plain, 8),
                           WT_WITHIN(0.03)));
    weft_no_grad_close();
    weft_module_release(m);
    weft_module_release(plain);
    wt_world_close(&w);
}

/* Nothing is counted, and nothing hangs; what fitted still does. */
WT_TEST(next__a_full_cache_is_an_error)
{
    for (int i = 0; i < MODELS; i++) {
        struct wt_world w = wt_world_open();
        weft_module *m = spread(&w, made(i));

        weft_no_grad_open();
        WT_ALL(weft_module_cache(m, 6) == WEFT_OK);
        WT_ALL(weft_gpt_next(m, text(0, 5)) != NULL);
        WT_ALL(!weft_gpt_next(m, text(5, 2)));
        WT_FAILED(WEFT_ERR_SHAPE, "2");
        WT_ALL(weft_gpt_next(m, text(5, 1)) != NULL);
        weft_no_grad_close();
        weft_module_release(m);
        wt_world_close(&w);
    }
}

WT_TEST(next__refuses_other_modules)
{
    weft_module *m = weft_sequential_new();

    WT_ALL(!weft_gpt_next(m, text(0, 3)));
    WT_FAILED(WEFT_ERR_ARG, "sequential");
    weft_module_release(m);
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
    weft_module_release(m);
    wt_world_close(&w);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "next"); }
