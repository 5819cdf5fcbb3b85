/* vit.h: a Vision Transformer (Dosovitskiy et al. 2021), written with public modules as a user
 * would. */
#pragma once

#include <weft/weft.h>

struct vit_config {
    int64_t channels, height, width, patch; /* of images, and the edge of a patch */
    int64_t features, heads, hidden;
    int layers;
    int64_t classes;
    weft_dtype dtype;
};

/**
 * (images [B,channels,height,width] [, classes [B]]) -> logits [B,classes], or the mean loss.
 *
 * Parameter cls; children patch, positions, blocks.0 ..., norm, head, loss.
 */
weft_module *vit_new(struct vit_config config);

/** How transformers names the weights. */
extern const weft_weight_names vit_names;
