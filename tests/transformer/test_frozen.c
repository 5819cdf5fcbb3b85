/*
 * test_frozen.c: a transformer of which few parameters are trained. Only gradients that somebody
 * needs are computed and communicated, and what is frozen stays frozen under every style.
 */
/* mpi: 4 */
#include "transformer/pair.h"
#include "transformer/toy.h"

static weft_optim *adam(weft_module *m) { return weft_adamw(m, (weft_adamw_config){.lr = 0.25}); }

struct row {
    const char *train[7]; /* beginnings of paths; NULL ends */
    struct pair_count backward;
    int partial;
};

static void check_row(const struct row *row, struct toy_config config, struct toy_plan plan,
                      int64_t length)
{
    const int n = config.layers;
    const struct pair_count whole = {.all_reduce = 2 + 2 * n, .all_gather = 1};
    const struct pair_count parts = {.reduce_scatter = 2 + 2 * n, .all_gather = 2 + 2 * n};
    weft_tensor *one, *many;
    struct pair p;

    wt_row("%s, %d tokens, %d hidden", row->train[0], (int)length, (int)config.hidden);
    p = pair_open(toy_new(config), toy_new(config), config.dtype);
    pair_train_only(p.one, row->train);
    pair_train_only(p.many, row->train);
    WT_EQ(toy_parallelize(p.many, wt_own(given_mesh()), plan), WEFT_OK);
    pair_optimize(&p, adam);
    for (int step = 0; step < 3; step++) {
        many = pair_forward(&p, toy_tokens(8, length, config.vocab, step), &one,
                            plan.sequence ? parts : whole);
        if (step == 2) break;
        pair_backward(&p, one, many, row->backward, row->partial);
        if (step == 0)
            pair_gradients(&p);
        else
            pair_step(&p, row->partial);
    }
}

static void check(const struct row *row, bool sequence)
{
    struct toy_config config = {.vocab = 8,
                                .length = 16,
                                .dim = 16,
                                .heads = 4,
                                .hidden = 64,
                                .layers = 2,
                                .dtype = WEFT_F64};
    struct toy_plan plan = {.sequence = sequence};

    check_row(row, config, plan, wt_ranks() == 3 ? 9 : 8);
    config.dtype = WEFT_F32;
    config.vocab = 13;
    config.hidden = 10;
    plan.keep = sequence;
    check_row(row, config, plan, 11);
}

/* EX-07: nothing below the last norm needs a gradient, so the one collective is that of the
 * output's input. The step is one all-reduce of both partial gradients; the peer reduces each three
 * times. */
WT_TEST(frozen__all_but_the_end)
{
    static const struct row row = {{"output", "norm"}, {.reduce_scatter = 1}, 2};

    check(&row, true);
}

/* EX-08: gradients go all the way down, but not to the positions. */
WT_TEST(frozen__all_but_tokens_and_output)
{
    static const struct row row = {
        {"tok_embeddings", "output"}, {.reduce_scatter = 5, .all_gather = 5}, 0};

    check(&row, true);
}

/* EX-09, EX-10: and some norms; one all-reduce for two gradients and for four (6 and 12 in the
 * peer). */
WT_TEST(frozen__all_but_ends_and_norms)
{
    static const struct row one = {
        {"tok_embeddings", "output", "norm"}, {.reduce_scatter = 5, .all_gather = 5}, 2};
    static const struct row two = {{"tok_embeddings", "output", "norm", "layers.1.ffn_norm"},
                                   {.reduce_scatter = 5, .all_gather = 5},
                                   4};

    check(&one, true);
    check(&two, true);
}

/* The same rule elsewhere: from the output down to what is trained, and no further. */
WT_TEST(frozen__a_layer_in_the_middle)
{
    static const struct row layer = {{"layers.1"}, {.reduce_scatter = 3, .all_gather = 2}, 4};
    static const struct row feeding = {
        {"layers.1.feed_forward"}, {.reduce_scatter = 1, .all_gather = 1}, 0};
    static const struct row below = {
        {"layers.0.attention.wo"}, {.reduce_scatter = 4, .all_gather = 4}, 0};
    static const struct row positions = {
        {"pos_embeddings"}, {.reduce_scatter = 5, .all_gather = 5}, 0};

    check(&layer, true);
    check(&feeding, true);
    check(&below, true);
    check(&positions, true);
}

/* Single weights and biases here and there, as the peer varies them: of each pair one gradient is a
 * partial sum, the norm's. */
WT_TEST(frozen__all_but_single_parameters)
{
    static const struct row varied = {{"tok_embeddings.weight", "layers.0.attention.wv.weight",
                                       "layers.0.feed_forward.w1.bias", "layers.1.ffn_norm.bias",
                                       "layers.1.feed_forward.w2.weight", "output.weight"},
                                      {.reduce_scatter = 5, .all_gather = 5},
                                      1};
    static const struct row biases = {{"layers.0.feed_forward.w2.bias", "layers.1.ffn_norm.weight"},
                                      {.reduce_scatter = 3, .all_gather = 3},
                                      1};

    check(&varied, true);
    check(&biases, true);
}

/* Without parts of the sequence, each of wq, wk, wv, w1 and output sums its input's gradient. */
WT_TEST(frozen__on_whole_sequences)
{
    static const struct row end = {{"output", "norm"}, {.all_reduce = 1}, 0};
    static const struct row ends = {{"tok_embeddings", "output"}, {.all_reduce = 9}, 0};
    static const struct row output = {{"output"}, {0}, 0};
    static const struct row layer = {{"layers.1.attention.w"}, {.all_reduce = 2}, 0};

    check(&end, false);
    check(&ends, false);
    check(&output, false);
    check(&layer, false);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "frozen"); }
