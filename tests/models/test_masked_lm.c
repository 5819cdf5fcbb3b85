/*
 * test_masked_lm.c: a BERT that says which words were masked equals transformers under plans: its
 * head shares the embedding's weight, whose row for padding gets a gradient from the head alone.
 */
/* mpi: 2 */
#include "models/reference.h"

enum { VOCAB = 19, WIDTH = 12, LAYERS = 2 };

static weft_module *make_with(bool untied)
{
    return weft_bert((weft_bert_config){.vocab = VOCAB,
                                        .context = 10,
                                        .width = WIDTH,
                                        .heads = 3,
                                        .layers = LAYERS,
                                        .hidden = 20,
                                        .padding_idx = WEFT_PADDING_ZERO,
                                        .masked_lm = true,
                                        .untied = untied,
                                        .dtype = WEFT_F64});
}

static weft_module *make(void) { return make_with(false); }

static weft_tensor *call(weft_module *m, weft_weights *inputs, bool loss)
{
    weft_tensor *in[] = {
        reference_numbers(inputs, "input_ids"),
        weft_cast(reference_numbers(inputs, "attention_mask"), WEFT_BOOL),
    };
    weft_tensor *hidden = weft_call_n(m, in, 2);

    if (!loss) return weft_bert_masked_lm(m, hidden);
    return weft_bert_masked_lm_loss(m, hidden, reference_numbers(inputs, "labels"));
}

static struct reference_model model(void)
{
    return (struct reference_model){"bert_mlm", weft_weight_names_of_family("bert"), make, call};
}

/* Forward: the embedding, attention and MLP of each layer, two for the loss. Backward: the inputs
 * of qkv, up and head. */
/* trial 4.4 */
WT_TEST(masked_lm__equals_transformers)
{
    struct reference_model bert = model();

    reference_check(
        &bert, weft_bert_plan(),
        (struct reference_count){.forward = 1 + 2 * LAYERS + 2, .backward = 2 * LAYERS + 1});
}

/* trial 4.4 */
WT_TEST(masked_lm__with_a_replicated_embedding_equals_too)
{
    static const weft_plan plan[] = {
        {"blocks.*.attn.qkv", {.kind = WEFT_STYLE_COLWISE}},
        {"blocks.*.attn.proj", {.kind = WEFT_STYLE_ROWWISE}},
        {"blocks.*.mlp.up", {.kind = WEFT_STYLE_COLWISE}},
        {"blocks.*.mlp.down", {.kind = WEFT_STYLE_ROWWISE}},
        {0},
    };
    struct reference_model bert = model();

    reference_check(&bert, plan,
                    (struct reference_count){.forward = 2 * LAYERS, .backward = 2 * LAYERS});
}

/* Forward: a reduce-scatter for each of two tables, two gathers and two reduce-scatters in a layer,
 * the whole hidden states, two for the loss. Backward: the same turned round without those of the
 * loss, and the input of the head; then biases and norms in one message. */
/* trial 4.4 */
WT_TEST(masked_lm__with_sequence_parallelism_equals_too)
{
    struct reference_model bert = model();

    reference_check(&bert, weft_bert_plan_sequence(),
                    (struct reference_count){.forward = 2 + 4 * LAYERS + 1 + 2,
                                             .backward = 2 + 4 * LAYERS + 1 + 1,
                                             .optim = 1});
}

/* A tied model is one tensor in two places; an untied one loads the same file into both. */
/* trial 4.4 */
WT_TEST(masked_lm__ties_its_head_unless_told)
{
    weft_module *tied = wt_own(make()), *untied = wt_own(make_with(true));
    weft_module *bare = wt_own(weft_bert(
        (weft_bert_config){.vocab = VOCAB, .context = 4, .width = WIDTH, .heads = 3, .layers = 1}));

    WT_ALL(weft_module_parameter(tied, "head.weight") == weft_module_parameter(tied, "wte.weight"));
    WT_ALL(weft_module_parameter(untied, "head.weight") !=
           weft_module_parameter(untied, "wte.weight"));
    WT_FAILS(weft_bert_pooled(tied, weft_module_parameter(tied, "wte.weight")), WEFT_ERR_NOT_FOUND,
             "no pooler");
    WT_FAILS(weft_bert_masked_lm(bare, weft_module_parameter(bare, "wte.weight")),
             WEFT_ERR_NOT_FOUND, "no masked_lm");
}

int main(int argc, char **argv) { return wt_main(argc, argv, "masked_lm"); }
