/*
 * test_dropout.c: dropout of attention weights: the same weights at every number of ranks, for
 * heads and groups that divide and that do not, with masks, recomputed, and none in evaluation.
 */
/* mpi: 3 */
#include "support/given.h"
#include "support/near_modules.h"

enum { VOCAB = 13, BATCH = 2, TOKENS = 5, LAYERS = 2 };

enum family { GPT, LLAMA, BY_HEADS, BERT };

struct model {
    enum family family;
    int64_t heads, groups;
    double p;
    weft_recompute recompute;
};

static weft_module *decoder(const struct model *c)
{
    if (c->family == GPT)
        return weft_gpt((weft_gpt_config){.vocab = VOCAB,
                                          .context = TOKENS,
                                          .width = 4 * c->heads,
                                          .heads = c->heads,
                                          .layers = LAYERS,
                                          .dtype = WEFT_F64,
                                          .attention_dropout = c->p,
                                          .recompute = c->recompute});
    return weft_llama((weft_llama_config){.vocab = VOCAB,
                                          .width = 10,
                                          .heads = c->heads,
                                          .kv_heads = c->groups,
                                          .by_heads = c->family == BY_HEADS,
                                          .layers = LAYERS,
                                          .hidden = 9,
                                          .dtype = WEFT_F64,
                                          .head_dim = 6,
                                          .attention_bias = c->family == LLAMA,
                                          .mlp_bias = true,
                                          .attention_dropout = c->p,
                                          .recompute = c->recompute});
}

static weft_module *make(const struct model *c)
{
    weft_manual_seed(7);
    if (c->family != BERT) return wt_own(decoder(c));
    return wt_own(weft_bert((weft_bert_config){.vocab = VOCAB,
                                               .context = TOKENS,
                                               .width = 4 * c->heads,
                                               .heads = c->heads,
                                               .layers = LAYERS,
                                               .dtype = WEFT_F64,
                                               .attention_dropout = c->p,
                                               .recompute = c->recompute}));
}

static weft_tensor *padding(void)
{
    int64_t shape[] = {BATCH, TOKENS};
    bool seen[BATCH * TOKENS];

    for (int i = 0; i < BATCH * TOKENS; i++) seen[i] = i < BATCH * TOKENS - 2;
    return weft_from_data(WEFT_BOOL, shape, 2, seen);
}

static weft_tensor *run(weft_module *m, const struct model *c)
{
    weft_tensor *in[] = {given_tokens(BATCH, TOKENS, VOCAB, 3), padding()}, *y;

    weft_manual_seed(2);
    if (c->family != BERT) return weft_gpt_loss(m, in[0], given_tokens(BATCH, TOKENS, VOCAB, 8));
    y = weft_call_n(m, in, 2);
    return y ? weft_sum_all(weft_mul(y, given_like(y))) : NULL;
}

static void check(const struct model *c, const weft_plan *plan)
{
    weft_mesh *mesh = wt_own(given_mesh());
    weft_module *one = make(c), *many = make(c);
    weft_tensor *want, *got;

    WT_EQ(weft_parallelize_module_strict(many, mesh, plan), WEFT_OK);
    want = run(one, c);
    got = run(many, c);
    WT_ALL(wt_near_tensors(got, want, WT_WITHIN(1e-11)));
    WT_EQ(weft_backward(want), WEFT_OK);
    WT_EQ(weft_backward(got), WEFT_OK);
    WT_NEAR_GRADIENTS(many, one, WT_WITHIN(1e-11));
    weft_module_train(one, false);
    weft_module_train(many, false);
    WT_ALL(wt_near_tensors(run(many, c), run(one, c), WT_WITHIN(1e-11)));
}

WT_TEST(dropout__of_weights_is_the_same_at_every_number_of_ranks)
{
    static const struct model models[] = {
        {.family = GPT, .heads = 8, .p = 0.3},
        {.family = GPT, .heads = 3, .p = 0.3},
        {.family = LLAMA, .heads = 6, .groups = 3, .p = 0.3},
        {.family = LLAMA, .heads = 4, .groups = 4, .p = 0.3},
        {.family = BY_HEADS, .heads = 8, .groups = 2, .p = 0.3},
        {.family = BY_HEADS, .heads = 5, .groups = 1, .p = 0.3},
        {.family = BERT, .heads = 3, .p = 0.3},
        {.family = GPT, .heads = 3, .p = 0.3, .recompute = WEFT_RECOMPUTE_BLOCK},
        {.family = LLAMA, .heads = 6, .groups = 2, .p = 1},
    };

    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        bool bert = models[i].family == BERT;

        wt_row("model %d", (int)i);
        check(&models[i], bert ? weft_bert_plan() : weft_gpt_plan());
        check(&models[i], bert ? weft_bert_plan_sequence() : weft_gpt_plan_sequence());
    }
}

/* A product that stays distributed is dropped alike. */
WT_TEST(dropout__does_not_depend_on_how_heads_are_handed_on)
{
    static const char text[] = "blocks.*.attn.qkv colwise keep\nblocks.*.attn.proj rowwise\n";
    static const struct model models[] = {{.family = GPT, .heads = 3, .p = 0.3},
                                          {.family = LLAMA, .heads = 6, .groups = 3, .p = 0.3}};
    weft_plan *plan = wt_own(weft_plan_parse(text));

    for (int i = 0; i < 2; i++) check(&models[i], plan);
}

/* Step by step, nothing dropped, attention is what the kernel computes; some dropped, it is not,
 * and the mean over many draws is. */
WT_TEST(dropout__leaves_the_mean_as_it_is)
{
    enum { DRAWS = 400 };
    const struct model few = {.family = LLAMA, .heads = 4, .groups = 2, .p = 1e-13};
    const struct model some = {.family = BERT, .heads = 2, .p = 0.2};
    weft_module *m = make(&few);
    weft_tensor *train = run(m, &few), *mean, *eval;

    weft_module_train(m, false);
    WT_ALL(wt_near_tensors(train, run(m, &few), WT_WITHIN(1e-11)));
    weft_manual_seed(4);
    m = wt_own(weft_attention_new((weft_attention_config){
        .width = 8, .heads = 2, .bidirectional = true, .dropout = some.p, .dtype = WEFT_F64}));
    weft_no_grad_open();
    train = weft_call(m, given(0, 1, TOKENS, 8));
    mean = weft_mul_scalar(train, 1 / (double)DRAWS);
    for (int i = 1; i < DRAWS; i++)
        mean = weft_add(mean,
                        weft_mul_scalar(weft_call(m, given(0, 1, TOKENS, 8)), 1 / (double)DRAWS));
    weft_module_train(m, false);
    eval = weft_call(m, given(0, 1, TOKENS, 8));
    WT_ALL(weft_item(weft_amax(weft_square(weft_sub(train, eval)), NULL, 0, false)) > 0.01);
    WT_ALL(wt_near_tensors(mean, eval, WT_WITHIN(0.05)));
    WT_ALL(!weft_attention_new((weft_attention_config){.width = 8, .heads = 2, .dropout = 1.5}));
    weft_error_clear();
    weft_no_grad_close();
}

/* A mask that is added hides keys by the lowest number of its dtype, also step by step. */
WT_TEST(dropout__keeps_keys_hidden_in_any_dtype)
{
    static const weft_dtype dtypes[] = {WEFT_F32, WEFT_BF16, WEFT_F16};
    static const double lowest[] = {-3e38, -3e38, -65504}, within[] = {1e-5, 3e-2, 4e-3};

    for (int i = 0; i < 3; i++) {
        double mask[TOKENS] = {0};
        int64_t shape[] = {1, TOKENS};
        weft_module *m;
        weft_tensor *in[2], *train;

        mask[1] = mask[TOKENS - 1] = lowest[i];
        weft_manual_seed(4);
        m = wt_own(weft_attention_new((weft_attention_config){
            .width = 8, .heads = 2, .bidirectional = true, .dropout = 1e-13, .dtype = dtypes[i]}));
        in[0] = weft_cast(given(0, 1, TOKENS, 8), dtypes[i]);
        in[1] = weft_cast(weft_from_data(WEFT_F64, shape, 2, mask), dtypes[i]);
        train = weft_call_n(m, in, 2);
        weft_module_train(m, false);
        WT_ALL(wt_near_tensors(train, weft_call_n(m, in, 2), WT_WITHIN(within[i])));
    }
}

int main(int argc, char **argv) { return wt_main(argc, argv, "dropout"); }
