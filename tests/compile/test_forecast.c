/*
 * test_forecast.c: the list of a function whose tensors have no elements is that of the real
 * function: its nodes, its collectives, the bytes that it needs.
 */
/* ranks: 1 2 3 4 */
/* mpi: 2 */
#include <stdlib.h>
#include <string.h>

#include "as_immediate.h"
#include "texts.h"

enum { BATCH = 2, CONTEXT = 8, VOCAB = 19 };

struct training {
    weft_module *gpt;
    weft_optim *adam;
};

static weft_tensor *tokens(void)
{
    int64_t values[BATCH * CONTEXT], shape[] = {BATCH, CONTEXT};

    for (int64_t i = 0; i < BATCH * CONTEXT; i++) values[i] = 5 * i % VOCAB;
    return weft_from_data(WEFT_I64, shape, 2, values);
}

FUNCTION(train_step)
{
    struct training *t = state;

    out[0] = weft_gpt_loss(t->gpt, in[0], in[1]);
    if (!out[0] || weft_backward(out[0]) != WEFT_OK) return weft_error_status();
    return weft_step(t->adam);
}

static struct training new_training(weft_mesh *mesh)
{
    struct training t;

    weft_manual_seed(5);
    t.gpt = weft_gpt((weft_gpt_config){.vocab = VOCAB,
                                       .context = CONTEXT,
                                       .width = 24,
                                       .heads = 6,
                                       .layers = 2,
                                       .dropout = 0.1,
                                       .act = WEFT_GELU_TANH});
    WT_ALL(weft_parallelize_module(t.gpt, mesh, weft_gpt_plan()) == WEFT_OK);
    t.adam = weft_adamw(t.gpt, (weft_adamw_config){.lr = 1e-2});
    return t;
}

static void release_training(struct training *t)
{
    weft_optim_release(t->adam);
    weft_module_release(t->gpt);
}

/* What a replay takes, without fused chains. */
static weft_compiled_counts count_replay(struct wt_world *w, weft_compiled_function *function,
                                         void *state, weft_tensor *const *in, int n_in,
                                         int64_t *collectives)
{
    weft_compiled *compiled = weft_compile(
        function, state, (weft_compile_config){.fullgraph = true, .passes_off = "fuse"});
    weft_compiled_counts counts;
    weft_tensor *out;

    WT_ALL(weft_compiled_call(compiled, in, n_in, &out, 1) == WEFT_OK);
    weft_ledger_reset(w->ledger);
    WT_ALL(weft_compiled_call(compiled, in, n_in, &out, 1) == WEFT_OK);
    *collectives = weft_ledger_count(w->ledger, WEFT_COLL_COUNT, WEFT_DIRECTION_ANY, NULL);
    counts = weft_compiled_get_counts(compiled);
    WT_EQ(counts.replays, 1);
    weft_compiled_release(compiled);
    return counts;
}

/* A36 */
WT_TEST_IN_WORLD(forecast__of_a_training_step_is_what_a_replay_takes, w)
{
    struct training real = new_training(w->mesh), meta;
    weft_tensor *in[] = {tokens(), tokens()};
    weft_mesh *fake = wt_own(weft_mesh_new_fake(wt_rank(), "tp=%d", wt_ranks()));
    weft_compile_forecast f;
    int64_t collectives, live;
    weft_compiled_counts counts = count_replay(w, train_step, &real, in, 2, &collectives);

    weft_set_default_device(WEFT_META);
    meta = new_training(fake);
    for (int i = 0; i < 2; i++) in[i] = tokens();
    live = weft_memory_of(WEFT_MEMORY_CATEGORIES).live;
    WT_ALL(weft_compile_forecast_list(&f, train_step, &meta, in, 2, 1, NULL) == WEFT_OK);
    WT_EQ(weft_memory_of(WEFT_MEMORY_CATEGORIES).live, live);
    weft_set_default_device(WEFT_CPU);
    release_training(&meta);
    release_training(&real);
    wt_note("%lld of %lld bytes, %lld of %lld nodes", (long long)f.planned,
            (long long)counts.memory, (long long)f.nodes, (long long)counts.nodes);
    WT_EQ(f.breaks, 0);
    WT_EQ(f.collectives, wt_ranks() > 1 ? collectives : f.collectives);
    WT_EQ(f.nodes, counts.nodes);
    WT_EQ(f.planned, counts.memory);
    WT_EQ(f.kept, 4); /* the loss */
}

/* ---- views, writes in place, what is kept ---- */

FUNCTION(gather_and_change)
{
    weft_tensor *x = weft_transpose(weft_redistribute(in[0], NULL), 0, 1);

    x = weft_add_scalar(weft_matmul(in[1], x), 1);
    if (!weft_mul_scalar_(x, 2) || !weft_add_(in[1], in[1])) return weft_error_status();
    GIVE(weft_softmax(weft_slice(x, 1, 1, 7), 1));
}

/* A36: the same of rows, columns and uneven shards; and for ranks that there are not. */
WT_TEST_IN_WORLD(forecast__of_views_and_writes_is_what_a_replay_takes, w)
{
    weft_mesh *fake = wt_own(weft_mesh_new_fake(wt_rank(), "tp=%d", wt_ranks()));

    for (int layout = 0; layout < 2; layout++) {
        weft_placement placement = layout ? weft_shard(0) : weft_shard(1);
        weft_tensor *in[] = {wt_spread(w, wt_whole(WEFT_F32, 1, 9, 11), layout ? "S(0)" : "S(1)"),
                             wt_spread(w, wt_whole(WEFT_F32, 2, 5, 11), "R")};
        weft_tensor *meta[2];
        weft_compile_forecast f;
        int64_t collectives;
        weft_compiled_counts counts = count_replay(w, gather_and_change, NULL, in, 2, &collectives);

        for (int k = 0; k < 2; k++)
            meta[k] = weft_distribute_tensor(
                weft_empty_like(wt_whole(WEFT_F32, 1, k ? 5 : 9, 11), WEFT_META), fake,
                k ? (weft_placement[]){weft_replicate()} : &placement, -1);
        WT_ALL(weft_compile_forecast_list(&f, gather_and_change, NULL, meta, 2, 1, NULL) ==
               WEFT_OK);
        wt_note("%lld of %lld bytes, %lld of %lld nodes", (long long)f.planned,
                (long long)counts.memory, (long long)f.nodes, (long long)counts.nodes);
        if (wt_ranks() > 1) WT_EQ(f.collectives, collectives);
        WT_EQ(f.nodes, counts.nodes);
        WT_EQ(f.planned, counts.memory);
        WT_EQ(f.kept, 5 * 6 * 4);
        WT_EQ(f.outside, 4 * (weft_local_numel(meta[0]) + 5 * 11));
    }
}

FUNCTION(square_of_product)
{
    weft_tensor *x = weft_matmul(in[0], in[1]);

    weft_graph_break("of my own");
    GIVE(weft_mul(x, x));
}

/* On rank 5 of 64: of 640 rows it has 10. Backward reads the product again. */
WT_TEST_IN_WORLD(forecast__is_for_any_number_of_ranks, w)
{
    weft_mesh *fake = wt_own(weft_mesh_new_fake(5, "tp=64"));
    weft_placement rows[] = {weft_shard(0)}, whole[] = {weft_replicate()};
    weft_tensor *in[2];
    weft_compile_forecast f;
    char *text;

    weft_set_default_device(WEFT_META);
    in[0] = weft_distribute_tensor(weft_empty(WEFT_F32, (int64_t[]){640, 1000}, 2), fake, rows, -1);
    in[1] =
        weft_distribute_tensor(weft_empty(WEFT_F32, (int64_t[]){1000, 300}, 2), fake, whole, -1);
    weft_set_default_device(WEFT_CPU);
    weft_set_requires_grad(in[1], true);
    WT_ALL(weft_compile_forecast_list(&f, square_of_product, NULL, in, 2, 1, NULL) == WEFT_OK);
    WT_EQ(f.kept, 2 * 10 * 300 * 4);
    WT_EQ(f.outside, 4 * (10 * 1000 + 1000 * 300));
    WT_EQ(f.planned, 0);
    WT_EQ(f.nodes, 2);
    WT_EQ(f.collectives, 0);
    WT_EQ(f.breaks, 1);
    text = TEXT_OF(
        WT_ALL(weft_compile_explain_print(square_of_product, NULL, in, 2, 1, out) == WEFT_OK));
    WT_ALL(wt_text_has(text, "2 graphs with 1 graph break and 2 ops\n"));
    free(text);
}

WT_TEST_IN_WORLD(forecast__is_of_tensors_without_elements, w)
{
    weft_tensor *in[] = {wt_whole(WEFT_F32, 1, 4, 4), wt_whole(WEFT_F32, 2, 4, 4)};
    weft_compile_forecast f;

    WT_FAILS(weft_compile_forecast_list(&f, square_of_product, NULL, in, 2, 1, NULL),
             WEFT_ERR_STATE, "input 0 has elements");
    WT_FAILS(weft_compile_forecast_list(&f, NULL, NULL, in, 2, 1, NULL), WEFT_ERR_ARG,
             "no function");
}

int main(int argc, char **argv) { return wt_main(argc, argv, "forecast"); }
