/*
 * model.h: a Vision Transformer (Dosovitskiy et al. 2021), written for one device, and a plan that
 * spreads it over a mesh axis.
 */
#pragma once

#include <weft/weft.h>

struct vit_model {
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
weft_module *vit_model_new(struct vit_model model);

/**
 * Features of the patches, heads, hidden features and classes over the ranks. The stream between
 * the blocks is whole on every rank; logits stay spread by classes.
 */
extern const weft_plan vit_model_plan[];
