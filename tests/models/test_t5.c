/*
 * test_t5.c: a T5, spread by heads, equals transformers on texts of several lengths: logits,
 * gradients (that of the relative positions too, which all layers of a stack share), losses and
 * weights after three steps of AdamW.
 */
/* mpi: 2 */
#include "models/reference.h"
#include "models/t5.h"

enum { LAYERS = 2 };

static weft_module *make(void)
{
    return t5_new((struct t5_config){.vocab = 17,
                                     .width = 12,
                                     .head_dim = 3,
                                     .heads = 6,
                                     .hidden = 20,
                                     .layers = LAYERS,
                                     .buckets = 8,
                                     .distance = 10,
                                     .dtype = WEFT_F64});
}

static weft_tensor *call(weft_module *m, weft_weights *inputs, bool loss)
{
    weft_tensor *in[] = {
        reference_numbers(inputs, "input_ids"),
        weft_cast(reference_numbers(inputs, "attention_mask"), WEFT_BOOL),
        reference_numbers(inputs, "decoder_input_ids"),
        reference_numbers(inputs, "labels"),
    };

    return weft_call_n(m, in, loss ? 4 : 3);
}

static const struct reference_model t5 = {"t5", &t5_names, make, call};

#define LAYER_PLAN                                                                                 \
    {"*.layers.*.sa.qkv", {.kind = WEFT_STYLE_COLWISE}},                                           \
        {"*.layers.*.sa.proj", {.kind = WEFT_STYLE_ROWWISE}},                                      \
        {"decoder.layers.*.ca.q", {.kind = WEFT_STYLE_COLWISE}},                                   \
        {"decoder.layers.*.ca.kv", {.kind = WEFT_STYLE_COLWISE}},                                  \
        {"decoder.layers.*.ca.proj", {.kind = WEFT_STYLE_ROWWISE}},                                \
        {"*.layers.*.ff.up", {.kind = WEFT_STYLE_COLWISE}},                                        \
    {                                                                                              \
        "*.layers.*.ff.down", { .kind = WEFT_STYLE_ROWWISE }                                       \
    }

/*
 * Forward: the embedding twice, each attention and MLP once, three for the loss (its maximum, its
 * sums; nothing for the head). Backward: the inputs of qkv, q, kv, up and head. The bias of the
 * relative positions is looked up and summed where its heads are.
 */
/* trial 4.4 */
WT_TEST(t5__by_heads_equals_transformers)
{
    static const weft_plan plan[] = {
        {"shared", {.kind = WEFT_STYLE_ROWWISE}},
        {"*.rel", {.kind = WEFT_STYLE_COLWISE}},
        LAYER_PLAN,
        {"head", {.kind = WEFT_STYLE_COLWISE, .options = {.keep_distributed = true}}},
        {"loss", {.kind = WEFT_STYLE_LOSS}},
        {0},
    };

    reference_check(
        &t5, plan,
        (struct reference_count){.forward = 2 + 5 * LAYERS + 2, .backward = 6 * LAYERS + 1});
}

/* The table of relative positions is split by rows: its bias is a sum, scattered by heads in each
 * stack, and its gradient gathered. */
/* trial 4.4 */
WT_TEST(t5__relative_positions_by_rows_equal_too)
{
    static const weft_plan plan[] = {
        {"*.rel", {.kind = WEFT_STYLE_ROWWISE, .options = {.output_layouts = "S(-1)"}}},
        LAYER_PLAN,
        {0},
    };

    reference_check(
        &t5, plan, (struct reference_count){.forward = 5 * LAYERS + 2, .backward = 6 * LAYERS + 2});
}

int main(int argc, char **argv) { return wt_main(argc, argv, "t5"); }
