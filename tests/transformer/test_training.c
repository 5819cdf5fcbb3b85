/*
 * test_training.c: a transformer of one's own, spread by a plan, equals one device in outputs,
 * gradients, parameters after a step of Adam, and outputs after that; and communicates what its
 * plan says, no more.
 */
/* mpi: 4 */
#include "transformer/pair.h"
#include "transformer/toy.h"

static const struct toy_config even = {
    .vocab = 8, .length = 16, .dim = 16, .heads = 4, .hidden = 64, .layers = 2};

/* Sizes that four ranks do not divide. */
static const struct toy_config uneven = {
    .vocab = 10, .length = 16, .dim = 20, .heads = 4, .hidden = 38, .layers = 2};

/* Fewer of everything than eight ranks; three heads. */
static const struct toy_config few = {
    .vocab = 5, .length = 3, .dim = 6, .heads = 3, .hidden = 7, .layers = 1};

static weft_optim *adam(weft_module *m) { return weft_adamw(m, (weft_adamw_config){.lr = 0.25}); }

static void train(struct toy_config config, weft_dtype dtype, struct toy_plan plan, int64_t length)
{
    struct pair_count forward, backward;
    struct pair p;
    int n = config.layers, partial = plan.sequence || plan.keep ? 4 * n + 2 : 0;
    weft_tensor *one, *many;

    wt_row("%d words, %d tokens, %s%s", (int)config.vocab, (int)length,
           plan.sequence ? "sequence" : "whole", plan.keep ? ", kept" : "");
    config.dtype = dtype;
    p = pair_open(toy_new(config), toy_new(config), dtype);
    WT_EQ(toy_parallelize(p.many, wt_own(given_mesh()), plan), WEFT_OK);
    pair_optimize(&p, adam);
    /* forward: embeddings, wo and w2 of each layer are sums; the output is gathered. backward: the
     * inputs of wq, wk, wv, w1 and output. By parts of the sequence wq, wk and wv share theirs. */
    forward = (struct pair_count){.all_reduce = 2 + 2 * n, .all_gather = 1};
    backward = (struct pair_count){.all_reduce = 4 * n + 1};
    /* Distributed all the way, gradients stay sums up to where they were made: fewer. */
    if (plan.keep) backward.all_reduce = 2 + 2 * n;
    if (plan.sequence) {
        forward = (struct pair_count){.reduce_scatter = 2 + 2 * n, .all_gather = 2 + 2 * n};
        backward = (struct pair_count){.reduce_scatter = 2 * n + 1, .all_gather = 2 + 2 * n};
    }
    for (int step = 0; step < 3; step++) {
        many = pair_forward(&p, toy_tokens(8, length, config.vocab, 3 * step), &one, forward);
        if (step == 2) break;
        pair_backward(&p, one, many, backward, partial);
        if (step == 0)
            pair_gradients(&p); /* reads them, which reduces what is partial */
        else
            pair_step(&p, partial);
    }
}

static struct toy_config tied(struct toy_config config)
{
    config.tied = true;
    return config;
}

static const struct toy_plan whole = {0}, sequence = {.sequence = true};
static const struct toy_plan whole_kept = {.keep = true},
                             sequence_kept = {.sequence = true, .keep = true};

/* EX-04 */
WT_TEST(transformer__equals_one_device)
{
    train(tied(even), WEFT_F32, whole, 8);
    train(tied(even), WEFT_F64, whole, 8);
    train(tied(even), WEFT_F64, whole, 13);
}

/* EX-06: the peer's figures; the ten gradients of norms that are partial are one all-reduce of the
 * step, where the peer has thirty. */
WT_TEST(transformer__by_parts_of_the_sequence)
{
    int64_t tokens = wt_ranks() == 3 ? 6 : 8;

    train(even, WEFT_F32, sequence, tokens);
    train(even, WEFT_F64, sequence, 2 * tokens);
    train(tied(even), WEFT_F64, sequence, tokens);
    train(even, WEFT_F64, whole, tokens);
}

/* EX-13: what is handed on as a part may be uneven where the next layer knows the size of the
 * whole: vocabulary, hidden features and heads. */
WT_TEST(transformer__of_sizes_that_do_not_divide)
{
    train(tied(uneven), WEFT_F64, whole, 6);
    train(tied(few), WEFT_F64, whole, 3);
    train(tied(uneven), WEFT_F64, whole_kept, 6);
    train(few, WEFT_F32, whole_kept, 3);
}

/* EX-13: tokens that do not divide stay distributed from module to module. */
WT_TEST(transformer__by_uneven_parts_of_the_sequence)
{
    train(even, WEFT_F64, sequence_kept, 8);
    train(uneven, WEFT_F64, sequence_kept, 6);
    train(tied(uneven), WEFT_F32, sequence_kept, 6);
    train(tied(few), WEFT_F64, sequence_kept, 3);
    train(few, WEFT_F64, sequence_kept, 2);
}

/* EX-13: handed on as plain shards, no rank can tell how long the sequence is. The peer infers
 * another length on each rank, and errs or hangs. */
WT_TEST(transformer__refuses_uneven_parts_that_are_plain)
{
    weft_mesh *mesh = wt_own(weft_mesh_new(wt_device(), "tp=%d", wt_ranks()));
    weft_module *toy = wt_own(toy_new(uneven));
    int64_t length = wt_ranks() + 1;

    WT_EQ(toy_parallelize(toy, mesh, sequence), WEFT_OK);
    if (wt_ranks() > 1)
        WT_FAILS(weft_call(toy, toy_tokens(2, length, uneven.vocab, 1)), WEFT_ERR_LAYOUT,
                 "on axis tp ranks hold shards of different sizes");
    WT_ALL(weft_call(toy, toy_tokens(2, length - 1, uneven.vocab, 1)));
}

/* Weights without a dim for heads, as other libraries have them: the ranks divide the heads. */
WT_TEST(transformer__with_flat_heads)
{
    struct toy_config flat = even;

    flat.flat = true;
    if (flat.heads % wt_ranks() != 0) flat.heads = flat.dim = 8 * wt_ranks();
    train(flat, WEFT_F64, whole, 8);
    train(flat, WEFT_F64, sequence_kept, 7);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "training"); }
