/*
 * test_vit_convolution.c: the Vision Transformer of examples/vit, whose patches a convolution makes
 * words of, equals transformers under its plan: logits, gradients, losses and weights after three
 * steps of AdamW. Six heads, 30 hidden features and 7 classes divide by few numbers of ranks.
 */
/* mpi: 2 */
#include "models/reference.h"
#include "models/vit.h"
#include "vit/model.h"

enum { LAYERS = 2, FEATURES = 24 };

static weft_module *make(void)
{
    return vit_model_new((struct vit_model){.channels = 3,
                                            .height = 12,
                                            .width = 8,
                                            .patch = 4,
                                            .features = FEATURES,
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

/* Words are gathered, each block sums twice, and the loss sends its maximum and its sums; backward
 * the inputs of qkv, up and head. The convolution itself sends nothing. */
WT_TEST(vit_convolution__equals_transformers)
{
    reference_check(
        &vit, vit_model_plan,
        (struct reference_count){.forward = 1 + 2 * LAYERS + 2, .backward = 2 * LAYERS + 1});
}

/* Every rank has its own features of the patches: rows of the weight, with all channels. */
WT_TEST(vit_convolution__is_split_by_features)
{
    weft_mesh *mesh = wt_own(given_mesh());
    weft_module *m = wt_own(make());
    weft_tensor *weight;
    int64_t rows = weft_chunk_size(FEATURES, wt_ranks(), weft_world_rank());

    WT_EQ(weft_parallelize_module_strict(m, mesh, vit_model_plan), WEFT_OK);
    weight = weft_module_parameter(m, "patch.weight");
    WT_ALL(wt_has_shape(weight, 4, FEATURES, 3, 4, 4));
    WT_ALL(given_is(weight, "S(0)") && given_is(weft_module_parameter(m, "patch.bias"), "S(0)"));
    WT_ALL(weft_local_numel(weight) == rows * 3 * 4 * 4);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "vit_convolution"); }
