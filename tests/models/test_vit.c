/*
 * test_vit.c: a Vision Transformer under plans equals transformers: logits, gradients, losses and
 * weights after three steps of AdamW. Six heads, 30 hidden features and 7 classes divide by few
 * numbers of ranks.
 */
/* mpi: 2 */
#include "models/reference.h"
#include "models/vit.h"

enum { LAYERS = 2 };

static weft_module *make(void)
{
    return vit_new((struct vit_config){.channels = 3,
                                       .height = 12,
                                       .width = 8,
                                       .patch = 4,
                                       .features = 24,
                                       .heads = 6,
                                       .hidden = 30,
                                       .layers = LAYERS,
                                       .classes = 7,
                                       .dtype = WEFT_F64});
}

static weft_tensor *call(weft_module *m, weft_weights *inputs, bool loss)
{
    weft_tensor *in[] = {reference_reals(inputs, "pixel_values"),
                         reference_numbers(inputs, "labels")};

    return weft_call_n(m, in, loss ? 2 : 1);
}

static const struct reference_model vit = {"vit", &vit_names, make, call};

#define BLOCKS                                                                                     \
    {"blocks.*.attn.qkv", {.kind = WEFT_STYLE_COLWISE}},                                           \
        {"blocks.*.attn.proj", {.kind = WEFT_STYLE_ROWWISE}},                                      \
        {"blocks.*.mlp.up", {.kind = WEFT_STYLE_COLWISE}},                                         \
    {                                                                                              \
        "blocks.*.mlp.down", { .kind = WEFT_STYLE_ROWWISE }                                        \
    }

/* Patches are gathered, and the loss sends its maximum and its sums; backward the inputs of qkv, up
 * and head. */
/* trial 4.4 */
WT_TEST(vit__column_wise_ends_equal_transformers)
{
    static const weft_plan plan[] = {
        {"patch", {.kind = WEFT_STYLE_COLWISE, .options = {.output_layouts = "R"}}},
        BLOCKS,
        {"head", {.kind = WEFT_STYLE_COLWISE, .options = {.keep_distributed = true}}},
        {"loss", {.kind = WEFT_STYLE_LOSS}},
        {0},
    };

    reference_check(
        &vit, plan,
        (struct reference_count){.forward = 1 + 2 * LAYERS + 2, .backward = 2 * LAYERS + 1});
}

/* Channels of the patches and features of the head are split: two sums forward, and backward the
 * gradient of the head's input is gathered. */
/* trial 4.4 */
WT_TEST(vit__row_wise_ends_equal_transformers)
{
    static const weft_plan plan[] = {
        {"patch", {.kind = WEFT_STYLE_ROWWISE, .options = {.input_layouts = "R"}}},
        BLOCKS,
        {"head", {.kind = WEFT_STYLE_ROWWISE, .options = {.input_layouts = "R"}}},
        {0},
    };

    reference_check(
        &vit, plan,
        (struct reference_count){.forward = 2 + 2 * LAYERS, .backward = 2 * LAYERS + 1});
}

int main(int argc, char **argv) { return wt_main(argc, argv, "vit"); }
