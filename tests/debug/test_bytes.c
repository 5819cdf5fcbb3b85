/*
 * test_bytes.c: what models send, byte for byte, against closed forms: with A the bytes of an
 * activation [tokens, width] and k = (t-1)/t A, tensor parallelism sends 2 k in each direction of
 * an MLP and of attention, however the sequence is spread.
 */
/* ranks: 1 2 3 4 8 */
/* mpi: 2 */
#include "debug/models.h"
#include "support/worlds.h"

static const weft_direction FORWARD = WEFT_DIRECTION_FORWARD, BACKWARD = WEFT_DIRECTION_BACKWARD;

static int64_t sent(const struct wt_world *w, weft_direction direction)
{
    return weft_ledger_total(w->ledger, WEFT_COLL_COUNT, direction, NULL).sent;
}

/* (t-1)/t of an f32 activation; sizes are multiples of t. */
static int64_t k_of(int64_t tokens, int64_t width)
{
    return tokens * width * 4 / wt_ranks() * (wt_ranks() - 1);
}

/* Plain input and output: each rank holds all tokens, or its share of them. */
static void train(struct wt_world *w, weft_module *m, int64_t tokens, int64_t width)
{
    weft_tensor *x = wt_whole3(WEFT_F32, 0, 1, tokens, width);

    weft_set_requires_grad(x, true);
    weft_ledger_reset(w->ledger);
    WT_ALL(weft_backward(weft_sum_all(weft_call(m, x))) == WEFT_OK);
    weft_module_release(m);
}

static weft_module *block(struct wt_world *w, int64_t width)
{
    const weft_plan plan[] = {{"attn.qkv", weft_colwise_parallel()},
                              {"attn.proj", weft_rowwise_parallel()},
                              {"mlp.up", weft_colwise_parallel()},
                              {"mlp.down", weft_rowwise_parallel()},
                              {0}};
    weft_module *m = weft_block_new((weft_block_config){.width = width, .heads = 8});

    WEFT_CHECK(weft_parallelize_module(m, w->mesh, plan));
    return m;
}

WT_TEST_IN_WORLD(bytes__block_sends_8k, w)
{
    for (int64_t tokens = 3; tokens <= 5; tokens += 2) {
        int64_t t = wt_ranks(), k = k_of(tokens * t, 48);

        train(w, block(w, 48), tokens * t, 48);
        WT_EQ(sent(w, FORWARD), 4 * k);
        WT_EQ(sent(w, BACKWARD), 4 * k);
        WT_EQ(weft_ledger_total(w->ledger, WEFT_COLL_ALL_REDUCE, FORWARD, "mlp.down").sent, 2 * k);
        WT_EQ(weft_ledger_total(w->ledger, WEFT_COLL_ALL_REDUCE, BACKWARD, "mlp.up").sent, 2 * k);
        WT_EQ(weft_ledger_total(w->ledger, WEFT_COLL_ALL_REDUCE, FORWARD, "attn.proj").sent, 2 * k);
        WT_EQ(weft_ledger_total(w->ledger, WEFT_COLL_ALL_REDUCE, BACKWARD, "attn.qkv").sent, 2 * k);
    }
}

/* The sequence stays sharded outside: what an all-reduce did, a gather and a scatter do. */
WT_TEST_IN_WORLD(bytes__mlp_with_a_sharded_sequence_sends_4k, w)
{
    static const weft_style_options in = {.input_layouts = "S(1)"},
                                    out = {.output_layouts = "S(1)"};
    const weft_plan plan[] = {
        {"up", weft_colwise_parallel_with(in)}, {"down", weft_rowwise_parallel_with(out)}, {0}};

    for (int64_t share = 2; share <= 5; share += 3) {
        weft_module *m = weft_mlp((weft_mlp_config){.in = 24, .hidden = 48, .out = 24});
        int64_t k = k_of(share * wt_ranks(), 24);

        WEFT_CHECK(weft_parallelize_module(m, w->mesh, plan));
        train(w, m, share, 24);
        WT_EQ(weft_ledger_total(w->ledger, WEFT_COLL_ALL_GATHER, FORWARD, "up").sent, k);
        WT_EQ(weft_ledger_total(w->ledger, WEFT_COLL_REDUCE_SCATTER, FORWARD, "down").sent, k);
        WT_EQ(weft_ledger_total(w->ledger, WEFT_COLL_ALL_GATHER, BACKWARD, "down").sent, k);
        WT_EQ(weft_ledger_total(w->ledger, WEFT_COLL_REDUCE_SCATTER, BACKWARD, "up").sent, k);
        WT_EQ(sent(w, FORWARD) + sent(w, BACKWARD), 4 * k);
    }
}

static weft_tensor *indices(int64_t tokens, int64_t below)
{
    weft_tensor *t = weft_empty(WEFT_I32, (int64_t[]){1, tokens}, 2);
    int32_t *data = weft_data(t);

    for (int64_t i = 0; i < tokens; i++) data[i] = (int32_t)((i * 7 + 3) % below);
    return t;
}

static void embed(struct wt_world *w, int64_t tokens, int64_t width, const char *output, int64_t k)
{
    weft_module *m = weft_embedding_new((weft_embedding_config){.rows = 40, .width = width});
    const weft_plan plan[] = {
        {"", weft_rowwise_parallel_with((weft_style_options){.output_layouts = output})}, {0}};

    WEFT_CHECK(weft_parallelize_module(m, w->mesh, plan));
    weft_ledger_reset(w->ledger);
    WT_ALL(weft_call(m, indices(tokens, 40)) != NULL);
    WT_EQ(sent(w, FORWARD), k);
    weft_module_release(m);
}

WT_TEST_IN_WORLD(bytes__embedding_rows_send_2k_or_k, w)
{
    int64_t tokens = 4 * wt_ranks();

    embed(w, tokens, 24, "R", 2 * k_of(tokens, 24));
    embed(w, tokens, 16, "R", 2 * k_of(tokens, 16));
    embed(w, tokens, 24, "S(1)", k_of(tokens, 24));
}

/* A maximum of 4 bytes and two sums of 4 bytes per token, and nothing backward. */
WT_TEST_IN_WORLD(bytes__loss_over_sharded_classes_sends_12_bytes_per_token, w)
{
    const weft_plan plan[] = {{"", weft_cross_entropy_parallel()}, {0}};
    weft_placement classes = weft_shard(-1);

    for (int64_t share = 1; share <= 6; share += 5) {
        int64_t tokens = share * wt_ranks();
        weft_module *m = weft_cross_entropy_new((weft_cross_entropy_config){.classes = 50});
        weft_tensor *logits =
            weft_distribute_tensor(wt_whole3(WEFT_F32, 0, 1, tokens, 50), w->mesh, &classes, -1);
        weft_tensor *pair[] = {logits, indices(tokens, 50)};

        weft_set_requires_grad(logits, true);
        WEFT_CHECK(weft_parallelize_module(m, w->mesh, plan));
        weft_ledger_reset(w->ledger);
        WT_ALL(weft_backward(weft_call_n(m, pair, 2)) == WEFT_OK);
        WT_EQ(sent(w, FORWARD), 12 * tokens * 2 / wt_ranks() * (wt_ranks() - 1));
        WT_EQ(sent(w, BACKWARD), 0);
        weft_module_release(m);
    }
}

static weft_status spread_rows(weft_module *m, weft_tensor **inputs, int n, weft_mesh *mesh,
                               void *payload)
{
    weft_placement rows = weft_shard(0);

    (void)m;
    (void)n;
    (void)payload;
    inputs[0] = weft_from_local(inputs[0], mesh, &rows, NULL);
    return inputs[0] ? WEFT_OK : weft_error_status();
}

/* Data parallelism: 2 (d-1)/d of the parameters' bytes per step, all in one. */
WT_TEST_IN_WORLD(bytes__data_parallel_step_sends_its_gradients_once, w)
{
    for (int64_t width = 16; width <= 48; width += 32) {
        weft_module *m = weft_mlp((weft_mlp_config){.in = width, .hidden = 32, .out = width});
        weft_ledger_sum sum;
        weft_optim *sgd;

        WEFT_CHECK(weft_distribute_module(m, w->mesh, NULL, spread_rows, NULL, NULL));
        sgd = weft_sgd(m, (weft_sgd_config){.lr = 0.1});
        weft_ledger_reset(w->ledger);
        WT_ALL(weft_backward(weft_sum_all(weft_call(m, wt_whole(WEFT_F32, 0, 5, width)))) ==
               WEFT_OK);
        WT_ALL(weft_step(sgd) == WEFT_OK);
        sum = weft_ledger_total(w->ledger, WEFT_COLL_ALL_REDUCE, WEFT_DIRECTION_OPTIM, NULL);
        WT_EQ(sum.sent, 2 * weft_module_numel(m) * (wt_ranks() - 1) / wt_ranks() * 4);
        WT_EQ(sum.count, wt_ranks() > 1);
        WT_EQ(sum.coalesced, wt_ranks() > 1);
        weft_optim_release(sgd);
        weft_module_release(m);
    }
}

static weft_status spread_tokens(weft_module *m, weft_tensor **inputs, int n, weft_mesh *mesh,
                                 void *payload)
{
    weft_placement tokens = weft_shard(1);

    (void)m;
    (void)n;
    (void)payload;
    inputs[0] = weft_from_local(inputs[0], mesh, &tokens, NULL);
    return inputs[0] ? WEFT_OK : weft_error_status();
}

/* Norms under a sharded sequence: each rank has a term of their gradients, 2 h numbers a layer,
 * summed once a step, all in one. */
WT_TEST_IN_WORLD(bytes__norms_of_a_sharded_sequence_send_2h_per_layer, w)
{
    for (int64_t width = 16; width <= 48; width += 32) {
        weft_module *layer = weft_sequential_new();
        weft_ledger_sum sum;
        weft_optim *sgd;

        for (int i = 0; i < 2; i++)
            WEFT_CHECK(
                weft_module_add_child(layer, i ? "second" : "first",
                                      weft_rms_norm_new((weft_norm_config){.width = width})));
        WEFT_CHECK(weft_distribute_module(layer, w->mesh, NULL, spread_tokens, NULL, NULL));
        sgd = weft_sgd(layer, (weft_sgd_config){.lr = 0.1});
        weft_ledger_reset(w->ledger);
        WT_ALL(weft_backward(weft_sum_all(weft_call(layer, wt_whole3(WEFT_F32, 0, 2, 3, width)))) ==
               WEFT_OK);
        WT_ALL(weft_step(sgd) == WEFT_OK);
        sum = weft_ledger_total(w->ledger, WEFT_COLL_ALL_REDUCE, WEFT_DIRECTION_OPTIM, NULL);
        WT_EQ(sum.count, wt_ranks() > 1);
        WT_EQ(sum.coalesced, sum.count);
        WT_EQ(sum.bytes, wt_ranks() > 1 ? 2 * width * 4 : 0);
        weft_optim_release(sgd);
        weft_module_release(layer);
    }
}

/* COMM-13: whatever the shards; nothing is padded, so there is no padding to count (and trap 29 of
 * other libraries: what is cast is cast before it is sent) */
WT_TEST_IN_WORLD(bytes__moving_in_bf16_halves_them, w)
{
    static const weft_redistribute_options half = {.forward = WEFT_AS(WEFT_BF16)};
    weft_placement whole = weft_replicate();

    for (int64_t rows = 5; rows <= 16; rows += 11) {
        weft_tensor *t = wt_spread(w, wt_whole(WEFT_F32, 0, rows, 6), "S(0)");
        weft_ledger_sum full, halved;

        weft_ledger_reset(w->ledger);
        WT_ALL(weft_redistribute(t, &whole) != NULL);
        full = weft_ledger_total(w->ledger, WEFT_COLL_ALL_GATHER, FORWARD, NULL);
        weft_ledger_reset(w->ledger);
        WT_ALL(weft_redistribute_with(t, &whole, &half) != NULL);
        halved = weft_ledger_total(w->ledger, WEFT_COLL_ALL_GATHER, FORWARD, NULL);
        WT_EQ(full.count, wt_ranks() > 1);
        WT_EQ(halved.count, full.count);
        WT_EQ(full.bytes, wt_ranks() > 1 ? rows * 6 * 4 : 0);
        WT_EQ(2 * halved.bytes, full.bytes);
        WT_EQ(full.sent, weft_local_numel(t) * 4 * (wt_ranks() - 1));
        WT_EQ(2 * halved.sent, full.sent);
    }
}

int main(int argc, char **argv) { return wt_main(argc, argv, "bytes"); }
